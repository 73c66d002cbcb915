// Sine, cosine and arctangent of packs, without branches. Errors are below 2^-52 (double) or 2^-22 (float).
#pragma once

#include "numerics/pack.hpp"
#include "numerics/portable.hpp"

namespace eim {

template <class V>
struct SineCosine {
    V sine, cosine;
};

inline constexpr double kLargeAngle = 1e5;

template <class V>
SineCosine<V> sine_and_cosine_with_large(V x);

// Returns sine and cosine for |x| < 1e5.
//
// Let x = k pi/2 + r with |r| <= pi/4, where pi/2 is split into two parts (Cody and Waite 1980). The result follows
// from Taylor series of r.
template <class V>
inline SineCosine<V> sine_and_cosine_of_small(V x) {
    using S = Scalar<V>;
    const V shifted = x * S(0.636619772367581343) + kRounder<S>;  // the last bits are those of k
    const V k = shifted - kRounder<S>;
    V s, c, z;
    V r;
    if constexpr (std::is_same_v<S, double>) {
        r = (x - k * 0x1.921fb544p+0) - k * 0x1.0b4611a626331p-34;  // 33 bits: exact times k < 2^20
        // Estrin's scheme has shorter chains of operations than Horner's scheme
        z = r * r;
        const V z2 = z * z, z4 = z2 * z2;
        s = (-1.0 / 6 + z * (1.0 / 120)) + z2 * (-1.0 / 5040 + z * (1.0 / 362880)) +
            z4 * ((-1.0 / 39916800 + z * (1.0 / 6227020800)) - z2 * (1.0 / 1307674368000));
        s = r + (r * z) * s;
        c = (1.0 / 24 - z * (1.0 / 720)) + z2 * (1.0 / 40320 - z * (1.0 / 3628800)) +
            z4 * ((1.0 / 479001600 - z * (1.0 / 87178291200)) + z2 * (1.0 / 20922789888000));
        c = (1.0 - 0.5 * z) + z2 * c;
    } else {
        r = ((x - k * 0x1.92p+0f) - k * 0x1.fb4p-12f) - k * 0x1.4442d2p-24f;
        z = r * r;
        s = r + r * z * (-1.0f / 6 + z * (1.0f / 120 + z * (-1.0f / 5040 + z * (1.0f / 362880))));
        c = 1.0f - 0.5f * z + z * z * (1.0f / 24 + z * (-1.0f / 720 + z * (1.0f / 40320)));
    }
    if constexpr (kIsPack<V>) {
        using Bits = Mask<V>;
        const Bits bits = (Bits)shifted, odd = -(bits & 1), sign_shift = Bits{} + (sizeof(S) * 8 - 2);
        const V first = odd ? c : s, second = odd ? s : c;
        return {(V)((Bits)first ^ ((bits & 2) << sign_shift)), (V)((Bits)second ^ (((bits + 1) & 2) << sign_shift))};
    } else {
        using Bits = std::conditional_t<sizeof(S) == 8, std::uint64_t, std::uint32_t>;
        const Bits bits = std::bit_cast<Bits>(shifted);
        const V first = bits & 1 ? c : s, second = bits & 1 ? s : c;
        return {bits & 2 ? -first : first, (bits + 1) & 2 ? -second : second};
    }
}

// Returns sine and cosine of any angle. Lanes with large angles are computed one by one.
template <class V>
inline SineCosine<V> sine_and_cosine(V x) {
    if (any(!(absolute(x) < Scalar<V>(kLargeAngle)))) return sine_and_cosine_with_large(x);
    return sine_and_cosine_of_small(x);
}

template <class V>
[[gnu::noinline, gnu::cold]] SineCosine<V> sine_and_cosine_with_large(V x) {
    const V all = x;
    const auto is_large = [&](int lane) { return !(std::abs(get(all, lane)) < Scalar<V>(kLargeAngle)); };
    for (int lane = 0; lane < kLanes<V>; ++lane) {
        if (is_large(lane)) set(x, lane, Scalar<V>(0));
    }
    SineCosine<V> result = sine_and_cosine(x);
    for (int lane = 0; lane < kLanes<V>; ++lane) {
        if (!is_large(lane)) continue;
        const portable::SineCosine turn = portable::sincos(get(all, lane));
        set(result.sine, lane, Scalar<V>(turn.sine)), set(result.cosine, lane, Scalar<V>(turn.cosine));
    }
    return result;
}

// Returns the angle in [0, pi] with sine s >= 0 and cosine c, where both are given up to a common factor.
//
// The first estimate t has an error of 1e-5 (Hastings 1955). In double precision, the sine of the remaining angle, s
// cos t - c sin t, corrects it.
template <class V>
inline V angle_of(V s, V c) {
    using S = Scalar<V>;
    constexpr S tiny = std::is_same_v<S, double> ? S(1e-300) : S(1e-30);
    const V size = absolute(c);
    const V a = smaller(s, size) / larger(larger(s, size), fill<V>(tiny)), b = a * a;
    V t = a * (S(0.9998660) + b * (S(-0.3302995) + b * (S(0.1801410) + b * (S(-0.0851330) + b * S(0.0208351)))));
    t = s > size ? S(0.5 * kPi) - t : t;
    t = c < S(0) ? S(kPi) - t : t;
    if constexpr (std::is_same_v<S, double>) {
        const SineCosine<V> guess = sine_and_cosine_of_small(t);
        const V left = (s * guess.cosine - c * guess.sine) / square_root(larger(s * s + c * c, fill<V>(tiny)));
        t = t + left + left * left * left * (1.0 / 6.0);
    }
    return t;
}

// Returns the angle in [-pi, pi] of the direction (x, y). The angle is more accurate for single numbers than for packs.
template <class V>
inline V angle_towards(V y, V x) {
    if constexpr (kIsPack<V>) {
        const V size = angle_of(absolute(y), x);
        return y < Scalar<V>(0) ? -size : size;
    } else {
        return portable::atan2(y, x);
    }
}

// Returns sine and cosine of an angle below 1e5. Results for single numbers are more accurate than results for packs.
template <class V>
inline SineCosine<V> turn_by(V angle) {
    if constexpr (kIsPack<V>) {
        return sine_and_cosine_of_small(angle);
    } else {
        const portable::SineCosine turn = portable::sincos(angle);
        return {turn.sine, turn.cosine};
    }
}

}  // namespace eim
