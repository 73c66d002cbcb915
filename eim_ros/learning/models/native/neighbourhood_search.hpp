// Partial truncated E-step (see learning/em/truncated.py). A search among neighbours improves K(n), the set of states
// of point n.
//
// The candidates of a point n are the states in K(n), the neighbour lists g_c of these states, and a few random
// components. The candidates with the greatest log joint densities form the new K(n). Their responsibilities are the
// weights of the expected products for the M-step. Points are visited in the order of their first state c, which keeps
// the data of c in the cache. The new g_c contains the components with the greatest log joint density relative to c,
// averaged over the points of c at which they were evaluated.
#pragma once

#include "numerics/portable.hpp"
#include "quadratic_forms.hpp"

namespace eim {

// The greatest values offered so far, in descending order, with their components.
struct Greatest {
    Index n_filled = 0;
    std::vector<double> values;
    std::vector<std::int64_t> components;

    explicit Greatest(Index n) : values(n), components(n) {}
    Index size() const { return Index(values.size()); }
    bool is_full() const { return n_filled == size(); }
    void offer(double value, std::int64_t component) {
        if (is_full() && !(value > values.back())) return;
        Index j = is_full() ? size() - 1 : n_filled++;
        for (; j > 0 && value > values[j - 1]; --j) values[j] = values[j - 1], components[j] = components[j - 1];
        values[j] = value, components[j] = component;
    }
};

struct SearchInput {
    const double* joint;               // (n, width)
    Lists states, neighbours, random;  // (n, n_states), (n_components, n_neighbours), (n, n_random)
};

struct SearchResult {
    std::int64_t *states, *neighbours;  // shaped like the input; neighbours initially contains the old lists
    double* products;                   // (n_components, n_products), expected products
    double free_energy = 0.0;           // sum over n of log sum of the joint densities in K(n)
    std::int64_t n_evaluations = 0;     // number of evaluated joint densities
};

class NeighbourhoodSearch {
   public:
    NeighbourhoodSearch(const Forms& forms, const SearchInput& input)
        : forms_(forms),
          input_(input),
          point_(forms),
          products_(forms.n_components, forms.n_products),
          kept_(input.states.n_columns),
          shares_(input.states.n_columns),
          values_(input.states.n_columns * (input.neighbours.n_columns + 1) + input.random.n_columns),
          candidates_(values_.size() + 1),
          met_(forms.n_components) {}

    void run(SearchResult& result) {
        std::vector<Index> begins, order;
        sort_by_first_state(begins, order);
        for (Index c = 0; c < forms_.n_components; ++c) {
            touched_.clear();
            for (Index at = begins[c]; at < begins[c + 1]; ++at) visit(order[at], c, result);
            if (Index(touched_.size()) >= input_.neighbours.n_columns) refresh(c, result);
        }
        for (Index c = 0; c < forms_.n_components; ++c) {
            std::copy_n(products_.numbers(c), forms_.n_products, result.products + c * forms_.n_products);
        }
    }

   private:
    static constexpr Index kNone = -1;

    struct Met {                                   // statistics of a candidate over the points of a state
        Index point = kNone, first_state = kNone;  // latest point, and first state of that point
        double deficit = 0.0, count = 0.0;         // log joint minus the state's log joint, summed over points
    };

    // Sorts the points by their first state. Points with first state c are order[begins[c]:begins[c + 1]].
    void sort_by_first_state(std::vector<Index>& begins, std::vector<Index>& order) const {
        const Lists& states = input_.states;
        begins.assign(forms_.n_components + 1, 0), order.resize(states.n_rows);
        for (Index i = 0; i < states.n_rows; ++i) ++begins[*states.row(i) + 1];
        for (Index c = 0; c < forms_.n_components; ++c) begins[c + 1] += begins[c];
        std::vector<Index> next = begins;
        for (Index i = 0; i < states.n_rows; ++i) order[next[*states.row(i)]++] = i;
    }

    // Lists the states in K(n) in their order, and each other candidate once after them. Returns the number of
    // candidates.
    Index list_candidates(Index i) {
        const Lists &states = input_.states, &neighbours = input_.neighbours, &random = input_.random;
        const std::int64_t* own = states.row(i);
        std::int64_t* candidates = candidates_.data();
        Index n = 0;
        for (; n < states.n_columns; ++n) {
            candidates[n] = own[n];
            met_[own[n]].point = i;
        }
        const auto add = [&](const std::int64_t* list, Index n_listed) {
            for (Index k = 0; k < n_listed; ++k) {
                candidates[n] = list[k];  // overwritten by the next entry if it is a duplicate, which avoids a branch
                n += met_[list[k]].point != i;
                met_[list[k]].point = i;
            }
        };
        for (Index j = 0; j < states.n_columns; ++j) add(neighbours.row(own[j]), neighbours.n_columns);
        add(random.row(i), random.n_columns);
        return n;
    }

    // Updates the states of point i, whose first state is c, and the statistics of its candidates.
    void visit(Index i, Index c, SearchResult& result) {
        const Index n = list_candidates(i);
        point_.move_to(input_.joint + i * forms_.width, forms_.width);
        evaluate(forms_, point_, candidates_.data(), n, values_.data());
        kept_.n_filled = 0;
        for (Index k = 0; k < n; ++k) {
            kept_.offer(values_[k], candidates_[k]);
            Met& met = met_[candidates_[k]];
            if (met.first_state != c) {
                met.first_state = c, met.deficit = met.count = 0.0;
                touched_.push_back(candidates_[k]);
            }
            met.deficit += values_[k] - values_[0];
            met.count += 1.0;
        }
        std::copy_n(kept_.components.data(), kept_.size(), result.states + i * kept_.size());
        result.free_energy += share_out();
        result.n_evaluations += n;
    }

    // Adds the products of the point to the sums of the components in its new K(n), weighted by their responsibilities.
    // Returns the log of the sum of the joint densities.
    double share_out() {
        double normaliser = 0.0;
        for (Index j = 0; j < kept_.size(); ++j) {
            shares_[j] = portable::exp(kept_.values[j] - kept_.values[0]);
            normaliser += shares_[j];
        }
        const Pack* products = point_.products.row(0);
        for (Index j = 0; j < kept_.size(); ++j) {
            const double share = shares_[j] / normaliser;
            if (share <= kLeastShare) continue;
            Pack* sums = products_.row(kept_.components[j]);
            for (Index p = 0; p < products_.n_packs; ++p) sums[p] += share * products[p];
        }
        return kept_.values[0] + portable::log(normaliser);
    }

    // Writes the new neighbour list of c. The first entry of the list is c.
    void refresh(Index c, SearchResult& result) const {
        Greatest near(input_.neighbours.n_columns);
        for (const std::int64_t other : touched_) {
            const Met& met = met_[other];
            near.offer(other == c ? std::numeric_limits<double>::infinity() : met.deficit / met.count, other);
        }
        std::copy_n(near.components.data(), near.size(), result.neighbours + c * near.size());
    }

    const Forms& forms_;
    const SearchInput input_;
    Point point_;
    PackedRows products_;
    Greatest kept_;
    std::vector<double> shares_, values_;
    std::vector<std::int64_t> candidates_, touched_;  // candidates of one point; candidates of all points of c
    std::vector<Met> met_;
};

}  // namespace eim
