// Capability of an arm at a pose: the number of components, their length, and the distance from singularity.
#pragma once

#include "manifold/manifold.hpp"
#include "numerics/chunks.hpp"
#include "search/self_motions.hpp"

namespace eim {

inline constexpr Index kChartChunk = 64;

struct Chart {
    double n_solutions = 0.0;  // number of verified solutions, about one spacing apart
    double n_components = 0.0;
    double length = 0.0;          // length of self-motions within the limits [rad, m]
    double manipulability = 0.0;  // largest product of the singular values of the Jacobian
};

// Adds solutions to `points`, which are solutions of the task, until all curves through them are covered. Successive
// solutions on a curve then differ by about `finest` in some joint. The total number of points is at most `most`.
template <int N>
inline void fill_curves(const Chain& chain, const Task& task, const ContinuationOptions& spread, double seed,
                        Index most, Configurations& points) {
    const Index n_roots = points.size();
    if (n_roots == 0 || n_roots >= most) return;
    SelfMotions motions(chain, task, seed);
    motions.trace<N>(chain, points);
    Rows near(motions.places().filled(spread.finest, most));
    run_rows<N>(chain, task, {task.position_tolerance, task.orientation_tolerance, 3, 3}, RowJobs::all(near));
    verify_rows<N>(chain, task, near);
    Places known(task.bounds, points.n_joints);
    for (Index i = 0; i < n_roots; ++i) known.add(points.row(i));
    for (Index i = 0; i < near.size() && points.size() < most; ++i) {
        if (!near.converged[i] || known.has_duplicate(near.row(i), 0.5 * spread.finest)) continue;
        points.add(near.row(i)), known.add(near.row(i));
    }
}

template <int N>
inline double best_manipulability(const Chain& chain, const Task& task, const Configurations& solutions) {
    WideDouble best{};
    for_packs<N>(chain, solutions.positions.data(), solutions.size(), [&](auto& at, Index, int) {
        differentiate<N>(chain, at);
        const Damped<WideDouble> factor = factorised<N>(chain, at.jacobian, task.position_only, WideDouble{});
        WideDouble product = fill<WideDouble>(1.0);
        for (int k = 0; k < factor.n; ++k) product *= 1.0 / factor.lower[k][k];  // sqrt det(J J^T)
        best = larger(best, product);
    });
    double most = 0.0;
    for (int lane = 0; lane < kLanes<WideDouble>; ++lane) most = std::max(most, get(best, lane));
    return most;
}

// Charts the solutions of a task. Seeds for curves ignore the limits. Seeds for points, and for manifolds of more than
// one dimension, are within the limits.
template <int N>
inline Chart chart(const Chain& chain, const Task& task, const StepOptions& effort, const ContinuationOptions& spread,
                   int n_seeds, Random random) {
    Chart result;
    Configurations solutions{chain.n_joints};
    const double radius = spread.redundancy > 0 ? kSpacing * spread.step : spread.finest;
    if (spread.redundancy == 1) {
        SelfMotions motions(chain, task, random.uniform());
        motions.search<N>(chain, {0.99, 1.0, spread.deadline, effort, n_seeds, n_seeds});
        for (const Component& component : motions.components()) result.length += component.length;
        result.n_components = double(motions.components().size());
        bool is_late = false;
        solutions = motions.places().divided(kMaxComponents, radius, spread.deadline, is_late);
    } else {
        Rows seeds({chain.n_joints});
        seeds.resize(n_seeds);
        for (double& value : seeds.positions) {
            const Index j = (&value - seeds.positions.data()) % chain.n_joints;
            value = random.uniform(task.bounds.lower[j], task.bounds.upper[j]);
        }
        refine_rows<N>(chain, task, effort, seeds);
        Places known(task.bounds, chain.n_joints);
        for (Index i = 0; i < n_seeds; ++i) {
            if (!seeds.converged[i] || known.has_near(seeds.row(i), radius)) continue;
            known.add(seeds.row(i)), solutions.add(seeds.row(i));
        }
    }
    if (solutions.size() == 0) return result;
    Rows rows(std::move(solutions));
    run_rows<N>(chain, task, {task.position_tolerance, task.orientation_tolerance, 3, 3}, RowJobs::all(rows));
    verify_rows<N>(chain, task, rows);
    Configurations valid{chain.n_joints};
    for (Index i = 0; i < rows.size(); ++i) {
        if (rows.converged[i]) valid.add(rows.row(i));
    }
    result.n_solutions = double(valid.size());
    if (spread.redundancy != 1) result.n_components = result.n_solutions;
    if (valid.size() > 0) result.manipulability = best_manipulability<N>(chain, task, valid);
    return result;
}

// Charts poses (n, 4, 4) on several threads. The number of each pose determines its seeds.
template <int N>
inline void chart_poses(const Chain& chain, const Task& task, const StepOptions& effort,
                        const ContinuationOptions& spread, int n_seeds, const double* targets,
                        const std::uint64_t* numbers, Index n, int n_threads, Chart* charts) {
    for_chunks(n, kChartChunk, n_threads, [&](Index, Index first, Index last) {
        Task own = task;
        for (Index i = first; i < last; ++i) {
            std::copy_n(targets + 16 * i, 12, &own.target[0][0]);
            Random random(0.0);
            random.state = numbers[i] * 0xD1342543DE82EF95u + 0x2545F4914F6CDD1Du;
            random.uniform();
            charts[i] = chart<N>(chain, own, effort, spread, n_seeds, random);
        }
    });
}

}  // namespace eim
