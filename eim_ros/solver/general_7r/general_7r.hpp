// An arm with seven revolute joints as a closed loop, and the readings of this loop that suit a proof.
#pragma once

#include "general_7r/torus_polynomial.hpp"
#include "numerics/portable.hpp"

namespace eim {

class General7R {
   public:
    using Number = TorusPolynomial::Number;

    General7R() = default;

    // Takes a chain of seven revolute joints. Random poses determine which readings are used.
    explicit General7R(const Chain& chain) {
        if (chain.kind != 7) return;
        base_ = motion_of(chain.links[0]), tip_ = motion_of(chain.links[7]);
        double size = 0.0;
        for (int i = 0; i < 6; ++i) links_[i] = motion_of(chain.links[i + 1]), size += length(links_[i].translation);
        if (!(size > 0.0)) return;
        scale_ = std::ldexp(
            1.0, int(std::round(1.0 - portable::log2(size))));  // a power of two, because scaling by it is exact
        for (Motion& link : links_) link.translation = link.translation * scale_;
        for (Motion* end : {&base_, &tip_}) end->translation = end->translation * scale_;
        choose_readings();
    }

    bool fits() const { return !readings_.empty(); }
    // Returns the indices of the readings, with the best reading first.
    const std::vector<int>& readings() const { return readings_; }

    // Returns the loop of a pose with twice the precision of double.
    LoopOf<7, Number> loop(const Motion& target) const {
        Motion scaled = target;
        scaled.translation = scaled.translation * scale_;
        LoopOf<7, Number> loop;
        for (int i = 0; i < 6; ++i) loop.links[i] = exact(links_[i]);
        loop.links[6] = exact(tip_) * exact(scaled).inverse() * exact(base_);
        return loop;
    }

   private:
    static constexpr int kTried = 16, kAngles = 2;
    static constexpr double kNoGap = 1e-6, kLeastGap = 1e-5, kWidestGap = 0.5;  // [rad]

    // Prefers readings whose zeros are far apart. Readings in which solutions always share s and t in pairs are not
    // used, because f is a square there.
    void choose_readings() {
        Random random(0.61);
        std::vector<double> gaps(Reading::count, 0.0);
        for (int i = 0; i < kTried; ++i) {
            Motion all = base_.inverse() * base_;
            LoopOf<7> loop;
            for (int j = 0; j < 7; ++j) {
                all = all * about_z(random.uniform(-kPi, kPi));
                if (j < 6) all = all * links_[j], loop.links[j] = links_[j];
            }
            loop.links[6] = all.inverse();
            for (int number = 0; number < Reading::count; ++number) {
                const Reading reading(number);
                const LoopOf<7> view = reading.view.of(loop);
                for (int a = 0; a < kAngles; ++a) {
                    const double s = random.uniform(-kPi, kPi);
                    gaps[number] += portable::log(
                        smallest_gap(with_fixed(view, reading.place, portable::cos(s), portable::sin(s))));
                }
            }
        }
        for (int number = 0; number < Reading::count; ++number) {
            if (gaps[number] > kTried * kAngles * portable::log(kLeastGap)) readings_.push_back(number);
        }
        std::sort(readings_.begin(), readings_.end(), [&](int a, int b) { return gaps[a] > gaps[b]; });
    }

    // Returns the smallest gap between zeros of the resultant [rad], but at least kNoGap.
    static double smallest_gap(const Loop& loop) {
        const Elimination elimination(loop);
        const Resultant f(elimination);
        const double eta = std::max(kNoiseFactor * f.noise, kLeastNoise * f.amplitude());
        if (!(elimination.rank_ratio() > kLeastRankRatio) || !(eta < kMostNoise * f.amplitude())) return kNoGap;
        const Isolation isolation({f, eta});
        if (isolation.is_unknown || isolation.least != isolation.most) return kNoGap;
        double gap = kWidestGap;
        for (int i = 0; i + 1 < isolation.n; ++i) {
            gap = std::min(gap, isolation.zeros[i + 1] - isolation.zeros[i]);
        }
        return std::max(gap, kNoGap);
    }

    Motion base_, tip_, links_[6];  // scaled
    double scale_ = 1.0;
    std::vector<int> readings_;
};

}  // namespace eim
