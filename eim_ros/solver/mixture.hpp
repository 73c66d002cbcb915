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

inline constexpr double kNegligible = 36.0;  // [nat]: exp(-36) of a sum is about its rounding

struct Mixture {
    int n_contexts, n_context, n_experts, n_dims;
    int n_reported;                                       // expert c is reported as number c modulo n_reported
    const double *log_weights, *contexts;                 // (n_contexts, n_experts), (n_contexts, n_context)
    const double *weights, *biases, *scale_trils;         // (n_experts, n_dims, n_context), ... (n_dims, n_dims)
    const double *inverse_scale_trils, *log_normalisers;  // (n_experts, n_dims, n_dims), (n_experts,)
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

// Log density of samples under a mixture, summed over all components that matter: exact to rounding.
//
// Samples are taken W to a pack. Half of the coordinates tell where a component is negligible beside what a sample has;
// of the others the terms are kept, and summed when the largest of each sample is known.
template <int D>
class LogDensity {
    using V = WideDouble;
    static constexpr int W = kLanes<V>, kPacks = 512 / W;  // samples taken together

   public:
    explicit LogDensity(const Mixture& mixture) : mixture_(mixture), d_(D > 0 ? D : mixture.n_dims) {
        for (int c = 0; c < mixture.n_components(); ++c) {
            heights_.push_back(mixture.log_weights[c] + mixture.log_normalisers[c % mixture.n_experts]);
        }
        order_.resize(heights_.size());
        std::iota(order_.begin(), order_.end(), 0);
        const std::size_t few =
            std::min<std::size_t>(order_.size(), 32);  // highest first: they tell what is negligible
        std::partial_sort(order_.begin(), order_.begin() + few, order_.end(),
                          [&](int a, int b) { return heights_[a] > heights_[b]; });
    }

    // Fills result (n,) [nat] of samples (n, d).
    void run(const double* samples, std::ptrdiff_t n, double* result) {
        for (std::ptrdiff_t first = 0; first < n; first += kPacks * W) {
            const int n_here = int(std::min<std::ptrdiff_t>(kPacks * W, n - first));
            run_packs(samples + first * d_, n_here, result + first);
        }
    }

   private:
    struct Term {
        int pack;
        V value;
    };

    void run_packs(const double* samples, int n, double* result) {
        const int n_packs = (n + W - 1) / W, d = D > 0 ? D : d_;
        columns_.resize(std::size_t(n_packs) * d), terms_.clear();
        largest_.assign(n_packs, fill<V>(-std::numeric_limits<double>::infinity()));
        totals_.assign(n_packs, V{});
        for (int i = 0; i < n_packs * W; ++i) {
            for (int a = 0; a < d; ++a) set(columns_[i / W * d + a], i % W, samples[std::min(i, n - 1) * d_ + a]);
        }
        for (int c : order_) keep_terms(c, n_packs);
        for (const Term& term : terms_) totals_[term.pack] += falling_exp(term.value - largest_[term.pack]);
        for (int i = 0; i < n; ++i) {
            double sum = 0.0;  // a sample that is no number has no density, whatever its neighbours
            for (int a = 0; a < d; ++a) sum += samples[i * d_ + a];
            const double log_prob = get(largest_[i / W], i % W) + std::log(get(totals_[i / W], i % W));
            result[i] = sum == sum ? log_prob : sum;
        }
    }

    void keep_terms(int component, int n_packs) {
        const int d = D > 0 ? D : d_, half = (d + 1) / 2, expert = component % mixture_.n_experts;
        const double* inverse = mixture_.inverse_scale_trils + std::ptrdiff_t(expert) * d * d;
        double mean[kMostJoints];
        V factor[D > 0 ? D * D : 1], shift[D > 0 ? D : kMostJoints];  // of all lanes: they stay in registers
        mixture_.mean(component / mixture_.n_experts, expert, mean);
        for (int a = 0; a < d; ++a) {
            double sum = 0.0;
            for (int b = 0; b <= a; ++b) {
                sum += inverse[a * d + b] * mean[b];
                if constexpr (D > 0) factor[a * D + b] = fill<V>(inverse[a * d + b]);
            }
            shift[a] = fill<V>(-sum);
        }
        for (int pack = 0; pack < n_packs; ++pack) {
            const V* x = &columns_[std::size_t(pack) * d];
            V square{};
            const auto add = [&](int a) {
                V white = shift[a];
#pragma GCC unroll 8
                for (int b = 0; b <= a; ++b) {
                    if constexpr (D > 0) {
                        white += factor[a * D + b] * x[b];
                    } else {
                        white += inverse[a * d + b] * x[b];
                    }
                }
                square += white * white;
            };
            const V bound = 2.0 * (heights_[component] + kNegligible - largest_[pack]);
#pragma GCC unroll 4
            for (int a = 0; a < half; ++a) add(a);
            if (!any(square < bound)) continue;
#pragma GCC unroll 4
            for (int a = half; a < d; ++a) add(a);
            if (!any(square < bound)) continue;
            const V value = heights_[component] - 0.5 * square;
            largest_[pack] = larger(largest_[pack], value);
            terms_.push_back({pack, value});
        }
    }

    const Mixture& mixture_;
    const int d_;
    std::vector<double> heights_;  // of each component: log weight and log normaliser
    std::vector<int> order_;       // of components
    std::vector<V> columns_, largest_, totals_;
    std::vector<Term> terms_;
};

}  // namespace eim
