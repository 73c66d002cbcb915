// Vectors, lines, rotations about lines, and rigid motions.
#pragma once

#include <cmath>

#include "numerics/portable.hpp"

namespace eim {

// A vector of numbers of type T, which is double, or Doubled for proofs.
template <class T>
struct VectorOf {
    T x{}, y{}, z{};

    VectorOf operator+(const VectorOf& b) const { return {x + b.x, y + b.y, z + b.z}; }
    VectorOf operator-(const VectorOf& b) const { return {x - b.x, y - b.y, z - b.z}; }
    VectorOf operator-() const { return {-x, -y, -z}; }
    VectorOf operator*(const T& f) const { return {f * x, f * y, f * z}; }

    friend T dot(const VectorOf& a, const VectorOf& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
    friend VectorOf cross(const VectorOf& a, const VectorOf& b) {
        return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
    }
};
using Vector = VectorOf<double>;

inline double length(const Vector& a) {
    return std::sqrt(dot(a, a));
}

// Returns the component of v perpendicular to a unit axis.
inline Vector across(const Vector& v, const Vector& axis) {
    return v - axis * dot(axis, v);
}

// Returns v rotated about a unit axis (Rodrigues' formula).
inline Vector turned(const Vector& v, const Vector& axis, double cosine, double sine) {
    return axis * ((1.0 - cosine) * dot(axis, v)) + v * cosine + cross(axis, v) * sine;
}
inline Vector turned(const Vector& v, const Vector& axis, double angle) {
    return turned(v, axis, portable::cos(angle), portable::sin(angle));
}

// Returns the angle about a unit axis that rotates the perpendicular component of a to the direction of the
// perpendicular component of b. The perpendicular components are computed first, because they may be short compared
// with a and b.
inline double angle_between(const Vector& a, const Vector& b, const Vector& axis) {
    const Vector from = across(a, axis), to = across(b, axis);
    return portable::atan2(dot(axis, cross(from, to)), dot(from, to));
}

// A joint axis: a point and a unit direction.
struct Line {
    Vector direction, point;

    // Returns the point p rotated about the line.
    Vector turn(const Vector& p, double angle) const { return point + turned(p - point, direction, angle); }
    Vector foot(const Vector& p) const { return point + direction * dot(direction, p - point); }
    double distance(const Vector& p) const { return length(p - foot(p)); }
};

// The two ends of the common normal of two lines. If the lines are parallel, the normal passes through the point of the
// first line.
struct Normal {
    Vector first, second;
    double sine;  // sine of the angle between the lines; 0 if they count as parallel
};

inline Normal common_normal(const Line& a, const Line& b, double tolerance) {
    const Vector normal = cross(a.direction, b.direction), between = b.point - a.point;
    const double square = dot(normal, normal);
    if (square <= tolerance * tolerance) return {a.point, b.foot(a.point), 0.0};
    const double along_a = dot(cross(between, b.direction), normal) / square;
    const double along_b = dot(cross(between, a.direction), normal) / square;
    return {a.point + a.direction * along_a, b.point + b.direction * along_b, std::sqrt(square)};
}

// The rigid motion x -> rotation x + translation.
template <class T>
struct MotionOf {
    VectorOf<T> rows[3];
    VectorOf<T> translation;

    VectorOf<T> turn(const VectorOf<T>& v) const { return {dot(rows[0], v), dot(rows[1], v), dot(rows[2], v)}; }
    VectorOf<T> turn_back(const VectorOf<T>& v) const { return rows[0] * v.x + rows[1] * v.y + rows[2] * v.z; }
    VectorOf<T> operator()(const VectorOf<T>& p) const { return turn(p) + translation; }
    MotionOf inverse() const {
        return {
            {{rows[0].x, rows[1].x, rows[2].x}, {rows[0].y, rows[1].y, rows[2].y}, {rows[0].z, rows[1].z, rows[2].z}},
            -turn_back(translation)};
    }
    friend MotionOf operator*(const MotionOf& a, const MotionOf& b) {
        MotionOf product;
        for (int i = 0; i < 3; ++i) product.rows[i] = b.turn_back(a.rows[i]);
        product.translation = a(b.translation);
        return product;
    }
};
using Motion = MotionOf<double>;

// Returns the rotation about the z axis with the given cosine and sine.
template <class T>
inline MotionOf<T> about_z(const T& cosine, const T& sine) {
    return {{{cosine, -sine, T(0.0)}, {sine, cosine, T(0.0)}, {T(0.0), T(0.0), T(1.0)}}, {}};
}
inline Motion about_z(double angle) {
    return about_z(portable::cos(angle), portable::sin(angle));
}

}  // namespace eim
