// Sums over tables of probabilities: the Lagrangian of a softmax gating with its gradient, and moments of a tilted
// table. Each row of a table belongs to a context, and sums to one over the components.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "exponential.hpp"
#include "numerics/portable.hpp"
#include "quadratic_forms.hpp"

namespace eim {

inline constexpr double kLeastLog = -700.0;  // [nat], least log probability; its exp is a normal number

// The logits of a row, their softmax, and the log of the sum of their exponentials.
struct SoftmaxRow {
    Index n;
    PackedRows rows;  // logits, probabilities
    double log_sum = 0.0;

    explicit SoftmaxRow(Index n) : n(n), rows(2, n) {}
    double* logits() { return rows.numbers(0); }
    const Pack* logit_packs() const { return rows.row(0); }
    const Pack* probabilities() const { return rows.row(1); }

    // Computes the probabilities from the logits. The padding gets probability zero.
    void normalise() {
        const double largest = *std::max_element(logits(), logits() + n);
        Pack *probability = rows.row(1), total{};
        for (Index i = 0; i < rows.n_packs; ++i)
            probability[i] = exponential(larger(rows.row(0)[i] - largest, fill<Pack>(kLeastLog)));
        std::fill(rows.numbers(1) + n, rows.numbers(1) + rows.n_packs * kLanes<Pack>, 0.0);
        for (Index i = 0; i < rows.n_packs; ++i) total += probability[i];
        const double scale = 1.0 / sum(total);
        for (Index i = 0; i < rows.n_packs; ++i) probability[i] *= scale;
        log_sum = largest - portable::log(scale);
    }
};

// Returns the mean over rows of sum_z q(z) (fixed(z) - slope log q(z)), where log q = log softmax(design parameters').
// Fills the gradient of this mean with respect to the parameters (k, p). `design` is (n, p), and `fixed` is (n, k).
inline double softmax_lagrangian(const double* design, Index n, Index p, const double* parameters, Index k,
                                 const double* fixed, double slope, double* gradient) {
    SoftmaxRow row(k);
    PackedRows columns(p, k), sums(p, k), given(1, k);
    for (Index j = 0; j < p; ++j) {
        for (Index z = 0; z < k; ++z) columns.numbers(j)[z] = parameters[z * p + j];
    }
    double total = 0.0;
    for (Index i = 0; i < n; ++i, design += p, fixed += k) {
        Pack* logits = row.rows.row(0);
        std::fill_n(logits, row.rows.n_packs, Pack{});
        for (Index j = 0; j < p; ++j) {
            for (Index m = 0; m < row.rows.n_packs; ++m) logits[m] += design[j] * columns.row(j)[m];
        }
        row.normalise();
        std::copy_n(fixed, k, given.numbers(0));
        const Pack* probabilities = row.probabilities();
        Pack *values = given.row(0), mean_pack{};
        for (Index m = 0; m < row.rows.n_packs; ++m) {
            values[m] -= slope * (logits[m] - row.log_sum);
            mean_pack += probabilities[m] * values[m];
        }
        const double mean = sum(mean_pack);
        total += mean;
        for (Index m = 0; m < row.rows.n_packs; ++m) values[m] = probabilities[m] * (values[m] - mean);
        for (Index j = 0; j < p; ++j) {
            for (Index m = 0; m < row.rows.n_packs; ++m) sums.row(j)[m] += design[j] * values[m];
        }
    }
    for (Index j = 0; j < p; ++j) {
        for (Index z = 0; z < k; ++z) gradient[z * p + j] = sums.numbers(j)[z] / double(n);
    }
    return total / double(n);
}

// Moments of a tilted table q ~ exp(value), value = (a old + reward) / s, averaged over its rows.
struct TiltedMoments {
    double entropy = 0.0, cross_entropy = 0.0;                          // entropy of q, and -E_q[old] [nat]
    double value_variance = 0.0, covariance = 0.0, old_variance = 0.0;  // of value and old under q
};

// The tables `old` and `reward` are (n, k) and finite.
inline TiltedMoments tilted_moments(const double* old, const double* reward, Index n, Index k, double a, double s) {
    SoftmaxRow row(k);
    PackedRows olds(1, k);
    TiltedMoments result;
    const double by_s = 1.0 / s;
    for (Index i = 0; i < n; ++i, old += k, reward += k) {
        std::copy_n(old, k, olds.numbers(0));
        for (Index z = 0; z < k; ++z) row.logits()[z] = (reward[z] + a * old[z]) * by_s;
        row.normalise();
        const Pack *q = row.probabilities(), *value = row.logit_packs(), *given = olds.row(0);
        Pack sums[2] = {};
        for (Index m = 0; m < row.rows.n_packs; ++m) sums[0] += q[m] * value[m], sums[1] += q[m] * given[m];
        const double mean_value = sum(sums[0]), mean_old = sum(sums[1]);
        Pack squares[3] = {};
        for (Index m = 0; m < row.rows.n_packs; ++m) {
            const Pack of_value = value[m] - mean_value, of_old = given[m] - mean_old;
            squares[0] += q[m] * of_value * of_value;
            squares[1] += q[m] * of_value * of_old;
            squares[2] += q[m] * of_old * of_old;
        }
        result.entropy += row.log_sum - mean_value;
        result.cross_entropy -= mean_old;
        result.value_variance += sum(squares[0]);
        result.covariance += sum(squares[1]);
        result.old_variance += sum(squares[2]);
    }
    for (double* total :
         {&result.entropy, &result.cross_entropy, &result.value_variance, &result.covariance, &result.old_variance}) {
        *total /= double(n);
    }
    return result;
}

}  // namespace eim
