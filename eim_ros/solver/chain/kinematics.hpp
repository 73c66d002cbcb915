// Forward kinematics and Jacobian of a serial chain, for one configuration or for a pack of configurations.
//
// Each joint rotates about the z axis of its frame, or slides along it:
//
//    T(q) = P_0 Z(v_0) P_1 Z(v_1) ... P_{m-1} Z(v_{m-1}) P_m,    v_i = multiplier_i q[source_i] + offset_i
//
// (see eim_ros/kinematics/urdf.py). N is the number of joints if all joints are revolute and independent, or 0 for any
// chain. Do not include this header directly: include `chain/chain.hpp`, which defines Chain. Kernels for GPUs use a
// different chain, of fixed size.
#pragma once

#include "chain/link.hpp"

namespace eim {

template <int N>
inline int joints_of(const Chain& chain) {
    return N > 0 ? N : chain.n_joints;
}

template <int N>
inline int links_of(const Chain& chain) {
    return N > 0 ? N : chain.n_links;
}

template <int N>
inline constexpr int kJoints = N > 0 ? N : kMostJoints;  // capacity of arrays
template <int N>
inline constexpr int kLinks = N > 0 ? N : kMostLinks;

template <class V>
struct Frame {
    V x[3], y[3], z[3], origin[3];  // axes and origin [m] in the base frame
};

template <class V, int N>
struct Kinematics {
    Frame<V> tip;
    V origin[kLinks<N>][3], axis[kLinks<N>][3];  // origin and axis of each moving joint
    V jacobian[kJoints<N>][6];                   // transposed: linear [m] and angular components
};

template <int N, class V>
[[gnu::noinline, gnu::cold]] void forward_of_large(const Chain& chain, const V* q, Kinematics<V, N>& at);

// Fills tip, origin and axis. For chains with N > 0, large angles are handled once before the loop. The loop then
// contains no function call.
template <int N, bool AreLarge = N == 0, class V>
inline void forward(const Chain& chain, const V* q, Kinematics<V, N>& at) {
    using S = Scalar<V>;
    if constexpr (!AreLarge) {
        V largest{};
        for (int i = 0; i < N; ++i) largest = larger(largest, absolute(q[i]));
        if (any(largest >= S(kLargeAngle))) return forward_of_large<N>(chain, q, at);
    }
    const Link<S>* link = in_precision<S>(chain.links, chain.single).data();
    V x[3], y[3], z[3], p[3];
    for (int k = 0; k < 3; ++k) {
        x[k] = fill<V>(link->rotation[3 * k]), y[k] = fill<V>(link->rotation[3 * k + 1]);
        z[k] = fill<V>(link->rotation[3 * k + 2]), p[k] = fill<V>(link->translation[k]);
    }
    for (int i = 0; i < links_of<N>(chain); ++i, ++link) {
        const V value = N > 0 ? q[i] : link->multiplier * q[link->source] + link->offset;
        for (int k = 0; k < 3; ++k) at.origin[i][k] = p[k], at.axis[i][k] = z[k];
        if (N == 0 && link->slides) {
            for (int k = 0; k < 3; ++k) p[k] += value * z[k];
        } else {
            const SineCosine<V> turn = AreLarge ? sine_and_cosine(value) : sine_and_cosine_of_small(value);
            for (int k = 0; k < 3; ++k) {
                const V before = x[k];
                x[k] = turn.cosine * before + turn.sine * y[k];
                y[k] = turn.cosine * y[k] - turn.sine * before;
            }
        }
        const S* r = link[1].rotation;
        const S* t = link[1].translation;
        for (int k = 0; k < 3; ++k) {  // the three coordinates are independent
            const V a = x[k], b = y[k], c = z[k];
            p[k] += a * t[0] + b * t[1] + c * t[2];
            x[k] = a * r[0] + b * r[3] + c * r[6];
            y[k] = a * r[1] + b * r[4] + c * r[7];
            z[k] = a * r[2] + b * r[5] + c * r[8];
        }
    }
    for (int k = 0; k < 3; ++k) at.tip.x[k] = x[k], at.tip.y[k] = y[k], at.tip.z[k] = z[k], at.tip.origin[k] = p[k];
}

template <int N, class V>
[[gnu::noinline, gnu::cold]] void forward_of_large(const Chain& chain, const V* q, Kinematics<V, N>& at) {
    forward<N, true>(chain, q, at);
}

// Fills the Jacobian after a call of `forward`. A joint that follows another joint contributes to the column of that
// joint.
template <int N, class V>
inline void differentiate(const Chain& chain, Kinematics<V, N>& at) {
    using S = Scalar<V>;
    if constexpr (N == 0) {
        for (int j = 0; j < chain.n_joints; ++j) {
            for (V& entry : at.jacobian[j]) entry = V{};
        }
    }
    const Link<S>* link = in_precision<S>(chain.links, chain.single).data();
    for (int i = 0; i < links_of<N>(chain); ++i, ++link) {
        const V *z = at.axis[i], *p = at.tip.origin, *o = at.origin[i];
        const V rx = p[0] - o[0], ry = p[1] - o[1], rz = p[2] - o[2];
        const V column[6] = {z[1] * rz - z[2] * ry, z[2] * rx - z[0] * rz, z[0] * ry - z[1] * rx, z[0], z[1], z[2]};
        if constexpr (N > 0) {
            for (int k = 0; k < 6; ++k) at.jacobian[i][k] = column[k];
        } else {
            V* sum = at.jacobian[link->source];
            for (int k = 0; k < (link->slides ? 3 : 6); ++k) {
                sum[k] += link->multiplier * column[link->slides ? k + 3 : k];
            }
        }
    }
}

// Calls function<N>() with the N of a chain.
template <class Function>
inline auto for_kind(const Chain& chain, Function function) {
    if (chain.kind == 7) return function.template operator()<7>();
    if (chain.kind == 6) return function.template operator()<6>();
    return function.template operator()<0>();
}

}  // namespace eim
