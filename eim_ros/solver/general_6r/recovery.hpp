// Recovery of the solutions of a loop from zeros of its resultant.
//
// At a zero t3, the null vector of M(t3) is (cos t4/2, sin t4/2, cos 3 t4/2, sin 3 t4/2) x (1, c5, s5), up to a factor.
// Two inverse iterations with the triangular factor of M compute this vector, which gives t4 and t5. The elimination
// gives t1 and t2, and the rotation of the loop gives t6. Newton's method makes these angles accurate.
#pragma once

#include "general_6r/isolation.hpp"
#include "numerics/portable.hpp"

namespace eim {

// Distinct solutions of a loop, with each angle in [-pi, pi]. Values of prismatic joints are not limited.
struct LoopSolutions {
    static constexpr int kMost = 32;
    static constexpr double kSame = 1e-6;  // [rad]: solutions with smaller differences count as one

    int n = 0;
    double angles[kMost][6];
    bool slides[6] = {};  // whether each joint is prismatic

    // Whether some solution differs from q by less than a tolerance [rad] in every joint.
    template <class Row>
    bool contains(const Row& q, double tolerance) const {
        for (int i = 0; i < n; ++i) {
            double most = 0.0;
            for (int j = 0; j < 6; ++j) {
                const double difference = angles[i][j] - q[j];
                most = std::max(most, std::abs(slides[j] ? difference : wrapped_angle(difference)));
            }
            if (most < tolerance) return true;
        }
        return false;
    }

    // Adds a solution unless it is already contained. Returns whether the solution was added.
    bool add(const double (&q)[6]) {
        if (n == kMost || contains(q, kSame)) return false;
        for (int j = 0; j < 6; ++j) angles[n][j] = slides[j] ? q[j] : wrapped_angle(q[j]);
        ++n;
        return true;
    }
};

// Computes null vectors of M at angles t3, one vector in each lane.
inline void null_vectors(const Elimination& elimination, const WideDouble& t3, WideDouble (&v)[12]) {
    using V = WideDouble;
    const SineCosine<V> turn = sine_and_cosine(t3);
    V m[12][12];
    elimination.matrix(turn.cosine, turn.sine, m);
    triangularise(m);
    for (int i = 0; i < 12; ++i) {
        const V size = absolute(m[i][i]);
        m[i][i] = 1.0 / (size > 1e-18 ? m[i][i] : fill<V>(1e-18));
        v[i] = fill<V>(0.3 + 0.14 * ((i * 7 + 3) % 5) - 0.4 * ((i * 5) % 3));  // arbitrary start
    }
    for (int iteration = 0; iteration < 2; ++iteration) {
        for (int i = 0; i < 12; ++i) {
            for (int k = 0; k < i; ++k) v[i] -= m[k][i] * v[k];
            v[i] *= m[i][i];
        }
        V square{};
        for (int i = 11; i >= 0; --i) {
            for (int k = i + 1; k < 12; ++k) v[i] -= m[i][k] * v[k];
            v[i] *= m[i][i], square += v[i] * v[i];
        }
        const V factor = 1.0 / square_root(square);
        for (V& entry : v) entry *= factor;
    }
}

// Completes the angles of a solution from t3 and the null vector.
inline void recover(const Elimination& elimination, const Loop& loop, double t3, const double (&v)[12],
                    double (&angles)[6]) {
    int best = 0;  // row of the outer product with the largest norm
    double norm = -1.0;
    for (int i = 0; i < 4; ++i) {
        const double* row = v + 3 * i;
        const double square = row[0] * row[0] + row[1] * row[1] + row[2] * row[2];
        if (square > norm) norm = square, best = i;
    }
    const double* y = v + 3 * best;
    const auto along = [&](int i) { return v[3 * i] * y[0] + v[3 * i + 1] * y[1] + v[3 * i + 2] * y[2]; };
    const double sign = y[0] < 0.0 ? -1.0 : 1.0;
    angles[2] = t3;
    angles[3] = loop.slides[3] ? along(1) / along(0) : 2.0 * portable::atan2(along(1), along(0));
    if (loop.slides[4]) {  // the value is the tangent of half the angle
        angles[4] = sign * y[1] > 0.0 ? y[2] / (y[0] + y[1]) : (y[0] - y[1]) / y[2];
    } else {
        angles[4] = portable::atan2(sign * y[2], sign * y[1]);
    }
    elimination.complete(angles);
    // with t6 = 0 the loop is A L6, and A Rz(t6) L6 = 1
    Motion all = loop.links[5];
    for (int i = 4; i >= 0; --i) {
        all = loop.links[i] * all;
        if (loop.slides[i]) {
            all.translation.z += angles[i];
            continue;
        }
        const double c = portable::cos(angles[i]), s = portable::sin(angles[i]);
        const Vector x = all.rows[0], z = all.rows[1];
        const Vector p = all.translation;
        all.rows[0] = x * c - z * s, all.rows[1] = x * s + z * c;
        all.translation = {c * p.x - s * p.y, s * p.x + c * p.y, p.z};
    }
    // all = A L6; Rz(t6) = A^-1 L6^-1 = L6 all^-1 L6^-1, the rotation by t6 about the axis of L6
    const Motion turn = loop.links[5] * all.inverse() * loop.links[5].inverse();
    angles[5] = portable::atan2(turn.rows[1].x - turn.rows[0].y, turn.rows[0].x + turn.rows[1].y);
}

// Result of recovering solutions from zeros of a resultant.
struct Recovered {
    int n_added = 0;
    double pivot = 1.0;  // smallest pivot of Newton's method; 0 along a continuum of solutions
};

// Recovers solutions from angles t3, and moves them onto a loop. The elimination belongs to the loop `near`, which may
// differ slightly from `loop`. The solutions are stored with the order and the signs of the angles in the original
// loop.
inline Recovered recover_all(const Elimination& elimination, const Loop& near, const Loop& loop,
                             const LoopView<6>& view, const double* t3, int n, LoopSolutions& found) {
    using V = WideDouble;
    constexpr int W = kLanes<V>;
    Recovered recovered;
    for (int first = 0; first < n; first += W) {
        const int n_lanes = std::min(W, n - first);
        V angle, vectors[12], rows[6];
        for (int lane = 0; lane < W; ++lane) angle[lane] = t3[first + std::min(lane, n_lanes - 1)];
        null_vectors(elimination, angle, vectors);
        for (int lane = 0; lane < W; ++lane) {
            double v[12], angles[6] = {};
            if (lane < n_lanes) {
                for (int i = 0; i < 12; ++i) v[i] = vectors[i][lane];
                recover(elimination, near, t3[first + lane], v, angles);
            }
            for (int j = 0; j < 6; ++j) rows[j][lane] = angles[j];  // spare lanes repeat the last solution
            if (lane >= n_lanes) {
                for (int j = 0; j < 6; ++j) rows[j][lane] = rows[j][n_lanes - 1];
            }
        }
        const Closed<V> closed = close_loop(loop, rows);
        for (int lane = 0; lane < n_lanes; ++lane) {
            if (!get_mask(closed.converged, lane)) continue;
            recovered.pivot = std::min(recovered.pivot, get(closed.pivot, lane));
            double q[6];
            for (int j = 0; j < 6; ++j) q[view.joint(j)] = view.sign() * rows[j][lane];
            recovered.n_added += found.add(q);
        }
    }
    return recovered;
}

// Moves configurations onto a loop, and adds them to the known solutions. Returns the smallest pivot of Newton's
// method.
inline double add_near(const Loop& loop, const LoopSolutions& near, LoopSolutions& found) {
    using V = WideDouble;
    constexpr int W = kLanes<V>;
    double pivot = 1.0;
    for (int first = 0; first < near.n; first += W) {
        const int n_lanes = std::min(W, near.n - first);
        V rows[6];
        for (int lane = 0; lane < W; ++lane) {
            for (int j = 0; j < 6; ++j) rows[j][lane] = near.angles[first + std::min(lane, n_lanes - 1)][j];
        }
        const Closed<V> closed = close_loop(loop, rows);
        for (int lane = 0; lane < n_lanes; ++lane) {
            if (!get_mask(closed.converged, lane)) continue;
            double q[6];
            for (int j = 0; j < 6; ++j) q[j] = rows[j][lane];
            pivot = std::min(pivot, get(closed.pivot, lane)), found.add(q);
        }
    }
    return pivot;
}

// Adds the partners of solutions near a fold, where two solutions nearly meet.
//
// Let n and u be the null directions of the Jacobian, with u^T J n = sigma. Along n, u^T F is s sigma + s^2 u^T F''(n,
// n) / 2. The partner is therefore near s = -2 sigma / u^T F''(n, n).
inline void add_partners(const Loop& loop, LoopSolutions& found) {
    using V = WideDouble;
    constexpr int W = kLanes<V>;
    constexpr double kFold = 0.1, kFarthest = 1.5, h = 1e-4;
    const int n_before = found.n;
    for (int first = 0; first < n_before; first += W) {
        const int n_lanes = std::min(W, n_before - first);
        V q[6];
        for (int lane = 0; lane < W; ++lane) {
            const double* row = found.angles[first + std::min(lane, n_lanes - 1)];
            for (int j = 0; j < 6; ++j) q[j][lane] = row[j];
        }
        const LoopState<V> state(loop, q);
        V jacobian[6][6], m[6][6], normal[6], direction[6], r[6], ahead[6], behind[6], moved[6];
        state.jacobian(jacobian), state.residual(r);
        for (int i = 0; i < 6; ++i) {
            for (int j = 0; j < 6; ++j) m[i][j] = jacobian[i][j];
        }
        triangularise(m);
        // inverse iteration with J^T J = R^T R gives n; u = J n / |J n|
        const double start[6] = {0.5, -0.3, 0.7, 0.2, -0.6, 0.4};
        for (int j = 0; j < 6; ++j) direction[j] = fill<V>(start[j]);
        V size{};
        for (int iteration = 0; iteration < 3; ++iteration) {
            for (int i = 0; i < 6; ++i) {
                for (int k = 0; k < i; ++k) direction[i] -= m[k][i] * direction[k];
                direction[i] /= m[i][i];
            }
            V square{};
            for (int i = 5; i >= 0; --i) {
                for (int k = i + 1; k < 6; ++k) direction[i] -= m[i][k] * direction[k];
                direction[i] /= m[i][i], square += direction[i] * direction[i];
            }
            for (V& entry : direction) entry /= square_root(square);
        }
        for (int i = 0; i < 6; ++i) {
            normal[i] = V{};
            for (int j = 0; j < 6; ++j) normal[i] += jacobian[i][j] * direction[j];
            size += normal[i] * normal[i];
        }
        const V sigma = square_root(size);
        for (int j = 0; j < 6; ++j) normal[j] /= sigma, moved[j] = q[j] + h * direction[j];
        LoopState<V>(loop, moved).residual(ahead);
        for (int j = 0; j < 6; ++j) moved[j] = q[j] - h * direction[j];
        LoopState<V>(loop, moved).residual(behind);
        V curvature{};
        for (int i = 0; i < 6; ++i) curvature += normal[i] * (ahead[i] + behind[i] - 2.0 * r[i]) / (h * h);
        const V away = -2.0 * sigma / curvature;
        Mask<V> open = (sigma < kFold) & (absolute(away) < kFarthest);
        for (const double factor : {1.0, 1.6, 0.6}) {
            if (!any(open)) break;
            V there[6];
            for (int j = 0; j < 6; ++j) there[j] = open ? q[j] + factor * away * direction[j] : q[j];
            const Closed<V> closed = close_loop(loop, there, 10);
            for (int lane = 0; lane < n_lanes; ++lane) {
                if (!get_mask(open, lane) || !get_mask(closed.converged, lane)) continue;
                double row[6];
                for (int j = 0; j < 6; ++j) row[j] = there[j][lane];
                if (found.add(row)) open[lane] = 0;
            }
        }
    }
}

}  // namespace eim
