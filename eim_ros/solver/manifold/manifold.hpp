// Even sampling of the self-motion manifold of a redundant arm, mainly if it has more than one dimension.
//
// Let t be the direction of the null-space projection (I - J^+ J) d. A step h t from a solution q changes the pose only
// by terms of order h^2. A few Newton steps then lead to a new solution at about the requested distance. The sampling
// grows from all solutions at once and keeps only points that are at least a spacing from all others. This is
// Poisson-disk sampling (Bridson 2007) on the manifold.
#pragma once

#include "manifold/gaps.hpp"
#include "manifold/null_space.hpp"

namespace eim {

inline constexpr int kBatch = 96;                  // steps that are corrected together
inline constexpr double kManifoldForesight = 0.7;  // like kForesight
// if a smaller share of steps leads to new points, almost all reachable points are known
inline constexpr double kLeastYield = 0.08;
inline constexpr double kSpare = 1.25;  // number of seeds for each solution requested in gaps

// Adds the ends of steps from a point, forward and back along random directions, that are far from all known points.
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

// Adds solutions to `points`, which are solutions of the task. New solutions are at least kSpacing steps from all
// others.
//
// The function ends when almost no step leads to a new point, or when there are `most` points.
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

// Adds solutions to `points` by continuation, one step from each other along the self-motion, until there are `most`.
//
// If continuation finds fewer solutions and `finest` is not negative, gaps are divided evenly as long as successive
// solutions differ by more than `finest` in some joint. New solutions are kSpacing steps from the given solutions, or
// differ by more than `finest`.
template <int N>
inline void trace(const Chain& chain, const Task& task, const ContinuationOptions& spread, double seed, Index most,
                  Configurations& points) {
    const Index n_roots = points.size();
    Trace places = Continuation<N>(chain, task, spread, seed).run(points, int(most - n_roots));
    Places known(task.bounds, points.n_joints);
    for (Index i = 0; i < n_roots; ++i) known.add(points.row(i));
    const auto add = [&](Configurations seeds) {  // seeds are close to solutions, so one step usually suffices
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

// Adds solutions to `points` along the self-motion until there are `most`. A self-motion with one dimension is followed
// by continuation. Others are sampled from all points at once.
template <int N>
inline void spread_over(const Chain& chain, const Task& task, const ContinuationOptions& spread, double seed,
                        Index most, Configurations& points) {
    if (spread.redundancy < 1 || points.size() == 0 || points.size() >= most) return;
    if (spread.redundancy == 1 && !task.has_tolerances) return trace<N>(chain, task, spread, seed, most, points);
    grow<N>(chain, task, spread, seed, most, points);
}

}  // namespace eim
