// The self-motions of an arm with seven revolute joints, as a curve f(s, t) = 0 of the angles s and t of two joints.
//
// The seven links form a loop. If s is fixed, six joints remain. The resultant of six joints
// (`general_6r/resultant.hpp`) is a trigonometric polynomial of degree 8 in t. In the reading of the loop, s has
// position 2, 4 or 5, counted from 0. The position of t is 3 if s has position 2, and 2 otherwise. The angle s then
// enters only the left side of the elimination, and M is linear in (1, cos s, sin s). The degree of f in s is therefore
// at most 12. At position 2, the degree is 8: on vectors of 15 numbers, the part of Rz(s) with exp(i s) has rank 4,
// like the same part of Rz(t).
//
// Values at 28 x 24 angles therefore determine f. These values are computed with twice the precision of double. Errors
// of the elimination and of its determinants are far below the errors of evaluating f in double. Evaluation errors are
// bounded, which makes statements about f certain. Coefficients of higher degree must vanish, and a test checks that
// they do.
#pragma once

#include "general_6r/doubled_resultant.hpp"
#include "general_6r/general_6r.hpp"
#include "numerics/portable.hpp"

namespace eim {

// A way to read the loop of seven links: a view, and the position of s in the view.
struct Reading {
    static constexpr int kPlaces[] = {2, 5, 4};
    static constexpr int count = LoopView<7>::count * 3;

    LoopView<7> view;
    int place;

    explicit Reading(int number) : view(number % LoopView<7>::count), place(kPlaces[number / LoopView<7>::count]) {}

    int joint_of_s() const { return view.joint(place); }
    int joint_of_t() const { return view.joint(place == 2 ? 3 : 2); }
};

// Returns the loop of six joints that remains if the joint at position `place` is fixed. The angle of this joint is
// given by its cosine and sine.
template <class T>
inline LoopOf<6, T> with_fixed(const LoopOf<7, T>& loop, int place, const T& cosine, const T& sine) {
    LoopOf<6, T> rest;
    for (int i = 0; i < 7; ++i) {
        if (i < place) rest.links[i] = loop.links[i];
        if (i == place) rest.links[i - 1] = rest.links[i - 1] * about_z(cosine, sine) * loop.links[i];
        if (i > place) rest.links[i - 1] = loop.links[i];
    }
    return rest;
}

// Computes cosine and sine in long double by Taylor series, because library functions differ between systems.
inline void precise_turn(double angle, long double& cosine, long double& sine) {
    const portable::Remainder r = portable::remainder(angle);
    const long double x = static_cast<long double>(r.high) + r.low, z = x * x;
    long double c = 1.0, s = 1.0;
    for (int n = 22; n > 0; n -= 2) c = 1 - z / ((n - 1) * n) * c, s = 1 - z / (n * (n + 1)) * s;
    s *= x;
    cosine = r.quadrant & 1 ? s : c, sine = r.quadrant & 1 ? c : s;
    if ((r.quadrant + 1) & 2) cosine = -cosine;
    if (r.quadrant & 2) sine = -sine;
}

// Bound of the relative error of a sum over s in long double, whose mantissa has 64 bits on x86. Elsewhere, long double
// may be the same as double.
inline constexpr double kSlicing = std::numeric_limits<long double>::digits >= 64 ? 1e-17 : 1e-14;

// f and its first derivatives with respect to s at one angle s, as functions of t. Each lane contains one derivative.
struct TorusSlices {
    static constexpr int kOrders = 8;
    typedef double Lanes __attribute__((vector_size(kOrders * sizeof(double))));

    Lanes cosine[kDegree + 1], sine[kDegree + 1];
    Lanes noise[kOrders];  // bounds of the errors of the derivatives by t

    // Fills d[m] with the derivatives of order m in t. Lane j has order j in s.
    void at(double t, Lanes (&d)[kOrders]) const {
        const auto [s, c] = sine_and_cosine(t);
        d[0] = cosine[0];
        for (int m = 1; m < kOrders; ++m) d[m] = Lanes{};
        double ck = 1.0, sk = 0.0;
        for (int k = 1; k <= kDegree; ++k) {
            const double next = ck * c - sk * s;
            sk = sk * c + ck * s, ck = next;
            Lanes term = cosine[k] * ck + sine[k] * sk, other = (sine[k] * ck - cosine[k] * sk) * double(k);
            const double square = -k * k;
            for (int m = 0; m < kOrders; m += 2) {
                d[m] += term, d[m + 1] += other;
                term *= square, other *= square;
            }
        }
    }
    // Returns f without derivatives.
    Resultant plain() const {
        Resultant f;
        for (int l = 0; l <= kDegree; ++l) f.cosine[l] = cosine[l][0], f.sine[l] = sine[l][0];
        return f;
    }
};

inline constexpr int kDegreeInS = 12, kSamplesInS = 28;

// f(s, t) = sum over a and c of coefficients[a][c] b_a(s) b_c(t),   b = 1, cos, sin, cos 2, sin 2, ...
class TorusPolynomial {
   public:
    using Number = Doubled<double>;
    static constexpr int kParts = DoubledResultant::kParts, kAll = DoubledResultant::kAll;  // numbers of functions of t
    static constexpr int kPartsInS = 2 * kDegreeInS + 1, kAllInS = kSamplesInS - 1;
    static constexpr int kOrders = TorusSlices::kOrders;  // order of the derivatives that are bounded

    // Takes a loop in which s has position `place`.
    TorusPolynomial(const LoopOf<7, Number>& loop, int place) : place_(place) {
        for (int i = 0; i < 7; ++i) {
            const MotionOf<Number>& link = loop.links[i];
            for (int k = 0; k < 3; ++k) loop_.links[i].rows[k] = plain_vector(link.rows[k]);
            loop_.links[i].translation = plain_vector(link.translation);
        }
        Number sums[kAllInS][kAll];
        sample(loop, sums);
        for (int a = 0; a < kAllInS; ++a) {
            for (int c = 0; c < kAll; ++c) {
                if (a >= kPartsInS || c >= kParts) {
                    beyond_ = std::max(beyond_, std::abs(sums[a][c].high));
                } else {
                    coefficients_[a][c] = static_cast<long double>(sums[a][c].high) + sums[a][c].low;
                }
            }
        }
        for (int k = 0; k <= kDegreeInS; ++k) {
            for (int l = 0; l <= kDegree; ++l) bound_part(k, l);
        }
        bound_rates();
    }

    double amplitude() const { return amplitude_; }
    // Returns the largest of the coefficients that must vanish.
    double beyond() const { return beyond_; }
    // Whether f can be used: it does not vanish everywhere, and the other angles determine t1.
    bool is_regular() const { return amplitude_ > kFarAboveFloor * floor_ && rank_ratio_ > kLeastRankRatio; }
    // Returns the loop of the six other joints at an angle s.
    Loop rest(double s) const { return with_fixed(loop_, place_, portable::cos(s), portable::sin(s)); }
    // Returns an upper bound of the derivative of order j in s and kOrders - j in t.
    double highest(int j) const { return sizes_[j][kOrders - j]; }

    // Compute M(s, t), and a bound of its change over the cell (s +- ds, t +- dt) in the Frobenius norm.
    void matrix(double s, double t, double (&m)[12][12]) const {
        Elimination(rest(s)).matrix(portable::cos(t), portable::sin(t), m);
    }
    double change(double ds, double dt) const { return ds * rate_s_ + dt * rate_t_; }

    // Fills the functions of t at an angle s.
    void at(double s, TorusSlices& slices) const {
        using Real = long double;
        Real c, sine;
        precise_turn(s, c, sine);
        Real basis[kPartsInS][kOrders] = {}, ck = 1.0, sk = 0.0;  // derivatives of b_a
        basis[0][0] = 1.0;
        for (int k = 1; k <= kDegreeInS; ++k) {
            const Real next = ck * c - sk * sine;
            sk = sk * c + ck * sine, ck = next;
            Real cosine[2] = {ck, -k * sk}, sines[2] = {sk, k * ck};
            for (int j = 0; j < kOrders; ++j) {
                basis[2 * k - 1][j] = cosine[j % 2], basis[2 * k][j] = sines[j % 2];
                cosine[j % 2] *= -k * k, sines[j % 2] *= -k * k;
            }
        }
        for (int c = 0; c < kParts; ++c) {
            Real sums[kOrders] = {};
            for (int a = 0; a < kPartsInS; ++a) {
                for (int j = 0; j < kOrders; ++j) sums[j] += coefficients_[a][c] * basis[a][j];
            }
            TorusSlices::Lanes& to = c % 2 ? slices.cosine[(c + 1) / 2] : c ? slices.sine[c / 2] : slices.cosine[0];
            for (int j = 0; j < kOrders; ++j) to[j] = double(sums[j]);
        }
        slices.sine[0] = TorusSlices::Lanes{};
        for (int m = 0; m < kOrders; ++m) {
            for (int j = 0; j < kOrders; ++j) {
                double sum = 0.0;
                for (int l = m > 0; l <= kDegree; ++l) {
                    sum += power(l, m) * (std::abs(slices.cosine[l][j]) + std::abs(slices.sine[l][j]));
                }
                slices.noise[m][j] = kEvaluation * sum + kSlicing * sizes_[j][m] + floor_ * powers_[j][m];
            }
        }
    }

   private:
    static Vector plain_vector(const VectorOf<Number>& v) { return {v.x.high, v.y.high, v.z.high}; }
    static double power(int k, int j) {
        double value = 1.0;
        for (int i = 0; i < j; ++i) value *= k;
        return value;
    }

    // Computes the coefficients from values at equidistant angles.
    void sample(const LoopOf<7, Number>& loop, Number (&sums)[kAllInS][kAll]) {
        const DoubledTable<kSamplesInS>& table = DoubledTable<kSamplesInS>::get();
        for (int i = 0; i < kSamplesInS; ++i) {
            const EliminationOf<Number> elimination(
                with_fixed(loop, place_, table.cosine[2 * i + 1], table.sine[2 * i + 1]));
            rank_ratio_ = i == 0 ? elimination.rank_ratio() : rank_ratio_;
            const DoubledResultant f(elimination);
            floor_ = std::max(floor_, f.floor);
            for (int a = 0; a < kAllInS; ++a) {
                for (int c = 0; c < kAll; ++c) sums[a][c] += table.bases[a][i] * f.coefficients[c];
            }
        }
    }

    // Adds the terms of frequencies k and l to the bounds.
    void bound_part(int k, int l) {
        double square = 0.0;
        for (const int a : {2 * k - 1, 2 * k}) {
            for (const int c : {2 * l - 1, 2 * l}) {
                if (a >= 0 && c >= 0) square += double(coefficients_[a][c] * coefficients_[a][c]);
            }
        }
        const double size = std::sqrt(square);
        amplitude_ = std::max(amplitude_, size);
        for (int j = 0; j <= kOrders; ++j) {
            for (int m = 0; m <= kOrders; ++m) {
                sizes_[j][m] += power(k, j) * power(l, m) * size, powers_[j][m] += 4.0 * power(k, j) * power(l, m);
            }
        }
    }

    // M is linear in b(s) and in b(t), where b = (1, cos, sin). Values at three angles each therefore determine its
    // parts. The parts with cos t and sin t bound |M_t| by Cauchy's inequality, because |b(s)|^2 = 2.
    void bound_rates() {
        double values[3][3][12][12];
        for (int a = 0; a < 3; ++a) {
            for (int b = 0; b < 3; ++b) matrix(kTwoPi * a / 3, kTwoPi * b / 3, values[a][b]);
        }
        double squares[3][3] = {};
        for (int a = 0; a < 3; ++a) {
            for (int b = 0; b < 3; ++b) {
                for (int i = 0; i < 144; ++i) {
                    double part = 0.0;
                    for (int c = 0; c < 3; ++c) {
                        for (int d = 0; d < 3; ++d) part += weight(a, c) * weight(b, d) * values[c][d][i / 12][i % 12];
                    }
                    squares[a][b] += part * part;
                }
            }
        }
        for (int a = 0; a < 3; ++a) {
            rate_s_ += squares[1][a] + squares[2][a], rate_t_ += squares[a][1] + squares[a][2];
        }
        rate_s_ = std::sqrt(2.0 * rate_s_), rate_t_ = std::sqrt(2.0 * rate_t_);
    }
    // Returns the weight of the value at 2 pi c / 3 in part a of (1, cos, sin).
    static double weight(int a, int c) {
        const double angle = kTwoPi * c / 3;
        return a == 0 ? 1.0 / 3.0 : 2.0 / 3.0 * (a == 1 ? portable::cos(angle) : portable::sin(angle));
    }

    LoopOf<7> loop_;
    int place_;
    long double coefficients_[kPartsInS][kParts];
    double amplitude_ = 0.0, beyond_ = 0.0, floor_ = 0.0, rank_ratio_ = 0.0, rate_s_ = 0.0, rate_t_ = 0.0;
    double sizes_[kOrders + 1][kOrders + 1] = {}, powers_[kOrders + 1][kOrders + 1] = {};
};

}  // namespace eim
