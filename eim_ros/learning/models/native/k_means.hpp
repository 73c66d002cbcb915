// Clustering by k-means, with k-means++ seeding (Arthur and Vassilvitskii 2007) and Lloyd's iterations.
#pragma once

#include "gaussian_em.hpp"

namespace eim {

class KMeans {
   public:
    KMeans(const Columns& points, Index k) : points_(points), k_(k), d_(points.n_dims), centers_(k * d_) {}

    // Draws points as initial centers, one after the other. The probability of a point is proportional to its weight
    // times its squared distance from the nearest center drawn before. `uniform` (k,) contains a number from [0, 1) for
    // each draw.
    void seed(const double* uniform) {
        std::vector<double> squared(points_.n, 1.0), cumulative(points_.n), distance(points_.n);
        for (Index c = 0; c < k_; ++c) {
            double total = 0.0;
            for (Index i = 0; i < points_.n; ++i) cumulative[i] = total += squared[i] * weight(i);
            const auto drawn = std::upper_bound(cumulative.begin(), cumulative.end(), uniform[c] * total);
            const Index chosen = std::min<Index>(drawn - cumulative.begin(), points_.n - 1);
            std::fill(distance.begin(), distance.end(), 0.0);
            for (Index a = 0; a < d_; ++a) {
                const double *column = points_.values + a * points_.n, center = column[chosen];
                for (Index i = 0; i < points_.n; ++i) distance[i] += (column[i] - center) * (column[i] - center);
                centers_[c * d_ + a] = center;
            }
            for (Index i = 0; i < points_.n; ++i) {
                squared[i] = c == 0 ? distance[i] : std::min(squared[i], distance[i]);
            }
        }
    }

    // Fills `labels` (n,) with the cluster of each point after at most `n_iterations` updates of the centers.
    void run(Index n_iterations, std::int64_t* labels) {
        std::fill_n(labels, points_.n, -1);
        for (Index i = 0; assign(labels) && i < n_iterations; ++i) move_centers(labels);
    }

   private:
    double weight(Index i) const { return points_.weight ? points_.weight[i] : 1.0; }

    // Assigns each point to its nearest center. Returns whether a label changed.
    bool assign(std::int64_t* labels) const {
        std::vector<double> halves(k_);
        for (Index c = 0; c < k_; ++c) {
            for (Index a = 0; a < d_; ++a) halves[c] += 0.5 * centers_[c * d_ + a] * centers_[c * d_ + a];
        }
        std::vector<Block> point(d_);
        bool changed = false;
        for (Index first = 0; first < points_.n; first += Block::kPoints) {
            const Index n = std::min(points_.n - first, Block::kPoints);
            for (Index a = 0; a < d_; ++a) point[a] = Block(points_.values + a * points_.n + first, n);
            Block least(std::numeric_limits<double>::infinity()), nearest;
            for (Index c = 0; c < k_; ++c) {
                Block value(halves[c]);  // (|x - c|^2 - |x|^2) / 2
                for (Index a = 0; a < d_; ++a) {
                    for (Index p = 0; p < Block::kPacks; ++p) value[p] -= centers_[c * d_ + a] * point[a][p];
                }
                for (Index p = 0; p < Block::kPacks; ++p) {
                    nearest[p] = value[p] < least[p] ? fill<Pack>(double(c)) : nearest[p];
                    least[p] = smaller(value[p], least[p]);
                }
            }
            for (Index i = 0; i < n; ++i) {
                const auto label = std::int64_t(nearest[i / kLanes<Pack>][i % kLanes<Pack>]);
                changed |= labels[first + i] != label;
                labels[first + i] = label;
            }
        }
        return changed;
    }

    // Moves each center to the mean of its cluster. The center of an empty cluster does not move.
    void move_centers(const std::int64_t* labels) {
        std::vector<double> counts(k_), sums(k_ * d_);
        for (Index i = 0; i < points_.n; ++i) {
            counts[labels[i]] += weight(i);
            for (Index a = 0; a < d_; ++a) sums[labels[i] * d_ + a] += weight(i) * points_.values[a * points_.n + i];
        }
        for (Index c = 0; c < k_; ++c) {
            for (Index a = 0; counts[c] > 0.0 && a < d_; ++a) centers_[c * d_ + a] = sums[c * d_ + a] / counts[c];
        }
    }

    const Columns points_;
    const Index k_, d_;
    std::vector<double> centers_;  // (k, d)
};

}  // namespace eim
