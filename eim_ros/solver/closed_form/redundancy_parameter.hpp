// Self-motions of an arm with seven revolute joints in closed form. The first joint is the redundancy parameter.
//
// The last three axes of the arm meet in a point c (a spherical wrist), and axes 2 and 3 meet in a point o. If an arm
// has these properties in reverse order, it is read from tip to base, as in `closed_form.hpp`. One example is the KUKA
// iiwa, which has a spherical shoulder and wrist. Another example is the Franka, which has a spherical shoulder and
// axes 5 and 6 that meet. The parameter of the Franka is joint 7 (He and Liu 2021).
//
// Angles q_1 ... q_7 and axes 1 ... 7 are in the order of reading. X = e_1 ... e_7 is the requested motion. The vector
// w = e_1(-q_1) X c - o is a sinusoid of q_1. The other angles follow from
//
//    |w|^2 = |b + R_4 r|^2              two values of q_4,        b from o to axis 4, r from there to c
//    v = R_3 (b + R_4 r):  h_2 v = h_2 w    two of q_3,           then q_2 rotates v to w
//    h_5 R_6 h_7 = h_5 R_4^T R_3^T R_2^T R_1^T R h_7    two of q_6,    then q_5 and q_7
//
// A value of q_1 thus has up to 8 solutions, one on each of 8 branches. A branch exists where three squares are not
// negative. Two branches meet where one of these squares is 0. The code is a template for numbers, for `Enclosed`
// values, and for packs of both.
//
// If the axes only nearly meet, the closed form belongs to a nominal arm, whose axes are translated until they meet. At
// each configuration, the actual arm places its tip at T(d) times the motion of the nominal arm, where |d| is at most
// the sum of the gaps. Each solution of the actual arm therefore solves the nominal arm for a pose translated by at
// most this sum. Bounds of type `EnclosedNear` hold for all these poses.
#pragma once

#include "closed_form/closed_form.hpp"
#include "numerics/intervals.hpp"

namespace eim {

inline constexpr int kHeldBranches = 8;      // bits: sign of the sine of q_4, of q_3, of q_6
inline constexpr double kConstants = 4e-15;  // relative error of constants of an arm and a pose
inline constexpr double kMeet = 1e-9;        // relative distance of axes that meet
inline constexpr double kNearlyMeet = 2e-2;  // the same for nominal arms
inline constexpr double kLeastSine = 0.05;   // least sine of the angle between axes

// A joint axis h and two directions perpendicular to it. The basis is right-handed.
struct Basis {
    Vector h, p, q;

    Basis() = default;
    Basis(const Vector& h, const Vector& p) : h(h), p(p), q(cross(h, p)) {}
    double part(int k, const Vector& v) const { return dot(k == 0 ? h : k == 1 ? p : q, v); }
};

// Type of the constants in a computation with numbers of type T.
template <class T>
using Constant = std::conditional_t<std::is_same_v<T, float>, float, double>;

// Return a f + b g + constant, and a b + c d, for numbers and packs. `intervals.hpp` has the same functions for bounds.
template <class T>
inline T linear_of(const T& a, Constant<T> f, const T& b, Constant<T> g, Constant<T> constant = 0.0,
                   double inexact = 0.0) {
    if constexpr (requires { T::value; }) {
        return linear(a, f, b, g, constant, inexact);
    } else {
        return (a * f + b * g) + constant;
    }
}
template <class T>
inline T products_of(const T& a, const T& b, const T& c, const T& d) {
    if constexpr (requires { T::value; }) {
        return products(a, b, c, d);
    } else {
        return a * b + c * d;
    }
}

// Components of a vector in a basis.
template <class T>
struct Components {
    T h, p, q;

    // Returns the components after a rotation about h.
    Components turned(const T& cosine, const T& sine) const {
        return {h, products_of<T>(cosine, p, -sine, q), products_of<T>(sine, p, cosine, q)};
    }
};

// Change from one basis to another.
template <class S>
struct BasisChange {
    S rows[3][3];

    BasisChange() = default;
    template <class Other>
    explicit BasisChange(const BasisChange<Other>& other) {
        for (int i = 0; i < 9; ++i) rows[i / 3][i % 3] = S(other.rows[i / 3][i % 3]);
    }
    BasisChange(const Basis& from, const Basis& to) {
        const Vector of[3] = {from.h, from.p, from.q};
        for (int i = 0; i < 3; ++i) {
            for (int k = 0; k < 3; ++k) {
                rows[i][k] = to.part(i, of[k]);
                if (std::abs(rows[i][k]) <= kConstants) rows[i][k] = 0.0;
            }
        }
    }
    template <class T>
    Components<T> operator()(const Components<T>& v) const {
        const auto row = [&](const S* r) -> T {
            if (r[2] == S(0)) return linear_of<T>(v.h, r[0], v.p, r[1]);
            if (r[1] == S(0)) return linear_of<T>(v.h, r[0], v.q, r[2]);
            if (r[0] == S(0)) return linear_of<T>(v.p, r[1], v.q, r[2]);
            return linear_of<T>(v.h, r[0], v.p, r[1]) + v.q * r[2];
        };
        return {row(rows[0]), row(rows[1]), row(rows[2])};
    }
};

// Returns a constant with its rounding error.
template <class T>
inline T constant(double value, double size) {
    if constexpr (requires { T::value; }) {
        using V = decltype(T::value);
        const V error = fill<V>(kConstants * size);
        return {fill<V>(value), error, decltype(T::slope){}, decltype(T::slope){}, error};
    } else {
        return fill<T>(value);
    }
}

// The branches in the lanes of a pack, as signs of the sines (see `kHeldBranches`).
template <class V>
struct BranchSigns {
    V signs[3];
};

inline int sign_in(int branch, int bit) {
    return branch >> bit & 1 ? -1 : 1;
}
template <class V>
inline V sign_in(const BranchSigns<V>& branches, int bit) {
    return branches.signs[bit];
}

// Returns constant + cosine cos q + sine sin q.
template <class T, class Function>
inline T at_turn(const Function& f, const T& cosine, const T& sine, double size) {
    return linear_of<T>(cosine, f.cosine, sine, f.sine, f.constant, kConstants * size);
}

// Solves constant + cosine cos x + sine sin x = value: x = phase +- acos(level).
template <class S>
struct LevelAngles {
    S constant = 0, amplitude = 0, cosine = 0, sine = 0;  // cosine, sine: of the phase

    LevelAngles() = default;
    template <class Other>
    explicit LevelAngles(const LevelAngles<Other>& f)
        : constant(S(f.constant)), amplitude(S(f.amplitude)), cosine(S(f.cosine)), sine(S(f.sine)) {}
    explicit LevelAngles(const Sinusoid& f) : constant(f.constant), amplitude(f.amplitude()) {
        if (amplitude > 0.0) cosine = f.cosine / amplitude, sine = f.sine / amplitude;
    }
    template <class T>
    T level(const T& value) const {
        return (value + eim::constant<T>(-constant, std::abs(constant))) * (S(1.0) / amplitude);
    }
};

// The geometry of a branch in a cell, as an input of `rate_of_gaps`.
struct BranchShape {
    EnclosedNear square, u[3], w[3], c[2], s[2];  // |w|^2, b + R_4 r, w; cosines and sines of q_3, q_4
    EnclosedNear level, np, nq;                   // h_5 R_6 h_7; parts of R_6 h_7 across h_5
};

// Translations of the wrist: middle + x_1 sides[0] + x_2 sides[1] + x_3 sides[2], |x_i| <= 1.
struct Offsets {
    Vector middle, sides[3];

    static Offsets within(double radius) { return {{}, {{radius, 0.0, 0.0}, {0.0, radius, 0.0}, {0.0, 0.0, radius}}}; }

    double reach() const { return length(sides[0]) + length(sides[1]) + length(sides[2]); }
};

class ParameterisedForm {
   public:
    ParameterisedForm() = default;

    // Takes the axes of the seven joints and the pose of the tip at zero. If `is_nominal` is true, axes only need to
    // nearly meet.
    ParameterisedForm(const Line (&axes)[7], const Motion& tip, bool is_nominal = false) {
        for (const bool reversed : {true, false}) {
            const ParameterisedForm form(axes, tip, is_nominal, reversed);
            if (form.read_ && (!read_ || form.gap_ < gap_)) *this = form;
        }
    }

    bool is_reversed = false;
    bool fits() const { return read_; }
    int joint(int i) const { return is_reversed ? 6 - i : i; }  // joint of the arm with index i in the order of reading
    int held() const { return joint(0); }
    // Returns the largest distance between the tips of the nominal arm and the actual arm [m]; 0 if the axes of the
    // actual arm meet.
    double gap() const { return gap_; }
    // Returns the length of the arm [m].
    double size() const { return size_; }
    // Return the gap before each axis in the order of reading: its size [m], and its translation at zero.
    const double* gaps() const { return gaps_; }
    const Vector* gap_vectors() const { return moves_; }
    // Returns the axes of the nominal arm at zero, in the order of reading.
    const Line* axes() const { return axes_; }
    // Return the point where the last three axes meet, and the point where axes 2 and 3 meet.
    const Vector& centre() const { return centre_; }
    const Vector& corner() const { return corner_; }

    // Constants of one pose of the tip, which determine the branches. `SingleAtPose` has them in single precision.
    class AtPose;
    class SingleAtPose;

   private:
    ParameterisedForm(const Line (&axes)[7], const Motion& tip, bool is_nominal, bool reversed)
        : is_reversed(reversed), is_nominal_(is_nominal), to_zero_(tip.inverse()) {
        double reach = length(tip.translation - axes[0].point);
        for (const Line& axis : axes) reach = std::max(reach, length(axis.point - axes[0].point));
        size_ = reach;
        Line read[7];
        for (int i = 0; i < 7; ++i) {
            const Line& line = axes[reversed ? 6 - i : i];
            read[i] = {reversed ? -line.direction : line.direction, line.point};
        }
        read_ = recognise(read);
    }

    bool recognise(const Line (&l)[7]) {
        if (!(size_ > 0.0)) return false;
        if (is_nominal_) {
            Line moved[7];
            std::copy_n(l, 7, moved);
            return close_gaps(moved) && recognise_exact(moved);
        }
        return recognise_exact(l);
    }

    // Translates axes so that axes 2 and 3 meet, and so that axes 5 to 7 meet. Each axis moves together with all axes
    // after it. Returns false if the axes are too far apart.
    bool close_gaps(Line (&l)[7]) {
        gap_ = 0.0, moved_ = {};
        std::fill_n(gaps_, 7, 0.0), std::fill_n(moves_, 7, Vector{});
        const auto close = [&](int first, const Vector& gap) {
            const double size = length(gap) + kConstants * size_;
            for (int i = first; i < 7; ++i) l[i].point = l[i].point - gap;
            gaps_[first] = size, gap_ += size, moves_[first] = gap, moved_ = moved_ + gap;
            return size <= kNearlyMeet * size_;
        };
        const auto apart = [&](int i) {
            const Normal normal = common_normal(l[i - 1], l[i], kLeastSine);
            return normal.second - normal.first;
        };
        if (!close(2, apart(2)) || !close(5, apart(5))) return false;
        const Vector centre = common_normal(l[4], l[5], kLeastSine).first;
        return close(6, l[6].foot(centre) - centre);
    }

    bool recognise_exact(const Line (&l)[7]) {
        const double tolerance = kMeet * size_;
        const auto sine = [&](int i, int j) { return length(cross(l[i].direction, l[j].direction)); };
        const Normal second = common_normal(l[1], l[2], kLeastSine), wrist = common_normal(l[4], l[5], kLeastSine);
        if (second.sine == 0.0 || wrist.sine == 0.0 || sine(5, 6) < kLeastSine || sine(2, 3) == 0.0) return false;
        centre_ = (wrist.first + wrist.second) * 0.5, corner_ = (second.first + second.second) * 0.5;
        const double apart = std::max(length(wrist.second - wrist.first), l[6].distance(centre_));
        if (apart > tolerance || length(second.second - second.first) > tolerance) return false;
        std::copy_n(l, 7, axes_);
        held_ = l[0], sine_ = second.sine;
        const Vector &h1 = l[1].direction, &h2 = l[2].direction, &h3 = l[3].direction;
        const Vector y = across(h1, h2) * (1.0 / sine_), x = cross(y, h2);
        bases_[0] = {h1, x}, bases_[1] = {h2, x};
        for (int i = 2; i < 6; ++i) {
            const Vector &h = l[i + 1].direction, normal = cross(bases_[i - 1].h, h), some = across({h.y, h.z, h.x}, h);
            const Vector other = length(normal) > kLeastSine ? normal
                                 : length(some) > 0.1        ? some
                                                             : across({1, 0, 0}, h);
            bases_[i] = {h, other * (1.0 / length(other))};
        }
        for (int i = 0; i < 5; ++i) changes_[i] = {bases_[i], bases_[i + 1]};
        const Vector b = l[3].point - corner_, r = centre_ - l[3].point;
        radius_ = length(across(r, h3));
        const Sinusoid product = turned_product(b, h3, r);
        square_ = dot(b, b) + dot(r, r);
        elbow_ = LevelAngles<double>(Sinusoid{square_} + product * 2.0);
        if (!(elbow_.amplitude > 1e-4 * size_ * size_)) return false;
        const Vector fixed = b + h3 * dot(h3, r), cosine = across(r, h3), turned = cross(h3, r);
        for (int k = 0; k < 3; ++k) {
            upper_[k] = {bases_[1].part(k, fixed), bases_[1].part(k, cosine), bases_[1].part(k, turned)};
        }
        const Vector &h4 = bases_[3].h, &h5 = bases_[4].h, &h6 = bases_[5].h;
        wrist_ = LevelAngles<double>(turned_product(h4, h5, h6));
        for (int k = 0; k < 3; ++k) {
            last_[k] = {bases_[3].part(k, h5 * dot(h5, h6)), bases_[3].part(k, across(h6, h5)),
                        bases_[3].part(k, cross(h5, h6))};
        }
        along_ = dot(h1, h2);
        return wrist_.amplitude > kLeastSine;
    }

    bool read_ = false, is_nominal_ = false;
    double gap_ = 0.0, gaps_[7] = {};  // [m]: sum of the gaps; gap before each axis
    Vector moves_[7], moved_;          // gaps as translations; their sum
    double radius_ = 0.0;              // [m]: distance from axis 4 to the centre of the wrist
    // [m]; sine and cosine of the angle between axes 2 and 3; |b|^2 + |r|^2
    double size_ = 0.0, sine_ = 0.0, along_ = 0.0, square_ = 0.0;
    Motion to_zero_;
    Line axes_[7], held_;
    Vector centre_, corner_;  // c, the centre of the wrist; o, where axes 2 and 3 meet
    Basis bases_[6];          // bases of joints 2 to 7
    BasisChange<double> changes_[5];
    LevelAngles<double> elbow_, wrist_;
    // b + R_4 r as a function of q_4 in the basis of joint 3; R_6 h_7 as a function of q_6 in the basis of joint 5
    Sinusoid upper_[3], last_[3];
};

class ParameterisedForm::AtPose {
   public:
    // Bounds also hold for poses whose wrist is translated by `offsets`, in the frame in which the joints are read.
    // Variables 2 to 4 of `EnclosedNear` are the coefficients of these translations.
    AtPose(const ParameterisedForm& form, const Motion& target, const Offsets& offsets = {})
        : form_(form), reach_(offsets.reach() * (1.0 + 1e-9)) {
        Motion x;  // target tip(0)^-1
        for (int k = 0; k < 3; ++k) x.rows[k] = form.to_zero_.turn_back(target.rows[k]);
        x.translation = target.turn(form.to_zero_.translation) + target.translation;
        if (form.is_reversed) x = x.inverse();
        rotation_ = x;
        const Vector &k = form.held_.direction, to = x(form.centre_ + form.moved_) - form.held_.point + offsets.middle,
                     aside = across(to, k);
        const Vector middle = form.held_.point - form.corner_ + k * dot(k, to), turned = -cross(k, aside);
        square_ = {dot(middle, middle) + dot(aside, aside), 2.0 * dot(middle, aside), 2.0 * dot(middle, turned)};
        aside_ = length(aside) + reach_;
        const Basis& second = form.bases_[0];
        const Vector ends[2] = {x.turn(form.bases_[5].h), x.turn(form.bases_[5].p)};
        for (int m = 0; m < 3 && reach_ > 0.0; ++m) {
            const Vector &side = offsets.sides[m], by = across(side, k), along = k * dot(k, side), turn = -cross(k, by);
            by_side_[m] = 2.0 * length(side) * (1.0 + 1e-9);
            square_by_[m] = {2.0 * (dot(middle, along) + dot(aside, by)), 2.0 * (dot(along, aside) + dot(middle, by)),
                             2.0 * (dot(along, turned) + dot(middle, turn))};
            for (int i = 0; i < 3; ++i) {
                to_centre_by_[i][m] = {second.part(i, along), second.part(i, by), second.part(i, turn)};
            }
        }
        for (int i = 0; i < 3; ++i) {
            to_centre_[i] = {second.part(i, middle), second.part(i, aside), second.part(i, turned)};
            for (int e = 0; e < 2; ++e) {
                const Vector &v = ends[e], fixed = k * dot(k, v);
                ends_[e][i] = {second.part(i, fixed), second.part(i, across(v, k)), -second.part(i, cross(k, v))};
            }
        }
    }

    // Returns the rotation of the last link, relative to zero.
    const Motion& rotation() const { return rotation_; }

    // Computes a branch at a value of the parameter, which is given by its cosine and sine. `visit` has three methods:
    //
    //    bool visit.root(number, square, T& root)    computes the root of a square; false if the branch does not exist
    //    bool visit.angle(number, y, x)              takes the angle of a joint, in the order of reading: atan2(y, x)
    //    bool visit.direction(number, y, x, T& c, T& s)   does the same, and computes the cosine and sine of the angle
    //
    // The computation ends as soon as one of these methods returns false. In packs, each lane computes a branch.
    template <class T, class Branch, class Visit>
    void walk(const T& cosine, const T& sine, const Branch& branch, Visit& visit) const {
        walk<T>(form_, *this, cosine, sine, branch, visit);
    }

    // Does the same with constants of an arm and a pose in any precision.
    template <class T, class Form, class Pose, class Branch, class Visit>
    static void walk(const Form& f, const Pose& pose, const T& cosine, const T& sine, const Branch& branch,
                     Visit& visit) {
        const auto size = f.size_, area = size * size;
        const auto sign = [&](int bit) { return sign_in(branch, bit); };
        const auto both = [](const T& a) {
            return (constant<T>(1.0, 0.0) + a) * (constant<T>(1.0, 0.0) + a * Constant<T>(-1.0));
        };
        const auto from_level = [](const auto& of, const T& level, const T& root, T& c, T& s) {
            c = linear_of<T>(level, of.cosine, root, -of.sine), s = linear_of<T>(level, of.sine, root, of.cosine);
        };
        T root, c[7], s[7];
        T square;
        if constexpr (std::is_same_v<T, EnclosedNear>) {
            square = pose.squares(pose.square_, pose.square_by_, cosine, sine);
        } else {
            square = at_turn<T>(pose.square_, cosine, sine, area);
        }
        const T elbow = f.elbow_.level(square);
        if (!visit.root(0, both(elbow), root)) return;
        from_level(f.elbow_, elbow, root * sign(0), c[3], s[3]);
        if (!visit.angle(3, s[3], c[3])) return;

        T u[3], w[3];
        for (int k = 0; k < 3; ++k) {
            u[k] = at_turn<T>(f.upper_[k], c[3], s[3], size);
            if constexpr (std::is_same_v<T, EnclosedNear>) {
                w[k] = pose.near_poses(pose.to_centre_[k], pose.to_centre_by_[k], cosine, sine, size);
            } else {
                w[k] = at_turn<T>(pose.to_centre_[k], cosine, sine, size);
            }
        }
        const T vq = linear_of<T>(w[0], Constant<T>(1.0) / f.sine_, u[0], -f.along_ / f.sine_),
                wide = products_of<T>(u[1], u[1], u[2], u[2]);
        if (!visit.root(1, wide + vq * vq * Constant<T>(-1.0), root)) return;
        const T vp = root * sign(1);
        T x = products_of<T>(u[1], vp, u[2], vq), y = products_of<T>(u[1], vq, -u[2], vp);
        if (!visit.direction(2, y, x, c[2], s[2])) return;

        const auto& back = f.changes_[0].rows;  // components of v in the basis of joint 2
        const T vz = linear_of<T>(u[0], back[0][2], vq, back[2][2]);
        x = products_of<T>(vp, w[1], vz, w[2]), y = products_of<T>(vp, w[2], -vz, w[1]);
        if (!visit.direction(1, y, x, c[1], s[1])) return;

        const auto before_wrist = [&](int e) {
            Components<T> v{at_turn<T>(pose.ends_[e][0], cosine, sine, 1.0),
                            at_turn<T>(pose.ends_[e][1], cosine, sine, 1.0),
                            at_turn<T>(pose.ends_[e][2], cosine, sine, 1.0)};
            for (int i = 1; i <= 3; ++i) v = f.changes_[i - 1](v.turned(c[i], -s[i]));
            return v;
        };
        const Components<T> end = before_wrist(0);
        const T wrist = f.wrist_.level(end.h);
        T bend = both(wrist);
        if constexpr (std::is_same_v<T, EnclosedNear>) {
            // the other components of the unit vector give tighter bounds if the wrist is nearly straight
            const double c = f.wrist_.constant, a = f.wrist_.amplitude;
            const T other =
                (products(end.p, end.p, end.q, end.q) + end.h * (2.0 * c) + constant<T>(a * a - c * c - 1.0, 1.0)) *
                (1.0 / (a * a));
            if (other.radius < bend.radius) bend = other;
        }
        if (!visit.root(2, bend, root)) return;
        from_level(f.wrist_, wrist, root * sign(2), c[5], s[5]);
        if (!visit.angle(5, s[5], c[5])) return;
        const T np = at_turn<T>(f.last_[1], c[5], s[5], 1.0), nq = at_turn<T>(f.last_[2], c[5], s[5], 1.0);
        if constexpr (requires { visit.shape; }) {
            visit.shape = {square, {u[0], u[1], u[2]}, {w[0], w[1], w[2]}, {c[2], c[3]}, {s[2], s[3]}, end.h, np, nq};
        }
        x = products_of<T>(np, end.p, nq, end.q), y = products_of<T>(np, end.q, -nq, end.p);
        if (!visit.direction(4, y, x, c[4], s[4])) return;
        const Components<T> fifth = f.changes_[3](before_wrist(1).turned(c[4], -s[4]));
        const Components<T> last = f.changes_[4](fifth.turned(c[5], -s[5]));
        visit.angle(6, last.q, last.p);
    }

    // Returns an upper bound of |D Q| in a cell of a branch (see `certify/isotopy.hpp`). At most one root may be 0 in
    // the cell. `turn` is the index of this root, or -1 if no root may be 0. `cosine` and `sine` enclose the parameter
    // over the cell. `along` is the least rate of h_5 R_6 h_7 with respect to the parameter, and is used only for the
    // last root.
    double rate_of_gaps(const BranchShape& shape, const EnclosedNear (&roots)[3], const EnclosedNear& cosine,
                        const EnclosedNear& sine, double along, int branch, int turn) const;

   private:
    static Sinusoid rates(const Sinusoid& of) { return {0.0, of.sine, -of.cosine}; }

    // Returns a sinusoid of the parameter, together with its rates with respect to the three translations. T is
    // `EnclosedNear`.
    template <class T>
    T near_poses(const Sinusoid& f, const Sinusoid (&by)[3], const T& cosine, const T& sine, double size) const {
        T value = at_turn<T>(f, cosine, sine, size);
        for (int m = 0; m < 3; ++m) {
            const T rate = at_turn<T>(by[m], cosine, sine, reach_);
            value.slope[m + 1] += rate.value, value.spread[m + 1] += rate.radius + kRoundedRate * reach_;
            value.spread += absolute(rate.slope) + rate.spread;
            value.radius += std::abs(rate.value) + rate.radius;
        }
        return enclosed(value.value, value.error, value.slope, value.spread, value.radius);
    }
    // Returns |w|^2, or its rate with respect to the parameter.
    template <class T>
    T squares(const Sinusoid& f, const Sinusoid (&by)[3], const T& cosine, const T& sine) const {
        T value = near_poses(f, by, cosine, sine, form_.size_ * form_.size_);
        for (int m = 0; m < 3; ++m) value.spread[m + 1] += by_side_[m] * reach_;
        return enclosed(value.value, value.error, value.slope, value.spread, value.radius + reach_ * reach_);
    }
    static constexpr double kRoundedRate = 1e-12;  // generous bound of relative errors of rates by translations

    const ParameterisedForm& form_;
    Motion rotation_;
    Sinusoid square_, to_centre_[3], ends_[2][3];  // |w|^2; w; last basis rotated by X, in the basis of joint 2
    Sinusoid square_by_[3], to_centre_by_[3][3];   // rates of |w|^2 and of each part of w by translations
    double by_side_[3] = {}, reach_, aside_;  // twice the sides; sum of the sides; largest distance of c from axis 1

    friend class SingleAtPose;
};

// Constants of an arm and a pose for walks in single precision. Visitors have to allow for rounding errors.
class ParameterisedForm::SingleAtPose {
   public:
    explicit SingleAtPose(const AtPose& at)
        : size_(float(at.form_.size_)),
          sine_(float(at.form_.sine_)),
          along_(float(at.form_.along_)),
          elbow_(at.form_.elbow_),
          wrist_(at.form_.wrist_),
          square_(at.square_) {
        for (int i = 0; i < 5; ++i) changes_[i] = BasisChange<float>(at.form_.changes_[i]);
        for (int k = 0; k < 3; ++k) {
            upper_[k] = Single(at.form_.upper_[k]), last_[k] = Single(at.form_.last_[k]);
            to_centre_[k] = Single(at.to_centre_[k]);
            for (int e = 0; e < 2; ++e) ends_[e][k] = Single(at.ends_[e][k]);
        }
    }

    // See `AtPose::walk`.
    template <class Visit>
    void walk(float cosine, float sine, int branch, Visit& visit) const {
        AtPose::walk<float>(*this, *this, cosine, sine, branch, visit);
    }

    // Returns the relative rounding error of squares. The elbow magnifies the error of |w|^2.
    float error() const { return 1e-6f * (1.0f + size_ * size_ / elbow_.amplitude); }
    float size() const { return size_; }

   private:
    friend class AtPose;

    struct Single {  // sinusoid in single precision
        float constant, cosine, sine;

        Single() = default;
        explicit Single(const Sinusoid& f)
            : constant(float(f.constant)), cosine(float(f.cosine)), sine(float(f.sine)) {}
    };

    float size_, sine_, along_;
    LevelAngles<float> elbow_, wrist_;
    Single square_, upper_[3], last_[3], to_centre_[3], ends_[2][3];
    BasisChange<float> changes_[5];
};

}  // namespace eim
