// Self-motions traced from end to end as a part of the Python module. Included by binding.cpp.
#pragma once

#include "chain/binding.hpp"
#include "closed_form/binding.hpp"
#include "search/self_motions.hpp"

namespace eim {

inline SelfMotions make_self_motions(const Chain& chain, const Task& task, double seed) {
    int n_free = 0;
    for (int j = 0; j < chain.n_joints; ++j) n_free += task.bounds.lower[j] < task.bounds.upper[j];
    expect(!task.has_tolerances && n_free == (task.position_only ? 4 : 7), "only curves can be traced");
    return SelfMotions(chain, task, seed);
}

// The self-motions of the free angles of a pose, by closed form; none if no angle is free.
inline SelfMotions swept_self_motions(const ArmForm& arm, const Chain& chain, const Task& task, double seed) {
    expect_roots(arm, chain, task);
    Unlocked unlocked;
    const int held = arm.part.held;
    const double value = held >= 0 ? task.bounds.lower[held] : 0.0;
    const ClosedForm form = held >= 0 ? arm.part.form<7>(chain, value) : arm.form;
    Candidates candidates;
    form.solve(motion_of(task.target), candidates, free_below(task));
    SelfMotions motions(chain, task, seed);
    motions.sweep(candidates, arm.part, value);
    return motions;
}

inline bool search_self_motions(SelfMotions& motions, const Chain& chain, const StepOptions& effort, double confidence,
                                double missed_share, double deadline) {
    expect(confidence > 0.0 && confidence < 1.0 && missed_share > 0.0, "confidence and share must be between 0 and 1");
    Unlocked unlocked;
    const SelfMotionSearch wanted{confidence, missed_share, deadline, effort};
    return for_kind(chain, [&]<int N>() { return motions.search<N>(chain, wanted); });
}

inline bool certify_self_motions(SelfMotions& motions, const Chain& chain, const ParameterisedForm& form) {
    expect(form.fits(), "the arm has no closed form with one joint fixed");
    Unlocked unlocked;
    return motions.certify(chain, form);
}

template <class Form>
bool prove_self_motions(SelfMotions& motions, const Chain& chain, const Form& form, double deadline) {
    expect(chain.kind == 7 && form.fits(), "the arm has no such form");
    Unlocked unlocked;
    return motions.prove(chain, form, deadline);
}

inline py::tuple timely_tuple(const Rows& rows, bool is_late) {
    const py::tuple found = verified_tuple(rows);
    return py::make_tuple(found[0], found[1], !is_late);
}

// Verified solutions spread evenly, their errors (2, n), and whether there was time for all.
inline py::tuple even_solutions(SelfMotions& motions, const Chain& chain, Index n, double spacing,
                                double distinct_tolerance, double deadline) {
    Rows rows({chain.n_joints});
    bool is_late = false;
    run_unlocked(chain, [&]<int N>() {
        bool is_cut = false;
        Configurations places = motions.places().divided(n, spacing, deadline, is_cut);
        rows = motions.answer<N>(chain, std::move(places), distinct_tolerance, deadline, is_late);
        is_late |= is_cut;
    });
    return timely_tuple(rows, is_late);
}

// Verified random solutions on the components, their errors (2, n), and whether there was time for all.
inline py::tuple scattered_solutions(SelfMotions& motions, const Chain& chain, double spacing, double deadline) {
    expect(spacing > 0.0, "a spacing");
    Rows rows({chain.n_joints});
    bool is_late = false;
    run_unlocked(chain, [&]<int N>() {
        rows = motions.answer<N>(chain, motions.places().scattered(spacing), -1.0, deadline, is_late);
    });
    return timely_tuple(rows, is_late);
}

inline Converted<double> nearest_solutions(SelfMotions& motions, const Chain& chain, const Converted<double>& reference,
                                           int most) {
    expect_shape(reference, "the configuration to be near to", {chain.n_joints});
    Configurations rows{chain.n_joints};
    {
        Unlocked unlocked;
        rows = motions.places().nearest(reference.data(), most);
    }
    return copy_of(rows.positions, {rows.size(), Index(chain.n_joints)});
}

// Table (n, 3) of components: length [rad, m], whether closed, whether complete. Anything undecided, for example near a
// singularity, counts as one more, incomplete component.
inline Converted<double> component_table(const SelfMotions& motions) {
    Converted<double> table({Index(motions.components().size()) + motions.is_undecided(), Index(3)});
    std::fill_n(table.mutable_data(), table.size(), 0.0);
    double* out = table.mutable_data();
    for (const Component& component : motions.components()) {
        *out++ = component.length, *out++ = component.is_closed, *out++ = component.is_complete;
    }
    return table;
}

// Traces the components of given solutions from end to end. Returns verified places along them (n, dof), the component
// of each place (n,), and whether each component is closed (k,).
inline py::tuple trace_components(const Chain& chain, const Task& task, const Converted<double>& solutions,
                                  double spacing, Index most, double seed) {
    expect_shape(solutions, "solutions", {kAny, chain.n_joints});
    expect(spacing > 0.0, "a spacing");
    SelfMotions motions = make_self_motions(chain, task, seed);
    Rows rows({chain.n_joints});
    std::vector<Index> counts;
    run_unlocked(chain, [&]<int N>() {
        motions.trace<N>(chain, {chain.n_joints, {solutions.data(), solutions.data() + solutions.size()}});
        rows = Rows(motions.places().along(spacing, most, counts));
        run_rows<N>(chain, task, {task.position_tolerance, task.orientation_tolerance, 12, 3}, RowJobs::all(rows));
        verify_rows<N>(chain, task, rows);
    });
    Configurations valid{chain.n_joints};
    std::vector<std::int64_t> owners;
    Index i = 0;
    for (std::size_t component = 0; component < counts.size(); ++component) {
        for (const Index end = i + counts[component]; i < end; ++i) {
            if (rows.converged[i]) valid.add(rows.row(i)), owners.push_back(std::int64_t(component));
        }
    }
    py::array_t<bool> closed(Index(counts.size()));
    for (std::size_t k = 0; k < counts.size(); ++k) closed.mutable_data()[k] = motions.components()[k].is_closed;
    return py::make_tuple(copy_of(valid.positions, {valid.size(), Index(chain.n_joints)}),
                          copy_of(owners, {Index(owners.size())}), closed);
}

inline void bind_self_motions(py::module_& module) {
    module.def("trace_components", trace_components);
    module.def("swept_self_motions", swept_self_motions);
    py::class_<SelfMotions>(module, "SelfMotions", py::module_local())
        .def(py::init(&make_self_motions))
        .def("search", search_self_motions)
        .def("certify", certify_self_motions)
        .def("prove", prove_self_motions<ParameterisedForm>)
        .def("prove", prove_self_motions<General7R>)
        .def("even", even_solutions)
        .def("scattered", scattered_solutions)
        .def("nearest", nearest_solutions)
        .def("missed_share", &SelfMotions::missed_share)
        .def_property_readonly("components", component_table)
        .def_property_readonly("is_certified", &SelfMotions::is_certified)
        .def_property_readonly("free_joints",
                               [](const SelfMotions& motions) {
                                   const std::vector<std::int64_t> joints(motions.free_joints().begin(),
                                                                          motions.free_joints().end());
                                   return copy_of(joints, {Index(joints.size())});
                               })
        .def_property_readonly("n_restarts", &SelfMotions::n_restarts)
        .def_property_readonly("is_too_many", &SelfMotions::is_too_many);
}

}  // namespace eim
