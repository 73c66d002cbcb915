// Solution and verification of rows of configurations.
//
// Large numbers of seeds start in single precision, where packs are twice as wide. Seeds that come within kHandOver of
// the target continue in double precision. All reported errors are measured in double precision.
#pragma once

#include "chain/attempts.hpp"

namespace eim {

struct Configurations {
    int n_joints;
    std::vector<double> positions = {};  // (n, n_joints)

    Index size() const { return Index(positions.size()) / n_joints; }
    double* row(Index i) { return positions.data() + i * n_joints; }
    const double* row(Index i) const { return positions.data() + i * n_joints; }
    void add(const double* q) { positions.insert(positions.end(), q, q + n_joints); }
};

// Configurations with their errors, and the outcome of their attempts.
struct Rows : Configurations {
    std::vector<double> distances, angles;  // errors (n,) [m], [rad]
    std::vector<std::uint8_t> converged;
    std::vector<std::int64_t> iterations;

    explicit Rows(Configurations configurations) : Configurations(std::move(configurations)) { resize(size()); }
    void resize(Index n) {
        positions.resize(n * n_joints), distances.resize(n), angles.resize(n);
        converged.resize(n), iterations.resize(n);
    }
    template <class S, int N>
    void store(Index i, const Attempt<S, N>& attempt, std::int64_t steps_before) {
        converged[i] = attempt.converged, iterations[i] = steps_before + attempt.steps;
        distances[i] = attempt.distance, angles[i] = attempt.angle;
        std::copy_n(attempt.q, n_joints, row(i));
    }
};

// Returns the indices from 0 to n - 1 for which a condition holds.
template <class Condition>
inline std::vector<Index> numbers_where(Index n, Condition holds) {
    std::vector<Index> numbers;
    for (Index i = 0; i < n; ++i) {
        if (holds(i)) numbers.push_back(i);
    }
    return numbers;
}

// Attempts that start from some of the rows. Each row may have its own target. The steps of an attempt are added to the
// earlier steps of its row.
struct RowJobs {
    Rows& rows;
    std::vector<Index> which;
    const double* targets = nullptr;  // (n, 4, 4), or null to use the target of the task
    bool goes_on = false;             // whether earlier steps count as steps of the attempt
    std::size_t following = 0;
    Index row_of[kMostLanes] = {};

    static RowJobs all(Rows& rows) {
        return {rows, numbers_where(rows.size(), [](Index) { return true; })};
    }
    template <class V>
    bool next(int lane, Scalar<V>* seed, Frame<V>& frames, int& taken) {
        if (following == which.size()) return false;
        const Index row = row_of[lane] = which[following++];
        std::copy_n(rows.row(row), rows.n_joints, seed);
        if (targets) set_frame(frames, lane, targets + 16 * row);
        taken = goes_on ? int(rows.iterations[row]) : 0;
        return true;
    }
    template <class S, int N>
    void ended(int lane, const Attempt<S, N>& attempt) {
        rows.store(row_of[lane], attempt, goes_on ? 0 : rows.iterations[row_of[lane]]);
    }
    bool is_wanted(int) const { return true; }
};

// Runs attempts in double precision.
template <int N, bool Careful = false>
inline void run_rows(const Chain& chain, const Task& task, const StepOptions& effort, RowJobs jobs) {
    if (jobs.which.size() == 1) return run_attempts<N, double, Careful>(chain, task, effort, jobs);
    if (jobs.which.size() > 1) return run_attempts<N, WideDouble, Careful>(chain, task, effort, jobs);
}

// Whether attempts may start in single precision.
inline bool fits_single(const Chain& chain, const Task& task) {
    if (task.has_tolerances || !(chain.reach <= kLongestInSingle)) return false;
    for (int j = 0; j < chain.n_joints; ++j) {
        if (!(std::max(-task.bounds.lower[j], task.bounds.upper[j]) <= kLongestInSingle)) return false;
    }
    return true;
}

inline StepOptions coarse(const Chain& chain, const StepOptions& effort) {
    return {std::max(0.5 * effort.position_tolerance, kHandOver * chain.unit),
            std::max(0.5 * effort.orientation_tolerance, kHandOver), effort.max_iterations, effort.patience};
}

// Calls function(kinematics, index of the first row, number of rows) for each pack of the rows (n, n_joints).
template <int N, class Function>
inline void for_packs(const Chain& chain, const double* rows, Index n, Function function) {
    constexpr int W = kLanes<WideDouble>;
    Kinematics<WideDouble, N> at;
    WideDouble q[kJoints<N>];
    for (Index first = 0; first < n; first += W) {
        const int n_lanes = static_cast<int>(std::min<Index>(W, n - first));
        for (int lane = 0; lane < W; ++lane) {  // the last row fills the unused lanes
            const double* row = rows + (first + std::min(lane, n_lanes - 1)) * chain.n_joints;
            for (int j = 0; j < chain.n_joints; ++j) set(q[j], lane, row[j]);
        }
        forward<N>(chain, q, at);
        function(at, first, n_lanes);
    }
}

// Measures the errors of all rows from `first` on, with respect to the target of a task.
template <int N>
inline void measure_rows(const Chain& chain, const Task& task, Rows& rows, Index first = 0) {
    const Frame<WideDouble> target = target_of<WideDouble>(task);
    for_packs<N>(chain, rows.row(first), rows.size() - first, [&](const auto& at, Index start, int n_lanes) {
        Difference<WideDouble> error;
        measure(at.tip, target, task, error);
        for (int lane = 0; lane < n_lanes; ++lane) {
            rows.distances[first + start + lane] = get(error.distance, lane);
            rows.angles[first + start + lane] = get(error.angle, lane);
        }
    });
}

// Solves from each row, and replaces the row by the result.
template <int N>
inline void refine_rows(const Chain& chain, const Task& task, const StepOptions& effort, Rows& rows) {
    RowJobs jobs = RowJobs::all(rows);
    if (rows.size() <= kLanes<WideDouble> || effort.max_iterations == 0 || !fits_single(chain, task)) {
        return run_rows<N>(chain, task, effort, std::move(jobs));
    }
    run_attempts<N, WideFloat>(chain, task, coarse(chain, effort), jobs);
    for (Index i = 0; i < rows.size(); ++i) {  // limits in single precision differ slightly
        for (int j = 0; j < rows.n_joints; ++j) rows.row(i)[j] = within(task.bounds, j, rows.row(i)[j]);
    }
    measure_rows<N>(chain, task, rows);
    const auto reached = numbers_where(rows.size(), [&](Index i) { return rows.converged[i]; });
    run_rows<N>(chain, task, effort, {rows, reached, nullptr, true});
}

// Measures all rows from `first` on, and marks rows within the tolerances and the limits. Only this function decides
// which solutions are valid.
template <int N>
inline void verify_rows(const Chain& chain, const Task& task, Rows& rows, Index first = 0) {
    measure_rows<N>(chain, task, rows, first);
    for (Index i = first; i < rows.size(); ++i) {
        if (task.position_only) rows.angles[i] = 0.0;
        rows.converged[i] = rows.distances[i] <= task.position_tolerance &&
                            rows.angles[i] <= task.orientation_tolerance &&
                            is_inside(task.bounds, rows.row(i), rows.n_joints);
    }
}

}  // namespace eim
