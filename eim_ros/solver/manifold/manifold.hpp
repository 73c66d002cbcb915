// Even sampling of the self-motion of a redundant arm, mainly for self-motions of more than one dimension.
//
// Let t be the direction of the null-space projection (I - J^+ J) d. A step h t from a solution q changes the pose only
// by terms of order h^2. A few Newton steps therefore lead to a new solution at about the requested distance. The
// sampling grows from all solutions at once, and drops points that are closer than a spacing to another point. The
// method is Poisson-disk sampling (Bridson 2007) on a manifold.
#pragma once

#include "manifold/gaps.hpp"
#include "manifold/null_space.hpp"

namespace eim {

inline constexpr int kBatch = 96;                  // number of steps that are corrected together
inline constexpr double kManifoldForesight = 0.7;  // like kForesight, for manifolds
// least share of steps that lead to new points; below it, almost all reachable points are known
inline constexpr double kLeastYield = 0.08;
inline constexpr double kSpare = 1.25;  // number of seeds per solution requested in gaps

// Adds the ends of steps from a point that are far from all known points. The steps go forward and back along random
// directions of the null space.
template <int N>
inline void add_steps(const Chain& chain, const Task& task, const ContinuationOptions& spread, const double* point,
                      Random& random, const Places& known, Configurations& ends) {
    const int n_joints = joints_of<N>(chain);
    const double foreseen = kManifoldForesight * kSpacing * spread.step;
    double direction[kJoints<N>] = {}, tangent[kJoints<N>], end[kJoints<N>];
    Places own(task.bounds, n_joints);
    Kinematics<double, N> at;
    forward<N>(chain, point, at);
    differentiate<N>(chain, at);
    for (int d = 0; d < 2 * spread.redundancy; ++d) {
        for (int j = 0; j < n_joints; ++j) direction[j] = d % 2 == 0 ? random.uniform(-1.0, 1.0) : -direction[j];
        if (!project<N>(chain, task, at.jacobian, point, direction, tangent)) continue;
        for (int j = 0; j < n_joints; ++j) {
            const double x = point[j] + spread.step * tangent[j];
            end[j] = task.bounds.wraps[j] ? x : std::clamp(x, task.bounds.lower[j], task.bounds.upper[j]);
        }
        if (own.has_near(end, foreseen) || known.has_near(end, foreseen)) continue;
        own.add(end), ends.add(end);
    }
}

// Adds solutions to `points`, which are solutions of the task. Each new solution is at least kSpacing steps away from
// all other solutions.
//
// The function returns when almost no step leads to a new point, or when there are `most` points.
template <int N>
inline void grow(const Chain& chain, const Task& task, const ContinuationOptions& spread, double seed, Index most,
                 Configurations& points) {
    const Index n_known = points.size();
    const double spacing = kSpacing * spread.step;
    Random random(seed);
    Places known(task.bounds, points.n_joints), heads(task.bounds, points.n_joints);
    for (Index i = 0; i < n_known; ++i) known.add(points.row(i));
    Index head = 0, n_tried = 0;
    while (head < points.size() && points.size() < most && points.size() - n_known >= kLeastYield * n_tried &&
           !spread.is_late()) {
        Configurations steps{points.n_joints};
        for (int n_heads = 0; head < points.size() && steps.size() < kBatch && n_heads < kBatch; ++head) {
            if (head < n_known && heads.has_near(points.row(head), spacing)) continue;
            if (head < n_known) heads.add(points.row(head));
            ++n_heads, n_tried += 2 * spread.redundancy;
            add_steps<N>(chain, task, spread, points.row(head), random, known, steps);
        }
        Rows ends(std::move(steps));
        refine_rows<N>(chain, task, {task.position_tolerance, task.orientation_tolerance, 10, 3}, ends);
        for (Index i = 0; i < ends.size() && points.size() < most; ++i) {
            if (!ends.converged[i] || known.has_near(ends.row(i), spacing)) continue;
            points.add(ends.row(i)), known.add(ends.row(i));
        }
    }
}

// Adds solutions to `points` by continuation until there are `most`. Successive solutions are one step apart along the
// self-motion.
//
// If continuation finds fewer solutions and `finest` is not negative, gaps are divided evenly. Successive solutions
// still differ by more than `finest` in some joint. New solutions are kSpacing steps away from the given solutions, or
// differ from them by more than `finest`.
template <int N>
inline void trace(const Chain& chain, const Task& task, const ContinuationOptions& spread, double seed, Index most,
                  Configurations& points) {
    const Index n_roots = points.size();
    Trace places = Continuation<N>(chain, task, spread, seed).run(points, int(most - n_roots));
    Places known(task.bounds, points.n_joints);
    for (Index i = 0; i < n_roots; ++i) known.add(points.row(i));
    const auto add = [&](Configurations seeds) {  // one step usually suffices, because seeds are close to solutions
        Rows near(std::move(seeds));
        run_rows<N>(chain, task, {task.position_tolerance, task.orientation_tolerance, 3, 3}, RowJobs::all(near));
        for (Index i = 0; i < near.size() && points.size() < most; ++i) {
            if (!near.converged[i]) continue;
            if (spread.finest >= 0.0 && known.has_duplicate(near.row(i), spread.finest))
                continue;  // the seed converged to a known place
            points.add(near.row(i)), known.add(near.row(i));
        }
    };
    Configurations found{points.n_joints};
    for (int i = int(n_roots); i < places.size(); ++i) {
        if (places.is_new[i]) found.add(places.place(i));
    }
    add(std::move(found));
    const Index n_wanted = most - points.size();
    if (spread.finest < 0.0 || n_wanted == 0 || points.size() == n_roots || spread.is_late()) return;
    add(between(task.bounds, places, spread.finest, int(kSpare * double(n_wanted)) + 1));
}

// Adds solutions to `points` along the self-motion until there are `most`. Continuation is used if the self-motion has
// one dimension. Self-motions of more dimensions, or with tolerances, are sampled from all points at once.
template <int N>
inline void spread_over(const Chain& chain, const Task& task, const ContinuationOptions& spread, double seed,
                        Index most, Configurations& points) {
    if (spread.redundancy < 1 || points.size() == 0 || points.size() >= most) return;
    if (spread.redundancy == 1 && !task.has_tolerances) return trace<N>(chain, task, spread, seed, most, points);
    grow<N>(chain, task, spread, seed, most, points);
}

}  // namespace eim
