// One attempt to compute all solutions of a loop. The attempt eliminates the angles in one of twelve views, and gives
// an upper bound of the number of solutions.
//
// For many arms, such as the UR series, most eliminations are degenerate: f vanishes for all t3. For these arms,
// twisted attempts move L1 to L5 by fixed random motions of size h. After this motion, f = h^k g + O(h^(k+1)).
// Richardson's rule combines f at h, -h, 2h and -2h:
//
//    g = (4 A(h) - A(2h) / 2^k) / 3, where A(h) is the mean of f(h) and f(-h) with aligned signs.
//
// In the limit of small h, the zeros of g are the solutions of the actual arm. The error of g is about 10 d^2 /
// amplitude, where d is the difference of g and A(h). If the arm is only nearly degenerate, lower orders of h remain
// and increase the error.
#pragma once

#include "general_6r/recovery.hpp"
#include "numerics/portable.hpp"
#include "numerics/random.hpp"

namespace eim {

inline constexpr int kAttempts = 2 * LoopView<6>::count;  // plain attempts come before twisted attempts
inline constexpr double kNoiseFactor = 300.0;             // ratio of eta to the measured noise
inline constexpr double kLeastNoise = 1e-9;               // least ratio of eta to the amplitude, due to rounding
inline constexpr double kMostNoise = 1e-2;  // ratio of eta to the amplitude above which an attempt is useless
inline constexpr double kLeastRankRatio = 1e-9;
inline constexpr double kTwist = 5e-5;  // size h of a twist [rad, scaled length]
inline constexpr int kTwists = 4;
inline constexpr double kTwistSizes[kTwists] = {kTwist, -kTwist, 2.0 * kTwist, -2.0 * kTwist};
inline constexpr int kMostZeros = 24;

// The links L1 to L5, and their twisted versions.
struct FixedLinks {
    Motion plain[5], twisted[kTwists][5];
    bool slides[6] = {};  // whether each joint is prismatic

    FixedLinks() = default;
    FixedLinks(const Motion (&links)[5], const bool (&are_prismatic)[6]) {
        std::copy_n(are_prismatic, 6, slides);
        Random random(0.37);
        for (int i = 0; i < 5; ++i) {
            plain[i] = links[i];
            Vector turn, shift;
            for (double* x : {&turn.x, &turn.y, &turn.z}) *x = random.uniform(-1.0, 1.0);
            for (double* x : {&shift.x, &shift.y, &shift.z}) *x = random.uniform(-0.5, 0.5);
            const double size = length(turn);
            const Vector axis = turn * (1.0 / size);
            for (int k = 0; k < kTwists; ++k) {
                const double angle = kTwistSizes[k] * size;
                Motion twist;  // the rows are unit vectors, rotated by the inverse
                twist.rows[0] = turned({1, 0, 0}, axis, -angle), twist.rows[1] = turned({0, 1, 0}, axis, -angle);
                twist.rows[2] = turned({0, 0, 1}, axis, -angle), twist.translation = shift * kTwistSizes[k];
                twisted[k][i] = links[i] * twist;
            }
        }
    }
    // Returns the loop of some links and the link `last`, which contains the pose.
    Loop loop(const Motion (&links)[5], const Motion& last) const {
        Loop loop;
        std::copy_n(slides, 6, loop.slides);
        for (int i = 0; i < 5; ++i) loop.links[i] = links[i];
        loop.links[5] = last;
        return loop;
    }
};

// The outcome of an attempt.
struct Attempted {
    bool is_unknown = true;  // whether the number of solutions has no known bound
    int most = 0;            // upper bound of the number of solutions
    double amplitude = 0.0;  // amplitude of f, or of h^k g
    int order = 0;           // k of a twisted attempt
    double pivot = 1.0;      // smallest pivot of Newton's method
};

// The resultant f of a loop that is twisted by h, in the limit h -> 0.
struct TwistedResultant {
    Resultant g, ahead;  // h^k g; f(h) with its noise
    double eta = 0.0;
    int order = 1;

    // Takes f for each size of the twist, and a function that returns f without a twist.
    template <class Plain>
    TwistedResultant(const Resultant (&f)[kTwists], const Plain& plain) : ahead(f[0]) {
        double sign[kTwists];
        for (int k = 0; k < kTwists; ++k) sign[k] = f[0].product(f[k]) < 0.0 ? -1.0 : 1.0;
        const Resultant even1 = f[0].plus(f[1], sign[1]).times(0.5), odd1 = f[0].plus(f[1], -sign[1]).times(0.5);
        const Resultant even2 = f[2].plus(f[3], sign[2] * sign[3]).times(0.5 * sign[2]);
        const Resultant odd2 = f[2].plus(f[3], -sign[2] * sign[3]).times(0.5 * sign[2]);
        const double ratio = 0.5 * portable::log2(even2.product(even2) / even1.product(even1));
        order = ratio >= 0.5 && ratio < 4.5 ? int(std::round(ratio)) : 1;
        g = even1.times(4.0 / 3.0).plus(even2, -std::ldexp(1.0, -order) / 3.0);
        const double amplitude = g.amplitude(), d = g.plus(even1, -1.0).amplitude();
        double noise = 0.0;
        for (const Resultant& each : f) noise = std::max(noise, each.noise);
        double rest = std::max(d, 10.0 * d * d / amplitude);
        if (order == 1) {  // f = f_0 + h g: a degenerate loop is near; its twist is f_0 / g
            const double f0 = odd1.times(4.0).plus(odd2, -1.0).amplitude() / 3.0;
            rest = std::max(10.0 * d * d / amplitude, f0);
        } else if (order == 2) {
            // f = (a + h b)^2 g / b^2; a follows from the linear term, and from f at h = 0
            const double f1 = odd1.times(8.0).plus(odd2, -1.0).amplitude() / 6.0;
            const double f0 = std::max(0.0, plain().amplitude() - kNoiseFactor * noise);
            rest = std::max({10.0 * d * d / amplitude, f1, std::sqrt(f0 * amplitude)});
        }
        eta = std::max({kNoiseFactor * noise, kLeastNoise * amplitude, rest});
        if (d > 0.1 * amplitude) eta = amplitude;
    }
};

// Solves a loop by attempt `number`, and adds its solutions to `found`. The link `last` contains the pose.
inline Attempted attempt(const FixedLinks& links, const Motion& last, int number, LoopSolutions& found) {
    const bool is_twisted = number >= LoopView<6>::count;
    const LoopView<6> view(number % LoopView<6>::count);
    const Loop loop = view.of(links.loop(links.plain, last));
    const Loop near = is_twisted ? view.of(links.loop(links.twisted[0], last)) : loop;
    const Elimination elimination(near);
    Attempted attempted;
    Resultant f(elimination), ahead;
    double eta = std::max(kNoiseFactor * f.noise, kLeastNoise * f.amplitude());
    if (is_twisted) {
        Resultant all[kTwists] = {f};
        for (int k = 1; k < kTwists; ++k) {
            all[k] = Resultant(Elimination(view.of(links.loop(links.twisted[k], last))));
        }
        const TwistedResultant twisted(all, [&] { return Resultant(Elimination(loop)); });
        f = twisted.g, ahead = twisted.ahead, eta = twisted.eta, attempted.order = twisted.order;
    }
    attempted.amplitude = f.amplitude();
    if (!(eta < kMostNoise * attempted.amplitude)) return attempted;
    const Isolation isolation({f, eta});
    attempted.is_unknown = isolation.is_unknown || !(elimination.rank_ratio() > kLeastRankRatio);
    attempted.most = isolation.most;
    double t3[kMostZeros];
    const int n = std::min(isolation.n, kMostZeros);
    for (int i = 0; i < n; ++i) {
        double x = t3[i] = isolation.zeros[i];
        for (int step = 0; is_twisted && step < 8; ++step) {  // moves to the zero of f(h), where the matrix is singular
            const Resultant::Values v = ahead.at(x);
            const double change = std::clamp(-v.f / v.f1, -0.05, 0.05);
            x += change;
            if (std::abs(change) < 1e-13) break;
        }
        if (std::abs(x - t3[i]) < 0.2) t3[i] = x;
    }
    attempted.pivot = recover_all(elimination, near, loop, view, t3, n, found).pivot;
    return attempted;
}

}  // namespace eim
