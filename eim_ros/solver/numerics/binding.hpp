// Python bindings of mixtures of experts and elementary functions. `binding.cpp` includes this file.
#pragma once

#include "numerics/arrays.hpp"
#include "numerics/chunks.hpp"
#include "numerics/log_density.hpp"

namespace eim {

inline constexpr Index kMostDims = 64;

inline Experts make_experts(const Converted<double>& weights, const Converted<double>& biases,
                            const Converted<double>& scale_trils, int n_reported) {
    expect_shape(weights, "weights", {kAny, kAny, kAny});
    const Index k = weights.shape(0), d = weights.shape(1);
    expect_shape(biases, "biases", {k, d});
    expect_shape(scale_trils, "scale_trils", {k, d, d});
    expect(d <= kMostDims && n_reported >= 1, "experts are of at most 64 dimensions, and at least one is reported");
    return {int(k), int(d), int(weights.shape(2)), n_reported, weights.data(), biases.data(), scale_trils.data()};
}

inline Mixture mixture_of(const Experts& experts, const Converted<double>& log_weights,
                          const Converted<double>& contexts) {
    expect_shape(contexts, "contexts", {kAny, experts.n_context});
    expect_shape(log_weights, "log_weights", {contexts.shape(0) * experts.k});
    return {experts, int(contexts.shape(0)), log_weights.data(), contexts.data()};
}

inline py::tuple draw_samples(const Experts& experts, const Converted<double>& log_weights,
                              const Converted<double>& contexts, int n, double seed) {
    const Mixture mixture = mixture_of(experts, log_weights, contexts);
    expect(n >= 0 && mixture.n_components() > 0, "nothing to draw from");
    Converted<double> samples({Index(n), Index(experts.n_dims)});
    py::array_t<std::uint32_t> sources(n);
    Random random(seed);
    draw(mixture, 1.0, false, n, random, samples.mutable_data(), sources.mutable_data());
    return py::make_tuple(samples, sources);
}

inline Converted<double> log_density(const Experts& experts, const Converted<double>& log_weights,
                                     const Converted<double>& contexts, const Converted<double>& samples) {
    const Mixture mixture = mixture_of(experts, log_weights, contexts);
    expect_shape(samples, "samples", {kAny, experts.n_dims});
    const Index n = samples.shape(0);
    Converted<double> result(n);
    double* out = result.mutable_data();
    Unlocked unlocked;
    const auto run = [&]<int D>() { LogDensity<D>(mixture).run(samples.data(), n, out); };
    experts.n_dims == 7 ? run.operator()<7>() : experts.n_dims == 6 ? run.operator()<6>() : run.operator()<0>();
    return result;
}

// Returns the log densities of samples (n, n_dims) under m mixtures. The first counts[0] samples belong to the first
// mixture, the next counts[1] samples to the second mixture, and so on.
inline Converted<double> log_densities(const Experts& experts, const Converted<double>& log_weights,
                                       const Converted<double>& contexts, const Converted<double>& samples,
                                       const Converted<std::int64_t>& counts, int n_threads) {
    const Index m = counts.size();
    expect_shape(contexts, "contexts", {m, kAny, experts.n_context});
    expect_shape(log_weights, "log_weights", {m, contexts.shape(1) * experts.k});
    std::vector<Index> ends(m);
    std::partial_sum(counts.data(), counts.data() + m, ends.begin());
    expect_shape(samples, "samples", {m ? ends.back() : 0, experts.n_dims});
    expect(n_threads > 0, "at least one thread");
    Converted<double> result(samples.shape(0));
    double* out = result.mutable_data();
    Unlocked unlocked;
    for_chunks(m, 1, n_threads, [&](Index i, Index, Index) {
        const Mixture mixture{experts, int(contexts.shape(1)), log_weights.data() + i * log_weights.shape(1),
                              contexts.data() + i * contexts.shape(1) * experts.n_context};
        const Index n = counts.data()[i], first = ends[i] - n;
        const auto run = [&]<int D>() {
            LogDensity<D>(mixture).run(samples.data() + first * experts.n_dims, n, out + first);
        };
        if (n == 0) return;
        experts.n_dims == 7 ? run.operator()<7>() : experts.n_dims == 6 ? run.operator()<6>() : run.operator()<0>();
    });
    return result;
}

// Returns the log weights of a mixture averaged over contexts. If `separate` is true, returns the log weights of one
// mixture per context instead.
inline Converted<double> gate(const Converted<double>& contexts, const Converted<double>& weights,
                              const Converted<double>& biases, bool separate) {
    expect_shape(contexts, "contexts", {kAny, kAny});
    expect_shape(weights, "weights", {contexts.shape(1), kAny});
    expect_shape(biases, "biases", {weights.shape(1)});
    expect(biases.size() > 0, "a gate needs experts");
    const int n = int(contexts.shape(0)), n_context = int(contexts.shape(1)), k = int(biases.size());
    Converted<double> result({n, k});
    const int n_each = separate ? 1 : n;
    for (Index first = 0; first < n; first += n_each) {
        log_gate(contexts.data() + first * n_context, n_each, n_context, weights.data(), biases.data(), k,
                 result.mutable_data() + first * k);
    }
    return result;
}

// Parts of the solver that are written in Python use these functions, because NumPy's functions differ between
// processors.
inline void bind_portable(py::module_& module) {
    module.def("sin", py::vectorize(portable::sin));
    module.def("cos", py::vectorize(portable::cos));
    module.def("acos", py::vectorize(portable::acos));
    module.def("atan2", py::vectorize(portable::atan2));
    module.def("exp", py::vectorize(portable::exp));
    module.def("log", py::vectorize(portable::log));
}

inline void bind_mixture(py::module_& module) {
    module.def("log_gate", gate, py::arg("contexts"), py::arg("weights"), py::arg("biases"),
               py::arg("separate") = false);
    py::class_<Experts>(module, "Experts", py::module_local())
        .def(py::init(&make_experts))
        .def("draw", draw_samples)
        .def("log_density", log_density)
        .def("log_densities", log_densities);
}

}  // namespace eim
