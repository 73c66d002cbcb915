// The resultant of six joints with twice the precision of double, and its error because the pose is rounded.
//
// Errors of the elimination and of its determinants are far below that error, so statements about the zeros are
// certain. Coefficients of degree 9 to 11 have to vanish, which a test checks.
#pragma once

#include "general_6r/isolation.hpp"

namespace eim {

// Relative bounds of errors: of a sum over t in double, and of a determinant, relative to (|M|^2 / 12)^6 by the
// Frobenius norm, over the rank ratio of the elimination.
inline constexpr double kEvaluation = 60.0 * 1.2e-16, kDeterminant = 1e-27;
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
    double rank_ratio;          // of the elimination

    explicit DoubledResultant(const EliminationOf<Number>& elimination) : rank_ratio(elimination.rank_ratio()) {
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
                floor = std::max(floor, kDeterminant / std::min(1.0, rank_ratio) * std::pow(square[lane] / 12.0, 6));
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
};

// The resultants of all poses near the given one, because the pose itself is rounded.
//
// Let g_i be the derivatives of f by the six coordinates of the pose. If none changes by more than delta, f(t) changes
// by at most delta sum_i |g_i(t)|. This error depends on t, and it is small where two solutions have nearly the same t3
// but are not about to meet: f has nearly a double zero there, for all these poses.
class CertainResultant {
   public:
    struct Values : Resultant::Values {
        double error, error1, error2;  // of f, f' and f''
        double f4, f5, f6, f7;
    };
    static constexpr int kMostCells = 1000, kShifts = 6;
    static constexpr double kSmallestNoisy = 1e-4, kSmallestCell = 1e-10;  // [rad]
    static constexpr double kStep = 1e-6;                                  // [rad, scaled length] of the differences

    // A rotation of a pose by kStep about one of the axes, or a translation by kStep along it.
    static Motion shift(int i) {
        Motion motion{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {}};
        const Vector axis = motion.rows[i % 3];
        if (i >= 3) {
            motion.translation = axis * kStep;
        } else {
            for (Vector& row : motion.rows) row = turned(row, axis, -kStep);
        }
        return motion;
    }

    // Takes resultants of shifted poses. The rank ratio of the elimination shows how fast the derivatives change.
    CertainResultant(const DoubledResultant& f, const Resultant (&shifted)[kShifts]) {
        std::copy_n(f.coefficients, DoubledResultant::kParts, coefficients_);
        const Resultant plain = f.plain();
        double noise = 0.0, sum = 0.0, total = 0.0;
        for (int i = 0; i < kShifts; ++i) {
            const Resultant change = shifted[i].plus(plain, -1.0).times(kRoundedPose / kStep);
            noise = std::max(noise, shifted[i].noise), sum += change.amplitude();
            for (int k = 0; k <= kDegree; ++k) {
                cosine_[k][i] = change.cosine[k], sine_[k][i] = change.sine[k];
                third_ += double(k * k * k) * change.modulus(k);
            }
        }
        for (const Number& each : coefficients_) total += std::abs(each.high);
        for (int k = 1; k <= kDegree; ++k) {
            const double fourth = double(k * k) * (k * k);
            fourth_ += fourth * plain.modulus(k), eighth_ += fourth * fourth * plain.modulus(k);
        }
        constant_ = (kCurved + 10.0 * kStep / f.rank_ratio) * sum + 30.0 * noise * (kRoundedPose / kStep) +
                    2.0 * DoubledResultant::kParts * f.floor + kSum * total;
    }

    double fourth(const Values& v, double r) const {
        return std::abs(v.f4) + std::abs(v.f5) * r + std::abs(v.f6) * r * r / 2 + std::abs(v.f7) * r * r * r / 6 +
               eighth_ * r * r * r * r / 24 + kEvaluation * fourth_;
    }
    double error(const Values& v, double r = 0.0) const {
        return v.error + v.error1 * r + v.error2 * r * r / 2 + third_ * r * r * r / 6;
    }
    double error1(const Values& v, double r) const { return v.error1 + v.error2 * r + third_ * r * r / 2; }
    double error2(const Values& v, double r) const { return v.error2 + third_ * r; }
    // At a distance x, |f| grows by bend x^2 / 2, and its error by error1 x.
    double error_of_extreme(const Values& v, double bend) const { return v.error + v.error1 * v.error1 / (2.0 * bend); }

    Values at(double angle) const {
        // cosine and sine in double are those of an angle nearby, up to a factor
        const auto [s, c] = sine_and_cosine(angle);
        const Number excess = Number::product(c, c) + Number::product(s, s) - Number(1.0);
        const Number factor = Number(1.0) - Number(0.5) * excess, cosine = factor * Number(c),
                     sine = factor * Number(s);
        Number f = coefficients_[0], f1(0.0), f2(0.0), f3(0.0), ck(1.0), sk(0.0);
        Lanes g = cosine_[0], g1{}, g2{};
        double f4 = 0.0, f5 = 0.0, f6 = 0.0, f7 = 0.0;
        for (int k = 1; k <= kDegree; ++k) {
            const Number next = ck * cosine - sk * sine, &a = coefficients_[2 * k - 1], &b = coefficients_[2 * k];
            sk = sk * cosine + ck * sine, ck = next;
            const Number even = a * ck + b * sk, odd = b * ck - a * sk;
            f += even, f1 += Number(k) * odd, f2 -= Number(k * k) * even, f3 -= Number(k * k * k) * odd;
            const double square = k * k, fourth = square * square;
            f4 += fourth * even.high, f5 += fourth * k * odd.high;
            f6 -= fourth * square * even.high, f7 -= fourth * square * k * odd.high;
            const Lanes shift = cosine_[k] * ck.high + sine_[k] * sk.high;
            g += shift, g1 += double(k) * (sine_[k] * ck.high - cosine_[k] * sk.high), g2 -= double(k * k) * shift;
        }
        Values v{{f.high, f1.high, f2.high, f3.high}, constant_, 8.0 * constant_, 64.0 * constant_, f4, f5, f6, f7};
        for (int i = 0; i < kShifts; ++i) {
            v.error += std::abs(g[i]), v.error1 += std::abs(g1[i]), v.error2 += std::abs(g2[i]);
        }
        v.error += kRoundedAngle * std::abs(v.f1), v.error1 += kRoundedAngle * std::abs(v.f2);
        v.error2 += kRoundedAngle * std::abs(v.f3);
        return v;
    }
    void at_cells(Values (&values)[kCells]) const {
        for (int i = 0; i < kCells; ++i) values[i] = at(AngleTables::middle(i));
    }

   private:
    using Number = DoubledResultant::Number;
    typedef double Lanes __attribute__((vector_size(8 * sizeof(double))));
    static constexpr double kRoundedPose = 4e-15;   // [rad, scaled length]
    static constexpr double kRoundedAngle = 1e-15;  // [rad]
    static constexpr double kCurved = 1e-4;         // change of derivatives over them
    static constexpr double kSum = 1e-29;           // relative error of a sum over t

    Number coefficients_[DoubledResultant::kParts];
    Lanes cosine_[kDegree + 1] = {}, sine_[kDegree + 1] = {};  // changes by shifts
    double constant_, third_ = 0.0, fourth_ = 0.0, eighth_ = 0.0;
};

}  // namespace eim
