// Program that traces self-motions of poses until a deadline that has passed at the second reading of the clock.
// test_curve_tracer.py writes the chain, the joint limits and the poses to standard input. The program prints the
// number of traces that the deadline ended, and the number of graphs with a link that has no reverse.
#include <cstdio>
#include <iostream>
#include <thread>
#include <vector>

#include "search/self_motions.hpp"

using namespace eim;

// Delays the first reading of the clock by more than the least time of a trace.
struct Sleeper : ClockListener {
    bool has_slept = false;
    void hear(double) override {
        if (!has_slept) std::this_thread::sleep_for(std::chrono::duration<double>(1.1 * kLeastTracing));
        has_slept = true;
    }
    void skip(double) override {}
};

static double number() {
    double value = 0.0;
    std::cin >> value;
    return value;
}

static bool has_broken_link(const CurveGraph& graph) {
    for (int i = 0; i < graph.size(); ++i) {
        for (int side = 0; side < 2; ++side) {
            const CurveGraph::Link to = graph.link(i, side);
            if (to.place < 0) continue;
            const CurveGraph::Link back = graph.link(to.place, to.side);
            if (back.place != i || back.side != side) return true;
        }
    }
    return false;
}

int main() {
    const int n_rows = int(number()), n = int(number()), n_poses = int(number());
    std::vector<double> rows;
    for (int i = 0; i < 16 * n_rows; ++i) rows.push_back(number());
    const Chain chain(rows.data(), n_rows, n);
    Task task{};
    task.position_tolerance = task.orientation_tolerance = 1e-6;
    for (int j = 0; j < n; ++j) {
        task.bounds.lower[j] = number(), task.bounds.upper[j] = number(), task.bounds.wraps[j] = number() != 0.0;
    }
    Random random(0.5);
    int n_late = 0, n_broken = 0;
    for (int pose = 0; pose < n_poses; ++pose) {
        for (auto& row : task.target) {
            for (double& value : row) value = number();
        }
        const Task free = without_limits(chain, task);
        Configurations starts{n};
        for (int k = 0; k < 24; ++k) {
            double q[kMostJoints];
            for (int j = 0; j < n; ++j) q[j] = random.uniform(-kPi, kPi);
            starts.add(q);
        }
        Rows roots(starts);
        refine_rows<7>(chain, free, {1e-6, 1e-6, 100, 61}, roots);
        CurveGraph graph(free.bounds, n);
        Sleeper sleeper;
        clock_listener = &sleeper;
        n_late += !CurveTracer<7>(chain, free, graph, random).run(Configurations{n, roots.positions}, 0.0);
        clock_listener = nullptr;
        n_broken += has_broken_link(graph);
    }
    std::printf("%d %d\n", n_late, n_broken);
}
