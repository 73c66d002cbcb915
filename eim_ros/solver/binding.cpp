// The solver as a Python module: arrays are checked here, once, and the interpreter's lock is let go while it works.
#include "arrays.hpp"
#include "experts.hpp"
#include "instruction_set.hpp"
#include "search_round.hpp"

namespace py = pybind11;
using namespace eim;

namespace {

Chain make_chain(const Doubles& links, int n_joints) {
    expect(links.ndim() == 2 && links.shape(1) == 16 && links.shape(0) >= 2, "links must be (m + 1, 16)");
    return Chain(links.data(), int(links.shape(0)), n_joints);
}

// Index of the first of poses (n, 4, 4) that is no rigid transform, or n.
py::ssize_t first_not_rigid(const Doubles& poses, double tolerance) {
    expect(poses.ndim() == 3 && poses.shape(1) == 4 && poses.shape(2) == 4, "poses must be (n, 4, 4)");
    py::ssize_t i = 0;
    while (i < poses.shape(0) && is_rigid(poses.data() + 16 * i, tolerance)) ++i;
    return i;
}

Task make_task(const Doubles& bounds, const Doubles& pose, bool position_only, const Doubles& tolerances,
               double position_tolerance, double orientation_tolerance) {
    expect(bounds.ndim() == 2 && bounds.shape(0) == 3 && bounds.shape(1) <= kMostJoints,
           "bounds must be (3, n_joints)");
    expect(tolerances.ndim() == 1 && (tolerances.size() == 0 || tolerances.size() == 6),
           "tolerances must be (6,) or (0,)");
    expect(pose.ndim() == 2 && pose.shape(0) == 4 && pose.shape(1) == 4 && is_rigid(pose.data(), 1e-3),
           "the pose must be a rigid transform");
    Task task{};
    for (int j = 0; j < bounds.shape(1); ++j) {
        task.bounds.lower[j] = bounds.at(0, j), task.bounds.upper[j] = bounds.at(1, j);
        task.single_bounds.lower[j] = float(bounds.at(0, j)), task.single_bounds.upper[j] = float(bounds.at(1, j));
        task.bounds.wraps[j] = task.single_bounds.wraps[j] = bounds.at(2, j) != 0.0;
    }
    std::copy_n(pose.data(), 12, &task.target[0][0]);
    task.has_tolerances = tolerances.size() == 6;
    if (task.has_tolerances) std::copy_n(tolerances.data(), 6, task.tolerances);
    task.position_only = position_only && !task.has_tolerances;
    task.position_tolerance = position_tolerance, task.orientation_tolerance = orientation_tolerance;
    return task;
}

// Calls function(packed kinematics, index of the first row, number of rows) for all configurations.
template <int N, class Function>
void for_rows(const Chain& chain, const double* q, py::ssize_t n, Function function) {
    Kinematics<WideDouble, N> at;
    WideDouble values[kJoints<N>];
    for (py::ssize_t first = 0; first < n; first += kLanes<WideDouble>) {
        const int n_lanes = load_rows(q, first, n, chain.n_joints, values);
        forward<N>(chain, values, at);
        function(at, first, n_lanes);
    }
}

Doubles forward_poses(const Chain& chain, const Doubles& q) {
    const py::ssize_t n = n_configurations(chain, q);
    Doubles poses({n, py::ssize_t(4), py::ssize_t(4)});
    double* out = poses.mutable_data();
    Unlocked unlocked;
    for_kind(chain, [&]<int N>() {
        for_rows<N>(chain, q.data(), n, [&](const auto& at, py::ssize_t first, int n_lanes) {
            for (int lane = 0; lane < n_lanes; ++lane) {
                double* pose = out + 16 * (first + lane);
                for (int k = 0; k < 3; ++k) {
                    pose[4 * k] = get(at.tip.x[k], lane), pose[4 * k + 1] = get(at.tip.y[k], lane);
                    pose[4 * k + 2] = get(at.tip.z[k], lane), pose[4 * k + 3] = get(at.tip.origin[k], lane);
                }
                pose[12] = pose[13] = pose[14] = 0.0, pose[15] = 1.0;
            }
        });
    });
    return poses;
}

Doubles jacobians(const Chain& chain, const Doubles& q) {
    const py::ssize_t n = n_configurations(chain, q), n_joints = chain.n_joints;
    Doubles result({n, py::ssize_t(6), n_joints});
    double* out = result.mutable_data();
    Unlocked unlocked;
    for_kind(chain, [&]<int N>() {
        for_rows<N>(chain, q.data(), n, [&](auto& at, py::ssize_t first, int n_lanes) {
            differentiate<N>(chain, at);
            for (int lane = 0; lane < n_lanes; ++lane) {
                for (int k = 0; k < 6; ++k) {
                    for (int j = 0; j < n_joints; ++j) {
                        out[((first + lane) * 6 + k) * n_joints + j] = get(at.jacobian[j][k], lane);
                    }
                }
            }
        });
    });
    return result;
}

// Base, origin of each moving joint, tip (n, n_links + 2, 3).
Doubles skeletons(const Chain& chain, const Doubles& q) {
    const py::ssize_t n = n_configurations(chain, q), n_points = chain.n_links + 2;
    Doubles points({n, n_points, py::ssize_t(3)});
    double* out = points.mutable_data();
    Unlocked unlocked;
    for_kind(chain, [&]<int N>() {
        for_rows<N>(chain, q.data(), n, [&](const auto& at, py::ssize_t first, int n_lanes) {
            for (int lane = 0; lane < n_lanes; ++lane) {
                double* point = out + (first + lane) * n_points * 3;
                for (int k = 0; k < 3; ++k) {
                    point[k] = 0.0;
                    for (int i = 0; i < chain.n_links; ++i) point[3 * (i + 1) + k] = get(at.origin[i][k], lane);
                    point[3 * (n_points - 1) + k] = get(at.tip.origin[k], lane);
                }
            }
        });
    });
    return points;
}

py::tuple verify(const Chain& chain, const Task& task, const Doubles& q) {
    const py::ssize_t n = n_configurations(chain, q);
    Doubles errors({py::ssize_t(2), n});
    py::array_t<bool> valid(n);
    const Rows rows{const_cast<double*>(q.data()),
                    n,
                    chain.n_joints,
                    valid.mutable_data(),
                    nullptr,  // only read
                    errors.mutable_data(),
                    errors.mutable_data() + n};
    {
        Unlocked unlocked;
        for_kind(chain, [&]<int N>() { verify_rows<N>(chain, task, rows); });
    }
    return py::make_tuple(errors, valid);
}

py::tuple refine(const Chain& chain, const Task& task, const Effort& effort, const Doubles& seeds) {
    n_configurations(chain, seeds);
    Answer answer(copied(seeds));
    {
        const Rows rows = answer.rows();
        Unlocked unlocked;
        for_kind(chain, [&]<int N>() { refine_rows<N>(chain, task, effort, rows); });
    }
    return answer.tuple();
}

py::tuple solve_all(const Chain& chain, const Task& task, const Effort& effort, const Doubles& poses, int max_restarts,
                    double seed) {
    expect(poses.ndim() == 3 && poses.shape(1) == 4 && poses.shape(2) == 4, "poses must be (n, 4, 4)");
    Answer answer(Doubles({poses.shape(0), py::ssize_t(chain.n_joints)}));
    {
        const Rows rows = answer.rows();
        Unlocked unlocked;
        for_kind(chain,
                 [&]<int N>() { solve_rows<N>(chain, task, effort, poses.data(), max_restarts, Random(seed), rows); });
    }
    return answer.tuple();
}

// The given solutions and those appended (k, n_joints), k <= capacity.
Doubles spread_solutions(const Chain& chain, const Task& task, const Spread& spread, const Doubles& solutions,
                         int capacity, double seed) {
    const int n = int(n_configurations(chain, solutions));
    std::vector<double> rows(std::size_t(std::max(capacity, n)) * chain.n_joints);
    std::copy_n(solutions.data(), solutions.size(), rows.data());
    Points points{rows.data(), n, std::max(capacity, n), chain.n_joints};
    {
        Unlocked unlocked;
        for_kind(chain, [&]<int N>() { spread_over<N>(chain, task, spread, seed, points); });
    }
    return copy_of(rows, {py::ssize_t(points.n), py::ssize_t(chain.n_joints)});
}

Doubles descend(const Chain& chain, const Task& task, const Doubles& solutions, const Doubles& preferred,
                const Doubles& weights, const Bools& turns) {
    const py::ssize_t n = n_configurations(chain, solutions), n_joints = chain.n_joints;
    expect(preferred.size() == n_joints && weights.size() == n_joints && turns.size() == n_joints,
           "a cost needs a value of each joint");
    Doubles rows = copied(solutions);
    double* out = rows.mutable_data();
    const Cost cost{preferred.data(), weights.data(), turns.data(), chain.n_joints};
    Unlocked unlocked;
    for_kind(chain, [&]<int N>() {
        Descent<N> descent(chain, task, cost);
        for (py::ssize_t i = 0; i < n; ++i) descent.run(out + i * n_joints);
    });
    return rows;
}

// Indices of rows that are no near-duplicate of an earlier one.
py::array_t<std::int64_t> distinct_rows(const Doubles& bounds, const Doubles& rows, double tolerance) {
    expect(bounds.ndim() == 2 && bounds.shape(0) == 3 && bounds.shape(1) <= kMostJoints,
           "bounds must be (3, n_joints)");
    const int n_joints = int(bounds.shape(1)), n = int(n_rows(rows, n_joints, "rows must be (n, n_joints)"));
    Bounds<double> joints{};
    for (int j = 0; j < n_joints; ++j) joints.wraps[j] = bounds.at(2, j) != 0.0;
    std::vector<std::int64_t> kept;
    for (int i = 0; i < n; ++i) {
        const auto is_close = [&](std::int64_t k) {
            return are_duplicates(joints, rows.data() + k * n_joints, rows.data() + std::ptrdiff_t(i) * n_joints,
                                  n_joints, tolerance);
        };
        if (std::none_of(kept.begin(), kept.end(), is_close)) kept.push_back(i);
    }
    return copy_of(kept, {py::ssize_t(kept.size())});
}

// One round with experts given a pose: see Sampler.
void run_round(const Chain& chain, const Task& task, const Round& round, const py::tuple& conditional,
               const Doubles& given, const Bools& turns, Found& found) {
    const Experts& experts = conditional[0].cast<const Experts&>();
    const Doubles log_weights = conditional[1].cast<Doubles>(), contexts = conditional[2].cast<Doubles>();
    const Mixture mixture = experts.given(log_weights, contexts);
    const int n_given = int(n_configurations(chain, given));
    expect(turns.size() == chain.n_joints && found.n_joints == chain.n_joints, "joints disagree");
    expect(round.n_drawn == 0 || (mixture.n_dims == chain.n_joints && mixture.n_components() > 0),
           "the mixture has other joints");
    expect(round.n_uniform >= 0 && round.n_drawn >= 0, "seeds cannot be fewer than none");
    Unlocked unlocked;
    for_kind(chain, [&]<int N>() {
        search_round<N>(chain, task, mixture, round, given.data(), n_given, turns.data(), found);
    });
}

void keep(Found& found, const Bools& mask) {
    expect(mask.size() == found.size(), "the mask needs one entry for each row");
    int n_kept = 0;
    for (int i = 0; i < found.size(); ++i) {
        if (mask.data()[i]) found.move_row(i, n_kept++);
    }
    found.resize(n_kept);
}

}  // namespace

PYBIND11_MODULE(EIM_MODULE, module) {
    module.attr("LANES") = kLanes<WideDouble>;
    module.attr("MOST_JOINTS") = kMostJoints;
    module.attr("NO_EXPERT") = kNoExpert;
    module.attr("SPACING") = kSpacing;
    module.def("runs_here", runs_here);
    module.def("first_not_rigid", first_not_rigid);
    module.def("distinct_rows", distinct_rows);
    module.def("log_gate", gate);
    py::class_<Task>(module, "Task", py::module_local()).def(py::init(&make_task));
    py::class_<Effort>(module, "Effort", py::module_local()).def(py::init<double, double, int, int>());
    py::class_<Spread>(module, "Spread", py::module_local())
        .def(py::init([](double step, double finest, int redundancy) { return Spread{step, finest, redundancy}; }));
    py::class_<Chain>(module, "Chain", py::module_local())
        .def(py::init(&make_chain))
        .def("forward", forward_poses)
        .def("jacobian", jacobians)
        .def("skeleton", skeletons)
        .def("verify", verify)
        .def("refine", refine)
        .def("solve", solve_all)
        .def("spread", spread_solutions)
        .def("descend", descend)
        .def("search_round", run_round);
    py::class_<Experts>(module, "Experts", py::module_local())
        .def(py::init<Doubles, Doubles, Doubles, int>())
        .def("draw", draw_samples)
        .def("log_density", log_density);
    py::class_<Round>(module, "Round", py::module_local())
        .def(py::init([] { return Round{}; }))
        .def_readwrite("n_uniform", &Round::n_uniform)
        .def_readwrite("n_drawn", &Round::n_drawn)
        .def_readwrite("tempering", &Round::tempering)
        .def_readwrite("stratified", &Round::stratified)
        .def_readwrite("distinct_tolerance", &Round::distinct_tolerance)
        .def_readwrite("has_walked", &Round::has_walked)
        .def_readwrite("fewest_roots", &Round::fewest_roots)
        .def_readwrite("n_wanted", &Round::n_wanted)
        .def_readwrite("spread", &Round::spread)
        .def_property(
            "deadline", [](const Round& r) { return r.spread.deadline; },
            [](Round& r, double at) { r.spread.deadline = at; })
        .def_readwrite("effort", &Round::effort)
        .def_readwrite("seed", &Round::seed);
    py::class_<Found>(module, "Found", py::module_local())
        .def(py::init<int>())
        .def("__len__", &Found::size)
        .def("keep", keep)
        .def_property_readonly(
            "positions",
            [](const Found& f) { return copy_of(f.positions, {py::ssize_t(f.size()), py::ssize_t(f.n_joints)}); })
        .def_property_readonly("position_error",
                               [](const Found& f) { return copy_of(f.position_error, {py::ssize_t(f.size())}); })
        .def_property_readonly("orientation_error",
                               [](const Found& f) { return copy_of(f.orientation_error, {py::ssize_t(f.size())}); })
        .def_property_readonly("experts", [](const Found& f) { return copy_of(f.experts, {py::ssize_t(f.size())}); })
        .def_property_readonly(
            "best", [](const Found& f) { return copy_of(f.best, {py::ssize_t(1), py::ssize_t(f.n_joints)}); })
        .def_readonly("n_seeded", &Found::n_seeded)
        .def_readonly("n_remote", &Found::n_remote);
}
