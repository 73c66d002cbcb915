// Seeds moved onto a pose by damped least squares, as many side by side as a pack has lanes.
//
// The damping is lambda^2 = a c |e|^2 + floor. The factor a adapts: it is 1, times 4 after each step that made the
// error larger, halved after each other one; without it a pose out of reach is circled, not approached. An attempt is
// given up when the squared error does not halve within `patience` steps. A lane whose seed has ended takes the next
// one.
//
// Many seeds begin in single precision, where packs hold twice as many; what comes within kHandOver goes on in double
// precision, in which all that is said of an answer is measured.
#pragma once

#include "step.hpp"

namespace eim {

template <class S>
inline constexpr S kDamping = S(3e-2);
template <class S>
inline constexpr S kDampingFloor = std::is_same_v<S, double> ? S(1e-10) : S(1e-7);
inline constexpr double kStallRatio = 0.5;
inline constexpr double kHandOver = 1e-4;         // [m], [rad]
inline constexpr double kLongestInSingle = 50.0;  // [m], [rad]: reach and limits for which single precision will do

struct Effort {
    double position_tolerance, orientation_tolerance;  // [m], [rad]
    int max_iterations, patience;
};

template <class S, int N>
struct Attempt {
    bool converged;
    int steps;
    S distance, angle;  // of q [m], [rad]
    S q[kJoints<N>];    // the best configuration met
};

// Runs attempts until there are no more. Careful ones solve anew for steps that limits would cut, without those joints.
// `jobs` has three methods:
//     bool next(lane, S* seed, Frame<V>& targets, int& taken)  the next seed, its target if not the task's, steps taken
//     void ended(lane, const Attempt<S, N>&)
//     bool is_wanted(lane)                         false: the attempt is of no use any more
template <int N, class V, bool Careful = false, class Jobs>
inline void run_attempts(const Chain& chain, const Task& task, const Effort& effort, Jobs& jobs) {
    using S = Scalar<V>;
    constexpr int W = kLanes<V>;
    const Bounds<S>& bounds = task.bounds_in<S>();
    const int n_joints = joints_of<N>(chain);
    Kinematics<V, N> at;
    Difference<V> error;
    Frame<V> target = target_of<V>(task.target);
    V q[kJoints<N>], best[kJoints<N>], y[6];
    V least{}, reference{}, previous{}, caution{}, steps{}, due{}, distance{}, angle{};
    bool is_active[W] = {};
    int n_active = 0;
    const auto load = [&](int lane) {
        S seed[kJoints<N>];
        int taken = 0;
        if (!jobs.next(lane, seed, target, taken)) return;
        is_active[lane] = true, ++n_active;
        for (int j = 0; j < n_joints; ++j) {
            const S value = within(bounds, j, seed[j]);
            set(q[j], lane, value), set(best[j], lane, value);
        }
        for (V* worst : {&least, &reference, &previous, &distance, &angle}) {
            set(*worst, lane, std::numeric_limits<S>::infinity());
        }
        set(caution, lane, S(1)), set(steps, lane, S(taken)), set(due, lane, S(0));
    };
    for (int j = 0; j < n_joints; ++j) q[j] = best[j] = fill<V>(bounds.lower[j]);
    for (int lane = 0; lane < W; ++lane) load(lane);
    while (n_active > 0) {
        forward<N>(chain, q, at);
        measure(at.tip, target, task, error);
        const auto done =
            (error.distance <= S(effort.position_tolerance)) & (error.angle <= S(effort.orientation_tolerance));
        const V square = error.distance * error.distance + error.angle * error.angle;
        caution = square < previous ? larger(S(0.5) * caution, fill<V>(S(1))) : S(4) * caution;
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
        bool is_free[W] = {};
        if (any(ended)) {
            for (int lane = 0; lane < W; ++lane) {
                if (!is_active[lane] || !get_mask(ended, lane)) continue;
                Attempt<S, N> attempt{
                    get_mask(done, lane), int(get(steps, lane)), get(distance, lane), get(angle, lane), {}};
                for (int j = 0; j < n_joints; ++j) attempt.q[j] = get(best[j], lane);
                jobs.ended(lane, attempt);
                is_active[lane] = false, is_free[lane] = true, --n_active;
            }
            for (int lane = 0; lane < W; ++lane) {
                if (is_active[lane] && !jobs.is_wanted(lane)) is_active[lane] = false, is_free[lane] = true, --n_active;
            }
            if (n_active == 0) {
                for (int lane = 0; lane < W; ++lane) load(lane);
                continue;
            }
        }
        differentiate<N>(chain, at);
        if (task.has_tolerances) turn_rows(target, task.tolerances, error, n_joints, at.jacobian);
        hold_at_limits<N>(chain, bounds, q, error.vector, at.jacobian);
        const V damping = caution * kDamping<S> * square + kDampingFloor<S>;
        solve(factorised<N>(chain, at.jacobian, task.position_only, damping), error.vector, y);
        if constexpr (Careful) {
            while (hold_at_limits<N>(chain, bounds, q, y, at.jacobian)) {
                solve(factorised<N>(chain, at.jacobian, task.position_only, damping), error.vector, y);
            }
        }
        move<N>(chain, bounds, at.jacobian, y, q);
        steps += S(1), due -= S(1);
        for (int lane = 0; lane < W; ++lane) {
            if (is_free[lane]) load(lane);
        }
    }
}

template <int N>
struct OneJob {
    const double* seed;
    int n_joints;
    Attempt<double, N> result{};
    bool is_taken = false;

    bool next(int, double* from, Frame<double>&, int&) {
        if (is_taken) return false;
        std::copy_n(seed, n_joints, from);
        return is_taken = true;
    }
    void ended(int, const Attempt<double, N>& attempt) { result = attempt; }
    bool is_wanted(int) const { return true; }
};

// One attempt from a seed.
template <int N, bool Careful = false>
inline Attempt<double, N> refine_one(const Chain& chain, const Task& task, const Effort& effort, const double* seed) {
    OneJob<N> job{seed, joints_of<N>(chain)};
    run_attempts<N, double, Careful>(chain, task, effort, job);
    return job.result;
}

// Rows of configurations (n, n_joints) and what became of them.
struct Rows {
    double* positions;
    std::ptrdiff_t n;
    int n_joints;
    bool* converged;
    std::int64_t* iterations;
    double *position_error, *orientation_error;  // (n,)

    double* row(std::ptrdiff_t i) const { return positions + i * n_joints; }

    template <class S, int N>
    void store(std::ptrdiff_t i, const Attempt<S, N>& attempt) const {
        converged[i] = attempt.converged, iterations[i] = attempt.steps;
        position_error[i] = attempt.distance, orientation_error[i] = attempt.angle;
        std::copy_n(attempt.q, n_joints, row(i));
    }
};

// What became of rows whose results nobody else keeps.
struct Results {
    std::vector<std::uint8_t> converged;
    std::vector<std::int64_t> iterations;
    std::vector<double> errors;

    explicit Results(std::size_t n) : converged(n), iterations(n), errors(2 * n) {}
    Rows rows(double* positions, int n_joints) {
        return {positions,
                std::ptrdiff_t(iterations.size()),
                n_joints,
                reinterpret_cast<bool*>(converged.data()),
                iterations.data(),
                errors.data(),
                errors.data() + iterations.size()};
    }
};

template <class V>
inline void set_frame(Frame<V>& frame, int lane, const double* pose) {  // (4, 4)
    for (int k = 0; k < 3; ++k) {
        set(frame.x[k], lane, Scalar<V>(pose[4 * k])), set(frame.y[k], lane, Scalar<V>(pose[4 * k + 1]));
        set(frame.z[k], lane, Scalar<V>(pose[4 * k + 2])), set(frame.origin[k], lane, Scalar<V>(pose[4 * k + 3]));
    }
}

// Attempts from each of the rows, or where they ended from some of them, with steps added; each row may have a target.
template <class V, int N>
struct RowJobs {
    const Rows& rows;
    const std::vector<std::ptrdiff_t>* some = nullptr;
    const double* targets = nullptr;  // (n, 4, 4), else the task's
    bool goes_on = false;             // steps taken before count as steps of the attempt
    std::ptrdiff_t following = 0;
    std::ptrdiff_t row_of[kLanes<V>] = {};

    bool next(int lane, Scalar<V>* seed, Frame<V>& frames, int& taken) {
        if (following >= (some ? std::ptrdiff_t(some->size()) : rows.n)) return false;
        const std::ptrdiff_t row = row_of[lane] = some ? (*some)[following] : following;
        ++following;
        std::copy_n(rows.row(row), rows.n_joints, seed);
        if (targets) set_frame(frames, lane, targets + 16 * row);
        taken = goes_on ? int(rows.iterations[row]) : 0;
        return true;
    }
    void ended(int lane, const Attempt<Scalar<V>, N>& attempt) {
        const std::int64_t before = some && !goes_on ? rows.iterations[row_of[lane]] : 0;
        rows.store(row_of[lane], attempt);
        rows.iterations[row_of[lane]] += before;
    }
    bool is_wanted(int) const { return true; }
};

// Whether attempts at a task may begin in single precision.
inline bool fits_single(const Chain& chain, const Task& task) {
    if (task.has_tolerances || !(chain.reach <= kLongestInSingle)) return false;
    for (int j = 0; j < chain.n_joints; ++j) {
        if (!(std::max(-task.bounds.lower[j], task.bounds.upper[j]) <= kLongestInSingle)) return false;
    }
    return true;
}

inline Effort coarse(const Effort& effort) {
    return {std::max(0.5 * effort.position_tolerance, kHandOver),
            std::max(0.5 * effort.orientation_tolerance, kHandOver), effort.max_iterations, effort.patience};
}

// Fills a pack with rows (n, n_joints) from the first on, the last one repeated; returns how many there are.
template <class V>
inline int load_rows(const double* rows, std::ptrdiff_t first, std::ptrdiff_t n, int n_joints, V* q) {
    const int n_lanes = static_cast<int>(std::min<std::ptrdiff_t>(kLanes<V>, n - first));
    for (int lane = 0; lane < kLanes<V>; ++lane) {
        const double* from = rows + (first + std::min(lane, n_lanes - 1)) * n_joints;
        for (int j = 0; j < n_joints; ++j) set(q[j], lane, from[j]);
    }
    return n_lanes;
}

// Errors of configurations against the target of a task.
template <int N>
inline void measure_rows(const Chain& chain, const Task& task, const Rows& rows) {
    using V = WideDouble;
    const Frame<V> target = target_of<V>(task.target);
    Kinematics<V, N> at;
    Difference<V> error;
    V q[kJoints<N>];
    for (std::ptrdiff_t first = 0; first < rows.n; first += kLanes<V>) {
        const int n_lanes = load_rows(rows.positions, first, rows.n, rows.n_joints, q);
        forward<N>(chain, q, at);
        measure(at.tip, target, task, error);
        for (int lane = 0; lane < n_lanes; ++lane) {
            rows.position_error[first + lane] = get(error.distance, lane);
            rows.orientation_error[first + lane] = get(error.angle, lane);
        }
    }
}

// Refines each of the rows in place.
template <int N>
inline void refine_rows(const Chain& chain, const Task& task, const Effort& effort, const Rows& rows) {
    if (rows.n == 1) {
        RowJobs<double, N> jobs{rows};
        return run_attempts<N, double>(chain, task, effort, jobs);
    }
    if (rows.n <= kLanes<WideDouble> || effort.max_iterations == 0 || !fits_single(chain, task)) {
        RowJobs<WideDouble, N> jobs{rows};
        return run_attempts<N, WideDouble>(chain, task, effort, jobs);
    }
    RowJobs<WideFloat, N> first{rows};
    run_attempts<N, WideFloat>(chain, task, coarse(effort), first);
    for (std::ptrdiff_t i = 0; i < rows.n; ++i) {  // limits are not quite the same in single precision
        for (int j = 0; j < rows.n_joints; ++j) rows.row(i)[j] = within(task.bounds, j, rows.row(i)[j]);
    }
    measure_rows<N>(chain, task, rows);
    std::vector<std::ptrdiff_t> reached;
    for (std::ptrdiff_t i = 0; i < rows.n; ++i) {
        if (rows.converged[i]) reached.push_back(i);
    }
    RowJobs<WideDouble, N> second{rows, &reached, nullptr, true};
    run_attempts<N, WideDouble>(chain, task, effort, second);
}

// Measures rows and tells whether each is within the tolerances and the limits: nothing else decides what is valid.
template <int N>
inline void verify_rows(const Chain& chain, const Task& task, const Rows& rows) {
    measure_rows<N>(chain, task, rows);
    for (std::ptrdiff_t i = 0; i < rows.n; ++i) {
        if (task.position_only) rows.orientation_error[i] = 0.0;
        rows.converged[i] = rows.position_error[i] <= task.position_tolerance &&
                            rows.orientation_error[i] <= task.orientation_tolerance &&
                            is_inside(task.bounds, rows.row(i), rows.n_joints);
    }
}

}  // namespace eim
