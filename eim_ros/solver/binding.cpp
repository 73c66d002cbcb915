// The solver as a Python module: arrays are checked here, once, and the interpreter's lock is let go while it works.
#include "closed_form/binding.hpp"

#include "chain/normal_equations.hpp"
#include "chain/rigid_transform.hpp"
#include "numerics/arrays.hpp"
#include "numerics/binding.hpp"
#include "search/many_binding.hpp"
#include "search/restarts.hpp"
#include "search/search_round.hpp"
#include "search/self_motion_binding.hpp"
#include "selection/farthest_rows.hpp"

using namespace eim;

namespace {

using Doubles = Converted<double>;
using Bools = Converted<bool>;

Configurations rows_of(const Chain& chain, const Doubles& q) {
    expect_shape(q, "configurations", {kAny, chain.n_joints});
    return {chain.n_joints, {q.data(), q.data() + q.size()}};
}

Doubles positions_of(const Configurations& rows) {
    return copy_of(rows.positions, {rows.size(), Index(rows.n_joints)});
}

Doubles errors_of(const Rows& rows) {
    Doubles errors({Index(2), rows.size()});
    std::copy(rows.distances.begin(), rows.distances.end(), errors.mutable_data());
    std::copy(rows.angles.begin(), rows.angles.end(), errors.mutable_data() + rows.size());
    return errors;
}

py::array_t<bool> converged_of(const Rows& rows) {
    return py::array_t<bool>(rows.size(), reinterpret_cast<const bool*>(rows.converged.data()));
}

py::tuple tuple_of(const Rows& rows) {
    return py::make_tuple(positions_of(rows), converged_of(rows), copy_of(rows.iterations, {rows.size()}),
                          errors_of(rows));
}

// Index of the first of poses (n, 4, 4) that is no rigid transform, or n.
Index first_not_rigid(const Doubles& poses, double tolerance) {
    expect_shape(poses, "poses", {kAny, 4, 4});
    Index i = 0;
    while (i < poses.shape(0) && is_rigid(poses.data() + 16 * i, tolerance)) ++i;
    return i;
}

Chain make_chain(const Doubles& links, int n_joints) {
    expect_shape(links, "links", {kAny, 16});
    return Chain(links.data(), int(links.shape(0)), n_joints);
}

// Of (3, n_joints): lower and upper limits, and whether a joint wraps.
Bounds<double> make_bounds(const Doubles& rows) {
    expect_shape(rows, "bounds", {3, kAny});
    expect(rows.shape(1) <= kMostJoints, "bounds must be of at most 64 joints");
    Bounds<double> bounds{};
    for (int j = 0; j < rows.shape(1); ++j) {
        bounds.lower[j] = rows.at(0, j), bounds.upper[j] = rows.at(1, j), bounds.wraps[j] = rows.at(2, j) != 0.0;
    }
    return bounds;
}

Task make_task(const Doubles& bounds, const Doubles& pose, bool position_only, const Doubles& tolerances,
               double position_tolerance, double orientation_tolerance) {
    expect_shape(pose, "pose", {4, 4});
    expect(tolerances.size() == 0 || tolerances.size() == 6, "tolerances must be (6,) or (0,)");
    expect(is_rigid(pose.data(), 1e-3), "the pose must be a rigid transform");
    Task task{};
    task.bounds = make_bounds(bounds);
    std::copy_n(task.bounds.lower, kMostJoints, task.single_bounds.lower);
    std::copy_n(task.bounds.upper, kMostJoints, task.single_bounds.upper);
    std::copy_n(task.bounds.wraps, kMostJoints, task.single_bounds.wraps);
    std::copy_n(pose.data(), 12, &task.target[0][0]);
    std::copy_n(tolerances.data(), tolerances.size(), task.tolerances);
    task.has_tolerances = tolerances.size() == 6;
    task.position_only = position_only && !task.has_tolerances;
    task.position_tolerance = position_tolerance, task.orientation_tolerance = orientation_tolerance;
    return task;
}

// Calls function<N>() without the interpreter's lock.
template <class Function>
void work(const Chain& chain, Function function) {
    Unlocked unlocked;
    for_kind(chain, function);
}

// For each configuration what `write` makes of its kinematics, and where asked of its Jacobian: an array of a shape.
//
// write(kinematics in packs, lane, double* result)
template <bool WithJacobian, class Write>
Doubles kinematics(const Chain& chain, const Doubles& q, Shape shape, Write write) {
    expect_shape(q, "configurations", {kAny, chain.n_joints});
    const Index n = q.shape(0), size = shape[0] * shape[1];
    Doubles result({n, shape[0], shape[1]});
    double* out = result.mutable_data();
    work(chain, [&]<int N>() {
        for_packs<N>(chain, q.data(), n, [&](auto& at, Index first, int n_lanes) {
            if constexpr (WithJacobian) differentiate<N>(chain, at);
            for (int lane = 0; lane < n_lanes; ++lane) write(at, lane, out + (first + lane) * size);
        });
    });
    return result;
}

Doubles poses(const Chain& chain, const Doubles& q) {
    return kinematics<false>(chain, q, {4, 4}, [](const auto& at, int lane, double* pose) {
        for (int k = 0; k < 3; ++k, pose += 4) {
            pose[0] = get(at.tip.x[k], lane), pose[1] = get(at.tip.y[k], lane);
            pose[2] = get(at.tip.z[k], lane), pose[3] = get(at.tip.origin[k], lane);
        }
        pose[0] = pose[1] = pose[2] = 0.0, pose[3] = 1.0;
    });
}

Doubles jacobians(const Chain& chain, const Doubles& q) {
    return kinematics<true>(chain, q, {6, chain.n_joints}, [&](const auto& at, int lane, double* entry) {
        for (int k = 0; k < 6; ++k) {
            for (int j = 0; j < chain.n_joints; ++j) *entry++ = get(at.jacobian[j][k], lane);
        }
    });
}

Doubles gram_log_dets_of(const Chain& chain, const Doubles& q, const Doubles& weights, int n_rows) {
    expect_shape(q, "configurations", {kAny, chain.n_joints});
    expect_shape(weights, "weights", {q.shape(0), chain.n_joints});
    expect(n_rows == 3 || n_rows == 6, "a Jacobian has 3 rows of the position, and 6 in all");
    Doubles result(Shape{q.shape(0)});
    double* out = result.mutable_data();
    work(chain, [&]<int N>() { gram_log_dets<N>(chain, q.data(), weights.data(), q.shape(0), n_rows, out); });
    return result;
}

// Base, origin of each moving joint, tip.
Doubles skeletons(const Chain& chain, const Doubles& q) {
    return kinematics<false>(chain, q, {chain.n_links + 2, 3}, [&](const auto& at, int lane, double* entry) {
        entry = std::fill_n(entry, 3, 0.0);
        for (int i = 0; i < chain.n_links; ++i) {
            for (int k = 0; k < 3; ++k) *entry++ = get(at.origin[i][k], lane);
        }
        for (int k = 0; k < 3; ++k) *entry++ = get(at.tip.origin[k], lane);
    });
}

py::tuple verify(const Chain& chain, const Task& task, const Doubles& q) {
    Rows rows(rows_of(chain, q));
    work(chain, [&]<int N>() { verify_rows<N>(chain, task, rows); });
    return py::make_tuple(errors_of(rows), converged_of(rows));
}

py::tuple refine(const Chain& chain, const Task& task, const Effort& effort, const Doubles& seeds) {
    Rows rows(rows_of(chain, seeds));
    work(chain, [&]<int N>() { refine_rows<N>(chain, task, effort, rows); });
    return tuple_of(rows);
}

py::tuple solve_all(const Chain& chain, const Task& task, const Effort& effort, const Doubles& targets,
                    int max_restarts, double seed) {
    expect_shape(targets, "poses", {kAny, 4, 4});
    Rows rows({chain.n_joints});
    rows.resize(targets.shape(0));
    work(chain, [&]<int N>() { solve_rows<N>(chain, task, effort, targets.data(), max_restarts, Random(seed), rows); });
    return tuple_of(rows);
}

// The given solutions and those added, at most `most` in all.
Doubles spread_solutions(const Chain& chain, const Task& task, const Spread& spread, const Doubles& solutions,
                         Index most, double seed) {
    Configurations rows = rows_of(chain, solutions);
    work(chain, [&]<int N>() { spread_over<N>(chain, task, spread, seed, most, rows); });
    return positions_of(rows);
}

Doubles descend(const Chain& chain, const Task& task, const Doubles& solutions, const Doubles& preferred,
                const Doubles& weights, const Bools& continuous) {
    const Index n = chain.n_joints;
    expect(preferred.size() == n && weights.size() == n && continuous.size() == n,
           "a cost needs a value of each joint");
    Configurations rows = rows_of(chain, solutions);
    const Cost cost{preferred.data(), weights.data(), continuous.data(), chain.n_joints};
    work(chain, [&]<int N>() {
        Descent<N> descent(chain, task, cost);
        for (Index i = 0; i < rows.size(); ++i) descent.run(rows.row(i));
    });
    return positions_of(rows);
}

// Indices of rows that are no near-duplicate of an earlier one, and how many rows there was time to look at.
py::tuple distinct_rows(const Doubles& bounds, const Doubles& rows, double tolerance, double deadline) {
    const Bounds<double> joints = make_bounds(bounds);
    expect_shape(rows, "rows", {kAny, bounds.shape(1)});
    Places known(joints, int(bounds.shape(1)));
    const auto is_new = [&](Index i) {
        const double* row = rows.data() + i * rows.shape(1);
        const bool is_known = known.has_duplicate(row, tolerance);
        if (!is_known) known.add(row);
        return !is_known;
    };
    Watch watch(deadline);
    Index n_seen = 0;
    std::vector<Index> kept;
    for (; n_seen < rows.shape(0) && !watch.is_past(); ++n_seen) {
        if (is_new(n_seen)) kept.push_back(n_seen);
    }
    return py::make_tuple(copy_of(kept, {Index(kept.size())}), n_seen);
}

// Whether rows are near-duplicates of some of others.
py::array_t<bool> is_within(const Doubles& bounds, const Doubles& rows, const Doubles& others, double tolerance) {
    const Bounds<double> joints = make_bounds(bounds);
    expect_shape(rows, "rows", {kAny, bounds.shape(1)}), expect_shape(others, "others", {kAny, bounds.shape(1)});
    Places known(joints, int(bounds.shape(1)));
    for (Index i = 0; i < others.shape(0); ++i) known.add(others.data() + i * others.shape(1));
    py::array_t<bool> is_near(rows.shape(0));
    for (Index i = 0; i < rows.shape(0); ++i) {
        is_near.mutable_data()[i] = known.has_duplicate(rows.data() + i * rows.shape(1), tolerance);
    }
    return is_near;
}

// Indices of rows that are spread over all of them.
py::array_t<Index> farthest_of(const Doubles& bounds, const Doubles& rows, Index n, double deadline) {
    const Bounds<double> joints = make_bounds(bounds);
    expect_shape(rows, "rows", {kAny, bounds.shape(1)});
    const std::vector<Index> chosen =
        farthest_rows(joints, {int(bounds.shape(1)), {rows.data(), rows.data() + rows.size()}}, n, deadline);
    return copy_of(chosen, {Index(chosen.size())});
}

// One round with experts given a pose: see `Search`.
void run_round(const Chain& chain, const Task& task, const Round& round, const py::tuple& conditional,
               const Doubles& given, const Bools& continuous, Found& found) {
    const Doubles log_weights = conditional[1].cast<Doubles>(), contexts = conditional[2].cast<Doubles>();
    const Mixture mixture = mixture_of(conditional[0].cast<const Experts&>(), log_weights, contexts);
    const Configurations seeds = rows_of(chain, given);
    expect_shape(continuous, "continuous", {chain.n_joints});
    expect(found.rows.n_joints == chain.n_joints, "what was found is of other joints");
    expect(round.n_drawn == 0 || (mixture.experts.n_dims == chain.n_joints && mixture.n_components() > 0),
           "the mixture has other joints");
    expect(round.n_uniform >= 0 && round.n_drawn >= 0, "seeds cannot be fewer than none");
    work(chain, [&]<int N>() { search_round<N>(chain, task, mixture, round, seeds, continuous.data(), found); });
}

void keep(Found& found, const Bools& mask) {
    expect_shape(mask, "mask", {found.size()});
    found.keep(reinterpret_cast<const std::uint8_t*>(mask.data()));
}

// Positions, errors (2, n) and experts.
py::tuple rows_found(const Found& found) {
    return py::make_tuple(positions_of(found.rows), errors_of(found.rows),
                          copy_of(found.experts, {Index(found.size())}));
}

}  // namespace

PYBIND11_MODULE(EIM_MODULE, module) {
    module.attr("LANES") = kLanes<WideDouble>;
    module.attr("MOST_JOINTS") = kMostJoints;
    module.attr("NO_EXPERT") = kNoExpert;
    module.attr("SPACING") = kSpacing;
    module.def("first_not_rigid", first_not_rigid);
    module.def("distinct_rows", distinct_rows);
    module.def("farthest_rows", farthest_of);
    module.def("is_within", is_within);
    bind_mixture(module);
    bind_closed_forms(module);
    bind_many(module);
    bind_self_motions(module);
    py::class_<Task>(module, "Task", py::module_local()).def(py::init(&make_task));
    py::class_<Effort>(module, "Effort", py::module_local()).def(py::init<double, double, int, int>());
    py::class_<Spread>(module, "Spread", py::module_local()).def(py::init<double, double, int, double>());
    py::class_<Chain>(module, "Chain", py::module_local())
        .def(py::init(&make_chain))
        .def("forward", poses)
        .def("jacobian", jacobians)
        .def("gram_log_dets", gram_log_dets_of)
        .def("skeleton", skeletons)
        .def("verify", verify)
        .def("refine", refine)
        .def("solve", solve_all)
        .def("spread", spread_solutions)
        .def("descend", descend)
        .def("search_round", run_round);
    py::class_<Round>(module, "Round", py::module_local())
        .def(py::init([] { return Round{}; }))
        .def_readwrite("n_uniform", &Round::n_uniform)
        .def_readwrite("n_drawn", &Round::n_drawn)
        .def_readwrite("tempering", &Round::tempering)
        .def_readwrite("stratified", &Round::stratified)
        .def_readwrite("distinct_tolerance", &Round::distinct_tolerance)
        .def_readwrite("has_continued", &Round::has_continued)
        .def_readwrite("fewest_roots", &Round::fewest_roots)
        .def_readwrite("n_wanted", &Round::n_wanted)
        .def_readwrite("spread", &Round::spread)
        .def_readwrite("effort", &Round::effort)
        .def_readwrite("seed", &Round::seed);
    py::class_<Found>(module, "Found", py::module_local())
        .def(py::init<int>())
        .def("__len__", &Found::size)
        .def("keep", keep)
        .def_property_readonly("rows", rows_found)
        .def_property_readonly("best", [](const Found& f) { return copy_of(f.best, {Index(1), Index(f.best.size())}); })
        .def_readonly("n_seeded", &Found::n_seeded)
        .def_readonly("n_remote", &Found::n_remote);
}
