// Configurations that differ by whole turns of joints, within the limits: enumerated from the least cost on, lazily.
//
// The cost is sum_j w_j (q_j - r_j)^2, a term of each joint by itself. So with the turns of each joint sorted by their
// terms, the next best choice is among those one place further in one joint: a heap holds them (Lawler 1972), each
// reached in one way only, for places move on from the last joint moved, or behind it. Memory is that of what was given
// out, whatever the number of all.
#pragma once

#include <algorithm>
#include <queue>

#include "chain/refine.hpp"
#include "selection/distinctness.hpp"

namespace eim {

// Places of a joint value at whole turns within the limits.
struct Turns {
    double first = 0.0;  // least value
    Index n = 0;

    // Within limits widened by a slack [rad].
    Turns() = default;
    Turns(const Bounds<double>& bounds, int j, double value, double slack) {
        if (bounds.wraps[j]) {
            first = within(bounds, j, value), n = 1;
            return;
        }
        const double least = std::ceil((bounds.lower[j] - slack - value) / kTwoPi);
        const double most = std::floor((bounds.upper[j] + slack - value) / kTwoPi);
        first = value + kTwoPi * least, n = Index(std::clamp(most - least + 1.0, 0.0, 1e15));
    }
    double at(Index k) const { return first + kTwoPi * double(k); }
};

struct TurnCost {
    const double *reference, *weights;
    // Whether each root's costs are counted from the least of its own: then roots come before further turns of any.
    bool by_root;
};

class Windings {
   public:
    Windings(const Chain& chain, const Bounds<double>& bounds, const Configurations& roots, double slack,
             const TurnCost& cost)
        : bounds_(bounds), n_joints_(chain.n_joints), cost_(cost) {
        for (Index i = 0; i < roots.size(); ++i) {
            double n = 1.0, least = 0.0;
            for (int j = 0; j < n_joints_; ++j) {
                turns_.emplace_back(bounds, j, roots.row(i)[j], slack);
                nearest_.push_back(nearest(turns_.back(), j));
                n *= double(turns_.back().n);
                if (n > 0.0) least += term(i, j, 0);
            }
            total_ += n, least_.push_back(least);
            if (n > 0.0) open_.push(Choice{cost.by_root ? 0.0 : least, 0, i, 0, std::vector<Index>(n_joints_, 0)});
        }
    }

    // Of all there are.
    double total() const { return total_; }

    // Writes the next configuration, within the limits, and the root it belongs to; whether there was one.
    bool next(double* q, Index& root, bool& is_clamped) {
        if (open_.empty()) return false;
        const Choice best = open_.top();
        open_.pop();
        root = best.root, is_clamped = false;
        for (int j = 0; j < n_joints_; ++j) {
            const double value = turns(root, j).at(place(root, j, best.places[j]));
            q[j] = within(bounds_, j, value);
            is_clamped |= q[j] != value && !bounds_.wraps[j];
        }
        for (int j = best.moved; j < n_joints_; ++j) {
            const Index k = best.places[j];
            if (k + 1 >= turns(root, j).n) continue;
            Choice further = best;
            further.moved = j, further.places[j] = k + 1, ++further.n_turns;
            further.cost += std::max(0.0, term(root, j, k + 1) - term(root, j, k));  // below 0 by rounding alone
            open_.push(std::move(further));
        }
        return true;
    }

   private:
    struct Choice {
        double cost;
        Index n_turns;  // places away from the best choice of the root, all joints together
        Index root;
        int moved;  // joint moved last
        std::vector<Index> places;
        bool operator<(const Choice& other) const {  // the queue gives out the greatest first
            if (cost != other.cost) return cost > other.cost;
            if (n_turns != other.n_turns) return n_turns > other.n_turns;  // all roots, then turns at no cost
            return root != other.root ? root > other.root : places > other.places;
        }
    };

    const Turns& turns(Index root, int j) const { return turns_[root * n_joints_ + j]; }

    Index nearest(const Turns& turns, int j) const {
        const double place = std::round((cost_.reference[j] - turns.first) / kTwoPi);
        return Index(std::clamp(place, 0.0, double(std::max<Index>(turns.n - 1, 0))));
    }

    // The turn that is the k-th nearest to the reference: from the nearest on to both sides, then on the one left.
    Index place(Index root, int j, Index k) const {
        const Turns& of = turns(root, j);
        const Index middle = nearest_[root * n_joints_ + j], below = middle, above = of.n - 1 - middle;
        const Index both = std::min(below, above);
        if (k > 2 * both) return below < above ? k : of.n - 1 - k;
        const bool is_raised = of.at(middle) <= cost_.reference[j];  // then the next above is nearer than that below
        const Index away = (k + 1) / 2;
        return (k % 2 == 1) == is_raised ? middle + away : middle - away;
    }

    double term(Index root, int j, Index k) const {
        if (bounds_.wraps[j])
            return cost_.weights[j] * square(difference(turns(root, j).first, cost_.reference[j], true));
        return cost_.weights[j] * square(turns(root, j).at(place(root, j, k)) - cost_.reference[j]);
    }
    static double square(double x) { return x * x; }

    const Bounds<double>& bounds_;
    int n_joints_;
    TurnCost cost_;
    std::vector<Turns> turns_;    // (n_roots, n_joints)
    std::vector<Index> nearest_;  // the same: turn nearest to the reference
    std::vector<double> least_;   // (n_roots,)
    std::priority_queue<Choice> open_;
    double total_ = 0.0;
};

}  // namespace eim
