// Python bindings for the searches for one pose and for many poses. `binding.cpp` includes this file.
#pragma once

#include "chain/binding.hpp"
#include "numerics/binding.hpp"
#include "search/batch.hpp"
#include "search/charts.hpp"
#include "search/search.hpp"

namespace eim {

using Numbers = Converted<std::uint64_t>;

// Number of attempts without a new solution after which the search for a pose ends. The number is smaller if the pose
// is beyond the reach of the arm.
struct Patience {
    double centre[3], farthest;
    std::int64_t within, beyond;

    std::int64_t at(const double* target) const {
        double square = 0.0;
        for (int k = 0; k < 3; ++k) square += (target[4 * k + 3] - centre[k]) * (target[4 * k + 3] - centre[k]);
        return std::sqrt(square) <= farthest ? within : beyond;
    }
};

inline Patience make_patience(const Converted<double>& centre, double farthest, std::int64_t within,
                              std::int64_t beyond) {
    expect_shape(centre, "centre", {3});
    return {{centre.at(0), centre.at(1), centre.at(2)}, farthest, within, beyond};
}

inline py::array_t<bool> flags_of(const std::vector<std::uint8_t>& from) {
    return py::array_t<bool>(Index(from.size()), reinterpret_cast<const bool*>(from.data()));
}

// Returns conditions that a Python function checks. The function takes configurations (n, n_joints), and returns
// whether each of them satisfies the conditions.
inline Conditions conditions_of(const py::object& function) {
    if (function.is_none()) return {};
    return [&function](const Rows& rows, Index first, std::vector<std::uint8_t>& marks) {
        const Locked locked;
        const Index n = rows.size() - first;
        const Converted<double> q({n, Index(rows.n_joints)}, rows.row(first));
        const auto allowed = function(q).cast<Converted<bool>>();
        expect_shape(allowed, "conditions", {n});
        for (Index i = 0; i < n; ++i) marks[std::size_t(first + i)] &= std::uint8_t(allowed.data()[i]);
    };
}

// Searches for solutions of poses (m, 4, 4). `conditional` contains the experts for each pose: (experts, log weights
// (m, c), contexts (m, c', n_context)). Returns positions (n, n_joints), errors (2, n), valid (n,), experts (n,),
// counts (m,), whether the deadline passed (m,), and the number of seeds (m,). If a pose has no solution, its only row
// is its best attempt, which is not valid.
inline py::tuple search_poses(const Chain& chain, const Task& task, const SearchOptions& options,
                              const Converted<double>& targets, const Converted<double>& seeds,
                              const Patience& patience, const py::tuple& conditional, const Converted<double>& near,
                              const Converted<bool>& continuous, const py::object& conditions, int n_threads,
                              double deadline) {
    const auto& experts = conditional[0].cast<const Experts&>();
    const auto log_weights = conditional[1].cast<Converted<double>>(),
               contexts = conditional[2].cast<Converted<double>>();
    expect_shape(targets, "poses", {kAny, 4, 4});
    const Index m = targets.shape(0);
    expect_shape(seeds, "seeds", {m});
    expect_shape(contexts, "contexts", {m, kAny, experts.n_context});
    expect_shape(log_weights, "log_weights", {m, contexts.shape(1) * experts.k});
    expect_shape(continuous, "continuous", {chain.n_joints});
    expect(experts.k == 0 || experts.n_dims == chain.n_joints, "the mixture must have one dimension for each joint");
    expect(options.n > 0 && n_threads > 0, "n and n_threads must be positive");
    const Configurations first = rows_of(chain, near);
    const Conditions allowed = conditions_of(conditions);
    std::vector<SearchResult> found(std::size_t(m), SearchResult(chain.n_joints));
    run_unlocked(chain, m == 1 && options.n <= kFewRows, [&]<int N>() {
        for_poses(
            m, 1, n_threads, deadline,
            [&](Index i, double end) {
                Task one = task;
                std::copy_n(targets.data() + 16 * i, 12, &one.target[0][0]);
                SearchOptions own = options;
                own.patience = patience.at(targets.data() + 16 * i), own.deadline = end;
                const Mixture mixture{experts, int(contexts.shape(1)), log_weights.data() + i * log_weights.shape(1),
                                      contexts.data() + i * contexts.shape(1) * experts.n_context};
                found[std::size_t(i)] =
                    Search<N>(chain, one, mixture, own, first, continuous.data(), allowed).run(seeds.data()[i]);
            },
            [&](Index i) { found[std::size_t(i)].is_late = true; });
    });
    Rows rows({chain.n_joints});
    std::vector<std::uint32_t> sources;
    std::vector<std::int64_t> counts, n_restarts;
    std::vector<std::uint8_t> late;
    const auto add = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    for (SearchResult& one : found) {
        add(rows.positions, one.rows.positions), add(rows.distances, one.rows.distances);
        add(rows.angles, one.rows.angles), add(rows.converged, one.rows.converged), add(sources, one.experts);
        counts.push_back(one.rows.size()), n_restarts.push_back(one.n_restarts), late.push_back(one.is_late);
    }
    return py::make_tuple(positions_of(rows), errors_of(rows), converged_of(rows),
                          copy_of(sources, {Index(sources.size())}), copy_of(counts, {m}), flags_of(late),
                          copy_of(n_restarts, {m}));
}

// Solves poses (n, 4, 4) from uniform seeds. Returns positions, errors (2, k), valid (k,), counts (n,), whether the
// deadline passed (n,), and the number of attempts (n,).
inline py::tuple solve_poses(const Chain& chain, const Task& task, const StepOptions& effort,
                             const Converted<double>& targets, const Numbers& numbers, const Patience& allowed,
                             int n_wanted, double distinct_tolerance, int n_threads, double deadline) {
    expect_shape(targets, "poses", {kAny, 4, 4});
    const Index n = targets.shape(0);
    expect_shape(numbers, "numbers", {n});
    expect(n_wanted > 0 && n_threads > 0, "n_wanted and n_threads must be positive");
    std::vector<std::int64_t> patience(n);
    for (Index i = 0; i < n; ++i) patience[i] = allowed.at(targets.data() + 16 * i);
    const Batch batch{targets.data(), numbers.data(),     patience.data(), n,       n_wanted,
                      n_threads,      distinct_tolerance, effort,          deadline};
    BatchRows found{Rows({chain.n_joints}), {}, {}, {}};
    run_unlocked(chain, n == 1 && n_wanted <= kFewRows, [&]<int N>() { found = solve_batch<N>(chain, task, batch); });
    const Rows& rows = found.rows;
    return py::make_tuple(positions_of(rows), errors_of(rows), flags_of(rows.converged), copy_of(found.counts, {n}),
                          flags_of(found.outcomes), copy_of(found.attempts, {n}));
}

// Returns the given solutions (n, n_joints), and solutions that fill all curves through them.
inline Converted<double> fill_self_motions(const Chain& chain, const Task& task, const ContinuationOptions& spread,
                                           const Converted<double>& solutions, Index most, double seed) {
    expect_shape(solutions, "solutions", {kAny, chain.n_joints});
    expect(spread.redundancy == 1 && spread.finest > 0.0, "only curves can be filled");
    Configurations points{chain.n_joints, {solutions.data(), solutions.data() + solutions.size()}};
    run_unlocked(chain, [&]<int N>() { fill_curves<N>(chain, task, spread, seed, most, points); });
    return copy_of(points.positions, {points.size(), Index(chain.n_joints)});
}

// Returns a table (n, 4) of the number of solutions, the number of components, their length, and the manipulability.
inline Converted<double> chart_many(const Chain& chain, const Task& task, const StepOptions& effort,
                                    const ContinuationOptions& spread, const Converted<double>& targets,
                                    const Numbers& numbers, int n_seeds, int n_threads) {
    expect_shape(targets, "poses", {kAny, 4, 4});
    const Index n = targets.shape(0);
    expect_shape(numbers, "numbers", {n});
    expect(n_seeds > 0 && n_threads > 0, "n_seeds and n_threads must be positive");
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

inline void bind_search(py::module_& module) {
    module.attr("NO_EXPERT") = kNoExpert;
    py::class_<Patience>(module, "Patience", py::module_local()).def(py::init(&make_patience));
    module.def("solve_poses", solve_poses);
    module.def("fill_self_motions", fill_self_motions);
    module.def("chart_poses", chart_many);
    module.def("search_poses", search_poses);
    py::class_<SearchOptions>(module, "SearchOptions", py::module_local())
        .def(py::init([] { return SearchOptions{}; }))
        .def_readwrite("n", &SearchOptions::n)
        .def_readwrite("diversity", &SearchOptions::diversity)
        .def_readwrite("apart", &SearchOptions::apart)
        .def_readwrite("is_distinct", &SearchOptions::is_distinct)
        .def_readwrite("is_sampled", &SearchOptions::is_sampled)
        .def_readwrite("until_deadline", &SearchOptions::until_deadline)
        .def_readwrite("redundancy", &SearchOptions::redundancy)
        .def_readwrite("oversampling", &SearchOptions::oversampling)
        .def_readwrite("effort", &SearchOptions::effort)
        .def_readwrite("ordering_seconds", &SearchOptions::ordering_seconds);
}

}  // namespace eim
