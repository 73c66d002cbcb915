// The mixture of linear Gaussian experts for one pose: draws and densities.
//
// Component c is a pair of a context and an expert: context c // n_experts and expert c modulo n_experts. An expert is
// normal with mean weights y + bias and a Cholesky factor of the covariance.
#pragma once

#include <numeric>
#include <vector>

#include "random.hpp"
#include "task.hpp"

namespace eim {

inline constexpr double kNegligible = 40.0;  // [nat]: exp(-40) of a sum is below its rounding

struct Mixture {
    int n_contexts, n_context, n_experts, n_dims;
    const double *log_weights, *contexts;                  // (n_contexts, n_experts), (n_contexts, n_context)
    const double *weights, *biases, *scale_trils;          // (n_experts, n_dims, n_context), ... (n_dims, n_dims)
    const double *inverse_scale_trils, *log_normalisers;   // (n_experts, n_dims, n_dims), (n_experts,)
    int n_components() const { return n_contexts * n_experts; }

    void mean(int context, int expert, double* result) const {
        for (int a = 0; a < n_dims; ++a) {
            const double* row = weights + (std::ptrdiff_t(expert) * n_dims + a) * n_context;
            result[a] = biases[std::ptrdiff_t(expert) * n_dims + a];
            for (int b = 0; b < n_context; ++b) result[a] += row[b] * contexts[context * n_context + b];
        }
    }
};

// exp(x) of x <= 0 within 1e-12 of itself, 0 where that is negligible beside 1: a polynomial for x / 128, squared seven
// times.
template <class V>
inline V falling_exp(V x) {
    const V y = larger(x, fill<V>(-kNegligible)) * (1.0 / 128.0);
    V p = 1.0 + y * (1.0 / 9) * (1.0 + y * (1.0 / 10) * (1.0 + y * (1.0 / 11)));
    p = 1.0 + y * (1.0 / 6) * (1.0 + y * (1.0 / 7) * (1.0 + y * (1.0 / 8) * p));
    p = 1.0 + y * (1.0 / 3) * (1.0 + y * (1.0 / 4) * (1.0 + y * (1.0 / 5) * p));
    p = 1.0 + y * (1.0 + y * (1.0 / 2) * p);
    for (int i = 0; i < 7; ++i) p *= p;
    return x > -kNegligible ? p : V{};
}

inline void exponentiate(double* values, int n, double shift, double scale) {
    int i = 0;
    for (; i + kLanes<WideDouble> <= n; i += kLanes<WideDouble>) {
        WideDouble x;
        std::memcpy(&x, values + i, sizeof(x));
        x = falling_exp(scale * (x - shift));
        std::memcpy(values + i, &x, sizeof(x));
    }
    for (; i < n; ++i) values[i] = falling_exp(scale * (values[i] - shift));
}

// Fills result (n_contexts, k) with log softmax(weights y + biases) - log n_contexts, of weights (n_context, k).
inline void log_gate(const double* contexts, int n_contexts, int n_context, const double* weights, const double* biases,
                     int k, double* result) {
    std::vector<double> terms(k);
    for (int i = 0; i < n_contexts; ++i, result += k) {
        std::copy_n(biases, k, result);
        for (int b = 0; b < n_context; ++b) {
            const double y = contexts[i * n_context + b];
            const double* row = weights + std::ptrdiff_t(b) * k;
            for (int e = 0; e < k; ++e) result[e] += y * row[e];
        }
        const double largest = *std::max_element(result, result + k);
        std::copy_n(result, k, terms.data());
        exponentiate(terms.data(), k, largest, 1.0);
        const double shift = largest + std::log(std::accumulate(terms.begin(), terms.end(), 0.0) * n_contexts);
        for (int e = 0; e < k; ++e) result[e] -= shift;
    }
}

// Fills samples (n, n_dims) and components (n,), drawn with weights in proportion to exp(tempering log_weight).
//
// Stratified, they are spread evenly over the weights. Only experts that are drawn are looked at.
inline void draw(const Mixture& mixture, double tempering, bool stratified, int n, Random& random, double* samples,
                 std::int64_t* components) {
    const int n_components = mixture.n_components(), d = mixture.n_dims;
    std::vector<double> cumulative(mixture.log_weights, mixture.log_weights + n_components), noise(d);
    exponentiate(cumulative.data(), n_components, *std::max_element(cumulative.begin(), cumulative.end()), tempering);
    std::partial_sum(cumulative.begin(), cumulative.end(), cumulative.begin());
    for (int i = 0; i < n; ++i, samples += d) {
        const double share = stratified ? (i + random.uniform()) / n : random.uniform();
        const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), share * cumulative.back());
        components[i] = std::min<std::ptrdiff_t>(found - cumulative.begin(), n_components - 1);
        const int context = int(components[i] / mixture.n_experts), expert = int(components[i] % mixture.n_experts);
        mixture.mean(context, expert, samples);
        random.fill_normal(noise.data(), d);
        const double* row = mixture.scale_trils + std::ptrdiff_t(expert) * d * d;
        for (int a = 0; a < d; ++a, row += d) {
            for (int b = 0; b <= a; ++b) samples[a] += row[b] * noise[b];
        }
    }
}

// Log density of samples, W to a pack, summed over experts that matter to any of them.
class LogDensity {
    using V = WideDouble;
    static constexpr int W = kLanes<V>;

   public:
    LogDensity(const Mixture& mixture, const double* samples, std::ptrdiff_t n)
        : mixture_(mixture), d_(mixture.n_dims), n_(n), columns_(((n + W - 1) / W) * d_),
          largest_((n + W - 1) / W, fill<V>(-std::numeric_limits<double>::infinity())), total_(largest_.size()) {
        for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(largest_.size()) * W; ++i) {
            for (int a = 0; a < d_; ++a) set(columns_[i / W * d_ + a], int(i % W), samples[std::min(i, n - 1) * d_ + a]);
        }
    }

    // Fills result (n,) [nat], exact to rounding.
    //
    // Experts are taken by their greatest height, log weight and normaliser, in falling order: once that is negligible at
    // all samples, later ones are.
    void run(double* result) {
        const int k = mixture_.n_experts;
        std::vector<double> heights(mixture_.log_weights, mixture_.log_weights + mixture_.n_components()), top(k);
        std::vector<int> order(k);
        std::iota(order.begin(), order.end(), 0);
        for (int c = 0; c < int(heights.size()); ++c) heights[c] += mixture_.log_normalisers[c % k];
        for (int e = 0; e < k; ++e) {
            top[e] = heights[e];
            for (int c = e; c < int(heights.size()); c += k) top[e] = std::max(top[e], heights[c]);
        }
        std::sort(order.begin(), order.end(), [&](int a, int b) { return top[a] > top[b]; });
        for (int i = 0; i < k && (i % 16 != 0 || top[order[i]] > least() - kNegligible); ++i) {
            for (int c = order[i]; c < int(heights.size()); c += k) add(c / k, order[i], heights[c]);
        }
        for (std::ptrdiff_t i = 0; i < n_; ++i) {
            result[i] = get(largest_[i / W], int(i % W)) + std::log(get(total_[i / W], int(i % W)));
        }
    }

   private:
    double least() const {
        double least = std::numeric_limits<double>::infinity();
        for (std::ptrdiff_t i = 0; i < n_; ++i) least = std::min(least, get(largest_[i / W], int(i % W)));
        return least;
    }

    // One component, to all samples: half its rows tell where it is negligible.
    void add(int context, int expert, double height) {
        const double* inverse = mixture_.inverse_scale_trils + std::ptrdiff_t(expert) * d_ * d_;
        double mean[kMostJoints], shift[kMostJoints] = {};
        mixture_.mean(context, expert, mean);
        for (int a = 0; a < d_; ++a) {
            for (int b = 0; b <= a; ++b) shift[a] += inverse[a * d_ + b] * mean[b];
        }
        const int half = (d_ + 1) / 2;
        for (std::size_t pack = 0; pack < largest_.size(); ++pack) {
            const V* x = &columns_[pack * d_];
            V value = fill<V>(height);
            const auto subtract = [&](int first, int last) {
                for (int a = first; a < last; ++a) {
                    V white = fill<V>(-shift[a]);
                    for (int b = 0; b <= a; ++b) white += inverse[a * d_ + b] * x[b];
                    value -= 0.5 * white * white;
                }
            };
            subtract(0, half);
            const V bound = largest_[pack] - kNegligible;
            if (!any(value > bound)) continue;
            subtract(half, d_);
            if (!any(value > bound)) continue;
            const V peak = larger(largest_[pack], value);
            total_[pack] = total_[pack] * falling_exp(largest_[pack] - peak) + falling_exp(value - peak);
            largest_[pack] = peak;
        }
    }

    const Mixture& mixture_;
    const int d_;
    const std::ptrdiff_t n_;
    std::vector<V> columns_, largest_, total_;
};

}  // namespace eim
