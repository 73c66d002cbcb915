// Solution of a pose by the methods of eim_ros, in the same order as the Python strategies. The class needs neither ROS
// nor MoveIt.
//
// The first method returns the given state if the state is a solution. The second method returns all solutions in
// closed form, and the third one returns solutions on self-motion curves. The second and third methods return the
// nearest solution first. The last method makes restarts until the deadline. Each solution is verified, and
// near-duplicates are removed. Consistency limits and locked joints narrow the limits of the joints.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "closed_form/arm_form.hpp"
#include "search/curve_solutions.hpp"
#include "search/search.hpp"

namespace eim_moveit {

using Configuration = std::vector<double>;  // [rad] or [m]
using Clock = std::chrono::steady_clock;

inline constexpr double kTolerance = 1e-6;  // [m], [rad]
inline constexpr int kMaxIterations = 60;
inline constexpr int kPatience = 3, kUnhurried = 61;  // number of steps in which the squared error must halve
inline constexpr int kFruitlessSeeds = 3000;  // seeds without a new solution after which a search for several ends
// Maximum number of 2 pi-equivalent solutions in closed form: in the first request, and after the caller has refused
// them. Six joints with limits of +-2 pi give up to 512 equivalents.
inline constexpr eim::Index kNearestRevolutions = 64, kMostRevolutions = 1024;
inline constexpr eim::Index kOnCurves = 64;  // number of solutions into which all curves are divided
inline constexpr double kConfidence = 0.99;  // confidence at which the search for curves ends

struct Joint {
    double lower, upper;  // [rad] or [m]; -pi and pi for continuous joints
    bool is_continuous;
};

class ArmSolver {
   public:
    // rows (n_links + 1, 16): the chain, as described in eim_ros/kinematics/urdf.py
    ArmSolver(const std::vector<double>& rows, std::vector<Joint> joints)
        : chain_(rows.data(), static_cast<int>(rows.size() / 16), static_cast<int>(joints.size())),
          joints_(std::move(joints)),
          form_(eim::make_form(chain_, -1)),
          parameterised_(eim::parameterised_form(chain_)),
          experts_(0, chain_.n_joints, 0, 1, nullptr, nullptr, nullptr),
          ones_(joints_.size(), 1.0),
          continuous_(new bool[joints_.size()]) {
        for (std::size_t j = 0; j < joints_.size(); ++j) continuous_[j] = joints_[j].is_continuous;
    }

    int n_joints() const { return chain_.n_joints; }

    // Returns the task for a pose of the tip (3, 4), whose columns are the rotation and the position. `reach` limits
    // the distance of each joint from its value in `state` [rad] or [m]. A reach of infinity does not limit the joint.
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

    // Returns the solution that the solver reaches from the state, or an empty vector if it fails.
    Configuration refined(const eim::Task& task, const Configuration& state) const {
        eim::Rows rows({n_joints(), state});
        refine(task, kUnhurried, rows);
        return rows.converged[0] ? turned(Configuration(rows.row(0), rows.row(0) + n_joints()), state)
                                 : Configuration();
    }

    // Calls take(solution) for distinct solutions until it returns true, until the deadline, or until no solutions are
    // left. Returns whether take returned true. The search for one solution continues until the deadline, unless a
    // closed form proves that no others exist. A search for `most` > 1 solutions ends when this number is found, or
    // when it finds no more new solutions.
    template <class Take>
    bool search(const eim::Task& task, const Configuration& state, Clock::time_point deadline, Take take,
                int most = 1) const {
        if (is_beyond(task)) return false;
        const double end = std::chrono::duration<double>(deadline.time_since_epoch()).count();
        return eim::for_kind(chain_, [&]<int N>() {
            Offers<Take> offers{*this, task, state, take, eim::Places(task.bounds, n_joints())};
            if (offers.given() || closed_form<N>(task, state, end, offers)) return offers.is_taken;
            if (!eim::is_past(end) && curves<N>(task, state, end, offers)) return true;
            return restarts<N>(task, state, end, most, offers);
        });
    }

    // Returns up to `most` distinct solutions found before the deadline, in the order of their distance from the state.
    std::vector<Configuration> several(const eim::Task& task, const Configuration& state, Clock::time_point deadline,
                                       int most) const {
        std::vector<Configuration> found;
        const auto keep = [&](Configuration q) {
            found.push_back(std::move(q));
            return static_cast<int>(found.size()) == most;
        };
        search(task, state, deadline, keep, most);
        const eim::Cost distance{state.data(), ones_.data(), continuous_.get(), n_joints()};
        std::stable_sort(found.begin(), found.end(), [&](const Configuration& a, const Configuration& b) {
            return distance(a.data()) < distance(b.data());
        });
        return found;
    }

   private:
    static constexpr double kFirstSeed = 0.5;  // fixed, because equal requests must have equal results
    static constexpr eim::StepOptions kEffort{kTolerance, kTolerance, kMaxIterations, kPatience};

    // Whether the target is farther from the base than the arm can reach.
    bool is_beyond(const eim::Task& task) const {
        double away = 0.0, length = chain_.reach + kTolerance;
        for (int k = 0; k < 3; ++k) away += task.target[k][3] * task.target[k][3];
        for (int i = 0; i < chain_.n_links; ++i) {
            const eim::Link<double>& link = chain_.links[i];
            if (!link.slides) continue;
            const double lower = link.multiplier * joints_[link.source].lower + link.offset;
            const double upper = link.multiplier * joints_[link.source].upper + link.offset;
            length += std::max(std::abs(lower), std::abs(upper));
        }
        return std::sqrt(away) > length;
    }

    // Passes each solution to the caller once.
    template <class Take>
    struct Offers {
        const ArmSolver& solver;
        const eim::Task& task;
        const Configuration& state;
        Take& take;
        eim::Places known;
        bool is_taken = false;

        // Offers the state if it is a solution. Returns whether the caller accepted it.
        bool given() {
            eim::Rows row({solver.n_joints(), state});
            eim::for_kind(solver.chain_, [&]<int N>() { eim::verify_rows<N>(solver.chain_, task, row); });
            return row.converged[0] && offer(row.row(0)) && is_taken;
        }
        // Offers a solution. Returns whether the solution is new.
        bool offer(const double* q) {
            if (is_taken || known.has_duplicate(q, eim::kDistinct)) return false;
            known.add(q);
            is_taken = take(solver.turned(Configuration(q, q + solver.n_joints()), state));
            return true;
        }
        bool all(const eim::Rows& rows) {
            for (eim::Index i = 0; i < rows.size() && !is_taken; ++i) offer(rows.row(i));
            return is_taken;
        }
    };

    // Returns whether the search is over, because a solution was accepted or no others exist. The nearest 2
    // pi-equivalents are offered first. More equivalents are computed only if the caller refuses the nearest ones.
    template <int N, class Take>
    bool closed_form(const eim::Task& task, const Configuration& state, double end, Offers<Take>& offers) const {
        if (form_.form.kind == eim::ClosedForm::Kind::none && !form_.general) return false;
        const eim::TurnCost cost{state.data(), ones_.data(), false};
        for (const eim::Index most : {kNearestRevolutions, kMostRevolutions}) {
            eim::PoseSolutions found{eim::Rows({n_joints()}), {}};
            eim::add_solutions(form_, chain_, task, eim::kExactRoot, false, cost, most, end, -1.0, found);
            const auto [n_rows, n_roots, n_total, is_complete, is_certified, is_singular, is_swept, is_close] =
                line(found);
            // the rows are copied, because they have no marks
            eim::Rows rows({n_joints()});
            for (eim::Index i = 0; i < eim::Index(n_rows); ++i) rows.add(found.rows.row(i));
            if (is_singular) return offers.all(with_self_motions<N>(task, state, end, std::move(rows)));
            if (offers.all(rows)) return true;
            if (n_rows >= n_total || !is_complete) return is_complete;
        }
        return false;
    }

    // Returns solutions of a pose at which the arm is singular, in the order of their distance from the state. At such
    // a pose, joints can move while the tip is fixed. The closed form gives only some of these solutions, which may be
    // far from the state.
    template <int N>
    eim::Rows with_self_motions(const eim::Task& task, const Configuration& state, double end, eim::Rows rows) const {
        const eim::Cost distance{state.data(), ones_.data(), continuous_.get(), n_joints()};
        const eim::Configurations near{n_joints(), state}, start = eim::within_limits(near, task, continuous_.get());
        const auto add = [&](const eim::Rows& more) {
            for (eim::Index i = 0; i < more.size(); ++i) rows.add(more.row(i));
        };
        bool is_surely = false, in_time = false;
        add(eim::next_to<N>(chain_, task, kEffort, distance, start.row(0), is_surely));
        if (form_.form.kind != eim::ClosedForm::Kind::none) {
            eim::Candidates candidates;
            form_.form.solve(eim::motion_of(task.target), candidates, eim::free_below(task));
            eim::SelfMotions motions(chain_, task, kFirstSeed);
            motions.sweep(candidates, form_.part, 0.0);
            add(eim::CurveSolutions<N>(chain_, task, motions)
                    .nearest(near, distance, kEffort, eim::kMostNearest, kOnCurves, end, in_time));
        }
        std::vector<eim::Index> order = eim::numbers_where(rows.size(), [](eim::Index) { return true; });
        std::stable_sort(order.begin(), order.end(),
                         [&](eim::Index a, eim::Index b) { return distance(rows.row(a)) < distance(rows.row(b)); });
        eim::Rows sorted({n_joints()});
        for (const eim::Index i : order) sorted.add(rows.row(i));
        return sorted;
    }

    struct Line {
        double n_rows, n_roots, n_total, is_complete, is_certified, is_singular, is_swept, is_close;
    };
    static Line line(const eim::PoseSolutions& found) {
        const double* at = found.table.data();
        return {at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]};
    }

    template <int N, class Take>
    bool curves(const eim::Task& task, const Configuration& state, double end, Offers<Take>& offers) const {
        int n_free = 0;
        for (int j = 0; j < n_joints(); ++j) n_free += task.bounds.lower[j] < task.bounds.upper[j];
        if (n_free != 7) return false;
        const eim::Cost distance{state.data(), ones_.data(), continuous_.get(), n_joints()};
        const eim::Configurations near{n_joints(), state}, start = eim::within_limits(near, task, continuous_.get());
        const bool has_form = parameterised_.fits() && chain_.kind == 7;
        bool is_surely = has_form;
        const eim::Rows next = has_form
                                   ? eim::nearest_by_form(chain_, parameterised_, task, kEffort, distance, start.row(0))
                                   : eim::next_to<N>(chain_, task, kEffort, distance, start.row(0), is_surely);
        if (is_surely && offers.all(next)) return true;
        eim::SelfMotions motions(chain_, task, kFirstSeed);
        motions.search<N>(chain_, {kConfidence, eim::kNoBound, end, kEffort});
        bool in_time = false;
        const eim::Rows found = eim::CurveSolutions<N>(chain_, task, motions)
                                    .nearest(near, distance, kEffort, eim::kMostNearest, kOnCurves, end, in_time);
        const bool is_nearer = next.size() && found.size() && distance(next.row(0)) < distance(found.row(0));
        return (is_nearer && offers.all(next)) || offers.all(found) || offers.all(next);
    }

    template <int N, class Take>
    bool restarts(const eim::Task& task, const Configuration& state, double end, int most, Offers<Take>& offers) const {
        const eim::Mixture nothing{experts_, 1, nullptr, nullptr};
        const bool is_one = most == 1;
        const eim::SearchOptions options{most, 0.0, eim::kDistinct, true, false, is_one, kFruitlessSeeds,
                                         0,    0.0, kEffort,        end,  0.0};
        // if several solutions are requested, each new solution counts; otherwise only an accepted solution counts
        const eim::Conditions offer = [&](const eim::Rows& rows, eim::Index first, std::vector<std::uint8_t>& marks) {
            for (eim::Index i = first; i < rows.size(); ++i) {
                if (marks[std::size_t(i)])
                    marks[std::size_t(i)] = offers.offer(rows.row(i)) && (!is_one || offers.is_taken);
            }
        };
        const eim::Configurations near{n_joints(), state};
        eim::Search<N>(chain_, task, nothing, options, near, continuous_.get(), offer).run(kFirstSeed);
        return offers.is_taken;
    }

    void refine(const eim::Task& task, int patience, eim::Rows& rows) const {
        const eim::StepOptions effort{kTolerance, kTolerance, kMaxIterations, patience};
        eim::for_kind(chain_, [&]<int N>() {
            eim::refine_rows<N>(chain_, task, effort, rows);
            eim::verify_rows<N>(chain_, task, rows);
        });
    }

    // Returns the solution with each continuous joint moved by revolutions to within pi of its value in the state.
    Configuration turned(Configuration q, const Configuration& state) const {
        for (int j = 0; j < n_joints(); ++j) {
            if (joints_[j].is_continuous) q[j] += eim::kTwoPi * std::nearbyint((state[j] - q[j]) / eim::kTwoPi);
        }
        return q;
    }

    eim::Chain chain_;
    std::vector<Joint> joints_;
    eim::ArmForm form_;
    eim::ParameterisedForm parameterised_;
    eim::Experts experts_;  // no experts
    std::vector<double> ones_;
    std::unique_ptr<bool[]> continuous_;
};

}  // namespace eim_moveit
