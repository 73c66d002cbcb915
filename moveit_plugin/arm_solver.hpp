// Solves a pose with the solver of eim_ros, for one solution or for all that the time allows. It needs neither ROS nor
// MoveIt.
//
// Seeds are the given state and uniform random ones. Each solution is verified, and near-duplicates are removed. Bounds
// may be narrower than the limits of the arm, for consistency limits and locked joints.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <vector>

#include "chain/refine.hpp"
#include "numerics/random.hpp"
#include "selection/distinctness.hpp"

namespace eim_moveit {

using Configuration = std::vector<double>;  // [rad] or [m]
using Clock = std::chrono::steady_clock;

inline constexpr double kTolerance = 1e-6;  // [m], [rad]
inline constexpr double kDistinct = 0.01;   // [rad] or [m]: solutions differ by more in some joint
inline constexpr int kMaxIterations = 60;
inline constexpr int kPatience = 3, kUnhurried = 61;  // steps within which the squared error halves
inline constexpr int kSeedsPerRound = 32;
inline constexpr int kFruitlessSeeds = 3000;  // seeds without a new solution before a search ends

struct Joint {
    double lower, upper;  // [rad] or [m]; -pi and pi for continuous joints
    bool is_continuous;
};

class ArmSolver {
   public:
    // rows (n_links + 1, 16): the chain as eim_ros/kinematics/urdf.py describes it
    ArmSolver(const std::vector<double>& rows, std::vector<Joint> joints)
        : chain_(rows.data(), static_cast<int>(rows.size() / 16), static_cast<int>(joints.size())),
          joints_(std::move(joints)) {}

    int n_joints() const { return chain_.n_joints; }

    // Returns the task for a pose of the tip (3, 4), whose rows are rotation and position. `reach` limits the distance
    // of each joint from its value in `state` [rad] or [m]. Infinity means no restriction.
    eim::Task task(const double (&target)[3][4], const Configuration& state, const Configuration& reach) const {
        eim::Task task{};
        std::copy_n(&target[0][0], 12, &task.target[0][0]);
        task.position_tolerance = task.orientation_tolerance = kTolerance;
        for (int j = 0; j < n_joints(); ++j) {
            const Joint& joint = joints_[j];
            const bool wraps = joint.is_continuous && reach[j] >= eim::kPi;
            task.bounds.wraps[j] = task.single_bounds.wraps[j] = wraps;
            const double low = state[j] - reach[j], high = state[j] + reach[j];
            task.bounds.lower[j] = joint.is_continuous && !wraps ? low : std::max(joint.lower, low);
            task.bounds.upper[j] = joint.is_continuous && !wraps ? high : std::min(joint.upper, high);
            if (wraps) task.bounds.lower[j] = joint.lower, task.bounds.upper[j] = joint.upper;
            task.single_bounds.lower[j] = static_cast<float>(task.bounds.lower[j]);
            task.single_bounds.upper[j] = static_cast<float>(task.bounds.upper[j]);
        }
        return task;
    }

    // Whether every joint has an allowed range.
    bool is_possible(const eim::Task& task) const {
        for (int j = 0; j < n_joints(); ++j) {
            if (!(task.bounds.lower[j] <= task.bounds.upper[j])) return false;
        }
        return true;
    }

    // The solution reached from the state itself; empty if there is none.
    Configuration refined(const eim::Task& task, const Configuration& state) const {
        eim::Rows rows({n_joints(), state});
        refine(task, kUnhurried, rows);
        return rows.converged[0] ? turned(Configuration(rows.row(0), rows.row(0) + n_joints()), state)
                                 : Configuration();
    }

    // Calls take(solution) for distinct solutions until it returns true, time is up, or no more are found. In each
    // round the solutions nearest to the state come first. Returns whether take returned true.
    template <class Take>
    bool search(const eim::Task& task, const Configuration& state, Clock::time_point deadline, Take take) const {
        eim::Random random(kFirstSeed);
        eim::Places known(task.bounds, n_joints());
        for (int fruitless = 0, n_rounds = 0; fruitless < kFruitlessSeeds; ++n_rounds) {
            if (n_rounds > 0 && Clock::now() >= deadline) return false;
            eim::Rows rows(seeds(task, random, n_rounds == 0 ? state : Configuration()));
            refine(task, kPatience, rows);
            bool is_new = false;
            for (eim::Index i : by_distance(rows, state)) {
                if (!rows.converged[i] || known.has_duplicate(rows.row(i), kDistinct)) continue;
                known.add(rows.row(i)), is_new = true;
                if (take(turned(Configuration(rows.row(i), rows.row(i) + n_joints()), state))) return true;
            }
            fruitless = is_new ? 0 : fruitless + kSeedsPerRound;
        }
        return false;
    }

   private:
    static constexpr double kFirstSeed = 0.5;  // seed of the random numbers: equal requests have equal results

    void refine(const eim::Task& task, int patience, eim::Rows& rows) const {
        const eim::StepOptions effort{kTolerance, kTolerance, kMaxIterations, patience};
        eim::for_kind(chain_, [&]<int N>() {
            eim::refine_rows<N>(chain_, task, effort, rows);
            eim::verify_rows<N>(chain_, task, rows);
        });
    }

    eim::Configurations seeds(const eim::Task& task, eim::Random& random, const Configuration& state) const {
        eim::Configurations seeds{n_joints(), state};
        while (seeds.size() < kSeedsPerRound) {
            for (int j = 0; j < n_joints(); ++j) {
                seeds.positions.push_back(random.uniform(task.bounds.lower[j], task.bounds.upper[j]));
            }
        }
        return seeds;
    }

    // The same solution with continuous joints within pi of the state, since they may make any number of revolutions.
    Configuration turned(Configuration q, const Configuration& state) const {
        for (int j = 0; j < n_joints(); ++j) {
            if (joints_[j].is_continuous) q[j] += eim::kTwoPi * std::nearbyint((state[j] - q[j]) / eim::kTwoPi);
        }
        return q;
    }

    std::vector<eim::Index> by_distance(const eim::Rows& rows, const Configuration& state) const {
        std::vector<double> distances(rows.size(), 0.0);
        for (eim::Index i = 0; i < rows.size(); ++i) {
            for (int j = 0; j < n_joints(); ++j) {
                const double d = eim::difference(rows.row(i)[j], state[j], joints_[j].is_continuous);
                distances[i] += d * d;
            }
        }
        std::vector<eim::Index> order(rows.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return distances[a] < distances[b]; });
        return order;
    }

    eim::Chain chain_;
    std::vector<Joint> joints_;
};

}  // namespace eim_moveit
