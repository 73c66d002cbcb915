// Python module that runs the kernels on the processor. Tests use it without a GPU. The module also creates the
// structures that the kernels read, as bytes to be copied to a GPU.
#include <pybind11/stl.h>

#include "chain/task_binding.hpp"
#include "kernels.hpp"

namespace eim::device {

// Returns a chain of fixed size with all lengths multiplied by `factor`. `links` (n_links + 1, 16) is described in
// `Chain`.
inline Chain chain_of(const Converted<double>& links, int n_joints, double factor) {
    expect_shape(links, "links", {kAny, 16});
    const int n_links = int(links.shape(0)) - 1;
    expect(n_joints >= 1 && n_joints <= kMostJoints && n_links >= n_joints && n_links <= kMostLinks,
           "a chain needs 1 to 16 independent joints and at most 24 moving ones");
    Chain chain{n_joints, n_links, 0, 0.0, 1.0, {}, {}};
    for (int i = 0; i <= n_links; ++i) {
        Link<double>& link = chain.links.values[i] = {links.data() + 16 * i, n_joints, i < n_links};
        Link<float>& single = chain.single.values[i] = {links.data() + 16 * i, n_joints, i < n_links};
        for (double& length : link.translation) length *= factor;
        for (float& length : single.translation) length *= float(factor);
    }
    const ChainSize size(chain.links.data(), n_links, n_joints);
    chain.kind = size.kind, chain.reach = size.reach, chain.unit = factor == 1.0 ? size.unit : 1.0;
    return chain;
}

// Fills the closed forms of an arm. If `fixed` is the index of one of seven joints, the form covers the other six
// joints.
inline void find_forms(Arm& arm, int fixed) {
    const Chain& chain = arm.chain[0];
    if (chain.kind == 0) return;
    double q[kJoints<0>] = {};
    if (fixed >= 0) q[fixed] = arm.task.bounds.lower[fixed];
    Kinematics<double, 0> at;
    forward<0>(chain, q, at);
    Line axes[7];
    for (int j = 0; j < chain.kind; ++j) {
        axes[j] = {{at.axis[j][0], at.axis[j][1], at.axis[j][2]}, {at.origin[j][0], at.origin[j][1], at.origin[j][2]}};
    }
    double tip[3][4];
    for (int k = 0; k < 3; ++k) {
        tip[k][0] = at.tip.x[k], tip[k][1] = at.tip.y[k], tip[k][2] = at.tip.z[k], tip[k][3] = at.tip.origin[k];
    }
    if (chain.kind == 7) arm.parameterised = ParameterisedForm(axes, motion_of(tip));
    if (chain.kind == 7 && fixed < 0) return;
    Line six[6];
    for (int i = 0; i < 6; ++i) arm.joints[i] = fixed >= 0 && i >= fixed ? i + 1 : i, six[i] = axes[arm.joints[i]];
    arm.form = ClosedForm(six, motion_of(tip));
}

inline Arm arm_of(const Converted<double>& links, const Converted<double>& bounds, bool position_only,
                  const Converted<double>& tolerances, double position_tolerance, double orientation_tolerance,
                  const std::array<double, 4>& reach, int fixed) {
    expect_shape(bounds, "bounds", {3, kAny});
    const int n_joints = int(bounds.shape(1));
    Arm arm{};
    arm.chain[0] = chain_of(links, n_joints, 1.0);
    arm.chain[1] = chain_of(links, n_joints, 1.0 / arm.chain[0].unit);
    Converted<double> identity({Index(4), Index(4)});
    for (int k = 0; k < 16; ++k) identity.mutable_data()[k] = k % 5 == 0;
    arm.task = make_task(bounds, identity, position_only, tolerances, position_tolerance, orientation_tolerance);
    arm.open = arm.task;
    for (int j = 0; j < n_joints; ++j) {
        const double lower = arm.task.bounds.lower[j], upper = arm.task.bounds.upper[j];
        const bool is_fixed = j == fixed, wraps = arm.task.bounds.wraps[j];
        arm.open.bounds.lower[j] = is_fixed ? lower : -std::numeric_limits<double>::infinity();
        arm.open.bounds.upper[j] = is_fixed ? lower : std::numeric_limits<double>::infinity();
        arm.open.bounds.wraps[j] = false;
        arm.circles.lower[j] = is_fixed ? lower : -kPi, arm.circles.upper[j] = is_fixed ? lower : kPi;
        arm.circles.wraps[j] = !is_fixed;
        arm.least[j] = wraps ? -kPi : lower, arm.most[j] = wraps ? kPi : upper;
    }
    std::copy_n(reach.data(), 3, arm.first_joint), arm.farthest = reach[3];
    find_forms(arm, fixed);
    return arm;
}

template <class T>
inline py::array_t<std::uint8_t> bytes_of(const T& value) {
    return py::array_t<std::uint8_t>(Index(sizeof(T)), reinterpret_cast<const std::uint8_t*>(&value));
}

template <class T>
inline T value_of(const Converted<std::uint8_t>& bytes) {
    expect(bytes.size() == Index(sizeof(T)), "bytes of another structure");
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
}

inline py::array_t<std::uint8_t> request_of(const std::array<std::uintptr_t, 7>& addresses, std::int64_t n,
                                            std::uint64_t seed, int n_rows, int patience, int n_values,
                                            bool lists_revolutions, const std::vector<double>& reference,
                                            bool has_reference, bool in_single, bool screens, double apart) {
    expect(reference.size() <= kMostJoints, "a reference has at most 16 joints");
    Request call{};
    call.arm = reinterpret_cast<const Arm*>(addresses[0]);
    call.poses = reinterpret_cast<const double*>(addresses[1]);
    call.q = reinterpret_cast<double*>(addresses[2]), call.errors = reinterpret_cast<double*>(addresses[3]);
    call.counts = reinterpret_cast<std::int32_t*>(addresses[4]);
    call.status = reinterpret_cast<std::uint8_t*>(addresses[5]);
    call.measures = reinterpret_cast<double*>(addresses[6]);
    call.n = n, call.seed = seed, call.n_rows = n_rows, call.patience = patience, call.n_values = n_values;
    call.lists_revolutions = lists_revolutions, call.has_reference = has_reference, call.in_single = in_single;
    call.screens = screens, call.apart = apart;
    std::copy(reference.begin(), reference.end(), call.reference);
    return bytes_of(call);
}

struct Kernel {
    const char *name, *function;
    void (*run)(const Request&, std::int64_t);
};

#define EIM_LISTED(name, function) {#name, #function, function},
inline const Kernel kKernels[] = {EIM_KERNELS(EIM_LISTED)};
#undef EIM_LISTED

inline void run(const std::string& name, const Converted<std::uint8_t>& bytes) {
    const Request call = value_of<Request>(bytes);
    for (const Kernel& kernel : kKernels) {
        if (kernel.name != name) continue;
        const py::gil_scoped_release released;
        for (std::int64_t i = 0; i < call.n; ++i) kernel.run(call, i);
        return;
    }
    throw std::invalid_argument("there is no kernel " + name);
}

}  // namespace eim::device

PYBIND11_MODULE(_kernels, module) {
    using namespace eim::device;
    namespace py = eim::py;
    module.attr("MOST_JOINTS") = eim::kMostJoints, module.attr("MOST_LINKS") = eim::kMostLinks;
    module.attr("LONGEST_IN_SINGLE") = eim::kLongestInSingle;
    module.attr("SIZES") = py::make_tuple(sizeof(Request), sizeof(Arm));
    py::dict functions;
    for (const Kernel& kernel : kKernels) functions[kernel.name] = kernel.function;
    module.attr("FUNCTIONS") = functions;
    module.def("arm", [](const eim::Converted<double>& links, const eim::Converted<double>& bounds, bool position_only,
                         const eim::Converted<double>& tolerances, double position_tolerance,
                         double orientation_tolerance, const std::array<double, 4>& reach, int fixed) {
        return bytes_of(
            arm_of(links, bounds, position_only, tolerances, position_tolerance, orientation_tolerance, reach, fixed));
    });
    module.def("kinds", [](const eim::Converted<std::uint8_t>& bytes) {
        const Arm arm = value_of<Arm>(bytes);
        return py::make_tuple(arm.chain[0].kind, arm.form.kind != eim::ClosedForm::Kind::none,
                              arm.parameterised.fits());
    });
    module.def("request", request_of);
    module.def("run", run);
}
