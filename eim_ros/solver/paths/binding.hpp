// Python bindings for paths through the solutions of successive poses. `binding.cpp` includes this file.
#pragma once

#include "numerics/arrays.hpp"
#include "paths/transitions.hpp"

namespace eim {

using Counts = Converted<std::int64_t>;

inline Transitions transitions_of(const Converted<double>& rows, const Counts& counts, const Converted<bool>& wraps,
                                  const Converted<double>& scale, double largest, const Counts& blocked) {
    expect_shape(rows, "configurations", {kAny, wraps.size()});
    expect_shape(scale, "scales", {counts.size(), wraps.size()});
    expect_shape(blocked, "blocked edges", {kAny, 2});
    std::int64_t sum = 0;
    for (Index i = 0; i < counts.size(); ++i) {
        expect(counts.data()[i] >= 0, "counts cannot be negative");
        sum += counts.data()[i];
    }
    expect(sum == rows.shape(0), "counts must add up to the number of configurations");
    std::vector<Edge> edges;
    for (Index i = 0; i < blocked.shape(0); ++i) edges.emplace_back(blocked.data()[2 * i], blocked.data()[2 * i + 1]);
    return Transitions(rows.data(), counts.data(), counts.size(), wraps.data(), int(wraps.size()), scale.data(),
                       largest, std::move(edges));
}

// Returns the index of the chosen solution of each layer, or -1 for a layer without solutions.
inline py::array_t<std::int64_t> shortest_path(const Converted<double>& rows, const Counts& counts,
                                               const Converted<bool>& wraps, const Converted<double>& scale,
                                               double largest, double penalty, const Counts& blocked) {
    const Transitions graph = transitions_of(rows, counts, wraps, scale, largest, blocked);
    std::vector<std::int64_t> chosen;
    {
        Unlocked unlocked;
        chosen = graph.shortest(penalty);
    }
    return copy_of(chosen, {Index(chosen.size())});
}

// Returns whether each configuration (n,) lies on an allowed path, the number of layers that the path reaches, and the
// least step to the next layer.
inline py::tuple path_reach(const Converted<double>& rows, const Counts& counts, const Converted<bool>& wraps,
                            const Converted<double>& scale, double largest, const Counts& blocked) {
    const Transitions graph = transitions_of(rows, counts, wraps, scale, largest, blocked);
    Transitions::Reach found;
    {
        Unlocked unlocked;
        found = graph.reach();
    }
    const auto* flags = reinterpret_cast<const bool*>(found.is_on_path.data());
    return py::make_tuple(py::array_t<bool>(Index(found.is_on_path.size()), flags), found.n_reached, found.nearest);
}

inline void bind_paths(py::module_& module) {
    module.def("shortest_path", shortest_path);
    module.def("path_reach", path_reach);
}

}  // namespace eim
