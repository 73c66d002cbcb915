// Elementary functions that return the same bits on all processors. Errors are below 2 units in the last place.
//
// Functions of the C library have variants with and without fused multiply-add, and differ between versions of the
// library. With functions of the C library, the solver would return other solutions for the same seed on another
// computer. The functions below use only operations of IEEE 754, whose rounding is exactly defined. The compiler must
// not fuse these operations (-ffp-contract=off). Functions of the C library with exactly defined results, such as sqrt,
// round, fma and ldexp, may also be used. Signed zeros, infinities and NaN follow the C standard.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace eim::portable {

// Returns a b - c with a single rounding.
//
// All processors with AVX2 have this instruction. The compiler must not use this instruction automatically (-mno-fma),
// because GCC 12 fuses products and sums of vectorised code even with -ffp-contract=off.
inline double product_minus(double a, double b, double c) {
#if defined(__AVX2__)
    asm("vfmsub132sd %2, %1, %0" : "+x"(a) : "x"(c), "x"(b));
    return a;
#else
    return std::fma(a, b, -c);
#endif
}

// A number x as k pi/2 + high + low with |high| <= pi/4. `quadrant` contains only the last two bits of k.
struct Remainder {
    unsigned quadrant;
    double high, low;
};

// Returns the remainder of a number of at least 2^17, by multiplication with the relevant bits of 2/pi (Payne and Hanek
// 1983).
[[gnu::noinline, gnu::cold]] inline Remainder remainder_of_large(double x) {
    static constexpr std::uint64_t kTwoByPi[] = {0,
                                                 0xa2f9836e4e441529,
                                                 0xfc2757d1f534ddc0,
                                                 0xdb6295993c439041,
                                                 0xfe5163abdebbc561,
                                                 0xb7246e3a424dd2e0,
                                                 0x06492eea09d1921c,
                                                 0xfe1deb1cb129a73e,
                                                 0xe88235f52ebb4484,
                                                 0xe99c7026b45f7e41,
                                                 0x3991d639835339f4,
                                                 0x9c845f8bbdf9283b,
                                                 0x1ff897ffde05980f,
                                                 0xef2f118b5a0a6d1f,
                                                 0x6d367ecf27cb09b7,
                                                 0x4f463f669e5fea2d,
                                                 0x7527bac7ebe5f17b,
                                                 0x3d0739f78a5292ea,
                                                 0x6bfb5fb11f8d5d08,
                                                 0x56033046fc7b6bab};
    __extension__ using Wide = unsigned __int128;
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
    const std::uint64_t mantissa = (bits & 0xfffffffffffff) | 0x10000000000000;
    const int exponent = int(bits >> 52 & 0x7ff) - 1075;  // |x| = mantissa 2^exponent
    // higher bits of 2/pi add only multiples of 4 to the product
    const int first = 64 + exponent - 2, word = first / 64, shift = first % 64;
    const auto window = [&](int i) {
        return shift ? kTwoByPi[word + i] << shift | kTwoByPi[word + i + 1] >> (64 - shift) : kTwoByPi[word + i];
    };
    // product in units of 2^-190, modulo 4
    const Wide lowest = Wide(mantissa) * window(2), middle = Wide(mantissa) * window(1) + std::uint64_t(lowest >> 64);
    std::uint64_t high = mantissa * window(0) + std::uint64_t(middle >> 64), low = std::uint64_t(middle);
    unsigned quadrant = unsigned(high >> 62);
    high = high << 2 | low >> 62, low = low << 2 | std::uint64_t(lowest) >> 62;
    const bool is_beyond = high >> 63;  // the remainder exceeds pi/4, and the next multiple is nearer
    if (is_beyond) quadrant += 1, high = ~high, low = ~low;
    const int zeros = std::countl_zero(high);  // about 60 or fewer
    if (zeros > 0) high = high << zeros | low >> (64 - zeros), low <<= zeros;
    // fraction as a sum of two doubles, times pi/2
    const double large = double(high >> 11) * 0x1p-53, small = double((high & 0x7ff) << 42 | low >> 22) * 0x1p-106;
    constexpr double kHigh = 0x1.921fb54442d18p+0, kLow = 0x1.1a62633145c07p-54;
    const double product = large * kHigh, error = product_minus(large, kHigh, product) + (large * kLow + small * kHigh);
    const double scale = std::ldexp(is_beyond != std::signbit(x) ? -1.0 : 1.0, -zeros), sum = product + error;
    return {std::signbit(x) ? 0u - quadrant : quadrant, sum * scale, (error - (sum - product)) * scale};
}

// Returns the remainder of any number. The constant pi/2 is split into three parts (Cody and Waite 1980). The products
// with the first two parts are exact.
inline Remainder remainder(double x) {
    if (!(std::abs(x) < 0x1p17)) return remainder_of_large(x);
    constexpr double kRounder = 6755399441055744.0;  // its last bits count ones
    const double shifted = x * 0.636619772367581343 + kRounder, k = shifted - kRounder;
    const double first = x - k * 0x1.921fb544p+0, second = k * 0x1.0b4611a6p-34, third = k * 0x1.3198a2e037073p-69;
    const double without = first - second, seen = first - without;
    const double error = (first - (without + seen)) + (seen - second);
    const double high = without - third;
    return {unsigned(std::bit_cast<std::uint64_t>(shifted)) & 3, high, ((without - high) - third) + error};
}

// Return sine and cosine of the remainder by Taylor series. Estrin's scheme keeps chains of operations short. The low
// part changes the results by less than a rounding error.
inline double sine_of(const Remainder& r) {
    const double x = r.high, z = x * x, z2 = z * z, z4 = z2 * z2;
    const double s = (1.0 / 120 - z * (1.0 / 5040)) + z2 * (1.0 / 362880 - z * (1.0 / 39916800)) +
                     z4 * ((1.0 / 6227020800 - z * (1.0 / 1307674368000)) + z2 * (1.0 / 355687428096000));
    return x + (x * z * (-1.0 / 6 + z * s) + r.low * (1.0 - 0.5 * z));
}
inline double cosine_of(const Remainder& r) {
    const double x = r.high, z = x * x, z2 = z * z, z4 = z2 * z2, half = 0.5 * z, most = 1.0 - half;
    const double c = (1.0 / 24 - z * (1.0 / 720)) + z2 * (1.0 / 40320 - z * (1.0 / 3628800)) +
                     z4 * ((1.0 / 479001600 - z * (1.0 / 87178291200)) + z2 * (1.0 / 20922789888000));
    return most + (((1.0 - most) - half) + (z2 * c - x * r.low));
}

struct SineCosine {
    double sine, cosine;
};

inline SineCosine sincos(double x) {
    if (!std::isfinite(x)) return {x - x, x - x};
    if (x == 0.0) return {x, 1.0};
    const Remainder r = remainder(x);
    const double s = sine_of(r), c = cosine_of(r);
    const double sine = r.quadrant & 1 ? c : s, cosine = r.quadrant & 1 ? s : c;
    return {r.quadrant & 2 ? -sine : sine, (r.quadrant + 1) & 2 ? -cosine : cosine};
}
inline double sin(double x) {
    return sincos(x).sine;
}
inline double cos(double x) {
    return sincos(x).cosine;
}

// Computes the angle of the direction (x, y) in the first octant, 0 <= y <= x, as a sum of two numbers. First, the
// nearest of 0, atan(1/2) and pi/4 is subtracted, without a rounding error in the numerator. A polynomial of
// degree 25 gives the remaining angle.
inline void angle_in_octant(double y, double x, double& high, double& low) {
    double t;
    if (y < 0.4375 * x) {
        t = y / x, high = 0.0, low = 0.0;
    } else if (y < 0.6875 * x) {
        t = (2.0 * y - x) / (2.0 * x + y), high = 0x1.dac670561bb4fp-2, low = 0x1.a2b7f222f65e2p-56;
    } else {
        t = (y - x) / (y + x), high = 0x1.921fb54442d18p-1, low = 0x1.1a62633145c07p-55;
    }
    // (t - atan t) / t^3 on [0, 0.44], as a minimax polynomial of z = t^2 (Remez) with error 4e-18
    const double z = t * t, z2 = z * z, z4 = z2 * z2;
    const double least =
        (0x1.5555555555555p-2 - z * 0x1.99999999998bbp-3) + z2 * (0x1.2492492484c3ep-3 - z * 0x1.c71c71bccc0cdp-4);
    const double middle =
        (0x1.745d153becf3dp-4 - z * 0x1.3b137421705cdp-4) + z2 * (0x1.110c82003ead4p-4 - z * 0x1.e16e56e45a96dp-5);
    const double most =
        (0x1.ab4b798a9eb16p-5 - z * 0x1.6fc778f7e05aap-5) + z2 * (0x1.0edd4824dd88bp-5 - z * 0x1.e2057bf640a83p-7);
    const double p = least + z4 * (middle + z4 * most);
    const double change = low - t * z * p, sum = high + t;
    low = ((high - sum) + t) + change;
    if (high == 0.0) low = change;
    high = sum;
}

inline double atan2(double y, double x) {
    if (std::isnan(x) || std::isnan(y)) return x + y;
    double a = std::abs(y), b = std::abs(x);
    if (std::isinf(a) || std::isinf(b)) a = std::isinf(a), b = std::isinf(b);  // only the direction matters
    const double larger = a > b ? a : b;
    if (larger == 0.0) b = 1.0;                                         // atan2(0, 0) = 0
    if (larger > 0x1p1000) a *= 0x1p-600, b *= 0x1p-600;                // avoids overflow of sums
    if (larger < 0x1p-900 && larger > 0.0) a *= 0x1p600, b *= 0x1p600;  // avoids subnormal numbers
    constexpr double kQuarter = 0x1.921fb54442d18p+0, kQuarterLow = 0x1.1a62633145c07p-54;
    double high, low;
    angle_in_octant(a > b ? b : a, a > b ? a : b, high, low);
    double angle;
    if (!std::signbit(x)) {
        angle = a > b ? kQuarter - (high + (low - kQuarterLow)) : high + low;
    } else {
        angle = a > b ? kQuarter + (high + (low + kQuarterLow)) : 2.0 * kQuarter - (high + (low - 2.0 * kQuarterLow));
    }
    return std::copysign(angle, y);
}
inline double atan(double x) {
    return atan2(x, 1.0);
}
// Return NaN outside of [-1, 1].
inline double acos(double x) {
    return atan2(std::sqrt(product_minus(-x, x, -1.0)), x);
}
inline double asin(double x) {
    return atan2(x, std::sqrt(product_minus(-x, x, -1.0)));
}

// Returns the length of (x, y). Intermediate results do not overflow or underflow.
inline double hypot(double x, double y) {
    const double a = std::abs(x), b = std::abs(y), larger = a > b ? a : b;
    if (larger > 0x1p500) return std::sqrt(x * 0x1p-600 * (x * 0x1p-600) + y * 0x1p-600 * (y * 0x1p-600)) * 0x1p600;
    if (larger < 0x1p-400) return std::sqrt(x * 0x1p600 * (x * 0x1p600) + y * 0x1p600 * (y * 0x1p600)) * 0x1p-600;
    return std::sqrt(x * x + y * y);
}

inline constexpr double kLog2High = 6.93147180369123816490e-01,
                        kLog2Low = 1.90821492927058770002e-10;  // parts of log 2 with 33 and 53 bits

// Returns the log of 2^k m, with m in [sqrt(1/2), sqrt(2)]. For s = (m - 1) / (m + 1), log m = 2 s + 2/3 s^3 + 2/5 s^5
// + ...
inline double log(double x) {
    if (!(x > 0.0))
        return x == 0.0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    if (!std::isfinite(x)) return x;
    int exponent;
    double m = std::frexp(x, &exponent);
    if (m < 0.70710678118654752) m *= 2.0, exponent -= 1;
    const double f = m - 1.0, s = f / (2.0 + f), z = s * s, half = 0.5 * f * f, k = exponent;
    double p = 2.0 / 19 + z * (2.0 / 21 + z * (2.0 / 23));
    p = 2.0 / 13 + z * (2.0 / 15 + z * (2.0 / 17 + z * p));
    p = 2.0 / 7 + z * (2.0 / 9 + z * (2.0 / 11 + z * p));
    p = z * (2.0 / 3 + z * (2.0 / 5 + z * p));
    return k * kLog2High - ((half - (s * (half + p) + k * kLog2Low)) - f);
}
inline double log2(double x) {
    return log(x) * 1.4426950408889634;
}
inline double log1p(double x) {
    const double sum = 1.0 + x;
    return sum == 1.0 || !std::isfinite(sum) || sum <= 0.0 ? (sum == 1.0 ? x : log(sum))
                                                           : log(sum) + (x - (sum - 1.0)) / sum;
}

// Returns exp(x) as 2^n times the Taylor series of x - n log 2.
inline double exp(double x) {
    if (!(x < 709.782712893384)) return x > 0.0 ? std::numeric_limits<double>::infinity() : x;
    if (x < -745.2) return 0.0;
    const double n = std::round(x * 1.4426950408889634), high = x - n * kLog2High, low = n * kLog2Low;
    const double y = high - low, error = (high - y) - low;
    double p = 1.0 / 479001600 + y * (1.0 / 6227020800);
    p = 1.0 / 3628800 + y * (1.0 / 39916800 + y * p);
    p = 1.0 / 40320 + y * (1.0 / 362880 + y * p);
    p = 1.0 / 720 + y * (1.0 / 5040 + y * p);
    p = 1.0 / 24 + y * (1.0 / 120 + y * p);
    p = y * y * (0.5 + y * (1.0 / 6 + y * p));
    return std::ldexp(1.0 + (y + (p + error)), int(n));
}

}  // namespace eim::portable
