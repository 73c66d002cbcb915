// Numbers with twice the precision of double, as sums of two doubles without overlap (Dekker 1971), also in packs.
//
// Each operation has a relative error of at most 1e-31. The error of a sum is relative to |a| + |b|.
#pragma once

#include <cmath>

#include "numerics/pack.hpp"
#include "numerics/portable.hpp"

namespace eim {

// Returns a b - c with a single rounding.
inline double product_minus(double a, double b, double c) {
    return portable::product_minus(a, b, c);
}
inline WideDouble product_minus(const WideDouble& a, const WideDouble& b, const WideDouble& c) {
#if defined(__AVX2__)
    WideDouble result = a;
    asm("vfmsub132pd %2, %1, %0" : "+x"(result) : "x"(c), "x"(b));  // see portable.hpp
    return result;
#else
    WideDouble result;
    for (int lane = 0; lane < kLanes<WideDouble>; ++lane) result[lane] = std::fma(a[lane], b[lane], -c[lane]);
    return result;
#endif
}

template <class V>
struct Doubled {
    V high{}, low{};

    Doubled() = default;
    Doubled(double value) : high(fill<V>(value)) {}  // NOLINT: implicit conversion from plain numbers
    Doubled(const V& high, const V& low) : high(high), low(low) {}

    // Returns the sum of two numbers. The first number must have at least the order of magnitude of the second.
    static Doubled joined(const V& large, const V& small) {
        const V sum = large + small;
        return {sum, small - (sum - large)};
    }
    static Doubled sum(const V& a, const V& b) {
        const V s = a + b, of_b = s - a;
        return {s, (a - (s - of_b)) + (b - of_b)};
    }
    static Doubled product(const V& a, const V& b) {
        const V p = a * b;
        return {p, product_minus(a, b, p)};
    }

    friend Doubled operator+(const Doubled& a, const Doubled& b) {
        const Doubled s = sum(a.high, b.high);
        return joined(s.high, s.low + (a.low + b.low));
    }
    friend Doubled operator-(const Doubled& a) { return {-a.high, -a.low}; }
    friend Doubled operator-(const Doubled& a, const Doubled& b) { return a + -b; }
    friend Doubled operator*(const Doubled& a, const Doubled& b) {
        const Doubled p = product(a.high, b.high);
        return joined(p.high, p.low + (a.high * b.low + a.low * b.high));
    }
    friend Doubled operator/(const Doubled& a, const Doubled& b) {
        const V first = a.high / b.high;
        const Doubled rest = a - b * Doubled{first, V{}};
        const V second = rest.high / b.high;
        const Doubled last = rest - b * Doubled{second, V{}};
        return joined(first, second) + Doubled{last.high / b.high, V{}};
    }
    Doubled& operator+=(const Doubled& b) { return *this = *this + b; }
    Doubled& operator-=(const Doubled& b) { return *this = *this - b; }
    Doubled& operator*=(const Doubled& b) { return *this = *this * b; }

    friend Mask<V> operator>(const Doubled& a, double b) { return a.high > b; }
    friend Mask<V> operator<(const Doubled& a, double b) { return a.high < b; }
};

template <class V>
struct Traits<Doubled<V>> {
    using Scalar = double;
    using Mask = eim::Mask<V>;
    static constexpr int lanes = kLanes<V>;
};

template <class V, class M>
inline Doubled<V> choose(const M& mask, const Doubled<V>& a, const Doubled<V>& b) {
    return {mask ? a.high : b.high, mask ? a.low : b.low};
}
template <class V>
inline Doubled<V> absolute(const Doubled<V>& a) {
    return choose(a < 0.0, -a, a);
}
template <class V>
inline Doubled<V> square_root(const Doubled<V>& a) {
    const V root = square_root(a.high);
    const Doubled<V> rest = a - Doubled<V>::product(root, root);
    const V safe = root > 0.0 ? root : fill<V>(1.0);
    return Doubled<V>::joined(root, rest.high / (2.0 * safe));
}

// Returns a number as a value for all lanes. For plain packs, returns the plain number.
template <class V>
inline auto spread(const double& a) {
    if constexpr (std::is_class_v<V>) {
        return V(a);
    } else {
        return a;
    }
}
template <class V>
inline auto spread(const Doubled<double>& a) {
    if constexpr (std::is_same_v<V, Doubled<double>>) {
        return a;
    } else {
        return Doubled<WideDouble>{fill<WideDouble>(a.high), fill<WideDouble>(a.low)};
    }
}
// Computes cosine and sine of pi n / d from their series.
inline void doubled_turn(int n, int d, Doubled<double>& cosine, Doubled<double>& sine) {
    constexpr int kHalvings = 4, kTerms = 12;
    const Doubled<double> pi{3.141592653589793, 1.2246467991473532e-16};
    n = ((n % (2 * d)) + 2 * d) % (2 * d);
    const Doubled<double> x =
        pi * Doubled<double>(double(n > d ? n - 2 * d : n)) / Doubled<double>(double(d << kHalvings));
    const Doubled<double> square = x * x;
    Doubled<double> less(0.0), odd(0.0);  // 1 - cos x, and sin x / x
    for (int k = kTerms; k >= 1; --k) {
        less = square / Doubled<double>(double((2 * k - 1) * (2 * k))) * (Doubled<double>(1.0) - less);
        odd = square / Doubled<double>(double((2 * k) * (2 * k + 1))) * (Doubled<double>(1.0) - odd);
    }
    cosine = Doubled<double>(1.0) - less, sine = x * (Doubled<double>(1.0) - odd);
    for (int i = 0; i < kHalvings; ++i) {
        const Doubled<double> s = sine * cosine;
        cosine = cosine * cosine - sine * sine, sine = s + s;
    }
}

inline double plain(double a) {
    return a;
}
inline double plain(const Doubled<double>& a) {
    return a.high;
}

}  // namespace eim
