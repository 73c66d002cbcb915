// Lines with a point on them, as vectors of 15 numbers on which rigid motions act linearly.
//
// For a line with direction l through the point p, let m = p x l be its moment. The vector is
//
//    x = (l, p, m, h, p.l, p.p, 1),   h = (p.p) l - 2 (p.l) p.
//
// A rotation turns l, p, m and h. A translation t maps them to
//
//    l,  p + t,  m + t x l,  h - 2 t x m + (t.t) l - 2 (p.l) t - 2 (t.l) t,  p.l + t.l,  p.p + 2 t.p + t.t,  1.
//
// These are the 14 equations of Raghavan and Roth (1993), written as a representation of rigid motions. All
// coefficients of the elimination are products of its matrices.
#pragma once

#include <array>

#include "numerics/vector3.hpp"

namespace eim {

inline Motion operator*(const Motion& a, const Motion& b) {
    Motion product;
    for (int i = 0; i < 3; ++i) product.rows[i] = b.turn_back(a.rows[i]);
    product.translation = a(b.translation);
    return product;
}

struct LineVector {
    Vector l, p, m, h;
    double pl = 0, pp = 0, one = 0;

    // The components that rotations about z do not change: five of the vector, and the scalars p.l and p.p.
    std::array<double, 6> axial() const { return {l.z, p.z, m.z, h.z, pl, pp}; }

    LineVector operator+(const LineVector& b) const {
        return {l + b.l, p + b.p, m + b.m, h + b.h, pl + b.pl, pp + b.pp, one + b.one};
    }
    LineVector operator*(double f) const { return {l * f, p * f, m * f, h * f, pl * f, pp * f, one * f}; }
};

// The z axis, with the origin as its point.
inline constexpr LineVector kAxis{{0, 0, 1}, {}, {}, {}, 0, 0, 1};

inline LineVector moved(const Motion& motion, const LineVector& x) {
    const Vector& t = motion.translation;
    const Vector l = motion.turn(x.l), p = motion.turn(x.p), m = motion.turn(x.m), h = motion.turn(x.h);
    const double tt = dot(t, t), tl = dot(t, l);
    return {l,
            p + t * x.one,
            m + cross(t, l),
            h - cross(t, m) * 2.0 + l * tt - t * (2.0 * x.pl + 2.0 * tl),
            x.pl + tl,
            x.pp + 2.0 * dot(t, p) + tt * x.one,
            x.one};
}

// The row vector n times the matrix of a motion: n . moved(motion, x) = moved_row(motion, n) . x for all x.
inline LineVector moved_row(const Motion& motion, const LineVector& n) {
    const Vector& t = motion.translation;
    const double tt = dot(t, t), ht = dot(n.h, t);
    const Vector l = n.l + cross(n.m, t) + t * (n.pl - 2.0 * ht) + n.h * tt;
    const Vector p = n.p + t * (2.0 * n.pp), m = n.m - cross(n.h, t) * 2.0;
    return {motion.turn_back(l),
            motion.turn_back(p),
            motion.turn_back(m),
            motion.turn_back(n.h),
            n.pl - 2.0 * ht,
            n.pp,
            n.one + dot(n.p, t) + n.pp * tt};
}

// A value that depends on an angle as constant + cosine cos + sine sin.
template <class T>
struct Turning {
    T constant, cosine, sine;

    T at(double c, double s) const { return constant + cosine * c + sine * s; }
};

// The vector rotated about z by an angle, or by its opposite if `sign` is -1.
inline Turning<LineVector> turned_about_z(const LineVector& x, double sign) {
    Turning<LineVector> turning;
    const auto split = [sign](const Vector& v, Vector& constant, Vector& cosine, Vector& sine) {
        constant = {0, 0, v.z}, cosine = {v.x, v.y, 0}, sine = {-sign * v.y, sign * v.x, 0};
    };
    split(x.l, turning.constant.l, turning.cosine.l, turning.sine.l);
    split(x.p, turning.constant.p, turning.cosine.p, turning.sine.p);
    split(x.m, turning.constant.m, turning.cosine.m, turning.sine.m);
    split(x.h, turning.constant.h, turning.cosine.h, turning.sine.h);
    turning.constant.pl = x.pl, turning.constant.pp = x.pp, turning.constant.one = x.one;
    return turning;
}

// The product n . Rz(angle) x of a row vector with a vector rotated about z.
inline Turning<double> turned_product(const LineVector& n, const LineVector& x) {
    Turning<double> product{n.pl * x.pl + n.pp * x.pp + n.one * x.one, 0.0, 0.0};
    const auto add = [&product](const Vector& a, const Vector& b) {
        product.constant += a.z * b.z, product.cosine += a.x * b.x + a.y * b.y, product.sine += a.y * b.x - a.x * b.y;
    };
    add(n.l, x.l), add(n.p, x.p), add(n.m, x.m), add(n.h, x.h);
    return product;
}

}  // namespace eim
