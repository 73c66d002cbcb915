// A link of a serial chain.
#pragma once

#include <algorithm>

#include "numerics/trigonometry.hpp"

namespace eim {

template <class S>
struct Link {
    S rotation[9], translation[3];  // transform P_i: rows of its rotation, and its translation [m]
    bool slides = false;
    int source = 0;
    S multiplier = 0, offset = 0;

    Link() = default;
    Link(const double* row, int n_joints, bool moves) {
        std::copy_n(row, 9, rotation);
        std::copy_n(row + 9, 3, translation);
        if (!moves) return;
        slides = row[12] != 0.0, source = row[13] >= 0.0 && row[13] < n_joints ? static_cast<int>(row[13]) : 0;
        multiplier = row[14], offset = row[15];
    }
};

inline constexpr double kUsualReach = 1.2;  // [m]

// Quantities of a chain with n_links moving joints. See `Chain`.
struct ChainSize {
    int kind;
    double reach = 0.0, unit = 1.0;

    ChainSize(const Link<double>* links, int n_links, int n_joints) {
        bool is_plain = n_links == n_joints, slides = false;
        for (int i = 0; i <= n_links; ++i) {
            const Link<double>& link = links[i];
            const double* at = link.translation;
            reach += portable::hypot(portable::hypot(at[0], at[1]), at[2]);
            slides |= link.slides;
            is_plain &=
                i == n_links || (!link.slides && link.source == i && link.multiplier == 1.0 && link.offset == 0.0);
        }
        kind = is_plain && (n_joints == 6 || n_joints == 7) ? n_joints : 0;
        if (reach > 0.0 && !slides) unit = std::ldexp(1.0, int(std::round(portable::log2(reach / kUsualReach))));
    }
};

}  // namespace eim
