// All configurations of a 6-joint arm that reach a pose, in closed form.
//
// The arm rotates about six axes. One of these conditions holds:
//  - the last three axes meet in a point (a spherical wrist: Pieper 1968),
//  - the second to the fourth axis are parallel (the UR series), or the first three are,
//  - the same with the axes in reverse order.
// The motion of the tip X = e_1 e_2 ... e_6 is a product of rotations
// e_i about the axes at the zero configuration (Brockett 1984). Its inverse is the motion of the arm with the axes
// reversed in order and direction. Each case leaves one subproblem with two unknown angles (`subproblem.hpp`); the
// other angles follow one by one (Paden and Kahan; Elias and Wen 2022).
#pragma once

#include "chain/chain.hpp"
#include "closed_form/subproblem.hpp"

namespace eim {

// sine, and relative length, below which axes count as parallel or intersecting
inline constexpr double kAlike = 1e-7;
// like kAlike, for calibrated arms: the roots of a slightly different arm are found first, and then polished
inline constexpr double kNearly = 2e-3;
inline constexpr double kAnyAngle = 1e-6;  // relative length below which a vector has no direction
inline constexpr int kMostCandidates = 64;

// Configurations that may reach a pose, before they are polished and verified.
struct Candidates {
    int n = 0;
    double q[kMostCandidates][6];
    bool is_free[kMostCandidates];  // whether it is one of infinitely many: some joint is free
    bool meet = false;              // some of them coincide or nearly coincide

    void add(const double (&angles)[6], bool free) {
        if (n == kMostCandidates) return;
        for (int j = 0; j < 6; ++j) q[n][j] = angles[j];
        is_free[n++] = free;
    }
};

class ClosedForm {
   public:
    enum class Kind { none, spherical_wrist, middle_parallel, first_parallel };

    Kind kind = Kind::none;
    bool is_reversed = false;

    ClosedForm() = default;

    // Takes the axes and the pose of the tip at zero.
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

    // How much the arm deviates from the arm for which the roots are exact; 0 if it is that arm.
    double deviation() const { return deviation_; }

    // Adds configurations that may reach a target pose of the tip.
    void solve(const Motion& target, Candidates& found) const {
        Motion x = target;
        for (int k = 0; k < 3; ++k) {  // X = target tip(0)^-1
            const Vector& row = target.rows[k];
            x.rows[k] = to_axes_.turn_back(row);
        }
        x.translation = (target.turn(to_axes_.translation) + target.translation) * (1.0 / size_);
        if (is_reversed) x = x.inverse();
        Candidates own;
        if (kind == Kind::spherical_wrist) wrist(x, own);
        if (kind == Kind::middle_parallel) middle(x, own);
        if (kind == Kind::first_parallel) first(x, own);
        for (int i = 0; i < own.n; ++i) {
            double q[6];
            for (int j = 0; j < 6; ++j) q[j] = own.q[i][is_reversed ? 5 - j : j];
            found.add(q, own.is_free[i]);
        }
        found.meet = own.meet;
    }

   private:
    bool has_no_direction(const Vector& v, const Vector& axis) const {
        return length(across(v, axis)) <= kAnyAngle + 3.0 * deviation_;
    }
    double slack() const { return kMeeting + 30.0 * deviation_; }

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
        for (int k = 0; k < 3; ++k) {  // they may point in opposite directions
            signs_[k] = dot(common_, axes_[i + k].direction) > 0.0 ? 1.0 : -1.0;
        }
    }

    void deviate(double by) {
        const double most = std::max(by, pair_.neglected);
        deviation_ = most <= kAlike ? 0.0 : most;
    }

    // Rotations 1, 2, 3 move the wrist centre c to w. Let u be c rotated by joint 3, as seen from axis 2, and o the
    // common normal of axes 1 and 2. Then |w|^2 = |o + R_2 u|^2 and h_1 w = h_1 R_2 u. R_4 R_5 R_6 follows.
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
        pair_.solve(e1, e2, m, slack(), found.meet, [&](double q3, const Vector& v, bool any3) {
            const Vector u = b + turned(r, h3, q3);
            const bool any2 = has_no_direction(u, h2), any1 = has_no_direction(w, h1);
            const double q2 = any2 ? 0.0 : angle_between(u, v, h2);
            const double q1 = any1 ? 0.0 : angle_between(o + turned(u, h2, q2), w, h1);
            orientation(x, {q1, q2, q3}, any1 || any2 || any3, found);
        });
    }

    // The angles of a spherical wrist, given the first three.
    void orientation(const Motion& x, Vector before, bool is_free, Candidates& found) const {
        const Vector &h4 = axes_[3].direction, &h5 = axes_[4].direction, &h6 = axes_[5].direction;
        const auto out = [&](Vector v) {
            v = turned(v, axes_[2].direction, before.z), v = turned(v, axes_[1].direction, before.y);
            return turned(v, axes_[0].direction, before.x);
        };
        const auto back = [&](Vector v) {
            v = turned(v, axes_[0].direction, -before.x), v = turned(v, axes_[1].direction, -before.y);
            return turned(v, axes_[2].direction, -before.z);
        };
        const Vector last = back(x.turn(h6)), first = x.turn_back(out(h4));
        const Angles q5s = roots(Sinusoid{-dot(h4, last)} + turned_product(h4, h5, h6), slack());
        found.meet |= q5s.meet;
        for (int i = 0; i < q5s.n; ++i) {
            const double q5 = q5s.values[i];
            const Vector near = turned(h6, h5, q5);
            double q4 = 0.0, q6;
            const bool is_singular = has_no_direction(near, h4);
            if (is_singular) {
                const Vector across_h6 = across(cross(h6, h5), h6);
                q6 = angle_between(across_h6, turned(back(x.turn(across_h6)), h5, -q5), h6);
            } else {
                q4 = angle_between(near, last, h4), q6 = angle_between(first, turned(h4, h5, -q5), h6);
            }
            found.add({before.x, before.y, before.z, q4, q5, q6}, is_free || is_singular);
        }
    }

    // Rotations 2, 3, 4 preserve components along their common direction h. Let z be the end of the common normal of
    // axes 5 and 6 on axis 6. Then h e_1^-1 X z = h e_5 z, and h R_1^T R h_6 = h R_5 h_6.
    void middle(const Motion& x, Candidates& found) const {
        const Line &l1 = axes_[0], &l4 = axes_[3], &l5 = axes_[4], &l6 = axes_[5];
        const Vector &h1 = l1.direction, &h5 = l5.direction, &h6 = l6.direction, &h = common_;
        const Vector w = x(pair_.second) - l1.point, end = x.turn(h6);
        const double along = dot(h5, h);
        const Sinusoid e1 = Sinusoid{dot(h, l1.point - pair_.first)} + turned_product(w, h1, h);
        const Sinusoid e2 = Sinusoid{-dot(h6, h5) * along} + turned_product(end, h1, h);
        pair_.solve(
            e1, e2, Sinusoid{1.0 - along * along}, slack(), found.meet, [&](double q1, const Vector& v, bool any1) {
                const double q5 = angle_between(v, h, h5);
                const Vector seen = turned(h, h5, -q5);
                const bool any6 = has_no_direction(seen, h6);
                const double q6 = any6 ? 0.0 : angle_between(x.turn_back(turned(h, h1, q1)), seen, h6);
                const auto back = [&](const Vector& p) { return l1.turn(x(l6.turn(l5.turn(p, -q5), -q6)), -q1); };
                const Vector origin = back(l4.point);
                planar(1, origin, back(l4.point + some_) - origin, found.meet,
                       [&](double q2, double q3, double q4, bool any) {
                           found.add({q1, q2, q3, q4, q5, q6}, any || any1 || any6);
                       });
            });
    }

    // Rotations 1, 2, 3 preserve components along h: h X z = h e_4 e_5 z, and h R h_6 = h R_4 R_5 h_6.
    void first(const Motion& x, Candidates& found) const {
        const Line &l3 = axes_[2], &l4 = axes_[3], &l5 = axes_[4], &l6 = axes_[5];
        const Vector &h4 = l4.direction, &h5 = l5.direction, &h6 = l6.direction, &h = common_;
        const Sinusoid along = turned_product(h, h4, h5);
        const Sinusoid e1 =
            Sinusoid{dot(h, x(pair_.second) - l4.point)} + turned_product(h, h4, pair_.first - l4.point) * -1.0;
        const Sinusoid e2 = Sinusoid{dot(h, x.turn(h6))} + along * -dot(h6, h5);
        TrigonometricPolynomial m(Sinusoid{1.0});
        m.add(along * along, -1.0);
        pair_.solve(e1, e2, m, slack(), found.meet, [&](double q4, const Vector& v, bool any4) {
            const Vector g = turned(h, h4, -q4);
            const bool any5 = has_no_direction(g, h5);
            const double q5 = any5 ? 0.0 : angle_between(v, g, h5);
            const Vector seen = turned(g, h5, -q5);
            const bool any6 = has_no_direction(seen, h6);
            const double q6 = any6 ? 0.0 : angle_between(x.turn_back(h), seen, h6);
            const auto back = [&](const Vector& p) { return x(l6.turn(l5.turn(l4.turn(p, -q4), -q5), -q6)); };
            const Vector origin = back(l3.point);
            planar(0, origin, back(l3.point + some_) - origin, found.meet,
                   [&](double q1, double q2, double q3, bool any) {
                       found.add({q1, q2, q3, q4, q5, q6}, any || any4 || any5 || any6);
                   });
        });
    }

    // Three rotations about parallel axes, starting at joint i: the point of the last axis moves to `to`, and `some_`
    // to `direction`.
    template <class Next>
    void planar(int i, const Vector& to, const Vector& direction, bool& meet, Next next) const {
        const Vector &h = common_, &o = axes_[i].point;
        const Vector b = across(axes_[i + 1].point - o, h), r = across(axes_[i + 2].point - axes_[i + 1].point, h);
        const Vector d = across(to - o, h);
        const double all = angle_between(some_, direction, h);
        Angles elbows = roots(Sinusoid{dot(b, b) + dot(r, r) - dot(d, d)} + turned_product(b, h, r) * 2.0, slack());
        meet |= elbows.meet;
        const bool is_any = elbows.all;
        if (is_any) elbows.n = 0, elbows.add(0.0);
        for (int k = 0; k < elbows.n; ++k) {
            const double second = elbows.values[k];
            const bool is_free = has_no_direction(d, h);
            const double first = is_free ? 0.0 : angle_between(b + turned(r, h, second), d, h);
            next(signs_[0] * first, signs_[1] * second, signs_[2] * (all - first - second), is_free || is_any);
        }
    }

    double deviation_ = 0.0;
    double size_ = 0.0;  // size of the arm [m]; lengths below are relative to it
    Line axes_[6];
    Motion to_axes_;  // inverse of the pose of the tip at zero
    Vector centre_, common_, some_;
    double signs_[3] = {1, 1, 1};
    Pair pair_;
};

}  // namespace eim
