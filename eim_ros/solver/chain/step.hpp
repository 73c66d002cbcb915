// One step of damped least squares:
//
//    q <- clamp(q + J^T y),    (J J^T + lambda^2 I) y = e
//
// (Nakamura and Hanafusa 1986; error-dependent damping: Sugihara 2011). If a step would push a joint beyond its limit,
// the column of this joint in J is set to zero. The step then uses only joints that can move.
#pragma once

#include "chain/task.hpp"

namespace eim {

inline constexpr double kPivotFloor = 1e-14;

// Lower triangle of J J^T + damping I, and later its Cholesky factor with reciprocals on the diagonal.
template <class V>
struct Damped {
    V lower[6][6];
    int n;  // 3 if only the position counts, otherwise 6
};

template <int N, class V>
inline Damped<V> factorised(const Chain& chain, const V (*jacobian)[6], bool position_only, V damping) {
    using S = Scalar<V>;
    Damped<V> factor;
    V(&a)[6][6] = factor.lower;
    factor.n = position_only ? 3 : 6;
    const int n_joints = joints_of<N>(chain);
    const auto products = [&]<int Row, int Column>() {  // a block of 3 x 3 entries, whose sums fit into the registers
        V sums[9] = {};
        for (int j = 0; j < n_joints; ++j) {
            const V* of = jacobian[j];
#pragma GCC unroll 9
            for (int i = 0; i < 9; ++i) {
                if (Row != Column || i % 3 <= i / 3) sums[i] += of[Row + i / 3] * of[Column + i % 3];
            }
        }
        for (int i = 0; i < 9; ++i) a[Row + i / 3][Column + i % 3] = sums[i];
    };
    products.template operator()<0, 0>();
    if (!position_only) products.template operator()<3, 0>(), products.template operator()<3, 3>();
    const auto eliminate = [&]<int Size>() {
#pragma GCC unroll 6
        for (int c = 0; c < Size; ++c) {
            V pivot = a[c][c] + damping;
#pragma GCC unroll 6
            for (int k = 0; k < c; ++k) pivot -= a[c][k] * a[c][k];
            const V scale = S(1) / square_root(larger(pivot, fill<V>(S(kPivotFloor))));
            a[c][c] = scale;
#pragma GCC unroll 6
            for (int r = c + 1; r < Size; ++r) {
                V entry = a[r][c];
#pragma GCC unroll 6
                for (int k = 0; k < c; ++k) entry -= a[r][k] * a[c][k];
                a[r][c] = entry * scale;
            }
        }
    };
    position_only ? eliminate.template operator()<3>() : eliminate.template operator()<6>();
    return factor;
}

// Solves (J J^T + damping I) y = e.
template <class V>
inline void solve(const Damped<V>& factor, const V (&e)[6], V (&y)[6]) {
    const V(&a)[6][6] = factor.lower;
    const auto substitute = [&]<int Size>() {
#pragma GCC unroll 6
        for (int r = 0; r < Size; ++r) {
            V value = e[r];
#pragma GCC unroll 6
            for (int k = 0; k < r; ++k) value -= a[r][k] * y[k];
            y[r] = value * a[r][r];
        }
#pragma GCC unroll 6
        for (int r = Size - 1; r >= 0; --r) {
            V value = y[r];
#pragma GCC unroll 6
            for (int k = r + 1; k < Size; ++k) value -= a[k][r] * y[k];
            y[r] = value * a[r][r];
        }
    };
    for (int k = factor.n; k < 6; ++k) y[k] = V{};
    factor.n == 3 ? substitute.template operator()<3>() : substitute.template operator()<6>();
}

template <class V>
inline V product(const V* a, const V* b) {
    return (a[0] * b[0] + a[1] * b[1] + a[2] * b[2]) + (a[3] * b[3] + a[4] * b[4] + a[5] * b[5]);
}

// Sets the columns of joints to zero that are at a limit and that J^T y would move beyond it. The vector y is an error
// or a step. Returns whether a column was changed.
template <int N, class V>
inline bool hold_at_limits(const Chain& chain, const Bounds<Scalar<V>>& bounds, const V* q, const V (&y)[6],
                           V (*jacobian)[6]) {
    bool holds = false;
    for (int j = 0; j < joints_of<N>(chain); ++j) {
        if (bounds.wraps[j]) continue;
        const auto low = q[j] <= bounds.lower[j], high = q[j] >= bounds.upper[j];
        if (!any(low | high)) continue;
        const V push = product(jacobian[j], y);
        const auto stuck = (low & (push < Scalar<V>(0))) | (high & (push > Scalar<V>(0)));
        for (int k = 0; k < 6; ++k) jacobian[j][k] = stuck ? V{} : jacobian[j][k];
        holds |= any(stuck);
    }
    return holds;
}

// Computes q <- q + J^T y, wraps continuous joints, and clamps the other joints to their limits.
template <int N, class V>
inline void move(const Chain& chain, const Bounds<Scalar<V>>& bounds, const V (*jacobian)[6], const V (&y)[6], V* q) {
    for (int j = 0; j < joints_of<N>(chain); ++j) q[j] = within(bounds, j, q[j] + product(jacobian[j], y));
}

}  // namespace eim
