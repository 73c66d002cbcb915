// Subproblem with two unknown angles in the closed forms of 6-joint arms (Elias and Wen 2022):
//
//    a v_x = E_1(x),   s v_y = E_2(x),   v_x^2 + v_y^2 = m(x),
//
// One unknown angle is x, and v is a known vector rotated by the other angle. E_1 and E_2 are sinusoids, constant +
// cosine cos x + sine sin x. The distance of two successive axes is a, and s is the sine of their angle. In general, x
// is a root of a trigonometric polynomial of degree 2. The degree is 1 if the axes meet (a = 0) or are parallel (s =
// 0).
#pragma once

#include <utility>

#include "numerics/polynomials.hpp"

namespace eim {

// smaller a or s are not used as divisors; v follows from the other equation, with both signs
inline constexpr double kSmall = 1e-2;
inline constexpr double kVanishing = 1e-13;  // relative to its terms; smaller polynomials are rounding errors

// Directions for v in the plane perpendicular to an axis. The x direction is along the common normal of this axis and
// another axis, and the y direction is along the other axis.
struct Pair {
    Vector first, second;  // ends of the common normal on the two axes
    double distance, sine;
    double neglected = 0.0;  // distance or sine that was neglected
    Vector along_x, along_y;

    // Vector v is perpendicular to `across_axis`, which is one of the axes.
    Pair() = default;
    Pair(const Line& a, const Line& b, const Vector& across_axis, const Vector& other, double tolerance) {
        const Normal normal = common_normal(a, b, tolerance);
        first = normal.first, second = normal.second, sine = normal.sine;
        const Vector between = second - first;
        distance = length(between);
        if (distance <= tolerance) neglected = std::exchange(distance, 0.0);
        if (sine == 0.0) neglected = std::max(neglected, length(cross(a.direction, b.direction)));
        if (sine > 0.0) {
            along_y = across(other, across_axis) * (1.0 / sine), along_x = cross(along_y, across_axis);
            if (dot(along_x, between) < 0.0) along_x = -along_x;
        } else if (distance > 0.0) {
            along_x = between * (1.0 / distance), along_y = cross(across_axis, along_x);
        }
    }

    // Calls next(x, v, is_solution, is_double) for each candidate. If `is_solution` is false, v is a guess, or two
    // solutions meet near v. If `is_double` is true, v nearly meets another solution. Returns the number of solutions
    // that do not exist or meet another solution. If this number plus the number of solutions found is below four, the
    // set is undecided: x is arbitrary (`is_free`), or v is not determined.
    template <class Next>
    int solve(const Sinusoid& e1, const Sinusoid& e2, const TrigonometricPolynomial& m, double slack, bool& meet,
              bool& is_free, Next next) const {
        Angles angles;
        if (distance == 0.0 && sine == 0.0) return 0;
        if (distance == 0.0) {
            angles = roots(e1, slack);
        } else if (sine == 0.0) {
            angles = roots(e2, slack);
        } else {
            TrigonometricPolynomial difference;
            const double a2 = distance * distance, s2 = sine * sine;
            difference.add(m, a2 * s2).add(e1 * e1, -s2).add(e2 * e2, -a2);
            const double terms = a2 * s2 * m.size() + s2 * (e1 * e1).size() + a2 * (e2 * e2).size();
            angles = roots(difference, slack, kVanishing * terms);
        }
        meet |= angles.meet, is_free |= angles.all;
        if (angles.all) angles.n = 0, angles.add(0.0, true);
        const bool takes_signs = distance == 0.0 || sine == 0.0;
        int n_missing = angles.all ? 0 : takes_signs ? 2 * (2 - angles.n_roots) : std::max(4 - angles.n_roots, 0);
        for (int i = 0; i < angles.n; ++i) {
            const double x = angles.values[i], c = portable::cos(x), s = portable::sin(x),
                         square = std::max(m(c, s), 0.0);
            const bool is_root = !angles.stands_for_two[i];
            bool is_double = angles.is_double(i);
            const auto give = [&](double vx, double vy, bool is_solution) {
                next(x, along_x * vx + along_y * vy, is_solution, is_double);
            };
            if (distance >= kSmall && sine >= kSmall) {
                give(e1(c, s) / distance, e2(c, s) / sine, is_root);
                continue;
            }
            const bool by_y = sine >= distance;
            const double known = by_y ? e2(c, s) / sine : e1(c, s) / distance;
            const double other = std::sqrt(std::max(square - known * known, 0.0));
            if (known * known > square * (1.0 + 100.0 * slack) + 1e-8) {
                n_missing += takes_signs && is_root ? 2 : 0;
                continue;
            }
            meet |= other * other <= 100.0 * slack * square;
            is_double |= other <= Angles::kDouble;
            if (takes_signs && other == 0.0) n_missing += is_root ? 2 : 0;
            // the other equation gives the sign, unless its coefficient is 0
            const double from = by_y ? e1(c, s) : e2(c, s), expected = std::max(by_y ? distance : sine, 0.0) * other;
            const bool is_clear = !takes_signs && std::abs(std::abs(from) - expected) < 0.1 * expected;
            for (int sign = 1; sign >= (other > 0.0 ? -1 : 1); sign -= 2) {
                const bool is_solution = is_root && other > 0.0 && (takes_signs || (is_clear && sign * from > 0.0));
                by_y ? give(sign * other, known, is_solution) : give(known, sign * other, is_solution);
            }
        }
        return n_missing;
    }
};

}  // namespace eim
