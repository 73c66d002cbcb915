// Which configurations are near each other: places known so far, in single precision, compared 64 at once.
#pragma once

#include <limits>
#include <vector>

#include "task.hpp"

namespace eim {

// a - b, on the circle where a joint turns endlessly.
inline double difference(double a, double b, bool wraps) {
    return wraps ? wrapped(a - b, kTwoPi, 1.0 / kTwoPi) : a - b;
}

// Whether no joint of two configurations differs by more than a tolerance.
inline bool are_duplicates(const Bounds<double>& bounds, const double* a, const double* b, int n_joints,
                           double tolerance) {
    for (int j = 0; j < n_joints; ++j) {
        if (!(std::abs(difference(a[j], b[j], bounds.wraps[j])) <= tolerance)) return false;
    }
    return true;
}

class Places {
   public:
    // Of joints of which those that wrap are compared on the circle.
    Places(const Bounds<double>& bounds, int n_joints) : n_joints_(n_joints) {
        for (int j = 0; j < n_joints; ++j) turn_[j] = bounds.wraps[j] ? float(kTwoPi) : 0.0f, turns_ |= bounds.wraps[j];
    }

    std::ptrdiff_t size() const { return size_; }

    void add(const double* place) {
        if (size_ % kBlock == 0) values_.resize(values_.size() + n_joints_ * kBlock, kNowhere);
        for (int j = 0; j < n_joints_; ++j) at(size_, j) = float(place[j]);
        ++size_;
    }

    // From now on nothing is near place i.
    void hide(std::ptrdiff_t i) {
        for (int j = 0; j < n_joints_; ++j) at(i, j) = kNowhere;
    }

    bool is_hidden(std::ptrdiff_t i) const {
        return values_[(i / kBlock) * n_joints_ * kBlock + i % kBlock] == kNowhere;
    }

    // Whether a place is within a radius of this one, in Euclidean distance. A few joints tell most blocks apart.
    bool has_near(const double* place, double radius) const {
        const float limit = float(radius * radius);
        const int few = std::min(n_joints_, 4);
        for (const float* block = values_.data(); block != values_.data() + values_.size();
             block += n_joints_ * kBlock) {
            float squares[kBlock] = {};
            for (int j = 0; j < few; ++j) add_squares(block + j * kBlock, j, float(place[j]), squares);
            if (!has_below(squares, limit)) continue;
            for (int j = few; j < n_joints_; ++j) add_squares(block + j * kBlock, j, float(place[j]), squares);
            if (has_below(squares, limit)) return true;
        }
        return false;
    }

    // Whether a place differs by no more than a tolerance from this one in any joint, or by hardly more.
    bool has_duplicate(const double* place, double tolerance) const {
        double extent = 0.0;
        for (int j = 0; j < n_joints_; ++j) extent = std::max(extent, std::abs(place[j]));
        const float limit = float(tolerance + 3e-7 * (extent + tolerance));
        for (const float* block = values_.data(); block != values_.data() + values_.size();
             block += n_joints_ * kBlock) {
            float largest[kBlock] = {};
            int n_near = 1;
            for (int j = 0; j < n_joints_ && n_near > 0; ++j) {
                const float x = float(place[j]), turn = turn_[j];
                const float* of = block + j * kBlock;
                n_near = 0;
                for (int i = 0; i < kBlock; ++i) {
                    const float away = std::abs(wrapped(of[i] - x, turn, kByTurn));
                    largest[i] = away > largest[i] ? away : largest[i];
                    n_near += largest[i] <= limit && away <= limit;  // the second: nowhere on a circle is NaN away
                }
            }
            if (n_near > 0) return true;
        }
        return false;
    }

   private:
    static constexpr int kBlock = 64;
    static constexpr float kNowhere = std::numeric_limits<float>::infinity();
    static constexpr float kByTurn = float(1.0 / kTwoPi);

    float& at(std::ptrdiff_t i, int j) { return values_[((i / kBlock) * n_joints_ + j) * kBlock + i % kBlock]; }

    void add_squares(const float* of, int j, float x, float* squares) const {
        const float turn = turn_[j];
        if (turns_) {
            for (int i = 0; i < kBlock; ++i) {
                const float away = wrapped(of[i] - x, turn, kByTurn);
                squares[i] += away * away;
            }
        } else {
            for (int i = 0; i < kBlock; ++i) squares[i] += (of[i] - x) * (of[i] - x);
        }
    }

    static bool has_below(const float* squares, float limit) {
        int n = 0;
        for (int i = 0; i < kBlock; ++i) n += squares[i] < limit;
        return n > 0;
    }

    int n_joints_;
    bool turns_ = false;
    float turn_[kMostJoints];
    std::ptrdiff_t size_ = 0;
    std::vector<float> values_;  // (n_blocks, n_joints, kBlock)
};

}  // namespace eim
