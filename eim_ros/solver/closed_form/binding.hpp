// Closed forms and 2 pi-equivalent solutions as parts of the Python module. Included by binding.cpp.
#pragma once

#include "chain/binding.hpp"
#include "closed_form/finite_solutions.hpp"
#include "numerics/chunks.hpp"

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
    Roots all = general_roots(chain, *arm.general, task, tolerance, wants_proof, roots);
    if (all.is_complete) return all;
    const double alike = std::max(tolerance, kMerged);  // the others may be within tolerances only
    for (Index i = 0; i < roots.size(); ++i) {
        const auto is_known = [&](Index k) { return largest_difference(roots.row(i), all.row(k), 6) <= alike; };
        if (numbers_where(all.size(), is_known).empty()) all.add(roots.row(i));
        if (i < roots.n_isolated) all.n_isolated = all.size();
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
inline py::tuple revolutions_of(const Chain& chain, const Task& task, const Converted<double>& roots,
                                const py::object& reference, const py::object& weights, Index most, double deadline) {
    const Configurations given = rows_of(chain, roots);
    const std::vector<double> from = joint_values(reference, chain, &task.bounds);
    const std::vector<double> weighed = joint_values(weights, chain, nullptr);
    const TurnCost cost{from.data(), weighed.data(), reference.is_none()};
    Rows rows({chain.n_joints});
    std::vector<Index> sources;
    double total = 0.0;
    run_unlocked(chain, [&]<int N>() { total = wind<N>(chain, task, given, cost, most, deadline, rows, sources).n; });
    return py::make_tuple(positions_of(rows), errors_of(rows), copy_of(sources, {rows.size()}), total);
}

// Solutions of some poses: rows of all poses in turn, and a table with one line for each pose.
struct PoseSolutions {
    Rows rows;
    std::vector<double> table;
};

inline constexpr Index kLine = 8;          // entries of a line of the table
inline constexpr Index kPosesAtOnce = 16;  // poses between two requests of a thread
// [rad, m]: difference in each joint below which roots are nearly equal
inline constexpr double kNearDuplicates = 0.01;

// Adds a configuration as the only solution if it is one: nothing can be nearer to it.
inline bool add_reference(const Chain& chain, const Task& task, const double* q, PoseSolutions& all) {
    Rows row(Configurations{chain.n_joints, {q, q + chain.n_joints}});
    for_kind(chain, [&]<int N>() { verify_rows<N>(chain, task, row); });
    if (!row.converged[0]) return false;
    const double line[kLine] = {1.0, 1.0, std::numeric_limits<double>::infinity()};
    all.table.insert(all.table.end(), line, line + kLine);
    all.rows.positions.insert(all.rows.positions.end(), q, q + chain.n_joints);
    all.rows.distances.push_back(row.distances[0]), all.rows.angles.push_back(row.angles[0]);
    return true;
}

inline bool has_near_duplicates(const Roots& roots) {
    for (Index i = 0; i < roots.size(); ++i) {
        for (Index k = 0; k < i; ++k) {
            if (largest_difference(roots.row(i), roots.row(k), roots.n_joints) <= kNearDuplicates) return true;
        }
    }
    return false;
}

// Adds the solutions of a pose: the roots within the limits and their 2 pi-equivalents, up to a number. With a choice,
// only one root and its equivalents are added.
inline void add_solutions(const ArmForm& arm, const Chain& chain, const Task& task, double tolerance, bool wants_proof,
                          const TurnCost& cost, Index most, double deadline, double choice, PoseSolutions& all) {
    if (most == 1 && !cost.by_root && add_reference(chain, task, cost.reference, all)) return;
    const Roots roots = found_roots(arm, chain, task, tolerance, wants_proof);
    Rows rows({chain.n_joints});
    std::vector<Index> sources;
    Equivalents all_found{};
    const Index n_most = choice < 0.0 ? std::max(most, roots.size()) : most;
    for_kind(chain,
             [&]<int N>() { all_found = wind<N>(chain, task, roots, cost, n_most, deadline, rows, sources, choice); });
    const auto is_reached = [&](Index i) { return std::find(sources.begin(), sources.end(), i) != sources.end(); };
    const Index n_reached = choice < 0.0 ? Index(numbers_where(roots.size(), is_reached).size()) : all_found.n_roots;
    const double line[kLine] = {double(rows.size()),
                                double(n_reached),
                                all_found.n,
                                double(roots.is_complete && all_found.is_sure),
                                double(roots.is_certified),
                                double(roots.is_singular),
                                double(roots.is_swept),
                                double(has_near_duplicates(roots))};
    all.table.insert(all.table.end(), line, line + kLine);
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(all.rows.positions, rows.positions);
    append(all.rows.distances, rows.distances), append(all.rows.angles, rows.angles);
}

// The solutions of poses (m, 4, 4) within the limits: configurations of all poses in turn, their errors (2, n), and a
// table (m, 8). Its columns are the number of rows, the number of roots among them, the number of all solutions, and
// whether the roots are complete, certified, singular, swept, and nearly equal to others. Each pose may use an equal
// share of the time. If no time is left for a pose, the number of its solutions is NaN. If one solution near a
// reference is requested, and the reference is a solution, it is the only one, and the number is infinite. A uniform
// choice in [0, 1) of each pose selects a random root; without choices, all are returned.
inline py::tuple solutions_of(const ArmForm& arm, const Chain& chain, const Task& task, const Converted<double>& poses,
                              double tolerance, bool wants_proof, const py::object& reference,
                              const py::object& weights, Index most, double deadline, int n_threads,
                              const Converted<double>& choices) {
    expect_roots(arm, chain, task);
    expect_shape(poses, "poses", {kAny, 4, 4});
    expect(n_threads > 0, "at least one thread");
    const std::vector<double> from = joint_values(reference, chain, &task.bounds);
    const std::vector<double> weighed = joint_values(weights, chain, nullptr);
    const TurnCost cost{from.data(), weighed.data(), reference.is_none()};
    const Index n = poses.shape(0);
    const double* targets = poses.data();
    expect(choices.size() == 0 || choices.size() == n, "a choice of each pose, or none");
    for (Index i = 0; i < choices.size(); ++i) expect(choices.data()[i] < 1.0, "a choice is less than 1");
    std::vector<PoseSolutions> chunks((n + kPosesAtOnce - 1) / kPosesAtOnce, PoseSolutions{Rows({chain.n_joints}), {}});
    PoseSolutions all{Rows({chain.n_joints}), {}};
    {
        Unlocked unlocked;
        for_poses(
            n, kPosesAtOnce, n_threads, deadline,
            [&](Index i, double end) {
                Task one = task;
                std::copy_n(targets + 16 * i, 12, &one.target[0][0]);
                const double choice = choices.size() ? choices.data()[i] : -1.0;
                add_solutions(arm, chain, one, tolerance, wants_proof, cost, most, end, choice,
                              chunks[i / kPosesAtOnce]);
            },
            [&](Index i) {
                const double line[kLine] = {0.0, 0.0, std::numeric_limits<double>::quiet_NaN()};
                std::vector<double>& table = chunks[i / kPosesAtOnce].table;
                table.insert(table.end(), line, line + kLine);
            });
        if (chunks.size() == 1) all = std::move(chunks.front()), chunks.clear();
        const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
        for (const PoseSolutions& chunk : chunks) {
            append(all.rows.positions, chunk.rows.positions), append(all.table, chunk.table);
            append(all.rows.distances, chunk.rows.distances), append(all.rows.angles, chunk.rows.angles);
        }
    }
    return py::make_tuple(positions_of(all.rows), errors_of(all.rows), copy_of(all.table, {n, kLine}));
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
        .def("solutions", solutions_of, py::arg("chain"), py::arg("task"), py::arg("poses"), py::arg("tolerance"),
             py::arg("wants_proof") = false, py::arg("reference") = py::none(), py::arg("weights") = py::none(),
             py::arg("most") = 0, py::arg("deadline") = std::numeric_limits<double>::infinity(),
             py::arg("n_threads") = 1, py::arg("choices") = Converted<double>(0));
    py::class_<Roots>(module, "Roots", py::module_local())
        .def("__len__", [](const Roots& roots) { return roots.size(); })
        .def_property_readonly("positions",
                               [](const Roots& r) { return copy_of(r.positions, {r.size(), Index(r.n_joints)}); })
        .def_readonly("is_singular", &Roots::is_singular)
        .def_readonly("is_complete", &Roots::is_complete)
        .def_readonly("is_certified", &Roots::is_certified)
        .def_readonly("is_swept", &Roots::is_swept)
        .def_readonly("n_isolated", &Roots::n_isolated);
}

}  // namespace eim
