// Search for the parts of a branch of solutions that are within the limits. The result is proven for each cell of the
// redundancy parameter.
//
// Bounds of the squares and angles of the branch (`intervals.hpp`) decide a cell in three cases:
//
// 1. The branch does not exist in the cell, or some joint is outside its limits.
// 2. The branch exists, and every joint is within its limits or crosses one limit monotonically. Each crossing is a
// single root.
// 3. All joints are within their limits, and one square crosses 0 monotonically. The branch ends at this root.
//
// Other cells are halved. If a cell of width kNarrowest is still undecided, the search fails.
#pragma once

#include <vector>

#include "closed_form/redundancy_parameter.hpp"
#include "numerics/portable.hpp"

namespace eim {

inline constexpr double kFirstCell = 0.2, kNarrowest = 1e-12;  // [rad] of the redundancy parameter
inline constexpr double kToldApart = 1e-10;                    // [rad]: closer roots are not distinguished
// [rad]: largest half range of a joint at a crossing
inline constexpr double kWidestCrossing = 1.0;
inline constexpr int kMostCells = 20000;

// Limits of a joint, as an arc of the circle.
struct Window {
    double centre = 0.0, half = kPi;
    bool is_endless = false;

    double offset(double angle) const { return wrapped_angle(angle - centre); }
};

// The ways in which a piece of a branch ends.
enum class PieceEnd { cell, limit, first_turn, second_turn, third_turn };  // two branches meet at a turn

struct BranchPiece {
    int branch;
    double ends[2];
    PieceEnd kinds[2];
};

// A branch at one parameter value, as plain numbers or as the lanes of a pack.
template <class V>
struct BranchPointOf {
    V angles[7] = {}, squares[3] = {};

    bool root(int number, const V& square, V& root) {
        squares[number] = square, root = square_root(larger(V{}, square));
        return true;
    }
    bool angle(int number, const V& y, const V& x) {
        angles[number] = angle_towards(y, x);
        return true;
    }
    bool direction(int number, const V& y, const V& x, V& cosine, V& sine) {
        const V length = square_root<V>(x * x + y * y);
        cosine = x / length, sine = y / length;
        return angle(number, y, x);
    }
};

using BranchPoint = BranchPointOf<double>;

// Error bounds of a branch at one parameter value, if the branch exists there.
template <class T>
struct BranchBoundsOf {
    T angles[7], squares[3];
    int n_angles = 0;

    bool root(int number, const T& square, T& root) {
        squares[number] = square, root = square_root(square);
        return true;
    }
    bool angle(int number, const T& y, const T& x) {
        const bool is_known = enclose_angle(y, x, angles[number]);
        n_angles += is_known;
        return is_known;
    }
    bool direction(int number, const T& y, const T& x, T& cosine, T& sine) {
        if (!angle(number, y, x)) return false;
        enclose_turn(angles[number], cosine, sine);
        return true;
    }
    bool is_complete() const { return n_angles == 6; }
};

using BranchBounds = BranchBoundsOf<Enclosed>;

class HeldCells {
   public:
    // The windows are in the order in which the form reads the joints.
    HeldCells(const ParameterisedForm::AtPose& pose, const Window (&windows)[7]) : pose_(pose) {
        std::copy_n(windows, 7, windows_);
    }

    // Adds the pieces of all branches, each from left to right. Returns false if a cell was not decided.
    bool run(std::vector<BranchPiece>& pieces) {
        const Window& held = windows_[0];
        lower_ = held.is_endless ? -kPi : held.centre - held.half;
        upper_ = held.is_endless ? kPi : held.centre + held.half;
        const int n_first = int(std::ceil((upper_ - lower_) / kFirstCell));
        for (int branch = 0; branch < kHeldBranches; ++branch) {
            for (int k = 0; k < n_first; ++k) {
                const auto edge = [&](int i) {
                    return i == 0 ? lower_ : i == n_first ? upper_ : lower_ + (upper_ - lower_) * i / n_first;
                };
                if (!divide(branch, edge(k), edge(k + 1), pieces)) return false;
            }
        }
        return true;
    }

    double lower() const { return lower_; }
    double upper() const { return upper_; }
    int n_cells() const { return n_cells_; }

   private:
    struct Crossing {
        int number;
        double limit;  // as `Window::offset`
        bool is_upper, rises;
    };

    // Bounds over a cell. The computation stops when the cell is proven to be empty.
    struct View {
        const Window* windows;
        bool is_empty = false, is_open = false;
        int turn = -1;
        Enclosed square;
        int n_crossings = 0;
        Crossing crossings[7];

        bool root(int number, const Enclosed& of, Enclosed& root) {
            if (is_empty = of.most() < 0.0; is_empty) return false;
            if (of.least() <= 0.0) {
                is_open |= turn >= 0 || !of.is_monotone();
                turn = number, square = of;
            }
            root = square_root(of);
            return true;
        }
        bool angle(int number, const Enclosed& y, const Enclosed& x) {
            if (windows[number].is_endless) return true;
            Enclosed angle;
            if (!enclose_angle(y, x, angle)) return is_open = true;
            return compare(number, angle);
        }
        bool direction(int number, const Enclosed& y, const Enclosed& x, Enclosed& cosine, Enclosed& sine) {
            Enclosed angle;
            if (!enclose_angle(y, x, angle)) {
                is_open = true;
                return false;
            }
            enclose_turn(angle, cosine, sine);
            return windows[number].is_endless || compare(number, angle);
        }

        // Compares an angle with the limits of its joint. Returns false if the angle is beyond the limits.
        bool compare(int number, const Enclosed& angle) {
            const Window& window = windows[number];
            const double offset = window.offset(angle.value), away = std::abs(offset), radius = angle.radius;
            if (away + radius <= window.half) return true;
            is_empty = away - radius > window.half && away + radius < kTwoPi - window.half;
            if (is_empty) return false;
            const bool is_one = radius < kWidestCrossing && away - radius > -window.half &&
                                away + radius < kTwoPi - window.half;  // at most one limit is crossed
            if (is_one && angle.is_monotone()) {
                const bool is_upper = offset > 0.0;
                crossings[n_crossings++] = {number, is_upper ? window.half : -window.half, is_upper, angle.slope > 0.0};
            } else {
                is_open = true;
            }
            return true;
        }
    };

    bool divide(int branch, double from, double to, std::vector<BranchPiece>& pieces) {
        if (++n_cells_ > kMostCells) return false;
        const double middle = 0.5 * (from + to), half = 0.5 * (to - from) * (1.0 + 1e-9) + 1e-15;
        View view{windows_};
        const EnclosedTurn turn(middle, half);
        pose_.walk<Enclosed>(turn.cosine, turn.sine, branch, view);
        if (view.is_empty) return true;
        const bool is_decided =
            !view.is_open && !(view.turn >= 0 && view.n_crossings > 0) &&
            (view.turn >= 0 ? to_turn(branch, from, to, view, pieces) : between(branch, from, to, view, pieces));
        if (is_decided) return true;
        if (to - from < kNarrowest) return false;
        return divide(branch, from, middle, pieces) && divide(branch, middle, to, pieces);
    }

    BranchBounds bounds_at(int branch, double at) const {
        BranchBounds bounds;
        const EnclosedTurn turn(at, 0.0);
        pose_.walk<Enclosed>(turn.cosine, turn.sine, branch, bounds);
        return bounds;
    }
    BranchPoint point_at(int branch, double at) const {
        BranchPoint point;
        pose_.walk<double>(portable::cos(at), portable::sin(at), branch, point);
        return point;
    }

    // Returns the root of a function with opposite signs at the ends, by the Illinois method.
    template <class Function>
    static double root_of(Function function, double from, double to) {
        double f = function(from), g = function(to);
        for (int step = 0, last = 0; step < 100 && to - from > 4e-16 * (std::abs(from) + std::abs(to)); ++step) {
            double at = step % 4 == 3 ? 0.5 * (from + to) : from + (to - from) * f / (f - g);
            if (!(at > from && at < to)) at = 0.5 * (from + to);
            const double value = function(at);
            if (value == 0.0) return at;
            const int side = (value > 0.0) == (f > 0.0) ? 1 : -1;
            side > 0 ? (from = at, f = value) : (to = at, g = value);
            if (side == last) (side > 0 ? g : f) *= 0.5;
            last = side;
        }
        return 0.5 * (from + to);
    }

    PieceEnd edge(double at) const {
        return !windows_[0].is_endless && (at == lower_ || at == upper_) ? PieceEnd::limit : PieceEnd::cell;
    }

    // Adds the part of a cell in which all joints are within their limits.
    bool between(int branch, double from, double to, const View& view, std::vector<BranchPiece>& pieces) {
        BranchPiece piece{branch, {from, to}, {edge(from), edge(to)}};
        if (view.n_crossings > 0) {
            const BranchBounds ends[2] = {bounds_at(branch, from), bounds_at(branch, to)};
            if (!ends[0].is_complete() || !ends[1].is_complete()) return false;
            for (int k = 0; k < view.n_crossings; ++k) {
                const Crossing& crossing = view.crossings[k];
                const Window& window = windows_[crossing.number];
                const auto beyond = [&](double angle) { return window.offset(angle - crossing.limit); };
                bool is_in[2];
                for (int end = 0; end < 2; ++end) {
                    const Enclosed& angle = ends[end].angles[crossing.number];
                    const double past = beyond(angle.value);
                    if (!(std::abs(past) > angle.radius)) return false;
                    is_in[end] = (past < 0.0) == crossing.is_upper;
                }
                if (!is_in[0] && !is_in[1]) return true;
                if (is_in[0] && is_in[1]) continue;
                const auto function = [&](double at) { return beyond(point_at(branch, at).angles[crossing.number]); };
                const double at = root_of(function, from, to);
                const int side = is_in[0];  // the end that is cut off
                if (side == 1 ? at < piece.ends[1] : at > piece.ends[0]) {
                    piece.ends[side] = at, piece.kinds[side] = PieceEnd::limit;
                }
            }
            const double length = piece.ends[1] - piece.ends[0];
            if (length < -kToldApart) return true;
            if (length <= kToldApart) return false;
        }
        add(piece, pieces);
        return true;
    }

    // Adds the part of a cell in which the branch exists. The branch may end in the cell.
    bool to_turn(int branch, double from, double to, const View& view, std::vector<BranchPiece>& pieces) {
        const Enclosed first = bounds_at(branch, from).squares[view.turn],
                       last = bounds_at(branch, to).squares[view.turn];
        if (!(std::abs(first.value) > first.radius) || !(std::abs(last.value) > last.radius)) return false;
        BranchPiece piece{branch, {from, to}, {edge(from), edge(to)}};
        if (first.value < 0.0 && last.value < 0.0) return true;
        if (first.value < 0.0 || last.value < 0.0) {
            const auto function = [&](double at) { return point_at(branch, at).squares[view.turn]; };
            const int side = last.value < 0.0;
            piece.ends[side] = root_of(function, from, to);
            piece.kinds[side] = PieceEnd(int(PieceEnd::first_turn) + view.turn);
        }
        add(piece, pieces);
        return true;
    }

    // Adds a piece. A piece that continues the last piece is merged with it.
    static void add(const BranchPiece& piece, std::vector<BranchPiece>& pieces) {
        if (!pieces.empty() && piece.kinds[0] == PieceEnd::cell) {
            BranchPiece& last = pieces.back();
            if (last.branch == piece.branch && last.kinds[1] == PieceEnd::cell && last.ends[1] == piece.ends[0]) {
                last.ends[1] = piece.ends[1], last.kinds[1] = piece.kinds[1];
                return;
            }
        }
        pieces.push_back(piece);
    }

    const ParameterisedForm::AtPose& pose_;
    Window windows_[7];
    double lower_ = -kPi, upper_ = kPi;
    int n_cells_ = 0;
};

}  // namespace eim
