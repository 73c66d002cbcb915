// Python bindings of the chain, its tasks and Newton's method. `binding.cpp` includes this file.
#pragma once

#include "chain/normal_equations.hpp"
#include "chain/refine.hpp"
#include "chain/rigid_transform.hpp"
#include "chain/task_binding.hpp"
#include "numerics/arrays.hpp"

namespace eim {

inline Configurations rows_of(const Chain& chain, const Converted<double>& q) {
    expect_shape(q, "configurations", {kAny, chain.n_joints});
    return {chain.n_joints, {q.data(), q.data() + q.size()}};
}

inline Converted<double> positions_of(const Configurations& rows) {
    return copy_of(rows.positions, {rows.size(), Index(rows.n_joints)});
}

inline Converted<double> errors_of(const Rows& rows) {
    Converted<double> errors({Index(2), rows.size()});
    std::copy(rows.distances.begin(), rows.distances.end(), errors.mutable_data());
    std::copy(rows.angles.begin(), rows.angles.end(), errors.mutable_data() + rows.size());
    return errors;
}

inline py::array_t<bool> converged_of(const Rows& rows) {
    return py::array_t<bool>(rows.size(), reinterpret_cast<const bool*>(rows.converged.data()));
}

// Returns positions (n, n_joints) and errors (2, n).
inline py::tuple verified_tuple(const Rows& rows) {
    return py::make_tuple(positions_of(rows), errors_of(rows));
}

inline py::tuple tuple_of(const Rows& rows) {
    return py::make_tuple(positions_of(rows), converged_of(rows), copy_of(rows.iterations, {rows.size()}),
                          errors_of(rows));
}

inline constexpr Index kFewRows = 64;  // number of rows that are solved in less than 1 ms

// Calls function<N>() with the GIL released (see `Unlocked`).
template <class Function>
inline void run_unlocked(const Chain& chain, bool is_short, Function function) {
    Unlocked unlocked(is_short);
    for_kind(chain, function);
}

template <class Function>
inline void run_unlocked(const Chain& chain, Function function) {
    run_unlocked(chain, false, function);
}

// Returns the index of the first pose of `poses` (n, 4, 4) that is not a rigid transform, or n if all are rigid.
inline Index first_not_rigid(const Converted<double>& poses, double tolerance) {
    expect_shape(poses, "poses", {kAny, 4, 4});
    Index i = 0;
    while (i < poses.shape(0) && is_rigid(poses.data() + 16 * i, tolerance)) ++i;
    return i;
}

// Returns a copy of a pose (4, 4), or None if it is not a rigid transform.
inline py::object rigid_copy(const Converted<double>& pose, double tolerance) {
    expect_shape(pose, "pose", {4, 4});
    if (!is_rigid(pose.data(), tolerance)) return py::none();
    return Converted<double>({Index(4), Index(4)}, pose.data());
}

inline Chain make_chain(const Converted<double>& links, int n_joints) {
    expect_shape(links, "links", {kAny, 16});
    return Chain(links.data(), int(links.shape(0)), n_joints);
}

// Computes an array of the given shape for each configuration from its kinematics, with the Jacobian if requested.
//
// The caller passes the function write(kinematics in packs, lane, double* result).
template <bool WithJacobian, class Write>
inline Converted<double> kinematics(const Chain& chain, const Converted<double>& q, Shape shape, Write write) {
    expect_shape(q, "configurations", {kAny, chain.n_joints});
    const Index n = q.shape(0), size = shape[0] * shape[1];
    Converted<double> result({n, shape[0], shape[1]});
    double* out = result.mutable_data();
    run_unlocked(chain, n <= kFewRows, [&]<int N>() {
        for_packs<N>(chain, q.data(), n, [&](auto& at, Index first, int n_lanes) {
            if constexpr (WithJacobian) differentiate<N>(chain, at);
            for (int lane = 0; lane < n_lanes; ++lane) write(at, lane, out + (first + lane) * size);
        });
    });
    return result;
}

inline Converted<double> poses(const Chain& chain, const Converted<double>& q) {
    return kinematics<false>(chain, q, {4, 4}, [](const auto& at, int lane, double* pose) {
        for (int k = 0; k < 3; ++k, pose += 4) {
            pose[0] = get(at.tip.x[k], lane), pose[1] = get(at.tip.y[k], lane);
            pose[2] = get(at.tip.z[k], lane), pose[3] = get(at.tip.origin[k], lane);
        }
        pose[0] = pose[1] = pose[2] = 0.0, pose[3] = 1.0;
    });
}

inline Converted<double> jacobians(const Chain& chain, const Converted<double>& q) {
    return kinematics<true>(chain, q, {6, chain.n_joints}, [&](const auto& at, int lane, double* entry) {
        for (int k = 0; k < 6; ++k) {
            for (int j = 0; j < chain.n_joints; ++j) *entry++ = get(at.jacobian[j][k], lane);
        }
    });
}

inline Converted<double> gram_log_dets_of(const Chain& chain, const Converted<double>& q,
                                          const Converted<double>& weights, int n_rows) {
    expect_shape(q, "configurations", {kAny, chain.n_joints});
    expect_shape(weights, "weights", {q.shape(0), chain.n_joints});
    expect(n_rows == 3 || n_rows == 6, "n_rows must be 3 (position) or 6 (pose)");
    Converted<double> result(Shape{q.shape(0)});
    double* out = result.mutable_data();
    run_unlocked(chain, q.shape(0) <= kFewRows,
                 [&]<int N>() { gram_log_dets<N>(chain, q.data(), weights.data(), q.shape(0), n_rows, out); });
    return result;
}

// Returns the positions of the base, of the origin of each moving joint, and of the tip.
inline Converted<double> skeletons(const Chain& chain, const Converted<double>& q) {
    return kinematics<false>(chain, q, {chain.n_links + 2, 3}, [&](const auto& at, int lane, double* entry) {
        entry = std::fill_n(entry, 3, 0.0);
        for (int i = 0; i < chain.n_links; ++i) {
            for (int k = 0; k < 3; ++k) *entry++ = get(at.origin[i][k], lane);
        }
        for (int k = 0; k < 3; ++k) *entry++ = get(at.tip.origin[k], lane);
    });
}

inline py::tuple verify(const Chain& chain, const Task& task, const Converted<double>& q) {
    Rows rows(rows_of(chain, q));
    run_unlocked(chain, rows.size() <= kFewRows, [&]<int N>() { verify_rows<N>(chain, task, rows); });
    return py::make_tuple(errors_of(rows), converged_of(rows));
}

inline py::tuple refine(const Chain& chain, const Task& task, const StepOptions& effort,
                        const Converted<double>& seeds) {
    Rows rows(rows_of(chain, seeds));
    run_unlocked(chain, rows.size() <= kFewRows, [&]<int N>() { refine_rows<N>(chain, task, effort, rows); });
    return tuple_of(rows);
}

// Returns the Python class. Bindings of other folders add methods to this class.
inline py::class_<Chain> bind_chain(py::module_& module) {
    module.attr("LANES") = kLanes<WideDouble>;
    module.attr("MOST_JOINTS") = kMostJoints;
    module.def("first_not_rigid", first_not_rigid);
    module.def("rigid_copy", rigid_copy);
    py::class_<Task>(module, "Task", py::module_local()).def(py::init(&make_task));
    py::class_<StepOptions>(module, "StepOptions", py::module_local()).def(py::init<double, double, int, int>());
    return py::class_<Chain>(module, "Chain", py::module_local())
        .def(py::init(&make_chain))
        .def("forward", poses)
        .def("jacobian", jacobians)
        .def("gram_log_dets", gram_log_dets_of)
        .def("skeleton", skeletons)
        .def("verify", verify)
        .def("refine", refine);
}

}  // namespace eim
