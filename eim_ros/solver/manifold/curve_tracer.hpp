// Tracer of the self-motions of an arm with one redundant direction. Self-motions are traced from end to end, without
// the limits of revolute joints.
//
// Without limits, the solutions of a pose are a few closed curves on the torus of the joints (Burdick 1989: at most 16
// curves for seven revolute joints). Limits only cut these curves into pieces. The tracer therefore follows curves
// through limits.
//
// The method uses a predictor and a corrector (Allgower and Georg 1990). The predictor is the cubic through the last
// two places and their tangents. The corrector is Newton's method. The error of the prediction controls the length of
// the step. A step is rejected and halved if Newton's method is slow or if the tangent rotates far. A step is also
// rejected if the place is far from the prediction, because the place may be on another curve.
//
// Branches start in both directions from each root, and end where they meet a place of the same curve. A branch leaves
// each side of each place only once. A curve is therefore traced only once, even if several roots are on it. A curve is
// known from end to end when none of its sides is open.
#pragma once

#include "chain/free_task.hpp"
#include "manifold/curve_graph.hpp"
#include "numerics/portable.hpp"
#include "numerics/random.hpp"

namespace eim {

// [rad, m]: distance from a cubic at which a solution needs an exact check
inline constexpr double kMaybeSame = 3e-2;
inline constexpr double kFirstStep = 0.12, kShortestStep = 1e-3;  // [rad, m]
inline constexpr int kStepsToPose = 4, kMostSteps = 20;  // largest numbers of Newton steps: until close; in total
inline constexpr double kCloseToPose = 8e-3;             // [m], [rad]: one Newton step from here completes a place
// [rad, m]: error after a Newton step, which is about the square of the step divided by the least singular value
inline constexpr double kNewtonError = 5e-5;
inline constexpr double kLongestCorrection = 8e-3;  // [rad, m]: longer corrections rotate the tangent too far
inline constexpr double kNewtonContraction = 0.25;  // largest ratio of squared errors of successive Newton steps
inline constexpr double kPredicted = 5e-3;     // [rad, m]: target for the error of predictions, which controls the step
inline constexpr double kStraying = 0.15;      // largest distance of places from predictions, as a share of the step
inline constexpr double kLeastCosine = 0.9;    // least cosine of the angle between successive tangents
inline constexpr double kWantedTurn = 0.35;    // [rad]: target for the rotation of the tangent per step
inline constexpr double kLongestGrowth = 1.6;  // largest ratio of the lengths of successive steps
inline constexpr double kBeyond = 0.5;         // [rad, m]: largest distance of a prismatic joint beyond its limits
inline constexpr int kMostPlacesTraced = 6000;
inline constexpr double kLeastTracing = 0.015;  // [s]: tracing may always take this time, even after the deadline
inline constexpr double kTraceDamping = 1e-10;
// [m, rad per rad, m]: least singular value below which the arm counts as singular
inline constexpr double kSingular = 3e-4;

template <int N>
class CurveTracer {
   public:
    // `free` is a task without limits (see `without_limits`).
    CurveTracer(const Chain& chain, const Task& free, CurveGraph& graph, Random& random)
        : chain_(chain.in_units()), unit_(chain.unit), task_(free), graph_(graph), random_(random) {
        std::fill_n(jobs_, W, Job{});
        for (int j = 0; j < n_; ++j) q_[j] = heading_[j] = V{};
    }

    // Traces the curves through configurations close to solutions. Known curves are skipped. Returns false if there are
    // more than kMostPlacesTraced places, or if the deadline, a time of the steady clock [s], has passed.
    bool run(const Configurations& roots, double deadline = std::numeric_limits<double>::infinity()) {
        roots_ = &roots, next_root_ = 0;
        Watch watch(std::max(deadline, steady_seconds() + kLeastTracing));
        while (graph_.size() <= kMostPlacesTraced && !watch.is_past()) {
            bool is_active = false;
            for (int lane = 0; lane < W; ++lane) {
                if (jobs_[lane].kind == Kind::none) begin(lane);
                is_active |= jobs_[lane].kind != Kind::none;
            }
            if (!is_active) return true;
            advance();
        }
        for (Job& job : jobs_) {
            // another branch may have just arrived from this side; its link must stay
            if (job.kind == Kind::branch && graph_.link(job.place, job.side).place == CurveGraph::kOpen) lose(job);
            job = {};
        }
        for (const auto& [place, side] : open_) {
            if (graph_.link(place, side).place == CurveGraph::kOpen) graph_.end(place, side, CurveGraph::kLost);
        }
        open_.clear();
        return false;
    }

   private:
    using V = WideDouble;
    static constexpr int W = kLanes<V>;
    enum class Kind { none, root, branch };
    struct Job {
        Kind kind = Kind::none;
        int place = -1, side = 0;  // the place and the side where a branch starts
        int n_back = 0;
        double step = kFirstStep, least = 0.0;
        bool has_before = false;
        double from[kJoints<N>], predicted[kJoints<N>];                   // from: last place, not wrapped
        double chord[kJoints<N>], tangent_before[kJoints<N>], arc = 0.0;  // of the last step
    };

    void begin(int lane) {
        Job& job = jobs_[lane];
        while (!open_.empty()) {
            const auto [place, side] = open_.back();
            open_.pop_back();
            if (graph_.link(place, side).place != CurveGraph::kOpen) continue;
            job = {};
            job.kind = Kind::branch, job.place = place, job.side = side;
            for (int j = 0; j < n_; ++j) {
                job.from[j] = graph_.place(place)[j];
                set(heading_[j], lane, (side == 1 ? 1.0 : -1.0) * graph_.tangent(place)[j]);
            }
            return predict(lane);
        }
        while (next_root_ < roots_->size()) {
            const double* root = roots_->row(next_root_++);
            if (graph_.where(root, 2.0 * kSame).place >= 0) continue;
            job = {};
            job.kind = Kind::root;
            for (int j = 0; j < n_; ++j) {
                set(q_[j], lane, root[j]);
                set(heading_[j], lane, is_fixed(j) ? 0.0 : random_.uniform(-1.0, 1.0));
            }
            return;
        }
    }

    // Result of one Newton step.
    struct Correction {
        V damping{}, is_close{};  // is_close: 1 if the place was close to the pose before the step
        V moved{};                // squared length of the step
        V tangent[kJoints<N>];    // not normalised
        V squares{}, scale;       // squared length of the tangent; reciprocal of its length
        V weakest{}, steepest{};  // estimates of 1 / s^2 and 1 / s for the least singular value s
    };

    // Makes one Newton step in each lane, and handles the next event of each lane.
    void advance() {
        Difference<V> error;
        Correction step;
        forward<N>(chain_, q_, at_);
        pose_difference(at_.tip, target_, task_.position_only, error);
        judge_convergence(error, step);
        correct(error, step);
        for (int lane = 0; lane < W; ++lane) {
            if (jobs_[lane].kind != Kind::none) settle(lane, step);
        }
    }

    // Counts the Newton steps. Jobs that do not converge get n_back = -1.
    void judge_convergence(const Difference<V>& error, Correction& step) {
        for (int lane = 0; lane < W; ++lane) {
            Job& job = jobs_[lane];
            const double distance = get(error.distance, lane), angle = get(error.angle, lane);
            const double square = distance * distance + angle * angle;
            set(step.damping, lane, 1e-3 * square + kTraceDamping);
            if (job.kind == Kind::none) continue;
            const bool close = square <= kCloseToPose * kCloseToPose;
            set(step.is_close, lane, close ? 1.0 : 0.0);
            ++job.n_back;
            const bool is_slow = job.n_back > 1 && !(square <= kNewtonContraction * job.least);
            const bool is_stuck = job.n_back > kMostSteps;  // close to the pose, but without convergence
            if (is_stuck || (!close && (job.n_back > kStepsToPose || is_slow || !(square < 4.0)))) job.n_back = -1;
            job.least = square;
        }
    }

    // Corrects q_ towards the pose, and computes the tangent from the null space of the Jacobian.
    void correct(Difference<V>& error, Correction& step) {
        V across[6], along[6];
        differentiate<N>(chain_, at_);
        for (int j = 0; j < n_; ++j) {
            if (is_fixed(j)) std::fill_n(at_.jacobian[j], 6, V{});
        }
        const Damped<V> factor = factorised<N>(chain_, at_.jacobian, task_.position_only, step.damping);
        solve(factor, error.vector, across);
        for (V& entry : error.vector) entry = V{};
        for (int j = 0; j < n_; ++j) {
            for (int k = 0; k < 6; ++k) error.vector[k] += heading_[j] * at_.jacobian[j][k];
        }
        solve(factor, error.vector, along);
        estimate_least_singular_value(factor, step);
        for (int j = 0; j < n_; ++j) {
            const V way = product(at_.jacobian[j], across);
            q_[j] += way, step.moved += way * way;
            step.tangent[j] = heading_[j] - product(at_.jacobian[j], along);
            step.squares += step.tangent[j] * step.tangent[j];
        }
        step.scale = 1.0 / square_root(larger(step.squares, fill<V>(1e-300)));
    }

    static void estimate_least_singular_value(const Damped<V>& factor, Correction& step) {
        // for almost any vector v, (J J^T)^-1 v is about the part of v along the weakest direction, divided by s^2
        const double generic[6] = {0.37, -0.45, 0.41, 0.39, -0.43, 0.40};
        V some[6], grown[6];
        for (int k = 0; k < 6; ++k) some[k] = fill<V>(k < factor.n ? generic[k] : 0.0);
        solve(factor, some, grown);
        for (int k = 0; k < 6; ++k) step.weakest = larger(step.weakest, absolute(grown[k]));
        for (int k = 0; k < factor.n; ++k) step.steepest = larger(step.steepest, factor.lower[k][k]);
    }

    // Decides the next event of a job: it ends, tries a shorter step, corrects again, or has reached the curve.
    void settle(int lane, const Correction& step) {
        Job& job = jobs_[lane];
        if (job.kind == Kind::branch && graph_.link(job.place, job.side).place != CurveGraph::kOpen) {
            job.kind = Kind::none;  // another branch has arrived from this side
            return;
        }
        if (job.n_back < 0) return retry(lane);
        const double moved = get(step.moved, lane);
        if (get(step.is_close, lane) == 0.0 || !(moved * get(step.steepest, lane) <= kNewtonError) ||
            !(moved <= kLongestCorrection * kLongestCorrection)) {
            return;
        }
        double unit[kJoints<N>], q[kJoints<N>];
        for (int j = 0; j < n_; ++j) {
            unit[j] = get(step.tangent[j], lane) * get(step.scale, lane), q[j] = get(q_[j], lane);
        }
        const bool is_singular = !(get(step.weakest, lane) * kSingular * kSingular < 1.0);
        if (is_singular) return retry(lane);  // here, curves may cross, or solutions may form surfaces
        if (job.kind == Kind::branch) return arrive(lane, q, unit);
        take_root(lane, q, unit, get(step.squares, lane));
    }

    void take_root(int lane, double* q, const double* unit, double squares) {
        Job& job = jobs_[lane];
        if (!(squares > 1e-4)) {  // tries another direction, because this one was perpendicular to the curve
            for (int j = 0; j < n_; ++j) set(heading_[j], lane, is_fixed(j) ? 0.0 : random_.uniform(-1.0, 1.0));
            if (++n_turned_ < 100) return;
            job.kind = Kind::none;
            return;
        }
        if (job.least > 1e-14 &&
            job.n_back < kStepsToPose) {  // corrects again, because the tangent belongs to another point
            for (int j = 0; j < n_; ++j) set(heading_[j], lane, unit[j]);
            job.least = 1.0;
            return;
        }
        job.kind = Kind::none;
        wrap(q);
        const OnCurve at = graph_.where(q, kMaybeSame);
        if (at.place >= 0 && is_same(at, q, unit)) return;
        const int place = graph_.add(q, unit);
        open_.push_back({place, 0}), open_.push_back({place, 1});
    }

    // Whether a solution next to a segment is on the curve of the segment. If so, Newton's method leads from the cubic
    // to the solution. If the cubic is inaccurate, the solution becomes a place of the curve.
    bool is_same(const OnCurve& at, const double* q, const double* unit) {
        double x[kJoints<N>], away = 0.0, along = 0.0;
        if (graph_.link(at.place, at.side).place < 0) return true;  // the solution is at a place
        const Segment part = graph_.segment(at.place, at.side);
        for (int j = 0; j < n_; ++j) x[j] = part.at(j, at.s);
        const auto measure_away = [&] {
            away = along = 0.0;
            for (int j = 0; j < n_; ++j) {
                const double d = difference(x[j], q[j], task_.bounds.wraps[j]);
                away += d * d, along += d * unit[j];
            }
            return std::sqrt(std::max(away - along * along, 0.0));
        };
        if (measure_away() <= kSame) return true;
        Kinematics<double, N> here;
        const Frame<double> target = target_of<double>(task_, unit_);
        for (int step = 0; step < kStepsToPose; ++step) {
            Difference<double> error;
            double across[6];
            forward<N>(chain_, x, here);
            pose_difference(here.tip, target, task_.position_only, error);
            differentiate<N>(chain_, here);
            for (int j = 0; j < n_; ++j) {
                if (is_fixed(j)) std::fill_n(here.jacobian[j], 6, 0.0);
            }
            solve(factorised<N>(chain_, here.jacobian, task_.position_only, kTraceDamping), error.vector, across);
            for (int j = 0; j < n_; ++j) x[j] += product(here.jacobian[j], across);
        }
        if (!(measure_away() <= kSame && std::abs(along) <= kMaybeSame)) return false;
        graph_.insert(at, q, unit);
        return true;
    }

    // Handles a branch that has reached the curve again. Checks the step, records the place, and predicts the next
    // place.
    void arrive(int lane, double* q, const double* unit) {
        Job& job = jobs_[lane];
        double strayed = 0.0, cosine = 0.0;
        for (int j = 0; j < n_; ++j) {
            strayed += (q[j] - job.predicted[j]) * (q[j] - job.predicted[j]);
            cosine += unit[j] * get(heading_[j], lane);
        }
        strayed = std::sqrt(strayed);
        if (!(cosine >= kLeastCosine) || !(strayed <= kStraying * job.step + 2.0 * kNewtonError)) return retry(lane);
        double heading[kJoints<N>] = {};
        for (int j = 0; j < n_; ++j) heading[j] = get(heading_[j], lane);
        if (is_skew(job, heading, q, unit, cosine)) return retry(lane);
        const bool never[kMostJoints] = {};
        const Segment segment(n_, job.from, heading, 1.0, q, unit, 1.0, never);
        const int met = graph_.met(segment, job.place);
        if (met >= 0) return meet(lane, met, unit);
        if (!record(job, q, unit)) return;
        for (int j = 0; j < n_; ++j) {
            job.chord[j] = segment.chord[j], job.tangent_before[j] = heading[j], job.from[j] = q[j];
            set(heading_[j], lane, unit[j]);
        }
        job.arc = segment.length, job.has_before = true;
        choose_step(job, strayed, cosine);
        predict(lane);
    }

    // Whether the chord of a step is far from the mean of both tangents, which indicates a jump to another curve.
    bool is_skew(const Job& job, const double* heading, const double* q, const double* unit, double cosine) const {
        double chord = 0.0, skew = 0.0;
        for (int j = 0; j < n_; ++j) chord += (q[j] - job.from[j]) * (q[j] - job.from[j]);
        chord = std::sqrt(chord);
        const double mean = std::sqrt(2.0 + 2.0 * std::min(cosine, 1.0));
        for (int j = 0; j < n_; ++j) {
            const double d = q[j] - job.from[j] - chord * (heading[j] + unit[j]) / mean;
            skew += d * d;
        }
        return !(skew <= kMostSkew * kMostSkew * chord * chord + 4.0 * kNewtonError * kNewtonError);
    }

    // Handles a step that passes a known place. The branch ends there if the side that it reaches is open.
    void meet(int lane, int met, const double* unit) {
        Job& job = jobs_[lane];
        double along = 0.0;
        for (int j = 0; j < n_; ++j) along += graph_.tangent(met)[j] * unit[j];
        const int side = along > 0.0 ? 0 : 1;
        if (graph_.link(met, side).place != CurveGraph::kOpen) return retry(lane);
        graph_.join(job.place, job.side, met, side);
        job.kind = Kind::none;
    }

    // Adds a place to the curve of a branch. Returns false if the branch ends there because the place is far beyond a
    // limit.
    bool record(Job& job, const double* q, const double* unit) {
        double end[kJoints<N>];
        std::copy_n(q, n_, end);
        wrap(end);
        const int place = graph_.add(end, unit);
        graph_.join(job.place, job.side, place, 0);
        job.place = place, job.side = 1;
        if (!is_far_beyond(q)) return true;
        graph_.end(place, 1, CurveGraph::kCut);
        job.kind = Kind::none;
        return false;
    }

    // Chooses the length of the step from the rotation of the tangent, and from the error of the prediction, which is
    // of fourth order.
    static void choose_step(Job& job, double strayed, double cosine) {
        const double by_error = std::sqrt(std::sqrt(kPredicted / std::max(strayed, 1e-12)));
        const double turn = portable::acos(std::min(cosine, 1.0)), by_turn = kWantedTurn / std::max(turn, 1e-6);
        job.step *= std::clamp(std::min(by_error, by_turn), 0.4, kLongestGrowth);
        job.step = std::min(job.step, kLongestSegment);
    }

    // Predicts the next place by the cubic through the last two places and their tangents, or by the tangent alone.
    void predict(int lane) {
        Job& job = jobs_[lane];
        job.n_back = 0;
        const double h = job.step, arc = job.arc, s = 1.0 + h / std::max(arc, 1e-300);
        const bool bends = job.has_before && h < 2.5 * arc;
        for (int j = 0; j < n_; ++j) {
            const double tangent = get(heading_[j], lane);
            double way = h * tangent;
            if (bends) {
                way = arc * ((s - 2.0) * s * s + s) * job.tangent_before[j] -
                      ((2.0 * s - 3.0) * s * s + 1.0) * job.chord[j] + arc * (s - 1.0) * s * s * tangent;
            }
            job.predicted[j] = job.from[j] + way;
            set(q_[j], lane, job.predicted[j]);
        }
    }

    void retry(int lane) {
        Job& job = jobs_[lane];
        if (job.kind == Kind::root) return void(job.kind = Kind::none);
        job.step *= 0.5;
        if (job.step < kShortestStep) return lose(job);
        predict(lane);
    }

    void lose(Job& job) {
        graph_.end(job.place, job.side, CurveGraph::kLost);
        job.kind = Kind::none;
    }

    void wrap(double* q) const {
        for (int j = 0; j < n_; ++j) {
            if (task_.bounds.wraps[j]) q[j] = within(task_.bounds, j, q[j]);
        }
    }

    bool is_far_beyond(const double* q) const {
        for (int j = 0; j < n_; ++j) {
            const bool far = q[j] < task_.bounds.lower[j] - kBeyond || q[j] > task_.bounds.upper[j] + kBeyond;
            if (!task_.bounds.wraps[j] && far) return true;
        }
        return false;
    }

    bool is_fixed(int j) const { return task_.bounds.lower[j] == task_.bounds.upper[j]; }

    const Chain& chain_;  // in units of the arm, like all lengths here
    const double unit_;   // [m]
    const Task& task_;
    CurveGraph& graph_;
    Random& random_;
    const int n_ = joints_of<N>(chain_);
    const Frame<V> target_ = target_of<V>(task_, unit_);
    const Configurations* roots_ = nullptr;
    Index next_root_ = 0;
    int n_turned_ = 0;
    std::vector<std::pair<int, int>> open_;  // places and sides without a branch so far
    Job jobs_[W];
    V q_[kJoints<N>], heading_[kJoints<N>];
    Kinematics<V, N> at_;
};

}  // namespace eim
