// Proof that no real solution is near a zero of f, because the zero belongs to two complex solutions, for example.
//
// Two complex conjugate solutions can have the same real s and t. At these values, f has an isolated zero without a
// real solution. M has two null vectors there, and their span contains no vector of the form
//
//    x = (cos u, sin u, cos 3u, sin 3u) x (1, c5, s5),   u = t4 / 2,
//
// as a 4 x 3 matrix. Quadratic forms q vanish on such vectors: the minors of order 2, and trigonometric identities
// within rows and columns. For vectors of length up to 1, |q(x) - q(y)| <= kRate |x - y|.
//
// At a solution in a cell, M x = 0 for an x of this form and of length 1. Let M0 be the matrix at the middle of the
// cell, and let d bound the change of M over the cell. Then |M0 x| <= d. Let N be the span of the right singular
// vectors of the two smallest singular values of M0, and let sigma be the third smallest singular value. The component
// of x perpendicular to N has length at most rho = d / sigma. Therefore N contains a vector z of length 1 with
// |x - z| <= rho + rho^2 and |q(z)| <= kRate (rho + rho^2). If N contains no such z, the cell contains no solution.
#pragma once

#include "general_6r/elimination.hpp"
#include "numerics/portable.hpp"
#include "numerics/singular_vectors.hpp"

namespace eim {

// The quadratic forms that vanish on the vectors of solutions.
struct SolutionForms {
    static constexpr int n = 31;
    static constexpr double kRate = 5.0;  // the root of 4 + 4 + 4 + 2.42^2 + 2.42^2, rounded up

    double values[n];

    explicit SolutionForms(const double (&x)[12]) {
        int k = 0;
        for (int i = 0; i < 4; ++i) {
            const double* row = x + 3 * i;
            for (int j = i + 1; j < 4; ++j) {
                for (int a = 0; a < 3; ++a) {
                    const int b = (a + 1) % 3;
                    values[k++] = row[a] * x[3 * j + b] - row[b] * x[3 * j + a];
                }
            }
            values[k++] = row[1] * row[1] + row[2] * row[2] - row[0] * row[0];
        }
        for (int j = 0; j < 3; ++j) {
            const double c = x[j], s = x[3 + j], c3 = x[6 + j], s3 = x[9 + j];
            values[k++] = c * c + s * s - c3 * c3 - s3 * s3;
            values[k++] = c * c3 + s * s3 - c * c + s * s, values[k++] = c * s3 - s * c3 - 2.0 * c * s;
        }
    }
};

// Whether a cell contains no solution. `m` is M at the middle of the cell, and `change` bounds its change over the
// cell.
inline bool is_without_solution(double (&m)[12][12], double change) {
    constexpr int kDirections = 1024;
    constexpr double kRounding = 1e-12;
    double values[12], vectors[12][12];
    singular_vectors(m, values, vectors);
    const double rho = (change + kRounding) / values[2];
    if (!(rho < 0.1)) return false;
    const double wanted = SolutionForms::kRate * (rho + rho * rho + 0.5 * kPi / kDirections) + kRounding;
    // For vectors of length 1 in N at angle a, each form q has the value mean + even cos 2a + odd sin 2a.
    double x[3][12];
    for (int i = 0; i < 12; ++i) {
        x[0][i] = vectors[i][0], x[1][i] = vectors[i][1], x[2][i] = std::sqrt(0.5) * (x[0][i] + x[1][i]);
    }
    const SolutionForms first(x[0]), second(x[1]), between(x[2]);
    double products[3][3] = {};
    for (int k = 0; k < SolutionForms::n; ++k) {
        const double mean = 0.5 * (first.values[k] + second.values[k]);
        const double parts[3] = {mean, first.values[k] - mean, between.values[k] - mean};
        for (int a = 0; a < 3; ++a) {
            for (int b = 0; b < 3; ++b) products[a][b] += parts[a] * parts[b];
        }
    }
    for (int k = 0; k < kDirections; ++k) {
        const double c = portable::cos(kTwoPi * k / kDirections), s = portable::sin(kTwoPi * k / kDirections);
        const double square = products[0][0] + products[1][1] * c * c + products[2][2] * s * s +
                              2.0 * (products[0][1] * c + products[0][2] * s + products[1][2] * c * s);
        if (!(square > wanted * wanted)) return false;
    }
    return true;
}

}  // namespace eim
