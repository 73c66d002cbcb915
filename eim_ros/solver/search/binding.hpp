// Searches for one pose and for many as parts of the Python module. Included by binding.cpp.
#pragma once

#include "chain/binding.hpp"
#include "numerics/binding.hpp"
#include "search/batch.hpp"
#include "search/charts.hpp"
#include "search/restarts.hpp"
#include "search/search_round.hpp"

namespace eim {

using Numbers = Converted<std::uint64_t>;

inline py::tuple solve_all(const Chain& chain, const Task& task, const StepOptions& effort,
                           const Converted<double>& targets, int max_restarts, double seed) {
    expect_shape(targets, "poses", {kAny, 4, 4});
    Rows rows({chain.n_joints});
    rows.resize(targets.shape(0));
    run_unlocked(
        chain, [&]<int N>() { solve_rows<N>(chain, task, effort, targets.data(), max_restarts, Random(seed), rows); });
    return tuple_of(rows);
}

// Runs one round with the experts for a pose.
inline void run_round(const Chain& chain, const Task& task, const SearchRound& round, const py::tuple& conditional,
                      const Converted<double>& given, const Converted<bool>& continuous, Found& found) {
    const Converted<double> log_weights = conditional[1].cast<Converted<double>>(),
                            contexts = conditional[2].cast<Converted<double>>();
    const Mixture mixture = mixture_of(conditional[0].cast<const Experts&>(), log_weights, contexts);
    const Configurations seeds = rows_of(chain, given);
    expect_shape(continuous, "continuous", {chain.n_joints});
    expect(found.rows.n_joints == chain.n_joints, "what was found is of other joints");
    expect(round.n_drawn == 0 || (mixture.experts.n_dims == chain.n_joints && mixture.n_components() > 0),
           "the mixture has other joints");
    expect(round.n_uniform >= 0 && round.n_drawn >= 0, "seeds cannot be fewer than none");
    run_unlocked(chain,
                 [&]<int N>() { search_round<N>(chain, task, mixture, round, seeds, continuous.data(), found); });
}

inline void keep(Found& found, const Converted<bool>& mask) {
    expect_shape(mask, "mask", {found.size()});
    found.keep(reinterpret_cast<const std::uint8_t*>(mask.data()));
}

// Positions, errors (2, n) and experts.
inline py::tuple rows_found(const Found& found) {
    return py::make_tuple(positions_of(found.rows), errors_of(found.rows),
                          copy_of(found.experts, {Index(found.size())}));
}

// Positions, errors (2, k), valid (k,), counts (n,) and whether time was up (n,).
inline py::tuple solve_poses(const Chain& chain, const Task& task, const StepOptions& effort,
                             const Converted<double>& targets, const Numbers& numbers,
                             const Converted<std::int64_t>& patience, int n_wanted, double distinct_tolerance,
                             int n_threads, double deadline) {
    expect_shape(targets, "poses", {kAny, 4, 4});
    const Index n = targets.shape(0);
    expect_shape(numbers, "numbers", {n}), expect_shape(patience, "patience", {n});
    expect(n_wanted > 0 && n_threads > 0, "at least one solution, and one thread");
    const Batch batch{targets.data(), numbers.data(),     patience.data(), n,       n_wanted,
                      n_threads,      distinct_tolerance, effort,          deadline};
    BatchRows found{Rows({chain.n_joints}), {}, {}};
    run_unlocked(chain, [&]<int N>() { found = solve_batch<N>(chain, task, batch); });
    const Rows& rows = found.rows;
    const auto flags = [](const std::vector<std::uint8_t>& from) {
        return py::array_t<bool>(Index(from.size()), reinterpret_cast<const bool*>(from.data()));
    };
    return py::make_tuple(positions_of(rows), errors_of(rows), flags(rows.converged), copy_of(found.counts, {n}),
                          flags(found.outcomes));
}

// Returns the given solutions (n, n_joints), and others that fill all curves through them.
inline Converted<double> fill_self_motions(const Chain& chain, const Task& task, const ContinuationOptions& spread,
                                           const Converted<double>& solutions, Index most, double seed) {
    expect_shape(solutions, "solutions", {kAny, chain.n_joints});
    expect(spread.redundancy == 1 && spread.finest > 0.0, "only curves can be filled");
    Configurations points{chain.n_joints, {solutions.data(), solutions.data() + solutions.size()}};
    run_unlocked(chain, [&]<int N>() { fill_curves<N>(chain, task, spread, seed, most, points); });
    return copy_of(points.positions, {points.size(), Index(chain.n_joints)});
}

// Number of solutions, number of components, length and manipulability (n, 4).
inline Converted<double> chart_many(const Chain& chain, const Task& task, const StepOptions& effort,
                                    const ContinuationOptions& spread, const Converted<double>& targets,
                                    const Numbers& numbers, int n_seeds, int n_threads) {
    expect_shape(targets, "poses", {kAny, 4, 4});
    const Index n = targets.shape(0);
    expect_shape(numbers, "numbers", {n});
    expect(n_seeds > 0 && n_threads > 0, "at least one seed, and one thread");
    std::vector<Chart> charts(n);
    run_unlocked(chain, [&]<int N>() {
        chart_poses<N>(chain, task, effort, spread, n_seeds, targets.data(), numbers.data(), n, n_threads,
                       charts.data());
    });
    Converted<double> result({n, Index(4)});
    double* out = result.mutable_data();
    for (const Chart& chart : charts) {
        *out++ = chart.n_solutions, *out++ = chart.n_components, *out++ = chart.length, *out++ = chart.manipulability;
    }
    return result;
}

inline void bind_search(py::module_& module, py::class_<Chain>& chain) {
    module.attr("NO_EXPERT") = kNoExpert;
    module.def("solve_poses", solve_poses);
    module.def("fill_self_motions", fill_self_motions);
    module.def("chart_poses", chart_many);
    chain.def("solve", solve_all);
    chain.def("search_round", run_round);
    py::class_<SearchRound>(module, "SearchRound", py::module_local())
        .def(py::init([] { return SearchRound{}; }))
        .def_readwrite("n_uniform", &SearchRound::n_uniform)
        .def_readwrite("n_drawn", &SearchRound::n_drawn)
        .def_readwrite("tempering", &SearchRound::tempering)
        .def_readwrite("stratified", &SearchRound::stratified)
        .def_readwrite("distinct_tolerance", &SearchRound::distinct_tolerance)
        .def_readwrite("has_continued", &SearchRound::has_continued)
        .def_readwrite("fewest_roots", &SearchRound::fewest_roots)
        .def_readwrite("n_wanted", &SearchRound::n_wanted)
        .def_readwrite("spread", &SearchRound::spread)
        .def_readwrite("effort", &SearchRound::effort)
        .def_readwrite("seed", &SearchRound::seed);
    py::class_<Found>(module, "Found", py::module_local())
        .def(py::init<int>())
        .def("__len__", &Found::size)
        .def("keep", keep)
        .def_property_readonly("rows", rows_found)
        .def_property_readonly("best", [](const Found& f) { return copy_of(f.best, {Index(1), Index(f.best.size())}); })
        .def_readonly("n_seeded", &Found::n_seeded)
        .def_readonly("n_remote", &Found::n_remote);
}

}  // namespace eim
