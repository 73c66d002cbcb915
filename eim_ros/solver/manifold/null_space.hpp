// Null-space motion of a redundant arm: projection onto the null space of the Jacobian, and minimisation of a cost
// along the null space.
#pragma once

#include "chain/refine.hpp"
#include "selection/distinctness.hpp"

namespace eim {

inline constexpr double kProjectionDamping = 1e-9;
inline constexpr double kLeastShare = 1e-3;  // least share of a direction that is in the null space
inline constexpr int kMostDescents = 200, kMostHalvings = 12;
inline constexpr double kShortestScale = 0.1;  // least scale of a step, for weights of at most 1
inline constexpr double kLongestStep = 0.3;    // [rad, m]
inline constexpr double kFlat = 3e-5;          // [rad, m]: norm of the null-space gradient at a minimum
inline constexpr double kExact = 1e-12;  // [m], [rad]: largest errors after correction; larger ones hide a descent
// [rad, m]: closer joints count as being at the limit, until a minimum is found
inline constexpr double kWidestMargin = 1e-2;
inline constexpr double kNarrowing = 1e-3;
inline constexpr double kEdge = 1e-8;  // [m], [rad]: closer values count as equal to a limit or a tolerance

// Quadratic cost sum_j w_j (q_j - p_j)^2 of a configuration. Differences of continuous joints are measured on the
// circle.
struct Cost {
    const double *preferred, *weights;
    const bool* turns;
    int n_joints;

    double away(const double* q, int j) const { return difference(q[j], preferred[j], turns[j]); }
    double operator()(const double* q) const {
        double cost = 0.0;
        for (int j = 0; j < n_joints; ++j) cost += weights[j] * away(q, j) * away(q, j);
        return cost;
    }
};

// Projects a vector onto the null space of a Jacobian by subtracting J^T y. Returns the squared length of the
// projection.
template <int N>
inline double to_null_space(const Chain& chain, const double (*jacobian)[6], bool position_only, double* vector,
                            double (&y)[6]) {
    double moved[6] = {}, left = 0.0;
    for (int j = 0; j < joints_of<N>(chain); ++j) {
        for (int k = 0; k < 6; ++k) moved[k] += jacobian[j][k] * vector[j];
    }
    solve(factorised<N>(chain, jacobian, position_only, kProjectionDamping), moved, y);
    for (int j = 0; j < joints_of<N>(chain); ++j) {
        vector[j] -= product(jacobian[j], y);
        left += vector[j] * vector[j];
    }
    return left;
}

// Fills `tangent` with the projection of a direction onto the null space at q, as a unit vector. Joints at a limit do
// not move beyond it. Returns false if the projection is almost zero.
template <int N>
inline bool project(const Chain& chain, const Task& task, const double (*jacobian)[6], const double* q,
                    const double* direction, double* tangent) {
    const Bounds<double>& bounds = task.bounds;
    double masked[kJoints<N>][6], y[6], length = 0.0;
    for (int j = 0; j < joints_of<N>(chain); ++j) {
        const bool outward =
            (q[j] <= bounds.lower[j] && direction[j] < 0.0) || (q[j] >= bounds.upper[j] && direction[j] > 0.0);
        const double free = outward && !bounds.wraps[j] ? 0.0 : 1.0;
        tangent[j] = free * direction[j];
        length += tangent[j] * tangent[j];
        for (int k = 0; k < 6; ++k) masked[j][k] = free * jacobian[j][k];
    }
    const double left = to_null_space<N>(chain, masked, task.position_only, tangent, y);
    if (!(left > kLeastShare * kLeastShare * length)) return false;
    for (int j = 0; j < joints_of<N>(chain); ++j) tangent[j] /= std::sqrt(left);
    return true;
}

// Returns the least singular value of the Jacobian at q, or of its position rows. Inverse iteration computes it as the
// square root of the least eigenvalue of J J^T.
template <int N>
inline double least_singular_value(const Chain& chain, const double* q, bool position_only) {
    constexpr int kIterations = 12;
    Kinematics<double, N> at;
    forward<N>(chain, q, at);
    differentiate<N>(chain, at);
    const auto factor = factorised<N>(chain, at.jacobian, position_only, kPivotFloor);
    double x[6] = {1.0, -0.7, 0.9, 0.8, -1.1, 0.6}, y[6], length = 1.0;
    for (int i = 0; i < kIterations; ++i) {
        solve(factor, x, y);
        length = std::sqrt(product(y, y));
        for (int k = 0; k < 6; ++k) x[k] = y[k] / length;
    }
    return 1.0 / std::sqrt(length);
}

inline constexpr double kNearby = 0.2;         // [rad, m]: largest distance of a solution that may end a search
inline constexpr double kRegularShare = 0.25;  // largest ratio of this distance to the least singular value

// Whether q is certainly the solution nearest to a reference. The argument q must be a local minimum of the distance.
//
// Within this distance of the reference, the Jacobian changes by at most about twice the distance. With a ratio of
// 0.25, the change is at most half of the least singular value. The Jacobian therefore keeps its full rank there, and
// the solutions near the reference form a single smooth set.
template <int N>
inline bool is_surely_nearest(const Chain& chain, const double* q, double distance, bool position_only) {
    return distance <= kNearby && distance <= kRegularShare * least_singular_value<N>(chain, q, position_only);
}

// Moves solutions of a task along the self-motion to a local minimum of a cost.
//
// The cost never increases: points that cannot be improved do not move. The first step minimises the cost along a
// straight line. Later steps have the length of Barzilai and Borwein (1988), which is the secant method if there is one
// free dimension. Each step is halved until the cost decreases.
template <int N>
class Descent {
   public:
    Descent(const Chain& chain, const Task& task, const Cost& cost)
        : chain_(chain), task_(task), within_(task), cost_(cost), led_back_({chain.n_joints}) {
        for (double& tolerance : within_.tolerances) tolerance = std::max(tolerance - kEdge, 0.0);
        led_back_.resize(1);
    }

    // Moves one point (n_joints,) and overwrites it.
    void run(double* point) {
        const int n = joints_of<N>(chain_);
        double q[kJoints<N>], trial[kJoints<N>];
        std::copy_n(point, n, q);
        if (!lead_back(q)) return;
        double cost = cost_(q), margin = kWidestMargin;
        std::fill_n(taken_, n, 0.0);
        for (int i = 0; i < kMostDescents; ++i) {
            const double left = descend(q, margin);
            double scale = first_scale(q, left);
            bool falls = false;
            const double flat = std::max(kFlat, 0.1 * margin);
            for (int tries = left <= flat * flat ? 0 : kMostHalvings; tries > 0 && !falls; --tries, scale *= 0.5) {
                for (int j = 0; j < n; ++j) trial[j] = q[j] + scale * tangent_[j];
                falls = lead_back(trial) && cost_(trial) < cost;
            }
            if (falls) {
                cost = cost_(trial);
                for (int j = 0; j < n; ++j) {
                    taken_[j] = difference(trial[j], q[j], task_.bounds.wraps[j]), slope_[j] = tangent_[j];
                    q[j] = trial[j];
                }
            } else if (margin > kEdge) {
                margin = std::max(kNarrowing * margin, kEdge);
                std::fill_n(taken_, n, 0.0);
            } else {
                break;
            }
        }
        if (cost < cost_(point)) std::copy_n(q, n, point);
    }

   private:
    // Corrects q to the pose. Returns whether the result is a solution.
    bool lead_back(double* q) {
        std::copy_n(q, joints_of<N>(chain_), led_back_.row(0));
        run_rows<N, true>(chain_, task_, {kExact, kExact, 10, 3}, RowJobs::all(led_back_));
        std::copy_n(led_back_.row(0), joints_of<N>(chain_), q);
        return led_back_.distances[0] <= task_.position_tolerance && led_back_.angles[0] <= task_.orientation_tolerance;
    }

    // Fills tangent_ with the steepest descent direction of half the cost along the self-motion. Returns its squared
    // length.
    //
    // The method is an active-set method. A joint at a limit may move only inwards. An error at the end of its
    // tolerance is treated in the same way, by a row of the Jacobian that is free at first. In each round, joints and
    // rows that the descent would move outwards are fixed, until no such joint or row is left. If no descent remains,
    // the fixed joint with the largest inward pull is released.
    double descend(const double* q, double margin) {
        const Bounds<double>& bounds = task_.bounds;
        const int n = joints_of<N>(chain_);
        forward<N>(chain_, q, at_);
        differentiate<N>(chain_, at_);
        Difference<double> error{};
        if (task_.has_tolerances) {
            const Frame<double> target = target_of<double>(task_);
            measure(at_.tip, target, within_, error);
            turn_rows(target, within_.tolerances, error, n, at_.jacobian);
        }
        bool is_held[kJoints<N>] = {}, is_let_go[kJoints<N>] = {}, is_row_held[6];
        for (int a = 0; a < 6; ++a) is_row_held[a] = !(within_.tolerances[a] > 0.0);
        while (true) {
            double masked[kJoints<N>][6], y[6];
            for (int j = 0; j < n; ++j) {
                tangent_[j] = is_held[j] ? 0.0 : -cost_.weights[j] * cost_.away(q, j);
                for (int k = 0; k < 6; ++k) masked[j][k] = is_held[j] || !is_row_held[k] ? 0.0 : at_.jacobian[j][k];
            }
            const double left = to_null_space<N>(chain_, masked, task_.position_only, tangent_, y);
            bool is_new = false;
            for (int j = 0; j < n; ++j) {
                const bool outward = (q[j] <= bounds.lower[j] + margin && tangent_[j] < 0.0) ||
                                     (q[j] >= bounds.upper[j] - margin && tangent_[j] > 0.0);
                if (!bounds.wraps[j] && !is_held[j] && !is_let_go[j] && outward) is_held[j] = is_new = true;
            }
            for (int a = 0; a < 6; ++a) {
                double outwards = 0.0;
                for (int j = 0; j < n; ++j) outwards -= at_.jacobian[j][a] * tangent_[j] * error.vector[a];
                if (!is_row_held[a] && error.vector[a] != 0.0 && outwards > 0.0) is_row_held[a] = is_new = true;
            }
            if (is_new) continue;
            int pulled = -1;
            double most = kFlat;
            for (int j = 0; j < n && left <= kFlat * kFlat; ++j) {
                if (!is_held[j]) continue;
                double pull = -cost_.weights[j] * cost_.away(q, j);
                for (int k = 0; k < 6; ++k) pull -= is_row_held[k] ? at_.jacobian[j][k] * y[k] : 0.0;
                const double inwards = q[j] <= bounds.lower[j] + margin ? pull : -pull;
                if (inwards > most) most = inwards, pulled = j;
            }
            if (pulled < 0) return left;
            is_held[pulled] = false, is_let_go[pulled] = true;
        }
    }

    // Returns the length of the step along tangent_, which has the squared length `left`. The step ends at joint
    // limits.
    double first_scale(const double* q, double left) const {
        const Bounds<double>& bounds = task_.bounds;
        double curvature = 0.0, square = 0.0, bend = 0.0, scale = std::numeric_limits<double>::infinity();
        for (int j = 0; j < joints_of<N>(chain_); ++j) {
            curvature += cost_.weights[j] * tangent_[j] * tangent_[j];
            square += taken_[j] * taken_[j];
            bend -= taken_[j] * (tangent_[j] - slope_[j]);
        }
        if (square > 0.0 && bend > 0.0) scale = std::max(square / bend, kShortestScale);
        if (!(square > 0.0) && curvature > 0.0) scale = left / curvature;
        if (left > 0.0) scale = std::min(scale, kLongestStep / std::sqrt(left));
        for (int j = 0; j < joints_of<N>(chain_); ++j) {
            const double room = std::max(tangent_[j] > 0.0 ? bounds.upper[j] - q[j] : q[j] - bounds.lower[j], 0.0);
            if (!bounds.wraps[j] && std::abs(tangent_[j]) * scale > room) scale = room / std::abs(tangent_[j]);
        }
        return scale;
    }

    const Chain& chain_;
    const Task& task_;
    Task within_;  // the task with tolerances reduced by kEdge
    const Cost& cost_;
    double tangent_[kJoints<N>], taken_[kJoints<N>], slope_[kJoints<N>] = {};
    Rows led_back_;  // one row
    Kinematics<double, N> at_;
};

// Moves configurations onto the pose, and along the self-motion to a local minimum of a cost. Returns the valid
// configurations.
template <int N>
inline Rows nearest_on_curves(const Chain& chain, const Task& task, const StepOptions& effort, const Cost& cost,
                              Rows rows) {
    refine_rows<N>(chain, task, effort, rows);
    verify_rows<N>(chain, task, rows);
    Descent<N> descent(chain, task, cost);
    Rows moved = rows, valid({chain.n_joints});
    for (Index i = 0; i < rows.size(); ++i) {
        if (rows.converged[i]) descent.run(moved.row(i));
    }
    verify_rows<N>(chain, task, moved);
    for (Index i = 0; i < rows.size(); ++i) {
        if (!rows.converged[i]) continue;
        const Rows& from = moved.converged[i] ? moved : rows;
        valid.add(from.row(i));
        valid.distances.push_back(from.distances[i]), valid.angles.push_back(from.angles[i]);
    }
    return valid;
}

}  // namespace eim
