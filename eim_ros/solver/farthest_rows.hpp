// A few of many configurations that are spread over all of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "distinctness.hpp"
#include "task.hpp"

namespace eim {

// Of the rows that are nearest to each chosen one, the one nearest to their mean, in its place: chosen rows lie at the
// rims, since they are the farthest from others (a step of Lloyd 1982).
inline void recentre(const Bounds<double>& bounds, const Configurations& rows, const std::vector<int>& owner,
                     std::vector<Index>& chosen) {
    const int n_joints = rows.n_joints;
    const Index n_rows = rows.size();
    std::vector<double> means(chosen.size() * n_joints, 0.0), least(chosen.size(), 1e300);
    std::vector<double> counts(chosen.size(), 0.0);
    const std::vector<Index> before = chosen;
    const auto away = [&](Index i, int j) {
        return difference(rows.row(i)[j], rows.row(before[owner[i]])[j], bounds.wraps[j]);
    };
    for (Index i = 0; i < n_rows; ++i) {
        ++counts[owner[i]];
        for (int j = 0; j < n_joints; ++j) means[owner[i] * n_joints + j] += away(i, j);
    }
    for (Index i = 0; i < n_rows; ++i) {
        double square = 0.0;
        for (int j = 0; j < n_joints; ++j) {
            const double d = away(i, j) - means[owner[i] * n_joints + j] / counts[owner[i]];
            square += d * d;
        }
        if (square < least[owner[i]]) least[owner[i]] = square, chosen[owner[i]] = i;
    }
}

// At most n rows spread over all: the first and then always the one farthest from all before it, on the circle where a
// joint is continuous, each moved to the middle of the rows that are nearest to it; fewer where the others are the
// same.
//
// No choice of as many leaves a hole of less than half the size of the farthest ones (Gonzalez 1985, "Clustering to
// minimize the maximum intercluster distance").
inline std::vector<Index> farthest_rows(const Bounds<double>& bounds, const Configurations& rows, Index n) {
    constexpr Index kWide = 16;  // compared side by side
    const Index n_rows = rows.size(), n_padded = (n_rows + kWide - 1) / kWide * kWide;
    const int n_joints = rows.n_joints;
    std::vector<float> values(n_joints * n_padded), squares(n_padded), nearest(n_padded);  // values joint by joint
    std::fill_n(nearest.begin(), n_rows, std::numeric_limits<float>::infinity());
    for (Index i = 0; i < n_rows; ++i) {
        for (int j = 0; j < n_joints; ++j) values[j * n_padded + i] = float(rows.row(i)[j]);
    }
    std::vector<int> owner(n_padded, 0);
    std::vector<Index> chosen;
    Index next = 0;
    while (Index(chosen.size()) < std::min(n, n_rows)) {
        chosen.push_back(next);
        std::fill(squares.begin(), squares.end(), 0.0f);
        for (int j = 0; j < n_joints; ++j) {
            const float *of = &values[j * n_padded], at = of[next];
            const float turn = bounds.wraps[j] ? float(kTwoPi) : 0.0f;
            const float turns = bounds.wraps[j] ? float(1.0 / kTwoPi) : 0.0f;
            for (Index i = 0; i < n_padded; ++i) {
                const float difference = of[i] - at, away = difference - turn * std::nearbyint(difference * turns);
                squares[i] += away * away;
            }
        }
        const int latest = int(chosen.size()) - 1;
        float farthest[kWide] = {};
        for (Index i = 0; i < n_padded; i += kWide) {
            for (Index k = 0; k < kWide; ++k) {
                owner[i + k] = squares[i + k] < nearest[i + k] ? latest : owner[i + k];
                nearest[i + k] = squares[i + k] < nearest[i + k] ? squares[i + k] : nearest[i + k];
                farthest[k] = farthest[k] < nearest[i + k] ? nearest[i + k] : farthest[k];
            }
        }
        const float most = *std::max_element(farthest, farthest + kWide);
        if (!(most > 0.0f)) break;
        next = std::find(nearest.begin(), nearest.end(), most) - nearest.begin();
    }
    recentre(bounds, rows, owner, chosen);
    return chosen;
}

}  // namespace eim
