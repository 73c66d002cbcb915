// Trigonometric polynomials of degree 1 and 2 in one angle, and their real roots.
//
// A polynomial of degree 2 becomes a quartic in t = tan((x - x0 - pi) / 2). At x0, t is infinite. No root has a large
// t, because x0 is an angle at which the polynomial is far from zero. The real roots of the derivatives isolate the
// real roots of the quartic: there is at most one root between two successive roots of the derivative. If two roots
// nearly meet, or have just become complex, the point between them counts as one root.
#pragma once

#include <algorithm>
#include <cmath>

#include "numerics/pack.hpp"
#include "numerics/vector3.hpp"

namespace eim {

// The function constant + cosine cos x + sine sin x.
struct Sinusoid {
    double constant = 0, cosine = 0, sine = 0;

    double operator()(double c, double s) const { return constant + cosine * c + sine * s; }
    Sinusoid operator+(const Sinusoid& b) const { return {constant + b.constant, cosine + b.cosine, sine + b.sine}; }
    Sinusoid operator*(double f) const { return {f * constant, f * cosine, f * sine}; }
    double amplitude() const { return portable::hypot(cosine, sine); }
};

// Returns a . R b as a function of x, where R rotates about a unit axis by x.
inline Sinusoid turned_product(const Vector& a, const Vector& axis, const Vector& b) {
    const double along = dot(a, axis) * dot(axis, b);
    return {along, dot(a, b) - along, dot(a, cross(axis, b))};
}

// The function constant + cosine cos x + sine sin x + cosine2 cos 2x + sine2 sin 2x.
struct TrigonometricPolynomial {
    double constant = 0, cosine = 0, sine = 0, cosine2 = 0, sine2 = 0;

    TrigonometricPolynomial() = default;
    TrigonometricPolynomial(const Sinusoid& w) : constant(w.constant), cosine(w.cosine), sine(w.sine) {}
    TrigonometricPolynomial& add(const TrigonometricPolynomial& b, double f) {
        constant += f * b.constant, cosine += f * b.cosine, sine += f * b.sine;
        cosine2 += f * b.cosine2, sine2 += f * b.sine2;
        return *this;
    }
    double operator()(double c, double s) const {
        return constant + cosine * c + sine * s + cosine2 * (c * c - s * s) + 2.0 * sine2 * s * c;
    }
    double size() const { return std::abs(constant) + portable::hypot(cosine, sine) + portable::hypot(cosine2, sine2); }
};

inline TrigonometricPolynomial operator*(const Sinusoid& a, const Sinusoid& b) {
    TrigonometricPolynomial product;
    product.constant = a.constant * b.constant + 0.5 * (a.cosine * b.cosine + a.sine * b.sine);
    product.cosine = a.constant * b.cosine + a.cosine * b.constant;
    product.sine = a.constant * b.sine + a.sine * b.constant;
    product.cosine2 = 0.5 * (a.cosine * b.cosine - a.sine * b.sine);
    product.sine2 = 0.5 * (a.cosine * b.sine + a.sine * b.cosine);
    return product;
}

inline constexpr double kMeeting = 1e-6;  // relative value that counts as zero where two roots meet

// Up to eight angles that solve an equation exactly or approximately.
struct Angles {
    int n = 0, n_roots = 0;  // number of values; number of values that are roots despite rounding
    double values[8];
    bool stands_for_two[8];  // not a root, but two roots meet or become complex next to it
    bool all = false;        // whether every angle is a root
    bool meet = false;       // whether two roots meet or nearly meet

    void add(double angle, bool for_two = false) {
        if (n == 8) return;
        stands_for_two[n] = for_two, n_roots += !for_two;
        values[n++] = angle;
    }

    // Whether another root is so close to value i that the value is inaccurate. A rounding error of 1e-15 of the
    // polynomial then changes the value by much more than 1e-15.
    bool is_double(int i) const {
        bool found = stands_for_two[i];
        for (int k = 0; k < n; ++k) {
            found |= k != i && std::abs(portable::sin(0.5 * (values[k] - values[i]))) <= kDouble;
        }
        return found;
    }
    static constexpr double kDouble = 1e-5;
};

// Returns the roots of a sinusoid. `slack` is the relative value that counts as zero where two roots meet.
inline Angles roots(const Sinusoid& polynomial, double slack) {
    Angles found;
    const double amplitude = polynomial.amplitude(), size = std::abs(polynomial.constant) + amplitude;
    found.all = size <= kMeeting;
    if (amplitude <= 1e-12 * size || amplitude == 0.0) return found;
    const double cosine = -polynomial.constant / amplitude, first = portable::atan2(polynomial.sine, polynomial.cosine);
    if (std::abs(cosine) > 1.0 + slack) return found;
    found.meet = std::abs(cosine) >= 1.0 - slack;
    const double away = portable::acos(std::clamp(cosine, -1.0, 1.0));
    if (away > 0.0 && away < kPi) {
        found.add(first + away), found.add(first - away);
    } else {
        found.add(first + away, true);
    }
    return found;
}

// Returns the angle between two unit vectors. The angle is accurate even if the vectors are nearly parallel or
// opposite.
inline double angle_of_vectors(const Vector& a, const Vector& b) {
    return portable::atan2(length(cross(a, b)), dot(a, b));
}

// Rotates the unit vector `moving` about a unit axis by an angle x. Returns each x at which `moving` and `image` make
// the same angle with `fixed`. All vectors have length 1. Sets `phase` to the x at which `moving` is nearest to
// `fixed`.
//
// The angles are phase +- away, where `away` is an angle of a spherical triangle with known sides (half-angle
// formulas). Unlike the arc cosine, these formulas are accurate where both angles meet.
inline Angles turns_to(const Vector& fixed, const Vector& axis, const Vector& moving, const Vector& image, double slack,
                       double& phase) {
    Angles found;
    const Sinusoid product = turned_product(fixed, axis, moving);
    const double b = angle_of_vectors(fixed, axis), c = angle_of_vectors(axis, moving);
    const double a = angle_of_vectors(fixed, image), scale = portable::sin(b) * portable::sin(c);
    phase = portable::atan2(product.sine, product.cosine);
    found.all = !(scale > kMeeting);
    if (found.all) return found;
    const double square_of_sine = portable::sin(0.5 * (a - b + c)) * portable::sin(0.5 * (a + b - c)) / scale;
    const double square_of_cosine = portable::sin(0.5 * (b + c - a)) * portable::sin(0.5 * (a + b + c)) / scale;
    const double least = std::min(square_of_sine, square_of_cosine);
    if (least < -slack) return found;
    found.meet = least <= slack;
    const double away =
        2.0 * portable::atan2(std::sqrt(std::max(square_of_sine, 0.0)), std::sqrt(std::max(square_of_cosine, 0.0)));
    if (least > 0.0) {
        found.add(phase + away), found.add(phase - away);
    } else {
        found.add(phase + away, true);
    }
    return found;
}

// Real roots of a polynomial sum_k coefficients[k] t^k.
struct RealRoots {
    int n = 0;
    double values[8];
    bool stands_for_two[8];
    bool meet = false;
    void add(double t, bool for_two = false) {
        if (n < 8) stands_for_two[n] = for_two, values[n++] = t;
    }
};

template <int Degree>
inline double polynomial(const double* coefficients, double t) {
    double value = coefficients[Degree];
    for (int k = Degree - 1; k >= 0; --k) value = value * t + coefficients[k];
    return value;
}

// Returns the root in [low, high] of a polynomial with opposite signs at the ends, by Newton's method with bisection as
// a fallback.
template <int Degree>
inline double root_between(const double* coefficients, double low, double high) {
    const bool rises = polynomial<Degree>(coefficients, high) > 0.0;
    double t = 0.5 * (low + high);
    for (int step = 0; step < 60; ++step) {
        double value = coefficients[Degree], slope = 0.0;
        for (int k = Degree - 1; k >= 0; --k) slope = slope * t + value, value = value * t + coefficients[k];
        if (value == 0.0) return t;
        ((value > 0.0) == rises ? high : low) = t;
        double next = t - value / slope;
        if (!(next > low && next < high)) next = 0.5 * (low + high);
        if (std::abs(next - t) <= 1e-15 * (1.0 + std::abs(t))) return next;
        t = next;
    }
    return t;
}

// Returns the roots in [-bound, bound]. An extremum with an absolute value of at most `slack` also counts as a root.
template <int Degree>
inline RealRoots real_roots(const double* coefficients, double bound, double slack) {
    RealRoots found;
    if constexpr (Degree == 1) {
        if (coefficients[1] != 0.0) found.add(-coefficients[0] / coefficients[1]);
        return found;
    } else {
        double derivative[Degree];
        for (int k = 0; k < Degree; ++k) derivative[k] = (k + 1) * coefficients[k + 1];
        const RealRoots turns = real_roots<Degree - 1>(derivative, bound, -1.0);
        double before = -bound, value_before = polynomial<Degree>(coefficients, before);
        for (int i = 0; i <= turns.n; ++i) {
            const double end = i < turns.n ? turns.values[i] : bound;
            if (!(end > before)) continue;
            const double value = polynomial<Degree>(coefficients, end);
            if ((value > 0.0) != (value_before > 0.0)) {
                found.add(root_between<Degree>(coefficients, before, end));
            }
            const double scale = 1.0 + end * end;
            if (i < turns.n && slack >= 0.0 && std::abs(value) <= slack * scale * scale) {
                found.add(end, true), found.meet = true;
            }
            before = end, value_before = value;
        }
        return found;
    }
}

// Returns the roots of a polynomial. A polynomial whose absolute coefficients sum to at most `vanishing` is 0 up to
// rounding.
inline Angles roots(const TrigonometricPolynomial& polynomial, double slack, double vanishing = 0.0) {
    Angles found;
    const double size = polynomial.size();
    found.all = size <= vanishing;
    if (found.all || !std::isfinite(size)) return found;
    double most = -1.0, c0 = 1.0, s0 = 0.0, at = 0.0;
    for (int k = 0; k < 8; ++k) {
        constexpr double h = 0.70710678118654752;
        constexpr double cosines[8] = {1, h, 0, -h, -1, -h, 0, h}, sines[8] = {0, h, 1, h, 0, -h, -1, -h};
        const double value = std::abs(polynomial(cosines[k], sines[k]));
        if (value > most) most = value, c0 = cosines[k], s0 = sines[k], at = 0.25 * kPi * k;
    }
    // y = x - x0 - pi; the angle x0 is at y = pi, where t is infinite
    const double c = -c0, s = -s0, cc = c * c - s * s, ss = 2.0 * s * c;
    const double b0 = polynomial.constant, b1 = polynomial.cosine * c + polynomial.sine * s,
                 b2 = polynomial.sine * c - polynomial.cosine * s;
    const double d1 = polynomial.cosine2 * cc + polynomial.sine2 * ss,
                 d2 = polynomial.sine2 * cc - polynomial.cosine2 * ss;
    // cos y = (1 - t^2) / (1 + t^2), sin y = 2 t / (1 + t^2), times (1 + t^2)^2
    const double quartic[5] = {b0 + b1 + d1, 2.0 * b2 + 4.0 * d2, 2.0 * b0 - 6.0 * d1, 2.0 * b2 - 4.0 * d2,
                               b0 - b1 + d1};
    double bound = 0.0;
    for (int k = 0; k < 4; ++k) bound = std::max(bound, std::abs(quartic[k]));
    bound = 1.0 + bound / std::abs(quartic[4]);
    const RealRoots all = real_roots<4>(quartic, bound, slack * size);
    found.meet = all.meet;
    for (int i = 0; i < all.n; ++i) found.add(at + kPi + 2.0 * portable::atan(all.values[i]), all.stands_for_two[i]);
    return found;
}

}  // namespace eim
