// All zeros on the circle of a trigonometric polynomial with known error, and bounds of their number.
//
// The circle is divided into cells. A cell is halved until one of these statements is certain. The statements use f,
// f', f'' and f''' at the middle of the cell, and a bound of the fourth derivative:
//
//    empty     f has no zero
//    monotone  f' has no zero
//    convex    f'' has no zero, and f has at most one extremum (this kind includes concave cells)
//
// A sign is certain if |f| is larger than its error. The error is the same for all angles (`NoisyResultant`), or
// depends on the angle (`CertainResultant`). Edges of cells with a certain sign divide the circle into parts. Within a
// part, minima are in convex cells and maxima are in concave cells, and minima and maxima alternate. The number of
// zeros is therefore largest if all maxima are positive and all minima are negative. Edges with an uncertain sign are
// not used.
#pragma once

#include "general_6r/resultant.hpp"

namespace eim {

// A resultant with an error of at most eta. The k-th derivative of the resultant has an error of at most 8^k eta.
struct NoisyResultant {
    using Values = Resultant::Values;
    static constexpr int kMostCells = 300;
    static constexpr double kSmallestNoisy = 1e-4, kSmallestCell = 1e-7;  // [rad]

    const Resultant& f;
    double eta, highest = 0.0;

    NoisyResultant(const Resultant& f, double eta) : f(f), eta(eta) {
        for (int k = 1; k <= kDegree; ++k) highest += double(k * k) * (k * k) * f.modulus(k);
    }
    Values at(double angle) const { return f.at(angle); }
    // Returns a bound of the fourth derivative within a distance of an angle. The first argument contains the values at
    // this angle.
    double fourth(const Values&, double) const { return highest; }
    // Return bounds of the errors of f, f' and f'' within a distance of an angle. The first argument contains the
    // values at this angle.
    double error(const Values&, double = 0.0) const { return eta; }
    double error1(const Values&, double) const { return 8.0 * eta; }
    double error2(const Values&, double) const { return 64.0 * eta; }
    // Returns a bound of the error of an extreme value of f, near an extremum with these values. At the extremum, |f''|
    // exceeds its error by `bend`.
    double error_of_extreme(const Values&, double) const { return eta; }

    // Fills the values at the middle of each cell.
    void at_cells(Values (&values)[kCells]) const {
        constexpr int W = AngleTables::W;
        const AngleTables& tables = AngleTables::get();
        for (int first = 0; first < kCells; first += W) {
            WideDouble v[4] = {fill<WideDouble>(f.cosine[0]), {}, {}, {}};
            for (int k = 1; k <= kDegree; ++k) {
                const WideDouble c = tables.cell_cosine[k][first / W], s = tables.cell_sine[k][first / W];
                const WideDouble even = f.cosine[k] * c + f.sine[k] * s, odd = k * (f.sine[k] * c - f.cosine[k] * s);
                v[0] += even, v[1] += odd, v[2] -= k * k * even, v[3] -= k * k * odd;
            }
            for (int lane = 0; lane < W; ++lane) {
                values[first + lane] = {v[0][lane], v[1][lane], v[2][lane], v[3][lane]};
            }
        }
    }
};

template <class F>
class IsolationOf {
   public:
    static constexpr int kMost = 64;

    int n = 0;
    double zeros[kMost];      // start angles for Newton's method
    int least = 0, most = 0;  // bounds of the number of zeros, unless it is unknown
    bool is_unknown = false;

    explicit IsolationOf(const F& f) : f_(f) {
        const double r = AngleTables::half_cell();
        Values values[kCells];
        f_.at_cells(values);
        for (int i = 0; i < kCells; ++i) {
            if (n_noisy_ < kMostNoisy) examine(AngleTables::middle(i), r, values[i], 0);
        }
        pass(kShift + kPi, first_sign_);
        count();
    }

   private:
    using Values = typename F::Values;
    static constexpr int kMostNoisy = 3, kDeepest = 40, kMostLeaves = 200;
    static constexpr double kLastStep = 1e-9;  // [rad]: largest last Newton step; the error is about its square

    // A cell that is not empty, or part of such a cell.
    struct Leaf {
        int bend;   // 1 if f is convex, -1 if it is concave, 0 if there is no extremum
        int after;  // sign of f at the right end, or 0 if it is uncertain
    };

    int certain_sign(const Values& v) const { return std::abs(v.f) > f_.error(v) ? sign(v.f) : 0; }
    static int sign(double value) { return value > 0.0 ? 1 : -1; }

    void add_zero(double angle) {
        if (n < kMost) zeros[n++] = angle;
    }
    // Passes an edge after which f has this sign up to rounding. Adds a zero if the sign before the edge was different.
    void pass(double edge, int sign) {
        if (sign_ && sign && sign_ != sign) add_zero(edge);
        sign_ = sign;
        if (!first_sign_) first_sign_ = sign;
    }
    void add_undecided(double c) { is_unknown = true, sign_ = 0, add_zero(c); }
    void add_empty(double a, int sign) {
        pass(a, sign);
        (n_leaves_ ? leaves_[n_leaves_ - 1].after : before_) = sign;
    }
    void add_leaf(int bend, int after) {
        if (n_leaves_ < kMostLeaves) {
            leaves_[n_leaves_++] = {bend, after};
        } else {
            is_unknown = true;
        }
    }

    // Adds the zero between a and b if f has opposite signs there.
    void search(double a, double b, double fa, double fb) {
        pass(a, sign(fa)), sign_ = sign(fb);
        if (sign(fa) == sign(fb)) return;
        double x = a - fa * (b - a) / (fb - fa);
        for (int i = 0; i < 30; ++i) {
            const Values v = f_.at(x);
            if (v.f == 0.0) break;
            sign(v.f) == sign(fb) ? (b = x) : (a = x);
            const double next = x - v.f / v.f1;
            if (std::abs(next - x) < kLastStep) {
                x = std::clamp(next, a, b);
                break;
            }
            x = next > a && next < b ? next : 0.5 * (a + b);
        }
        add_zero(x);
    }

    void halve(double c, double r, int depth) {
        for (const double middle : {c - 0.5 * r, c + 0.5 * r}) examine(middle, 0.5 * r, f_.at(middle), depth + 1);
    }

    // Examines the cell from c - r to c + r. The values of f at c are v.
    void examine(double c, double r, const Values& v, int depth) {
        if (++n_cells_ > F::kMostCells) {
            is_unknown = true;
            return;
        }
        const double size1 = std::abs(v.f1), size2 = std::abs(v.f2), size3 = std::abs(v.f3), fourth = f_.fourth(v, r);
        const double change = size1 * r + size2 * r * r / 2 + size3 * r * r * r / 6 + fourth * r * r * r * r / 24;
        if (std::abs(v.f) + change < 3.0 * f_.error(v) && r > F::kSmallestNoisy) {
            ++n_noisy_;
            return add_undecided(c);
        }
        if (std::abs(v.f) - f_.error(v, r) > change) return add_empty(c - r, sign(v.f));
        const double slope = size1 - f_.error1(v, r) - size2 * r - size3 * r * r / 2 - fourth * r * r * r / 6;
        if (slope > 0.0) return add_monotone(c - r, c + r, f_.at(c - r), f_.at(c + r));
        const double bend = size2 - f_.error2(v, r) - size3 * r - fourth * r * r / 2;
        if (bend > 0.0) return add_bent(c, r, v, bend);
        r < F::kSmallestCell || depth >= kDeepest ? add_undecided(c) : halve(c, r, depth);
    }

    void add_monotone(double a, double b, const Values& va, const Values& vb) {
        const int before = certain_sign(va), after = certain_sign(vb);
        if (before && before == after) return add_empty(a, after);
        search(a, b, va.f, vb.f), add_leaf(0, after);
    }

    // Adds a cell in which f is convex (up is 1) or concave (up is -1). The graph of f lies on one side of each
    // tangent.
    void add_bent(double c, double r, const Values& v, double bend) {
        const int up = sign(v.f2);
        const double a = c - r, b = c + r;
        const auto is_empty = [&](const Values& w, double x) {
            return up * w.f - (r + std::abs(x - c)) * std::abs(w.f1) > f_.error_of_extreme(w, bend);
        };
        if (is_empty(v, c)) return add_empty(a, up);
        const Values va = f_.at(a), vb = f_.at(b);
        const int before = certain_sign(va), after = certain_sign(vb);
        if (before == -up && after == -up) return add_empty(a, -up);
        double x = c;
        Values w = v;
        for (int i = 0; i < 20; ++i) {  // Newton's method for f' within the cell
            const double next = std::clamp(x - w.f1 / w.f2, a, b), step = std::abs(next - x);
            if (step == 0.0) break;
            x = next, w = f_.at(x);
            if (is_empty(w, x)) return add_empty(a, up);
            if (step < kLastStep) break;
        }
        const bool is_inside = x > a && x < b;
        if (!is_inside && std::abs(w.f1) > f_.error1(w, 0.0)) return add_monotone(a, b, va, vb);
        const int middle = certain_sign(w);
        if (is_inside) search(a, x, va.f, w.f), search(x, b, w.f, vb.f);
        if (is_inside && middle == -up) {
            add_leaf(0, middle), add_leaf(0, after);
            return;
        }
        if (!is_inside) search(a, b, va.f, vb.f);
        if (!middle) {  // the solver also starts Newton's method on both sides of the extremum
            const double away = std::sqrt(2.0 * std::max(std::abs(w.f), f_.error(w)) / bend);
            add_zero(x), add_zero(x - away), add_zero(x + away);
        }
        add_leaf(up, after);
    }

    // Bounds the number of zeros in each part.
    void count() {
        if (n_leaves_ == 0) {
            is_unknown |= before_ == 0;
            return;
        }
        if (before_) leaves_[n_leaves_ - 1].after = before_;
        int start = 0;
        while (start < n_leaves_ && !leaves_[start].after) ++start;
        if (start == n_leaves_) {
            is_unknown = true;
            return;
        }
        int before = leaves_[start].after, n_extrema = 0, first = 0, last = 0;
        for (int i = 1; i <= n_leaves_; ++i) {
            const Leaf& leaf = leaves_[(start + i) % n_leaves_];
            if (leaf.bend && leaf.bend != last) {
                last = leaf.bend, ++n_extrema;
                if (n_extrema == 1) first = last;
            }
            if (!leaf.after) continue;
            least += before != leaf.after;
            most += n_extrema == 0 ? before != leaf.after : n_extrema - 1 + (before == first) + (leaf.after == last);
            before = leaf.after, n_extrema = first = last = 0;
        }
    }

    F f_;
    Leaf leaves_[kMostLeaves];
    int before_ = 0;                 // sign at the start of the first leaf
    int sign_ = 0, first_sign_ = 0;  // sign up to rounding at the end of the last cell, and at the start of the circle
    int n_leaves_ = 0, n_cells_ = 0, n_noisy_ = 0;
};
using Isolation = IsolationOf<NoisyResultant>;

}  // namespace eim
