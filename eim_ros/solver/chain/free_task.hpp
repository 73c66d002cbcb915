// A task without limits of revolute joints. Self-motions are traced for this task.
#pragma once

#include "chain/task.hpp"
#include "numerics/clock.hpp"

namespace eim {

// Fills the period of each joint: 2 pi if a revolution returns all links to their poses, otherwise 0.
inline void find_periods(const Chain& chain, double* period) {
    std::fill_n(period, chain.n_joints, kTwoPi);
    for (int i = 0; i < chain.n_links; ++i) {
        const Link<double>& link = chain.links[i];
        if (link.slides || link.multiplier != std::floor(link.multiplier)) period[link.source] = 0.0;
    }
}

// Removes the limits of revolute joints from a task. Fixed joints stay fixed.
inline Task without_limits(const Chain& chain, const Task& task) {
    Task free = task;
    double period[kMostJoints];
    find_periods(chain, period);
    for (int j = 0; j < chain.n_joints; ++j) {
        if (period[j] == 0.0 || task.bounds.lower[j] == task.bounds.upper[j]) continue;
        free.bounds.lower[j] = -kPi, free.bounds.upper[j] = kPi, free.bounds.wraps[j] = true;
        free.single_bounds.lower[j] = float(-kPi), free.single_bounds.upper[j] = float(kPi);
        free.single_bounds.wraps[j] = true;
    }
    return free;
}

}  // namespace eim
