// Mixture of linear Gaussian experts for one pose: gating and sampling. Densities are in log_density.hpp.
//
// Component c combines context c // k with expert c modulo k. Expert e is a Gaussian with mean W_e y + b_e and
// covariance L_e L_e'.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "numerics/pack.hpp"
#include "numerics/portable.hpp"
#include "numerics/random.hpp"

namespace eim {

inline constexpr double kNegligible = 36.0;  // [nat]: exp(-36) is about the relative rounding error of a sum

// The experts of a model, prepared for any number of contexts.
struct Experts {
    int k, n_dims, n_context;
    int n_reported;                                    // expert e is reported as index e modulo n_reported
    std::vector<double> weights, biases, scale_trils;  // W (k, d, n_context), b (k, d), L (k, d, d)
    std::vector<double> inverses, log_normalisers;     // L^-1 (k, d, d), log of (2 pi)^(-d/2) / |L| (k,)
    std::vector<double> white_weights, white_biases;   // L^-1 W (n_context, k, d), L^-1 b (k, d)
    std::vector<float> single_inverses;
    std::vector<double> norms;  // (k,) upper bound of |L^-1 x| for all |x_a| <= 1

    Experts(int k, int n_dims, int n_context, int n_reported, const double* weights_, const double* biases_,
            const double* scale_trils_)
        : k(k),
          n_dims(n_dims),
          n_context(n_context),
          n_reported(n_reported),
          weights(weights_, weights_ + std::ptrdiff_t(k) * n_dims * n_context),
          biases(biases_, biases_ + std::ptrdiff_t(k) * n_dims),
          scale_trils(scale_trils_, scale_trils_ + std::ptrdiff_t(k) * n_dims * n_dims),
          inverses(scale_trils.size()),
          log_normalisers(k, -0.5 * n_dims * portable::log(kTwoPi)),
          white_weights(weights.size()),
          white_biases(biases.size()),
          norms(k) {
        for (int e = 0; e < k; ++e) {
            invert(e);
            whiten(e);
        }
        single_inverses.assign(inverses.begin(), inverses.end());
    }

    const double* inverse(int e) const { return inverses.data() + std::ptrdiff_t(e) * n_dims * n_dims; }

   private:
    void invert(int e) {
        const int d = n_dims;
        const double* lower = scale_trils.data() + std::ptrdiff_t(e) * d * d;
        double* result = inverses.data() + std::ptrdiff_t(e) * d * d;
        for (int a = 0; a < d; ++a) {
            log_normalisers[e] -= portable::log(lower[a * d + a]);
            for (int b = 0; b <= a; ++b) {
                double sum = a == b ? 1.0 : 0.0;
                for (int c = b; c < a; ++c) sum -= lower[a * d + c] * result[c * d + b];
                result[a * d + b] = sum / lower[a * d + a];
            }
        }
    }
    void whiten(int e) {
        for (int a = 0; a < n_dims; ++a) {
            const std::ptrdiff_t row = std::ptrdiff_t(e) * n_dims + a;
            double most = 0.0;
            for (int b = 0; b <= a; ++b) {
                const std::ptrdiff_t from = std::ptrdiff_t(e) * n_dims + b;
                const double factor = inverse(e)[a * n_dims + b];
                most += std::abs(factor);
                white_biases[row] += factor * biases[from];
                for (int c = 0; c < n_context; ++c) {
                    white_weights[std::ptrdiff_t(c) * k * n_dims + row] += factor * weights[from * n_context + c];
                }
            }
            norms[e] = portable::hypot(norms[e], most);
        }
    }
};

// Experts for given contexts. The mixture averages over the contexts.
struct Mixture {
    const Experts& experts;
    int n_contexts;
    const double *log_weights, *contexts;  // (n_contexts, k), (n_contexts, n_context)
    int n_components() const { return n_contexts * experts.k; }

    void mean(std::int64_t component, double* result) const {
        const double* context = contexts + component / experts.k * experts.n_context;
        for (int a = 0; a < experts.n_dims; ++a) {
            const std::ptrdiff_t row = std::ptrdiff_t(component % experts.k) * experts.n_dims + a;
            const double* weight = experts.weights.data() + row * experts.n_context;
            result[a] = std::inner_product(weight, weight + experts.n_context, context, experts.biases[row]);
        }
    }
};

// Returns exp(x) for x <= 0 with a relative error of 1e-12, as a polynomial of x / 128 that is squared seven times.
// Returns 0 if the result is negligible compared with 1.
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

// Computes result (n,) = biases + weights^T y for weights (n_context, n).
inline void affine(const double* y, int n_context, const double* weights, const double* biases, std::ptrdiff_t n,
                   double* result) {
    std::copy_n(biases, n, result);
    for (int c = 0; c < n_context; ++c, weights += n) {
        for (std::ptrdiff_t i = 0; i < n; ++i) result[i] += y[c] * weights[i];
    }
}

// Fills result (n_contexts, k) with log softmax(weights y + biases) - log n_contexts for weights (n_context, k).
inline void log_gate(const double* contexts, int n_contexts, int n_context, const double* weights, const double* biases,
                     int k, double* result) {
    std::vector<double> terms(k);
    for (int i = 0; i < n_contexts; ++i, result += k) {
        affine(contexts + i * n_context, n_context, weights, biases, k, result);
        const double largest = *std::max_element(result, result + k);
        std::copy_n(result, k, terms.data());
        exponentiate(terms.data(), k, largest, 1.0);
        const double shift = largest + portable::log(std::accumulate(terms.begin(), terms.end(), 0.0) * n_contexts);
        for (int e = 0; e < k; ++e) result[e] -= shift;
    }
}

inline constexpr double kGoldenRatio = 0.6180339887498949;

// Fills samples (n, d), and sources (n,) with the reported indices of their experts. Experts are drawn independently or
// evenly, with probabilities proportional to exp(tempering log_weight). Only the drawn experts are evaluated.
//
// For even draws, the numbers that select experts are a Kronecker sequence with the golden ratio and a random start.
// Even the first numbers of this sequence are spread evenly. The counts of experts therefore deviate less from the
// weights than for independent draws.
inline void draw(const Mixture& mixture, double tempering, bool evenly, int n, Random& random, double* samples,
                 std::uint32_t* sources) {
    const Experts& experts = mixture.experts;
    const int n_components = mixture.n_components(), d = experts.n_dims;
    std::vector<double> cumulative(mixture.log_weights, mixture.log_weights + n_components), noise(d);
    exponentiate(cumulative.data(), n_components, *std::max_element(cumulative.begin(), cumulative.end()), tempering);
    std::partial_sum(cumulative.begin(), cumulative.end(), cumulative.begin());
    double share = 0.0;
    for (int i = 0; i < n; ++i, samples += d) {
        share = evenly && i > 0 ? std::fmod(share + kGoldenRatio, 1.0) : random.uniform();
        const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), share * cumulative.back());
        const std::ptrdiff_t c = std::min<std::ptrdiff_t>(found - cumulative.begin(), n_components - 1);
        mixture.mean(c, samples);
        random.fill_normal(noise.data(), d);
        const double* row = experts.scale_trils.data() + c % experts.k * d * d;
        for (int a = 0; a < d; ++a, row += d) {
            samples[a] = std::inner_product(row, row + a + 1, noise.data(), samples[a]);
        }
        sources[i] = std::uint32_t(c % experts.k % experts.n_reported);
    }
}

}  // namespace eim
