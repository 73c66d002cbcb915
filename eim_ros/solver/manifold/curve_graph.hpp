// Self-motions as a graph of places on curves, with links between successive places. Between two linked places, the
// curve is close to the cubic through both places with the tangents there (Hermite).
#pragma once

#include <array>
#include <vector>

#include "chain/refine.hpp"
#include "selection/distinctness.hpp"

namespace eim {

inline constexpr double kSame = 1e-3;  // [rad, m]: distance from a cubic at which a configuration is on its curve
inline constexpr double kLongestSegment = 0.4;  // [rad, m]: longest step along a curve
// largest distance of a chord from the mean of its tangents, relative to the step
inline constexpr double kMostSkew = 0.03;

// The cubic between two places, with parameter s from 0 to 1.
struct Segment {
    int n_joints;
    // ahead, behind: tangents times length
    double start[kMostJoints], chord[kMostJoints], ahead[kMostJoints], behind[kMostJoints];
    double length;

    // The tangents are unit vectors. A sign is -1 if its tangent points against the direction of the segment.
    Segment(int n_joints, const double* from, const double* from_tangent, double from_sign, const double* to,
            const double* to_tangent, double to_sign, const bool* wraps)
        : n_joints(n_joints) {
        double square = 0.0, turned = 0.0;
        for (int j = 0; j < n_joints; ++j) {
            start[j] = from[j], chord[j] = difference(to[j], from[j], wraps[j]);
            square += chord[j] * chord[j];
            turned += from_sign * to_sign * from_tangent[j] * to_tangent[j];
        }
        length = std::sqrt(square) * (1.0 + (2.0 - 2.0 * turned) / 24.0);
        for (int j = 0; j < n_joints; ++j) {
            ahead[j] = length * from_sign * from_tangent[j], behind[j] = length * to_sign * to_tangent[j];
        }
    }

    double at(int j, double s) const { return start[j] + moved(j, s); }
    double moved(int j, double s) const {
        return s * (s * (3.0 - 2.0 * s) * chord[j] + (1.0 - s) * ((1.0 - s) * ahead[j] - s * behind[j]));
    }
    double slope(int j, double s) const {
        return 6.0 * s * (1.0 - s) * chord[j] + (1.0 - s) * (1.0 - 3.0 * s) * ahead[j] +
               s * (3.0 * s - 2.0) * behind[j];
    }

    // Writes 0, the parameters at which joint j changes its direction, and 1. Returns the number of values.
    int extremes(int j, double (&at)[4]) const {
        const double c = ahead[j], d = behind[j];
        // the slope is c + a2 s + a3 s^2
        const double a3 = 3.0 * (c + d - 2.0 * chord[j]), a2 = 2.0 * (3.0 * chord[j] - 2.0 * c - d);
        int n = 0;
        at[n++] = 0.0;
        const double root = a2 * a2 - 4.0 * a3 * c;
        if (root >= 0.0) {
            const double far = -0.5 * (a2 + std::copysign(std::sqrt(root), a2));
            double first = far / a3, second = c / far;
            if (!(second >= first)) std::swap(first, second);
            for (double s : {first, second}) {
                if (s > at[n - 1] && s < 1.0) at[n++] = s;
            }
        }
        at[n++] = 1.0;
        return n;
    }

    // Computes the parameter s at which the cubic is closest to a place, by iteration from the given s. The place is
    // given as offset `away` from the start of the segment. Returns the squared distance.
    double closest(const double* away, double& s) const {
        double square = 0.0;
        for (int round = 0; round < 3; ++round) {
            double along = 0.0, steepness = 0.0;
            square = 0.0;
            for (int j = 0; j < n_joints; ++j) {
                const double d = away[j] - moved(j, s), slant = slope(j, s);
                along += d * slant, steepness += slant * slant, square += d * d;
            }
            const double step = along / std::max(steepness, 1e-300);
            s = std::clamp(s + step, -0.5, 1.5);
            square = std::max(square - along * step, 0.0);
            if (std::abs(step) < 1e-3) break;
        }
        return square;
    }
};

// Spatial hash of places by three revolute joints. A search for near places compares only a few places.
class TorusCells {
   public:
    static constexpr double kFarthest = 0.5 * kTwoPi / 14;  // places within this distance are found

    // `turns` marks the revolute joints.
    TorusCells(const bool* turns, int n_joints) {
        for (int j = 0; j < n_joints && n_ < 3; ++j) {
            if (turns[j]) joints_[n_++] = j;
        }
        int n_cells = 1;
        for (int d = 0; d < n_; ++d) n_cells *= kCells;
        firsts_.assign(n_cells, -1);
    }

    void add(const double* place) {
        int cell = 0;
        for (int d = 0; d < n_; ++d) cell = cell * kCells + int(scaled(place, d)) % kCells;
        nexts_.push_back(firsts_[cell]), firsts_[cell] = int(nexts_.size()) - 1;
    }

    // Calls visit(index) for all places within kFarthest, and for some places farther away, until visit returns true.
    template <class Visit>
    void for_near(const double* place, Visit visit) const {
        int near[3][2] = {};
        for (int d = 0; d < n_; ++d) {
            const double x = scaled(place, d);
            const int cell = int(x) % kCells, other = x - std::floor(x) < 0.5 ? kCells - 1 : 1;
            near[d][0] = cell, near[d][1] = (cell + other) % kCells;
        }
        for (int k = 0; k < 1 << n_; ++k) {
            int cell = 0;
            for (int d = 0; d < n_; ++d) cell = cell * kCells + near[d][k >> d & 1];
            for (int i = firsts_[cell]; i >= 0; i = nexts_[i]) {
                if (visit(i)) return;
            }
        }
    }

   private:
    static constexpr int kCells = 14;

    double scaled(const double* place, int d) const {
        return (wrapped_angle(place[joints_[d]]) + 1.5 * kTwoPi) * (kCells / kTwoPi);
    }

    int joints_[3] = {}, n_ = 0;
    std::vector<int> firsts_, nexts_;  // first place of each cell, next place after each place; -1 if none
};

// Position of a configuration on a curve.
struct OnCurve {
    int place = -1, side = 0;  // a place, and the side of its segment
    double s = 0.0;            // share of the segment from the place to the configuration
};

class CurveGraph {
   public:
    static constexpr int kOpen = -1;  // side without a link to a known place so far
    static constexpr int kLost = -2;  // side at which tracing failed, for example at a singularity
    static constexpr int kCut = -3;   // side at which a prismatic joint is far beyond its limits
    struct Link {
        int place = kOpen, side = 0;
    };

    CurveGraph(const Bounds<double>& torus, int n_joints)
        : cells_(torus.wraps, n_joints), n_joints_(n_joints), places_{n_joints}, tangents_{n_joints} {
        std::copy_n(torus.wraps, n_joints, wraps_);
        for (Configurations* rows : {&places_, &tangents_}) rows->positions.reserve(kUsualPlaces * n_joints);
        links_.reserve(kUsualPlaces);
    }

    int size() const { return int(links_.size()); }
    const double* place(int i) const { return places_.row(i); }
    const double* tangent(int i) const { return tangents_.row(i); }
    const bool* wraps() const { return wraps_; }
    const Link& link(int i, int side) const { return links_[i][side]; }

    int add(const double* place, const double* tangent) {
        places_.add(place), tangents_.add(tangent), cells_.add(place), links_.emplace_back();
        return size() - 1;
    }
    void join(int a, int side_of_a, int b, int side_of_b) {
        links_[a][side_of_a] = {b, side_of_b}, links_[b][side_of_b] = {a, side_of_a};
    }
    void end(int i, int side, int reason) { links_[i][side] = {reason, 0}; }

    // Returns the segment from one side of a place. The side must have a link.
    Segment segment(int i, int side) const {
        const Link to = links_[i][side];
        return {n_joints_,
                place(i),
                tangent(i),
                side == 1 ? 1.0 : -1.0,
                place(to.place),
                tangent(to.place),
                to.side == 0 ? 1.0 : -1.0,
                wraps_};
    }

    // Returns the first place that a new segment from place `from` passes, or -1.
    int met(const Segment& segment, int from) const {
        double middle[kMostJoints], away[kMostJoints], least = 1.02;
        int found = -1;
        for (int j = 0; j < n_joints_; ++j) middle[j] = segment.at(j, 0.5);
        const double farthest = 0.52 * segment.length + 2.0 * kSame;
        cells_.for_near(middle, [&](int k) {
            if (k == from || !(square_to(middle, k, farthest * farthest) <= farthest * farthest)) return false;
            double s = 0.0;
            for (int j = 0; j < n_joints_; ++j) {
                away[j] = difference(place(k)[j], segment.start[j], wraps_[j]);
                s += away[j] * segment.chord[j];
            }
            s /= segment.length * segment.length;
            if (segment.closest(away, s) > kSame * kSame || s < -0.02 || s > least) return false;
            double along = 0.0, square = 0.0;
            for (int j = 0; j < n_joints_; ++j) {
                const double slant = segment.slope(j, s);
                along += slant * tangent(k)[j], square += slant * slant;
            }
            if (along * along > 0.8 * square) least = s, found = k;
            return false;
        });
        return found;
    }

    // Returns the position on known curves that is closest to a configuration, within a tolerance. The search ends
    // early at a position within `enough`.
    OnCurve where(const double* q, double tolerance, double enough = kSame) const {
        double least = tolerance * tolerance;
        OnCurve best;
        const auto is_enough = [&] { return best.place >= 0 && least <= enough * enough; };
        cells_.for_near(q, [&](int i) {
            double away[kMostJoints], square = 0.0, ahead = 0.0;
            for (int j = 0; j < n_joints_; ++j) {
                away[j] = difference(q[j], place(i)[j], wraps_[j]);
                square += away[j] * away[j], ahead += away[j] * tangent(i)[j];
            }
            if (!(square <= kMostAway * kMostAway)) return false;
            const double aside = std::sqrt(std::max(square - ahead * ahead, 0.0));
            if (aside > kMostBend * std::abs(ahead) + tolerance) return false;
            if (square <= least) best = {i, 0, 0.0}, least = square;
            const int side = ahead >= 0.0;
            if (!is_enough() && links_[i][side].place >= 0) {
                const Segment part = segment(i, side);
                double s = std::abs(ahead) / std::max(part.length, 1e-300);
                const double squared = part.closest(away, s);
                if (squared <= least && s > -0.05 && s < 1.05) best = {i, side, s}, least = squared;
            }
            return is_enough();
        });
        return best;
    }

    // Inserts a place into a segment whose curve passes through the place, although its cubic does not.
    void insert(const OnCurve& at, const double* place, const double* tangent) {
        const Link to = links_[at.place][at.side];
        const Segment part = segment(at.place, at.side);
        double along = 0.0;
        for (int j = 0; j < n_joints_; ++j) along += part.slope(j, at.s) * tangent[j];
        const int side = along > 0.0 ? 0 : 1, added = add(place, tangent);
        join(at.place, at.side, added, side), join(added, 1 - side, to.place, to.side);
    }

   private:
    // largest distance of a configuration on a curve from its nearest place
    static constexpr double kMostAway = 0.55 * kLongestSegment;
    // largest deviation of a curve from its tangent within this distance
    static constexpr double kMostBend = 0.4;
    static_assert(kMostAway < TorusCells::kFarthest);
    static constexpr Index kUsualPlaces = 256;  // number of places for which memory is reserved

    // Returns the squared distance of a configuration from a place. The sum ends when it exceeds `enough`.
    double square_to(const double* q, int i, double enough) const {
        double square = 0.0;
        for (int j = 0; j < n_joints_ && square <= enough; ++j) {
            const double d = difference(q[j], place(i)[j], wraps_[j]);
            square += d * d;
        }
        return square;
    }

    TorusCells cells_;
    int n_joints_;
    bool wraps_[kMostJoints];
    Configurations places_, tangents_;  // tangents: unit vectors
    std::vector<std::array<Link, 2>> links_;
};

}  // namespace eim
