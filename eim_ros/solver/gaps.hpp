// Configurations between the places of a trace: the cubic through two of them along their tangents (Hermite) is close
// to the curve.
#pragma once

#include "continuation.hpp"

namespace eim {

inline constexpr double kMargin = 1.1;  // by which configurations between differ more than solutions have to

// Configurations (n, n_joints) within the limits that divide the steps of a trace evenly, n_wanted of them, or as many
// as differ by more than `finest` in some joint.
inline std::vector<double> between(const Bounds<double>& bounds, Trace& trace, double finest, int n_wanted) {
    const int n_places = trace.size(), n_joints = trace.n_joints;
    std::vector<int> parts(n_places, 1);
    std::vector<double> sign(n_places, 1.0), seeds;
    const auto chord = [&](int i, int j) {
        return difference(trace.place(i)[j], trace.place(trace.parents[i])[j], bounds.wraps[j]);
    };
    int most = 1;
    double length = 0.0;  // steps inside the limits, those that cross one counted half
    for (int i = 0; i < n_places; ++i) {
        const int parent = trace.parents[i];
        if (parent == Trace::kNone) continue;
        const int n_inside =
            is_inside(bounds, trace.place(i), n_joints) + is_inside(bounds, trace.place(parent), n_joints);
        if (n_inside == 0) continue;
        double largest = 0.0, along = 0.0;
        for (int j = 0; j < n_joints; ++j) {
            largest = std::max(largest, std::abs(chord(i, j))), along += chord(i, j) * trace.tangent(parent)[j];
        }
        sign[i] = along >= 0.0 ? 1.0 : -1.0;  // from a root walks went both ways
        parts[i] = static_cast<int>(std::clamp(largest / (kMargin * finest), 1.0, n_wanted + 1.0));
        most = std::max(most, parts[i]), length += 0.5 * n_inside;
    }
    std::vector<double> seed(n_joints);
    int n_seeds = 0;
    for (int divisor = 1; n_seeds < n_wanted && divisor < std::min(most, n_wanted + 1);) {
        const double scale = divisor == 1 ? 1.0 / length : double(divisor) / std::max(n_seeds, 1);
        divisor = std::max(divisor + 1, std::min({1 + int(std::ceil(scale * n_wanted)), most, n_wanted + 1}));
        seeds.clear();
        for (int i = 0; i < n_places; ++i) {
            const int parent = trace.parents[i], n_parts = std::min(parts[i], divisor);
            for (int part = 1; part < n_parts; ++part) {
                const double s = double(part) / n_parts;
                bool inside = true;
                for (int j = 0; j < n_joints; ++j) {
                    const double bow = (1.0 - s) * sign[i] * trace.tangent(parent)[j] - s * trace.tangent(i)[j];
                    const double x = trace.place(parent)[j] + s * (s * (3.0 - 2.0 * s) * chord(i, j) + (1.0 - s) * bow);
                    inside &= bounds.wraps[j] || (x >= bounds.lower[j] && x <= bounds.upper[j]);
                    seed[j] = x;
                }
                if (inside) seeds.insert(seeds.end(), seed.begin(), seed.end());
            }
        }
        n_seeds = static_cast<int>(seeds.size() / n_joints);
    }
    const double share = std::min(1.0, double(n_wanted) / std::max(n_seeds, 1));
    int n_chosen = 0;
    for (int i = 0; i < n_seeds; ++i) {
        if (int((i + 1) * share) > int(i * share)) {
            std::copy_n(seeds.data() + std::ptrdiff_t(i) * n_joints, n_joints,
                        seeds.data() + std::ptrdiff_t(n_chosen++) * n_joints);
        }
    }
    seeds.resize(std::size_t(n_chosen) * n_joints);
    return seeds;
}

}  // namespace eim
