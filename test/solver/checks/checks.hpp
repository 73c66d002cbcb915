// Functions shared by all checks of the solver's templates: registration, comparisons, arms and tasks.
//
// A check is a function that throws if its claim is false. `main.cpp` runs all checks and prints one line per check.
// All files are compiled as a single translation unit.
#pragma once

#include <cmath>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "chain/refine.hpp"
#include "chain/task.hpp"
#include "numerics/random.hpp"

struct Check {
    std::string name;
    void (*run)();
};

std::vector<Check>& all_checks();

struct Registered {
    Registered(const char* name, void (*run)()) { all_checks().push_back({name, run}); }
};

#define CHECK(name)                                         \
    static void name();                                     \
    static const Registered registered_##name(#name, name); \
    static void name()

inline void claim(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
}

// Throws if two numbers differ by more than a tolerance. NaN agrees only with NaN.
inline void agree(double ours, double expected, double tolerance, const std::string& what) {
    if (std::isnan(ours) && std::isnan(expected)) return;
    if (std::abs(ours - expected) <= tolerance) return;
    std::ostringstream text;
    text.precision(17);
    text << what << ": " << ours << ", expected " << expected << " within " << tolerance;
    throw std::runtime_error(text.str());
}

// Rounding error of numbers from 1 to 10 after a chain of ten links: a few hundred units in the last place.
template <class V>
inline constexpr double kRounding = std::is_same_v<eim::Scalar<V>, double> ? 1e-13 : 2e-5;

// Calls function<V>() for single numbers and for packs, in double and in single precision.
template <class Function>
inline void for_values(Function function) {
    function.template operator()<double>();
    function.template operator()<eim::WideDouble>();
    function.template operator()<float>();
    function.template operator()<eim::WideFloat>();
}

inline constexpr eim::StepOptions kEffort{1e-6, 1e-6, 60, 6};

enum class Joints { plain, any };  // plain: all joints rotate; any: one joint slides, and one is a mimic joint

// Returns an arm with random links, about as long as a human arm.
inline eim::Chain arm(int n_joints, Joints joints = Joints::plain, std::uint64_t seed = 1) {
    eim::Random random(double(seed) / 97.0);
    const int n_links = joints == Joints::any ? n_joints + 1 : n_joints;
    std::vector<double> rows(std::size_t(n_links + 1) * 16, 0.0);
    for (int i = 0; i <= n_links; ++i) {
        double* row = &rows[std::size_t(i) * 16];
        double u[4], norm = 0.0;
        for (double& value : u) value = random.uniform(-1.0, 1.0), norm += value * value;
        for (double& value : u) value /= std::sqrt(norm);
        const double x = u[0], y = u[1], z = u[2], w = u[3];
        const double rotation[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - z * w),     2 * (x * z + y * w),
                                    2 * (x * y + z * w),     1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
                                    2 * (x * z - y * w),     2 * (y * z + x * w),     1 - 2 * (x * x + y * y)};
        std::copy_n(rotation, 9, row);
        for (int k = 0; k < 3; ++k) row[9 + k] = random.uniform(-0.3, 0.3);
        row[13] = i, row[14] = 1.0;
    }
    if (joints == Joints::any) {
        rows[16 * 2 + 12] = 1.0;
        double* follower = &rows[std::size_t(n_links - 1) * 16];
        follower[13] = 1.0, follower[14] = -0.5, follower[15] = 0.2;
    }
    return {rows.data(), n_links + 1, n_joints};
}

// Calls function<N>(chain) for chains of 6, 7 and other numbers of joints. N = 0 is the template for any number of
// joints.
template <class Function>
inline void for_arms(Function function) {
    function.template operator()<6>(arm(6));
    function.template operator()<7>(arm(7));
    function.template operator()<0>(arm(7));
    function.template operator()<0>(arm(8, Joints::any));
    function.template operator()<0>(arm(2));
}

inline void set_limits(eim::Task& task, int j, double lower, double upper, bool wraps = false) {
    task.bounds.lower[j] = lower, task.bounds.upper[j] = upper, task.bounds.wraps[j] = wraps;
    task.single_bounds.lower[j] = float(lower), task.single_bounds.upper[j] = float(upper);
    task.single_bounds.wraps[j] = wraps;
}

inline void uniform_in(const eim::Task& task, int n_joints, eim::Random& random, double* q) {
    for (int j = 0; j < n_joints; ++j) q[j] = random.uniform(task.bounds.lower[j], task.bounds.upper[j]);
}

// Returns a task with a reachable pose, limits of 2 rad, and a continuous joint 0. If `q` is not null, a solution is
// written to it.
inline eim::Task reachable(const eim::Chain& chain, double seed, double* q = nullptr, bool position_only = false) {
    eim::Task task{};
    eim::Random random(seed);
    for (int j = 0; j < chain.n_joints; ++j) set_limits(task, j, -2.0, 2.0);
    set_limits(task, 0, -eim::kPi, eim::kPi, true);
    double own[eim::kMostJoints];
    uniform_in(task, chain.n_joints, random, own);
    if (q != nullptr) std::copy_n(own, chain.n_joints, q);
    eim::Kinematics<double, 0> at;
    eim::forward<0>(chain, own, at);
    for (int k = 0; k < 3; ++k) {
        task.target[k][0] = at.tip.x[k], task.target[k][1] = at.tip.y[k], task.target[k][2] = at.tip.z[k];
        task.target[k][3] = at.tip.origin[k];
    }
    task.position_only = position_only;
    task.position_tolerance = task.orientation_tolerance = 1e-6;
    return task;
}

// Fills a random transposed Jacobian whose entries are about as large as those of an arm.
template <class V>
inline void random_jacobian(eim::Random& random, int n_joints, V (*jacobian)[6]) {
    for (int j = 0; j < n_joints; ++j) {
        for (int k = 0; k < 6; ++k) {
            for (int lane = 0; lane < eim::kLanes<V>; ++lane) {
                eim::set(jacobian[j][k], lane, eim::Scalar<V>(random.uniform(-1.0, 1.0)));
            }
        }
    }
}
