// A serial chain of fixed size. The chain contains no pointers, because its bytes are copied to a GPU.
//
// The folder of this file comes first in the include path of `kernels.hpp`. The solver's headers therefore include this
// chain instead of `solver/chain/chain.hpp`.
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

    // Returns the same chain with lengths in its unit. `Arm` stores both chains one after the other.
    const Chain& in_units() const { return unit == 1.0 ? *this : this[1]; }
};

}  // namespace eim

#include "chain/kinematics.hpp"
