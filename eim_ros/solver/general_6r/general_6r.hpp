// All real solutions of an arm with six revolute joints (Raghavan and Roth 1993), with evidence of completeness. The
// arm may have any geometry, and some of its joints may be prismatic.
//
// An attempt (`attempt.hpp`) gives solutions, and an upper bound of their number. The bound relies on a measured noise
// level. Each solution is a zero of the resultant. If the number of distinct solutions equals the bound of an attempt,
// there are no other solutions. Otherwise the next attempt adds solutions and a bound. The order of the attempts is
// chosen once for each arm.
//
// The bound is strong evidence but not a proof, because the noise is measured from a few coefficients of the resultant.
// If the first attempts leave a pose undecided, they are repeated with twice the precision of double. The higher
// precision gives certain bounds of all errors (`doubled_resultant.hpp`), and separates zeros that are close together.
// This proof is not possible if all eliminations of an arm are degenerate, because the resultant is then 0 for all
// angles.
#pragma once

#include <numeric>
#include <optional>
#include <vector>

#include "chain/chain.hpp"
#include "general_6r/attempt.hpp"
#include "general_6r/doubled_resultant.hpp"
#include "numerics/portable.hpp"

namespace eim {

inline Motion motion_of(const Link<double>& link) {
    Motion motion;
    for (int k = 0; k < 3; ++k) {
        motion.rows[k] = {link.rotation[3 * k], link.rotation[3 * k + 1], link.rotation[3 * k + 2]};
    }
    motion.translation = {link.translation[0], link.translation[1], link.translation[2]};
    return motion;
}

// Solutions of a pose. Each angle is in [-pi, pi], and values of prismatic joints are in metres.
struct SixRevolute {
    LoopSolutions solutions;
    bool is_complete = false;
    bool is_certified = false;  // whether completeness does not rely on a measured noise level
    bool is_singular = false;   // whether a continuum of solutions may exist
};

class General6R {
   public:
    General6R() = default;

    // Takes a chain of six independent joints. Random poses determine which attempts are used.
    explicit General6R(const Chain& chain) : base_(motion_of(chain.links[0])), tip_(motion_of(chain.links[6])) {
        double size = 0.0;
        bool slides[6];
        for (int i = 0; i < 6; ++i) slides[i] = chain.links[i].slides, has_slide_ |= slides[i];
        Motion links[5];
        for (int i = 0; i < 5; ++i) links[i] = motion_of(chain.links[i + 1]), size += length(links[i].translation);
        if (!(size > 0.0)) return;
        scale_ = std::ldexp(
            1.0, int(std::round(1.0 - portable::log2(size))));  // a power of two, because scaling by it is exact
        for (Motion& link : links) link.translation = link.translation * scale_;
        for (Motion* end : {&base_, &tip_}) end->translation = end->translation * scale_;
        links_ = FixedLinks(links, slides);
        choose_order();
    }

    bool exists() const { return !order_.empty(); }

    // Whether at least one elimination is not degenerate.
    bool can_prove() const { return exists() && !regular_.empty(); }

    // Returns the solutions of a pose. `near` may contain configurations near some solutions.
    SixRevolute solve(const Motion& target, bool wants_proof = false, const LoopSolutions& near = {}) const {
        const Motion to = scaled(target), last = tip_ * to.inverse() * base_;
        Progress progress = from(last, near);
        SixRevolute& found = progress.found;
        const std::size_t n = order_.size(), n_first = can_prove() ? std::min(n_before_proof_, n) : n;
        attempt_in_turn(last, 0, n_first, progress);
        if (wants_proof || !found.is_complete) prove(to, last, progress);
        if (!found.is_complete) attempt_in_turn(last, n_first, n, progress);
        if (!found.is_complete && !progress.has_small_pivot) {
            found.is_complete = found.is_certified = found.solutions.n == progress.proven_most;
        }
        found.is_singular = progress.has_small_pivot || (progress.vanishes && !found.is_certified);
        for (int j = 0; j < 6; ++j) {
            for (int i = 0; links_.slides[j] && i < found.solutions.n; ++i) found.solutions.angles[i][j] /= scale_;
        }
        return found;
    }

   private:
    using Number = Doubled<double>;
    static constexpr int kTried = 48, kMostAttempts = 8, kAttemptsNearSingular = 4;
    static constexpr int kTriedRegular = 4;  // number of poses used to detect degenerate eliminations
    static constexpr double kCostOfTwisted = 2.5, kCostOfProof = 6.0;  // relative to the cost of a plain attempt
    static constexpr double kUseful = 0.5;          // share of solved poses; below it, a search is used instead
    static constexpr double kSingularPivot = 1e-7;  // smaller pivots indicate a continuum, or solutions that meet
    static constexpr double kVanishing = 1e-13;     // relative to the amplitude for random poses
    static constexpr double kBeyondReach = 1e-9;

    struct Progress {
        SixRevolute found;
        int most = LoopSolutions::kMost, proven_most = LoopSolutions::kMost + 1;
        bool has_bound = false, has_small_pivot = false;
        bool vanishes = false;  // whether some resultant is nearly 0 for all angles, as along a continuum
    };

    // Starts with the solutions that Newton's method computes from nearby configurations.
    Progress from(const Motion& last, const LoopSolutions& near) const {
        Progress progress;
        SixRevolute& found = progress.found;
        std::copy_n(links_.slides, 6, found.solutions.slides);
        double reach = 0.0;
        for (const Motion& link : links_.plain) reach += length(link.translation);
        found.is_complete = !has_slide_ && length(last.translation) > reach + kBeyondReach;
        const double pivot = add_near(links_.loop(links_.plain, last), near, found.solutions);
        progress.has_small_pivot = pivot < kSingularPivot;
        return progress;
    }

    // Makes attempts until the number of known solutions equals their bound. If the number exceeds the bound, the set
    // does not count as complete.
    void attempt_in_turn(const Motion& last, std::size_t first, std::size_t end, Progress& progress) const {
        SixRevolute& found = progress.found;
        for (std::size_t i = first; i < end && !found.is_complete; ++i) {
            if ((progress.has_small_pivot || progress.vanishes) && i >= kAttemptsNearSingular) return;
            const Attempted tried = attempt(links_, last, order_[i], found.solutions);
            const Typical& typical = typical_[order_[i]];
            progress.vanishes |= tried.amplitude < kVanishing * typical.amplitude || tried.order > typical.order;
            progress.has_small_pivot |= tried.pivot < kSingularPivot;
            if (!tried.is_unknown) progress.has_bound = true, progress.most = std::min(progress.most, tried.most);
            if (!progress.has_bound || progress.has_small_pivot || progress.vanishes) continue;
            if (found.solutions.n > 0 && found.solutions.n < progress.most) {
                add_partners(links_.loop(links_.plain, last), found.solutions);
            }
            found.is_complete = found.solutions.n == progress.most;
        }
    }

    // Repeats attempts with twice the precision until the number of known solutions equals one of their bounds.
    void prove(const Motion& to, const Motion& last, Progress& progress) const {
        LoopSolutions& solutions = progress.found.solutions;
        for (const int number : regular_) {
            if (progress.has_small_pivot) return;
            const std::optional<Certain> isolation = isolated(to, last, number);
            if (!isolation) continue;
            if (!isolation->is_unknown) progress.proven_most = std::min(progress.proven_most, isolation->most);
            if (solutions.n < progress.proven_most) {
                const LoopView<6> view(number);
                const Loop loop = links_.loop(links_.plain, last), seen = view.of(loop);
                const int n = std::min(isolation->n, kMostZeros);
                const Recovered recovered =
                    recover_all(Elimination(seen), seen, seen, view, isolation->zeros, n, solutions);
                progress.has_small_pivot |= recovered.pivot < kSingularPivot;
                if (solutions.n > 0 && solutions.n < progress.proven_most) add_partners(loop, solutions);
            }
            if (progress.has_small_pivot || solutions.n != progress.proven_most) continue;
            progress.found.is_complete = progress.found.is_certified = true;
            return;
        }
    }

    // Whether the joints are revolute at the positions of a view where the elimination needs it.
    bool suits(int number) const {
        const LoopView<6> view(number % LoopView<6>::count);
        return Elimination::suits(view.of(links_.loop(links_.plain, {})));
    }

    Motion scaled(const Motion& target) const {
        Motion motion = target;
        motion.translation = motion.translation * scale_;
        return motion;
    }

    // Returns the resultant of a view with twice the precision. Returns no value if the view is degenerate.
    std::optional<DoubledResultant> doubled(const Motion& to, int number) const {
        LoopOf<6, Number> loop;
        for (int i = 0; i < 5; ++i) loop.links[i] = exact(links_.plain[i]);
        loop.links[5] = exact(tip_) * exact(to).inverse() * exact(base_);
        std::copy_n(links_.slides, 6, loop.slides);
        const DoubledResultant f(EliminationOf<Number>(LoopView<6>(number).of(loop)));
        const bool is_regular = f.rank_ratio > kLeastRankRatio && f.plain().amplitude() > kFarAboveFloor * f.floor;
        return is_regular ? std::optional<DoubledResultant>(f) : std::nullopt;
    }

    using Certain = IsolationOf<CertainResultant>;

    // Returns the zeros of the resultant of a view for all poses near the given pose. Returns no value if the view is
    // degenerate.
    std::optional<Certain> isolated(const Motion& to, const Motion& last, int number) const {
        const std::optional<DoubledResultant> f = doubled(to, number);
        if (!f) return {};
        const LoopView<6> view(number);
        Resultant shifted[CertainResultant::kShifts];
        for (int i = 0; i < CertainResultant::kShifts; ++i) {
            shifted[i] = Resultant(Elimination(view.of(links_.loop(links_.plain, last * CertainResultant::shift(i)))));
        }
        return Certain(CertainResultant(*f, shifted));
    }

    // Sorts the attempts. The first attempt is the one that solves the most random poses relative to its cost. Each
    // later attempt is the one that solves the most of the remaining poses relative to its cost.
    void choose_order() {
        Random random(0.61);
        std::vector<Motion> lasts;
        std::vector<std::array<double, 6>> origins;
        for (int i = 0; i < kTried; ++i) {
            std::array<double, 6> q;
            const auto moved = [&](int j) {
                if (!links_.slides[j]) return about_z(q[j]);
                Motion slid = about_z(0.0);
                slid.translation.z = q[j];
                return slid;
            };
            for (int j = 0; j < 6; ++j) q[j] = links_.slides[j] ? random.uniform(-1.0, 1.0) : random.uniform(-kPi, kPi);
            Motion all = moved(0);
            for (int j = 0; j < 5; ++j) all = all * links_.plain[j] * moved(j + 1);
            lasts.push_back(all.inverse()), origins.push_back(q);
        }
        std::vector<bool> settled[kAttempts];
        double shares[kAttempts] = {};
        for (int number = 0; number < kAttempts; ++number) {
            settled[number].assign(kTried, false);
            if (!suits(number)) continue;
            std::vector<double> amplitudes, orders;
            for (int i = 0; i < kTried; ++i) {
                LoopSolutions found;
                std::copy_n(links_.slides, 6, found.slides);
                const Attempted tried = attempt(links_, lasts[i], number, found);
                amplitudes.push_back(tried.amplitude), orders.push_back(tried.order);
                settled[number][i] = !tried.is_unknown && found.n == tried.most;
            }
            shares[number] = double(std::count(settled[number].begin(), settled[number].end(), true)) / kTried;
            typical_[number] = {median(amplitudes), int(median(orders))};
        }
        choose(settled, shares);
        for (int number = 0; number < LoopView<6>::count; ++number) {
            const auto is_regular = [&](const Motion& last) {
                return doubled(base_ * last.inverse() * tip_, number).has_value();
            };
            if (suits(number) && std::any_of(lasts.begin(), lasts.begin() + kTriedRegular, is_regular)) {
                regular_.push_back(number);
            }
        }
        std::stable_sort(regular_.begin(), regular_.end(), [&](int a, int b) { return shares[a] > shares[b]; });
        for (int i = 0; i < kTried && exists(); ++i) {  // if a bound is wrong, the method is not used for the arm
            Progress progress = from(lasts[i], {});
            attempt_in_turn(lasts[i], 0, order_.size(), progress);
            const SixRevolute& found = progress.found;
            if (found.is_complete && !found.solutions.contains(origins[i], 1e-4)) order_.clear();
        }
    }

    void choose(const std::vector<bool> (&settled)[kAttempts], const double (&shares)[kAttempts]) {
        std::vector<bool> done(kTried, false), is_used(kAttempts, false);
        while (order_.size() < kMostAttempts) {
            const auto n_open = std::count(done.begin(), done.end(), false);
            int best = -1;
            double best_value = 0.0;
            for (int number = 0; number < kAttempts; ++number) {
                if (is_used[number]) continue;
                int n_new = 0;
                for (int i = 0; i < kTried; ++i) n_new += settled[number][i] && !done[i];
                const double cost = number < LoopView<6>::count ? 1.0 : kCostOfTwisted;
                const double value = (n_new + 0.01 * shares[number]) / cost;
                if (value > best_value) best = number, best_value = value;
            }
            if (best < 0) break;
            if (n_open > 0 && best_value > n_open / kCostOfProof)
                n_before_proof_ = std::max(n_before_proof_, order_.size() + 1);
            is_used[best] = true, order_.push_back(best);
            for (int i = 0; i < kTried; ++i) done[i] = done[i] || settled[best][i];
        }
        if (std::count(done.begin(), done.end(), true) < kUseful * kTried) order_.clear();
    }

    static double median(std::vector<double>& values) {
        std::nth_element(values.begin(), values.begin() + kTried / 2, values.end());
        return values[kTried / 2];
    }

    struct Typical {
        double amplitude = 0.0;
        int order = 0;
    };

    Motion base_, tip_;  // before the first joint and after the last joint, scaled
    FixedLinks links_;
    double scale_ = 1.0;
    bool has_slide_ = false;
    std::vector<int> order_, regular_;  // attempts in their order; views for proofs
    std::size_t n_before_proof_ = 2;
    Typical typical_[kAttempts];
};

}  // namespace eim
