// Closed forms and 2 pi-equivalent solutions as parts of the Python module. Included by binding.cpp.
#pragma once

#include "chain/binding.hpp"
#include "closed_form/finite_solutions.hpp"

namespace eim {

// The closed form of an arm, or of its other six joints while one joint is fixed.
struct ArmForm {
    SixJoints part;
    ClosedForm form;                           // with a fixed joint: the form at some value of it
    std::shared_ptr<const General6R> general;  // for arms without a closed form, or with an approximate one
};

inline ArmForm make_form(const Chain& chain, int held) {
    ArmForm made{{held}, {}, {}};
    const bool slides = !made.part.fits(chain) && held < 0 && has_six_joints(chain);
    if (!made.part.fits(chain) && !slides) return made;
    Unlocked unlocked;
    if (!slides) made.form = held < 0 ? tried_form<6>(chain, made.part) : tried_form<7>(chain, made.part);
    if (held < 0 && (made.form.kind == ClosedForm::Kind::none || made.form.deviation() > 0.0)) {
        auto general = std::make_shared<const General6R>(chain);
        if (general->exists()) made.general = std::move(general);
    }
    return made;
}

// Describes why an arm has a closed form; empty if it has none.
inline std::string kind_of(const ArmForm& arm) {
    using Kind = ClosedForm::Kind;
    const ClosedForm& form = arm.form;
    if (form.kind == Kind::none) return arm.general ? "general" : "";
    if (form.kind == Kind::spherical_wrist) return form.is_reversed ? "spherical shoulder" : "spherical wrist";
    const bool is_middle = form.kind == Kind::middle_parallel;
    if (form.is_reversed) return is_middle ? "axes 3 to 5 are parallel" : "axes 4 to 6 are parallel";
    return is_middle ? "axes 2 to 4 are parallel" : "axes 1 to 3 are parallel";
}

// The roots of a pose. The general form also solves poses that the form of a nearby arm leaves open.
inline Roots found_roots(const ArmForm& arm, const Chain& chain, const Task& task, double tolerance,
                         bool wants_proof = false) {
    const int held = arm.part.held;
    if (held >= 0) {
        const ClosedForm form = arm.part.form<7>(chain, task.bounds.lower[held]);
        return closed_form_roots<7>(chain, form, arm.part, task, tolerance);
    }
    if (arm.form.kind == ClosedForm::Kind::none)
        return general_roots(chain, *arm.general, task, tolerance, wants_proof);
    const Roots roots = closed_form_roots<6>(chain, arm.form, arm.part, task, tolerance);
    if (!arm.general || (roots.is_complete && !roots.is_singular)) return roots;
    Roots all = general_roots(chain, *arm.general, task, tolerance, wants_proof);
    if (all.is_complete) return all;
    const double alike = std::max(tolerance, kMerged);  // the others may be within tolerances only
    for (Index i = 0; i < roots.size(); ++i) {
        const auto is_known = [&](Index k) { return largest_difference(roots.row(i), all.row(k), 6) <= alike; };
        if (numbers_where(all.size(), is_known).empty()) all.add(roots.row(i));
    }
    all.is_singular |= roots.is_singular;
    return all;
}

inline void expect_roots(const ArmForm& arm, const Chain& chain, const Task& task) {
    const bool has_form = arm.form.kind != ClosedForm::Kind::none || arm.general;
    const bool fits = arm.part.fits(chain) || (arm.part.held < 0 && has_six_joints(chain));
    expect(has_form && fits, "the arm has no closed form");
    expect(!task.position_only && !task.has_tolerances,
           "closed forms need complete poses, with an orientation and without tolerances");
    const int held = arm.part.held;
    expect(held < 0 || task.bounds.lower[held] == task.bounds.upper[held], "the joint is not fixed: its limits differ");
}

inline Roots roots_of(const ArmForm& arm, const Chain& chain, const Task& task, double tolerance, bool wants_proof) {
    expect_roots(arm, chain, task);
    Unlocked unlocked;
    return found_roots(arm, chain, task, tolerance, wants_proof);
}

// The roots of poses (m, 4, 4): configurations of all poses in turn, the number of each pose (m,), and whether they are
// complete, certified and singular (3, m).
inline py::tuple roots_of_poses(const ArmForm& arm, const Chain& chain, Task task, const Converted<double>& poses,
                                double tolerance) {
    expect_roots(arm, chain, task);
    expect_shape(poses, "poses", {kAny, 4, 4});
    const Index n = poses.shape(0);
    std::vector<double> positions;
    std::vector<Index> counts(n);
    py::array_t<bool> flags({Index(3), n});
    bool* said = flags.mutable_data();
    {
        Unlocked unlocked;
        for (Index i = 0; i < n; ++i) {
            for (int k = 0; k < 3; ++k) std::copy_n(poses.data() + 16 * i + 4 * k, 4, task.target[k]);
            const Roots roots = found_roots(arm, chain, task, tolerance);
            positions.insert(positions.end(), roots.positions.begin(), roots.positions.end());
            counts[i] = roots.size();
            said[i] = roots.is_complete, said[n + i] = roots.is_certified, said[2 * n + i] = roots.is_singular;
        }
    }
    const Index n_rows = Index(positions.size()) / chain.n_joints;
    return py::make_tuple(copy_of(positions, {n_rows, Index(chain.n_joints)}), copy_of(counts, {n}), flags);
}

// Given values of the joints. By default, the middle of the limits, or ones without `bounds`.
inline std::vector<double> joint_values(const py::object& given, const Chain& chain, const Bounds<double>* bounds) {
    std::vector<double> values(chain.n_joints, 1.0);
    if (!given.is_none()) {
        const auto array = given.cast<Converted<double>>();
        expect_shape(array, "values of the joints", {chain.n_joints});
        std::copy_n(array.data(), chain.n_joints, values.begin());
    } else if (bounds) {
        for (int j = 0; j < chain.n_joints; ++j) values[j] = 0.5 * (bounds->lower[j] + bounds->upper[j]);
    }
    return values;
}

// The 2 pi-equivalent solutions of the roots with the least cost, at most `most`, as far as they are valid. Returns
// configurations, errors (2, n), the index of their root, and the number of all equivalent solutions.
inline py::tuple wound(const Chain& chain, const Task& task, const Configurations& roots, const py::object& reference,
                       const py::object& weights, Index most, double deadline) {
    const std::vector<double> from = joint_values(reference, chain, &task.bounds);
    const std::vector<double> weighed = joint_values(weights, chain, nullptr);
    Rows rows({chain.n_joints});
    std::vector<Index> sources;
    double total = 0.0;
    {
        Unlocked unlocked;
        const TurnCost cost{from.data(), weighed.data(), reference.is_none()};
        for_kind(chain, [&]<int N>() { total = wind<N>(chain, task, roots, cost, most, deadline, rows, sources); });
    }
    return py::make_tuple(positions_of(rows), errors_of(rows), copy_of(sources, {rows.size()}), total);
}

inline py::tuple revolutions_of(const Chain& chain, const Task& task, const Converted<double>& roots,
                                const py::object& reference, const py::object& weights, Index most, double deadline) {
    expect_shape(roots, "roots", {kAny, chain.n_joints});
    return wound(chain, task, {chain.n_joints, {roots.data(), roots.data() + roots.size()}}, reference, weights, most,
                 deadline);
}

inline void bind_closed_forms(py::module_& module) {
    module.def("revolutions", revolutions_of);
    py::class_<ArmForm>(module, "ClosedForm", py::module_local())
        .def(py::init(&make_form))
        .def_property_readonly("kind", kind_of)
        .def_property_readonly("deviation", [](const ArmForm& arm) { return arm.form.deviation(); })
        .def_property_readonly("certifies",
                               [](const ArmForm& arm) {
                                   return arm.form.kind != ClosedForm::Kind::none ||
                                          (arm.general && arm.general->can_prove());
                               })
        .def("roots", roots_of, py::arg("chain"), py::arg("task"), py::arg("tolerance"), py::arg("wants_proof") = false)
        .def("roots_of_poses", roots_of_poses);
    py::class_<Roots>(module, "Roots", py::module_local())
        .def("__len__", [](const Roots& roots) { return roots.size(); })
        .def_property_readonly("positions",
                               [](const Roots& r) { return copy_of(r.positions, {r.size(), Index(r.n_joints)}); })
        .def_readonly("is_singular", &Roots::is_singular)
        .def_readonly("is_complete", &Roots::is_complete)
        .def_readonly("is_certified", &Roots::is_certified)
        .def("revolutions", [](const Roots& roots, const Chain& chain, const Task& task, const py::object& reference,
                               const py::object& weights, Index most, double deadline) {
            expect(chain.n_joints == roots.n_joints, "roots are of another arm");
            return wound(chain, task, roots, reference, weights, most, deadline);
        });
}

}  // namespace eim
