// The resultant of six joints with twice the precision of double, and a bound of all errors of its evaluation in
// double.
//
// Errors of the elimination and of its determinants are then far below those of evaluations, so statements about the
// zeros are certain. Coefficients of degree 9 to 11 have to vanish, which a test checks.
#pragma once

#include "general_6r/isolation.hpp"

namespace eim {

// Relative bounds of errors: of a sum over t in double, and of a determinant, relative to (|M|^2 / 12)^6 by the
// Frobenius norm.
inline constexpr double kEvaluation = 60.0 * 1.2e-16, kDeterminant = 1e-22;
inline constexpr double kFarAboveFloor = 1e6;  // least amplitude over the error of a determinant

// A motion with twice the precision; Gram and Schmidt's method makes its rotation exact.
inline MotionOf<Doubled<double>> exact(const Motion& motion) {
    using Number = Doubled<double>;
    const auto doubled = [](const Vector& v) { return VectorOf<Number>{v.x, v.y, v.z}; };
    const auto unit = [](const VectorOf<Number>& v) { return v * (Number(1.0) / square_root(dot(v, v))); };
    MotionOf<Number> made;
    made.translation = doubled(motion.translation);
    const VectorOf<Number> first = unit(doubled(motion.rows[0])), second = doubled(motion.rows[1]);
    made.rows[0] = first, made.rows[1] = unit(second - first * dot(first, second));
    made.rows[2] = cross(made.rows[0], made.rows[1]);
    return made;
}

// Functions b = 1, cos, sin, cos 2, sin 2, ... at n equidistant angles pi (2 j + 1) / n, times the factor of the
// Fourier transform.
template <int n>
struct DoubledTable {
    using Number = Doubled<double>;
    Number cosine[2 * n], sine[2 * n], bases[n - 1][n];  // at pi i / n

    DoubledTable() {
        for (int i = 0; i < 2 * n; ++i) doubled_turn(i, n, cosine[i], sine[i]);
        for (int a = 0; a < n - 1; ++a) {
            const int k = (a + 1) / 2;
            const Number factor = Number(a == 0 ? 1.0 : 2.0) / Number(double(n));
            for (int j = 0; j < n; ++j) {
                const int at = k * (2 * j + 1) % (2 * n);
                bases[a][j] = factor * (a % 2 || a == 0 ? cosine[at] : sine[at]);
            }
        }
    }
    static const DoubledTable& get() {
        static const DoubledTable table;
        return table;
    }
};

struct DoubledResultant {
    using Number = Doubled<double>;
    static constexpr int kParts = 2 * kDegree + 1, kAll = 2 * kFrequencies - 1;

    Number coefficients[kAll];  // of 1, cos t, sin t, cos 2t, ...; those from kParts on vanish
    double floor = 0.0;         // bound of the errors of determinants

    explicit DoubledResultant(const EliminationOf<Number>& elimination) {
        using Pack = Doubled<WideDouble>;
        constexpr int W = kLanes<WideDouble>;
        const DoubledTable<kSamples>& table = DoubledTable<kSamples>::get();
        for (int first = 0; first < kSamples; first += W) {
            Pack c, s, m[12][12];
            for (int lane = 0; lane < W; ++lane) {
                const int at = 2 * (first + lane) + 1;
                c.high[lane] = table.cosine[at].high, c.low[lane] = table.cosine[at].low;
                s.high[lane] = table.sine[at].high, s.low[lane] = table.sine[at].low;
            }
            elimination.matrix(c, s, m);
            WideDouble square{};
            for (const auto& row : m) {
                for (const Pack& entry : row) square += entry.high * entry.high;
            }
            const Pack determinant = triangularise(m);
            for (int lane = 0; lane < W; ++lane) {
                floor = std::max(floor, kDeterminant * std::pow(square[lane] / 12.0, 6));
                const Number value{determinant.high[lane], determinant.low[lane]};
                for (int a = 0; a < kAll; ++a) coefficients[a] += value * table.bases[a][first + lane];
            }
        }
    }

    Resultant plain() const {
        Resultant f;
        for (int a = 0; a < kParts; ++a) (a % 2 || a == 0 ? f.cosine : f.sine)[(a + 1) / 2] = coefficients[a].high;
        return f;
    }
    // Bound of the error of f in double.
    double error() const {
        double sum = 0.0;
        for (int a = 0; a < kParts; ++a) sum += std::abs(coefficients[a].high);
        return kEvaluation * sum + 2.0 * kParts * floor;
    }
};

}  // namespace eim
