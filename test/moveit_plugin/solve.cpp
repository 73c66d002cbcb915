// Program that solves poses by the plugin's ArmSolver, without ROS or MoveIt. test_arm_solver.py writes the chain, the
// joints, and pairs of a pose and a state to standard input. The program prints a line per pose: CPU time [us], the
// number of solutions found by the search for all solutions, and the first solution, if any.
#include <cstdio>
#include <ctime>
#include <iostream>

#include "arm_solver.hpp"

using namespace eim_moveit;

static Clock::time_point in(double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

static double number() {
    double value = 0.0;
    std::cin >> value;
    return value;
}

int main() {
    const int n_rows = int(number()), n_joints = int(number()), n_poses = int(number());
    const double timeout = number(), timeout_for_all = number();
    std::vector<double> rows;
    for (int i = 0; i < 16 * n_rows; ++i) rows.push_back(number());
    std::vector<Joint> joints;
    for (int j = 0; j < n_joints; ++j) {
        const double lower = number(), upper = number();
        joints.push_back({lower, upper, number() != 0.0});
    }
    const ArmSolver solver(rows, joints);
    const Configuration unlimited(n_joints, std::numeric_limits<double>::infinity());
    for (int i = 0; i < n_poses; ++i) {
        double target[3][4];
        for (auto& row : target) {
            for (double& value : row) value = number();
        }
        Configuration state, first;
        for (int j = 0; j < n_joints; ++j) state.push_back(number());
        const eim::Task task = solver.task(target, state, unlimited);
        const std::clock_t began = std::clock();
        solver.search(task, state, in(timeout), [&](Configuration q) {
            first = std::move(q);
            return true;
        });
        const double seconds = double(std::clock() - began) / CLOCKS_PER_SEC;
        const std::vector<Configuration> all = solver.several(task, state, in(timeout_for_all), 1000);
        double before = 0.0;
        for (const Configuration& q : all) {
            double distance = 0.0;
            for (int j = 0; j < n_joints; ++j) distance += (q[j] - state[j]) * (q[j] - state[j]);
            if (distance < before) return std::fprintf(stderr, "a nearer solution comes later\n"), 1;
            before = distance;
        }
        std::printf("%.1f %d", 1e6 * seconds, int(all.size()));
        for (double value : first) std::printf(" %.17g", value);
        std::printf("\n");
    }
}
