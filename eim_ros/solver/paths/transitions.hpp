// Choice of one solution per pose so that the joints move little. The solutions form the shortest path through a
// layered graph.
//
// Each pose is a layer, and its solutions are the nodes. An edge costs |dq|^2, plus a penalty if a joint moves farther
// than the largest step. Few edges are within the largest step. To find these edges, both layers are sorted by one
// joint, and only solutions within the step of this joint are compared. All edges are compared only if the edges within
// the step cannot give a path that is cheaper than the penalty. Blocked edges count as steps that are too large.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "selection/distinctness.hpp"

namespace eim {

// The solutions of a pose, stored joint by joint and sorted by the key joint.
struct Layer {
    Index n = 0, start = 0;         // start: number of input rows before this layer
    const double* scale = nullptr;  // (n_joints,): factors for the step to this layer
    std::vector<Index> order;       // (n,): indices of the solutions in the input
    std::vector<double> values;     // (n_joints, n)
    const double* joint(int j) const { return values.data() + j * n; }
};

using Edge = std::pair<std::int64_t, std::int64_t>;  // two rows of the input, in successive layers

class Transitions {
   public:
    // In `rows` (n, n_joints), counts[i] successive rows belong to layer i. `wraps` marks continuous joints. Factors in
    // `scale` (n_layers, n_joints) make the largest step of each joint to a layer equal to `largest`.
    Transitions(const double* rows, const std::int64_t* counts, Index n_layers, const bool* wraps, int n_joints,
                const double* scale, double largest, std::vector<Edge> blocked)
        : n_joints_(n_joints), wraps_(wraps), largest_(largest), blocked_(std::move(blocked)) {
        std::sort(blocked_.begin(), blocked_.end());
        const Index n = std::accumulate(counts, counts + n_layers, std::int64_t(0));
        double widest = -1.0;
        for (int j = 0; j < n_joints && n > 0; ++j) {
            if (wraps[j]) continue;
            double low = rows[j], high = rows[j];
            for (Index i = 0; i < n; ++i) {
                low = std::min(low, rows[i * n_joints + j]), high = std::max(high, rows[i * n_joints + j]);
            }
            if (high - low > widest) widest = high - low, key_ = j;
        }
        Index start = 0;
        for (Index i = 0; i < n_layers; rows += counts[i] * n_joints, start += counts[i], ++i) {
            add(rows, counts[i]);
            layers_.back().scale = scale + i * n_joints, layers_.back().start = start;
        }
    }

    Index n_layers() const { return Index(layers_.size()); }
    const Layer& layer(Index i) const { return layers_[i]; }

    // Returns the indices of the solutions on the path with the least cost, or -1 for layers without solutions.
    std::vector<std::int64_t> shortest(double penalty) const {
        std::vector<std::vector<Index>> previous(layers_.size());
        std::vector<std::int64_t> chosen(layers_.size(), -1);
        std::vector<double> costs, next;
        const Layer* before = nullptr;
        for (Index k = 0; k < n_layers(); ++k) {
            const Layer& after = layers_[k];
            if (after.n == 0) continue;
            next.assign(after.n, 0.0), previous[k].assign(after.n, -1);
            if (before) extend(*before, costs, after, penalty, next, previous[k]);
            costs.swap(next), before = &after;
        }
        if (!before) return chosen;
        Index at = std::min_element(costs.begin(), costs.end()) - costs.begin();
        for (Index k = n_layers() - 1; k >= 0; --k) {
            if (layers_[k].n == 0) continue;
            chosen[k] = layers_[k].order[at], at = previous[k][at];
        }
        return chosen;
    }

    struct Reach {
        // (n,): whether a solution lies on a path of allowed steps from end to end
        std::vector<std::uint8_t> is_on_path;
        Index n_reached = 0;   // number of layers that such a path reaches from the first layer
        double nearest = 0.0;  // least step from the last reached layer to the next; infinite without solutions
    };

    // Marks the solutions on paths of allowed steps from the first layer to the last layer. If no such path exists,
    // marks the solutions on paths that start at the first layer.
    Reach reach() const {
        Reach found;
        std::vector<std::vector<std::uint8_t>> on(layers_.size());
        for (Index k = 0; k < n_layers(); ++k) {
            on[k].assign(layers_[k].n, k == 0);
            if (k > 0) spread(layers_[k - 1], on[k - 1], layers_[k], on[k], layers_[k].scale);
            if (std::none_of(on[k].begin(), on[k].end(), [](auto is) { return is; })) break;
            ++found.n_reached;
        }
        if (found.n_reached == n_layers()) {
            for (Index k = n_layers() - 2; k >= 0; --k) {
                std::vector<std::uint8_t> leads(layers_[k].n, 0);
                spread(layers_[k + 1], on[k + 1], layers_[k], leads, layers_[k + 1].scale);
                for (Index i = 0; i < layers_[k].n; ++i) on[k][i] &= leads[i];
            }
        } else {
            const Index k = found.n_reached;
            found.nearest =
                k > 0 ? nearest(layers_[k - 1], on[k - 1], layers_[k]) : std::numeric_limits<double>::infinity();
        }
        for (Index k = 0; k < n_layers(); ++k) {
            const std::size_t first = found.is_on_path.size();
            found.is_on_path.resize(first + layers_[k].n, 0);
            if (on[k].empty()) continue;
            for (Index i = 0; i < layers_[k].n; ++i) found.is_on_path[first + layers_[k].order[i]] = on[k][i];
        }
        return found;
    }

   private:
    void add(const double* rows, Index n) {
        Layer layer;
        layer.n = n, layer.order.resize(n), layer.values.resize(n * n_joints_);
        std::iota(layer.order.begin(), layer.order.end(), Index(0));
        if (key_ >= 0) {
            std::stable_sort(layer.order.begin(), layer.order.end(),
                             [&](Index a, Index b) { return rows[a * n_joints_ + key_] < rows[b * n_joints_ + key_]; });
        }
        for (Index i = 0; i < n; ++i) {
            for (int j = 0; j < n_joints_; ++j) layer.values[j * n + i] = rows[layer.order[i] * n_joints_ + j];
        }
        layers_.push_back(std::move(layer));
    }

    // Whether the edge between solution i of a layer and solution k of another layer is blocked.
    bool is_blocked(const Layer& from, Index i, const Layer& to, Index k) const {
        if (blocked_.empty()) return false;
        const Index a = from.start + from.order[i], b = to.start + to.order[k];
        return std::binary_search(blocked_.begin(), blocked_.end(), Edge(std::min(a, b), std::max(a, b)));
    }

    // Computes the largest scaled motion of a joint, and the sum of squared motions, from solution i of a layer to the
    // solutions [first, last) of another layer.
    void measure(const Layer& from, Index i, const Layer& to, Index first, Index last, const double* scales) const {
        const Index n = last - first;
        most_.assign(n, 0.0), square_.assign(n, 0.0);
        double *most = most_.data(), *square = square_.data();
        for (int j = 0; j < n_joints_; ++j) {
            const double x = from.joint(j)[i], *values = to.joint(j) + first, scale = scales[j];
            if (wraps_[j]) {
                for (Index k = 0; k < n; ++k) {
                    const double away = std::abs(difference(values[k], x, true));
                    const double scaled = scale * away;
                    most[k] = most[k] > scaled ? most[k] : scaled, square[k] += away * away;
                }
            } else {
                for (Index k = 0; k < n; ++k) {
                    const double away = std::abs(values[k] - x), scaled = scale * away;
                    most[k] = most[k] > scaled ? most[k] : scaled, square[k] += away * away;
                }
            }
        }
    }

    // Calls function(i, first, last) for each solution i of `from`. Only the solutions [first, last) of `to` may be
    // within the largest step of solution i.
    template <class Function>
    void for_windows(const Layer& from, const Layer& to, const double* scales, Function function) const {
        for (Index i = 0; i < from.n; ++i) {
            Index first = 0, last = to.n;
            if (key_ >= 0) {
                const double *keys = to.joint(key_), x = from.joint(key_)[i];
                const double step = 1.0000001 * largest_ / scales[key_];
                first = std::lower_bound(keys, keys + to.n, x - step) - keys;
                last = std::upper_bound(keys + first, keys + to.n, x + step) - keys;
            }
            if (first < last) function(i, first, last);
        }
    }

    void extend(const Layer& before, const std::vector<double>& costs, const Layer& after, double penalty,
                std::vector<double>& next, std::vector<Index>& previous) const {
        std::fill(next.begin(), next.end(), std::numeric_limits<double>::infinity());
        for_windows(before, after, after.scale, [&](Index i, Index first, Index last) {
            measure(before, i, after, first, last, after.scale);
            for (Index k = 0; k < last - first; ++k) {
                const double cost = costs[i] + square_[k];
                if (most_[k] <= largest_ && cost < next[first + k] && !is_blocked(before, i, after, first + k)) {
                    next[first + k] = cost, previous[first + k] = i;
                }
            }
        });
        const double least = *std::min_element(costs.begin(), costs.end());
        for (Index i = 0; i < after.n; ++i) {
            if (next[i] <= least + penalty) continue;
            measure(after, i, before, 0, before.n, after.scale);
            for (Index k = 0; k < before.n; ++k) {
                const double cost = costs[k] + square_[k] + penalty;
                if (cost < next[i]) next[i] = cost, previous[i] = k;
            }
        }
    }

    // Marks the solutions of a layer that an allowed step reaches from a marked solution of another layer.
    void spread(const Layer& from, const std::vector<std::uint8_t>& marked, const Layer& to,
                std::vector<std::uint8_t>& reached, const double* scales) const {
        for_windows(from, to, scales, [&](Index i, Index first, Index last) {
            if (!marked[i]) return;
            measure(from, i, to, first, last, scales);
            for (Index k = 0; k < last - first; ++k) {
                reached[first + k] |= most_[k] <= largest_ && !is_blocked(from, i, to, first + k);
            }
        });
    }

    double nearest(const Layer& from, const std::vector<std::uint8_t>& marked, const Layer& to) const {
        double least = std::numeric_limits<double>::infinity();
        for (Index i = 0; i < from.n && to.n > 0; ++i) {
            if (!marked[i]) continue;
            measure(from, i, to, 0, to.n, to.scale);
            least = std::min(least, *std::min_element(most_.begin(), most_.end()));
        }
        return least;
    }

    int n_joints_, key_ = -1;  // key: joint that sorts the solutions; -1 if all joints wrap
    const bool* wraps_;
    double largest_;
    std::vector<Edge> blocked_;  // sorted
    std::vector<Layer> layers_;
    mutable std::vector<double> most_, square_;
};

}  // namespace eim
