// The self-motion manifold of a redundant arm sampled evenly, where it has more than one dimension.
//
// From a solution q a step along the null space of its Jacobian, h t with t in the direction of (I - J^+ J) d, leaves
// the pose by the second order of h only, and some steps of the refiner lead back: a new solution, at a wanted
// distance. Growing from all solutions at once, and keeping only points that are at least a spacing away from every
// other, is Poisson-disk sampling (Bridson 2007) on the manifold.
#pragma once

#include "gaps.hpp"
#include "null_space.hpp"

namespace eim {

inline constexpr int kBatch = 96;                  // steps that are led back to the pose side by side
inline constexpr double kManifoldForesight = 0.7;  // as kForesight
inline constexpr double kLeastYield = 0.08;        // new points per step tried, below which all in reach is about known
inline constexpr double kSpare = 1.25;             // seeds polished for each solution wanted between others
inline constexpr Effort kStepBack{0.0, 0.0, 10, 3};

// Solutions, of which there may be as many as capacity; (capacity, n_joints).
struct Points {
    double* rows;
    int n, capacity, n_joints;

    double* row(int i) const { return rows + std::ptrdiff_t(i) * n_joints; }
    void add(const double* point) { std::copy_n(point, n_joints, row(n++)); }
};

// Steps from a point, forth and back along each of some random directions, that lead away from all that is known.
template <int N>
inline void append_steps(const NullSpace<N>& null_space, const double* point, double step, int n_directions,
                         Random& random, const Places& known, std::vector<double>& ends) {
    const Task& task = null_space.task;
    const int n_joints = joints_of<N>(null_space.chain);
    const double foreseen = kManifoldForesight * kSpacing * step;
    double direction[kJoints<N>], tangent[kJoints<N>], end[kJoints<N>];
    Places own(task.bounds, n_joints);
    for (int d = 0; d < 2 * n_directions; ++d) {
        for (int j = 0; j < n_joints; ++j) direction[j] = d % 2 == 0 ? random.uniform(-1.0, 1.0) : -direction[j];
        if (!null_space.project(point, direction, tangent)) continue;
        for (int j = 0; j < n_joints; ++j) {
            const double x = point[j] + step * tangent[j];
            end[j] = task.bounds.wraps[j] ? x : std::clamp(x, task.bounds.lower[j], task.bounds.upper[j]);
        }
        if (own.has_near(end, foreseen) || known.has_near(end, foreseen)) continue;
        own.add(end);
        ends.insert(ends.end(), end, end + n_joints);
    }
}

// Appends solutions to points, all of them solutions of the task, at least kSpacing steps from all others.
//
// Ends when hardly any step leads to a new point, or the capacity is used up.
template <int N>
inline void grow(const Chain& chain, const Task& task, const Spread& spread, double seed, Points& points) {
    const int n_joints = points.n_joints, n_known = points.n;
    const double spacing = kSpacing * spread.step;
    const Effort effort{task.position_tolerance, task.orientation_tolerance, kStepBack.max_iterations,
                        kStepBack.patience};
    Random random(seed);
    Places known(task.bounds, n_joints), heads(task.bounds, n_joints);
    NullSpace<N> null_space{chain, task};
    std::vector<double> ends;
    for (int i = 0; i < points.n; ++i) known.add(points.row(i));
    int head = 0, n_tried = 0;
    while (head < points.n && points.n < points.capacity && points.n - n_known >= kLeastYield * n_tried &&
           !spread.is_late()) {
        ends.clear();
        const std::size_t enough = std::size_t(kBatch) * n_joints;
        for (int n_heads = 0; head < points.n && ends.size() < enough && n_heads < kBatch; ++head) {
            if (head < n_known && heads.has_near(points.row(head), spacing)) continue;
            if (head < n_known) heads.add(points.row(head));
            ++n_heads, n_tried += 2 * spread.redundancy;
            null_space.update(points.row(head));
            append_steps(null_space, points.row(head), spread.step, spread.redundancy, random, known, ends);
        }
        Results results(ends.size() / n_joints);
        const Rows rows = results.rows(ends.data(), n_joints);
        refine_rows<N>(chain, task, effort, rows);
        for (std::ptrdiff_t i = 0; i < rows.n && points.n < points.capacity; ++i) {
            if (!rows.converged[i] || known.has_near(rows.row(i), spacing)) continue;
            points.add(rows.row(i)), known.add(rows.row(i));
        }
    }
}

// Solutions to which rows (n, n_joints), all of them close to one, lead: for most one step is enough.
template <int N>
inline std::vector<double> polished(const Chain& chain, const Task& task, std::vector<double> rows) {
    const std::size_t n_joints = joints_of<N>(chain);
    Results results(rows.size() / n_joints);
    const Rows seeds = results.rows(rows.data(), int(n_joints));
    RowJobs<WideDouble, N> jobs{seeds};
    run_attempts<N, WideDouble>(chain, task, {task.position_tolerance, task.orientation_tolerance, 3, 3}, jobs);
    std::vector<double> solutions;
    for (std::ptrdiff_t i = 0; i < seeds.n; ++i) {
        if (seeds.converged[i]) solutions.insert(solutions.end(), seeds.row(i), seeds.row(i) + n_joints);
    }
    return solutions;
}

// Appends solutions to points by continuation, a step from each other along the curves.
//
// If the capacity is not used up and `finest` is not negative, gaps are divided evenly, as long as successive solutions
// differ by more than that in some joint. From those given the appended ones are kSpacing steps away, or differ by more
// than `finest`.
template <int N>
inline void trace(const Chain& chain, const Task& task, const Spread& spread, double seed, Points& points) {
    const int n_roots = points.n, n_joints = points.n_joints;
    Trace walked = Continuation<N>(chain, task, spread, seed).run(points.rows, n_roots, points.capacity - n_roots);
    Places known(task.bounds, n_joints);
    for (int i = 0; i < n_roots; ++i) known.add(points.row(i));
    const auto append = [&](const std::vector<double>& found) {
        for (std::size_t i = 0; i < found.size() && points.n < points.capacity; i += n_joints) {
            if (spread.finest >= 0.0 && known.has_duplicate(&found[i], spread.finest)) continue;  // polishing moved it
            points.add(&found[i]), known.add(&found[i]);
        }
    };
    std::vector<double> seeds;
    for (int i = n_roots; i < walked.size(); ++i) {
        if (walked.is_new[i]) seeds.insert(seeds.end(), walked.place(i), walked.place(i) + n_joints);
    }
    append(polished<N>(chain, task, std::move(seeds)));
    const int n_wanted = points.capacity - points.n;
    if (spread.finest < 0.0 || n_wanted == 0 || points.n == n_roots || spread.is_late()) return;
    append(polished<N>(chain, task, between(task.bounds, walked, spread.finest, int(kSpare * n_wanted) + 1)));
}

// Appends solutions to points along the self-motion: curves are traced, manifolds of more dimensions grown over.
template <int N>
inline void spread_over(const Chain& chain, const Task& task, const Spread& spread, double seed, Points& points) {
    if (spread.redundancy < 1 || points.n == 0) return;
    if (spread.redundancy == 1 && !task.has_tolerances) return trace<N>(chain, task, spread, seed, points);
    grow<N>(chain, task, spread, seed, points);
}

}  // namespace eim
