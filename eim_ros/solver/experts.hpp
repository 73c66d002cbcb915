// The experts of a model as Python holds them: prepared once, given a pose many times.
#pragma once

#include "arrays.hpp"
#include "mixture.hpp"

namespace eim {

// Experts of a mixture, prepared.
struct Experts {
    Doubles weights, biases, scale_trils;  // (k, d, n_context), (k, d), (k, d, d)
    int n_reported;
    std::vector<double> inverse_scale_trils, log_normalisers;

    Experts(Doubles weights_, Doubles biases_, Doubles scale_trils_, int n_reported)
        : weights(std::move(weights_)),
          biases(std::move(biases_)),
          scale_trils(std::move(scale_trils_)),
          n_reported(n_reported) {
        expect(weights.ndim() == 3 && biases.ndim() == 2 && scale_trils.ndim() == 3,
               "experts need (k, d, n_context), (k, d), (k, d, d)");
        const py::ssize_t k = weights.shape(0), d = weights.shape(1);
        expect(biases.shape(0) == k && biases.shape(1) == d && scale_trils.shape(0) == k && scale_trils.shape(1) == d &&
                   scale_trils.shape(2) == d && d <= kMostJoints && n_reported >= 1,
               "experts' arrays disagree");
        inverse_scale_trils.resize(k * d * d), log_normalisers.resize(k);
        for (py::ssize_t e = 0; e < k; ++e) {
            const double* lower = scale_trils.data() + e * d * d;
            double* inverse = inverse_scale_trils.data() + e * d * d;
            log_normalisers[e] = -0.5 * double(d) * std::log(kTwoPi);
            for (py::ssize_t a = 0; a < d; ++a) {
                log_normalisers[e] -= std::log(lower[a * d + a]);
                for (py::ssize_t b = 0; b <= a; ++b) {
                    double sum = a == b ? 1.0 : 0.0;
                    for (py::ssize_t c = b; c < a; ++c) sum -= lower[a * d + c] * inverse[c * d + b];
                    inverse[a * d + b] = sum / lower[a * d + a];
                }
            }
        }
    }

    Mixture given(const Doubles& log_weights, const Doubles& contexts) const {
        const py::ssize_t k = weights.shape(0), n = contexts.ndim() == 2 ? contexts.shape(0) : -1;
        expect(n >= 0 && contexts.shape(1) == weights.shape(2) && log_weights.size() == n * k,
               "contexts and weights disagree");
        return {int(n),
                int(weights.shape(2)),
                int(k),
                int(weights.shape(1)),
                n_reported,
                log_weights.data(),
                contexts.data(),
                weights.data(),
                biases.data(),
                scale_trils.data(),
                inverse_scale_trils.data(),
                log_normalisers.data()};
    }
};

inline py::tuple draw_samples(const Experts& experts, const Doubles& log_weights, const Doubles& contexts, int n,
                              double seed) {
    const Mixture mixture = experts.given(log_weights, contexts);
    expect(n >= 0 && mixture.n_components() > 0, "nothing to draw from");
    Doubles samples({py::ssize_t(n), py::ssize_t(mixture.n_dims)});
    std::vector<std::int64_t> components(n);
    Random random(seed);
    draw(mixture, 1.0, false, n, random, samples.mutable_data(), components.data());
    std::vector<std::uint32_t> from(components.size());
    for (int i = 0; i < n; ++i) from[i] = std::uint32_t(components[i] % experts.n_reported);
    return py::make_tuple(samples, copy_of(from, {py::ssize_t(n)}));
}

inline Doubles log_density(const Experts& experts, const Doubles& log_weights, const Doubles& contexts,
                           const Doubles& samples) {
    const Mixture mixture = experts.given(log_weights, contexts);
    const py::ssize_t n = n_rows(samples, mixture.n_dims, "samples need one column for each dimension");
    Doubles result(n);
    double* out = result.mutable_data();
    Unlocked unlocked;
    const auto run = [&]<int D>() { LogDensity<D>(mixture).run(samples.data(), n, out); };
    mixture.n_dims == 7 ? run.operator()<7>() : mixture.n_dims == 6 ? run.operator()<6>() : run.operator()<0>();
    return result;
}

inline Doubles gate(const Doubles& contexts, const Doubles& weights, const Doubles& biases) {
    expect(contexts.ndim() == 2 && weights.ndim() == 2 && weights.shape(0) == contexts.shape(1) &&
               weights.shape(1) == biases.size() && biases.size() > 0,
           "a gate needs (n, n_context), (n_context, k), (k,)");
    Doubles result({contexts.shape(0), biases.size()});
    log_gate(contexts.data(), int(contexts.shape(0)), int(contexts.shape(1)), weights.data(), biases.data(),
             int(biases.size()), result.mutable_data());
    return result;
}

}  // namespace eim
