// The exponential function for packs of numbers.
#pragma once

#include <bit>
#include <cstdint>

#include "numerics/pack.hpp"

namespace eim {

// Returns exp(x) as 2^n times a polynomial of x - n log 2. The result is accurate up to rounding, unless it is
// subnormal or infinite.
template <class V>
inline V exponential(V x) {
    constexpr bool kDouble = std::is_same_v<Scalar<V>, double>;
    using Integer = std::conditional_t<kDouble, std::int64_t, std::int32_t>;
    typedef Integer Bits __attribute__((vector_size(sizeof(V))));
    using S = Scalar<V>;
    const V shifted = x * S(1.4426950408889634) + kRounder<S>;  // the lowest bits contain n
    const V n = shifted - kRounder<S>;
    // log 2 in two parts; the product of n and the first part is exact
    constexpr S kHigh = kDouble ? S(0.693147180369123816490) : S(0.693359375);
    constexpr S kLow = kDouble ? S(1.90821492927058770002e-10) : S(-2.12194440054690583e-4);
    const V y = (x - n * kHigh) - n * kLow;
    V p = fill<V>(S(1));
#pragma GCC unroll 13
    for (int order = kDouble ? 13 : 7; order > 0; --order) p = S(1) + y * p * (S(1) / S(order));
    return std::bit_cast<V>(std::bit_cast<Bits>(p) + (std::bit_cast<Bits>(shifted) << (kDouble ? 52 : 23)));
}

}  // namespace eim
