// What the solver does with many poses at once, as Python sees it.
#pragma once

#include "numerics/arrays.hpp"
#include "paths/transitions.hpp"
#include "search/batch.hpp"
#include "search/charts.hpp"

namespace eim {

using Numbers = Converted<std::uint64_t>;
using Counts = Converted<std::int64_t>;

// Positions, errors (2, k), valid (k,), counts (n,) and whether time was up (n,).
inline py::tuple solve_poses(const Chain& chain, const Task& task, const Effort& effort,
                             const Converted<double>& targets, const Numbers& numbers, const Counts& patience,
                             int n_wanted, double distinct_tolerance, int n_threads, double deadline) {
    expect_shape(targets, "poses", {kAny, 4, 4});
    const Index n = targets.shape(0);
    expect_shape(numbers, "numbers", {n}), expect_shape(patience, "patience", {n});
    expect(n_wanted > 0 && n_threads > 0, "at least one solution, and one thread");
    const Batch batch{targets.data(), numbers.data(),     patience.data(), n,       n_wanted,
                      n_threads,      distinct_tolerance, effort,          deadline};
    BatchRows found{Rows({chain.n_joints}), {}, {}};
    {
        Unlocked unlocked;
        for_kind(chain, [&]<int N>() { found = solve_batch<N>(chain, task, batch); });
    }
    const Rows& rows = found.rows;
    Converted<double> errors({Index(2), rows.size()});
    std::copy(rows.distances.begin(), rows.distances.end(), errors.mutable_data());
    std::copy(rows.angles.begin(), rows.angles.end(), errors.mutable_data() + rows.size());
    const auto flags = [](const std::vector<std::uint8_t>& from) {
        return py::array_t<bool>(Index(from.size()), reinterpret_cast<const bool*>(from.data()));
    };
    return py::make_tuple(copy_of(rows.positions, {rows.size(), Index(rows.n_joints)}), errors, flags(rows.converged),
                          copy_of(found.counts, {n}), flags(found.outcomes));
}

// The given solutions (n, n_joints), and others such that all of the curves through them are held.
inline Converted<double> fill_self_motions(const Chain& chain, const Task& task, const Spread& spread,
                                           const Converted<double>& solutions, Index most, double seed) {
    expect_shape(solutions, "solutions", {kAny, chain.n_joints});
    expect(spread.redundancy == 1 && spread.finest > 0.0, "only curves can be filled");
    Configurations points{chain.n_joints, {solutions.data(), solutions.data() + solutions.size()}};
    {
        Unlocked unlocked;
        for_kind(chain, [&]<int N>() { fill_curves<N>(chain, task, spread, seed, most, points); });
    }
    return copy_of(points.positions, {points.size(), Index(chain.n_joints)});
}

// Number of solutions and of families, length and manipulability (n, 4).
inline Converted<double> chart_many(const Chain& chain, const Task& task, const Effort& effort, const Spread& spread,
                                    const Converted<double>& targets, const Numbers& numbers, int n_seeds,
                                    int n_threads) {
    expect_shape(targets, "poses", {kAny, 4, 4});
    const Index n = targets.shape(0);
    expect_shape(numbers, "numbers", {n});
    expect(n_seeds > 0 && n_threads > 0, "at least one seed, and one thread");
    std::vector<Chart> charts(n);
    {
        Unlocked unlocked;
        for_kind(chain, [&]<int N>() {
            chart_poses<N>(chain, task, effort, spread, n_seeds, targets.data(), numbers.data(), n, n_threads,
                           charts.data());
        });
    }
    Converted<double> result({n, Index(4)});
    double* out = result.mutable_data();
    for (const Chart& chart : charts) {
        *out++ = chart.n_solutions, *out++ = chart.n_families, *out++ = chart.length, *out++ = chart.manipulability;
    }
    return result;
}

inline Transitions transitions_of(const Converted<double>& rows, const Counts& counts, const Converted<bool>& wraps,
                                  double largest) {
    expect_shape(rows, "configurations", {kAny, wraps.size()});
    std::int64_t sum = 0;
    for (Index i = 0; i < counts.size(); ++i) {
        expect(counts.data()[i] >= 0, "counts cannot be negative");
        sum += counts.data()[i];
    }
    expect(sum == rows.shape(0), "counts must add up to the number of configurations");
    return Transitions(rows.data(), counts.data(), counts.size(), wraps.data(), int(wraps.size()), largest);
}

// Number of the chosen one of each layer, -1 where it has none.
inline py::array_t<std::int64_t> shortest_path(const Converted<double>& rows, const Counts& counts,
                                               const Converted<bool>& wraps, double largest, double penalty) {
    const Transitions graph = transitions_of(rows, counts, wraps, largest);
    std::vector<std::int64_t> chosen;
    {
        Unlocked unlocked;
        chosen = graph.shortest(penalty);
    }
    return copy_of(chosen, {Index(chosen.size())});
}

// Which configurations lie on an allowed path (n,), how many layers it reaches, and the least step to the next one.
inline py::tuple path_reach(const Converted<double>& rows, const Counts& counts, const Converted<bool>& wraps,
                            double largest) {
    const Transitions graph = transitions_of(rows, counts, wraps, largest);
    Transitions::Reach found;
    {
        Unlocked unlocked;
        found = graph.reach();
    }
    const auto* flags = reinterpret_cast<const bool*>(found.is_on_path.data());
    return py::make_tuple(py::array_t<bool>(Index(found.is_on_path.size()), flags), found.n_reached, found.nearest);
}

inline void bind_many(py::module_& module) {
    module.def("solve_poses", solve_poses);
    module.def("fill_self_motions", fill_self_motions);
    module.def("chart_poses", chart_many);
    module.def("shortest_path", shortest_path);
    module.def("path_reach", path_reach);
}

}  // namespace eim
