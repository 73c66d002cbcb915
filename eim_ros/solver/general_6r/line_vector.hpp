// Vectors of 15 numbers for lines with a marked point. Rigid motions act linearly on these vectors.
//
// Let l be the direction of a line, p its point, and m = p x l its moment. The vector is
//
//    x = (l, p, m, h, p.l, p.p, 1),   h = (p.p) l - 2 (p.l) p.
//
// A rotation rotates l, p, m and h. A translation t maps the components of x to
//
//    l,  p + t,  m + t x l,  h - 2 t x m + (t.t) l - 2 (p.l) t - 2 (t.l) t,  p.l + t.l,  p.p + 2 t.p + t.t,  1.
//
// These are the 14 equations of Raghavan and Roth (1993), written as a representation of rigid motions. Products of the
// matrices of this representation give all coefficients of the elimination.
#pragma once

#include <array>

#include "numerics/portable.hpp"
#include "numerics/vector3.hpp"

namespace eim {

template <class T>
struct LineVectorOf {
    VectorOf<T> l, p, m, h;
    T pl{}, pp{}, one{};

    // Returns the components that do not change under rotations about z: the z components of l, p, m and h, and the
    // scalars p.l and p.p.
    std::array<T, 6> axial() const { return {l.z, p.z, m.z, h.z, pl, pp}; }

    LineVectorOf operator+(const LineVectorOf& b) const {
        return {l + b.l, p + b.p, m + b.m, h + b.h, pl + b.pl, pp + b.pp, one + b.one};
    }
    LineVectorOf operator*(const T& f) const { return {l * f, p * f, m * f, h * f, pl * f, pp * f, one * f}; }
};
using LineVector = LineVectorOf<double>;

// Returns the z axis, with the origin as its marked point.
template <class T>
inline LineVectorOf<T> z_axis() {
    LineVectorOf<T> axis;
    axis.l.z = T(1.0), axis.one = T(1.0);
    return axis;
}

template <class T>
inline LineVectorOf<T> moved(const MotionOf<T>& motion, const LineVectorOf<T>& x) {
    const VectorOf<T>& t = motion.translation;
    const VectorOf<T> l = motion.turn(x.l), p = motion.turn(x.p), m = motion.turn(x.m), h = motion.turn(x.h);
    const T tt = dot(t, t), tl = dot(t, l);
    return {l,
            p + t * x.one,
            m + cross(t, l),
            h - cross(t, m) * T(2.0) + l * tt - t * (T(2.0) * x.pl + T(2.0) * tl),
            x.pl + tl,
            x.pp + T(2.0) * dot(t, p) + tt * x.one,
            x.one};
}

// Returns the row vector n times the matrix of a motion: n . moved(motion, x) = moved_row(motion, n) . x for all x.
template <class T>
inline LineVectorOf<T> moved_row(const MotionOf<T>& motion, const LineVectorOf<T>& n) {
    const VectorOf<T>& t = motion.translation;
    const T tt = dot(t, t), ht = dot(n.h, t);
    const VectorOf<T> l = n.l + cross(n.m, t) + t * (n.pl - T(2.0) * ht) + n.h * tt;
    const VectorOf<T> p = n.p + t * (T(2.0) * n.pp), m = n.m - cross(n.h, t) * T(2.0);
    return {motion.turn_back(l),
            motion.turn_back(p),
            motion.turn_back(m),
            motion.turn_back(n.h),
            n.pl - T(2.0) * ht,
            n.pp,
            n.one + dot(n.p, t) + n.pp * tt};
}

// A function of an angle: constant + cosine cos + sine sin.
template <class T>
struct Turning {
    T constant, cosine, sine;

    template <class S>
    auto at(const S& c, const S& s) const {
        return constant + cosine * c + sine * s;
    }
};

// Returns the vector rotated about z by an angle. The sense of the rotation is reversed if `sign` is -1.
template <class T>
inline Turning<LineVectorOf<T>> turned_about_z(const LineVectorOf<T>& x, double sign) {
    Turning<LineVectorOf<T>> turning;
    const auto split = [sign](const VectorOf<T>& v, VectorOf<T>& constant, VectorOf<T>& cosine, VectorOf<T>& sine) {
        constant.z = v.z, cosine.x = v.x, cosine.y = v.y, sine.x = T(-sign) * v.y, sine.y = T(sign) * v.x;
    };
    split(x.l, turning.constant.l, turning.cosine.l, turning.sine.l);
    split(x.p, turning.constant.p, turning.cosine.p, turning.sine.p);
    split(x.m, turning.constant.m, turning.cosine.m, turning.sine.m);
    split(x.h, turning.constant.h, turning.cosine.h, turning.sine.h);
    turning.constant.pl = x.pl, turning.constant.pp = x.pp, turning.constant.one = x.one;
    return turning;
}

// Returns the vector moved along z by d, or by -d if `sign` is -1, as constant + cosine d + sine d^2.
template <class T>
inline Turning<LineVectorOf<T>> slid_along_z(const LineVectorOf<T>& x, double sign) {
    Turning<LineVectorOf<T>> powers{x, {}, {}};
    LineVectorOf<T>&first = powers.cosine, &second = powers.sine;
    const T s(sign);
    first.p.z = s * x.one, first.m = {-(s * x.l.y), s * x.l.x, T(0.0)};
    first.h = {s * T(2.0) * x.m.y, -(s * T(2.0) * x.m.x), -(s * T(2.0) * x.pl)};
    first.pl = s * x.l.z, first.pp = s * T(2.0) * x.p.z;
    second.h = {x.l.x, x.l.y, -x.l.z}, second.pp = x.one;
    return powers;
}

// Rewrites a polynomial in the position d of a prismatic joint as a function of an angle, with d = tan(angle / 2). The
// result has to be divided by 1 + cos.
//
// A polynomial in d of degree 2, times 1 + cos, is linear in 1, cos and sin. The elimination therefore treats a
// prismatic joint like a revolute joint.
template <class T>
inline Turning<LineVectorOf<T>> as_turning(const Turning<LineVectorOf<T>>& powers) {
    return {powers.constant + powers.sine, powers.constant + powers.sine * T(-1.0), powers.cosine};
}

// Factors of the three terms of a `Turning` at a joint value, which is an angle or a length.
struct JointFunctions {
    double one, cosine, sine;

    JointFunctions(double value, bool slides)
        : one(slides ? 0.5 * (1.0 + value * value) : 1.0),
          cosine(slides ? 0.5 * (1.0 - value * value) : portable::cos(value)),
          sine(slides ? value : portable::sin(value)) {}
};

// Returns the product n . Rz(angle) x of a row vector n and a vector rotated about z.
template <class T>
inline Turning<T> turned_product(const LineVectorOf<T>& n, const LineVectorOf<T>& x) {
    Turning<T> product{n.pl * x.pl + n.pp * x.pp + n.one * x.one, T(0.0), T(0.0)};
    const auto add = [&product](const VectorOf<T>& a, const VectorOf<T>& b) {
        product.constant = product.constant + a.z * b.z;
        product.cosine = product.cosine + (a.x * b.x + a.y * b.y),
        product.sine = product.sine + (a.y * b.x - a.x * b.y);
    };
    add(n.l, x.l), add(n.p, x.p), add(n.m, x.m), add(n.h, x.h);
    return product;
}

}  // namespace eim
