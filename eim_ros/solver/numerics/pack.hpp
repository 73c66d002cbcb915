// Value types of the templates: a number, or a pack of numbers with one configuration in each lane.
//
// A pack is a vector type of the compiler (GCC and Clang). Operators such as +, -, *, /, < and `mask ? a : b` have the
// same syntax for numbers and packs. This header adds functions that the vector types lack. No function assumes finite
// numbers, and NaN stays NaN.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace eim {

using Index = std::ptrdiff_t;

// The number of lanes is the same on all processors, because sums over lanes must also be the same. Processors without
// AVX2 emulate the packs.
inline constexpr int kRegisterBytes = 32;

typedef double WideDouble __attribute__((vector_size(kRegisterBytes)));
typedef float WideFloat __attribute__((vector_size(kRegisterBytes)));

template <class V>
struct Traits {  // traits of packs
    using Scalar = std::remove_cvref_t<decltype(std::declval<V>()[0])>;
    using Mask = decltype(std::declval<V>() < std::declval<V>());
    static constexpr int lanes = sizeof(V) / sizeof(Scalar);
};

template <class V>
    requires std::is_floating_point_v<V>
struct Traits<V> {
    using Scalar = V;
    using Mask = bool;
    static constexpr int lanes = 1;
};

template <class V>
using Scalar = typename Traits<V>::Scalar;
template <class V>
using Mask = typename Traits<V>::Mask;
template <class V>
inline constexpr int kLanes = Traits<V>::lanes;
template <class V>
inline constexpr bool kIsPack = kLanes<V> > 1;
inline constexpr int kMostLanes = kRegisterBytes / sizeof(float);

// Returns the version of a value for numbers of type S.
template <class S, class Double, class Single>
inline const auto& in_precision(const Double& in_double, const Single& in_single) {
    if constexpr (std::is_same_v<S, double>) {
        return in_double;
    } else {
        return in_single;
    }
}

// Returns the number in one lane.
template <class V>
inline Scalar<V> get(const V& v, [[maybe_unused]] int lane) {
    if constexpr (kIsPack<V>) {
        return v[lane];
    } else {
        return v;
    }
}

template <class V>
inline void set(V& v, [[maybe_unused]] int lane, Scalar<V> x) {
    if constexpr (kIsPack<V>) {
        v[lane] = x;
    } else {
        v = x;
    }
}

template <class V>
inline V fill(std::type_identity_t<Scalar<V>> x) {
    if constexpr (kIsPack<V>) {
        return x - V{};
    } else {
        return x;
    }
}

template <class M>
inline bool get_mask(const M& mask, [[maybe_unused]] int lane) {
    if constexpr (std::is_integral_v<M>) {  // two scalar masks combined by & or | have type int
        return mask != 0;
    } else {
        return mask[lane] != 0;
    }
}

template <class M>
inline bool any(const M& mask) {
    if constexpr (std::is_integral_v<M>) {
        return mask != 0;
    } else {
#if defined(__AVX2__)
        if constexpr (sizeof(M) == 32) return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#endif
        std::uint64_t words[sizeof(M) / 8], joined = 0;
        std::memcpy(words, &mask, sizeof(M));
        for (std::uint64_t word : words) joined |= word;
        return joined != 0;
    }
}

// Returns the sum of the lanes, added pairwise.
template <class V>
inline Scalar<V> sum(const V& v) {
    if constexpr (kLanes<V> == 1) {
        return v;
    } else if constexpr (kLanes<V> == 2) {
        return v[0] + v[1];
    } else {
        typedef Scalar<V> Half __attribute__((vector_size(sizeof(V) / 2)));
        Half halves[2];
        std::memcpy(halves, &v, sizeof(V));
        return sum<Half>(halves[0] + halves[1]);
    }
}

template <class V>
inline V square_root(V v) {
#if defined(__AVX2__)
    if constexpr (std::is_same_v<V, WideDouble>) return (V)_mm256_sqrt_pd((__m256d)v);
    if constexpr (std::is_same_v<V, WideFloat>) return (V)_mm256_sqrt_ps((__m256)v);
#endif
    for (int lane = 0; lane < kLanes<V>; ++lane) set(v, lane, std::sqrt(get(v, lane)));
    return v;
}

template <class V>
inline V smaller(V a, V b) {
    return a < b ? a : b;
}

template <class V>
inline V larger(V a, V b) {
    return a > b ? a : b;
}

template <class V>
inline V absolute(V v) {
    if constexpr (kIsPack<V>) {
        return v < Scalar<V>(0) ? -v : v;
    } else {
        return std::abs(v);
    }
}

// A number that is so large that the last bit of its mantissa counts ones. Adding and subtracting this number rounds to
// whole numbers.
template <class S>
inline constexpr S kRounder = std::is_same_v<S, double> ? S(6755399441055744.0) : S(12582912.0);

// Returns the nearest whole number, for |v| < 2^51 (double) or |v| < 2^22 (float).
template <class V>
inline V nearest(V v) {
    return (v + kRounder<Scalar<V>>)-kRounder<Scalar<V>>;
}

// Returns a difference of two angles modulo `turn`. If `turn` is 0, the difference is returned unchanged. `by_turn` is
// 1 / turn, or 0.
template <class V>
inline V wrapped(V difference, Scalar<V> turn, Scalar<V> by_turn) {
    return difference - turn * nearest(difference * by_turn);
}

inline constexpr double kPi = 3.141592653589793238462643383279502884;
inline constexpr double kTwoPi = 2.0 * kPi;

// Returns the equivalent angle in [-pi, pi].
inline double wrapped_angle(double angle) {
    return wrapped(angle, kTwoPi, 1.0 / kTwoPi);
}

}  // namespace eim
