// Python bindings for self-motions traced from end to end. `binding.cpp` includes this file.
#pragma once

#include "chain/binding.hpp"
#include "closed_form/binding.hpp"
#include "search/binding.hpp"
#include "search/curve_solutions.hpp"

namespace eim {

inline SelfMotions make_self_motions(const Chain& chain, const Task& task, double seed) {
    int n_free = 0;
    for (int j = 0; j < chain.n_joints; ++j) n_free += task.bounds.lower[j] < task.bounds.upper[j];
    expect(!task.has_tolerances && n_free == (task.position_only ? 4 : 7), "only curves can be traced");
    return SelfMotions(chain, task, seed);
}

// Returns the self-motions of the free angles of a pose in closed form. If no angle is free, the result has no
// components.
inline SelfMotions swept_self_motions(const ArmForm& arm, const Chain& chain, const Task& task, double seed) {
    expect_roots(arm, chain, task);
    Unlocked unlocked(true);
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
    Unlocked unlocked(true);
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

// Returns verified solutions that divide all components, their errors (2, n), and whether there was time for all
// solutions.
inline py::tuple divided_solutions(SelfMotions& motions, const Chain& chain, const Task& task, Index n, double spacing,
                                   double deadline) {
    Rows rows({chain.n_joints});
    bool in_time = false;
    run_unlocked(chain, true, [&]<int N>() {
        rows = CurveSolutions<N>(chain, task, motions).divided(n, spacing, deadline, in_time);
    });
    return timely_tuple(rows, !in_time);
}

// Like `divided_solutions`, for at most n solutions in random order that satisfy conditions (see `search_poses`).
inline py::tuple even_solutions(SelfMotions& motions, const Chain& chain, const Task& task, Index n, double spacing,
                                double deadline, const py::object& conditions) {
    Rows rows({chain.n_joints});
    bool in_time = false;
    const Conditions allowed = conditions_of(conditions);
    run_unlocked(chain, true, [&]<int N>() {
        rows = CurveSolutions<N>(chain, task, motions).even(n, spacing, deadline, allowed, in_time);
    });
    return timely_tuple(rows, !in_time);
}

// Returns verified random solutions on the components, their errors (2, n), and whether there was time for all
// solutions.
inline py::tuple scattered_solutions(SelfMotions& motions, const Chain& chain, double spacing, double deadline) {
    expect(spacing > 0.0, "a spacing");
    Rows rows({chain.n_joints});
    bool is_late = false;
    run_unlocked(chain, true, [&]<int N>() {
        rows = motions.answer<N>(chain, motions.places().scattered(spacing), -1.0, deadline, is_late);
    });
    return timely_tuple(rows, is_late);
}

// Returns the solutions nearest to a reference on the `most` nearest components, and n solutions that divide all
// components. The solutions are in the order of their distance. Also returns the errors (2, n) of the solutions, and
// whether there was time for all solutions.
inline py::tuple nearest_solutions(SelfMotions& motions, const Chain& chain, const Task& task,
                                   const StepOptions& effort, const Converted<double>& reference,
                                   const Converted<double>& equivalents, const Converted<bool>& continuous, int most,
                                   Index n, double deadline) {
    expect_shape(reference, "the reference configuration", {chain.n_joints});
    expect_shape(continuous, "continuous", {chain.n_joints});
    const std::vector<double> ones(chain.n_joints, 1.0);
    const Cost distance{reference.data(), ones.data(), continuous.data(), chain.n_joints};
    const Configurations all = rows_of(chain, equivalents);
    Rows rows({chain.n_joints});
    bool in_time = false;
    run_unlocked(chain, true, [&]<int N>() {
        rows = CurveSolutions<N>(chain, task, motions).nearest(all, distance, effort, most, n, deadline, in_time);
    });
    return timely_tuple(rows, !in_time);
}

// Returns a table (n, 3) of components: length [rad, m], whether closed, and whether complete. If `is_undecided` is
// true, the table has an additional, incomplete component.
inline Converted<double> component_table(const std::vector<Component>& components, bool is_undecided) {
    Converted<double> table({Index(components.size()) + is_undecided, Index(3)});
    std::fill_n(table.mutable_data(), table.size(), 0.0);
    double* out = table.mutable_data();
    for (const Component& component : components) {
        *out++ = component.length, *out++ = component.is_closed, *out++ = component.is_complete;
    }
    return table;
}

inline constexpr Index kCurveLine = 7;  // number of entries per line of the table

// Returns solutions of poses (m, 4, 4) on their curves. Each pose gets at most n solutions, spread evenly or nearest to
// a reference (see `answer_on_curves`). Returns positions (k, n_joints), errors (2, k), a table (m, 7), and the
// components of all poses (see `component_table`).
//
// The columns of the table are the number of rows, the number of components, the bound on the share of missing
// components, and four flags. The first flag shows whether the row is certainly the nearest solution. The next flags
// show whether there was time for the search, and for all solutions. The last flag shows whether the spacing needs more
// than n solutions. If there is no time for a pose, its line contains NaN.
inline py::tuple solve_on_curves(const Chain& chain, const Task& task, const StepOptions& effort,
                                 const Converted<double>& targets, const Converted<double>& seeds, Index n,
                                 double spacing, double confidence, const py::object& reference,
                                 const Converted<double>& equivalents, const Converted<bool>& continuous,
                                 const ParameterisedForm* form, int n_threads, double deadline) {
    expect_shape(targets, "poses", {kAny, 4, 4});
    const Index m = targets.shape(0);
    expect_shape(seeds, "seeds", {m}), expect_shape(continuous, "continuous", {chain.n_joints});
    expect(n > 0 && n_threads > 0, "n and n_threads must be positive");
    expect(confidence > 0.0 && confidence < 1.0, "the confidence must be between 0 and 1");
    expect(!form || (form->fits() && chain.kind == 7 && !task.position_only), "the arm has no such form");
    int n_free = 0;
    for (int j = 0; j < chain.n_joints; ++j) n_free += task.bounds.lower[j] < task.bounds.upper[j];
    expect(!task.has_tolerances && n_free == (task.position_only ? 4 : 7), "only curves can be traced");
    const std::vector<double> from = joint_values(reference, chain, &task.bounds), ones(chain.n_joints, 1.0);
    const Cost distance{from.data(), ones.data(), continuous.data(), chain.n_joints};
    const Configurations all = rows_of(chain, equivalents);
    const Configurations start = within_limits(Configurations{chain.n_joints, from}, task, continuous.data());
    const CurveRequest request{n,    spacing,      confidence, effort, reference.is_none() ? nullptr : &distance,
                               &all, start.row(0), form};
    std::vector<CurveAnswer> answers(std::size_t(m), CurveAnswer{Rows({chain.n_joints})});
    run_unlocked(chain, m == 1, [&]<int N>() {
        for_poses(
            m, 1, n_threads, deadline,
            [&](Index i, double end) {
                Task one = task;
                std::copy_n(targets.data() + 16 * i, 12, &one.target[0][0]);
                answers[std::size_t(i)] = answer_on_curves<N>(chain, one, request, seeds.data()[i], end);
            },
            [&](Index i) { answers[std::size_t(i)].missed_share = std::numeric_limits<double>::quiet_NaN(); });
    });
    Rows rows({chain.n_joints});
    std::vector<double> table, components;
    const auto add = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    for (const CurveAnswer& one : answers) {
        add(rows.positions, one.rows.positions);
        for (Index i = 0; i < one.rows.size(); ++i) {
            rows.distances.push_back(one.rows.distances[i]), rows.angles.push_back(one.rows.angles[i]);
        }
        for (const Component& component : one.components) {
            add(components, std::initializer_list<double>{component.length, double(component.is_closed),
                                                          double(component.is_complete)});
        }
        if (one.is_undecided) components.resize(components.size() + 3, 0.0);
        const double n_components = double(one.components.size()) + one.is_undecided;
        add(table, std::initializer_list<double>{double(one.rows.size()), n_components, one.missed_share,
                                                 double(one.is_nearest), double(one.has_searched), double(one.in_time),
                                                 double(one.is_too_fine)});
    }
    return py::make_tuple(positions_of(rows), errors_of(rows), copy_of(table, {m, kCurveLine}),
                          copy_of(components, {Index(components.size()) / 3, Index(3)}));
}

// Traces the components of the given solutions from end to end. Returns verified places along them (n, dof), the
// component of each place (n,), and whether each component is closed (k,).
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
    module.def("solve_on_curves", solve_on_curves);
    py::class_<SelfMotions>(module, "SelfMotions", py::module_local())
        .def(py::init(&make_self_motions))
        .def("search", search_self_motions)
        .def("certify", certify_self_motions)
        .def("prove", prove_self_motions<ParameterisedForm>)
        .def("prove", prove_self_motions<CurveForms>)
        .def("divided", divided_solutions)
        .def("even", even_solutions)
        .def("scattered", scattered_solutions)
        .def("nearest", nearest_solutions)
        .def("missed_share", &SelfMotions::missed_share)
        .def_property_readonly("components",
                               [](const SelfMotions& m) { return component_table(m.components(), m.is_undecided()); })
        .def_property_readonly("is_certified", &SelfMotions::is_certified)
        .def_property_readonly("free_joints",
                               [](const SelfMotions& motions) {
                                   const std::vector<std::int64_t> joints(motions.free_joints().begin(),
                                                                          motions.free_joints().end());
                                   return copy_of(joints, {Index(joints.size())});
                               })
        .def_property_readonly("n_restarts", &SelfMotions::n_restarts);
}

}  // namespace eim
