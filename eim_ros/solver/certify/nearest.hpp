// Search for the solution of a pose nearest to a configuration, for arms with seven joints and a parameterised closed
// form.
//
// The method is branch and bound over cells of the redundancy parameter, with one cell in each lane of a pack. Bounds
// of the joint angles over a cell (`intervals.hpp`) give a lower bound of the distance. Cells farther away than the
// best solution so far are dropped. Cells in which the distance is monotone are dropped as well, because their nearest
// end also belongs to the next cell. The cells with the least bounds are halved first. The result is the global minimum
// up to kAsNear, or undecided. If a solution is known, only the range of the parameter that may contain a nearer one is
// searched.
#pragma once

#include <queue>

#include "certify/cells.hpp"
#include "closed_form/finite_solutions.hpp"
#include "manifold/null_space.hpp"
#include "numerics/portable.hpp"

namespace eim {

inline constexpr double kWidestCell = 0.8;       // [rad] of the redundancy parameter
inline constexpr int kFirstTries = 8;            // values of the parameter tried first on each branch
inline constexpr double kAsNear = 3e-6;          // [rad]: distances are equal if they differ by less
inline constexpr double kEndSlack = 1e-9;        // [rad]: allowed rounding error at the ends of a revolution
inline constexpr int kMostDistanceCells = 1200;  // more cells are needed only near singularities

class NearestInClosedForm {
    using V = WideDouble;
    using M = Mask<V>;
    static constexpr int kWide = kLanes<V>;

   public:
    // Distances of continuous joints are measured on the circle. Only solutions nearer than `distance` are considered.
    NearestInClosedForm(const Chain& chain, const ParameterisedForm& form, const Task& task, const double* reference,
                        const bool* turns, double distance)
        : form_(form), task_(task), pose_(form, motion_of(task.target)), known_(distance) {
        limit(distance * distance);
        for (int i = 0; i < 7; ++i) {
            const int j = form.joint(i);
            joints_[i] = {window_of(task.bounds, j, reference[j]), reference[j], turns[j], i == 0};
        }
        std::fill_n(best_, chain.n_joints, 0.0);
    }

    // Finds the nearest solution. Returns false if the search stays undecided.
    bool run() {
        Window& held = joints_[0].window;
        lower_ = held.centre - held.half, upper_ = held.centre + held.half;
        held.is_endless = true;  // all cells are within the limits of this joint
        if (std::isfinite(known_)) {
            narrow();
            if (!(lower_ <= upper_)) return true;
        } else {
            try_values();
        }
        const int n_first = std::max(1, int(std::ceil((upper_ - lower_) / kWidestCell)));
        const auto edge = [&](int k) { return k == n_first ? upper_ : lower_ + (upper_ - lower_) / n_first * k; };
        for (int k = 0; k < n_first; ++k) {
            for (int branch = 0; branch < kHeldBranches; ++branch) add(branch, edge(k), edge(k + 1));
        }
        look();
        while (!open_.empty() && open_.top().least < enough_) {
            if (n_cells_ > kMostDistanceCells) return false;
            while (n_waiting_ <= kWide - 2 && !open_.empty() && open_.top().least < enough_) {
                const Cell cell = open_.top();
                open_.pop();
                const double middle = 0.5 * (cell.from + cell.to), half = 0.5 * (cell.to - cell.from);
                const double left = cell.kept(cell.rise, enough_), right = cell.kept(-cell.rise, enough_);
                if (left < 1.0) add(cell.branch, cell.from, middle - left * half);
                if (right < 1.0) add(cell.branch, middle + right * half, cell.to);
            }
            look();
        }
        return true;
    }

    bool has_found() const { return has_found_; }
    const double* configuration() const { return best_; }
    int n_cells() const { return n_cells_; }

   private:
    // Returns the range of a joint. If the limits allow more than a revolution, the range is the revolution of values
    // nearest to the reference.
    static Window window_of(const Bounds<double>& bounds, int j, double reference) {
        if (bounds.wraps[j]) return {0.0, kPi, true};
        const double lower = bounds.lower[j], upper = bounds.upper[j], half = 0.5 * (upper - lower);
        if (half < kPi) return {0.5 * (lower + upper), half, false};
        return {std::clamp(reference, lower + kPi, upper - kPi), kPi, true};
    }

    struct Joint {
        Window window;
        double reference;
        bool turns, is_parameter;

        // Returns the offset of an angle from the middle of the limits. The parameter is not wrapped, because it is
        // within the limits and may be at either end.
        template <class T>
        T offset(const T& angle) const {
            const T difference = angle - window.centre;
            return is_parameter ? difference : wrapped<T>(difference, kTwoPi, 1.0 / kTwoPi);
        }
        // Returns the difference from the reference for an offset from the middle of the limits.
        template <class T>
        T away(const T& offset) const {
            const T difference = offset + (window.centre - reference);
            return turns ? wrapped<T>(difference, kTwoPi, 1.0 / kTwoPi) : difference;
        }
    };

    struct Cell {
        double least;  // lower bound of the squared distance
        int branch;
        double from, to;
        double square, rise, spread;  // see View; the square is 0 without a derivative
        bool operator<(const Cell& other) const {
            return least > other.least;
        }  // the queue returns the greatest
           // element first

        // Returns the share of a half cell, from the middle, in which the squared distance is at least `enough`. Over
        // the half cell, the squared distance decreases by at most 2 (fall + spread).
        double kept(double fall, double enough) const {
            const double steep = 2.0 * (fall + spread);
            return square <= enough ? 0.0 : square - steep >= enough ? 1.0 : (square - enough) / steep;
        }
    };

    // Bounds over a cell in each lane of a pack.
    struct View {
        const Joint* joints;
        double enough;       // squared distance that a cell must fall below
        M is_out{};          // whether the cell cannot contain the nearest solution
        M is_lost{};         // whether the computation had to stop
        M is_smooth = ~M{};  // whether the branch is within the limits, with differentiable distance
        M exists = ~M{};     // whether the branch exists in the middle
        M has_angles = ~M{};
        // lower bound of the squared distance; in the middle: its value, half its derivative, and the spread of that
        // half
        V least{}, square{}, rise{}, spread{};
        V angles[7] = {};  // in the middle

        bool goes_on() const { return any(~(is_out | is_lost)); }

        bool root(int, const EnclosedOf<V>& of, EnclosedOf<V>& root) {
            is_out |= ~is_lost & (of.most() < 0.0);
            is_smooth &= of.least() > 0.0, exists &= of.value >= 0.0;
            root = square_root(of);
            return goes_on();
        }
        bool angle(int number, const EnclosedOf<V>& y, const EnclosedOf<V>& x) {
            EnclosedOf<V> angle;
            const M is_known = enclose_angle(y, x, angle);
            add(number, angle, is_known & ~is_lost);
            return goes_on();
        }
        bool direction(int number, const EnclosedOf<V>& y, const EnclosedOf<V>& x, EnclosedOf<V>& cosine,
                       EnclosedOf<V>& sine) {
            EnclosedOf<V> angle;
            is_lost |= ~enclose_angle(y, x, angle);
            enclose_turn(angle, cosine, sine);
            add(number, angle, ~is_lost);
            return goes_on();
        }
        void add(int number, const EnclosedOf<V>& angle, const M& is_known) {
            const Joint& joint = joints[number];
            const Window& window = joint.window;
            const V offset = joint.offset<V>(angle.value), &radius = angle.radius;
            const V end = absolute(offset) + radius, away = joint.away<V>(offset), size = absolute(away);
            const M is_one = joint.turns ? size + radius < kPi : end <= kPi + kEndSlack;  // not at both ends of a range
            is_smooth &= is_known & is_one, has_angles &= is_known & is_one;
            if (!window.is_endless) {
                is_smooth &= end <= window.half;
                is_out |= is_known & (absolute(offset) - radius > window.half) & (end < kTwoPi - window.half);
            }
            V apart = larger(size - radius, V{});
            if (!joint.turns) {  // an angle at both ends is far from the middle
                const double off = std::abs(joint.reference - window.centre);
                const V beyond = larger<V>(absolute(offset) - radius - off, fill<V>(std::max(off - window.half, 0.0)));
                apart = is_one ? apart : beyond;
            }
            least += is_known ? apart * apart : V{};
            angles[number] = angle.value;
            square += away * away;
            rise += away * angle.slope;
            spread += size * angle.spread + radius * (absolute(angle.slope) + angle.spread);
            is_out |= least >= enough;
        }
    };

    // Restricts the parameter to values that are not farther from the reference than the known solution.
    void narrow() {
        const Joint& held = joints_[0];
        const double to = known_ + kEndSlack;
        double reference = held.reference;
        if (held.turns) {
            reference = held.window.centre + wrapped<double>(reference - held.window.centre, kTwoPi, 1.0 / kTwoPi);
            if (reference - to < lower_ || reference + to > upper_) return;  // crosses an end of a circle
        }
        lower_ = std::max(lower_, reference - to), upper_ = std::min(upper_, reference + to);
    }

    // Evaluates a few values of the parameter, because good first solutions rule out many cells.
    void try_values() {
        for (int first = 0; first < kFirstTries; first += kWide) {
            V at{};
            for (int k = 0; k < kWide; ++k) at[k] = lower_ + (upper_ - lower_) * (first + k + 0.5) / kFirstTries;
            const auto turn = turn_by(at);
            for (int branch = 0; branch < kHeldBranches; ++branch) {
                BranchPointOf<V> points;
                points.angles[0] = at;
                pose_.walk<V>(turn.cosine, turn.sine, branch, points);
                const M exists = smaller(smaller(points.squares[0], points.squares[1]), points.squares[2]) >= 0.0;
                for (int k = 0; k < kWide; ++k) {
                    if (exists[k]) consider(points.angles, k);
                }
            }
        }
    }

    // Adds a cell to the waiting cells, which are bounded together.
    void add(int branch, double from, double to) {
        if (n_waiting_ == kWide) look();
        waiting_[n_waiting_++] = {0.0, branch, from, to, 0.0, 0.0, 0.0};
    }

    // Bounds the distance over the waiting cells. Cells that may contain the nearest solution become open.
    void look() {
        if (n_waiting_ == 0) return;
        n_cells_ += n_waiting_;
        V middle{}, half{};
        BranchSigns<V> branches{};
        for (int lane = 0; lane < kWide; ++lane) {
            const Cell& cell = waiting_[std::min(lane, n_waiting_ - 1)];
            middle[lane] = 0.5 * (cell.from + cell.to);
            half[lane] = 0.5 * (cell.to - cell.from) * (1.0 + 1e-9) + 1e-15;
            for (int bit = 0; bit < 3; ++bit) branches.signs[bit][lane] = sign_in(cell.branch, bit);
        }
        View view{joints_, enough_};
        const EnclosedTurnOf<V> turn(middle, half);
        view.add(0, enclosed<V>(middle, V{}, half, V{}, half), ~M{});
        if (view.goes_on()) pose_.walk<EnclosedOf<V>>(turn.cosine, turn.sine, branches, view);
        const int n = n_waiting_;
        n_waiting_ = 0;
        for (int lane = 0; lane < n; ++lane) {
            if (!view.is_out[lane]) keep(waiting_[lane], view, lane);
        }
    }

    void keep(Cell cell, const View& view, int lane) {
        cell.least = view.least[lane];
        if (view.has_angles[lane]) {
            cell.square = view.square[lane], cell.rise = view.rise[lane], cell.spread = view.spread[lane];
            cell.least = std::max(cell.least, cell.square - 2.0 * (std::abs(cell.rise) + cell.spread));
            if (view.exists[lane]) consider(view.angles, lane);
            if (view.is_smooth[lane] && std::abs(cell.rise) > cell.spread) {
                if (cell.from == lower_) consider(cell.branch, lower_);
                if (cell.to == upper_) consider(cell.branch, upper_);
                return;
            }
        }
        if (cell.least < enough_) open_.push(cell);
    }

    // Stores the solution at a value of the parameter if it is nearer than the best solution so far.
    void consider(int branch, double at) {
        BranchPoint point;
        pose_.walk<double>(portable::cos(at), portable::sin(at), branch, point);
        point.angles[0] = at;
        if (*std::min_element(point.squares, point.squares + 3) >= 0.0) consider(point.angles, 0);
    }

    template <class T>
    void consider(const T (&angles)[7], int lane) {
        double square = 0.0, offsets[7];
        for (int i = 0; i < 7; ++i) {
            const Window& window = joints_[i].window;
            offsets[i] = joints_[i].offset(get(angles[i], lane));
            const double away = joints_[i].away(offsets[i]);
            if (!window.is_endless && !(std::abs(offsets[i]) <= window.half)) return;
            square += away * away;
        }
        if (!(square < square_)) return;
        has_found_ = true;
        limit(square);
        for (int i = 0; i < 7; ++i) {
            const int j = form_.joint(i);
            best_[j] = within(task_.bounds, j, joints_[i].window.centre + offsets[i]);
        }
    }

    // Stores the squared distance of the best solution, which later solutions must improve.
    void limit(double square) {
        square_ = square;
        const double distance = std::max(std::sqrt(square) - kAsNear, 0.0);
        enough_ = distance * distance;
    }

    const ParameterisedForm& form_;
    const Task& task_;
    ParameterisedForm::AtPose pose_;
    double known_;  // distance of a known solution
    bool has_found_ = false;
    Joint joints_[7];
    std::priority_queue<Cell> open_;
    Cell waiting_[kWide];
    double lower_, upper_, best_[kMostJoints], square_, enough_;
    int n_waiting_ = 0, n_cells_ = 0;
};

// Returns the solution next to a configuration, if one exists. Sets `is_surely` to whether this solution is certainly
// the nearest of all solutions.
template <int N>
inline Rows next_to(const Chain& chain, const Task& task, const StepOptions& effort, const Cost& distance,
                    const double* start, bool& is_surely) {
    Rows found = nearest_on_curves<N>(chain, task, effort, distance,
                                      Rows(Configurations{chain.n_joints, {start, start + chain.n_joints}}));
    is_surely = found.size() > 0 &&
                is_surely_nearest<N>(chain, found.row(0), std::sqrt(distance(found.row(0))), task.position_only);
    return found;
}

// Returns the solution nearest to a configuration in closed form, or no row if it is undecided. `start` is the
// configuration moved into the limits. The solution next to `start` shortens the search.
inline Rows nearest_by_form(const Chain& chain, const ParameterisedForm& form, const Task& task,
                            const StepOptions& effort, const Cost& distance, const double* start) {
    bool is_surely = false;
    Rows found = next_to<7>(chain, task, effort, distance, start, is_surely);
    if (is_surely) return found;
    const double away = found.size() ? std::sqrt(distance(found.row(0))) : std::numeric_limits<double>::infinity();
    NearestInClosedForm nearest(chain, form, task, distance.preferred, distance.turns, away);
    if (!nearest.run()) return Rows({7});
    if (!nearest.has_found()) return found;
    bool unused = false;
    const Rows other = next_to<7>(chain, task, effort, distance, nearest.configuration(), unused);
    return other.size() == 0 || std::sqrt(distance(other.row(0))) < away ? other : found;
}

}  // namespace eim
