// Check for rigid transforms.
#pragma once

#include <cmath>

namespace eim {

// Whether a transform is rigid: its rotation is orthonormal within a tolerance and right-handed, and its last row is 0
// 0 0 1. The translation must also be below 1e100, because its square must not overflow.
inline bool is_rigid(const double* pose, double tolerance) {
    const auto p = [&](int row, int column) { return pose[4 * row + column]; };
    bool good = std::abs(p(3, 0)) + std::abs(p(3, 1)) + std::abs(p(3, 2)) + std::abs(p(3, 3) - 1.0) <= tolerance &&
                std::abs(p(0, 3)) + std::abs(p(1, 3)) + std::abs(p(2, 3)) < 1e100;
    double determinant = 0.0;
    for (int a = 0; a < 3; ++a) {
        const int b = (a + 1) % 3, c = (a + 2) % 3;
        for (int other = 0; other < 3; ++other) {
            const double dot = p(0, a) * p(0, other) + p(1, a) * p(1, other) + p(2, a) * p(2, other);
            good = good && std::abs(dot - (a == other)) <= tolerance;
        }
        determinant += p(0, a) * (p(1, b) * p(2, c) - p(1, c) * p(2, b));
    }
    return good && determinant > 0.0;
}

}  // namespace eim
