// Activations of a network with dropout: m silu(z) and its derivative, where silu(z) = z sigmoid(z).
#pragma once

#include <algorithm>

#include "exponential.hpp"

namespace eim {

inline constexpr float kSaturated = 80.0f;  // the sigmoid of larger inputs is 1 up to rounding

// Replaces z by m silu(z), and fills m silu'(z) = m (s + z s (1 - s)) with s = sigmoid(z).
inline void activate(WideFloat& z, WideFloat& slope, WideFloat m) {
    const WideFloat most = fill<WideFloat>(kSaturated);
    const WideFloat s = 1.0f / (1.0f + exponential(-larger(smaller(z, most), -most)));
    const WideFloat silu = z * s;
    slope = m * (s + silu * (1.0f - s));
    z = m * silu;
}

// The tables `values` and `slopes` are (n, width). Rows of values share rows of `factors`, `together` successive ones
// each.
inline void masked_silu(float* values, float* slopes, const float* factors, Index n, Index width, Index together) {
    constexpr Index W = kLanes<WideFloat>;
    const auto step = [](float* z_, float* slope_, const float* m_, std::size_t size) {
        WideFloat z{}, slope{}, m{};
        std::memcpy(&z, z_, size), std::memcpy(&m, m_, size);
        activate(z, slope, m);
        std::memcpy(z_, &z, size), std::memcpy(slope_, &slope, size);
    };
    for (Index i = 0; i < n; ++i, values += width, slopes += width) {
        const float* factor = factors + i / together * width;
        Index first = 0;
        for (; first + W <= width; first += W) step(values + first, slopes + first, factor + first, sizeof(WideFloat));
        if (first < width) step(values + first, slopes + first, factor + first, (width - first) * sizeof(float));
    }
}

}  // namespace eim
