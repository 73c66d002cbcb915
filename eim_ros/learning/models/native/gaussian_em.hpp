// One iteration of EM for a Gaussian mixture in a single pass over the points (see learning/em/em.py).
//
// A component with mean m and Cholesky factor L whitens a point to z = L^-1 (x - m). The log joint density of the
// component is log w - log|L| - d/2 log 2 pi - |z|^2/2. Let u be the mean and C C' the covariance of z, weighted by
// responsibilities. The new component has mean m + L u and factor L C. The moments u and C C' are of order one for any
// position and scale of the component, which avoids cancellation.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "exponential.hpp"
#include "numerics/portable.hpp"
#include "quadratic_forms.hpp"

namespace eim {

inline constexpr double kLeastLogShare = -300.0;  // [nat], relative to the largest; smaller shares are negligible
inline constexpr double kNoise = 1e-13;           // smaller variances relative to the second moment are noise

// Points in columns (n_dims, n), and their weights. Without weights, `weight` is nullptr.
struct Columns {
    const double *values, *weight;
    Index n, n_dims;
};

// One number for each point of a block. Entries after the last point are zero.
struct Block {
    static constexpr Index kPacks = 4, kPoints = kPacks * kLanes<Pack>;
    Pack packs[kPacks]{};

    Block() = default;
    explicit Block(double value) { std::fill_n(packs, kPacks, fill<Pack>(value)); }
    Block(const double* numbers, Index n) { std::memcpy(packs, numbers, std::min(n, kPoints) * sizeof(double)); }
    Pack& operator[](Index p) { return packs[p]; }
    const Pack& operator[](Index p) const { return packs[p]; }
};

// Weights (k,), means (k, d) and lower triangular factors (k, d, d).
template <class Number>
struct Gaussians {
    Number *log_weights, *means, *factors;
};

// Replaces the lower triangle of a matrix (d, d) by its Cholesky factor. Returns whether all pivots exceed `least`. If
// `singular` is true, smaller pivots are replaced by zero instead.
inline bool factorise(double* matrix, Index d, double least, bool singular = false) {
    for (Index a = 0; a < d; ++a) {
        for (Index b = 0; b <= a; ++b) {
            double rest = matrix[a * d + b];
            for (Index i = 0; i < b; ++i) rest -= matrix[a * d + i] * matrix[b * d + i];
            if (a == b && !(rest > least)) {
                if (!singular || std::isnan(rest)) return false;
                rest = 0.0;
            }
            const double pivot = a == b ? std::sqrt(rest) : matrix[b * d + b];
            matrix[a * d + b] = a == b ? pivot : pivot > 0.0 ? rest / pivot : 0.0;
        }
    }
    return true;
}

class GaussianEM {
   public:
    GaussianEM(const Columns& points, Index k, const Gaussians<const double>& old)
        : points_(points),
          k_(k),
          d_(points.n_dims),
          old_(old),
          constants_(k, -0.5 * double(points.n_dims) * portable::log(kTwoPi)),
          reciprocals_(k * d_),
          sums_(k * n_sums()),
          whitened_(k * d_),
          shares_(k) {
        for (Index c = 0; c < k; ++c) {
            constants_[c] += old.log_weights[c] - log_sum_exp(old.log_weights, k);
            for (Index a = 0; a < d_; ++a) {
                const double diagonal = old.factors[(c * d_ + a) * d_ + a];
                constants_[c] -= portable::log(diagonal);
                reciprocals_[c * d_ + a] = 1.0 / diagonal;
            }
        }
    }

    // Fills the updated mixture and returns the mean log-likelihood of the old mixture. Returns no value if a component
    // has no weight or is singular, or if its smallest variance is below `floor`. For this test, each coordinate is
    // divided by its unit. A negative `floor` accepts any variance, even zero.
    std::optional<double> run(const double* units, double floor, const Gaussians<double>& updated) {
        double log_likelihood = 0.0, total = 0.0;
        for (Index first = 0; first < points_.n; first += Block::kPoints) {
            const Block weight = weights(first), normaliser = expect(first, weight, log_likelihood);
            for (Index c = 0; c < k_; ++c) add_moments(c, weight, normaliser);
        }
        if (!std::isfinite(log_likelihood)) return std::nullopt;
        for (Index c = 0; c < k_; ++c) {
            if (!update(c, units, floor, updated)) return std::nullopt;
            total += updated.log_weights[c];
        }
        for (Index c = 0; c < k_; ++c) updated.log_weights[c] = portable::log(updated.log_weights[c] / total);
        return log_likelihood / double(points_.n);
    }

   private:
    Index n_sums() const { return (d_ + 1) * (d_ + 2) / 2; }  // 1, z_0, z_0^2, z_1, z_1 z_0, z_1^2, ...

    Block weights(Index first) const {
        if (points_.weight) return Block(points_.weight + first, points_.n - first);
        Block ones(1.0);
        for (Index i = points_.n - first; i < Block::kPoints; ++i) ones[i / kLanes<Pack>][i % kLanes<Pack>] = 0.0;
        return ones;
    }

    // Fills whitened_ and the unnormalised shares_ for a block. Returns the sum of the shares of each point.
    Block expect(Index first, const Block& weight, double& log_likelihood) {
        Block largest(-std::numeric_limits<double>::infinity()), normaliser;
        for (Index c = 0; c < k_; ++c) {
            Block square;
            Block* z = whitened_.data() + c * d_;
            for (Index a = 0; a < d_; ++a) {
                const double *row = old_.factors + (c * d_ + a) * d_, mean = old_.means[c * d_ + a];
                Block rest(points_.values + a * points_.n + first, points_.n - first);
                for (Index p = 0; p < Block::kPacks; ++p) rest[p] -= mean;
                for (Index b = 0; b < a; ++b) {
                    for (Index p = 0; p < Block::kPacks; ++p) rest[p] -= row[b] * z[b][p];
                }
                for (Index p = 0; p < Block::kPacks; ++p) {
                    z[a][p] = rest[p] * reciprocals_[c * d_ + a];
                    square[p] += z[a][p] * z[a][p];
                }
            }
            for (Index p = 0; p < Block::kPacks; ++p) {
                shares_[c][p] = constants_[c] - 0.5 * square[p];
                largest[p] = larger(shares_[c][p], largest[p]);
            }
        }
        for (Index c = 0; c < k_; ++c) {
            for (Index p = 0; p < Block::kPacks; ++p) {
                shares_[c][p] = exponential(larger(shares_[c][p] - largest[p], fill<Pack>(kLeastLogShare)));
                normaliser[p] += shares_[c][p];
            }
        }
        for (Index p = 0; p < Block::kPacks; ++p) {
            for (int lane = 0; lane < kLanes<Pack>; ++lane) {
                log_likelihood += weight[p][lane] * (largest[p][lane] + portable::log(normaliser[p][lane]));
            }
        }
        return normaliser;
    }

    void add_moments(Index c, const Block& weight, const Block& normaliser) {
        Pack* sum = sums_.data() + c * n_sums();
        const Block* z = whitened_.data() + c * d_;
        Block share;
        for (Index p = 0; p < Block::kPacks; ++p) *sum += share[p] = shares_[c][p] * weight[p] / normaliser[p];
        for (Index a = 0; a < d_; ++a) {
            Block part;
            ++sum;
            for (Index p = 0; p < Block::kPacks; ++p) *sum += part[p] = share[p] * z[a][p];
            for (Index b = 0; b <= a; ++b) {
                ++sum;
                for (Index p = 0; p < Block::kPacks; ++p) *sum += part[p] * z[b][p];
            }
        }
    }

    // Fills the mean and the factor of a component, and stores its weight instead of its log weight.
    bool update(Index c, const double* units, double floor, const Gaussians<double>& updated) const {
        const Pack* sum_of = sums_.data() + c * n_sums();
        const double count = sum(*sum_of++), *old = old_.factors + c * d_ * d_;
        if (!(count > std::numeric_limits<double>::epsilon())) return false;
        std::vector<double> shift(d_), factor(d_ * d_), excess(d_ * d_);
        double largest = 0.0;
        for (Index a = 0; a < d_; ++a) {
            shift[a] = sum(*sum_of++) / count;
            for (Index b = 0; b <= a; ++b) factor[a * d_ + b] = sum(*sum_of++) / count;
            largest = std::max(largest, factor[a * d_ + a]);
            for (Index b = 0; b <= a; ++b) factor[a * d_ + b] -= shift[a] * shift[b];
        }
        if (!factorise(factor.data(), d_, kNoise * largest, floor < 0.0)) return false;
        double *mean = updated.means + c * d_, *product = updated.factors + c * d_ * d_;
        updated.log_weights[c] = count;
        for (Index a = 0; a < d_; ++a) {
            mean[a] = old_.means[c * d_ + a];
            std::fill_n(product + a * d_, d_, 0.0);
            for (Index i = 0; i <= a; ++i) {
                mean[a] += old[a * d_ + i] * shift[i];
                for (Index b = 0; b <= i; ++b) product[a * d_ + b] += old[a * d_ + i] * factor[i * d_ + b];
            }
            for (Index b = 0; b <= a; ++b) {
                for (Index i = 0; i <= b; ++i) {
                    excess[a * d_ + b] += product[a * d_ + i] / units[a] * (product[b * d_ + i] / units[b]);
                }
            }
            excess[a * d_ + a] -= floor;
        }
        return factorise(excess.data(), d_, 0.0);
    }

    const Columns points_;
    const Index k_, d_;
    const Gaussians<const double> old_;
    std::vector<double> constants_, reciprocals_;  // log joint densities at the means; 1 / diagonals of factors
    std::vector<Pack> sums_;
    std::vector<Block> whitened_, shares_;  // (k, d) and (k,), for the points of a block
};

}  // namespace eim
