// Search for the parts of a segment of a solution curve that are within the joint limits.
//
// On a segment, each joint is a cubic polynomial. Between two successive extremes, the joint can cross a limit only
// once. The search therefore finds even very short pieces.
#pragma once

#include "manifold/curve_graph.hpp"

namespace eim {

inline constexpr double kShortestPiece = 1e-6;  // as a share of a segment; shorter pieces are rounding errors

// Tolerances at limits [rad, m]. The defaults are for traced curves.
struct LimitTolerances {
    double on_limit = 1.5e-4;  // distance allowed beyond a limit: three times the error of places
    double touch = 3e-4;       // distance from a limit at which an extreme of a joint may be on it
    double constant = 0.0;     // range below which a joint counts as constant
    double at_limit = 0.0;     // distance allowed beyond a limit for a constant joint
    double level = 0.0;        // the end of a segment is an extreme of a joint if its slope is smaller
};
inline constexpr LimitTolerances kExactCuts{1e-6, 3e-6, 1e-9, 1e-6, 1e-3};  // for curves in closed form

// Returns bounds of joint j along a segment, which are the range of its Bezier control points.
inline std::pair<double, double> extent(const Segment& part, int j) {
    const double a = part.start[j], b = a + part.ahead[j] / 3.0, d = a + part.chord[j], c = d - part.behind[j] / 3.0;
    return {std::min(std::min(a, b), std::min(c, d)), std::max(std::max(a, b), std::max(c, d))};
}

// Adds the parameters at which joint j of a segment has the given value, by bisection between the extremes of the
// cubic. Returns whether the segment touches the value: an extreme, or the range between two extremes, equals it up to
// rounding.
inline bool add_crossings(const Segment& part, int j, double value, const LimitTolerances& tolerances,
                          std::vector<double>& cuts) {
    double at[4];
    const int n = part.extremes(j, at);
    bool touches = false, is_before = false;  // is_before: whether the previous extreme equals the value
    for (int i = 0; i < n; ++i) {
        const bool is_at = std::abs(part.at(j, at[i]) - value) <= tolerances.touch;
        const bool is_inside = i > 0 && i + 1 < n;
        const double slope = i == 0 ? part.ahead[j] : part.behind[j];  // an extreme at an end may belong to the curve
        touches |= is_at && (is_before || is_inside || std::abs(slope) < tolerances.level * part.length);
        is_before = is_at;
    }
    for (int i = 0; i + 1 < n; ++i) {
        double low = at[i], high = at[i + 1];
        const bool is_below = part.at(j, low) < value;
        if ((part.at(j, high) < value) == is_below) continue;
        for (int halving = 0; halving < 40; ++halving) {
            const double middle = 0.5 * (low + high);
            ((part.at(j, middle) < value) == is_below ? low : high) = middle;
        }
        cuts.push_back(0.5 * (low + high));
    }
    return touches;
}

// Whether all joints of a segment stay farther from their limits than a distance. Limits do not cut the segment in this
// case.
inline bool is_well_within(const Bounds<double>& limits, const Segment& part, const double* shift, double distance) {
    for (int j = 0; j < part.n_joints; ++j) {
        if (limits.wraps[j]) continue;
        const auto [low, high] = extent(part, j);
        const bool is_inside =
            low + shift[j] > limits.lower[j] + distance && high + shift[j] < limits.upper[j] - distance;
        if (!is_inside) return false;
    }
    return true;
}

// Returns the ranges of a segment that are within the limits after its joints are shifted. `touches` becomes true if
// the segment only touches a limit, or runs along it.
inline std::vector<std::pair<double, double>> shares_within(const Bounds<double>& limits, const Segment& part,
                                                            const double* shift, const LimitTolerances& tolerances,
                                                            bool& touches) {
    if (is_well_within(limits, part, shift, tolerances.touch)) return {{0.0, 1.0}};
    double lower[kMostJoints], upper[kMostJoints];
    std::vector<double> cuts{0.0};
    for (int j = 0; j < part.n_joints; ++j) {
        if (limits.wraps[j] || limits.lower[j] == limits.upper[j]) {
            lower[j] = limits.lower[j] - shift[j] - tolerances.on_limit;
            upper[j] = limits.upper[j] - shift[j] + tolerances.on_limit;
            continue;
        }
        const auto [low, high] = extent(part, j);
        const bool is_constant = high - low < tolerances.constant;
        const double beyond = is_constant ? tolerances.at_limit : tolerances.on_limit;
        lower[j] = limits.lower[j] - shift[j] - beyond, upper[j] = limits.upper[j] - shift[j] + beyond;
        if (is_constant) continue;
        if (low < lower[j] + tolerances.touch) touches |= add_crossings(part, j, lower[j], tolerances, cuts);
        if (high > upper[j] - tolerances.touch) touches |= add_crossings(part, j, upper[j], tolerances, cuts);
    }
    cuts.push_back(1.0);
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::pair<double, double>> shares;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        const double middle = 0.5 * (cuts[i] + cuts[i + 1]);
        bool is_within = cuts[i + 1] - cuts[i] > kShortestPiece;
        for (int j = 0; j < part.n_joints && is_within; ++j) {
            const double x = part.at(j, middle);
            is_within = limits.wraps[j] || (x >= lower[j] && x <= upper[j]);
        }
        if (!is_within) continue;
        if (!shares.empty() && shares.back().second == cuts[i]) {
            shares.back().second = cuts[i + 1];
        } else {
            shares.push_back({cuts[i], cuts[i + 1]});
        }
    }
    return shares;
}

}  // namespace eim
