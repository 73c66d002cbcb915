// Random numbers for one request. A request may take a fraction of a millisecond, so seeding a large generator would
// take too long.
#pragma once

#include <cmath>
#include <cstdint>

#include "numerics/portable.hpp"

namespace eim {

struct Random {
    std::uint64_t state;

    // `seed` is in [0, 1).
    explicit Random(double seed) : state(static_cast<std::uint64_t>(seed * 9007199254740992.0)) {}

    // Returns a uniform number from [0, 1), by splitmix64 (Steele, Lea and Flood 2014).
    double uniform() {
        state += 0x9E3779B97F4A7C15u;
        std::uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return static_cast<double>((z ^ (z >> 31)) >> 11) * (1.0 / 9007199254740992.0);
    }

    double uniform(double lower, double upper) { return lower + (upper - lower) * uniform(); }

    // Fills `values` with standard normal numbers, by the polar method (Marsaglia and Bray 1964).
    void fill_normal(double* values, std::ptrdiff_t n) {
        for (std::ptrdiff_t i = 0; i < n; i += 2) {
            double x, y, square = 0.0;
            while (square == 0.0 || square >= 1.0) {
                x = 2.0 * uniform() - 1.0, y = 2.0 * uniform() - 1.0;
                square = x * x + y * y;
            }
            const double scale = std::sqrt(-2.0 * portable::log(square) / square);
            values[i] = scale * x;
            if (i + 1 < n) values[i + 1] = scale * y;
        }
    }
};

}  // namespace eim
