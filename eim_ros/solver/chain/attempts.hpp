// Attempts to reach a pose by damped least squares. Each attempt starts from one seed, and each lane of a pack runs one
// attempt.
//
// The damping is lambda^2 = a c |e|^2 + floor. The factor a starts at 1. It is multiplied by 4 after each step that
// increased the error, and halved after every other step. Without this factor, attempts at an unreachable pose
// oscillate instead of converging. An attempt ends if the squared error does not halve within `patience` steps. The
// lane of an ended attempt takes the next seed. Lengths are in the unit of the arm. In metres, the lengths of a
// millimetre-sized arm would hardly count compared with angles.
#pragma once

#include <optional>

#include "chain/step.hpp"

namespace eim {

template <class S>
inline constexpr S kDamping = S(3e-2);
template <class S>
inline constexpr S kDampingFloor = std::is_same_v<S, double> ? S(1e-10) : S(1e-7);
inline constexpr double kStallRatio = 0.5;
// [units of the arm], [rad]: error below which attempts in single precision continue in double precision
inline constexpr double kHandOver = 1e-4;
// [m], [rad]: largest reach and limits for which single precision is enough
inline constexpr double kLongestInSingle = 50.0;

struct StepOptions {
    double position_tolerance, orientation_tolerance;  // [m], [rad]
    int max_iterations, patience;
};

template <class S, int N>
struct Attempt {
    bool converged;
    int steps;
    S distance, angle;  // errors of `q` [m], [rad]
    S q[kJoints<N>];    // best configuration of the attempt
};

// Runs attempts until `jobs` has no more seeds. If a limit would cut a step, careful attempts compute the step again
// without the joints at this limit. `jobs` has three methods:
//
//    bool next(lane, S* seed, Frame<V>& targets, int& taken)  next seed, its target if it has one, steps already taken
//    void ended(lane, const Attempt<S, N>&)
//    bool is_wanted(lane)                                     false: the attempt is no longer needed
//
// This function is long on purpose, because the compiler decides for each function which products and sums it fuses.
// Moving arithmetic to other functions would change rounding errors. A seed could then lead to another solution.
template <int N, class V, bool Careful = false, class Jobs>
inline void run_attempts(const Chain& arm, const Task& given, const StepOptions& effort, Jobs& jobs) {
    using S = Scalar<V>;
    constexpr int W = kLanes<V>;
    const Chain& chain = arm.in_units();
    const double by_unit = 1.0 / arm.unit;
    std::optional<Task> scaled;
    if (given.has_tolerances && by_unit != 1.0) {
        scaled = given;
        for (int k = 0; k < 3; ++k) scaled->tolerances[k] *= by_unit;
    }
    const Task& task = scaled ? *scaled : given;
    const Bounds<S>& bounds = task.bounds_in<S>();
    const int n_joints = joints_of<N>(chain);
    Kinematics<V, N> at;
    Difference<V> error;
    Frame<V> target_in_metres = target_of<V>(task), target = target_in_metres;
    V q[kJoints<N>], best[kJoints<N>], y[6];
    V least{}, reference{}, previous{}, adaptation{}, steps{}, due{}, distance{}, angle{};
    bool is_active[W] = {};
    const auto are_idle = [&] { return std::none_of(is_active, is_active + W, [](bool active) { return active; }); };
    const auto load = [&](int lane) {
        S seed[kJoints<N>];
        int taken = 0;
        if (!jobs.next(lane, seed, target_in_metres, taken)) return false;
        set_lane(target, lane, target_in_metres, S(by_unit));
        for (int j = 0; j < n_joints; ++j) {
            const S value = within(bounds, j, seed[j]);
            set(q[j], lane, value), set(best[j], lane, value);
        }
        for (V* worst : {&least, &reference, &previous, &distance, &angle}) {
            set(*worst, lane, std::numeric_limits<S>::infinity());
        }
        set(adaptation, lane, S(1)), set(steps, lane, S(taken)), set(due, lane, S(0));
        return true;
    };
    for (int j = 0; j < n_joints; ++j) q[j] = best[j] = fill<V>(bounds.lower[j]);
    for (bool some_are_free = true;;) {
        if (some_are_free) {
            for (int lane = 0; lane < W; ++lane) is_active[lane] = is_active[lane] || load(lane);
            if (are_idle()) return;
            some_are_free = false;
        }
        forward<N>(chain, q, at);
        measure(at.tip, target, task, error);
        const auto done = (error.distance <= S(by_unit * effort.position_tolerance)) &
                          (error.angle <= S(effort.orientation_tolerance));
        const V square = error.distance * error.distance + error.angle * error.angle;
        adaptation = square < previous ? larger(S(0.5) * adaptation, fill<V>(S(1))) : S(4) * adaptation;
        previous = square;
        const auto better = done | (square < least);
        least = better ? square : least;
        distance = better ? error.distance : distance;
        angle = better ? error.angle : angle;
        for (int j = 0; j < n_joints; ++j) best[j] = better ? q[j] : best[j];
        const auto checks = due <= S(0);
        const auto stalls = checks & !(least < S(kStallRatio) * reference);
        const auto ended = done | (steps >= S(effort.max_iterations)) | stalls;
        reference = checks ? least : reference;
        due = checks ? fill<V>(S(effort.patience)) : due;
        if (any(ended)) {
            for (int lane = 0; lane < W; ++lane) {
                if (!is_active[lane] || !get_mask(ended, lane)) continue;
                Attempt<S, N> attempt{get_mask(done, lane),
                                      int(get(steps, lane)),
                                      S(arm.unit) * get(distance, lane),
                                      get(angle, lane),
                                      {}};
                for (int j = 0; j < n_joints; ++j) attempt.q[j] = get(best[j], lane);
                jobs.ended(lane, attempt);
                is_active[lane] = false;
            }
            for (int lane = 0; lane < W; ++lane) is_active[lane] = is_active[lane] && jobs.is_wanted(lane);
            some_are_free = true;
            if (are_idle()) continue;
        }
        differentiate<N>(chain, at);
        if (task.has_tolerances) turn_rows(target, task.tolerances, error, n_joints, at.jacobian);
        hold_at_limits<N>(chain, bounds, q, error.vector, at.jacobian);
        const V damping = adaptation * kDamping<S> * square + kDampingFloor<S>;
        solve(factorised<N>(chain, at.jacobian, task.position_only, damping), error.vector, y);
        if constexpr (Careful) {
            while (hold_at_limits<N>(chain, bounds, q, y, at.jacobian)) {
                solve(factorised<N>(chain, at.jacobian, task.position_only, damping), error.vector, y);
            }
        }
        move<N>(chain, bounds, at.jacobian, y, q);
        steps += S(1), due -= S(1);
    }
}

}  // namespace eim
