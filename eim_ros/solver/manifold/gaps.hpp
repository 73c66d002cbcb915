// Configurations between the places of a trace. Between two successive places, the self-motion is close to the cubic
// through both places with the tangents there (Hermite).
#pragma once

#include "manifold/continuation.hpp"

namespace eim {

inline constexpr double kMargin = 1.1;  // neighbours differ by at least this multiple of `finest`

// Returns configurations within the limits that divide the steps of a trace evenly. Neighbours differ by more than
// `finest` in at least one joint. At most n_wanted configurations are returned.
inline Configurations between(const Bounds<double>& bounds, Trace& trace, double finest, int n_wanted) {
    const int n_places = trace.size(), n_joints = trace.places.n_joints;
    std::vector<int> parts(n_places, 1);
    std::vector<double> sign(n_places, 1.0), x(n_joints);
    Configurations seeds{n_joints}, chosen{n_joints};
    const auto chord = [&](int i, int j) {
        return difference(trace.place(i)[j], trace.place(trace.parents[i])[j], bounds.wraps[j]);
    };
    double per_part = 0.0;  // number of seeds per additional part; steps with one end inside the limits count half
    for (int i = 0; i < n_places; ++i) {
        const int parent = trace.parents[i];
        if (parent == Trace::kNone) continue;
        const int n_inside =
            is_inside(bounds, trace.place(i), n_joints) + is_inside(bounds, trace.place(parent), n_joints);
        if (n_inside == 0) continue;
        per_part += 0.5 * n_inside;
        double largest = 0.0, along = 0.0;
        for (int j = 0; j < n_joints; ++j) {
            largest = std::max(largest, std::abs(chord(i, j))), along += chord(i, j) * trace.tangent(parent)[j];
        }
        sign[i] = along >= 0.0 ? 1.0 : -1.0;  // branches leave a root in two directions
        parts[i] = static_cast<int>(std::clamp(largest / (kMargin * finest), 1.0, n_wanted + 1.0));
    }
    const int most = *std::max_element(parts.begin(), parts.end());
    for (int divisor = 1; seeds.size() < n_wanted && divisor < most;) {
        divisor = std::max(divisor + 1, int(std::min(1.0 + std::ceil(n_wanted / per_part), double(most))));
        seeds.positions.clear();
        for (int i = 0; i < n_places; ++i) {
            const int parent = trace.parents[i], n_parts = std::min(parts[i], divisor);
            for (int part = 1; part < n_parts; ++part) {
                const double s = double(part) / n_parts;
                bool inside = true;
                for (int j = 0; j < n_joints; ++j) {
                    const double bow = (1.0 - s) * sign[i] * trace.tangent(parent)[j] - s * trace.tangent(i)[j];
                    x[j] = trace.place(parent)[j] + s * (s * (3.0 - 2.0 * s) * chord(i, j) + (1.0 - s) * bow);
                    inside &= bounds.wraps[j] || (x[j] >= bounds.lower[j] && x[j] <= bounds.upper[j]);
                }
                if (inside) seeds.add(x.data());
            }
        }
        per_part = double(std::max<Index>(seeds.size(), 1)) / divisor;
    }
    const double share = std::min(1.0, n_wanted / double(std::max<Index>(seeds.size(), 1)));
    for (Index i = 0; i < seeds.size(); ++i) {
        if (Index(double(i + 1) * share) > Index(double(i) * share)) chosen.add(seeds.row(i));
    }
    return chosen;
}

}  // namespace eim
