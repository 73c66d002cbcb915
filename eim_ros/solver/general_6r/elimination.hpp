// Elimination of all angles of a loop except the third angle (Raghavan and Roth 1993).
//
// Both sides of
//
//    L2 Rz(t3) L3 Rz(t4) L4 Rz(t5) L5  =  Rz(-t2) L1^-1 Rz(-t1) L6^-1 Rz(-t6)
//
// act on the z axis a (`line_vector.hpp`), which Rz(t6) does not change. Let y(t1) = L1^-1 Rz(-t1) L6^-1 a, which is
// linear in (1, c1, s1). The right side Rz(-t2) y has two properties:
//
//  - Six components do not depend on t2, and are linear in (1, c1, s1). Four combinations of these components are
//    therefore constants.
//  - As complex numbers x + i y, the transverse parts of l, p, m and h are exp(-i t2) times a linear form in
//    (1, c1, s1). One complex combination of these four parts vanishes.
//
// These properties give six equations N x = 0 for the left side x, where N has orthonormal rows. Let g = (1, c4, s4) x
// (1, c5, s5) be the monomials. The equations are E(t3) g = 0, with E(t3) = E_1 + E_c c3 + E_s s3 of size 6 x 9.
//
// Each row, times cos(t4 / 2) and times sin(t4 / 2), is linear in the 12 functions (cos t4/2, sin t4/2, cos 3 t4/2, sin
// 3 t4/2) x (1, c5, s5). The coefficients form a 12 x 12 matrix M(t3), which is singular at each solution. The
// determinant of M is a trigonometric polynomial of degree 8 in t3.
//
// Joints 1, 4 and 5 may be prismatic (`as_turning`). A prismatic joint 1 enters by (1, d, d^2) instead of (1, c1, s1).
#pragma once

#include "general_6r/loop.hpp"
#include "numerics/portable.hpp"

namespace eim {

template <class T>
struct ComplexOf {
    T re{}, im{};

    ComplexOf operator+(const ComplexOf& b) const { return {re + b.re, im + b.im}; }
    ComplexOf operator-(const ComplexOf& b) const { return {re - b.re, im - b.im}; }
    ComplexOf operator*(const ComplexOf& b) const { return {re * b.re - im * b.im, re * b.im + im * b.re}; }
    ComplexOf operator*(const T& f) const { return {re * f, im * f}; }
    ComplexOf conjugate() const { return {re, -im}; }
    T square() const { return re * re + im * im; }
};

template <class T>
class EliminationOf {
   public:
    using Row = LineVectorOf<T>;
    using Complex = ComplexOf<T>;

    // Whether the angles of a loop can be eliminated. The second, third and sixth joints must be revolute.
    static bool suits(const LoopOf<6, T>& loop) { return !loop.slides[1] && !loop.slides[2] && !loop.slides[5]; }

    explicit EliminationOf(const LoopOf<6, T>& loop) : second_(loop.links[1]) {
        std::copy_n(loop.slides, 6, slides_);
        const Row last = moved(loop.links[5].inverse(), z_axis<T>());
        const Turning<Row> right = slides_[0] ? slid_along_z(last, -1.0) : turned_about_z(last, -1.0);
        const MotionOf<T> first = loop.links[0].inverse();
        const Row ys[3] = {moved(first, right.constant), moved(first, right.cosine), moved(first, right.sine)};
        Row rows[6];
        eliminate_first(ys, rows);
        eliminate_second(ys, rows);
        const auto by_joint = [this](const Row& x, int joint) {
            return slides_[joint] ? as_turning(slid_along_z(x, 1.0)) : turned_about_z(x, 1.0);
        };
        const auto fifth = by_joint(moved(loop.links[4], z_axis<T>()), 4);
        const Row* of_fifth[3] = {&fifth.constant, &fifth.cosine, &fifth.sine};
        for (int j = 0; j < 3; ++j) {
            const auto fourth = by_joint(moved(loop.links[3], *of_fifth[j]), 3);
            left_[j] = moved(loop.links[2], fourth.constant), left_[3 + j] = moved(loop.links[2], fourth.cosine);
            left_[6 + j] = moved(loop.links[2], fourth.sine);
        }
        for (int r = 0; r < 6; ++r) {
            const Row row = moved_row(second_, rows[r]);
            for (int k = 0; k < 9; ++k) equations_[r][k] = turned_product(row, left_[k]);
        }
    }

    // Returns how well the constants determine the first angle. If the ratio is 0, solutions may differ only in the
    // first two angles. The determinant then has fewer zeros than the loop has solutions.
    double rank_ratio() const { return rank_ratio_; }

    // Fills M at angles t3, which are given by their cosines and sines.
    template <class V>
    void matrix(const V& cosine, const V& sine, V (&m)[12][12]) const {
        for (int r = 0; r < 6; ++r) {
            for (int j = 0; j < 3; ++j) {
                V at[3];  // factors of 1, c4, s4
                for (int i = 0; i < 3; ++i) {
                    const Turning<T>& e = equations_[r][3 * i + j];
                    at[i] = spread<V>(e.constant) + cosine * spread<V>(e.cosine) + sine * spread<V>(e.sine);
                }
                const V c = 0.5 * at[1], s = 0.5 * at[2];
                m[r][j] = at[0] + c, m[r][3 + j] = s, m[r][6 + j] = c, m[r][9 + j] = s;
                m[6 + r][j] = s, m[6 + r][3 + j] = at[0] - c, m[6 + r][6 + j] = -s, m[6 + r][9 + j] = c;
            }
        }
    }

    // Completes a solution from t3 to t5. The constants give t1 by least squares, and the phase of the transverse parts
    // gives t2.
    void complete(double (&angles)[6]) const {
        const JointFunctions fourth(angles[3], slides_[3]), fifth(angles[4], slides_[4]);
        const auto of_fifth = [&](int i) {
            return left_[i] * fifth.one + left_[i + 1] * fifth.cosine + left_[i + 2] * fifth.sine;
        };
        Row x = of_fifth(0) * fourth.one + of_fifth(3) * fourth.cosine + of_fifth(6) * fourth.sine;
        x = moved(second_, turned_about_z(x, 1.0).at(portable::cos(angles[2]), portable::sin(angles[2])));
        const std::array<double, 6> values = x.axial();
        double cc = 0, cs = 0, ss = 0, rc = 0, rs = 0;
        for (int i = 0; i < 6; ++i) {
            const Turning<T>& y = axial_[i];
            const double rest = values[i] - y.constant;
            cc += y.cosine * y.cosine, cs += y.cosine * y.sine, ss += y.sine * y.sine;
            rc += y.cosine * rest, rs += y.sine * rest;
        }
        const double along = rc * ss - rs * cs, across = cc * rs - cs * rc;
        angles[0] = slides_[0] ? along / (cc * ss - cs * cs) : portable::atan2(across, along);
        const double d1 = angles[0], c1 = slides_[0] ? d1 : portable::cos(d1),
                     s1 = slides_[0] ? d1 * d1 : portable::sin(d1);
        const std::array<Complex, 4> turned = transverse(x);
        Complex phase;
        for (int k = 0; k < 4; ++k) {
            const Turning<Complex>& y = transverse_[k];
            phase = phase + turned[k] * y.at(c1, s1).conjugate();
        }
        angles[1] = -portable::atan2(phase.im, phase.re);
    }

   private:
    static std::array<Complex, 4> transverse(const Row& x) {
        return {{{x.l.x, x.l.y}, {x.p.x, x.p.y}, {x.m.x, x.m.y}, {x.h.x, x.h.y}}};
    }

    // Fills rows 0 to 3 with the combinations of the axial components of y(t1) in which c1 and s1 cancel, minus their
    // constants.
    void eliminate_first(const Row (&ys)[3], Row (&rows)[6]) {
        T h[6][2], q[6][6] = {};
        for (int i = 0; i < 6; ++i) {
            axial_[i] = {ys[0].axial()[i], ys[1].axial()[i], ys[2].axial()[i]};
            h[i][0] = axial_[i].cosine, h[i][1] = axial_[i].sine, q[i][i] = T(1.0);
        }
        for (int k = 0; k < 2; ++k) {
            T v[6] = {}, square{};
            for (int i = k; i < 6; ++i) v[i] = h[i][k], square += v[i] * v[i];
            if (!(square > 0.0)) continue;
            const T norm = square_root(square);
            v[k] = v[k] < 0.0 ? v[k] - norm : v[k] + norm;
            square = T{};
            for (int i = k; i < 6; ++i) square += v[i] * v[i];
            const auto reflect = [&](auto& matrix, int j) {
                T product{};
                for (int i = k; i < 6; ++i) product += v[i] * matrix[i][j];
                product *= T(2.0) / square;
                for (int i = k; i < 6; ++i) matrix[i][j] -= product * v[i];
            };
            for (int j = k; j < 2; ++j) reflect(h, j);
            for (int j = 0; j < 6; ++j) reflect(q, j);
        }
        const auto size = [&](int i, int j) { return std::abs(plain(h[i][j])); };
        rank_ratio_ = size(1, 1) / (size(0, 0) + size(0, 1) + 1e-300);
        for (int r = 0; r < 4; ++r) {
            const T* row = q[r + 2];
            rows[r].l.z = row[0], rows[r].p.z = row[1], rows[r].m.z = row[2], rows[r].h.z = row[3];
            rows[r].pl = row[4], rows[r].pp = row[5];
            for (int i = 0; i < 6; ++i) rows[r].one -= row[i] * axial_[i].constant;
        }
    }

    // Fills rows 4 and 5 with the real and imaginary part of the vanishing combination of the transverse parts of
    // y(t1). This combination is the last row of the unitary factor of their 4 x 3 matrix.
    void eliminate_second(const Row (&ys)[3], Row (&rows)[6]) {
        Complex b[4][3], q[4][4];
        const std::array<Complex, 4> parts[3] = {transverse(ys[0]), transverse(ys[1]), transverse(ys[2])};
        for (int k = 0; k < 4; ++k) {
            transverse_[k] = {parts[0][k], parts[1][k], parts[2][k]};
            for (int j = 0; j < 3; ++j) b[k][j] = parts[j][k];
            q[k][k].re = T(1.0);
        }
        for (int k = 0; k < 3; ++k) {
            Complex v[4];
            T square{};
            for (int i = k; i < 4; ++i) v[i] = b[i][k], square += v[i].square();
            if (!(square > 0.0)) continue;
            const T norm = square_root(square), head = square_root(v[k].square());
            v[k] = head > 0.0 ? v[k] * (T(1.0) + norm / head) : Complex{norm, T{}};
            square = T{};
            for (int i = k; i < 4; ++i) square += v[i].square();
            const auto reflect = [&](auto& matrix, int j) {
                Complex product;
                for (int i = k; i < 4; ++i) product = product + v[i].conjugate() * matrix[i][j];
                product = product * (T(2.0) / square);
                for (int i = k; i < 4; ++i) matrix[i][j] = matrix[i][j] - v[i] * product;
            };
            for (int j = k; j < 3; ++j) reflect(b, j);
            for (int j = 0; j < 4; ++j) reflect(q, j);
        }
        const Complex* n = q[3];  // (a + ib) (x + iy): real part a x - b y, imaginary part b x + a y
        rows[4].l = {n[0].re, -n[0].im, T{}}, rows[4].p = {n[1].re, -n[1].im, T{}};
        rows[4].m = {n[2].re, -n[2].im, T{}}, rows[4].h = {n[3].re, -n[3].im, T{}};
        rows[5].l = {n[0].im, n[0].re, T{}}, rows[5].p = {n[1].im, n[1].re, T{}};
        rows[5].m = {n[2].im, n[2].re, T{}}, rows[5].h = {n[3].im, n[3].re, T{}};
    }

    MotionOf<T> second_;              // L2
    Turning<T> axial_[6];             // axial components of y(t1)
    Turning<Complex> transverse_[4];  // transverse parts of y(t1)
    Row left_[9];                     // L3 Rz(t4) L4 Rz(t5) L5 a, as coefficients of the monomials
    Turning<T> equations_[6][9];      // E(t3)
    double rank_ratio_ = 0.0;
    bool slides_[6];
};
using Elimination = EliminationOf<double>;

}  // namespace eim
