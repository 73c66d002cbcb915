// Enumeration of 2 pi-equivalent configurations within the limits, in the order of their cost.
//
// The cost is sum_j w_j (q_j - r_j)^2, with one term per joint. The revolutions of each joint are sorted by their term.
// The next best choice therefore differs from an earlier choice by one position in one joint. A heap contains these
// candidates (Lawler 1972). A choice advances only in the joint that moved last, or in a later joint. Each candidate is
// therefore reached in only one way. Memory grows with the number of returned configurations, and does not depend on
// the total number.
#pragma once

#include <algorithm>
#include <queue>

#include "chain/refine.hpp"
#include "closed_form/root_rules.hpp"
#include "selection/distinctness.hpp"

namespace eim {

struct TurnCost {
    const double *reference, *weights;
    // Whether the costs of each root are relative to its least cost. Relative costs put all roots before the further
    // revolutions of any root.
    bool by_root;
};

class Revolutions {
   public:
    // A `choice` from [0, 1) selects one of the roots within the limits at random. Only this root is enumerated.
    Revolutions(const Chain& chain, const Bounds<double>& bounds, const Configurations& roots, double slack,
                const TurnCost& cost, double choice = -1.0)
        : bounds_(bounds), n_joints_(chain.n_joints), cost_(cost) {
        const std::vector<bool> slides = prismatic_joints(chain);
        turns_.reserve(roots.size() * n_joints_), nearest_.reserve(roots.size() * n_joints_);
        std::vector<Choice> first;
        for (Index i = 0; i < roots.size(); ++i) {
            double n = 1.0, least = 0.0;
            for (int j = 0; j < n_joints_; ++j) {
                turns_.emplace_back(bounds, j, roots.row(i)[j], slack, slides[j]);
                nearest_.push_back(nearest(turns_.back(), j));
                n *= double(turns_.back().n);
                if (n > 0.0) least += term(i, j, 0);
            }
            total_ += n, least_.push_back(least);
            if (n > 0.0) first.push_back({cost.by_root ? 0.0 : least, 0, i, 0, std::vector<Index>(n_joints_, 0)});
        }
        n_within_ = Index(first.size());
        if (choice >= 0.0 && n_within_ > 0) {
            open_.push(std::move(first[Index(choice * double(n_within_))]));
        } else {
            open_ = std::priority_queue<Choice>(std::less<Choice>(), std::move(first));
        }
    }

    // Return the number of all configurations, and the number of roots within the limits. Both numbers include roots
    // that are not enumerated.
    double total() const { return total_; }
    Index n_within() const { return n_within_; }

    // Writes the next configuration within the limits, and the index of its root. Returns false after the last
    // configuration.
    bool next(double* q, Index& root, bool& is_clamped) {
        while (n_followed_ < returned_.size()) {
            const Choice& earliest = returned_[n_followed_];
            if (!open_.empty() && open_.top().precedes_followers_of(earliest)) break;
            add_followers_of(earliest), ++n_followed_;
        }
        if (open_.empty()) return false;
        const Choice& best = open_.top();
        root = best.root, is_clamped = false;
        for (int j = 0; j < n_joints_; ++j) {
            const double value = turns(root, j).at(place(root, j, best.places[j]));
            q[j] = within(bounds_, j, value);
            is_clamped |= q[j] != value && !bounds_.wraps[j];
        }
        returned_.push_back(best);
        open_.pop();
        return true;
    }

   private:
    struct Choice {
        double cost;
        Index n_turns;  // number of positions from the best choice of the root, summed over joints
        Index root;
        int moved;  // joint that moved last
        std::vector<Index> places;
        bool operator<(const Choice& other) const {  // the queue returns the greatest element first
            if (cost != other.cost) return cost > other.cost;
            if (n_turns != other.n_turns) return n_turns > other.n_turns;  // roots before revolutions at no cost
            return root != other.root ? root > other.root : places > other.places;
        }
        // Successors of a choice cost at least as much, and are more positions away from the best choice.
        bool precedes_followers_of(const Choice& other) const {
            return cost != other.cost ? cost < other.cost : n_turns <= other.n_turns;
        }
    };

    void add_followers_of(const Choice& choice) {
        const Index root = choice.root;
        for (int j = choice.moved; j < n_joints_; ++j) {
            const Index k = choice.places[j];
            if (k + 1 >= turns(root, j).n) continue;
            Choice further = choice;
            further.moved = j, further.places[j] = k + 1, ++further.n_turns;
            further.cost += std::max(0.0, term(root, j, k + 1) - term(root, j, k));  // negative only by rounding
            open_.push(std::move(further));
        }
    }

    const Turns& turns(Index root, int j) const { return turns_[root * n_joints_ + j]; }

    Index nearest(const Turns& turns, int j) const {
        const double place = std::round((cost_.reference[j] - turns.first) / kTwoPi);
        return Index(std::clamp(place, 0.0, double(std::max<Index>(turns.n - 1, 0))));
    }

    // Returns the k-th nearest revolution to the reference. Revolutions alternate around the nearest one until one side
    // has no more revolutions.
    Index place(Index root, int j, Index k) const {
        const Turns& of = turns(root, j);
        const Index middle = nearest_[root * n_joints_ + j], below = middle, above = of.n - 1 - middle;
        const Index both = std::min(below, above);
        if (k > 2 * both) return below < above ? k : of.n - 1 - k;
        // in this case, the next revolution above is nearer than the next revolution below
        const bool is_raised = of.at(middle) <= cost_.reference[j];
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
    std::vector<Index> nearest_;  // (n_roots, n_joints): index of the revolution nearest to the reference
    std::vector<double> least_;   // (n_roots,)
    std::priority_queue<Choice> open_;
    std::vector<Choice> returned_;  // cheapest first
    std::size_t n_followed_ = 0;    // number of returned choices with their successors in the heap
    double total_ = 0.0;
    Index n_within_ = 0;
};

}  // namespace eim
