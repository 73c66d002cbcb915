// Selection of a few configurations that are spread over all given configurations.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "chain/refine.hpp"
#include "numerics/clock.hpp"
#include "selection/distinctness.hpp"

namespace eim {

// Replaces each chosen row by the row closest to the mean of its group, as in a step of Lloyd (1982). The group of a
// chosen row contains the rows nearest to it. Before this step, the chosen rows lie at the rim, because each of them
// was the farthest from the rows chosen before.
inline void recentre(const Bounds<double>& bounds, const Configurations& rows, const std::vector<int>& owner,
                     std::vector<Index>& chosen) {
    const int n_joints = rows.n_joints;
    const Index n_rows = rows.size();
    std::vector<double> means(chosen.size() * n_joints, 0.0), least(chosen.size(), 1e300);
    std::vector<double> counts(chosen.size(), 0.0);
    const std::vector<Index> before = chosen;
    const auto away = [&](Index i, int j) {
        return difference(rows.row(i)[j], rows.row(before[owner[i]])[j], bounds.wraps[j]);
    };
    for (Index i = 0; i < n_rows; ++i) {
        ++counts[owner[i]];
        for (int j = 0; j < n_joints; ++j) means[owner[i] * n_joints + j] += away(i, j);
    }
    for (Index i = 0; i < n_rows; ++i) {
        double square = 0.0;
        for (int j = 0; j < n_joints; ++j) {
            const double d = away(i, j) - means[owner[i] * n_joints + j] / counts[owner[i]];
            square += d * d;
        }
        if (square < least[owner[i]]) least[owner[i]] = square, chosen[owner[i]] = i;
    }
}

// Rows in blocks of neighbours. The distance of each row to the nearest chosen row is stored.
//
// A newly chosen row is far from most blocks. A block is skipped if the new row is farther from its bounding box than
// any row of the block is from an earlier chosen row.
class BlocksOfRows {
   public:
    BlocksOfRows(const Bounds<double>& bounds, const Configurations& rows)
        : bounds_(bounds),
          rows_(rows),
          n_joints_(rows.n_joints),
          n_blocks_((rows.size() + kBlock - 1) / kBlock),
          order_(rows.size()),
          keys_(rows.size()),
          values_(n_blocks_ * n_joints_ * kBlock),
          squares_(n_blocks_ * kBlock),
          owners_(n_blocks_ * kBlock, 0),
          middles_(n_joints_ * n_blocks_),
          halves_(n_joints_ * n_blocks_),
          away_(n_blocks_),
          most_(n_blocks_, std::numeric_limits<float>::infinity()) {
        std::iota(order_.begin(), order_.end(), Index(0));
        divide(0, rows.size());
        std::fill_n(squares_.begin(), rows.size(), std::numeric_limits<float>::infinity());
        for (Index b = 0; b < n_blocks_; ++b) fill_block(b);
    }

    // Adds a chosen row with the given number.
    void choose(Index row, int number) {
        std::fill(away_.begin(), away_.end(), 0.0f);
        for (int j = 0; j < n_joints_; ++j) {
            const float* half = &halves_[j * n_blocks_];
            differences(&middles_[j * n_blocks_], n_blocks_, j, place(row, j), [&](Index b, float d) {
                const float beyond = std::max(std::abs(d) - half[b], 0.0f);
                away_[b] += beyond * beyond;
            });
        }
        for (Index b = 0; b < n_blocks_; ++b) {
            if (away_[b] * 0.9999f < most_[b]) update(b, row, number);
        }
    }

    // Returns the row that is farthest from all chosen rows, or -1 if each row equals a chosen row.
    Index farthest() const {
        const Index b = std::max_element(most_.begin(), most_.end()) - most_.begin();
        if (!(most_[b] > 0.0f)) return -1;
        const float* squares = &squares_[b * kBlock];
        return order_[std::max_element(squares, squares + kBlock) - squares_.data()];
    }

    // Returns the number of the nearest chosen row for each row.
    std::vector<int> owners() const {
        std::vector<int> of(order_.size());
        for (std::size_t slot = 0; slot < order_.size(); ++slot) of[order_[slot]] = owners_[slot];
        return of;
    }

   private:
    static constexpr Index kBlock = 32;
    static constexpr Index kFewEnough = 256;  // number of rows used to estimate the extent

    // Calls visit(i, difference) for i < n, where `difference` is value i of joint j minus another value.
    template <class Visit>
    void differences(const float* values, Index n, int j, float at, Visit visit) const {
        if (!bounds_.wraps[j]) {
            for (Index i = 0; i < n; ++i) visit(i, values[i] - at);
            return;
        }
        for (Index i = 0; i < n; ++i) {
            const float d = values[i] - at;
            visit(i, d - float(kTwoPi) * std::nearbyint(d * float(1.0 / kTwoPi)));
        }
    }

    float place(Index row, int j) const {
        const double q = rows_.row(row)[j];
        return float(bounds_.wraps[j] ? wrapped_angle(q) : q);
    }

    // Orders slots so that the rows of a block are near each other. The slots are halved recursively along the joint
    // with the largest extent.
    void divide(Index first, Index last) {
        if (last - first <= kBlock) return;
        int widest = 0;
        float extent = -1.0f;
        const Index stride = std::max<Index>(1, (last - first) / kFewEnough);
        for (int j = 0; j < n_joints_; ++j) {
            float low = place(order_[first], j), high = low;
            for (Index slot = first; slot < last; slot += stride) {
                const float value = place(order_[slot], j);
                low = std::min(low, value), high = std::max(high, value);
            }
            if (high - low > extent) extent = high - low, widest = j;
        }
        for (Index slot = first; slot < last; ++slot) keys_[slot] = {place(order_[slot], widest), order_[slot]};
        const Index middle = first + ((last - first) / 2 + kBlock - 1) / kBlock * kBlock;
        std::nth_element(keys_.begin() + first, keys_.begin() + middle, keys_.begin() + last,
                         [](const auto& a, const auto& b) { return a.first < b.first; });
        for (Index slot = first; slot < last; ++slot) order_[slot] = keys_[slot].second;
        divide(first, middle), divide(middle, last);
    }

    void fill_block(Index b) {
        const Index n = std::min(kBlock, Index(order_.size()) - b * kBlock);
        for (int j = 0; j < n_joints_; ++j) {
            float* values = &values_[(b * n_joints_ + j) * kBlock];
            for (Index k = 0; k < kBlock; ++k) values[k] = place(order_[b * kBlock + std::min(k, n - 1)], j);
            const auto [low, high] = std::minmax_element(values, values + kBlock);
            middles_[j * n_blocks_ + b] = 0.5f * (*low + *high), halves_[j * n_blocks_ + b] = 0.5f * (*high - *low);
        }
    }

    void update(Index b, Index row, int number) {
        float away[kBlock] = {}, *squares = &squares_[b * kBlock];
        int* owners = &owners_[b * kBlock];
        for (int j = 0; j < n_joints_; ++j) {
            differences(&values_[(b * n_joints_ + j) * kBlock], kBlock, j, place(row, j),
                        [&](Index k, float d) { away[k] += d * d; });
        }
        float most = 0.0f;
        for (Index k = 0; k < kBlock; ++k) {
            owners[k] = away[k] < squares[k] ? number : owners[k];
            squares[k] = away[k] < squares[k] ? away[k] : squares[k];
            most = most < squares[k] ? squares[k] : most;
        }
        most_[b] = most;
    }

    const Bounds<double>& bounds_;
    const Configurations& rows_;
    int n_joints_;
    Index n_blocks_;
    std::vector<Index> order_;                   // row of each slot
    std::vector<std::pair<float, Index>> keys_;  // keys for sorting
    std::vector<float> values_;                  // (n_blocks, n_joints, kBlock)
    std::vector<float> squares_;                 // squared distance of each slot to the nearest chosen row; 0 if unused
    std::vector<int> owners_;
    std::vector<float> middles_, halves_;  // bounding boxes (n_joints, n_blocks)
    // (n_blocks,): squared distance of the box from the new row; largest entry of `squares_`
    std::vector<float> away_, most_;
};

// Selects at most n rows that are spread over all rows. The first row is always selected, and each further row is the
// farthest from the rows selected before. Distances of continuous joints are measured on the circle. Each selected row
// is then replaced by a row in the middle of the rows nearest to it. Fewer than n rows are returned if the remaining
// rows are duplicates. At the deadline, a time of the steady clock [s], the first rows that are not selected yet fill
// the selection.
//
// Before rows are replaced, the largest hole of the selection is at most twice as large as for any other selection of n
// rows (Gonzalez 1985: Clustering to minimize the maximum intercluster distance).
inline std::vector<Index> farthest_rows(const Bounds<double>& bounds, const Configurations& rows, Index n,
                                        double deadline = std::numeric_limits<double>::infinity()) {
    if (rows.size() == 0) return {};
    BlocksOfRows blocks(bounds, rows);
    std::vector<Index> chosen;
    Watch watch(deadline, 16);
    for (Index next = 0; next >= 0 && Index(chosen.size()) < std::min(n, rows.size()); next = blocks.farthest()) {
        if (watch.is_past()) break;
        blocks.choose(next, int(chosen.size()));
        chosen.push_back(next);
    }
    recentre(bounds, rows, blocks.owners(), chosen);
    if (watch.is_past()) {
        std::vector<std::uint8_t> is_chosen(rows.size(), 0);
        for (Index i : chosen) is_chosen[i] = 1;
        for (Index i = 0; i < rows.size() && Index(chosen.size()) < n; ++i) {
            if (!is_chosen[i]) chosen.push_back(i);
        }
    }
    return chosen;
}

}  // namespace eim
