// Singular values and right singular vectors of small matrices, by rotations of columns (Hestenes 1958). Small singular
// values are accurate even if others are much larger.
#pragma once

#include <algorithm>
#include <cmath>

namespace eim {

// The singular values increase. The columns of `vectors` are in the same order.
template <int kRows, int kColumns>
inline void singular_vectors(const double (&m)[kRows][kColumns], double (&values)[kColumns],
                             double (&vectors)[kColumns][kColumns]) {
    double columns[kColumns][kRows], right[kColumns][kColumns];  // columns of M V; columns of V
    for (int j = 0; j < kColumns; ++j) {
        for (int i = 0; i < kRows; ++i) columns[j][i] = m[i][j];
        for (int i = 0; i < kColumns; ++i) right[j][i] = i == j;
    }
    const auto dot = [](const double* a, const double* b) {
        double sum = 0.0;
        for (int i = 0; i < kRows; ++i) sum += a[i] * b[i];
        return sum;
    };
    const auto rotate = [](double* a, double* b, int n, double c, double s) {
        for (int i = 0; i < n; ++i) {
            const double x = a[i], y = b[i];
            a[i] = c * x - s * y, b[i] = s * x + c * y;
        }
    };
    for (int sweep = 0; sweep < 12; ++sweep) {
        bool is_done = true;
        for (int j = 0; j < kColumns; ++j) {
            for (int k = j + 1; k < kColumns; ++k) {
                const double a = dot(columns[j], columns[j]), b = dot(columns[k], columns[k]);
                const double c = dot(columns[j], columns[k]);
                if (!(std::abs(c) > 1e-14 * std::sqrt(a * b))) continue;
                is_done = false;
                const double zeta = (b - a) / (2.0 * c);
                const double t = std::copysign(1.0, zeta) / (std::abs(zeta) + std::sqrt(1.0 + zeta * zeta));
                const double cosine = 1.0 / std::sqrt(1.0 + t * t), sine = cosine * t;
                rotate(columns[j], columns[k], kRows, cosine, sine);
                rotate(right[j], right[k], kColumns, cosine, sine);
            }
        }
        if (is_done) break;
    }
    int order[kColumns];
    double sizes[kColumns];
    for (int j = 0; j < kColumns; ++j) order[j] = j, sizes[j] = std::sqrt(dot(columns[j], columns[j]));
    std::sort(order, order + kColumns, [&](int a, int b) { return sizes[a] < sizes[b]; });
    for (int j = 0; j < kColumns; ++j) {
        values[j] = sizes[order[j]];
        for (int i = 0; i < kColumns; ++i) vectors[i][j] = right[order[j]][i];
    }
}

}  // namespace eim
