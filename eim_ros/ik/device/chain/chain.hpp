// A serial chain of fixed size, without pointers, so that its bytes can be copied to a GPU.
//
// The folder of this file comes first in the search path of `kernels.hpp`, so the headers of the solver include this
// chain, not their own.
#pragma once

#include "chain/link.hpp"

namespace eim {

inline constexpr int kMostJoints = 16, kMostLinks = 24;

template <class S>
struct Links {
    Link<S> values[kMostLinks + 1];

    const Link<S>* data() const { return values; }
};

struct Chain {
    int n_joints, n_links, kind;
    double reach, unit;
    Links<double> links;
    Links<float> single;

    // The chain with lengths in its unit. It follows this chain in memory (see `Arm`).
    const Chain& in_units() const { return unit == 1.0 ? *this : this[1]; }
};

}  // namespace eim

#include "chain/kinematics.hpp"
