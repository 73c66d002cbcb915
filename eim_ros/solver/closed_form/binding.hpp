// Python bindings of closed forms and 2 pi-equivalent solutions. `binding.cpp` includes this file.
#pragma once

#include "chain/binding.hpp"
#include "closed_form/arm_form.hpp"
#include "numerics/chunks.hpp"

namespace eim {

inline void expect_roots(const ArmForm& arm, const Chain& chain, const Task& task) {
    const bool has_form = arm.form.kind != ClosedForm::Kind::none || arm.general;
    const bool fits = arm.part.fits(chain) || (arm.part.held < 0 && has_six_joints(chain));
    expect(has_form && fits, "the arm has no closed form");
    expect(!task.position_only && !task.has_tolerances,
           "closed forms need poses with an orientation, without tolerances per axis");
    const int held = arm.part.held;
    expect(held < 0 || task.bounds.lower[held] == task.bounds.upper[held], "the joint is not fixed: its limits differ");
}

inline Roots roots_of(const ArmForm& arm, const Chain& chain, const Task& task, double tolerance, bool wants_proof) {
    expect_roots(arm, chain, task);
    Unlocked unlocked(!wants_proof);
    return found_roots(arm, chain, task, tolerance, wants_proof);
}

// Returns the given values of the joints. The default is the middle of the limits, or 1 for each joint without
// `bounds`.
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

// Selects the `most` 2 pi-equivalent configurations with the least cost. Returns the valid ones, their errors (2, n),
// the indices of their roots, and the number of all equivalent solutions.
inline py::tuple revolutions_of(const Chain& chain, const Task& task, const Converted<double>& roots,
                                const py::object& reference, const py::object& weights, Index most, double deadline) {
    const Configurations given = rows_of(chain, roots);
    const std::vector<double> from = joint_values(reference, chain, &task.bounds);
    const std::vector<double> weighed = joint_values(weights, chain, nullptr);
    const TurnCost cost{from.data(), weighed.data(), reference.is_none()};
    Rows rows({chain.n_joints});
    std::vector<Index> sources;
    double total = 0.0;
    run_unlocked(chain, true,
                 [&]<int N>() { total = wind<N>(chain, task, given, cost, most, deadline, rows, sources).n; });
    return py::make_tuple(positions_of(rows), errors_of(rows), copy_of(sources, {rows.size()}), total);
}

inline constexpr Index kPosesAtOnce = 16;  // number of poses that a thread takes at a time

// Returns the solutions of poses (m, 4, 4) within the limits: configurations ordered by pose, errors (2, n), and a
// table (m, 8).
//
// The columns of the table are the number of rows, the number of roots among them, and the number of all solutions. The
// other columns show whether the roots are complete, certified, singular, swept, and nearly equal to others. Each pose
// may use an equal share of the time. If no time is left for a pose, the number of its solutions is NaN.
//
// If one solution near a reference is requested and the reference is a solution, only the reference is returned. The
// number of solutions is then reported as infinite. A choice, which is a uniform random number from [0, 1), selects one
// root of a pose. Without choices, all roots are returned.
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
    expect(choices.size() == 0 || choices.size() == n, "choices must have one value for each pose, or be empty");
    for (Index i = 0; i < choices.size(); ++i) expect(choices.data()[i] < 1.0, "a choice is less than 1");
    std::vector<PoseSolutions> chunks((n + kPosesAtOnce - 1) / kPosesAtOnce, PoseSolutions{Rows({chain.n_joints}), {}});
    PoseSolutions all{Rows({chain.n_joints}), {}};
    {
        Unlocked unlocked(n == 1 && !wants_proof);
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

// Returns configurations (n, n_joints). Each wrapping joint is moved to the revolution nearest to a reference.
inline Converted<double> in_revolution_of(const Converted<double>& reference, const Converted<double>& q,
                                          const Converted<bool>& wraps) {
    expect_shape(q, "configurations", {kAny, kAny});
    const Index n = q.shape(0), n_joints = q.shape(1);
    expect_shape(reference, "the reference", {n_joints}), expect_shape(wraps, "wraps", {n_joints});
    Converted<double> turned({n, n_joints});
    double* out = turned.mutable_data();
    const double* from = q.data();
    for (Index i = 0; i < n; ++i) {
        for (Index j = 0; j < n_joints; ++j, ++from, ++out) {
            const double turn = kTwoPi * nearest((reference.data()[j] - *from) / kTwoPi);
            *out = *from + (wraps.data()[j] ? turn : 0.0);
        }
    }
    return turned;
}

inline void bind_closed_forms(py::module_& module) {
    module.def("in_revolution_of", in_revolution_of);
    module.def("revolutions", revolutions_of);
    py::class_<ArmForm>(module, "ClosedForm", py::module_local())
        .def(py::init([](const Chain& chain, int held) {
            const Unlocked unlocked;
            return make_form(chain, held);
        }))
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
