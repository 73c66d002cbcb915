// Finds the parts of a branch of solutions that are within the limits, proven for cells of the redundancy parameter.
//
// A cell is decided in three cases. First, bounds of its squares and angles (`intervals.hpp`) show that the branch does
// not exist there, or that some joint is out of its limits. Second, the branch exists, and every joint either is within
// its limits or crosses one limit monotonically; crossings are then single roots. Third, one square crosses 0
// monotonically, where the branch ends, while all joints are within their limits. Other cells are halved. Cells of
// width kNarrowest that are still undecided are reported.
//
// For a nominal arm, bounds hold for a set of poses, so a branch ends within a range. The sign of a square has to be
// certain at the edges of cells, so cells are divided outside such ranges. Cells also have to be regular
// (`isotopy.hpp`).
#pragma once

#include <vector>

#include "certify/isotopy.hpp"
#include "numerics/portable.hpp"

namespace eim {

inline constexpr double kFirstCell = 0.2, kNarrowest = 1e-12;  // [rad] of the redundancy parameter
inline constexpr double kNarrowestByGap = 0.01;                // [rad]: the same for a nominal arm, times its gap
inline constexpr double kClear = 8.0;        // ratio of a square and its error that suffices at an edge of a cell
inline constexpr int kMostPartings = 5;      // how often the range of a root is halved
inline constexpr double kToldApart = 1e-10;  // [rad]: roots closer than this are not distinguished
// [rad]: half of the widest range of a joint at a crossing
inline constexpr double kWidestCrossing = 1.0;
inline constexpr int kMostCells = 20000;

// Limits of a joint as an arc of the circle.
struct Window {
    double centre = 0.0, half = kPi;
    bool is_endless = false;

    double offset(double angle) const { return wrapped_angle(angle - centre); }
};

// How a piece of a branch ends. At a turn, two branches meet.
enum class PieceEnd { cell, limit, first_turn, second_turn, third_turn };  // at a turn, branches meet

struct BranchPiece {
    int branch;
    double ends[2];
    PieceEnd kinds[2];
};

// A branch at one parameter value, in plain numbers, or in each lane of a pack.
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

// A branch at one parameter value with error bounds, if the branch exists.
struct BranchBounds {
    Enclosed angles[7], squares[3];
    int n_angles = 0, n_squares = 0;

    bool root(int number, const Enclosed& square, Enclosed& root) {
        squares[number] = square, root = square_root(square), n_squares = number + 1;
        return true;
    }
    bool angle(int number, const Enclosed& y, const Enclosed& x) {
        const bool is_known = enclose_angle(y, x, angles[number]);
        n_angles += is_known;
        return is_known;
    }
    bool direction(int number, const Enclosed& y, const Enclosed& x, Enclosed& cosine, Enclosed& sine) {
        if (!angle(number, y, x)) return false;
        enclose_turn(angles[number], cosine, sine);
        return true;
    }
    bool is_complete() const { return n_angles == 6; }
};

class HeldCells {
   public:
    // Windows are in the order in which the form reads the joints.
    HeldCells(const ParameterisedForm::AtPose& pose, const Window (&windows)[7])
        : pose_(pose), has_gaps_(pose.gap() > 0.0), narrowest_(std::max(kNarrowest, kNarrowestByGap * pose.gap())) {
        std::copy_n(windows, 7, windows_);
    }

    // Adds the pieces of all branches, each from left to right; false if something was not decided.
    bool run(std::vector<BranchPiece>& pieces) {
        const Window& held = windows_[0];
        lower_ = held.is_endless ? -kPi : held.centre - held.half;
        upper_ = held.is_endless ? kPi : held.centre + held.half;
        const int n_first = int(std::ceil((upper_ - lower_) / kFirstCell));
        for (int branch = 0; branch < kHeldBranches; ++branch) {
            bool is_decided = true;
            const std::size_t n_before = pieces.size();
            for (int k = 0; k < n_first && is_decided; ++k) {
                const auto edge = [&](int i) {
                    return i == 0 ? lower_ : i == n_first ? upper_ : lower_ + (upper_ - lower_) * i / n_first;
                };
                is_decided = divide(branch, edge(k), edge(k + 1), pieces);
            }
            if (is_decided) continue;
            pieces.resize(n_before);
            if (!has_gaps_ || !held.is_endless || !divide_circle(branch, pieces)) return false;
        }
        return true;
    }

    double lower() const { return lower_; }
    double upper() const { return upper_; }
    int n_cells() const { return n_cells_; }

   private:
    struct Crossing {
        int number;
        double limit;  // as Window::offset
        bool is_upper, rises;
    };

    // Bounds over a cell; the computation stops when the cell is known to be empty.
    struct View {
        const Window* windows;
        bool is_empty = false, is_open = false;
        int turn = -1, n_squares = 0;
        int given = -1;  // number of a root that is given by a range, or -1
        double least_root = 0.0, most_root = 0.0;
        Enclosed squares[3], roots[3];
        BranchShape shape;
        int n_crossings = 0;
        Crossing crossings[7];

        bool root(int number, const Enclosed& of, Enclosed& root) {
            if (is_empty = of.most() < 0.0; is_empty) return false;
            if (of.least() <= 0.0) {
                is_open |= turn >= 0 || (number != given && !of.is_monotone());
                if (turn < 0) turn = number;
            }
            root = square_root(of);
            if (number == given) {
                const double middle = 0.5 * (least_root + most_root), radius = 0.5 * (most_root - least_root);
                root = {middle, radius, 0.0, kUnknown, radius * (1.0 + kWidened)};
                is_open |= turn >= 0 && turn != number;
                turn = number;
            }
            squares[number] = of, roots[number] = root, n_squares = number + 1;
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

        // Compares an angle with the limits of its joint; false if it is beyond them.
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
        bool is_regular = !view.is_open;
        if (has_gaps_) {
            const Parts parts = parts_of(view, turn, middle, half, branch);
            if (parts.is_known && parts.are_empty) return true;
            is_regular = parts.is_known && !parts.are_empty;
        }
        const bool is_decided =
            is_regular && !(view.turn >= 0 && view.n_crossings > 0) &&
            (view.turn >= 0 ? to_turn(branch, from, to, view, pieces) : between(branch, from, to, view, pieces));
        if (is_decided) return true;
        if (to - from < narrowest_) return false;
        const double between = has_gaps_ ? dividing_place(view, branch, from, to) : middle;
        return divide(branch, from, between, pieces) && divide(branch, between, to, pieces);
    }

    // What is known of the parts of a cell of a nominal arm. Because a branch is connected, it exists in all or none.
    struct Parts {
        bool is_known = true, are_some = false, are_empty = false;
    };

    // Whether a cell is regular, although at most two branches meet there.
    Parts parts_of(const View& view, const EnclosedTurn& turn, double middle, double half, int branch) {
        Parts parts;
        if (!view.is_open &&
            pose_.rate_of_gaps(view.shape, view.roots, turn.cosine, turn.sine, half, branch, view.turn) < kMostRate) {
            return parts;
        }
        parts.is_known = view.turn >= 0 && view.squares[view.turn].is_monotone();
        if (!parts.is_known) return parts;
        const double most = std::sqrt(std::max(view.squares[view.turn].most(), 0.0)) * (1.0 + kWidened);
        examine(view, middle, half, branch, 0.0, most, kMostPartings, parts);
        parts.is_known &= parts.are_some != parts.are_empty;
        return parts;
    }

    // The same for a range of the root that is 0 where two branches meet. The range is halved until the angles are
    // known well.
    void examine(const View& cell, double middle, double half, int branch, double least, double most, int n_partings,
                 Parts& parts) {
        ++n_cells_;
        // the part of the cell where the root may be in this range
        const Enclosed& square = cell.squares[cell.turn];
        const double slope = square.slope, off = (square.error + square.spread) * (1.0 + kWidened);
        double from = (least * least - off - square.value) / slope, to = (most * most + off - square.value) / slope;
        if (slope < 0.0) {
            from = (most * most + off - square.value) / slope, to = (least * least - off - square.value) / slope;
        }
        from = std::max(from - 1e-9, -1.0), to = std::min(to + 1e-9, 1.0);
        if (!(from < to)) return;
        const double part_half = 0.5 * (to - from) * half * (1.0 + 1e-9) + 1e-15;
        const EnclosedTurn turn(middle + 0.5 * (from + to) * half, part_half);
        View view{windows_};
        view.given = cell.turn, view.least_root = least, view.most_root = most;
        pose_.walk<Enclosed>(turn.cosine, turn.sine, branch, view);
        if (view.is_empty) {
            parts.are_empty |= view.n_squares != cell.turn;  // unless the root cannot be in this range
            return;
        }
        if (!view.is_open && pose_.rate_of_gaps(view.shape, view.roots, turn.cosine, turn.sine, part_half, branch,
                                                view.turn) < kMostRate) {
            parts.are_some = true;
            return;
        }
        parts.is_known &= n_partings > 0;
        const double between = 0.5 * (least + most);
        for (const bool is_first : {true, false}) {
            if (!parts.is_known || (parts.are_some && parts.are_empty)) return;
            examine(cell, middle, half, branch, is_first ? least : between, is_first ? between : most, n_partings - 1,
                    parts);
        }
    }

    // How far squares are from 0, as multiples of their errors, up to kClear.
    static double clearance(const double* values, const Enclosed* bounds, int n) {
        double least = kClear;
        for (int i = 0; i < n; ++i) least = std::min(least, std::abs(values[i]) / bounds[i].error);
        return least;
    }
    // The middle of a cell, or a place near it that is farther from the ends of branches.
    double dividing_place(const View& view, int branch, double from, double to) const {
        double best = 0.0, most = -1.0;
        for (const double share : {0.5, 0.4, 0.6, 0.3, 0.7}) {
            const double at = from + share * (to - from),
                         away = clearance(point_at(branch, at).squares, view.squares, view.n_squares);
            if (away > most) most = away, best = at;
            if (most == kClear) break;
        }
        return best;
    }

    // Adds the pieces of a branch over the circle. Edges of its cells are far from the ends of the branch.
    bool divide_circle(int branch, std::vector<BranchPiece>& pieces) {
        const auto clear = [&](double at) {
            double best = at, most = -1.0;
            for (const double share : {0.0, -0.2, 0.2, -0.4, 0.4}) {
                const double moved = at + share * kFirstCell;
                const BranchBounds bounds = bounds_at(branch, moved);
                double values[3];
                for (int i = 0; i < 3; ++i) values[i] = bounds.squares[i].value;
                const double away = clearance(values, bounds.squares, bounds.n_squares);
                if (away > most) most = away, best = moved;
                if (most == kClear) break;
            }
            return best;
        };
        const double begin = clear(lower_), end = begin + (upper_ - lower_);
        for (double from = begin; from < end;) {
            const double next = from + 2.0 * kFirstCell < end ? clear(from + kFirstCell) : end;
            if (!divide(branch, from, next, pieces)) return false;
            from = next;
        }
        return true;
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

    // Root of a function with opposite signs at the ends (Illinois method).
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

    // Adds the part of a cell in which joints that cross limits are within them.
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

    // Adds the part of a cell on which a branch exists that ends within the cell.
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

    // Adds a piece, or extends the last one if the piece continues it.
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
    const bool has_gaps_;
    const double narrowest_;
    Window windows_[7];
    double lower_ = -kPi, upper_ = kPi;
    int n_cells_ = 0;
};

}  // namespace eim
