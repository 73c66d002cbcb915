// Householder triangularisation of small matrices, with one matrix in each lane.
#pragma once

#include "numerics/doubled.hpp"

namespace eim {

template <class V, class M>
    requires(!std::is_class_v<V>)
inline V choose(const M& mask, const V& a, const V& b) {
    return mask ? a : b;
}

// Makes the first N columns of a matrix upper triangular by reflections of its rows, and applies the reflections to the
// other columns as well. Returns the determinant of the first N columns. All lanes follow the same steps, because there
// is no pivoting.
template <class V, int N, int C>
inline V triangularise(V (&m)[N][C]) {
    V determinant = fill<V>(1.0);
    for (int k = 0; k < N - 1; ++k) {
        V square{};
        for (int i = k; i < N; ++i) square += m[i][k] * m[i][k];
        const V norm = square_root(square), head = m[k][k];
        const V diagonal = choose(head > 0.0, V(-norm), norm);
        V half = norm * (norm + absolute(head));  // half the squared length of the reflector
        half = choose(half > 0.0, half, fill<V>(1.0));
        const V factor = fill<V>(1.0) / half;
        m[k][k] = head - diagonal;
        for (int j = k + 1; j < C; ++j) {
            V product{};
            for (int i = k; i < N; ++i) product += m[i][k] * m[i][j];
            product *= factor;
            for (int i = k; i < N; ++i) m[i][j] -= product * m[i][k];
        }
        m[k][k] = diagonal;
        determinant *= -diagonal;
    }
    return determinant * m[N - 1][N - 1];
}

}  // namespace eim
