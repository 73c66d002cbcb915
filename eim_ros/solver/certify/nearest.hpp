// The solution of a pose nearest to a configuration, for arms with seven joints and a parameterised closed form.
//
// Branch and bound over cells of the redundancy parameter: bounds of the joint angles over a cell (`intervals.hpp`)
// give a bound of the distance. Cells that are farther than the best solution so far are left out, and so are cells in
// which the distance is monotone, because their nearest end belongs to the next cell, too. The cell with the least
// bound is halved first. Hence the result is the global minimum up to kAsNear, or nothing is decided.
#pragma once

#include <queue>

#include "certify/cells.hpp"
#include "closed_form/finite_solutions.hpp"

namespace eim {

inline constexpr double kWidestCell = 0.8;      // [rad] of the redundancy parameter
inline constexpr double kAsNear = 1e-5;         // [rad]: distances that differ by less count as equal
inline constexpr int kMostDistanceCells = 800;  // more are needed only near singularities

class NearestInClosedForm {
   public:
    // The distance of joints that turn is on the circle.
    NearestInClosedForm(const Chain& chain, const ParameterisedForm& form, const Task& task, const double* reference,
                        const bool* turns)
        : form_(form), task_(task), pose_(form, motion_of(task.target)) {
        for (int i = 0; i < 7; ++i) {
            const int j = form.joint(i);
            const double lower = task.bounds.lower[j], upper = task.bounds.upper[j];
            joints_[i] = {{0.5 * (lower + upper), 0.5 * (upper - lower), task.bounds.wraps[j]}, reference[j], turns[j]};
        }
        std::fill_n(best_, chain.n_joints, 0.0);
    }

    // Finds the nearest solution; false if there is none, or if something is undecided.
    bool run() {
        Window& held = joints_[0].window;
        lower_ = held.is_endless ? -kPi : held.centre - held.half;
        upper_ = held.is_endless ? kPi : held.centre + held.half;
        held.is_endless = true;  // all cells are within its limits
        const int n_first = std::max(1, int(std::ceil((upper_ - lower_) / kWidestCell)));
        for (int k = 0; k < n_first; ++k) {
            const double width = (upper_ - lower_) / n_first, from = lower_ + width * k;
            const double to = k + 1 == n_first ? upper_ : from + width;
            for (int branch = 0; branch < kHeldBranches; ++branch) look(branch, from, to);
        }
        while (!open_.empty()) {
            const Cell cell = open_.top();
            if (cell.least >= enough_) break;
            if (n_cells_ > kMostDistanceCells) return false;
            open_.pop();
            const double middle = 0.5 * (cell.from + cell.to);
            look(cell.branch, cell.from, middle), look(cell.branch, middle, cell.to);
        }
        return std::isfinite(square_);
    }

    const double* configuration() const { return best_; }
    int n_cells() const { return n_cells_; }

   private:
    struct Joint {
        Window window;
        double reference;
        bool turns;

        // Difference of an angle, as a value within half a revolution of the middle of the limits, from the reference.
        double away(double angle) const {
            const double value = window.centre + window.offset(angle) - reference;
            return turns ? wrapped_angle(value) : value;
        }
    };

    struct Cell {
        double least;  // bound of the squared distance
        int branch;
        double from, to;
        bool operator<(const Cell& other) const { return least > other.least; }  // the queue returns the greatest first
    };

    // Bounds over a cell; the computation stops when the cell is known to be empty.
    struct View {
        const Joint* joints;
        bool is_empty = false;
        bool is_smooth = true;  // whether the branch exists within the limits, and the distance has a derivative
        double least = 0.0, rise = 0.0, spread = 0.0;  // squared distance, and half of its derivative

        bool root(int, const Enclosed& of, Enclosed& root) {
            if (is_empty = of.most() < 0.0; is_empty) return false;
            is_smooth &= of.least() > 0.0;
            root = square_root(of);
            return true;
        }
        bool angle(int number, const Enclosed& y, const Enclosed& x) {
            Enclosed angle;
            if (!enclose_angle(y, x, angle))
                is_smooth = false;
            else
                add(number, angle);
            return !is_empty;
        }
        bool direction(int number, const Enclosed& y, const Enclosed& x, Enclosed& cosine, Enclosed& sine) {
            Enclosed angle;
            if (!enclose_angle(y, x, angle)) return is_smooth = false;
            enclose_turn(angle, cosine, sine);
            add(number, angle);
            return !is_empty;
        }
        void add(int number, const Enclosed& angle) {
            const Joint& joint = joints[number];
            const Window& window = joint.window;
            const double offset = window.offset(angle.value), radius = angle.radius, end = std::abs(offset) + radius;
            const double away = joint.away(angle.value);
            if (!window.is_endless && end > window.half) {
                is_smooth = false;
                is_empty = std::abs(offset) - radius > window.half && end < kTwoPi - window.half;
            }
            double apart = std::max(std::abs(away) - radius, 0.0);
            if (joint.turns) {
                is_smooth &= std::abs(away) + radius < kPi;
            } else if (end > kPi) {  // the angle may be at the other end of the range, too
                is_smooth = false;
                apart = std::max(std::abs(joint.reference - window.centre) - window.half, 0.0);
            }
            least += apart * apart;
            rise += away * angle.slope;
            spread += std::abs(away) * angle.spread + radius * (std::abs(angle.slope) + angle.spread);
        }
    };

    // Bounds the distance over a cell, and adds the cell to the open ones if it may contain the nearest solution.
    void look(int branch, double from, double to) {
        ++n_cells_;
        const double middle = 0.5 * (from + to), half = 0.5 * (to - from) * (1.0 + 1e-9) + 1e-15;
        View view{joints_};
        const EnclosedTurn turn(middle, half);
        view.add(0, enclosed(middle, 0.0, half, 0.0, half));
        if (view.is_empty) return;
        pose_.walk<Enclosed>(turn.cosine, turn.sine, branch, view);
        if (view.is_empty || view.least >= enough_) return;
        consider(branch, middle);
        if (view.is_smooth && std::abs(view.rise) > view.spread) {
            if (from == lower_) consider(branch, from);
            if (to == upper_) consider(branch, to);
            return;
        }
        if (view.least < enough_) open_.push({view.least, branch, from, to});
    }

    // Takes the solution at a value of the parameter if it is the nearest one so far.
    void consider(int branch, double at) {
        BranchPoint point;
        pose_.walk<double>(std::cos(at), std::sin(at), branch, point);
        point.angles[0] = at;
        double square = 0.0;
        for (const double root : point.squares) {
            if (!(root >= 0.0)) return;
        }
        for (int i = 0; i < 7; ++i) {
            const Window& window = joints_[i].window;
            const double offset = window.offset(point.angles[i]), away = joints_[i].away(point.angles[i]);
            if (!window.is_endless && !(std::abs(offset) <= window.half)) return;
            square += away * away;
        }
        if (!(square < square_)) return;
        square_ = square;
        const double distance = std::max(std::sqrt(square) - kAsNear, 0.0);
        enough_ = distance * distance;
        for (int i = 0; i < 7; ++i) {
            const Window& window = joints_[i].window;
            best_[form_.joint(i)] =
                within(task_.bounds, form_.joint(i), window.centre + window.offset(point.angles[i]));
        }
    }

    const ParameterisedForm& form_;
    const Task& task_;
    ParameterisedForm::AtPose pose_;
    Joint joints_[7];
    std::priority_queue<Cell> open_;
    double lower_ = -kPi, upper_ = kPi, best_[kMostJoints];
    double square_ = std::numeric_limits<double>::infinity(), enough_ = std::numeric_limits<double>::infinity();
    int n_cells_ = 0;
};

}  // namespace eim
