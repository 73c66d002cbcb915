// Configurations close to a solution are led to it: one step of the refiner is enough for most.
#pragma once

#include <vector>

#include "refine.hpp"

namespace eim {

inline constexpr int kPolishes = 3;  // steps at most

// Takes one step from each of n rows (n, n_joints), in place, and tells which are solutions after it.
template <int N>
inline void step_rows(const Chain& chain, const Task& task, double* rows, std::ptrdiff_t n, std::uint8_t* valid) {
    using V = WideDouble;
    const int n_joints = joints_of<N>(chain);
    const Frame<V> target = target_of<V>(task.target);
    Kinematics<V, N> at;
    Difference<V> error;
    V q[kJoints<N>], y[6];
    for (std::ptrdiff_t first = 0; first < n; first += kLanes<V>) {
        const int n_lanes = load_rows(rows, first, n, n_joints, q);
        forward<N>(chain, q, at);
        pose_difference(at.tip, target, task.position_only, error);
        differentiate<N>(chain, at);
        hold_at_limits<N>(chain, task.bounds, q, error.vector, at.jacobian);
        const V square = error.distance * error.distance + error.angle * error.angle;
        const V damping = kDamping<double> * square + kDampingFloor<double>;
        solve(factorised<N>(chain, at.jacobian, task.position_only, damping), error.vector, y);
        move<N>(chain, task.bounds, at.jacobian, y, q);
        forward<N>(chain, q, at);
        pose_difference(at.tip, target, task.position_only, error);
        for (int lane = 0; lane < n_lanes; ++lane) {
            double* row = rows + (first + lane) * n_joints;
            for (int j = 0; j < n_joints; ++j) row[j] = get(q[j], lane);
            valid[first + lane] = get(error.distance, lane) <= task.position_tolerance &&
                                  get(error.angle, lane) <= task.orientation_tolerance &&
                                  is_inside(task.bounds, row, n_joints);
        }
    }
}

// Solutions (k, n_joints) to which rows (n, n_joints), all of them close to one, lead.
//
// k <= n; of those that take more than one step some may be left out once there are n_wanted.
template <int N>
inline std::vector<double> polished(const Chain& chain, const Task& task, std::vector<double> rows,
                                    std::size_t n_wanted) {
    const std::size_t n_joints = joints_of<N>(chain);
    std::vector<double> solutions, left;
    std::vector<std::uint8_t> valid;
    for (int i = 0; i < kPolishes && solutions.size() < n_wanted * n_joints && !rows.empty(); ++i) {
        valid.resize(rows.size() / n_joints);
        step_rows<N>(chain, task, rows.data(), valid.size(), valid.data());
        left.clear();
        for (std::size_t row = 0; row < valid.size(); ++row) {
            std::vector<double>& to = valid[row] ? solutions : left;
            to.insert(to.end(), rows.begin() + row * n_joints, rows.begin() + (row + 1) * n_joints);
        }
        rows.swap(left);
    }
    return solutions;
}

}  // namespace eim
