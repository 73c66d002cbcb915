// All zeros of a trigonometric polynomial on the circle, with bounds of their number, given its noise.
//
// The circle is divided into cells, which are halved until one of these is certain, from f, f', f'' and f''' at the
// middle of the cell and a bound of the fourth derivative:
//
//  - f has no zero,
//  - f is monotone: at most one zero, and exactly one if the signs at the ends are certain and differ,
//  - f is convex or concave: at most two zeros, decided at the extremum.
//
// A sign is certain if |f| is larger than eta, a multiple of the noise. A cell where |f| stays within the noise is
// counted as unknown.
#pragma once

#include <limits>

#include "general_6r/resultant.hpp"

namespace eim {

// A zero, or a place where zeros may be. It stands for `least` to `most` zeros.
struct Zero {
    double angle;
    int least, most;
    double margin = 0.0;  // [rad]: uncertainty of the angle if it is near an edge, where two cells may claim the zero
};

class Isolation {
   public:
    static constexpr int kMost = 64;

    int n = 0;
    Zero zeros[kMost];
    int least = 0, most = 0;  // bounds of the number of zeros, unless it is unknown
    bool is_unknown = false;
    double quiet = 0.0;  // where f and its derivatives are smallest

    // eta: values up to this modulus may be zero.
    Isolation(const Resultant& f, double eta) : f_(f), eta_(eta) {
        for (int k = 1; k <= kDegree; ++k) fourth_ += double(k * k) * (k * k) * f.modulus(k);
        constexpr int W = AngleTables::W;
        const AngleTables& tables = AngleTables::get();
        const double r = AngleTables::half_cell();
        double least_size = std::numeric_limits<double>::infinity();
        for (int first = 0; first < kCells; first += W) {
            WideDouble v[4] = {fill<WideDouble>(f.cosine[0]), {}, {}, {}};
            for (int k = 1; k <= kDegree; ++k) {
                const WideDouble c = tables.cell_cosine[k][first / W], s = tables.cell_sine[k][first / W];
                const WideDouble even = f.cosine[k] * c + f.sine[k] * s, odd = k * (f.sine[k] * c - f.cosine[k] * s);
                v[0] += even, v[1] += odd, v[2] -= k * k * even, v[3] -= k * k * odd;
            }
            const WideDouble sizes = absolute(v[0]) + absolute(v[1]) * r + absolute(v[2]) * (r * r / 2);
            for (int lane = 0; lane < W; ++lane) {
                const double c = AngleTables::middle(first + lane);
                if (sizes[lane] < least_size) least_size = sizes[lane], quiet = c;
                if (n_noisy_ < kMostNoisy) examine(c, r, {v[0][lane], v[1][lane], v[2][lane], v[3][lane]}, 0);
            }
        }
        tidy();
    }

   private:
    using Values = Resultant::Values;
    static constexpr int kMostNoisy = 3, kMostCells = 300, kDeepest = 40;
    static constexpr double kSmallestNoisy = 1e-4, kSmallestCell = 1e-7;  // [rad]
    static constexpr double kRoundedAngle = 1e-12;                        // [rad]

    bool is_certain(double value) const { return std::abs(value) > eta_; }
    static bool differ(double a, double b) { return (a > 0.0) != (b > 0.0); }

    void add(double angle, int fewest, int greatest, double margin = 0.0) {
        least += fewest, most += greatest;
        if (n < kMost) {
            zeros[n++] = {angle, fewest, greatest, margin};
        } else {
            is_unknown = true;
        }
    }

    // The zero between a and b, where f has different signs.
    double zero_between(double a, double b, double fa, double fb) const {
        double x = a - fa * (b - a) / (fb - fa);
        for (int i = 0; i < 30; ++i) {
            const Values v = f_.at(x);
            if (v.f == 0.0) return x;
            differ(v.f, fa) ? (b = x) : (a = x);
            double next = x - v.f / v.f1;
            if (std::abs(next - x) < 1e-14) return next;
            x = next > a && next < b ? next : 0.5 * (a + b);
        }
        return x;
    }

    void halve(double c, double r, int depth) {
        for (const double middle : {c - 0.5 * r, c + 0.5 * r}) examine(middle, 0.5 * r, f_.at(middle), depth + 1);
    }

    // A part where f is monotone.
    void monotone(double a, double b, double fa, double fb) {
        if (!is_certain(fa) || !is_certain(fb)) return add(is_certain(fa) ? b : a, 0, 1);
        if (differ(fa, fb)) add(zero_between(a, b, fa, fb), 1, 1);
    }

    // A zero may be at an end of a monotone cell: a larger monotone cell decides. The zero belongs to this cell if it
    // is inside. Both neighbours claim a zero at their common edge; see `tidy`. Returns whether it is decided.
    bool decide_at_ends(double c, double r, const Values& v) {
        const double wide = 1.3 * r;
        if (!is_monotone(v, wide)) return false;
        const double fa = f_.at(c - wide).f, fb = f_.at(c + wide).f;
        if (!is_certain(fa) || !is_certain(fb)) return false;
        if (!differ(fa, fb)) return true;
        const double x = zero_between(c - wide, c + wide, fa, fb);
        const double margin = kRoundedAngle + 4.0 * eta_ / std::abs(f_.at(x).f1);
        if (!(margin < 0.1 * r)) return false;
        if (std::abs(x - c) < r + margin) add(x, 1, 1, margin);
        return true;
    }

    // The noise of the k-th derivative is at most 8^k times that of f.
    bool is_monotone(const Values& v, double r) const {
        return std::abs(v.f1) - 8.0 * eta_ > std::abs(v.f2) * r + std::abs(v.f3) * r * r / 2 + fourth_ * r * r * r / 6;
    }
    bool is_convex(const Values& v, double r) const {
        return std::abs(v.f2) - 64.0 * eta_ > std::abs(v.f3) * r + fourth_ * r * r / 2;
    }

    // The cell from c - r to c + r with the values of f at c.
    void examine(double c, double r, const Values& v, int depth) {
        if (++n_cells_ > kMostCells) {
            is_unknown = true;
            return;
        }
        const double change = std::abs(v.f1) * r + std::abs(v.f2) * r * r / 2 + std::abs(v.f3) * r * r * r / 6 +
                              fourth_ * r * r * r * r / 24;
        if (std::abs(v.f) + change < 3.0 * eta_ && r > kSmallestNoisy) {
            is_unknown = true, ++n_noisy_;
            return add(c, 0, 1);
        }
        if (std::abs(v.f) - eta_ > change) return;
        if (is_monotone(v, r)) {
            const double fa = f_.at(c - r).f, fb = f_.at(c + r).f;
            if ((is_certain(fa) && is_certain(fb)) || depth >= kDeepest) return monotone(c - r, c + r, fa, fb);
            return decide_at_ends(c, r, v) ? void() : halve(c, r, depth);
        }
        if (is_convex(v, r) && decide_at_extremum(c, r, v, depth)) return;
        if (r < kSmallestCell || depth >= kDeepest || n > kMost - 4) {
            is_unknown = true;
            return add(c, 0, 1);
        }
        halve(c, r, depth);
    }

    // A cell where f is convex or concave. Returns whether it is decided.
    bool decide_at_extremum(double c, double r, const Values& v, int depth) {
        double x = c;
        for (int i = 0; i < 20; ++i) {  // Newton's method on f', within the cell
            const Values w = f_.at(x);
            const double step = std::clamp(-w.f1 / w.f2, -2.0 * r, 2.0 * r), next = std::clamp(x + step, c - r, c + r);
            const bool is_stuck = next != x + step && i > 3;
            x = next;
            if (is_stuck || std::abs(step) < 1e-15) break;
        }
        const Values at_x = f_.at(x);
        const double extreme = at_x.f, fa = f_.at(c - r).f, fb = f_.at(c + r).f, up = v.f2 > 0.0 ? 1.0 : -1.0;
        const bool ends_are_certain = is_certain(fa) && is_certain(fb);
        // how much further f may go, if Newton's method did not converge to the extremum within the cell
        const bool is_at_end = (x == c - r && up * at_x.f1 >= 0.0) || (x == c + r && up * at_x.f1 <= 0.0);
        const double rest = is_at_end ? 0.0 : 2.0 * r * std::abs(at_x.f1);
        if (is_certain(extreme) && up * extreme > 0.0) return std::abs(extreme) - rest > eta_;  // no zero
        if (is_certain(extreme)) {
            if (!ends_are_certain && depth < kDeepest) return false;
            if (x > c - r) monotone(c - r, x, fa, extreme);
            if (x < c + r) monotone(x, c + r, extreme, fb);
            return true;
        }
        if (!(x > c - r && x < c + r) || !ends_are_certain) return false;
        // none or two zeros within the noise; Newton's method also starts to the left and right of them
        const double away = std::sqrt(2.0 * std::max(std::abs(extreme), eta_) / std::abs(v.f2));
        add(x, 0, 2), add(x - away, 0, 0), add(x + away, 0, 0);
        return true;
    }

    // Merges a zero that two neighbouring cells claim. A periodic function changes its sign an even number of times.
    void tidy() {
        std::sort(zeros, zeros + n, [](const Zero& a, const Zero& b) { return a.angle < b.angle; });
        const auto is_same = [](const Zero& a, const Zero& b, double turn) {
            const double gap = b.angle + turn - a.angle;  // f is monotone between the two
            return a.least == 1 && b.least == 1 && gap < 2.0 * (a.margin + b.margin);
        };
        int kept = 0;
        for (int i = 0; i < n; ++i) {
            if (kept && is_same(zeros[kept - 1], zeros[i], 0.0)) {
                --least, --most;
            } else {
                zeros[kept++] = zeros[i];
            }
        }
        if (kept > 1 && is_same(zeros[kept - 1], zeros[0], kTwoPi)) --least, --most, --kept;
        n = kept;
        if (least == most && least % 2 != 0) is_unknown = true;
    }

    const Resultant& f_;
    double eta_, fourth_ = 0.0;
    int n_cells_ = 0, n_noisy_ = 0;
};

}  // namespace eim
