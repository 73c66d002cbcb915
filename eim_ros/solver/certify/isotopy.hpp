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
// Part i of d is the gap before axis i, turned by all joints before it. As Q does not turn the tip, the joints after it
// turn the gap back, so its rate is bounded by either sum of rates.
//
// Rates of joints are bounded one after the other, for |u| = 1, with q_1 at rest. Where a root may be 0, its joint is
// at rest instead, and q_1 moves. Cells of q_1, of a root that may be 0, and of the translation of the pose are divided
// until the bounds suffice.
#pragma once

#include "closed_form/redundancy_parameter.hpp"

namespace eim {

inline constexpr double kMostRate = 0.99;  // largest bound of |D Q|, below 1 because it is rounded

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
                                                      cosine, sine, off_, off_);
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
    double all = 0.0, before = 0.0, sum = 0.0;
    for (const double rate : q) all += rate;
    for (int i = 0; i < 7; ++i) {
        if (f.gaps_[i] > 0.0) sum += f.gaps_[i] * std::min(before, all - before);
        before += q[i];
    }
    return sum;
}

class Isotopy {
   public:
    Isotopy(const ParameterisedForm& form, const Motion& target) : form_(form), target_(target) {}

    // Whether the arm is known to have as many self-motions as the nominal one.
    bool holds() {
        const Balls all{{}, form_.gap(), form_.gap(), 0};
        const ParameterisedForm::AtPose pose(form_, target_, {}, form_.gap());
        const int n_first = int(std::ceil(kTwoPi / kFirst));
        for (int branch = 0; branch < kHeldBranches; ++branch) {
            for (int k = 0; k < n_first; ++k) {
                if (!holds(pose, all, branch, kTwoPi * k / n_first - kPi, kTwoPi * (k + 1) / n_first - kPi)) {
                    return false;
                }
            }
        }
        return true;
    }
    int n_cells() const { return n_cells_; }

   private:
    static constexpr double kFirst = 0.2;  // [rad]
    static constexpr int kMostLooks = 20000, kMostPartings = 5, kMostDivisions = 2;
    // [rad]: cells narrower than this, times the relative radius of the translations, depend on these instead
    static constexpr double kNarrow = 0.5;

    // Translations within a cube, and within a radius of its centre.
    struct Balls {
        Vector centre;
        double half, radius;
        int n_divisions;
    };

    struct View {
        bool is_empty = false, is_open = false;
        int turn = -1, n_squares = 0;
        int given = -1;  // number of a root that is given by a range, or -1
        double least_root = 0.0, most_root = 0.0;
        Enclosed squares[3], roots[3];
        BranchShape shape;

        bool root(int number, const Enclosed& of, Enclosed& root) {
            if (is_empty = of.most() < 0.0; is_empty) return false;
            root = square_root(of);
            if (number == given || of.least() <= 0.0) is_open |= turn >= 0, turn = turn < 0 ? number : turn;
            if (number == given) {
                const double middle = 0.5 * (least_root + most_root), radius = 0.5 * (most_root - least_root);
                root = {middle, radius, 0.0, kUnknown, radius * (1.0 + kWidened)};
            }
            squares[number] = of, roots[number] = root, n_squares = number + 1;
            return true;
        }
        bool angle(int, const Enclosed&, const Enclosed&) { return true; }
        bool direction(int, const Enclosed& y, const Enclosed& x, Enclosed& cosine, Enclosed& sine) {
            Enclosed angle;
            if (!enclose_angle(y, x, angle)) {
                is_open = true;
                return false;
            }
            enclose_turn(angle, cosine, sine);
            return true;
        }
    };

    // Whether bounds of a view suffice. Without a root that may be 0, the joint of the least one may be at rest, too.
    static bool suffices(const ParameterisedForm::AtPose& pose, const View& view, const EnclosedTurn& turn, double half,
                         int branch) {
        if (view.is_empty) return true;
        if (view.is_open) return false;
        const auto is_slow = [&](int number) {
            return pose.rate_of_gaps(view.shape, view.roots, turn.cosine, turn.sine, half, branch, number) < kMostRate;
        };
        if (is_slow(view.turn)) return true;
        if (view.turn >= 0) return false;
        const auto least = [&](int i, int j) { return view.roots[i].value < view.roots[j].value ? i : j; };
        return is_slow(least(least(0, 1), 2));
    }

    bool holds(const ParameterisedForm::AtPose& pose, const Balls& balls, int branch, double from, double to) {
        if (++n_cells_ > kMostLooks) return false;
        const double middle = 0.5 * (from + to), half = 0.5 * (to - from) * (1.0 + 1e-9) + 1e-15;
        const EnclosedTurn turn(middle, half);
        View view;
        pose.walk<Enclosed>(turn.cosine, turn.sine, branch, view);
        if (suffices(pose, view, turn, half, branch)) return true;
        if (view.turn >= 0 && view.squares[view.turn].is_monotone()) {
            const double most = std::sqrt(std::max(view.squares[view.turn].most(), 0.0)) * (1.0 + kWidened);
            if (holds_for(pose, view, branch, middle, half, 0.0, most, kMostPartings)) return true;
        }
        if (to - from > kNarrow * balls.radius / form_.size()) {
            return holds(pose, balls, branch, from, middle) && holds(pose, balls, branch, middle, to);
        }
        return holds_for_parts(balls, branch, from, to);
    }

    // The same for a range of the root that may be 0, which is halved until the angles are known well.
    bool holds_for(const ParameterisedForm::AtPose& pose, const View& cell, int branch, double middle, double half,
                   double least, double most, int n_partings) {
        ++n_cells_;
        // the part of the cell where the root may be in this range
        const Enclosed& square = cell.squares[cell.turn];
        const double slope = std::abs(square.slope), off = (square.error + square.spread) * (1.0 + kWidened);
        const double begin = std::max((least * least - off - square.value) / slope - 1e-9, -1.0),
                     end = std::min((most * most + off - square.value) / slope + 1e-9, 1.0);
        if (!(begin < end)) return true;
        const double sign = square.slope > 0.0 ? 1.0 : -1.0, own = 0.5 * (end - begin) * half * (1.0 + 1e-9) + 1e-15;
        const EnclosedTurn turn(middle + sign * 0.5 * (begin + end) * half, own);
        View view;
        view.given = cell.turn, view.least_root = least, view.most_root = most;
        pose.walk<Enclosed>(turn.cosine, turn.sine, branch, view);
        if (suffices(pose, view, turn, own, branch)) return true;
        const double between = 0.5 * (least + most);
        return n_partings > 0 && holds_for(pose, cell, branch, middle, half, least, between, n_partings - 1) &&
               holds_for(pose, cell, branch, middle, half, between, most, n_partings - 1);
    }

    // The same for parts of the translations.
    bool holds_for_parts(const Balls& balls, int branch, double from, double to) {
        if (balls.n_divisions == kMostDivisions) return false;
        const int n = balls.n_divisions == 0 ? 3 : 2;
        Balls part{{}, balls.half / n * (1.0 + 1e-9), 0.0, balls.n_divisions + 1};
        part.radius = std::sqrt(3.0) * part.half * (1.0 + 1e-9);
        for (int i = 0; i < n * n * n; ++i) {
            const auto at = [&](int k) { return balls.half * (double(2 * k + 1) / n - 1.0); };
            part.centre = balls.centre + Vector{at(i % n), at(i / n % n), at(i / (n * n))};
            if (length(part.centre) - part.radius > form_.gap()) continue;
            const ParameterisedForm::AtPose pose(form_, target_, part.centre, part.radius);
            if (!holds(pose, part, branch, from, to)) return false;
        }
        return true;
    }

    const ParameterisedForm& form_;
    const Motion target_;
    int n_cells_ = 0;
};

}  // namespace eim
