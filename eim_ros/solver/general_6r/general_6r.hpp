// All real solutions of any arm with six revolute joints (Raghavan and Roth 1993), with evidence of completeness. Some
// joints may be prismatic.
//
// An attempt (`attempt.hpp`) gives solutions, and an upper bound of their number that relies on a measured noise
// level. Each solution is a zero of the resultant, so if as many distinct solutions are known as an attempt allows,
// there are no others. Otherwise the next attempt adds its solutions and its bound. If all fail, the first ones are
// repeated with a focus where zeros crowd. That may add solutions, and a proof decides whether they are all. The order
// of the attempts is chosen once for each arm.
//
// The bound is strong evidence, not a proof, because the noise is measured at some coefficients of the resultant. A
// proof repeats an attempt with twice the precision of double, which makes all errors certain
// (`doubled_resultant.hpp`). There is none for arms with only degenerate eliminations, whose resultant is 0 for all
// angles.
#pragma once

#include <numeric>
#include <optional>
#include <vector>

#include "chain/chain.hpp"
#include "general_6r/attempt.hpp"
#include "general_6r/doubled_resultant.hpp"

namespace eim {

inline Motion motion_of(const Link<double>& link) {
    Motion motion;
    for (int k = 0; k < 3; ++k) {
        motion.rows[k] = {link.rotation[3 * k], link.rotation[3 * k + 1], link.rotation[3 * k + 2]};
    }
    motion.translation = {link.translation[0], link.translation[1], link.translation[2]};
    return motion;
}

// Solutions of a pose, each angle in [-pi, pi]. Joints that slide are in metres.
struct SixRevolute {
    LoopSolutions solutions;
    bool is_complete = false;
    bool is_singular = false;  // a continuum of solutions is suspected
};

class General6R {
   public:
    General6R() = default;

    // Takes a chain of six joints, without followers. Random poses show which attempts suit it.
    explicit General6R(const Chain& chain) : base_(motion_of(chain.links[0])), tip_(motion_of(chain.links[6])) {
        double size = 0.0;
        bool slides[6];
        for (int i = 0; i < 6; ++i) slides[i] = chain.links[i].slides, has_slide_ |= slides[i];
        Motion links[5];
        for (int i = 0; i < 5; ++i) links[i] = motion_of(chain.links[i + 1]), size += length(links[i].translation);
        if (!(size > 0.0)) return;
        scale_ = std::exp2(std::round(1.0 - std::log2(size)));  // a power of two, so that it causes no rounding
        for (Motion& link : links) link.translation = link.translation * scale_;
        for (Motion* end : {&base_, &tip_}) end->translation = end->translation * scale_;
        links_ = FixedLinks(links, slides);
        choose_order();
    }

    bool exists() const { return !order_.empty(); }

    // Whether some elimination is not degenerate.
    bool can_prove() const { return exists() && !regular_.empty(); }

    SixRevolute solve(const Motion& target) const {
        const Motion to = scaled(target);
        SixRevolute found = solve_last(tip_ * to.inverse() * base_);
        if (!found.is_complete && !found.is_singular && found.solutions.n > 0) {
            found.is_complete = prove(target, found.solutions.n);
        }
        for (int j = 0; j < 6; ++j) {
            for (int i = 0; links_.slides[j] && i < found.solutions.n; ++i) found.solutions.angles[i][j] /= scale_;
        }
        return found;
    }

    // Whether a pose has certainly no more solutions than this number of regular ones.
    bool prove(const Motion& target, int n_solutions) const {
        for (const int number : regular_) {
            const std::optional<int> most = most_solutions(scaled(target), number);
            if (most && *most == n_solutions) return true;
        }
        return false;
    }

   private:
    using Number = Doubled<double>;
    static constexpr int kTried = 48, kMostAttempts = 8, kAttemptsNearSingular = 4;
    static constexpr std::size_t kFocused = 5;        // attempts that are repeated where zeros crowd
    static constexpr double kFactors[] = {0.3, 0.1};  // of the focus
    static constexpr double kCostOfTwisted = 2.5;     // a plain attempt costs 1
    static constexpr double kUseful = 0.5;            // share of poses below which the arm is left to the search
    static constexpr double kSingularPivot = 1e-7;    // below: a continuum of solutions, or solutions that meet
    static constexpr double kVanishing = 1e-13;       // amplitude over that of random poses
    static constexpr double kBeyondReach = 1e-9;

    SixRevolute solve_last(const Motion& last) const {
        SixRevolute found;
        std::copy_n(links_.slides, 6, found.solutions.slides);
        double reach = 0.0;
        for (const Motion& link : links_.plain) reach += length(link.translation);
        if (!has_slide_ && length(last.translation) > reach + kBeyondReach) {
            found.is_complete = true;
            return found;
        }
        int most = LoopSolutions::kMost;
        bool has_bound = false;
        // Adds a bound. Returns whether it is reached; more solutions than the bound are never complete.
        const auto settles = [&](const Attempted& tried) {
            found.is_singular |= tried.pivot < kSingularPivot;
            if (!tried.is_unknown) has_bound = true, most = std::min(most, tried.most);
            if (!has_bound || found.is_singular) return false;
            if (found.solutions.n > 0 && found.solutions.n < most) {
                add_partners(links_.loop(links_.plain, last), found.solutions);
            }
            found.is_complete = found.solutions.n == most;
            return found.is_complete;
        };
        double quiet[kMostAttempts];
        const std::size_t n = order_.size();
        for (std::size_t i = 0; i < n; ++i) {
            if (found.is_singular && i >= kAttemptsNearSingular) return found;
            const Attempted tried = attempt(links_, last, order_[i], found.solutions);
            const Typical& typical = typical_[order_[i]];
            found.is_singular |= tried.amplitude < kVanishing * typical.amplitude || tried.order > typical.order;
            quiet[i] = tried.quiet;
            if (settles(tried)) return found;
        }
        for (const double factor : kFactors) {
            for (std::size_t i = 0; i < std::min(n, kFocused) && !found.is_singular; ++i) {
                const Focus focus{quiet[i], factor};
                attempt(links_, last, order_[i], found.solutions, &focus);
            }
        }
        return found;
    }

    // Whether a view has joints that turn where the elimination needs them.
    bool suits(int number) const {
        const LoopView<6> view(number % LoopView<6>::count);
        return Elimination::suits(view.of(links_.loop(links_.plain, {})));
    }

    Motion scaled(const Motion& target) const {
        Motion motion = target;
        motion.translation = motion.translation * scale_;
        return motion;
    }

    // The resultant of a view with twice the precision; none if the view is degenerate.
    std::optional<DoubledResultant> doubled(const Motion& to, int number) const {
        LoopOf<6, Number> loop;
        for (int i = 0; i < 5; ++i) loop.links[i] = exact(links_.plain[i]);
        loop.links[5] = exact(tip_) * exact(to).inverse() * exact(base_);
        std::copy_n(links_.slides, 6, loop.slides);
        const DoubledResultant f(EliminationOf<Number>(LoopView<6>(number).of(loop)));
        const bool is_regular = f.rank_ratio > kLeastRankRatio && f.plain().amplitude() > kFarAboveFloor * f.floor;
        return is_regular ? std::optional<DoubledResultant>(f) : std::nullopt;
    }

    // A certain upper bound of the number of solutions by one view; none if it is undecided.
    std::optional<int> most_solutions(const Motion& to, int number) const {
        const std::optional<DoubledResultant> f = doubled(to, number);
        if (!f) return {};
        const LoopView<6> view(number);
        const Motion last = tip_ * to.inverse() * base_;
        Resultant shifted[CertainResultant::kShifts];
        for (int i = 0; i < CertainResultant::kShifts; ++i) {
            shifted[i] = Resultant(Elimination(view.of(links_.loop(links_.plain, last * CertainResultant::shift(i)))));
        }
        const IsolationOf isolation(CertainResultant(*f, shifted));
        return isolation.is_unknown ? std::nullopt : std::optional<int>(isolation.most);
    }

    // Puts attempts first that settle most random poses for their cost, then those that settle most of the others.
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
        const Motion to = base_ * lasts[0].inverse() * tip_;
        for (int number = 0; number < LoopView<6>::count; ++number) {
            if (suits(number) && doubled(to, number)) regular_.push_back(number);
        }
        std::stable_sort(regular_.begin(), regular_.end(), [&](int a, int b) { return shares[a] > shares[b]; });
        for (int i = 0; i < kTried && exists(); ++i) {  // a wrong bound shows that the method does not suit the arm
            const SixRevolute found = solve_last(lasts[i]);
            if (found.is_complete && !found.solutions.contains(origins[i], 1e-4)) order_.clear();
        }
    }

    void choose(const std::vector<bool> (&settled)[kAttempts], const double (&shares)[kAttempts]) {
        std::vector<bool> done(kTried, false), is_used(kAttempts, false);
        while (order_.size() < kMostAttempts) {
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

    Motion base_, tip_;  // before the first joint and after the last one, scaled
    FixedLinks links_;
    double scale_ = 1.0;
    bool has_slide_ = false;
    std::vector<int> order_, regular_;  // attempts in turn; views for proofs
    Typical typical_[kAttempts];
};

}  // namespace eim
