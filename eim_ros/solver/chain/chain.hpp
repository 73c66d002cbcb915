// A serial chain. The kinematics of chains are in `chain/kinematics.hpp`.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "chain/link.hpp"

namespace eim {

inline constexpr int kMostJoints = 64, kMostLinks = 128;

struct Chain {
    int n_joints, n_links;
    int kind;            // N of the templates in `chain/kinematics.hpp`
    double reach = 0.0;  // [m]: upper bound of the distance from base to tip, without prismatic joints
    // Length [m] that counts as much as 1 rad in errors. For arms without prismatic joints, it is the reach divided by
    // the usual reach, rounded to a power of two. Multiplication by a power of two is exact.
    double unit = 1.0;
    std::vector<Link<double>> links;  // n_links + 1 links; the last link has only P_m
    std::vector<Link<float>> single;

    // The columns of `rows` (n_links + 1, 16) are rotation, translation, whether the joint slides, source, multiplier
    // and offset.
    Chain(const double* rows, int n_rows, int n_joints) : n_joints(n_joints), n_links(n_rows - 1) {
        if (n_joints < 1 || n_joints > kMostJoints || n_links < n_joints || n_links > kMostLinks) {
            throw std::invalid_argument("a chain must have 1 to 64 independent joints and at most 128 moving joints");
        }
        for (int i = 0; i <= n_links; ++i) {
            const double* row = rows + 16 * i;
            links.emplace_back(row, n_joints, i < n_links), single.emplace_back(row, n_joints, i < n_links);
        }
        const ChainSize size(links.data(), n_links, n_joints);
        kind = size.kind, reach = size.reach, unit = size.unit;
        if (unit != 1.0) in_units_ = std::make_shared<const Chain>(*this, 1.0 / unit);
    }

    // Copies a chain and multiplies its lengths by a power of two.
    Chain(const Chain& chain, double factor) : Chain(chain) {
        reach *= factor, unit = 1.0, in_units_ = nullptr;
        for (Link<double>& link : links) {
            for (double& length : link.translation) length *= factor;
        }
        for (Link<float>& link : single) {
            for (float& length : link.translation) length *= float(factor);
        }
    }

    // Returns the same chain with lengths in its unit.
    const Chain& in_units() const { return in_units_ ? *in_units_ : *this; }

   private:
    std::shared_ptr<const Chain> in_units_;
};

// Returns whether each joint is prismatic.
inline std::vector<bool> prismatic_joints(const Chain& chain) {
    std::vector<bool> slides(chain.n_joints, false);
    for (int i = 0; i < chain.n_links; ++i) {
        if (chain.links[i].slides) slides[chain.links[i].source] = true;
    }
    return slides;
}

}  // namespace eim

#include "chain/kinematics.hpp"
