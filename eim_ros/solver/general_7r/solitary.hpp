// Proof that no solution is near a place where f is 0 for another reason, such as two complex solutions.
//
// Two complex conjugate solutions can have the same real s and t. There, f is 0 at an isolated point, without a real
// solution. M has two null vectors, which span no vector of the form
//
//    x = (cos u, sin u, cos 3u, sin 3u) x (1, c5, s5),   u = t4 / 2,
//
// as a 4 x 3 matrix. Such vectors are zeros of quadratic forms q: minors of order 2, and identities of the angles
// within rows and columns. For vectors of length up to 1, |q(x) - q(y)| <= kRate |x - y|.
//
// At a solution in a cell, M x = 0 for an x of this form and length 1. So |M0 x| <= d, where M0 is the matrix at the
// middle and d bounds the change of M over the cell. Let N be the span of the right singular vectors of the two
// smallest singular values of M0, and sigma the third smallest. The part of x outside N is at most rho = d / sigma, so
// a vector z of length 1 in N has |x - z| <= rho + rho^2, and |q(z)| <= kRate (rho + rho^2). If no z has, there is no
// solution.
#pragma once

#include "general_6r/elimination.hpp"
#include "numerics/portable.hpp"

namespace eim {

// Right singular vectors of a 12 x 12 matrix, by rotations of its columns (Hestenes 1958). The columns of `vectors` are
// in the order of the singular values, which increase.
inline void singular_vectors(double (&m)[12][12], double (&values)[12], double (&vectors)[12][12]) {
    double columns[12][12], right[12][12];  // columns[j] is a column of M V, right[j] a column of V
    for (int i = 0; i < 12; ++i) {
        for (int j = 0; j < 12; ++j) columns[j][i] = m[i][j], right[j][i] = i == j;
    }
    const auto dot = [](const double* a, const double* b) {
        double sum = 0.0;
        for (int i = 0; i < 12; ++i) sum += a[i] * b[i];
        return sum;
    };
    const auto rotate = [](double* a, double* b, double c, double s) {
        for (int i = 0; i < 12; ++i) {
            const double x = a[i], y = b[i];
            a[i] = c * x - s * y, b[i] = s * x + c * y;
        }
    };
    for (int sweep = 0; sweep < 12; ++sweep) {
        bool is_done = true;
        for (int j = 0; j < 12; ++j) {
            for (int k = j + 1; k < 12; ++k) {
                const double a = dot(columns[j], columns[j]), b = dot(columns[k], columns[k]);
                const double c = dot(columns[j], columns[k]);
                if (!(std::abs(c) > 1e-14 * std::sqrt(a * b))) continue;
                is_done = false;
                const double zeta = (b - a) / (2.0 * c);
                const double t = std::copysign(1.0, zeta) / (std::abs(zeta) + std::sqrt(1.0 + zeta * zeta));
                const double cosine = 1.0 / std::sqrt(1.0 + t * t), sine = cosine * t;
                rotate(columns[j], columns[k], cosine, sine), rotate(right[j], right[k], cosine, sine);
            }
        }
        if (is_done) break;
    }
    int order[12];
    double sizes[12];
    for (int j = 0; j < 12; ++j) order[j] = j, sizes[j] = std::sqrt(dot(columns[j], columns[j]));
    std::sort(order, order + 12, [&](int a, int b) { return sizes[a] < sizes[b]; });
    for (int j = 0; j < 12; ++j) {
        values[j] = sizes[order[j]];
        for (int i = 0; i < 12; ++i) vectors[i][j] = right[order[j]][i];
    }
}

// The quadratic forms that vanish for vectors of solutions.
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

// Whether no solution is in a cell over which M changes by at most `change`. Takes M at its middle.
inline bool is_without_solution(double (&m)[12][12], double change) {
    constexpr int kDirections = 1024;
    constexpr double kRounding = 1e-12;
    double values[12], vectors[12][12];
    singular_vectors(m, values, vectors);
    const double rho = (change + kRounding) / values[2];
    if (!(rho < 0.1)) return false;
    const double wanted = SolutionForms::kRate * (rho + rho * rho + 0.5 * kPi / kDirections) + kRounding;
    // on N, q = mean + even cos 2a + odd sin 2a at the direction a
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
