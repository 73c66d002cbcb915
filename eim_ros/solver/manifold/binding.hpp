// Python bindings for motion along the solutions of a pose. `binding.cpp` includes this file.
#pragma once

#include "chain/binding.hpp"
#include "manifold/manifold.hpp"

namespace eim {

// Returns the given solutions, and added solutions. The total number is at most `most`.
inline Converted<double> spread_solutions(const Chain& chain, const Task& task, const ContinuationOptions& spread,
                                          const Converted<double>& solutions, Index most, double seed) {
    Configurations rows = rows_of(chain, solutions);
    run_unlocked(chain, [&]<int N>() { spread_over<N>(chain, task, spread, seed, most, rows); });
    return positions_of(rows);
}

inline Converted<double> descend(const Chain& chain, const Task& task, const Converted<double>& solutions,
                                 const Converted<double>& preferred, const Converted<double>& weights,
                                 const Converted<bool>& continuous) {
    const Index n = chain.n_joints;
    expect(preferred.size() == n && weights.size() == n && continuous.size() == n,
           "a cost needs one value for each joint");
    Configurations rows = rows_of(chain, solutions);
    const Cost cost{preferred.data(), weights.data(), continuous.data(), chain.n_joints};
    run_unlocked(chain, rows.size() <= kFewRows, [&]<int N>() {
        Descent<N> descent(chain, task, cost);
        for (Index i = 0; i < rows.size(); ++i) descent.run(rows.row(i));
    });
    return positions_of(rows);
}

// Returns valid rows, their errors (2, n), and their distances (n,) from the reference of a cost.
inline py::tuple with_distances(const Rows& valid, const Cost& cost) {
    std::vector<double> away;
    for (Index i = 0; i < valid.size(); ++i) away.push_back(std::sqrt(cost(valid.row(i))));
    return py::make_tuple(positions_of(valid), errors_of(valid), copy_of(away, {Index(away.size())}));
}

// Moves configurations onto the pose, and along the self-motion to the point nearest to a reference. Returns the valid
// configurations, their errors (2, n), and their distances (n,) from the reference.
inline py::tuple nearest_on_curve(const Chain& chain, const Task& task, const StepOptions& effort,
                                  const Converted<double>& positions, const Converted<double>& reference,
                                  const Converted<bool>& continuous) {
    const Index n_joints = chain.n_joints;
    expect_shape(positions, "configurations", {kAny, n_joints});
    expect_shape(reference, "the reference configuration", {n_joints});
    expect_shape(continuous, "continuous", {n_joints});
    Rows rows(Configurations{chain.n_joints, {positions.data(), positions.data() + positions.size()}});
    Rows valid({chain.n_joints});
    const std::vector<double> ones(n_joints, 1.0);
    const Cost cost{reference.data(), ones.data(), continuous.data(), chain.n_joints};
    run_unlocked(chain, positions.shape(0) <= kFewRows,
                 [&]<int N>() { valid = nearest_on_curves<N>(chain, task, effort, cost, std::move(rows)); });
    return with_distances(valid, cost);
}

inline bool is_surely_nearest_at(const Chain& chain, const Converted<double>& q, double distance, bool position_only) {
    expect_shape(q, "a configuration", {chain.n_joints});
    bool is_nearest = false;
    run_unlocked(chain, true,
                 [&]<int N>() { is_nearest = is_surely_nearest<N>(chain, q.data(), distance, position_only); });
    return is_nearest;
}

inline void bind_manifold(py::module_& module, py::class_<Chain>& chain) {
    module.attr("SPACING") = kSpacing;
    py::class_<ContinuationOptions>(module, "ContinuationOptions", py::module_local())
        .def(py::init<double, double, int, double>());
    module.def("nearest_on_curve", nearest_on_curve);
    chain.def("spread", spread_solutions);
    chain.def("descend", descend);
    chain.def("is_surely_nearest", is_surely_nearest_at);
}

}  // namespace eim
