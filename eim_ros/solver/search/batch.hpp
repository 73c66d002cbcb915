// Distinct solutions for many poses from uniform seeds, computed in packs and on several threads.
//
// A chunk of poses is solved in rounds. In each round, each pose without enough solutions makes as many attempts as its
// earlier results suggest. The seed of the pose determines the random numbers of these attempts. The attempts of all
// poses share the packs. The result for a pose depends only on its seed, and not on other poses, chunks or threads.
#pragma once

#include "chain/refine.hpp"
#include "numerics/chunks.hpp"
#include "numerics/clock.hpp"
#include "numerics/random.hpp"
#include "selection/distinctness.hpp"

namespace eim {

inline constexpr Index kChunk = 512;      // number of poses that are solved together
inline constexpr int kLargestRound = 64;  // largest number of attempts of a pose in a round
// number of attempts of all poses between two checks of the clock; the last pose may exceed it
inline constexpr Index kAtOnce = 2048;
// solutions per attempt: optimistic and pessimistic estimate, which determine the size of a round
inline constexpr double kHopedYield = 0.8, kWorstYield = 0.1;

struct Batch {
    const double* targets;         // (n, 4, 4)
    const std::uint64_t* numbers;  // (n,): seed of each pose
    const std::int64_t* patience;  // (n,): attempts without a new solution after which the search for a pose ends
    Index n_poses;
    int n_wanted, n_threads;
    double distinct_tolerance;  // [rad or m]: closer solutions are dropped; negative: all are kept
    StepOptions effort;
    double deadline;  // [s] of the steady clock
};

enum class Outcome : std::uint8_t { ended, late };

// Solutions ordered by pose. If a pose has no solution, its only row is its best attempt. A pose without attempts has
// no row.
struct BatchRows {
    Rows rows;
    std::vector<std::int64_t> counts;    // (n,)
    std::vector<std::uint8_t> outcomes;  // (n,)
    std::vector<std::int64_t> attempts;  // (n,)
};

template <int N>
class ChunkOfPoses {
   public:
    ChunkOfPoses(const Chain& chain, const Task& task, const Batch& batch, Index first, Index last)
        : chain_(chain), task_(task), batch_(batch), is_first_(first == 0) {
        for (Index i = first; i < last; ++i) {
            poses_.emplace_back(chain.n_joints, batch.targets + 16 * i, batch.numbers[i], batch.patience[i]);
        }
    }

    void run(BatchRows& result) {
        bool is_late = !is_first_ && is_past(batch_.deadline);  // the first chunk always starts
        while (!is_late && next_round(is_late)) is_late |= is_past(batch_.deadline);
        for (Pose& pose : poses_) {
            const Index n = std::min<Index>(pose.found.size(), batch_.n_wanted);
            if (n == 0 && pose.n_attempts > 0) unhurried(pose, !is_past(batch_.deadline));
            const Index n_rows = std::max<Index>(n, pose.n_attempts > 0 ? 1 : 0), at = result.rows.size();
            result.rows.resize(at + n_rows);
            for (Index i = 0; i < n_rows; ++i) copy(pose.found, i, result.rows, at + i);
            result.counts.push_back(n_rows), result.attempts.push_back(pose.n_attempts);
            const bool is_cut = n < batch_.n_wanted && pose.n_fruitless < pose.patience;
            result.outcomes.push_back(std::uint8_t(is_cut ? Outcome::late : Outcome::ended));
        }
    }

   private:
    struct Pose {
        const double* target;
        Random random;
        std::int64_t patience, n_attempts = 0, n_fruitless = 0;
        int n_round = 0;
        double yield = kHopedYield, least = std::numeric_limits<double>::infinity();
        Rows found, best;

        Pose(int n_joints, const double* target, std::uint64_t number, std::int64_t patience)
            : target(target), random(0.0), patience(patience), found({n_joints}), best({n_joints}) {
            random.state = number * 0xD1342543DE82EF95u + 0x2545F4914F6CDD1Du;
            random.uniform();
        }
    };

    static void copy(const Rows& from, Index i, Rows& to, Index at) {
        std::copy_n(from.row(i), from.n_joints, to.row(at));
        to.distances[at] = from.distances[i], to.angles[at] = from.angles[i];
        to.converged[at] = from.converged[i], to.iterations[at] = from.iterations[i];
    }

    // Returns whether any pose still needed attempts. Sets `is_late` if the deadline passed before the end of the
    // round.
    bool next_round(bool& is_late) {
        bool has_worked = false;
        for (auto pose = poses_.begin(); pose != poses_.end() && !is_late;) {
            const auto first = pose;
            has_worked |= attempt_some(first, pose);
            is_late = is_past(batch_.deadline);
        }
        return has_worked;
    }

    // Makes about kAtOnce attempts of successive poses, starting at `first`. Sets `end` to the pose at which the next
    // call starts.
    bool attempt_some(typename std::vector<Pose>::iterator first, typename std::vector<Pose>::iterator& end) {
        Rows rows({chain_.n_joints});
        std::vector<double> targets;
        for (; end != poses_.end() && Index(targets.size()) < 16 * kAtOnce; ++end) {
            Pose& pose = *end;
            const int n_missing = batch_.n_wanted - int(pose.found.size());
            pose.n_round = 0;
            if (n_missing <= 0 || pose.n_fruitless >= pose.patience) continue;
            const std::int64_t hoped = n_missing == 1 ? 1 : std::int64_t(n_missing / pose.yield);
            const std::int64_t wanted = std::max(hoped, pose.n_fruitless / 4);
            pose.n_round = int(std::clamp<std::int64_t>(wanted, 1, kLargestRound));
            for (int k = 0; k < pose.n_round; ++k) {
                targets.insert(targets.end(), pose.target, pose.target + 16);
                for (int j = 0; j < chain_.n_joints; ++j) {
                    rows.positions.push_back(pose.random.uniform(task_.bounds.lower[j], task_.bounds.upper[j]));
                }
            }
        }
        if (targets.empty()) return false;
        rows.resize(Index(targets.size()) / 16);
        attempt(rows, targets.data(), batch_.effort);
        verify(rows, targets.data());
        Index row = 0;
        for (auto pose = first; pose != end; ++pose) accept(*pose, rows, row);
        return true;
    }

    // Solves from all rows. `targets` (n, 4, 4) contains the target of each row.
    void attempt(Rows& rows, const double* targets, const StepOptions& effort) const {
        const auto refine = [&]<class V>(const StepOptions& to, std::vector<Index> which, bool goes_on) {
            RowJobs jobs{rows, std::move(which), targets, goes_on};
            run_attempts<N, V>(chain_, task_, to, jobs);
        };
        const auto all = numbers_where(rows.size(), [](Index) { return true; });
        if (!fits_single(chain_, task_)) {  // for any number of rows, because other poses must not change results
            return refine.template operator()<WideDouble>(effort, all, false);
        }
        refine.template operator()<WideFloat>(coarse(chain_, effort), all, false);
        const auto close = numbers_where(rows.size(), [&](Index i) { return rows.converged[i]; });
        refine.template operator()<WideDouble>(effort, close, true);
    }

    // Measures rows and marks valid rows, like `verify_rows`.
    void verify(Rows& rows, const double* targets) const {
        for (Index i = 0; i < rows.size(); ++i) {  // limits in single precision differ slightly
            for (int j = 0; j < rows.n_joints; ++j) rows.row(i)[j] = within(task_.bounds, j, rows.row(i)[j]);
        }
        for_packs<N>(chain_, rows.row(0), rows.size(), [&](const auto& at, Index start, int n_lanes) {
            Frame<WideDouble> target = target_of<WideDouble>(task_);
            Difference<WideDouble> error;
            for (int lane = 0; lane < n_lanes; ++lane) set_frame(target, lane, targets + 16 * (start + lane));
            measure(at.tip, target, task_, error);
            for (int lane = 0; lane < n_lanes; ++lane) {
                const Index i = start + lane;
                rows.distances[i] = get(error.distance, lane);
                rows.angles[i] = task_.position_only ? 0.0 : get(error.angle, lane);
                rows.converged[i] = rows.distances[i] <= task_.position_tolerance &&
                                    rows.angles[i] <= task_.orientation_tolerance &&
                                    is_inside(task_.bounds, rows.row(i), rows.n_joints);
            }
        });
    }

    // Adds the new solutions of a round in the order of the attempts. `row` is the first attempt of the pose, and is
    // moved past the last attempt of the pose.
    void accept(Pose& pose, const Rows& rows, Index& row) const {
        const Index end = row + pose.n_round;
        Index n_new = 0;
        if (pose.n_round == 0) return;
        Places known(task_.bounds, chain_.n_joints);
        const bool drops = batch_.distinct_tolerance >= 0.0 && batch_.n_wanted > 1;
        for (Index i = 0; drops && i < pose.found.size(); ++i) known.add(pose.found.row(i));
        for (; row < end; ++row) {
            const double error = rows.distances[row] + rows.angles[row];
            const bool is_better = pose.found.size() == 0 && !(error >= pose.least);
            if (is_better) pose.best.resize(1), copy(rows, row, pose.best, 0), pose.least = error;
            if (!rows.converged[row] || (drops && known.has_duplicate(rows.row(row), batch_.distinct_tolerance)))
                continue;
            pose.found.resize(pose.found.size() + 1);
            copy(rows, row, pose.found, pose.found.size() - 1);
            ++n_new;
            if (drops) known.add(rows.row(row));
        }
        pose.n_attempts += pose.n_round;
        pose.n_fruitless = n_new > 0 ? 0 : pose.n_fruitless + pose.n_round;
        pose.yield = std::max(double(n_new) / pose.n_round, kWorstYield);
    }

    // Makes the best attempt the result of a pose, marked as invalid. If there is time, more iterations are made first.
    void unhurried(Pose& pose, bool has_time) const {
        if (pose.best.size() == 0) pose.best.resize(1);  // all attempts had NaN errors
        if (has_time) {
            StepOptions effort = batch_.effort;
            effort.patience = effort.max_iterations + 1;
            attempt(pose.best, pose.target, effort), verify(pose.best, pose.target);
        }
        pose.found = pose.best;
    }

    const Chain& chain_;
    const Task& task_;
    const Batch& batch_;
    const bool is_first_;
    std::vector<Pose> poses_;
};

// Returns the results of all poses, ordered by pose.
template <int N>
inline BatchRows solve_batch(const Chain& chain, const Task& task, const Batch& batch) {
    std::vector<BatchRows> chunks((batch.n_poses + kChunk - 1) / kChunk, BatchRows{Rows({chain.n_joints}), {}, {}, {}});
    for_chunks(batch.n_poses, kChunk, batch.n_threads, [&](Index chunk, Index first, Index last) {
        ChunkOfPoses<N>(chain, task, batch, first, last).run(chunks[chunk]);
    });
    BatchRows all{Rows({chain.n_joints}), {}, {}, {}};
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    for (const BatchRows& chunk : chunks) {
        append(all.rows.positions, chunk.rows.positions), append(all.rows.distances, chunk.rows.distances);
        append(all.rows.angles, chunk.rows.angles), append(all.rows.converged, chunk.rows.converged);
        append(all.rows.iterations, chunk.rows.iterations);
        append(all.counts, chunk.counts), append(all.outcomes, chunk.outcomes);
        append(all.attempts, chunk.attempts);
    }
    return all;
}

}  // namespace eim
