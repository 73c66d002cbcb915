// Encloses functions of one variable over a cell, by interval arithmetic with slopes.
//
// The variable is t in [-1, 1], the scaled cell. The bounds of f are
//
//    f(0) in value +- error,    f'(t) in slope +- spread,    f(t) in value +- radius  for all t.
//
// They give both the mean value form value + slope t and monotonicity (Moore 1966; Neumaier 1990). All bounds are
// widened by the rounding of each operation. Library sines and cosines are assumed correct to 4 units in the last
// place.
#pragma once

#include <algorithm>
#include <cmath>

#include "numerics/pack.hpp"

namespace eim {

inline constexpr double kUnit = 1.2e-16;   // relative rounding error of one operation
inline constexpr double kUnknown = 1e30;   // spread if the slope has no bound
inline constexpr double kWidened = 1e-15;  // relative widening of bounds, for their own rounding

struct Enclosed {
    double value = 0.0, error = 0.0, slope = 0.0, spread = 0.0, radius = 0.0;

    double least() const { return value - radius; }
    double most() const { return value + radius; }
    bool is_monotone() const { return std::abs(slope) > spread; }
};

// Uses the smaller of two bounds of the radius: the natural one and the one from the mean value form.
[[gnu::always_inline]] inline Enclosed enclosed(double value, double error, double slope, double spread,
                                                double radius) {
    error += 2.0 * kUnit * std::abs(value);
    spread = spread * (1.0 + kWidened) + 4.0 * kUnit * std::abs(slope);
    const double least = std::min(radius + 2.0 * kUnit * std::abs(value), error + std::abs(slope) + spread);
    return {value, error, slope, spread, least * (1.0 + kWidened)};
}

[[gnu::always_inline]] inline Enclosed operator+(const Enclosed& a, const Enclosed& b) {
    return enclosed(a.value + b.value, a.error + b.error, a.slope + b.slope, a.spread + b.spread, a.radius + b.radius);
}
[[gnu::always_inline]] inline Enclosed operator*(const Enclosed& a, double f) {
    const double size = std::abs(f);
    return enclosed(a.value * f, a.error * size, a.slope * f, a.spread * size, a.radius * size);
}
[[gnu::always_inline]] inline Enclosed operator-(const Enclosed& a) {
    return {-a.value, a.error, -a.slope, a.spread, a.radius};
}
[[gnu::always_inline]] inline Enclosed operator-(const Enclosed& a, const Enclosed& b) {
    return a + -b;
}
[[gnu::always_inline]] inline Enclosed operator+(const Enclosed& a, double b) {
    return enclosed(a.value + b, a.error, a.slope, a.spread, a.radius);
}
[[gnu::always_inline]] inline Enclosed operator*(const Enclosed& a, const Enclosed& b) {
    const double va = std::abs(a.value), vb = std::abs(b.value);
    const double error = va * b.error + vb * a.error + a.error * b.error;
    const double spread = a.spread * (vb + b.radius) + std::abs(a.slope) * b.radius + b.spread * (va + a.radius) +
                          std::abs(b.slope) * a.radius;
    const double radius = va * b.radius + vb * a.radius + a.radius * b.radius;
    return enclosed(a.value * b.value, error, a.value * b.slope + b.value * a.slope, spread, radius);
}

// g(f), from its value at f.value, the range [least, most] of its derivative, and its own radius and error.
inline Enclosed composed(const Enclosed& f, double value, double least, double most, double radius, double error) {
    const double mean = 0.5 * (least + most), half = 0.5 * (most - least);
    return enclosed(value, error, mean * f.slope, std::abs(mean) * f.spread + half * (std::abs(f.slope) + f.spread),
                    radius);
}

// Square root of a value that is not negative, except on parts of the cell where the function does not exist.
inline Enclosed square_root(const Enclosed& f) {
    const double least = f.least(), most = std::max(f.most(), 0.0), value = std::sqrt(std::max(f.value, 0.0));
    if (least > 0.0) {
        const double low = std::sqrt(least), high = std::sqrt(most);
        return composed(f, value, 0.5 / high, 0.5 / low, std::max(high - value, value - low),
                        0.5 * f.error / std::sqrt(f.value - f.error));
    }
    const double near = std::sqrt(std::max(f.value - f.error, 0.0)), far = std::sqrt(std::max(f.value + f.error, 0.0));
    return enclosed(value, std::max(far - value, value - near), 0.0, kUnknown,
                    std::max(std::sqrt(most) - value, value));
}

// Upper bound of asin of a ratio from 0 to 1. The series of asin is below this one and agrees with it at 0 and 1.
inline double angle_over(double ratio) {
    return ratio + (0.5 * kPi - 1.0) * ratio * ratio * ratio + 4.0 * kUnit * kPi;
}

// Angle of the direction (x, y); false if it may be (0, 0). The angle is continuous around its value, beyond pi if
// necessary.
inline bool enclose_angle(const Enclosed& y, const Enclosed& x, Enclosed& angle) {
    const auto length = [](double a, double b) { return std::sqrt(a * a + b * b) * (1.0 + 4.0 * kWidened); };
    const double away = length(x.value, y.value) * (1.0 - 8.0 * kWidened), far = length(x.radius, y.radius);
    if (!(far < 0.99 * away)) return false;
    const double high = 1.0 / ((away - far) * (away - far)), low = 1.0 / ((away + far) * (away + far));
    const double turn = x.value * y.slope - y.value * x.slope;
    const double spread = std::abs(x.value) * y.spread + x.radius * (std::abs(y.slope) + y.spread) +
                          std::abs(y.value) * x.spread + y.radius * (std::abs(x.slope) + x.spread);
    const double mean = 0.5 * (low + high), half = 0.5 * (high - low);
    angle = enclosed(std::atan2(y.value, x.value), angle_over(length(x.error, y.error) / away), mean * turn,
                     mean * spread + half * (std::abs(turn) + spread), angle_over(far / away));
    return true;
}

// Cosine and sine of an angle.
inline void enclose_turn(const Enclosed& angle, Enclosed& cosine, Enclosed& sine) {
    const double c = std::cos(angle.value), s = std::sin(angle.value), most = std::min(angle.radius, 2.0);
    const double error = 4.0 * kUnit, away = most + error;
    cosine = composed(angle, c, -s - away, -s + away, away, angle.error + error);
    sine = composed(angle, s, c - away, c + away, away, angle.error + error);
}

// The same for the cell middle +- half.
struct EnclosedTurn {
    Enclosed cosine, sine;

    EnclosedTurn(double middle, double half) {
        const double c = std::cos(middle), s = std::sin(middle), most = std::min(half * half, 2.0 * half);
        const double error = 4.0 * kUnit * (1.0 + std::abs(middle));
        cosine = enclosed(c, error, -s * half, most + error * half, 2.0);
        sine = enclosed(s, error, c * half, most + error * half, 2.0);
    }
};

}  // namespace eim
