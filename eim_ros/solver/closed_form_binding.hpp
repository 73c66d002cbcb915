// Closed forms and windings as parts of the Python module; included by binding.cpp alone.
#pragma once

#include "arrays.hpp"
#include "finite_solutions.hpp"

namespace eim {

// A name of what makes the closed form of an arm; empty where it has none.
inline std::string kind_of(const ClosedForm& form) {
    using Kind = ClosedForm::Kind;
    if (form.kind == Kind::none) return "";
    if (form.kind == Kind::spherical_wrist) return form.is_reversed ? "spherical shoulder" : "spherical wrist";
    const bool is_middle = form.kind == Kind::middle_parallel;
    if (form.is_reversed) return is_middle ? "axes 3 to 5 are parallel" : "axes 4 to 6 are parallel";
    return is_middle ? "axes 2 to 4 are parallel" : "axes 1 to 3 are parallel";
}

// Roots (n, 6), and of each whether it is one of infinitely many (n,).
inline py::tuple roots_of(const ClosedForm& form, const Chain& chain, const Task& task, double tolerance) {
    expect(form.kind != ClosedForm::Kind::none && chain.kind == 6, "the arm has no closed form");
    expect(!task.position_only && !task.has_tolerances, "closed forms are of whole poses");
    Roots roots{{6}};
    {
        Unlocked unlocked;
        roots = closed_form_roots(chain, form, task, tolerance);
    }
    return py::make_tuple(copy_of(roots.positions, {roots.size(), Index(6)}),
                          py::array_t<bool>(roots.size(), reinterpret_cast<const bool*>(roots.is_free.data())));
}

// The windings of roots (n, n_joints) that have the least cost, at most `most`: configurations, errors (2, n), whether
// they are valid, the roots they belong to, and the number of all.
inline py::tuple windings_of(const Chain& chain, const Task& task, const Converted<double>& roots,
                             const Converted<double>& reference, const Converted<double>& weights, bool by_root,
                             Index most) {
    expect_shape(roots, "roots", {kAny, chain.n_joints});
    expect_shape(reference, "the reference", {chain.n_joints});
    expect_shape(weights, "weights", {chain.n_joints});
    Rows rows({chain.n_joints});
    std::vector<Index> sources;
    double total = 0.0;
    {
        Unlocked unlocked;
        const Configurations given{chain.n_joints, {roots.data(), roots.data() + roots.size()}};
        const TurnCost cost{reference.data(), weights.data(), by_root};
        for_kind(chain, [&]<int N>() { total = wind<N>(chain, task, given, cost, most, rows, sources); });
    }
    const Index n = rows.size();
    Converted<double> errors({Index(2), n});
    std::copy(rows.distances.begin(), rows.distances.end(), errors.mutable_data());
    std::copy(rows.angles.begin(), rows.angles.end(), errors.mutable_data() + n);
    return py::make_tuple(copy_of(rows.positions, {n, Index(chain.n_joints)}), errors,
                          py::array_t<bool>(n, reinterpret_cast<const bool*>(rows.converged.data())),
                          copy_of(sources, {n}), total);
}

inline void bind_closed_forms(py::module_& module) {
    module.def("windings", windings_of);
    py::class_<ClosedForm>(module, "ClosedForm", py::module_local())
        .def(py::init(&closed_form_of))
        .def_property_readonly("kind", kind_of)
        .def("roots", roots_of);
}

}  // namespace eim
