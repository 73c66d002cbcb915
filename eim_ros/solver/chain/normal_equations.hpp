// Determinants of J W J^T, which give the size of the solution set in scaled joint coordinates.
#pragma once

#include "chain/refine.hpp"
#include "numerics/portable.hpp"

namespace eim {

// Computes log det(J diag(w) J^T) for configurations (n, n_joints) with weights (n, n_joints). J is the first n_rows
// rows of the Jacobian, where n_rows is 3 or 6. The result is negative infinity if the arm is singular.
//
// For limits of width r, the scaled coordinates are u = q / r. They multiply the squared length, area or volume of a
// piece of the solution set by det(J diag(r^2) J^T) / det(J J^T) / prod r^2 (Cauchy-Binet formula).
template <int N>
inline void gram_log_dets(const Chain& chain, const double* q, const double* weights, Index n, int n_rows,
                          double* result) {
    Kinematics<double, N> at;
    for (Index i = 0; i < n; ++i, q += chain.n_joints, weights += chain.n_joints) {
        double gram[6][6] = {}, sum = 0.0;
        forward<N>(chain, q, at);
        differentiate<N>(chain, at);
        for (int j = 0; j < joints_of<N>(chain); ++j) {
            const double* column = at.jacobian[j];
            for (int r = 0; r < n_rows; ++r) {
                for (int c = 0; c <= r; ++c) gram[r][c] += weights[j] * column[r] * column[c];
            }
        }
        for (int c = 0; c < n_rows; ++c) {
            double pivot = gram[c][c];
            for (int k = 0; k < c; ++k) pivot -= gram[c][k] * gram[c][k];
            sum += portable::log(std::max(pivot, 0.0));
            const double scale = pivot > 0.0 ? 1.0 / std::sqrt(pivot) : 0.0;
            gram[c][c] = scale;
            for (int r = c + 1; r < n_rows; ++r) {
                for (int k = 0; k < c; ++k) gram[r][c] -= gram[r][k] * gram[c][k];
                gram[r][c] *= scale;
            }
        }
        result[i] = sum;
    }
}

}  // namespace eim
