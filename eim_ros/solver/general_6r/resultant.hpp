// The determinant of an elimination, as a trigonometric polynomial of degree 8 that is computed from samples on the
// circle.
//
// The determinant is computed at 24 equidistant angles. A discrete Fourier transform gives coefficients 0 to 11.
// Coefficients 9 to 11 vanish up to rounding, and their largest modulus measures the noise.
#pragma once

#include "general_6r/elimination.hpp"
#include "numerics/portable.hpp"

namespace eim {

inline constexpr int kDegree = 8, kSamples = 24, kFrequencies = kSamples / 2;
inline constexpr int kCells = 48;             // number of cells of the circle at the start of the isolation
inline constexpr double kShift = 0.01234567;  // [rad]: moves the edges of cells away from special angles

// Sines and cosines at the sampled angles, and at the middle of each cell.
struct AngleTables {
    static constexpr int W = kLanes<WideDouble>;
    static_assert(kSamples % W == 0 && kCells % W == 0);

    WideDouble cosine[kFrequencies][kSamples / W], sine[kFrequencies][kSamples / W];
    WideDouble cell_cosine[kDegree + 1][kCells / W], cell_sine[kDegree + 1][kCells / W];

    static constexpr double half_cell() { return kPi / kCells; }
    static double middle(int cell) { return kShift - kPi + (2 * cell + 1) * half_cell(); }

    AngleTables() {
        for (int k = 0; k < kFrequencies; ++k) {
            for (int j = 0; j < kSamples; ++j) {
                const double angle = kTwoPi * (j + 0.5) / kSamples;
                cosine[k][j / W][j % W] = portable::cos(k * angle), sine[k][j / W][j % W] = portable::sin(k * angle);
            }
        }
        for (int k = 0; k <= kDegree; ++k) {
            for (int j = 0; j < kCells; ++j) {
                const double angle = middle(j);
                cell_cosine[k][j / W][j % W] = portable::cos(k * angle),
                                          cell_sine[k][j / W][j % W] = portable::sin(k * angle);
            }
        }
    }
    static const AngleTables& get() {
        static const AngleTables tables;
        return tables;
    }
};

// f(t) = sum_k cosine_k cos(k t) + sine_k sin(k t).
struct Resultant {
    double cosine[kDegree + 1] = {}, sine[kDegree + 1] = {};
    double noise = 0.0;  // largest modulus of coefficients 9 to 11, which should vanish

    Resultant() = default;

    explicit Resultant(const Elimination& elimination) {
        const AngleTables& tables = AngleTables::get();
        constexpr int n = kSamples / AngleTables::W;
        WideDouble values[n];
        for (int i = 0; i < n; ++i) {
            WideDouble m[12][12];
            elimination.matrix(tables.cosine[1][i], tables.sine[1][i], m);
            values[i] = triangularise(m);
        }
        for (int k = 0; k < kFrequencies; ++k) {
            WideDouble c{}, s{};
            for (int i = 0; i < n; ++i) c += values[i] * tables.cosine[k][i], s += values[i] * tables.sine[k][i];
            const double factor = (k == 0 ? 1.0 : 2.0) / kSamples, a = factor * sum(c),
                         b = k == 0 ? 0.0 : factor * sum(s);
            if (k <= kDegree) {
                cosine[k] = a, sine[k] = b;
            } else {
                noise = std::max(noise, portable::hypot(a, b));
            }
        }
    }

    double modulus(int k) const { return std::sqrt(cosine[k] * cosine[k] + sine[k] * sine[k]); }
    double amplitude() const {
        double most = 0.0;
        for (int k = 0; k <= kDegree; ++k) most = std::max(most, modulus(k));
        return most;
    }
    double product(const Resultant& b) const {
        double sum = 0.0;
        for (int k = 0; k <= kDegree; ++k) sum += cosine[k] * b.cosine[k] + sine[k] * b.sine[k];
        return sum;
    }
    // Adds factor times b, but not the noise of b.
    void add(const Resultant& b, double factor) {
        for (int k = 0; k <= kDegree; ++k) cosine[k] += factor * b.cosine[k], sine[k] += factor * b.sine[k];
    }
    // Returns f + factor b with zero noise.
    Resultant plus(const Resultant& b, double factor) const {
        Resultant result = *this;
        result.noise = 0.0;
        result.add(b, factor);
        return result;
    }
    Resultant times(double factor) const { return Resultant().plus(*this, factor); }

    // Values of f and of its first three derivatives.
    struct Values {
        double f, f1, f2, f3;
    };
    Values at(double angle) const {
        const auto [s, c] = sine_and_cosine(angle);
        Values v{cosine[0], 0.0, 0.0, 0.0};
        double ck = 1.0, sk = 0.0;
        for (int k = 1; k <= kDegree; ++k) {
            const double next = ck * c - sk * s;
            sk = sk * c + ck * s, ck = next;
            const double even = cosine[k] * ck + sine[k] * sk, odd = k * (sine[k] * ck - cosine[k] * sk);
            v.f += even, v.f1 += odd, v.f2 -= k * k * even, v.f3 -= k * k * odd;
        }
        return v;
    }
};

}  // namespace eim
