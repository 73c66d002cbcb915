// Rules for the roots of closed forms: how they are polished and compared, and which of them are within limits.
#pragma once

#include "chain/attempts.hpp"
#include "closed_form/closed_form.hpp"

namespace eim {

inline constexpr StepOptions kPolish{1e-12, 1e-12, 25, 1};  // ends at rounding errors; several steps where roots meet
inline constexpr double kExactRoot = 1e-9;                  // [m], [rad]: errors of exact roots, up to rounding
// [rad]: a solution that is not exact and this close to a root counts as the root
inline constexpr double kMerged = 0.05;

// A set is undecided if a root is so close to a limit that its error decides whether it is within the limit.
inline constexpr double kCloseToLimit = 1e-3;  // [rad]: no error is larger

inline Motion motion_of(const double (&rows)[3][4]) {
    Motion motion;
    for (int k = 0; k < 3; ++k) motion.rows[k] = {rows[k][0], rows[k][1], rows[k][2]};
    motion.translation = {rows[0][3], rows[1][3], rows[2][3]};
    return motion;
}

// Largest difference of a joint between two configurations, measured on the circle.
inline double largest_difference(const double* a, const double* b, int n_joints) {
    double most = 0.0;
    for (int j = 0; j < n_joints; ++j) most = std::max(most, std::abs(difference(a[j], b[j], true)));
    return most;
}

// Distance beyond a limit up to which a root is clamped to the limit, and solved again.
inline double slack_at_limits(const Task& task) {
    return std::min({task.position_tolerance, task.orientation_tolerance, 0.01});
}

// Length below which directions of a task are arbitrary, because the resulting errors are within its tolerances.
inline double free_below(const Task& task) {
    const double tolerance = std::min(task.position_tolerance, task.orientation_tolerance);
    return std::clamp(kShareOfTolerance * tolerance, kLeastFree, kFree);
}

// Values of a joint at full revolutions within the limits.
struct Turns {
    double first = 0.0;  // least value
    Index n = 0;

    // Limits are widened by a slack [rad] or [m]. A joint that slides has one value.
    Turns() = default;
    Turns(const Bounds<double>& bounds, int j, double value, double slack, bool slides) {
        if (slides) {
            first = value, n = value >= bounds.lower[j] - slack && value <= bounds.upper[j] + slack;
            return;
        }
        if (bounds.wraps[j]) {
            first = within(bounds, j, value), n = 1;
            return;
        }
        const double least = std::ceil((bounds.lower[j] - slack - value) / kTwoPi);
        const double most = std::floor((bounds.upper[j] + slack - value) / kTwoPi);
        first = value + kTwoPi * least, n = Index(std::clamp(most - least + 1.0, 0.0, 1e15));
    }
    double at(Index k) const { return first + kTwoPi * double(k); }
};

}  // namespace eim
