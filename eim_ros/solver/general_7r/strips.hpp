// Proof that no component of the curve f(s, t) = 0 lies between two values of s.
//
// A strip is a range of s, divided into cells by ranges of t. Taylor's formula of order 8 bounds f and its derivatives
// over a cell, using derivatives at the middle and bounds of the highest order. The kinds of cells are
//
//    empty       f is not 0
//    monotone    f_t is not 0, so there is at most one zero for each s
//    turning     f_tt is not 0, so there are at most two zeros for each s, and
//                f_s is not 0 (steep), or f_ss f_tt - f_st^2 < 0 (saddle)
//    solitary    there is no solution, although f may be 0 (`solitary.hpp`)
//
// Suppose that a component X of the solutions lies inside the strip. The points of X with the least and the greatest s
// have f_t = 0, and are therefore in turning cells. A cluster consists of the cells around a turning cell, up to the
// next empty cells. All turning cells of a cluster must have the same sign of f_tt. Let this sign be positive. For each
// s, f first falls and then rises over the cluster. Let m(s) be its minimum. If m < 0, the cluster has exactly two
// zeros, or one zero if f is negative at one end for all s. If m > 0, the cluster has no zero.
//
// All turning cells of a cluster must be steep with the same sign, or all must be saddles. In the first case, m' = f_s,
// so m changes its sign at most once. In the second case, m'' = f_ss - f_st^2 / f_tt < 0. Then m <= 0 is impossible on
// a range inside the strip with m = 0 at both ends. In both cases, zeros continue to an edge of the strip. This
// contradicts the assumption that X lies inside the strip.
//
// If several solutions have the same s and t, M has one null vector for each of them, and f has a multiple zero. The
// proof therefore also covers isolated solutions, and solutions with the same s and t.
#pragma once

#include <vector>

#include "general_7r/solitary.hpp"
#include "general_7r/torus_polynomial.hpp"
#include "numerics/clock.hpp"

namespace eim {

class StripProof {
   public:
    // The proof ends without a decision after `most_looks` bounds of cells, or when the deadline, a time of the steady
    // clock [s], passes.
    StripProof(const TorusPolynomial& f, long most_looks, double deadline)
        : f_(f), most_looks_(most_looks), watch_(deadline, kLooksAtOnce) {}

    bool is_spent() { return n_looks_ > std::min(most_looks_, most_now_) || watch_.is_past(); }
    // Limits the number of bounds that may be computed from now on.
    void allow(long most_looks) { most_now_ = n_looks_ + most_looks; }

    // A range of t. Cells that are empty or monotone stay so in narrower strips.
    enum class Kind { empty, monotone, turning, unknown };
    struct Cell {
        double t, r;
        Kind kind = Kind::unknown;
        int bend = 0, slope = 0;  // signs of f_tt and f_s; 0 if uncertain
        bool is_saddle = false, is_bowl = false, is_solitary = false;

        bool is_regular() const { return bend && (slope || is_saddle); }
    };

    static std::vector<Cell> whole_circle() {
        std::vector<Cell> cells;
        const double r = kPi / kFirstCells;
        for (int i = 0; i < kFirstCells; ++i) cells.push_back({kShift - kPi + (2 * i + 1) * r, r});
        return cells;
    }

    // Whether the strip middle +- half contains no component of the curve. Takes and returns cells in the order of t.
    bool holds(double middle, double half, std::vector<Cell>& cells) {
        middle_ = middle, half_ = half;
        f_.at(middle, slices_);
        cells_.clear();
        bool is_known = true;
        for (const Cell& cell : cells) {
            if (cell.kind == Kind::empty || cell.kind == Kind::monotone) {
                cells_.push_back(cell);
            } else {
                is_known &= examine(cell.t, cell.r);
            }
        }
        for (std::size_t i = 0; is_known && i < cells_.size(); ++i) {
            const Cell& cell = cells_[i];
            is_known =
                !is_spent() && (cell.kind != Kind::turning || cell.is_solitary || cluster(int(i)) || is_solitary(cell));
        }
        cells.swap(cells_);
        return is_known;
    }

    // The t of the solutions at one s. The t in `certain` have one solution each. The t in `pairs` have at most two,
    // because they are zeros only up to rounding.
    struct Zeros {
        std::vector<double> certain, pairs;
    };

    // Computes the zeros at one s of the last proven strip, for which `cells` are the cells. Returns false if some
    // zeros are uncertain.
    bool zeros(double s, const std::vector<Cell>& cells, Zeros& found) const {
        found = {};
        TorusSlices slices;
        f_.at(s, slices);
        const Slice slice{slices.plain(), 2.0 * slices.noise[0][0]};
        const int n = int(cells.size());
        int first = 0;
        while (first < n && cells[first].kind != Kind::empty) ++first;
        if (first == n) return false;
        for (int i = 1; i <= n; ++i) {  // runs of cells between empty cells
            if (cells[(first + i) % n].kind == Kind::empty) continue;
            const int begin = i;
            while (cells[(first + i) % n].kind != Kind::empty) ++i;
            std::vector<Cell> run;
            for (int k = begin; k < i; ++k) {
                run.push_back(cells[(first + k) % n]);
                if (first + k >= n) run.back().t += kTwoPi;
            }
            if (!zeros_of(slice, run, found)) return false;
        }
        return true;
    }

   private:
    struct Slice {
        Resultant f;
        double noise;

        // Returns the zero of a function between two angles where its signs differ.
        template <class Function>
        static double zero(Function function, double a, double b) {
            const bool is_positive = function(a) > 0.0;
            for (int halving = 0; halving < kHalvings; ++halving) {
                const double middle = 0.5 * (a + b);
                ((function(middle) > 0.0) == is_positive ? a : b) = middle;
            }
            return 0.5 * (a + b);
        }
    };

    // Adds the zeros of a slice in a run of cells between empty cells. Over the run, f is monotone or has one extremum.
    static bool zeros_of(const Slice& slice, const std::vector<Cell>& run, Zeros& found) {
        int bend = 0;
        for (const Cell& cell : run) {
            if (cell.kind != Kind::turning) continue;
            if (cell.bend == 0 || (bend && cell.bend != bend)) return false;
            bend = cell.bend;
        }
        const double a = run.front().t - run.front().r, b = run.back().t + run.back().r, sign = bend ? bend : 1.0;
        const auto f = [&](double t) { return sign * slice.f.at(t).f; };
        const auto slope = [&](double t) { return sign * slice.f.at(t).f1; };
        const double at_a = f(a), at_b = f(b);
        if (!(std::abs(at_a) > slice.noise) || !(std::abs(at_b) > slice.noise)) return false;
        if ((at_a > 0.0) != (at_b > 0.0)) {
            found.certain.push_back(Slice::zero(f, a, b));
            return true;
        }
        if (!bend || at_a < 0.0 || !(slope(a) < 0.0 && slope(b) > 0.0)) return true;
        const double turn = Slice::zero(slope, a, b), least = f(turn);
        if (least > slice.noise) return true;
        if (least < -slice.noise) {
            found.certain.push_back(Slice::zero(f, a, turn)), found.certain.push_back(Slice::zero(f, turn, b));
            return true;
        }
        // zeros within the noise are not solutions if their cells are solitary
        int low = 0;
        while (low + 1 < int(run.size()) && run[low].t + run[low].r < turn) ++low;
        int high = low;
        while (low > 0 && run[low].is_solitary && run[low - 1].is_solitary) --low;
        while (high + 1 < int(run.size()) && run[high].is_solitary && run[high + 1].is_solitary) ++high;
        const bool is_empty = run[low].is_solitary && f(run[low].t - run[low].r) > slice.noise &&
                              f(run[high].t + run[high].r) > slice.noise;
        if (!is_empty) found.pairs.push_back(turn);
        return true;
    }

    static constexpr int kHalvings = 50;
    static constexpr int kFirstCells = 32;
    static constexpr long kCostOfSolitary = 100;  // in bounds of cells that take the same time
    static constexpr int kStepsOfLook = 32, kLooksAtOnce = 1024;
    static constexpr double kLeastRatio = 0.125, kMostRatio = 2.0;  // width in t of a cell, relative to the strip
    static constexpr double kOverlapping = 1.0 + 1e-9, kRoundedEdge = 4e-15;  // neighbouring cells must overlap
    static constexpr int kOrders = TorusPolynomial::kOrders;

    // Bounds of derivatives over a cell, from Taylor's formula at its middle.
    struct Bounds {
        TorusSlices::Lanes at[kOrders];  // at the middle; lane j of at[m]: order j in s, m in t
        double away[3][3];               // largest change of each derivative over the cell, for j + m <= 2

        double d(int j, int m) const { return at[m][j]; }
        int sign(int j, int m) const { return std::abs(d(j, m)) > away[j][m] ? (d(j, m) > 0.0 ? 1 : -1) : 0; }
        double most(int j, int m) const { return std::abs(d(j, m)) + away[j][m]; }
    };

    void bound(double t, double r, Bounds& bounds) {
        ++n_looks_;
        slices_.at(t, bounds.at);
        double sizes[kOrders][kOrders];
        for (int m = 0; m < kOrders; ++m) {
            for (int j = 0; j < kOrders; ++j) sizes[j][m] = std::abs(bounds.at[m][j]) + slices_.noise[m][j];
        }
        double in_s[kOrders + 1] = {1.0}, in_t[kOrders + 1] = {1.0};  // half^i / i!, r^i / i!
        r = r * kOverlapping + kRoundedEdge;
        for (int i = 1; i <= kOrders; ++i) in_s[i] = in_s[i - 1] * half_ / i, in_t[i] = in_t[i - 1] * r / i;
        for (int order = 0; order <= 2; ++order) {
            for (int j = 0; j <= order; ++j) {
                const int m = order - j, left = kOrders - order;
                double sum = slices_.noise[m][j];
                for (int i = 0; i <= left; ++i) {
                    double inner = in_t[left - i] * f_.highest(j + i);
                    for (int k = i == 0; i + k < left; ++k) inner += in_t[k] * sizes[j + i][m + k];
                    sum += in_s[i] * inner;
                }
                bounds.away[j][m] = sum * kOverlapping;
            }
        }
    }

    Cell look(double t, double r) {
        Bounds b;
        bound(t, r, b);
        Cell cell{t, r, b.sign(0, 0) ? Kind::empty : b.sign(0, 1) ? Kind::monotone : Kind::turning};
        cell.bend = b.sign(0, 2), cell.slope = b.sign(1, 0);
        const double hessian = b.d(2, 0) * b.d(0, 2) - b.d(1, 1) * b.d(1, 1);
        const double spread = std::abs(b.d(2, 0)) * b.away[0][2] + b.most(0, 2) * b.away[2][0] +
                              (2.0 * std::abs(b.d(1, 1)) + b.away[1][1]) * b.away[1][1];
        cell.is_saddle = hessian + spread < 0.0, cell.is_bowl = hessian - spread > 0.0;
        return cell;
    }

    // Adds a cell or its parts. Returns whether the kinds of all parts are known.
    bool examine(double t, double r) {
        if (is_spent()) return false;
        Cell cell = look(t, r);
        const bool is_small = r <= kLeastRatio * half_;
        const bool is_narrow = r <= kMostRatio * half_;  // the parts next to the turn can then be empty cells
        if (is_small && cell.kind == Kind::turning && !cell.is_regular()) {
            cell.is_solitary = is_solitary(cell);
            if (!cell.is_solitary) cell.kind = Kind::unknown;
        }
        if (is_small || cell.kind != Kind::turning || (cell.is_regular() && is_narrow)) {
            cells_.push_back(cell);
            return cell.kind != Kind::unknown;
        }
        const bool is_first_known = examine(t - 0.5 * r, 0.5 * r);
        return examine(t + 0.5 * r, 0.5 * r) && is_first_known;
    }

    bool is_solitary(const Cell& cell) {
        if (!cell.is_bowl) return false;
        n_looks_ += kCostOfSolitary;
        double m[12][12];
        f_.matrix(middle_, cell.t, m);
        return is_without_solution(m, f_.change(half_, cell.r));
    }

    // Whether all turning cells in the cluster of a turning cell have the properties that the proof needs.
    bool cluster(int first) {
        const int bend = cells_[first].bend, slope = cells_[first].slope, n = int(cells_.size());
        if (bend == 0) return false;
        bool is_steep = slope != 0, is_saddle = cells_[first].is_saddle;
        for (const int way : {1, -1}) {
            bool is_closed = false;
            for (int step = 1; step < n && !is_closed; ++step) {
                const Cell& cell = cells_[((first + way * step) % n + n) % n];
                is_closed = cell.kind == Kind::empty;
                n_looks_ += step % kStepsOfLook == 0;
                if (cell.kind == Kind::unknown) return false;
                if (cell.kind != Kind::turning) continue;
                if (cell.bend != bend) return false;
                is_steep &= cell.slope == slope, is_saddle &= cell.is_saddle;
            }
            if (!is_closed) return false;
        }
        return is_steep || is_saddle;
    }

    const TorusPolynomial& f_;
    double middle_ = 0.0, half_ = 0.0;
    TorusSlices slices_;
    std::vector<Cell> cells_;
    long n_looks_ = 0, most_looks_, most_now_ = std::numeric_limits<long>::max();
    Watch watch_;
};

}  // namespace eim
