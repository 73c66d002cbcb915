// Proof that an arm whose axes nearly meet has as many self-motions as its nominal arm.
//
// The nominal arm N places the tip at N(q), the arm at T(d(q)) N(q) (`closed_form/redundancy_parameter.hpp`). Consider
// all arms A_h between them, which place it at T(h d(q)) N(q), 0 <= h <= 1. Their solutions (q, h) of a pose form a
// compact set. If the Jacobian of A_h has rank 6 at all of them, the set is a manifold, and its sets of constant h are
// deformed into each other (Ehresmann 1951). So the arm has as many self-motions as the nominal one, without limits.
//
// Each solution is one of N for a pose near the given one, so it is in a cell of a branch. There, N has rank 6, because
// its equations are triangular: |w|^2 determines q_4, then q_3 follows, then q_6. Let joint rates Q(u) translate the
// centre c by u and do not turn the tip. If |D Q(u)| < |u|, where D is the derivative of d, the rates of A_h for any
// motion of the tip follow from those of N by a series, because h D Q is a contraction. So the rank is 6, too.
//
// Rates of joints are bounded one after the other, for |u| = 1, with q_1 at rest. Where a root is 0, its joint is at
// rest instead, and q_1 moves.
#pragma once

#include "closed_form/redundancy_parameter.hpp"

namespace eim {

inline constexpr double kMostRate = 0.9;  // largest bound of |D Q|, below 1 because it is rounded

inline double ParameterisedForm::AtPose::rate_of_gaps(const BranchShape& shape, const Enclosed (&roots)[3],
                                                      const Enclosed& cosine, const Enclosed& sine, double half,
                                                      int branch, int turn) const {
    const ParameterisedForm& f = form_;
    const auto square = [](const Enclosed& a, const Enclosed& b) { return products(a, a, b, b); };
    const auto root_of = [](double value) { return std::sqrt(std::max(value, 0.0)); };
    const auto least_size = [](const Enclosed& a) { return std::max(std::abs(a.value) - a.radius, 0.0); };
    const auto least_rate = [half](const Enclosed& a) { return std::max(std::abs(a.slope) - a.spread, 0.0) / half; };

    // factors of the rates: |w|^2 by q_4, h_2 v by q_3, h_5 R_6 h_7 by q_6; lengths across h_2, h_3, and of h_7 on h_5
    const auto least = [&](int i) { return std::max(roots[i].least(), 0.0); };
    const double elbow = 0.5 * f.elbow_.amplitude * least(0), shoulder = f.sine_ * least(1),
                 wrist = f.wrist_.amplitude * least(2);
    const double across_second = root_of(square(shape.w[1], shape.w[2]).least()),
                 across_third = root_of(square(shape.u[1], shape.u[2]).most()),
                 across_fifth = root_of(square(shape.np, shape.nq).least());
    const double away = root_of(shape.square.most()),
                 rate = 0.5 * (std::abs(shape.square.slope) + shape.square.spread) / half;  // of |w|^2 / 2 by q_1

    double q[7] = {};
    const auto follow = [&](double u) {  // rates of q_3 and q_2 for a motion of c by u at most, in addition to q_1, q_4
        if (turn != 1) q[2] = (u + f.radius_ * q[3]) / shoulder;
        q[1] = (u + across_third * q[2] + f.radius_ * q[3]) / across_second;
    };
    const auto turned = [&] { return q[0] + q[1] + q[2] + q[3]; };
    if (turn == 0) {
        q[0] = 2.0 * away / least_rate(shape.square);
    } else {
        q[3] = away / elbow;
    }
    if (turn == 1) {  // the rate of h_2 (w - v) by q_1 while q_3 rests, times the root of the elbow
        const auto [c, s] = std::pair{shape.c, shape.s};
        const auto rates = [](const Sinusoid& of) { return Sinusoid{0.0, of.sine, -of.cosine}; };
        const auto by_fourth = [&](int k) { return at_turn<Enclosed>(rates(f.upper_[k]), c[1], s[1], f.size_); };
        const Enclosed of_w = of_near_poses<Enclosed>(at_turn<Enclosed>(rates(to_centre_[0]), cosine, sine, f.size_),
                                                      cosine, sine, f.gap_, f.gap_);
        const Enclosed of_square = of_near_poses<Enclosed>(
            at_turn<Enclosed>(rates(square_), cosine, sine, f.size_ * f.size_), cosine, sine, off_rate_, off_rate_);
        const Enclosed of_v = by_fourth(0) * f.along_ + products(by_fourth(1), s[0], by_fourth(2), c[0]) * f.sine_;
        const Enclosed product = of_w * roots[0] + of_v * of_square * (sign_in(branch, 0) / f.elbow_.amplitude);
        q[0] = (1.0 + f.radius_ * q[3]) * roots[0].most() / least_size(product);
        q[3] += rate / elbow * q[0];
    }
    follow(1.0 + aside_ * q[0]);
    if (turn == 2) {
        const double along = turned() / least_rate(shape.level);  // of q_1, so that h_5 R_6 h_7 rests
        q[0] = along;
        q[3] += rate / elbow * along;
        follow(1.0 + aside_ * along);
        q[4] = q[6] = turned() / across_fifth;
    } else {
        q[4] = q[5] = q[6] = turned() / wrist;
    }
    double sum = 0.0;
    for (int i = 0; i < 7; ++i) sum += f.rates_[i] * q[i];
    return sum;
}

}  // namespace eim
