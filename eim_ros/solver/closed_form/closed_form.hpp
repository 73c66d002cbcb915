// Closed form for all configurations of a 6-joint arm that reach a pose.
//
// The arm has six revolute joints, and meets one of these conditions:
//  - The last three axes meet in a point (a spherical wrist: Pieper 1968).
//  - The second to fourth axes are parallel (the UR series), or the first three axes are parallel.
//  - One of these conditions holds with the axes in reverse order.
//
// The motion of the tip is X = e_1 e_2 ... e_6, where e_i is the rotation about axis i at the zero configuration
// (Brockett 1984). The inverse of X is the motion of an arm whose axes are reversed in order and direction. In each
// case, one subproblem has two unknown angles (`subproblem.hpp`). The other angles follow one by one (Paden and Kahan;
// Elias and Wen 2022).
//
// The form counts each decision about a branch (see `Candidates`). In the following special cases, a branch has neither
// exactly one root nor none:
//
//   case                                          what is returned
//   two roots meet (stretched or folded elbow)    both, or one row if they are equal up to rounding
//   aligned wrist: axes 4 and 6, or axis 6 and    a `Sweep` over the free angle up to a sine of kFree; beyond it, both
//     the parallel axes                           roots, which `turns_to` keeps exact
//   wrist centre on axis 1 or 2                   a `Sweep` over joint 1 or 2
//   folded elbow of equal links                   a `Sweep` over the first of the parallel axes
//   two angles are free, a polynomial vanishes,   single members; the set is undecided
//     a free angle of a calibrated arm
//   an angle of an arm with offsets in wrist or   the roots; the set is undecided, because roots that meet are not
//     shoulder whose direction is below kNear       exact
//   a joint closer to its limit than its error    the roots; the set is undecided (see `is_between`)
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "chain/chain.hpp"
#include "closed_form/subproblem.hpp"

namespace eim {

// Two axes count as parallel below this sine of their angle, and as intersecting below this relative distance.
inline constexpr double kAlike = 1e-7;
// like kAlike, for calibrated arms; roots of a slightly different arm are computed first, and are polished afterwards
inline constexpr double kNearly = 2e-3;
inline constexpr double kAnyAngle = 1e-6;  // like kFree, for calibrated arms
// Relative length below which the direction of a vector is ignored, which makes an angle free. The resulting errors of
// poses are below the default tolerances, 1e-6. Angles about longer vectors are accurate to 1e-15 / 3e-7 = 3e-9 rad.
inline constexpr double kFree = 3e-7, kLeastFree = 1e-9;
inline constexpr double kShareOfTolerance = 0.3;  // largest kFree, as a share of the tolerances [1 / m, 1]
// relative length below which directions are inexact if they depend on a root that nearly meets another root
inline constexpr double kNear = 1e-5;
inline constexpr double kNoise = 1e-14;  // relative rounding error of poses and equations
// [rad]: largest error of an angle that Newton's method does not reduce, because the arm is singular in two ways
inline constexpr double kLargestError = 5e-5;
inline constexpr int kMostCandidates = 64, kCases = 8;

// Solutions with one free angle. If `level` matters, a second angle is phase +- acos(level). Each value of the free
// angle then has two solutions. These solutions meet where the level is 1 or -1, and do not exist beyond these values.
struct Sweep {
    std::function<void(double angle, double sign, double* q)> at;  // computes all six angles
    bool has_signs = false;
    Sinusoid level;  // as a function of the free angle
    int joint = 0;   // index of the free joint, from 0
};

// Configurations that may reach a pose, before they are polished and verified.
//
// The forms distinguish kCases cases. A case is decided if it has a candidate, has no solution, meets another case, or
// belongs to a sweep. `n_decided` counts the decided cases. If `n_decided` is below kCases, the set is undecided.
struct Candidates {
    int n = 0;
    double q[kMostCandidates][6];
    bool is_free[kMostCandidates];      // whether a joint is free; the candidate then belongs to a continuum
    bool is_solution[kMostCandidates];  // false for a guess where solutions meet or vanish
    bool meet = false;                  // whether some candidates nearly coincide
    int n_decided = 0;
    bool is_undecided = false;  // free angle without a sweep, inexact direction, or too many candidates
    std::vector<Sweep> sweeps;
    double free_below = kFree;

    void add(const double (&angles)[6], bool free, bool solution) {
        if (n == kMostCandidates) return void(is_undecided = true);
        for (int j = 0; j < 6; ++j) q[n][j] = angles[j];
        is_solution[n] = solution && !free, is_free[n++] = free;
    }
    void decide(int n_branches) { n_decided += n_branches; }
    bool is_decided() const { return n_decided == kCases && !is_undecided; }
};

// Returns the sinusoid that takes the values of a function at three angles.
template <class Value>
inline Sinusoid sinusoid_through(Value value) {
    Sinusoid sum;
    for (int k = 0; k < 3; ++k) {
        const double angle = k * (2.0 * kPi / 3.0), v = value(angle);
        sum = sum + Sinusoid{v / 3.0, 2.0 / 3.0 * v * portable::cos(angle), 2.0 / 3.0 * v * portable::sin(angle)};
    }
    return sum;
}

class ClosedForm {
   public:
    enum class Kind { none, spherical_wrist, middle_parallel, first_parallel };

    Kind kind = Kind::none;
    bool is_reversed = false;

    ClosedForm() = default;

    // Takes the axes of the joints and the pose of the tip at zero.
    ClosedForm(const Line (&axes)[6], const Motion& tip) {
        for (int i = 0; i < 6; ++i) size_ = std::max(size_, length(axes[i].point - axes[0].point));
        size_ = std::max(size_, length(tip.translation - axes[0].point));
        if (!(size_ > 0.0)) return;
        to_axes_ = tip.inverse();
        for (int turn = 0; turn < 4 && kind == Kind::none; ++turn) {
            is_reversed = turn % 2 == 1;
            for (int i = 0; i < 6; ++i) {
                const Line& line = axes[is_reversed ? 5 - i : i];
                axes_[i] = {is_reversed ? -line.direction : line.direction, line.point * (1.0 / size_)};
            }
            recognise(turn < 2 ? kAlike : kNearly);
        }
    }

    // Returns the deviation of the arm from the arm for which the roots are exact; 0 if both are the same arm.
    double deviation() const { return deviation_; }

    // Adds configurations that may reach a target pose of the tip. Directions of vectors shorter than `free_below` are
    // arbitrary.
    void solve(const Motion& target, Candidates& found, double free_below = kFree) const {
        found.free_below = free_below;
        Motion x = target;
        for (int k = 0; k < 3; ++k) {  // X = target tip(0)^-1
            const Vector& row = target.rows[k];
            x.rows[k] = to_axes_.turn_back(row);
        }
        x.translation = (target.turn(to_axes_.translation) + target.translation) * (1.0 / size_);
        if (is_reversed) x = x.inverse();
        if (kind == Kind::spherical_wrist) wrist(x, found);
        if (kind == Kind::middle_parallel) middle(x, found);
        if (kind == Kind::first_parallel) first(x, found);
        if (!is_reversed) return;
        for (int i = 0; i < found.n; ++i) std::reverse(found.q[i], found.q[i] + 6);
        for (Sweep& sweep : found.sweeps) {
            sweep.joint = 5 - sweep.joint;
            sweep.at = [at = sweep.at](double angle, double sign, double* q) {
                at(angle, sign, q);
                std::reverse(q, q + 6);
            };
        }
    }

   private:
    bool has_no_direction(const Vector& v, const Vector& axis, const Candidates& found) const {
        return length(across(v, axis)) <= (deviation_ > 0.0 ? kAnyAngle + 3.0 * deviation_ : found.free_below);
    }
    double slack() const { return kMeeting + 30.0 * deviation_; }

    // Returns the relative error of the equations, caused by rounding and by small offsets that the form neglects.
    double noise() const { return kNoise + 2.0 * neglected_; }
    // Returns the error of a root that nearly meets another root. Newton's method does not reduce this error, because
    // the arm is singular there.
    double error_of_root(bool is_double) const { return is_double ? 2.0 * std::sqrt(noise()) : 0.0; }

    // Adds a sweep that is not known yet. Its branches count as decided. Members of the sweep also become candidates.
    // Sweeps are exact only for arms that the form describes exactly.
    void add_sweep(Sweep sweep, int n_branches, Candidates& found) const {
        found.decide(n_branches);
        if (deviation_ > 0.0) found.is_undecided = true;
        double q[6], known[6];
        const auto is_same = [&](const Sweep& other) {
            double most = 0.0;
            if (other.joint != sweep.joint || other.has_signs != sweep.has_signs) return false;
            other.at(1.0, 1.0, known);
            for (int j = 0; j < 6; ++j) most = std::max(most, std::abs(portable::sin(0.5 * (q[j] - known[j]))));
            return most <= 2.0 * kNear;
        };
        sweep.at(1.0, 1.0, q);
        if (std::any_of(found.sweeps.begin(), found.sweeps.end(), is_same)) return;
        // the solutions of both signs are farthest apart at the angle with the level closest to 0
        const Sinusoid& level = sweep.level;
        const double amplitude = level.amplitude(), phase = portable::atan2(level.sine, level.cosine);
        const double best = amplitude > 0.0 ? portable::acos(std::clamp(-level.constant / amplitude, -1.0, 1.0)) : 0.0;
        for (const double sign : {1.0, -1.0}) {
            if (sign < 0.0 && !sweep.has_signs) break;
            sweep.at(phase + sign * best, sign, q);
            double angles[6];
            std::copy_n(q, 6, angles);
            found.add(angles, true, false);
        }
        found.sweeps.push_back(std::move(sweep));
    }

    void recognise(double tolerance) {
        const auto sine = [&](int i, int j) { return length(cross(axes_[i].direction, axes_[j].direction)); };
        const Normal wrist = common_normal(axes_[3], axes_[4], kNearly);
        const Vector centre = (wrist.first + wrist.second) * 0.5;
        const double apart = std::max(length(wrist.second - wrist.first), axes_[5].distance(centre));
        if (wrist.sine > 0.0 && apart <= tolerance && sine(4, 5) > kNearly) {
            kind = Kind::spherical_wrist, centre_ = centre,
            pair_ = Pair(axes_[0], axes_[1], axes_[1].direction, axes_[0].direction, tolerance);
            deviate(apart);
            return;
        }
        const double turned_middle = std::max(sine(1, 2), sine(1, 3)), turned_first = std::max(sine(0, 1), sine(0, 2));
        const bool middle = turned_middle <= tolerance, first = turned_first <= tolerance;
        if (middle == first) return;
        kind = middle ? Kind::middle_parallel : Kind::first_parallel;
        pair_ = Pair(axes_[4], axes_[5], axes_[4].direction, axes_[5].direction, tolerance);
        deviate(middle ? turned_middle : turned_first);
        const int i = middle ? 1 : 0;
        common_ = axes_[i].direction;
        const Vector normal = across({common_.y, common_.z, common_.x}, common_);
        some_ = length(normal) > 0.1 ? normal : across({1, 0, 0}, common_);
        for (int k = 0; k < 3; ++k) {  // the axes may point in opposite directions
            signs_[k] = dot(common_, axes_[i + k].direction) > 0.0 ? 1.0 : -1.0;
        }
    }

    void deviate(double by) {
        const double most = neglected_ = std::max(by, pair_.neglected);
        deviation_ = most <= kAlike ? 0.0 : most;
    }

    // Rotations 1, 2 and 3 move the wrist centre c to w. Let u be c rotated by joint 3, relative to axis 2, and let o
    // be the common normal of axes 1 and 2. Then |w|^2 = |o + R_2 u|^2 and h_1 w = h_1 R_2 u. The angles of R_4 R_5 R_6
    // follow.
    void wrist(const Motion& x, Candidates& found) const {
        const Line &l1 = axes_[0], &l2 = axes_[1], &l3 = axes_[2];
        const Vector &h1 = l1.direction, &h2 = l2.direction, &h3 = l3.direction;
        const Vector o = pair_.second - pair_.first, w = x(centre_) - pair_.first;
        const Vector b = l3.point - pair_.second, r = centre_ - l3.point;
        const Sinusoid square = Sinusoid{dot(b, b) + dot(r, r)} + turned_product(b, h3, r) * 2.0;
        const Sinusoid along = Sinusoid{dot(h2, b)} + turned_product(h2, h3, r);
        TrigonometricPolynomial m(square);
        m.add(along * along, -1.0);
        const Sinusoid e1 = Sinusoid{0.5 * (dot(w, w) - dot(o, o))} + square * -0.5;
        const Sinusoid e2 = Sinusoid{dot(h1, w)} + along * -dot(h1, h2);
        bool any3 = false;
        const int n_missing = pair_.solve(
            e1, e2, m, slack(), found.meet, any3, [&](double q3, const Vector& v, bool is_solution, bool is_double) {
                const Vector u = b + turned(r, h3, q3);
                const bool any2 = has_no_direction(u, h2, found), any1 = has_no_direction(w, h1, found);
                const double q2 = any2 ? 0.0 : angle_between(u, v, h2);
                const double q1 = any1 ? 0.0 : angle_between(o + turned(u, h2, q2), w, h1);
                const bool is_one_free = any1 != any2 && !any3;
                found.is_undecided |= any3 || (any1 && any2);
                found.is_undecided |= !any1 && pair_.distance > 0.0 && is_close(w, h1);
                found.is_undecided |= !any2 && is_close(u, h2);
                // a free angle neglects a length, which changes the other angles, especially if the wrist is near the
                // shoulder
                const double neglected = any1 ? length(across(w, h1)) : any2 ? length(across(u, h2)) : 0.0;
                found.is_undecided |= neglected > kLargestError * length(u);
                if (is_one_free) {
                    sweep_shoulder(x, {q1, q2, q3}, any1 ? 0 : 1, is_solution ? 2 : 0, found);
                } else {
                    const double shortest = std::min({1.0, length(across(u, h2)), length(across(w, h1))});
                    const double error = error_of_root(is_double) / shortest;
                    orientation(x, {q1, q2, q3}, any1 || any3, is_solution, error, found);
                }
            });
        found.is_undecided |= any3;
        found.decide(2 * n_missing);
    }

    bool is_close(const Vector& v, const Vector& axis) const { return length(across(v, axis)) <= kNear; }

    // Return a vector rotated by the first three angles, or by their inverses.
    Vector out(Vector v, const Vector& q) const {
        v = turned(v, axes_[2].direction, q.z), v = turned(v, axes_[1].direction, q.y);
        return turned(v, axes_[0].direction, q.x);
    }
    Vector back(Vector v, const Vector& q) const {
        v = turned(v, axes_[0].direction, -q.x), v = turned(v, axes_[1].direction, -q.y);
        return turned(v, axes_[2].direction, -q.z);
    }

    // Adds the angles of a spherical wrist for given first three angles and their error.
    void orientation(const Motion& x, Vector before, bool is_free, bool is_solution, double error,
                     Candidates& found) const {
        const Vector &h4 = axes_[3].direction, &h5 = axes_[4].direction, &h6 = axes_[5].direction;
        const Vector last = back(x.turn(h6), before), first = x.turn_back(out(h4, before));
        double phase = 0.0;
        const Angles q5s = turns_to(h4, h5, h6, last, slack(), phase);
        found.meet |= q5s.meet, found.is_undecided |= q5s.all;
        const Vector fifth = across(cross(h6, h5), h6);  // its rotated direction gives q6 if the wrist is aligned
        const auto aligned = [=, this](const Vector& q, double q4, double q5) {
            return angle_between(fifth, turned(turned(back(x.turn(fifth), q), h4, -q4), h5, -q5), h6);
        };
        const bool is_aligned = q5s.n > 0 && has_no_direction(last, h4, found);
        if (is_aligned) {
            const double q5 = dot(h4, last) > 0.0 ? phase : phase + kPi;
            if (is_free) {
                found.is_undecided = true;
                return found.add({before.x, before.y, before.z, 0.0, q5, aligned(before, 0.0, q5)}, true, false);
            }
            Sweep sweep;
            sweep.joint = 3;
            sweep.at = [=](double angle, double, double* q) {
                q[0] = before.x, q[1] = before.y, q[2] = before.z, q[3] = angle, q[4] = q5;
                q[5] = aligned(before, angle, q5);
            };
            return add_sweep(std::move(sweep), is_solution ? 2 : 0, found);
        }
        if (is_solution) found.decide(2 - q5s.n_roots);
        found.is_undecided |= q5s.n > 0 && error > kLargestError * std::min(length(across(last, h4)), 1.0);
        for (int i = 0; i < q5s.n; ++i) {
            const double q5 = q5s.values[i];
            const double q4 = angle_between(turned(h6, h5, q5), last, h4);
            const double q6 = angle_between(first, turned(h4, h5, -q5), h6);
            const bool is_root = is_solution && !q5s.stands_for_two[i];
            found.add({before.x, before.y, before.z, q4, q5, q6}, is_free, is_root);
            found.decide(is_root);
        }
    }

    // Adds a sweep over joint 1 or 2. The angle of joint 5 depends on the free joint.
    void sweep_shoulder(const Motion& x, Vector before, int joint, int n_branches, Candidates& found) const {
        const Vector &h4 = axes_[3].direction, &h5 = axes_[4].direction, &h6 = axes_[5].direction;
        const Sinusoid product = turned_product(h4, h5, h6);
        const double phase = portable::atan2(product.sine, product.cosine), amplitude = product.amplitude();
        if (!(amplitude > kMeeting)) return void(found.is_undecided = true);
        const auto placed = [before, joint](double angle) {
            Vector q = before;
            (joint == 0 ? q.x : q.y) = angle;
            return q;
        };
        const auto level = [=, this](double angle) {
            return (dot(h4, back(x.turn(h6), placed(angle))) - product.constant) / amplitude;
        };
        Sweep sweep;
        sweep.joint = joint, sweep.has_signs = true, sweep.level = sinusoid_through(level);
        sweep.at = [=, this](double angle, double sign, double* q) {
            const Vector three = placed(angle);
            double unused;
            const Vector last = back(x.turn(h6), three);
            const Angles q5s = turns_to(h4, h5, h6, last, 4.0, unused);
            const double away = q5s.n > 0 ? q5s.values[0] - unused : 0.0;
            q[0] = three.x, q[1] = three.y, q[2] = three.z, q[4] = phase + sign * away;
            q[3] = angle_between(turned(h6, h5, q[4]), last, h4);
            q[5] = angle_between(x.turn_back(out(h4, three)), turned(h4, h5, -q[4]), h6);
        };
        add_sweep(std::move(sweep), n_branches, found);
    }

    // Rotations 2, 3 and 4 preserve components along their common direction h. Let z be the point of axis 6 on the
    // common normal of axes 5 and 6. Then h e_1^-1 X z = h e_5 z, and h R_1^T R h_6 = h R_5 h_6.
    void middle(const Motion& x, Candidates& found) const {
        const Line &l1 = axes_[0], &l4 = axes_[3], &l5 = axes_[4], &l6 = axes_[5];
        const Vector &h1 = l1.direction, &h5 = l5.direction, &h6 = l6.direction, &h = common_;
        const Vector w = x(pair_.second) - l1.point, end = x.turn(h6);
        const double along = dot(h5, h);
        const Sinusoid e1 = Sinusoid{dot(h, l1.point - pair_.first)} + turned_product(w, h1, h);
        // Computes the last angles from q1 and q5 and their error. If axis 6 can be nearly parallel to h, `aligned` is
        // the value of q5 at which it is parallel.
        const auto last = [&](double q1, double q5, double aligned, bool any1, bool is_solution, double error) {
            const Vector seen = turned(h, h5, -q5);
            const bool any6 = has_no_direction(seen, h6, found);
            const auto before_plane = [=, &l1, &l5, &l6](double q5, double q6) {
                return [=, &l1, &l5, &l6](const Vector& p) { return l1.turn(x(l6.turn(l5.turn(p, -q5), -q6)), -q1); };
            };
            if (any6 && !any1) {
                Sweep sweep;
                sweep.joint = 5;
                const auto plane_at = [=, this, &l4](double angle) {
                    return plane(1, l4.point, before_plane(aligned, angle));
                };
                sweep.at = [=, this](double angle, double sign, double* q) {
                    const Plane at = plane_at(angle);
                    q[0] = q1, q[4] = aligned, q[5] = angle;
                    bend(at, at.elbow(sign), q + 1);
                };
                return sweep_plane(std::move(sweep), plane_at, is_solution ? 2 : 0, found);
            }
            found.is_undecided |= any1 || any6;
            error = (error + noise()) / std::max(length(across(seen, h6)), 1e-300);
            const double q6 = any6 ? 0.0 : angle_between(x.turn_back(turned(h, h1, q1)), seen, h6);
            planar(
                1, plane(1, l4.point, before_plane(q5, q6)), [&](double* q) { q[0] = q1, q[4] = q5, q[5] = q6; },
                any1 || any6, is_solution, error, found);
        };
        bool any1 = false;
        if (pair_.distance > 0.0) {
            const Sinusoid e2 = Sinusoid{-dot(h6, h5) * along} + turned_product(end, h1, h);
            const auto take = [&](double q1, const Vector& v, bool is_solution, bool is_double) {
                const double q5 = angle_between(v, h, h5);
                found.is_undecided |= is_close(turned(h, h5, -q5), h6);
                last(q1, q5, q5, any1, is_solution, error_of_root(is_double));
            };
            const Sinusoid m{1.0 - along * along};
            found.decide(2 * pair_.solve(e1, e2, m, slack(), found.meet, any1, take));
            found.is_undecided |= any1;
            return;
        }
        Angles q1s = roots(e1, slack());  // axes 5 and 6 meet, and q1 does not depend on q5
        found.meet |= q1s.meet, any1 = q1s.all;
        found.is_undecided |= any1;
        if (any1) q1s.n = 0, q1s.add(0.0, true);
        found.decide(4 * (2 - q1s.n_roots));
        for (int i = 0; i < q1s.n; ++i) {
            double phase = 0.0;
            const Vector image = turned(end, h1, -q1s.values[i]);
            const Angles q5s = turns_to(h, h5, h6, image, slack(), phase);
            found.meet |= q5s.meet, found.is_undecided |= q5s.all;
            const bool is_first = !q1s.stands_for_two[i];
            const double error = error_of_root(q1s.is_double(i));
            found.is_undecided |= q5s.n > 0 && error > kLargestError * length(across(image, h));
            const double aligned = dot(h, image) > 0.0 ? phase : phase + kPi;
            if (q5s.n > 0 && has_no_direction(image, h, found)) {  // both values of q5 belong to the same sweep
                last(q1s.values[i], aligned, aligned, any1, is_first, error);
                if (is_first) found.decide(2);
                continue;
            }
            if (is_first) found.decide(2 * (2 - q5s.n_roots));
            for (int k = 0; k < q5s.n; ++k) {
                last(q1s.values[i], q5s.values[k], aligned, any1, is_first && !q5s.stands_for_two[k], error);
            }
        }
    }

    // Rotations 1, 2 and 3 preserve components along h: h X z = h e_4 e_5 z, and h R h_6 = h R_4 R_5 h_6.
    void first(const Motion& x, Candidates& found) const {
        const Line &l3 = axes_[2], &l4 = axes_[3], &l5 = axes_[4], &l6 = axes_[5];
        const Vector &h4 = l4.direction, &h5 = l5.direction, &h6 = l6.direction, &h = common_;
        const Sinusoid along = turned_product(h, h4, h5);
        const Sinusoid e1 =
            Sinusoid{dot(h, x(pair_.second) - l4.point)} + turned_product(h, h4, pair_.first - l4.point) * -1.0;
        const Sinusoid e2 = Sinusoid{dot(h, x.turn(h6))} + along * -dot(h6, h5);
        TrigonometricPolynomial m(Sinusoid{1.0});
        m.add(along * along, -1.0);
        bool any4 = false;
        const int n_missing = pair_.solve(
            e1, e2, m, slack(), found.meet, any4, [&](double q4, const Vector& v, bool is_solution, bool is_double) {
                const Vector g = turned(h, h4, -q4);
                const bool any5 = has_no_direction(g, h5, found);
                const double q5 = any5 ? 0.0 : angle_between(v, g, h5);
                const Vector seen = turned(g, h5, -q5);
                const bool any6 = has_no_direction(seen, h6, found);
                const double q6 = any6 ? 0.0 : angle_between(x.turn_back(h), seen, h6);
                found.is_undecided |= any4 || is_close(g, h5) || is_close(seen, h6);
                const double shortest = std::min(length(across(g, h5)), length(across(seen, h6)));
                const double error = (error_of_root(is_double) + noise()) / std::max(shortest, 1e-300);
                const auto before_plane = [&](const Vector& p) {
                    return x(l6.turn(l5.turn(l4.turn(p, -q4), -q5), -q6));
                };
                planar(
                    0, plane(0, l3.point, before_plane), [&](double* q) { q[3] = q4, q[4] = q5, q[5] = q6; },
                    any4 || any5 || any6, is_solution, error, found);
            });
        found.is_undecided |= any4;
        found.decide(2 * n_missing);
    }

    // Three rotations about parallel axes, projected along the axes. Together, they move the last axis to the position
    // d relative to the first axis, and turn directions by the angle `all`. The second angle solves |b + R r| = |d|.
    struct Plane {
        Vector b, r, d;
        double all;
        Sinusoid square;  // |b + R r|^2 - |d|^2 as a function of the second angle

        double level() const { return -square.constant / square.amplitude(); }
        double elbow(double sign) const {
            return portable::atan2(square.sine, square.cosine) + sign * portable::acos(std::clamp(level(), -1.0, 1.0));
        }
    };

    // Returns the projection of three parallel axes, starting at axis i. `before` maps a point to the place to which
    // the three rotations move it. `point` lies on the last of the three axes.
    template <class Before>
    Plane plane(int i, const Vector& point, Before before) const {
        const Vector &h = common_, &o = axes_[i].point;
        Plane at;
        const Vector to = before(point);
        at.b = across(axes_[i + 1].point - o, h), at.r = across(axes_[i + 2].point - axes_[i + 1].point, h);
        at.d = across(to - o, h);
        at.all = angle_between(some_, before(point + some_) - to, h);
        at.square = Sinusoid{dot(at.b, at.b) + dot(at.r, at.r) - dot(at.d, at.d)} + turned_product(at.b, h, at.r) * 2.0;
        return at;
    }

    // Writes the three angles for a value of the second angle.
    void bend(const Plane& at, double second, double* three) const {
        bend(at, second, angle_between(at.b + turned(at.r, common_, second), at.d, common_), three);
    }
    void bend(const Plane& at, double second, double first, double* three) const {
        three[0] = signs_[0] * first, three[1] = signs_[1] * second, three[2] = signs_[2] * (at.all - first - second);
    }

    // Adds the angles of three parallel axes, starting at axis i. `others` writes the other three angles. `error` is
    // the error of d.
    template <class Others>
    void planar(int i, const Plane& at, Others others, bool is_free, bool is_solution, double error,
                Candidates& found) const {
        Angles elbows = roots(at.square, slack());
        found.meet |= elbows.meet, found.is_undecided |= elbows.all;
        if (elbows.all) elbows.n = 0, elbows.add(0.0, true);
        if (is_solution) found.decide(2 - elbows.n_roots);
        // if the elbow is nearly straight or folded, the error may hide two solutions
        const double away = std::abs(1.0 - std::abs(at.level()));
        found.is_undecided |= away <= 10.0 * error && error > kLargestError * kLargestError;
        double q[6];
        others(q);
        for (int k = 0; k < elbows.n; ++k) {
            const double second = elbows.values[k];
            const bool is_root = is_solution && !elbows.stands_for_two[k];
            if (!has_no_direction(at.d, common_, found)) {
                bend(at, second, q + i);
                found.is_undecided |= is_close(at.d, common_);
                found.add(q, is_free || elbows.all, is_root);
                found.decide(is_root);
                continue;
            }
            if (is_free || elbows.all) {  // folded elbow, and another free angle
                found.is_undecided = true;
                bend(at, second, 0.0, q + i);
                found.add(q, true, false);
                continue;
            }
            Sweep sweep;
            sweep.joint = i;
            std::vector<double> known(q, q + 6);
            sweep.at = [=, this](double angle, double, double* to) {
                std::copy(known.begin(), known.end(), to);
                bend(at, second, angle, to + i);
            };
            add_sweep(std::move(sweep), is_root, found);
        }
    }

    // Adds a sweep over the free angles for which the plane has solutions. Each free angle has two elbow solutions.
    template <class At>
    void sweep_plane(Sweep sweep, At plane_at, int n_branches, Candidates& found) const {
        sweep.has_signs = true;
        sweep.level = sinusoid_through([&](double angle) { return plane_at(angle).level(); });
        const Plane at = plane_at(0.0);
        found.is_undecided |= !(at.square.amplitude() > kMeeting);
        add_sweep(std::move(sweep), n_branches, found);
    }

    double deviation_ = 0.0, neglected_ = 0.0;
    double size_ = 0.0;  // size of the arm [m]; the lengths below are relative to it
    Line axes_[6];
    Motion to_axes_;  // inverse of the pose of the tip at zero
    Vector centre_, common_, some_;
    double signs_[3] = {1, 1, 1};
    Pair pair_;
};

}  // namespace eim
