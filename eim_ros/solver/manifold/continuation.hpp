// Continuation along the self-motion of an arm with one more joint than the pose requires.
//
// A branch starts at a known solution (a root), and takes steps of equal length by a predictor and a corrector
// (Allgower and Georg 1990). The predictor is the cubic through the last two places and their tangents. The corrector
// is Newton's method. If a prediction is within kClose of the pose, one more Newton step completes the place. The
// Jacobian of this step also gives the tangent. A new solution thus needs only two or three evaluations.
//
// Joint limits cut a self-motion into pieces. Branches therefore continue for some steps outside the limits. Continued
// branches find the piece on the other side, even if the piece is short and few seeds reach it. Places outside the
// limits are stored, because no branch should return to them, but they are not solutions. A place counts as inside the
// limits if revolutions of joints move it there.
#pragma once

#include "chain/refine.hpp"
#include "numerics/clock.hpp"
#include "numerics/random.hpp"
#include "selection/distinctness.hpp"

namespace eim {

inline constexpr double kSpacing = 0.6;  // least spacing of solutions, relative to the step
// a step is not taken if its predicted end is closer to known places than this share of the spacing
inline constexpr double kForesight = 0.9;
inline constexpr int kStepsOutside = 5;       // number of steps outside the limits after which a branch ends
inline constexpr int kMostOutside = 256;      // largest number of stored places outside the limits
inline constexpr int kStepsBack = 6;          // largest number of Newton steps from a prediction to the pose
inline constexpr double kClose = 4e-3;        // [m], [rad]
inline constexpr double kContraction = 0.25;  // largest ratio of squared errors of successive Newton steps
inline constexpr double kNewtonDamping = 1e-3, kTangentDamping = 1e-9;  // relative to the squared error; absolute
// factor of the distance from roots, because places are solutions only up to about 1e-4
inline constexpr double kSlack = 1.03;
inline constexpr int kBranches = 16;  // number of branches processed together, for all register widths

struct ContinuationOptions {
    double step;     // [rad, m]
    double finest;   // least difference of solutions in some joint; negative: do not divide gaps
    int redundancy;  // dimension of the self-motion
    double deadline = std::numeric_limits<double>::infinity();  // [s] of the steady clock

    bool is_late() const { return is_past(deadline); }
};

// The places of all branches. The roots are the first places.
struct Trace {
    static constexpr int kNone = -1;
    Configurations places, tangents;   // tangents with the length of a step; infinite if unknown
    std::vector<int> parents;          // index of the previous place, or kNone
    std::vector<std::uint8_t> is_new;  // whether a place is inside the limits, and far from all roots

    explicit Trace(int n_joints) : places{n_joints}, tangents{n_joints} {}
    int size() const { return static_cast<int>(parents.size()); }
    const double* place(int i) const { return places.row(i); }
    double* tangent(int i) { return tangents.row(i); }
    void add(const double* place, int parent, bool is_new_one) {
        places.add(place), parents.push_back(parent), is_new.push_back(is_new_one);
        tangents.positions.resize(places.positions.size(), std::numeric_limits<double>::infinity());
    }
};

template <int N>
class Continuation {
   public:
    Continuation(const Chain& chain, const Task& task, const ContinuationOptions& spread, double seed)
        : chain_(chain.in_units()), unit_(chain.unit), task_(task), spread_(spread) {
        Random random(seed);
        std::fill_n(period_, n_, kTwoPi);
        for (int i = 0; i < chain.n_links; ++i) {
            const Link<double>& link = chain.links[i];
            if (link.slides || link.multiplier != std::floor(link.multiplier)) period_[link.source] = 0.0;
        }
        for (int j = 0; j < n_; ++j) {
            const double way = random.uniform(-1.0, 1.0);
            direction_[j] = is_fixed(j) ? 0.0 : way;
        }
    }

    // Follows branches from all roots in both directions until there are most_new new places, or until no branch is
    // left.
    //
    // Roots close to other roots are hidden. No branch starts or ends at a hidden root.
    Trace run(const Configurations& roots, int most_new) {
        n_roots_ = int(roots.size());
        const int room = n_roots_ + most_new + kMostOutside;
        for (int i = 0; i < n_roots_; ++i) {
            const bool is_hidden = known_.has_near(roots.row(i), radius_);
            trace_.add(roots.row(i), Trace::kNone, false);
            known_.add(roots.row(i));
            if (is_hidden) known_.hide(i), hidden_.add(roots.row(i));
        }
        for (bool is_active = true; is_active;) {
            is_active = false;
            for (Group& group : groups_) {
                for (int lane = 0; lane < W; ++lane) begin(group, lane);
                if (std::all_of(group.at, group.at + W, [](int at) { return at == Trace::kNone; })) continue;
                is_active = true;
                if (n_new_ >= most_new || trace_.size() + W > room || spread_.is_late()) return std::move(trace_);
                advance(group);
            }
        }
        return std::move(trace_);
    }

   private:
    using V = WideDouble;
    static constexpr int W = kLanes<V>, kAtRoot = -1;

    struct Group {  // one branch per lane
        V q[kJoints<N>] = {}, before[kJoints<N>] = {}, chord[kJoints<N>] = {}, tangent[kJoints<N>] = {};
        V bends{}, least{}, damping{};  // bends: 0 at the first step of a branch, which is straight, otherwise 1
        int at[W], n_back[W] = {}, n_outside[W] = {};
        Group() { std::fill_n(at, W, int(Trace::kNone)); }
    };

    void begin(Group& group, int lane) {
        double place[kJoints<N>];
        while (group.at[lane] == Trace::kNone && following_ < 2 * n_roots_) {
            const bool is_back = following_ >= n_roots_;
            const int root = is_back ? following_ - n_roots_ : following_;
            ++following_;
            if (known_.is_hidden(root)) continue;
            const double *from = trace_.place(root), *tangent = trace_.tangent(root);
            const bool has_tangent = is_back && tangent[0] != std::numeric_limits<double>::infinity();
            for (int j = 0; j < n_; ++j) {
                set(group.q[j], lane, has_tangent ? from[j] - tangent[j] : from[j]);
                set(group.before[j], lane, from[j]);
                set(group.chord[j], lane, is_back ? -direction_[j] : direction_[j]);
                if (has_tangent) set(group.tangent[j], lane, -tangent[j]);
            }
            turn_inside(group, lane, place);
            if (has_tangent && known_.has_near(place, kForesight * radius_)) continue;
            group.at[lane] = root, group.n_back[lane] = has_tangent ? 0 : kAtRoot, group.n_outside[lane] = 0;
            set(group.bends, lane, has_tangent ? 1.0 : 0.0);
        }
    }

    void advance(Group& group) {
        Difference<V> error;
        // predicting, arriving: 1 in lanes that predict or arrive, otherwise 0
        V across[6], along[6], moved[kJoints<N>], predicting{}, arriving{};
        forward<N>(chain_, group.q, at_);
        pose_difference(at_.tip, target_, task_.position_only, error);
        judge(group, error, predicting, arriving);
        differentiate<N>(chain_, at_);
        for (int j = 0; j < n_; ++j) {
            if (is_fixed(j)) std::fill_n(at_.jacobian[j], 6, V{});
        }
        const Damped<V> factor = factorised<N>(chain_, at_.jacobian, task_.position_only, group.damping);
        solve(factor, error.vector, across);
        for (V& entry : error.vector) entry = V{};
        for (int j = 0; j < n_; ++j) {  // J^T along is added, because the chord must not leave the pose
            group.chord[j] += arriving * (group.q[j] - group.before[j] - group.chord[j]);
            group.before[j] += arriving * (group.q[j] - group.before[j]);
            for (int k = 0; k < 6; ++k) error.vector[k] -= group.chord[j] * at_.jacobian[j][k];
        }
        solve(factor, error.vector, along);
        predict(group, across, along, predicting, moved);
        for (int lane = 0; lane < W; ++lane) {
            if (get(arriving, lane) != 0.0) arrive(group, lane);
        }
        for (int j = 0; j < n_; ++j) group.q[j] += moved[j];
        for (int lane = 0; lane < W; ++lane) {
            if (group.at[lane] != Trace::kNone && get(predicting, lane) != 0.0) set_out(group, lane);
        }
    }

    // Decides the next step of each branch: predict from a root, arrive at a place and predict from there, or correct
    // again.
    void judge(Group& group, const Difference<V>& error, V& predicting, V& arriving) {
        for (int lane = 0; lane < W; ++lane) {
            if (group.at[lane] == Trace::kNone) continue;
            const double distance = get(error.distance, lane), angle = get(error.angle, lane);
            const double square = distance * distance + angle * angle;
            const bool is_close = square <= kClose * kClose || (unit_ * distance <= task_.position_tolerance &&
                                                                angle <= task_.orientation_tolerance);
            int& n_back = group.n_back[lane];
            if (n_back == kAtRoot || is_close) {
                set(predicting, lane, 1.0), set(arriving, lane, n_back == kAtRoot ? 0.0 : 1.0);
            } else if (++n_back > kStepsBack || (n_back > 1 && !(square <= kContraction * get(group.least, lane)))) {
                group.at[lane] = Trace::kNone;
            }
            set(group.least, lane, square), set(group.damping, lane, kNewtonDamping * square + kTangentDamping);
        }
    }

    // Moves q towards the pose by J^T across, and computes the next step of lanes that predict.
    //
    // The tangent is chord + J^T along, scaled to the length of a step, and is stored for the next step. At a root, the
    // step follows the tangent. Later steps follow the cubic through the last place and the current place. The
    // parameter of the cubic is the arc length, which is the chord length plus a correction for the rotation of the
    // tangent.
    void predict(Group& group, const V* across, const V* along, V predicting, V* moved) {
        const double step = spread_.step;
        V square{}, chords{}, turned{};
        for (int j = 0; j < n_; ++j) {
            const V* column = at_.jacobian[j];
            group.q[j] += product(column, across);
            moved[j] = group.chord[j] + product(column, along);
            square += moved[j] * moved[j];
            chords += group.chord[j] * group.chord[j];
            turned += moved[j] * group.tangent[j];
        }
        const V size = step / square_root(larger(square, fill<V>(1e-300)));
        turned = 2.0 - 2.0 * size * turned / (step * step);
        const V arc = square_root(chords) * (1.0 + turned / 24.0) / step, s = 1.0 + 1.0 / larger(arc, fill<V>(0.5));
        const V by_tangent = group.bends * arc * ((s - 2.0) * s * s + s);
        const V by_chord = group.bends * ((2.0 * s - 3.0) * s * s + 1.0);
        const V ahead = group.bends * (arc * (s - 1.0) * s * s - 1.0) + 1.0;
        group.bends = larger(group.bends, predicting);
        for (int j = 0; j < n_; ++j) {
            const V tangent = group.tangent[j], next = size * moved[j];
            moved[j] = predicting * (by_tangent * tangent - by_chord * group.chord[j] + ahead * next);
            group.tangent[j] = tangent + predicting * (next - tangent);
        }
    }

    void arrive(Group& group, int lane) {
        double place[kJoints<N>];
        const bool inside = turn_inside(group, lane, place);
        if (known_.has_near(place, radius_)) return void(group.at[lane] = Trace::kNone);
        const bool is_new = inside && !(spread_.finest < 0.0 ? hidden_.has_near(place, radius_)
                                                             : hidden_.has_duplicate(place, kSlack * spread_.finest));
        known_.add(place);
        trace_.add(place, group.at[lane], is_new);
        group.at[lane] = trace_.size() - 1;
        n_new_ += is_new;
        group.n_outside[lane] = inside ? 0 : group.n_outside[lane] + 1;
    }

    void set_out(Group& group, int lane) {
        double place[kJoints<N>];
        double* tangent = trace_.tangent(group.at[lane]);
        for (int j = 0; j < n_; ++j) tangent[j] = get(group.tangent[j], lane);
        group.n_back[lane] = 0;
        turn_inside(group, lane, place);
        if (group.n_outside[lane] > kStepsOutside || known_.has_near(place, kForesight * radius_)) {
            group.at[lane] = Trace::kNone;
        }
    }

    // Shifts the place of a branch by the revolutions that bring it closest to the middle of the limits. Returns
    // whether the shifted place is within the limits.
    bool turn_inside(const Group& group, int lane, double* place) const {
        const Bounds<double>& bounds = task_.bounds;
        for (int j = 0; j < n_; ++j) {
            double x = get(group.q[j], lane);
            if (!(x >= bounds.lower[j] && x <= bounds.upper[j]) && period_[j] != 0.0) {
                x -= kTwoPi * nearest((x - 0.5 * (bounds.lower[j] + bounds.upper[j])) / kTwoPi);
                if (bounds.wraps[j] && !(x >= bounds.lower[j] && x <= bounds.upper[j])) x = bounds.lower[j];
            }
            if (bounds.wraps[j] && x >= bounds.upper[j]) x = bounds.lower[j];
            place[j] = x;
        }
        return is_inside(bounds, place, n_);
    }

    bool is_fixed(int j) const { return task_.bounds.lower[j] == task_.bounds.upper[j]; }

    const Chain& chain_;  // in units of the arm, like all lengths here
    const double unit_;   // [m]
    const Task& task_;
    const ContinuationOptions& spread_;
    const int n_ = joints_of<N>(chain_);
    const Frame<V> target_ = target_of<V>(task_, unit_);
    const double radius_ = kSpacing * spread_.step;
    Trace trace_{n_};
    Places known_{task_.bounds, n_}, hidden_{task_.bounds, n_};
    double period_[kJoints<N>], direction_[kJoints<N>];  // period: 2 pi, or 0 if a revolution moves links
    int n_roots_ = 0, following_ = 0, n_new_ = 0;
    Group groups_[kBranches / W];
    Kinematics<V, N> at_;
};

}  // namespace eim
