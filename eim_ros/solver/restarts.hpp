// One solution for each of many poses: attempts from uniform seeds until one converges.
//
// Lanes of a pack work on different poses. Where there are fewer poses than lanes several try the same one, and the
// first that converges ends the others: so one pose takes as long as its luckiest attempt.
#pragma once

#include "random.hpp"
#include "refine.hpp"

namespace eim {

struct Poses {
    const double* targets;  // (n, 4, 4)
    int max_restarts;       // attempts at each
    std::vector<int> attempts;
    std::vector<double> least;       // squared error of the best attempt so far
    std::vector<std::uint8_t> open;  // no attempt has converged
};

template <class V, int N>
struct RestartJobs {
    const Task& task;
    const Rows& rows;  // best attempt at each pose
    Poses& poses;
    Random& random;
    std::ptrdiff_t following = 0;
    std::ptrdiff_t pose_of[kLanes<V>];

    RestartJobs(const Task& task, const Rows& rows, Poses& poses, Random& random)
        : task(task), rows(rows), poses(poses), random(random) {
        std::fill_n(pose_of, kLanes<V>, -1);
    }

    bool is_wanted(int lane) const { return poses.open[pose_of[lane]]; }

    bool next(int lane, Scalar<V>* seed, Frame<V>& targets, int&) {
        std::ptrdiff_t& pose = pose_of[lane];
        if (!may_try(pose)) {
            while (following < rows.n && !may_try(following)) ++following;
            pose = following < rows.n ? following++ : any_of_others(lane);
            if (pose < 0) return false;
            set_frame(targets, lane, poses.targets + 16 * pose);
        }
        ++poses.attempts[pose];
        for (int j = 0; j < rows.n_joints; ++j) {
            seed[j] = Scalar<V>(random.uniform(task.bounds.lower[j], task.bounds.upper[j]));
        }
        return true;
    }

    void ended(int lane, const Attempt<Scalar<V>, N>& attempt) {
        const std::ptrdiff_t pose = pose_of[lane];
        if (!poses.open[pose]) return;
        const double square = double(attempt.distance) * attempt.distance + double(attempt.angle) * attempt.angle;
        const std::int64_t before = rows.iterations[pose];
        if (attempt.converged || !(square >= poses.least[pose])) {
            rows.store(pose, attempt);
            poses.least[pose] = square;
        }
        rows.iterations[pose] = before + attempt.steps;
        poses.open[pose] = !attempt.converged;
    }

   private:
    bool may_try(std::ptrdiff_t pose) const {
        return pose >= 0 && poses.open[pose] && poses.attempts[pose] < poses.max_restarts;
    }
    std::ptrdiff_t any_of_others(int lane) const {
        for (int k = 1; k < kLanes<V>; ++k) {
            const std::ptrdiff_t pose = pose_of[(lane + k) % kLanes<V>];
            if (may_try(pose)) return pose;
        }
        return -1;
    }
};

// On in double precision from where attempts at some poses ended.
template <int N>
inline void finish(const Chain& chain, const Task& task, const Effort& effort, const Rows& rows, const double* targets,
                   const std::vector<std::ptrdiff_t>& which) {
    if (which.size() == 1) {
        RowJobs<double, N> jobs{rows, &which, targets};
        run_attempts<N, double>(chain, task, effort, jobs);
    } else {
        RowJobs<WideDouble, N> jobs{rows, &which, targets};
        run_attempts<N, WideDouble>(chain, task, effort, jobs);
    }
}

// Fills rows (n, n_joints) with a solution of each target (n, 4, 4), or the best attempt, refined without hurry.
template <int N>
inline void solve_rows(const Chain& chain, const Task& task, const Effort& effort, const double* targets,
                       int max_restarts, Random random, const Rows& rows) {
    const std::size_t n = static_cast<std::size_t>(rows.n);
    Poses poses{targets, max_restarts, std::vector<int>(n, 0),
                std::vector<double>(n, std::numeric_limits<double>::infinity()), std::vector<std::uint8_t>(n, 1)};
    std::fill_n(rows.iterations, n, 0), std::fill_n(rows.converged, n, false);
    std::vector<std::ptrdiff_t> reached, missed;
    const bool single = fits_single(chain, task);
    for (bool again = true; again;) {
        again = false;
        reached.clear();
        if (single) {
            RestartJobs<WideFloat, N> jobs(task, rows, poses, random);
            run_attempts<N, WideFloat>(chain, task, coarse(effort), jobs);
        } else {
            RestartJobs<WideDouble, N> jobs(task, rows, poses, random);
            run_attempts<N, WideDouble>(chain, task, effort, jobs);
        }
        for (std::ptrdiff_t i = 0; single && i < rows.n; ++i) {
            if (!poses.open[i] && !(rows.converged[i] && poses.least[i] < 0.0)) reached.push_back(i);
        }
        finish<N>(chain, task, effort, rows, targets, reached);
        for (std::ptrdiff_t i : reached) {
            poses.least[i] = rows.converged[i] ? -1.0 : std::numeric_limits<double>::infinity();  // -1: in double too
            poses.open[i] = !rows.converged[i];
            again |= poses.open[i] && poses.attempts[i] < max_restarts;
        }
    }
    for (std::ptrdiff_t i = 0; i < rows.n; ++i) {
        if (!rows.converged[i]) missed.push_back(i);
    }
    finish<N>(
        chain, task,
        {effort.position_tolerance, effort.orientation_tolerance, effort.max_iterations, effort.max_iterations + 1},
        rows, targets, missed);
}

}  // namespace eim
