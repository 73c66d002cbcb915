// One solution for each of many poses: attempts from uniform seeds until one converges.
//
// Lanes of a pack work on different poses. If there are fewer poses than lanes, several lanes try the same pose, and
// the first one that comes close ends the others. So a single pose takes as long as its fastest attempt.
#pragma once

#include "chain/refine.hpp"
#include "numerics/random.hpp"

namespace eim {

template <class V>
class RestartJobs {
   public:
    // Rows hold the best attempt at each pose of targets (n, 4, 4), with at most max_restarts attempts each.
    RestartJobs(const Task& task, const double* targets, int max_restarts, Random random, Rows& rows)
        : task_(task),
          targets_(targets),
          max_restarts_(max_restarts),
          random_(random),
          rows_(rows),
          poses_(rows.size()) {}

    // Starts again with the poses that are not solved; false if there are none.
    bool rewind() {
        std::fill_n(pose_of_, kLanes<V>, -1);
        following_ = 0;
        skip();
        return following_ < rows_.size();
    }

    std::vector<Index> close_ones() const {
        return numbers_where(rows_.size(), [&](Index i) { return poses_[i].state == State::close; });
    }

    // Updates the poses after attempts that came close were completed.
    void judge(const std::vector<Index>& close) {
        for (Index i : close) {
            poses_[i].state = rows_.converged[i] ? State::solved : State::open;
            poses_[i].least = std::numeric_limits<double>::infinity();
        }
    }

    bool is_wanted(int lane) const { return poses_[pose_of_[lane]].state == State::open; }

    bool next(int lane, Scalar<V>* seed, Frame<V>& targets, int&) {
        Index& pose = pose_of_[lane];
        if (!may_try(pose)) {
            skip();
            pose = following_ < rows_.size() ? following_++ : any_of_others(lane);
            if (pose < 0) return false;
            set_frame(targets, lane, targets_ + 16 * pose);
        }
        ++poses_[pose].n_attempts;
        for (int j = 0; j < rows_.n_joints; ++j) {
            seed[j] = Scalar<V>(random_.uniform(task_.bounds.lower[j], task_.bounds.upper[j]));
        }
        return true;
    }

    template <int N>
    void ended(int lane, const Attempt<Scalar<V>, N>& attempt) {
        const Index i = pose_of_[lane];
        Pose& pose = poses_[i];
        if (pose.state != State::open) return;
        const double square = double(attempt.distance) * attempt.distance + double(attempt.angle) * attempt.angle;
        if (attempt.converged || !(square >= pose.least)) {
            rows_.store(i, attempt, rows_.iterations[i]);
            pose.least = square;
        } else {
            rows_.iterations[i] += attempt.steps;
        }
        if (attempt.converged) pose.state = State::close;
    }

   private:
    // no attempt came close; one came close; one converged in double precision
    enum class State { open, close, solved };
    struct Pose {
        State state = State::open;
        int n_attempts = 0;
        double least = std::numeric_limits<double>::infinity();  // squared error of the best attempt so far
    };

    bool may_try(Index i) const {
        return i >= 0 && poses_[i].state == State::open && poses_[i].n_attempts < max_restarts_;
    }
    void skip() {
        while (following_ < rows_.size() && !may_try(following_)) ++following_;
    }
    Index any_of_others(int lane) const {
        for (int k = 1; k < kLanes<V>; ++k) {
            const Index pose = pose_of_[(lane + k) % kLanes<V>];
            if (may_try(pose)) return pose;
        }
        return -1;
    }

    const Task& task_;
    const double* targets_;
    int max_restarts_;
    Random random_;
    Rows& rows_;
    std::vector<Pose> poses_;
    Index following_ = 0, pose_of_[kLanes<V>];
};

// Fills rows with a solution of each target (n, 4, 4), or with the best attempt after all iterations.
template <int N>
inline void solve_rows(const Chain& chain, const Task& task, StepOptions effort, const double* targets,
                       int max_restarts, Random random, Rows& rows) {
    const auto restart = [&]<class V>() {
        RestartJobs<V> jobs(task, targets, max_restarts, random, rows);
        while (jobs.rewind()) {
            run_attempts<N, V>(chain, task, coarse(chain, effort), jobs);
            const std::vector<Index> close = jobs.close_ones();
            run_rows<N>(chain, task, effort, {rows, close, targets});
            jobs.judge(close);
        }
    };
    fits_single(chain, task) ? restart.template operator()<WideFloat>() : restart.template operator()<WideDouble>();
    effort.patience = effort.max_iterations + 1;
    const auto missed = numbers_where(rows.size(), [&](Index i) { return !rows.converged[i]; });
    run_rows<N>(chain, task, effort, {rows, missed, targets});
}

}  // namespace eim
