// The resultant of six joints with twice the precision of double, and its error due to the rounded pose.
//
// Errors of the elimination and of its determinants are far below this error. Statements about the zeros are therefore
// certain. Coefficients of degree 9 to 11 must vanish, and a test checks that they do.
#pragma once

#include "general_6r/isolation.hpp"

namespace eim {

// Error bounds: the relative error of a sum over t in double, and the error of a determinant. The error of a
// determinant is relative to (|M|^2 / 12)^6 in the Frobenius norm, divided by the rank ratio of the elimination.
inline constexpr double kEvaluation = 60.0 * 1.2e-16, kDeterminant = 1e-27;
inline constexpr double kFarAboveFloor = 1e6;  // least ratio of the amplitude to the error of a determinant

// Returns a motion with twice the precision. Gram-Schmidt orthogonalisation makes its rotation orthonormal to this
// precision.
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

// The functions b = 1, cos, sin, cos 2, sin 2, ... at n equidistant angles pi (2 j + 1) / n, times the factor of the
// Fourier transform.
template <int n>
struct DoubledTable {
    using Number = Doubled<double>;
    Number cosine[2 * n], sine[2 * n], bases[n - 1][n];  // at angles pi i / n; functions b

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

    Number coefficients[kAll];  // factors of 1, cos t, sin t, cos 2t, ...; factors from index kParts on vanish
    double floor = 0.0;         // bound of the errors of determinants
    double rank_ratio;          // rank ratio of the elimination

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
                const double mean = square[lane] / 12.0, cube = mean * mean * mean;
                floor = std::max(floor, kDeterminant / std::min(1.0, rank_ratio) * cube * cube);
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

// The resultants of all poses near the given pose, because the given pose is rounded.
//
// Let g_i be the derivatives of f with respect to the six coordinates of the pose. If no coordinate changes by more
// than delta, f(t) changes by at most delta sum_i |g_i(t)|. The error is small where two solutions have nearly the same
// t3 but do not meet. For all these poses, f nearly has a double zero there. The g_i are computed as differences of f.
// The error of these differences is estimated from kCurved and the rank ratio, and not bounded by interval arithmetic.
class CertainResultant {
   public:
    struct Values : Resultant::Values {
        double error, error1, error2;  // bounds of the errors of f, f' and f''
        double f4, f5, f6, f7;
    };
    static constexpr int kMostCells = 1000, kShifts = 6;
    static constexpr double kSmallestNoisy = 1e-4, kSmallestCell = 1e-10;  // [rad]
    static constexpr double kStep = 1e-6;  // step of the differences [rad, scaled length]

    // Returns a small motion of the pose: a rotation about axis i for i < 3, and a translation along axis i - 3 for i
    // >= 3.
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

    // Takes the resultant f and the resultants of the shifted poses. The rank ratio of f shows how fast the derivatives
    // change.
    CertainResultant(const DoubledResultant& f, const Resultant (&shifted)[kShifts]) {
        set_coefficients(f.coefficients);
        const Resultant plain = f.plain();
        double noise = 0.0, sum = 0.0, total = 0.0;
        for (int i = 0; i < kShifts; ++i) {
            const Resultant change = shifted[i].plus(plain, -1.0).times(kRoundedPose / kStep);
            noise = std::max(noise, shifted[i].noise), sum += change.amplitude();
            for (int k = 0; k <= kDegree; ++k) {
                change_cosine_[k][i / W][i % W] = change.cosine[k], change_sine_[k][i / W][i % W] = change.sine[k];
                third_ += double(k * k * k) * change.modulus(k);
            }
        }
        for (int a = 0; a < DoubledResultant::kParts; ++a) total += std::abs(f.coefficients[a].high);
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
    // Bounds the error near an extremum. At distance x from the extremum, |f| grows by bend x^2 / 2, and its error by
    // error1 x.
    double error_of_extreme(const Values& v, double bend) const { return v.error + v.error1 * v.error1 / (2.0 * bend); }

    Values at(double angle) const {
        // with a corrected norm, rounded cosine and sine are exact for a nearby angle
        const auto [s, c] = sine_and_cosine(angle);
        const Number excess = Number::product(c, c) + Number::product(s, s) - Number(1.0);
        const Number factor = Number(1.0) - Number(0.5) * excess, cosine = factor * Number(c),
                     sine = factor * Number(s);
        Number ck[kDegree + 1] = {1.0, cosine}, sk[kDegree + 1] = {0.0, sine};
        for (int k = 2; k <= kDegree; ++k) {
            const int i = k / 2, j = k - i;
            ck[k] = ck[i] * ck[j] - sk[i] * sk[j], sk[k] = sk[i] * ck[j] + ck[i] * sk[j];
        }
        double f[kDerivatives], errors[3] = {constant_, 8.0 * constant_, 64.0 * constant_};
        for (int part = 0; part < kPacks; ++part) {
            Pack sum = cosine_[0][part];
            WideDouble g = change_cosine_[0][part], g1{}, g2{};
            for (int k = 1; k <= kDegree; ++k) {
                sum += cosine_[k][part] * spread<Pack>(ck[k]) + sine_[k][part] * spread<Pack>(sk[k]);
                const WideDouble &a = change_cosine_[k][part], &b = change_sine_[k][part];
                const WideDouble shift = a * ck[k].high + b * sk[k].high;
                g += shift, g1 += double(k) * (b * ck[k].high - a * sk[k].high), g2 -= double(k * k) * shift;
            }
            for (int lane = 0; lane < W; ++lane) f[part * W + lane] = sum.high[lane];
            errors[0] += eim::sum(absolute(g)), errors[1] += eim::sum(absolute(g1)),
                errors[2] += eim::sum(absolute(g2));
        }
        for (int i = 0; i < 3; ++i) errors[i] += kRoundedAngle * std::abs(f[i + 1]);
        return {{f[0], f[1], f[2], f[3]}, errors[0], errors[1], errors[2], f[4], f[5], f[6], f[7]};
    }
    void at_cells(Values (&values)[kCells]) const {
        for (int i = 0; i < kCells; ++i) values[i] = at(AngleTables::middle(i));
    }

   private:
    using Number = DoubledResultant::Number;
    using Pack = Doubled<WideDouble>;
    static constexpr int W = kLanes<WideDouble>, kDerivatives = 8, kPacks = kDerivatives / W;
    static constexpr double kRoundedPose = 4e-15;   // [rad, scaled length]
    static constexpr double kRoundedAngle = 1e-15;  // [rad]
    static constexpr double kCurved = 1e-4;         // relative change of derivatives over these small motions
    static constexpr double kSum = 1e-29;           // relative error of a sum over t

    // Derivative i of a cos kt + b sin kt is k^i (a cos(kt + i pi/2) + b sin(kt + i pi/2)).
    void set_coefficients(const Number (&of)[DoubledResultant::kAll]) {
        for (int k = 0; k <= kDegree; ++k) {
            Number a = of[k == 0 ? 0 : 2 * k - 1], b = k == 0 ? Number(0.0) : of[2 * k];
            for (int i = 0; i < kDerivatives; ++i) {
                set(cosine_[k][i / W], i % W, a), set(sine_[k][i / W], i % W, b);
                const Number last = a;
                a = Number(k) * b, b = Number(-k) * last;
            }
        }
    }
    static void set(Pack& pack, int lane, const Number& value) {
        pack.high[lane] = value.high, pack.low[lane] = value.low;
    }

    Pack cosine_[kDegree + 1][kPacks], sine_[kDegree + 1][kPacks];  // f and its derivatives, one per lane
    WideDouble change_cosine_[kDegree + 1][kPacks] = {}, change_sine_[kDegree + 1][kPacks] = {};  // by shifts
    double constant_, third_ = 0.0, fourth_ = 0.0, eighth_ = 0.0;
};

}  // namespace eim
