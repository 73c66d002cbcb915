// Rules for roots of closed forms: how they are polished and compared, and whether they are within limits.
#pragma once

#include "chain/attempts.hpp"
#include "closed_form/closed_form.hpp"
#include "numerics/singular_vectors.hpp"

namespace eim {

inline constexpr StepOptions kPolish{1e-12, 1e-12, 25, 1};  // down to rounding errors; more steps where roots meet
inline constexpr double kExactRoot = 1e-9;                  // [m], [rad]: largest error of an exact root
// [rad]: a solution that is not exact counts as an exact root at this distance or less
inline constexpr double kMerged = 0.05;

// The set of solutions is undecided if the error of a root decides whether the root is within a limit.
inline constexpr double kCloseToLimit = 1e-3;    // [rad]: largest error of a root
inline constexpr double kLeastResidual = 3e-15;  // [m, rad]: rounding error of poses and forward kinematics
inline constexpr double kErrors = 3.0;           // safety factor for estimated errors
inline constexpr double kDisplaced = 1e-3;       // [rad]: step for the change of a singular value

inline Motion motion_of(const double (&rows)[3][4]) {
    Motion motion;
    for (int k = 0; k < 3; ++k) motion.rows[k] = {rows[k][0], rows[k][1], rows[k][2]};
    motion.translation = {rows[0][3], rows[1][3], rows[2][3]};
    return motion;
}

// Returns the largest difference between two configurations in any joint, measured on the circle.
inline double largest_difference(const double* a, const double* b, int n_joints) {
    double most = 0.0;
    for (int j = 0; j < n_joints; ++j) most = std::max(most, std::abs(difference(a[j], b[j], true)));
    return most;
}

// Returns the distance beyond a limit up to which a root is clamped to the limit and solved again.
inline double slack_at_limits(const Task& task) {
    return std::min({task.position_tolerance, task.orientation_tolerance, 0.01});
}

// Returns the length below which directions are arbitrary. The resulting errors are within the tolerances of the task.
inline double free_below(const Task& task) {
    const double tolerance = std::min(task.position_tolerance, task.orientation_tolerance);
    return std::clamp(kShareOfTolerance * tolerance, kLeastFree, kFree);
}

// Returns an estimate of the error of a root, or of a member of a sweep, that misses the pose by `residual`.
//
// Let sigma be the least singular value of the Jacobian, v its direction, and c the rate of sigma along v. A motion of
// size e along v changes the pose by about max(sigma, c e) e. For a sweep, v is the second direction, because the first
// direction is the tangent of the sweep.
template <int N, class Part>
inline double error_of(const Chain& chain, const Part& part, const double* q, double residual, bool is_on_sweep) {
    const int k = is_on_sweep ? 1 : 0;
    double values[6], vectors[6][6], displaced[6], unused[6][6], at[N];
    const auto analyse = [&](double (&found)[6], double (&directions)[6][6]) {
        Kinematics<double, N> kinematics;
        forward<N>(chain, at, kinematics);
        differentiate<N>(chain, kinematics);
        double jacobian[6][6];
        for (int i = 0; i < 6; ++i) {
            for (int row = 0; row < 6; ++row) jacobian[row][i] = kinematics.jacobian[part.joint(i)][row];
        }
        singular_vectors(jacobian, found, directions);
    };
    std::copy_n(q, N, at);
    analyse(values, vectors);
    for (int i = 0; i < 6; ++i) at[part.joint(i)] += kDisplaced * vectors[i][k];
    analyse(displaced, unused);
    residual += kLeastResidual;
    return residual / std::max(values[k], std::sqrt(residual * displaced[k] / kDisplaced));
}

// Whether a root or a member of a sweep is so close to a limit that its error decides whether it is within the limits
// of the task. Roots that are closer to a limit than the slack, and their equivalents at the other limit, always count
// as within it.
template <int N, class Part>
inline bool is_between(const Chain& chain, const Part& part, const Task& task, const double* q, double residual,
                       bool is_on_sweep) {
    double gap = kPi;
    const double slack = slack_at_limits(task);
    for (int i = 0; i < 6; ++i) {
        const int j = part.joint(i);
        if (task.bounds.wraps[j]) continue;
        for (const double limit : {task.bounds.lower[j], task.bounds.upper[j]}) {
            const double away = std::abs(difference(q[j], limit, true));
            if (away > slack) gap = std::min(gap, away);
        }
    }
    return gap <= kCloseToLimit && gap <= kErrors * error_of<N>(chain, part, q, residual, is_on_sweep);
}

// Values of a joint that differ by full revolutions and are within the limits.
struct Turns {
    double first = 0.0;  // smallest value
    Index n = 0;

    // Limits are widened by `slack` [rad] or [m]. A prismatic joint has at most one value.
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
