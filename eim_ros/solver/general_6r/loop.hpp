// A closed loop of six joints and six links, Rz(t1) L1 Rz(t2) L2 ... Rz(t6) L6 = 1, and Newton's method for it.
//
// Joint i rotates about the z axis of its frame. If the joint is prismatic, it slides along this axis, by Tz(d) instead
// of Rz(t). L1 to L5 are fixed. L6 connects the tip with the first axis, and contains the target pose. Lengths are
// divided by half the sum of the lengths of L1 to L5, which makes them comparable with angles.
#pragma once

#include <algorithm>

#include "general_6r/householder.hpp"
#include "general_6r/line_vector.hpp"
#include "numerics/trigonometry.hpp"

namespace eim {

template <int N, class T = double>
struct LoopOf {
    MotionOf<T> links[N];
    bool slides[N] = {};  // whether each joint is prismatic
};
using Loop = LoopOf<6>;

// A loop that is read forwards or backwards from any of its joints. Backward reading negates all angles:
//
//    Rz(-t6) L5^-1 Rz(-t5) L4^-1 ... Rz(-t1) L6^-1 = 1.
template <int N>
struct LoopView {
    static constexpr int count = 2 * N;

    int start = 0;
    bool is_backwards = false;

    explicit LoopView(int number) : start(number % N), is_backwards(number >= N) {}

    template <class T>
    LoopOf<N, T> of(const LoopOf<N, T>& loop) const {
        LoopOf<N, T> view;
        for (int i = 0; i < N; ++i) {
            const int k = (i + start) % N;
            view.slides[i] = loop.slides[joint(i)];
            if (is_backwards) {
                view.links[i] = loop.links[k == N - 1 ? k : N - 2 - k].inverse();
            } else {
                view.links[i] = loop.links[k];
            }
        }
        return view;
    }
    // Returns the index in the original loop of the joint at position i of the view.
    int joint(int i) const {
        const int k = (i + start) % N;
        return is_backwards ? N - 1 - k : k;
    }
    double sign() const { return is_backwards ? -1.0 : 1.0; }
};

// Configurations of a loop, one in each lane, with the axes of the joints and the motion of the complete loop.
template <class V>
struct LoopState {
    V axis[6][3], origin[6][3];
    V x[3], y[3], z[3], p[3];  // columns of the rotation of the loop; its translation
    bool slides[6];

    LoopState(const Loop& loop, const V (&angles)[6]) {
        std::copy_n(loop.slides, 6, slides);
        for (int k = 0; k < 3; ++k) {
            x[k] = fill<V>(k == 0), y[k] = fill<V>(k == 1), z[k] = fill<V>(k == 2), p[k] = V{};
        }
        for (int i = 0; i < 6; ++i) {
            const SineCosine<V> turn = sine_and_cosine(slides[i] ? V{} : angles[i]);
            const V slid = slides[i] ? angles[i] : V{};
            const Motion& link = loop.links[i];
            const Vector &r0 = link.rows[0], &r1 = link.rows[1], &r2 = link.rows[2], &t = link.translation;
            for (int k = 0; k < 3; ++k) {
                axis[i][k] = z[k], origin[i][k] = p[k];
                const V a = x[k] * turn.cosine + y[k] * turn.sine, b = y[k] * turn.cosine - x[k] * turn.sine, c = z[k];
                p[k] += a * t.x + b * t.y + c * (t.z + slid);
                x[k] = a * r0.x + b * r1.x + c * r2.x;
                y[k] = a * r0.y + b * r1.y + c * r2.y;
                z[k] = a * r0.z + b * r1.z + c * r2.z;
            }
        }
    }

    // Computes the residual of the loop: its translation, and the axis of its rotation times the sine of the angle. The
    // residual of a closed loop is 0.
    void residual(V (&r)[6]) const {
        for (int k = 0; k < 3; ++k) r[k] = p[k];
        r[3] = 0.5 * (y[2] - z[1]), r[4] = 0.5 * (z[0] - x[2]), r[5] = 0.5 * (x[1] - y[0]);
    }

    // Fills the first six columns with the Jacobian of the residual. The Jacobian is exact if the rotation of the loop
    // is the identity.
    template <int C>
    void jacobian(V (&rows)[6][C]) const {
        for (int j = 0; j < 6; ++j) {
            const V a = p[0] - origin[j][0], b = p[1] - origin[j][1], c = p[2] - origin[j][2];
            const V* w = axis[j];
            if (slides[j]) {
                for (int k = 0; k < 3; ++k) rows[k][j] = w[k], rows[3 + k][j] = V{};
                continue;
            }
            rows[0][j] = w[1] * c - w[2] * b, rows[1][j] = w[2] * a - w[0] * c, rows[2][j] = w[0] * b - w[1] * a;
            for (int k = 0; k < 3; ++k) rows[3 + k][j] = w[k];
        }
    }
};

inline constexpr double kLoopStep = 1e-8;  // [rad]: largest last Newton step; the error is about its square
inline constexpr double kLoopError = 1e-8;
inline constexpr double kLongestLoopStep = 0.5;  // [rad]
inline constexpr double kNoPivot = 1e-14;
inline constexpr int kMostLoopSteps = 14;

// The outcome of Newton's method in one lane.
template <class V>
struct Closed {
    Mask<V> converged;
    // Smallest diagonal entry of the triangular factor of the Jacobian in the last step, which is 0 along a continuum
    // of solutions.
    V pivot;
};

// Moves angles onto the loop by Newton's method. A configuration counts as a solution if the last step is small. A
// small residual is not a sufficient criterion, because many configurations near a double root have small residuals.
template <class V>
inline Closed<V> close_loop(const Loop& loop, V (&angles)[6], int most_steps = kMostLoopSteps) {
    Closed<V> closed{};
    closed.pivot = fill<V>(1.0);
    Mask<V> active = ~Mask<V>{};
    for (int step = 0; step < most_steps && any(active); ++step) {
        const LoopState<V> state(loop, angles);
        V r[6], m[6][7];
        state.residual(r), state.jacobian(m);
        V error{}, longest{};
        for (int i = 0; i < 6; ++i) error = larger(error, absolute(r[i])), m[i][6] = -r[i];
        // the sine is also small at half a turn
        error = state.x[0] + state.y[1] + state.z[2] > 0.0 ? error : fill<V>(1.0);
        triangularise(m);
        V pivot = fill<V>(1.0), d[6];
        for (int i = 5; i >= 0; --i) {
            V sum = m[i][6];
            for (int j = i + 1; j < 6; ++j) sum -= m[i][j] * d[j];
            d[i] = sum / m[i][i], pivot = smaller(pivot, absolute(m[i][i])), longest = larger(longest, absolute(d[i]));
        }
        const Mask<V> can_step = active & (pivot > kNoPivot) & (longest < 1e15);
        const V scale = longest > kLongestLoopStep ? kLongestLoopStep / longest : fill<V>(1.0);
        for (int i = 0; i < 6; ++i) angles[i] = can_step ? angles[i] + scale * d[i] : angles[i];
        closed.pivot = active ? pivot : closed.pivot;
        const Mask<V> done = can_step & (longest < kLoopStep) & (error < kLoopError);
        closed.converged |= done;
        active = can_step & ~done;
    }
    return closed;
}

}  // namespace eim
