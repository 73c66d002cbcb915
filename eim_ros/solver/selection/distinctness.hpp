// Search for configurations that are close to each other. Known configurations are stored in single precision, and 64
// of them are compared at a time.
#pragma once

#include <limits>
#include <vector>

#include "chain/task.hpp"

namespace eim {

class Places {
   public:
    // Wrapping joints are compared on the circle.
    Places(const Bounds<double>& bounds, int n_joints) : n_joints_(n_joints) {
        for (int j = 0; j < n_joints; ++j) turn_[j] = bounds.wraps[j] ? float(kTwoPi) : 0.0f;
    }

    Index size() const { return size_; }

    void add(const double* place) {
        if (size_ % kBlock == 0) values_.resize(values_.size() + n_joints_ * kBlock, kNowhere);
        for (int j = 0; j < n_joints_; ++j) at(size_, j) = float(place[j]);
        ++size_;
    }

    // Hides place i. A hidden place is not close to any configuration.
    void hide(Index i) {
        for (int j = 0; j < n_joints_; ++j) at(i, j) = kNowhere;
    }

    bool is_hidden(Index i) const { return values_[(i / kBlock) * n_joints_ * kBlock + i % kBlock] == kNowhere; }

    // Whether a known place is within a Euclidean radius of a configuration.
    bool has_near(const double* place, double radius) const {
        return has_below(place, float(radius * radius), [](float square, float away) { return square + away * away; });
    }

    // Whether a known place differs from a configuration by at most a tolerance in every joint, up to rounding. Returns
    // false for NaN.
    bool has_duplicate(const double* place, double tolerance) const {
        double extent = 0.0;
        for (int j = 0; j < n_joints_; ++j) extent = std::max(extent, std::abs(place[j]));
        const auto join = [](float most, float d) { return most >= std::abs(d) || most != most ? most : std::abs(d); };
        return has_below(place, float(tolerance + 3e-7 * (extent + tolerance)), join);
    }

   private:
    static constexpr int kBlock = 64;
    static constexpr float kNowhere = std::numeric_limits<float>::infinity();
    static constexpr float kByTurn = float(1.0 / kTwoPi);

    float& at(Index i, int j) { return values_[((i / kBlock) * n_joints_ + j) * kBlock + i % kBlock]; }

    // Whether the difference of some known place is at most a limit. `join` combines the differences of the joints.
    template <class Join>
    bool has_below(const double* place, float limit, Join join) const {
        for (const float* of = values_.data(); of != values_.data() + values_.size(); of += n_joints_ * kBlock) {
            float worst[kBlock] = {};
            int n_below = 1;
            for (int j = 0; j < n_joints_ && n_below > 0; ++j) {
                const float *values = of + j * kBlock, x = float(place[j]), turn = turn_[j];
                if (turn == 0.0f) {
                    for (int i = 0; i < kBlock; ++i) worst[i] = join(worst[i], values[i] - x);
                } else {
                    for (int i = 0; i < kBlock; ++i) worst[i] = join(worst[i], wrapped(values[i] - x, turn, kByTurn));
                }
                if (j % 3 != 2 && j + 1 < n_joints_) continue;  // a few joints suffice to reject most blocks
                n_below = 0;
                for (int i = 0; i < kBlock; ++i) n_below += worst[i] <= limit;  // unused slots are infinite or NaN
            }
            if (n_below > 0) return true;
        }
        return false;
    }

    int n_joints_;
    float turn_[kMostJoints];
    Index size_ = 0;
    std::vector<float> values_;  // (n_blocks, n_joints, kBlock)
};

}  // namespace eim
