// Enclosures of functions of one variable over a cell, by interval arithmetic with slopes.
//
// The variable is t in [-1, 1], the scaled cell. The bounds of f are
//
//    f(0) in value +- error,    f'(t) in slope +- spread,    f(t) in value +- radius  for all t.
//
// With several variables, all in [-1, 1], slope and spread have one lane per variable, and t is the first variable.
// These bounds give both the mean value form, value + slope t, and monotonicity (Moore 1966; Neumaier 1990). Each
// operation widens the bounds by the rounding error of the operation. Sines and cosines of the library are assumed to
// be accurate to 4 units in the last place. The bounds are numbers, or packs with one cell in each lane.
#pragma once

#include <algorithm>
#include <cmath>

#include "numerics/trigonometry.hpp"

namespace eim {

inline constexpr double kUnit = 1.2e-16;   // relative rounding error of one operation
inline constexpr double kUnknown = 1e30;   // spread if the slope has no bound
inline constexpr double kWidened = 1e-15;  // relative widening of bounds, because bounds are also rounded

// Returns the sum over the variables.
template <class V, class S>
[[gnu::always_inline]] inline V total(const S& parts) {
    if constexpr (std::is_same_v<V, S>) {
        return parts;
    } else {
        return sum(parts) * (1.0 + 4.0 * kWidened);
    }
}
// Returns one value per variable: `part` for the first variable, and 0 for all others.
template <class S, class V>
[[gnu::always_inline]] inline S of_first(const V& part) {
    if constexpr (std::is_same_v<V, S>) {
        return part;
    } else {
        return S{part};
    }
}

// V is a number, or a pack with one cell in each lane. S is the same type as V, or a pack with one variable in each
// lane.
template <class V, class S = V>
struct EnclosedOf {
    V value{}, error{};
    S slope{}, spread{};
    V radius{};

    V least() const { return value - radius; }
    V most() const { return value + radius; }
    Mask<V> is_monotone() const {  // in t
        if constexpr (std::is_same_v<V, S>) {
            return absolute(slope) > spread;
        } else {
            return std::abs(slope[0]) > spread[0];
        }
    }
};

using Enclosed = EnclosedOf<double>;
using EnclosedNear = EnclosedOf<double, WideDouble>;  // functions of four variables

// Returns an enclosure with the smaller of two radii: the natural radius, and the radius of the mean value form.
template <class V, class S>
[[gnu::always_inline]] inline EnclosedOf<V, S> enclosed(V value, V error, S slope, S spread, V radius) {
    error += 2.0 * kUnit * absolute(value);
    spread = spread * (1.0 + kWidened) + 4.0 * kUnit * absolute(slope);
    const V least = smaller<V>(error + total<V>(S(absolute(slope) + spread)), radius + 2.0 * kUnit * absolute(value));
    return {value, error, slope, spread, least * (1.0 + kWidened)};
}

// Relative rounding error of a sum of products, including the rounding errors of the bound itself.
inline constexpr double kUnits = 8.0 * kUnit;

// Like `enclosed`, for bounds that already include the rounding errors of value and slope, but not the rounding errors
// of the bounds.
template <class V, class S>
[[gnu::always_inline]] inline EnclosedOf<V, S> widened(V value, V error, S slope, S spread, V radius) {
    constexpr double more = 1.0 + 4.0 * kWidened;
    error *= more, spread *= more;
    return {value, error, slope, spread, smaller<V>(error + total<V>(S(absolute(slope) + spread)), radius) * more};
}

template <class V, class S>
[[gnu::always_inline]] inline EnclosedOf<V, S> operator+(const EnclosedOf<V, S>& a, const EnclosedOf<V, S>& b) {
    return enclosed<V, S>(a.value + b.value, a.error + b.error, a.slope + b.slope, a.spread + b.spread,
                          a.radius + b.radius);
}
template <class V, class S>
[[gnu::always_inline]] inline EnclosedOf<V, S> operator*(const EnclosedOf<V, S>& a, double f) {
    const double size = std::abs(f);
    return enclosed<V, S>(a.value * f, a.error * size, a.slope * f, a.spread * size, a.radius * size);
}
template <class V, class S>
    requires kIsPack<V>
[[gnu::always_inline]] inline EnclosedOf<V, S> operator*(const EnclosedOf<V, S>& a, V f) {
    const V size = absolute(f);
    return enclosed<V, S>(a.value * f, a.error * size, a.slope * f, a.spread * size, a.radius * size);
}
template <class V, class S>
[[gnu::always_inline]] inline EnclosedOf<V, S> operator-(const EnclosedOf<V, S>& a) {
    return {-a.value, a.error, -a.slope, a.spread, a.radius};
}
template <class V, class S>
[[gnu::always_inline]] inline EnclosedOf<V, S> operator-(const EnclosedOf<V, S>& a, const EnclosedOf<V, S>& b) {
    return a + -b;
}
template <class V, class S>
[[gnu::always_inline]] inline EnclosedOf<V, S> operator+(const EnclosedOf<V, S>& a, double b) {
    return enclosed<V, S>(a.value + b, a.error, a.slope, a.spread, a.radius);
}
template <class V, class S>
[[gnu::always_inline]] inline EnclosedOf<V, S> operator*(const EnclosedOf<V, S>& a, const EnclosedOf<V, S>& b) {
    const V va = absolute(a.value), vb = absolute(b.value);
    const V error = va * b.error + vb * a.error + a.error * b.error;
    const S spread = a.spread * (vb + b.radius) + absolute(a.slope) * b.radius + b.spread * (va + a.radius) +
                     absolute(b.slope) * a.radius;
    const V radius = va * b.radius + vb * a.radius + a.radius * b.radius;
    return enclosed<V, S>(a.value * b.value, error, a.value * b.slope + b.value * a.slope, spread, radius);
}

// Returns a f + b g + constant. The rounding errors of all operations are covered by a single widening. `inexact` is
// the error of the constant.
template <class V, class S>
[[gnu::always_inline]] inline EnclosedOf<V, S> linear(const EnclosedOf<V, S>& a, double f, const EnclosedOf<V, S>& b,
                                                      double g, double constant = 0.0, double inexact = 0.0) {
    const double f_size = std::abs(f), g_size = std::abs(g);
    const V af = a.value * f, bg = b.value * g;
    const V rounding = kUnits * ((absolute(af) + absolute(bg)) + std::abs(constant)) + inexact;
    const S slopes = kUnits * (absolute(a.slope) * f_size + absolute(b.slope) * g_size);
    return widened<V, S>((af + bg) + constant, a.error * f_size + b.error * g_size + rounding,
                         a.slope * f + b.slope * g, a.spread * f_size + b.spread * g_size + slopes,
                         a.radius * f_size + b.radius * g_size + rounding);
}

// Returns a b + c d, also with a single widening.
template <class V, class S>
[[gnu::always_inline]] inline EnclosedOf<V, S> products(const EnclosedOf<V, S>& a, const EnclosedOf<V, S>& b,
                                                        const EnclosedOf<V, S>& c, const EnclosedOf<V, S>& d) {
    const V va = absolute(a.value), vb = absolute(b.value), vc = absolute(c.value), vd = absolute(d.value);
    const V rounding = kUnits * (va * vb + vc * vd);
    const S slope = (a.value * b.slope + b.value * a.slope) + (c.value * d.slope + d.value * c.slope);
    const S sa = absolute(a.slope), sb = absolute(b.slope), sc = absolute(c.slope), sd = absolute(d.slope);
    const S slopes = kUnits * ((va * sb + vb * sa) + (vc * sd + vd * sc));
    const V error =
        (va * b.error + vb * a.error + a.error * b.error) + (vc * d.error + vd * c.error + c.error * d.error);
    const S spread = (a.spread * (vb + b.radius) + sa * b.radius + b.spread * (va + a.radius) + sb * a.radius) +
                     (c.spread * (vd + d.radius) + sc * d.radius + d.spread * (vc + c.radius) + sd * c.radius);
    const V radius =
        (va * b.radius + vb * a.radius + a.radius * b.radius) + (vc * d.radius + vd * c.radius + c.radius * d.radius);
    return widened<V, S>(a.value * b.value + c.value * d.value, error + rounding, slope, spread + slopes,
                         radius + rounding);
}

// Returns g(f) from its value at f.value, the range [least, most] of g', and the radius and the error of g.
template <class V, class S>
inline EnclosedOf<V, S> composed(const EnclosedOf<V, S>& f, V value, V least, V most, V radius, V error) {
    const V mean = 0.5 * (least + most), half = 0.5 * (most - least);
    return enclosed<V, S>(value, error, mean * f.slope,
                          absolute(mean) * f.spread + half * (absolute(f.slope) + f.spread), radius);
}

// Returns the square root of a value that is not negative. If parts of the cell have negative values, the root does not
// exist there.
template <class V, class S>
inline EnclosedOf<V, S> square_root(const EnclosedOf<V, S>& f) {
    const V zero{}, least = f.least(), most = larger(zero, f.most()), value = square_root(larger(zero, f.value));
    const auto of_positive = [&] {
        const V low = square_root(least), high = square_root(most);
        return composed<V, S>(f, value, 0.5 / high, 0.5 / low, larger<V>(value - low, high - value),
                              0.5 * f.error / square_root<V>(f.value - f.error));
    };
    const auto of_any = [&] {
        const V near = square_root(larger<V>(zero, f.value - f.error));
        const V far = square_root(larger<V>(zero, f.value + f.error));
        return enclosed<V, S>(value, larger<V>(value - near, far - value), S{}, fill<S>(kUnknown),
                              larger<V>(value, square_root(most) - value));
    };
    if constexpr (kIsPack<V>) {
        const Mask<V> is_positive = least > 0.0;
        const EnclosedOf<V, S> a = of_positive(), b = of_any();
        return {is_positive ? a.value : b.value, is_positive ? a.error : b.error, is_positive ? a.slope : b.slope,
                is_positive ? a.spread : b.spread, is_positive ? a.radius : b.radius};
    } else {
        return least > 0.0 ? of_positive() : of_any();
    }
}

// Returns an upper bound of asin for a ratio from 0 to 1. The bound is at least the series of asin, and equals asin at
// 0 and at 1.
template <class V>
inline V angle_over(V ratio) {
    return ratio + (0.5 * kPi - 1.0) * ratio * ratio * ratio + 4.0 * kUnit * kPi;
}

// Computes the angle of the direction (x, y). Returns false if the direction may be (0, 0). The angle is continuous
// around its value, and may exceed pi.
template <class V, class S>
inline Mask<V> enclose_angle(const EnclosedOf<V, S>& y, const EnclosedOf<V, S>& x, EnclosedOf<V, S>& angle) {
    const auto length = [](V a, V b) { return square_root<V>(a * a + b * b) * (1.0 + 4.0 * kWidened); };
    const V away = length(x.value, y.value) * (1.0 - 8.0 * kWidened), far = length(x.radius, y.radius);
    const Mask<V> is_known = far < 0.99 * away;
    if constexpr (!kIsPack<V>) {
        if (!is_known) return false;
    }
    const V high = 1.0 / ((away - far) * (away - far)), low = 1.0 / ((away + far) * (away + far));
    const S turn = x.value * y.slope - y.value * x.slope;
    const S spread = absolute(x.value) * y.spread + x.radius * (absolute(y.slope) + y.spread) +
                     absolute(y.value) * x.spread + y.radius * (absolute(x.slope) + x.spread);
    const V mean = 0.5 * (low + high), half = 0.5 * (high - low);
    angle = enclosed<V, S>(angle_towards(y.value, x.value), angle_over<V>(length(x.error, y.error) / away), mean * turn,
                           mean * spread + half * (absolute(turn) + spread), angle_over<V>(far / away));
    return is_known;
}

// Computes cosine and sine of an angle.
template <class V, class S>
inline void enclose_turn(const EnclosedOf<V, S>& angle, EnclosedOf<V, S>& cosine, EnclosedOf<V, S>& sine) {
    const auto [s, c] = turn_by(angle.value);
    const V error = fill<V>(4.0 * kUnit), away = smaller(fill<V>(2.0), angle.radius) + error;
    cosine = composed<V, S>(angle, c, -s - away, -s + away, away, angle.error + error);
    sine = composed<V, S>(angle, s, c - away, c + away, away, angle.error + error);
}

// Cosine and sine of an angle over the cell middle +- half.
template <class V, class S = V>
struct EnclosedTurnOf {
    EnclosedOf<V, S> cosine, sine;

    EnclosedTurnOf(V middle, V half) {
        const auto [s, c] = turn_by(middle);
        const V most = smaller<V>(2.0 * half, half * half), two = fill<V>(2.0);
        const V error = 4.0 * kUnit * (1.0 + absolute(middle));
        cosine = enclosed<V, S>(c, error, of_first<S>(V(-s * half)), of_first<S>(V(most + error * half)), two);
        sine = enclosed<V, S>(s, error, of_first<S>(V(c * half)), of_first<S>(V(most + error * half)), two);
    }
};

using EnclosedTurn = EnclosedTurnOf<double>;

}  // namespace eim
