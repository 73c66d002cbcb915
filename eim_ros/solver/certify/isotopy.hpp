// Proof that an arm with nearly intersecting axes has as many self-motions as its nominal arm.
//
// The nominal arm N places the tip at N(q), and the actual arm at T(d(q)) N(q)
// (`closed_form/redundancy_parameter.hpp`). Consider the arms A_h between them, which place the tip at T(h d(q)) N(q),
// 0 <= h <= 1. The solutions (q, h) of a pose form a compact set. If the Jacobian of A_h has rank 6 at each solution,
// this set is a manifold, and its subsets of constant h are deformations of each other (Ehresmann 1951). Without
// limits, the arm therefore has as many self-motions as the nominal arm.
//
// Each solution of A_h solves N for a pose near the given pose, and thus lies in a cell of a branch. There, N has rank
// 6, because its equations are triangular. They determine q_4, q_3 and q_6, in this order. Let D be the derivative of
// d. Let joint rates Q(u) translate the centre c by u without turning the tip. If |D Q(u)| < |u|, h D Q is a
// contraction. For any motion of the tip, the rates of A_h then follow from those of N by a series. A_h thus has rank 6
// as well.
//
// Part i of d is the gap before axis i, turned by all joints before it. Q does not turn the tip, so the joints after
// the gap turn the gap back. The rate of the gap is therefore bounded by the sum of the joint rates before the gap, and
// also by the sum after it.
//
// The rates of the joints are bounded one after the other, for |u| = 1 and with q_1 at rest. If a root may be 0, q_1
// moves and the joint of the root is at rest instead. The root then becomes the variable of the cell. Near
// singularities, the Jacobian of A_h is bounded directly (`certify/rank.hpp`). The angles of a cell near a singularity
// bound d. There, a smaller range of h bounds the position of the centre more tightly.
//
// The ranges of q_1, of such a root, of h and of d are divided until one of the two bounds suffices. In a cell, the
// wrist positions are -h d. Bounds of d therefore exclude some h, or the complete cell.
#pragma once

#include "certify/rank.hpp"
#include "closed_form/redundancy_parameter.hpp"

namespace eim {

inline constexpr double kMostRate = 0.99;  // largest bound of |D Q|; below 1 to allow for rounding

inline double ParameterisedForm::AtPose::rate_of_gaps(const BranchShape& shape, const EnclosedNear (&roots)[3],
                                                      const EnclosedNear& cosine, const EnclosedNear& sine,
                                                      double along, int branch, int turn) const {
    const ParameterisedForm& f = form_;
    using T = EnclosedNear;
    const auto square = [](const T& a, const T& b) { return products(a, a, b, b); };
    const auto root_of = [](double value) { return std::sqrt(std::max(value, 0.0)); };
    const auto least_size = [](const T& a) { return std::max(std::abs(a.value) - a.radius, 0.0); };

    // factors of the rates: |w|^2 by q_4, h_2 v by q_3, h_5 R_6 h_7 by q_6; lengths across h_2 and h_3, and of h_7
    // across h_5
    const auto least = [&](int i) { return std::max(roots[i].least(), 0.0); };
    const double elbow = 0.5 * f.elbow_.amplitude * least(0), shoulder = f.sine_ * least(1),
                 wrist = f.wrist_.amplitude * least(2);
    const double across_second = root_of(square(shape.w[1], shape.w[2]).least()),
                 across_third = root_of(square(shape.u[1], shape.u[2]).most()),
                 across_fifth = root_of(square(shape.np, shape.nq).least());
    const Sinusoid by[3] = {rates(square_by_[0]), rates(square_by_[1]), rates(square_by_[2])};
    const T of_square = squares(rates(square_), by, cosine, sine);  // |w|^2 by q_1
    const double away = root_of(shape.square.most()), rate = 0.5 * (std::abs(of_square.value) + of_square.radius);

    double q[7] = {};
    const auto follow = [&](double u) {  // rates of q_3 and q_2 if c moves by u, without its motion by q_1, q_4
        if (turn != 1) q[2] = (u + f.radius_ * q[3]) / shoulder;
        q[1] = (u + across_third * q[2] + f.radius_ * q[3]) / across_second;
    };
    const auto turned = [&] { return q[0] + q[1] + q[2] + q[3]; };
    if (turn == 0) {
        q[0] = 2.0 * away / least_size(of_square);
    } else {
        q[3] = away / elbow;
    }
    if (turn == 1) {  // rate of h_2 (w - v) by q_1 with q_3 at rest, times the root of the elbow
        const auto [c, s] = std::pair{shape.c, shape.s};
        const auto by_fourth = [&](int k) { return at_turn<T>(rates(f.upper_[k]), c[1], s[1], f.size_); };
        const Sinusoid by_first[3] = {rates(to_centre_by_[0][0]), rates(to_centre_by_[0][1]),
                                      rates(to_centre_by_[0][2])};
        const T of_w = near_poses(rates(to_centre_[0]), by_first, cosine, sine, f.size_);
        const T of_v = by_fourth(0) * f.along_ + products(by_fourth(1), s[0], by_fourth(2), c[0]) * f.sine_;
        const T product = of_w * roots[0] + of_v * of_square * (sign_in(branch, 0) / f.elbow_.amplitude);
        q[0] = (1.0 + f.radius_ * q[3]) * roots[0].most() / least_size(product);
        q[3] += rate / elbow * q[0];
    }
    follow(1.0 + aside_ * q[0]);
    if (turn == 2) {
        const double first = turned() / along;  // rate of q_1 that keeps h_5 R_6 h_7 at rest
        q[0] = first;
        q[3] += rate / elbow * first;
        follow(1.0 + aside_ * first);
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

// A ball that contains the translations d(q) of a set of configurations.
struct Translations {
    Vector middle;
    double radius;
};

// Returns the wrist positions -h d of the nominal arm for shares h and translations d.
inline Offsets offsets_of(const Shares& shares, const Translations& moved) {
    const double size = length(moved.middle), beside = shares.most * moved.radius * (1.0 + 1e-9),
                 along = (shares.half() * size + beside) * (1.0 + 1e-9);
    const Vector first = size > 0.0 ? moved.middle * (1.0 / size) : Vector{1.0, 0.0, 0.0},
                 some = across({first.y, first.z, first.x}, first),
                 other = length(some) > 0.1 ? some : across({1, 0, 0}, first), second = other * (1.0 / length(other));
    return {moved.middle * -shares.middle(), {first * along, second * beside, cross(first, second) * beside}};
}

// Reduces a range of shares h to those for which -h d, up to `error`, may be among the offsets. Returns false if there
// are none.
inline bool narrow(Shares& shares, const Offsets& offsets, const Translations& moved, double error) {
    for (const Vector& side : offsets.sides) {
        double reach = length(side) * (shares.most * moved.radius + error);
        for (const Vector& other : offsets.sides) reach += std::abs(dot(side, other));
        reach *= 1.0 + 1e-9;
        // |h rate - at| <= reach
        const double rate = dot(side, moved.middle), at = -dot(side, offsets.middle);
        if (std::abs(rate) * 1e6 <= reach) {  // the share hardly matters
            if (std::abs(at) > reach + std::abs(rate)) return false;
            continue;
        }
        const double one = (at - reach) / rate, other = (at + reach) / rate;
        shares.least = std::max(shares.least, std::min(one, other) - 1e-9);
        shares.most = std::min(shares.most, std::max(one, other) + 1e-9);
        if (shares.least > shares.most) return false;
    }
    return true;
}

class Isotopy {
   public:
    Isotopy(const ParameterisedForm& form, const Motion& target) : form_(form), arms_(form), target_(target) {}

    // Whether the arm is proven to have as many self-motions as the nominal arm.
    bool holds() {
        const Part all{{0.0, 1.0}, Offsets::within(form_.gap()), {{}, form_.gap()}};
        const ParameterisedForm::AtPose pose(form_, target_, all.offsets);
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
    using T = EnclosedNear;
    static constexpr double kFirst = 0.2;  // [rad]
    static constexpr int kMostLooks = 12000, kMostPartings = 5;
    static constexpr double kNarrowest = 1e-6;                 // [rad]
    static constexpr double kSmaller = 0.7, kSmallest = 1e-2;  // ratio of successive offsets; least ratio to the gap

    // A range of the arms A_h, the range of wrist positions of the nominal arm, and the translations between both arms.
    struct Part {
        Shares shares;
        Offsets offsets;
        Translations moved;
    };

    struct View {
        bool is_empty = false, is_open = false;
        int turn = -1, n_squares = 0;
        bool has_angle[7] = {}, has_direction[7] = {true};
        int given = -1;  // index of the root that is the first variable, or -1
        double least_root = 0.0, most_root = 0.0;
        T squares[3], roots[3], angles[7], sines[7], cosines[7];
        BranchShape shape;

        bool root(int number, const T& of, T& root) {
            if (is_empty = of.most() < 0.0; is_empty) return false;
            root = square_root(of);
            if (number == given || of.least() <= 0.0) is_open |= turn >= 0, turn = turn < 0 ? number : turn;
            if (number == given) {
                const double middle = 0.5 * (least_root + most_root), radius = 0.5 * (most_root - least_root);
                root = enclosed(middle, 0.0, WideDouble{radius}, WideDouble{}, radius);
            }
            squares[number] = of, roots[number] = root, n_squares = number + 1;
            return true;
        }
        bool angle(int number, const T& y, const T& x) {
            sines[number] = y, cosines[number] = x, has_angle[number] = true;
            return true;
        }
        bool direction(int number, const T& y, const T& x, T& cosine, T& sine) {
            if (!enclose_angle(y, x, angles[number])) {
                is_open |= number != 4;  // bounds of rates do not need the later joints
                return false;
            }
            has_direction[number] = true;
            enclose_turn(angles[number], cosine, sine);
            return true;
        }

        // Computes the ranges of all angles from angles[0]. Returns false if some ranges are unknown.
        bool box(AngleBox& box) {
            bool is_bounded = true;
            for (int i = 0; i < 7; ++i) {
                const bool is_known =
                    has_direction[i] || (has_angle[i] && enclose_angle(sines[i], cosines[i], angles[i]));
                box.middle[i] = is_known ? angles[i].value : 0.0, box.radius[i] = is_known ? angles[i].radius : kPi;
                is_bounded &= is_known;
            }
            return is_bounded;
        }
        // Returns the variable on which the bounds depend most. Squares after a root that may be 0 are ignored, because
        // bounds of rates are unknown there.
        int widest() const {
            WideDouble parts{};
            for (int i = 0; i < (turn < 0 ? n_squares : turn + 1); ++i) {
                parts += (absolute(squares[i].slope) + squares[i].spread) / std::max(squares[i].radius, 1e-300);
            }
            int widest = 0;
            for (int k = 1; k < 4; ++k) widest = parts[k] > parts[widest] ? k : widest;
            return widest;
        }
    };

    // Whether the bounds of the rates suffice. If no root may be 0, the joint of the smallest root may also be kept at
    // rest.
    static bool is_slow(const ParameterisedForm::AtPose& pose, const View& view, const T& cosine, const T& sine,
                        double along, int branch) {
        if (view.is_open) return false;
        const auto is_slow_for = [&](int number) {
            return pose.rate_of_gaps(view.shape, view.roots, cosine, sine, along, branch, number) < kMostRate;
        };
        if (is_slow_for(view.turn)) return true;
        if (view.turn >= 0) return false;
        const auto least = [&](int i, int j) { return view.roots[i].value < view.roots[j].value ? i : j; };
        return is_slow_for(least(least(0, 1), 2));
    }
    // Returns the least rate of h_5 R_6 h_7 with respect to the parameter.
    static double along(const View& view, double half) {
        return std::max(std::abs(view.shape.level.slope[0]) - view.shape.level.spread[0], 0.0) / half;
    }

    bool holds(const ParameterisedForm::AtPose& pose, Part part, int branch, double from, double to) {
        if (++n_cells_ > kMostLooks) return false;
        const double middle = 0.5 * (from + to), half = 0.5 * (to - from) * (1.0 + 1e-9) + 1e-15;
        const EnclosedTurnOf<double, WideDouble> turn(middle, half);
        View view;
        pose.walk<T>(turn.cosine, turn.sine, branch, view);
        if (view.is_empty || is_slow(pose, view, turn.cosine, turn.sine, along(view, half), branch)) return true;
        view.angles[0] = enclosed(middle, 0.0, WideDouble{half}, WideDouble{}, half);
        AngleBox box;
        const bool is_bounded = view.box(box);
        if (!narrow(part, pose, box)) return true;
        if (is_bounded && arms_.have_full_rank(box, part.shares)) return true;
        if (view.turn >= 0 && view.squares[view.turn].is_monotone()) {
            const double most = std::sqrt(std::max(view.squares[view.turn].most(), 0.0)) * (1.0 + kWidened);
            if (holds_for(pose, part, view, branch, middle, half, 0.0, most, kMostPartings)) return true;
        }
        const int widest = view.widest();
        if (widest > 0) return holds_for_halves(part, widest - 1, branch, from, to);
        return to - from > kNarrowest && holds(pose, part, branch, from, middle) &&
               holds(pose, part, branch, middle, to);
    }

    // Like `holds`, for a range of a root that may be 0. This root becomes the first variable, and determines q_1. The
    // range is halved until the bounds suffice.
    bool holds_for(const ParameterisedForm::AtPose& pose, Part part, const View& cell, int branch, double middle,
                   double half, double least, double most, int n_partings) {
        ++n_cells_;
        // q_1 = middle + half t, where square(t) = root^2. Outside the cell, the square is continued linearly.
        const T& square = cell.squares[cell.turn];
        const double root = 0.5 * (least + most), own = 0.5 * (most - least), slope = square.slope[0],
                     steep = std::abs(slope) - square.spread[0], uncertain = square.spread[0] / steep;
        const double t = (root * root - square.value) / slope,
                     error = (square.error + square.spread[0] * std::abs(t)) / steep * (1.0 + 1e-9) +
                             1e-14 * (1.0 + std::abs(t));
        WideDouble rates = square.slope * (-1.0 / slope), off = square.spread / steep + absolute(rates) * uncertain;
        rates[0] = 2.0 * root * own / slope;
        off[0] = (2.0 * own * own + 2.0 * root * own * uncertain) / steep;
        off = off * (1.0 + 1e-9) + 1e-15;
        const T time = enclosed(t, error, rates, off, kUnknown);
        if (time.least() > 1.0 + 1e-9 || time.most() < -1.0 - 1e-9) return true;
        View view;
        view.given = cell.turn, view.least_root = least, view.most_root = most;
        view.angles[0] = time * half + middle;
        T cosine, sine;
        enclose_turn(view.angles[0], cosine, sine);
        pose.walk<T>(cosine, sine, branch, view);
        if (view.is_empty || is_slow(pose, view, cosine, sine, along(cell, half), branch)) return true;
        AngleBox box;
        const bool is_bounded = view.box(box);
        if (!narrow(part, pose, box) || (is_bounded && arms_.have_full_rank(box, part.shares))) return true;
        return n_partings > 0 && holds_for(pose, part, cell, branch, middle, half, least, root, n_partings - 1) &&
               holds_for(pose, part, cell, branch, middle, half, root, most, n_partings - 1);
    }

    // Reduces a part to the arms whose wrist positions may be among the offsets, for angles in a box. Returns false if
    // there are none.
    bool narrow(Part& part, const ParameterisedForm::AtPose& pose, const AngleBox& box) const {
        Translations moved;
        moved.middle = arms_.translation(box, pose.rotation(), moved.radius);
        if (moved.radius < part.moved.radius) part.moved = moved;
        return eim::narrow(part.shares, part.offsets, part.moved, 1e-14 * form_.size());
    }
    // Whether the two sets have no translation in common.
    static bool are_apart(const Offsets& a, const Offsets& b) {
        const Vector between = b.middle - a.middle;
        return std::any_of(a.sides, a.sides + 3, [&](const Vector& side) {
            double reach = dot(side, side);
            for (const Vector& other : b.sides) reach += std::abs(dot(side, other));
            return std::abs(dot(side, between)) > reach * (1.0 + 1e-9);
        });
    }

    // Like `holds`, for smaller offsets. They follow from the shares, or from both halves of the shares. If neither are
    // much smaller, the offsets are halved.
    bool holds_for_halves(const Part& part, int side, int branch, double from, double to) {
        for (const int n : {1, 2}) {
            Part parts[2] = {part, part};
            bool is_closer = true;
            for (int k = 0; k < n && is_closer; ++k) {
                Shares& shares = parts[k].shares;
                if (n == 2) (k == 0 ? shares.most : shares.least) = part.shares.middle();
                parts[k].offsets = offsets_of(shares, part.moved);
                is_closer = parts[k].offsets.reach() < kSmaller * part.offsets.reach();
            }
            if (!is_closer) continue;
            return std::all_of(parts, parts + n, [&](const Part& less) {
                return are_apart(part.offsets, less.offsets) || holds_at(less, branch, from, to);
            });
        }
        if (part.offsets.reach() < kSmallest * form_.gap()) return false;
        for (const double sign : {-1.0, 1.0}) {
            Part half = part;
            Vector& of = half.offsets.sides[side];
            of = of * (0.5 * (1.0 + 1e-9)), half.offsets.middle = half.offsets.middle + of * sign;
            if (!holds_at(half, branch, from, to)) return false;
        }
        return true;
    }
    bool holds_at(const Part& part, int branch, double from, double to) {
        return holds(ParameterisedForm::AtPose(form_, target_, part.offsets), part, branch, from, to);
    }

    const ParameterisedForm& form_;
    const ArmsBetween arms_;
    const Motion target_;
    int n_cells_ = 0;
};

}  // namespace eim
