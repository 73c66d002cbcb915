// Self-motions as a graph: places along curves, and which leads to which. Between two of them a curve is close to the
// cubic through both along their tangents (Hermite).
#pragma once

#include <array>
#include <vector>

#include "distinctness.hpp"
#include "refine.hpp"

namespace eim {

inline constexpr double kSame = 1e-3;           // [rad, m]: closer to the cubic between two places is on their curve
inline constexpr double kLongestSegment = 0.4;  // [rad, m]: of a step along a curve

// The cubic from a place to another one, over s from 0 to 1.
struct Segment {
    int n_joints;
    double start[kMostJoints], chord[kMostJoints], ahead[kMostJoints], behind[kMostJoints];  // tangents times length
    double length;

    // By unit tangents and the signs with which they point along.
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

    // Where it comes closest to a place, which is `away` from its start, beginning at s; the squared distance.
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

// Where on a curve a configuration is.
struct OnCurve {
    int place = -1, side = 0;  // on the side of a place where
    double s = 0.0;            // the segment from there has this share behind it
};

class CurveGraph {
   public:
    static constexpr int kOpen = -1;  // a side from which nothing is known to lead on
    static constexpr int kLost = -2;  // where the curve could not be followed, as where it is singular
    static constexpr int kCut = -3;   // where a joint that does not turn has left its limits far behind
    struct Link {
        int place = kOpen, side = 0;
    };

    CurveGraph(const Bounds<double>& torus, int n_joints)
        : known_(torus, n_joints), n_joints_(n_joints), places_{n_joints}, tangents_{n_joints} {
        std::copy_n(torus.wraps, n_joints, wraps_);
    }

    int size() const { return int(links_.size()); }
    const double* place(int i) const { return places_.row(i); }
    const double* tangent(int i) const { return tangents_.row(i); }
    const bool* wraps() const { return wraps_; }
    const Link& link(int i, int side) const { return links_[i][side]; }

    int add(const double* place, const double* tangent) {
        places_.add(place), tangents_.add(tangent), known_.add(place), links_.emplace_back();
        return size() - 1;
    }
    void join(int a, int side_of_a, int b, int side_of_b) {
        links_[a][side_of_a] = {b, side_of_b}, links_[b][side_of_b] = {a, side_of_a};
    }
    void end(int i, int side, int reason) { links_[i][side] = {reason, 0}; }

    // From a place on a side, which has to lead on.
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

    // The place that a segment, not yet part of this, from place `from` meets first, or -1.
    int met(const Segment& segment, int from) const {
        double middle[kMostJoints], away[kMostJoints], least = 1.02;
        int found = -1;
        for (int j = 0; j < n_joints_; ++j) middle[j] = segment.at(j, 0.5);
        known_.for_near(middle, 0.52 * segment.length + 2.0 * kSame, [&](Index k, float) {
            if (k == from) return;
            double s = 0.0;
            for (int j = 0; j < n_joints_; ++j) {
                away[j] = difference(place(int(k))[j], segment.start[j], wraps_[j]);
                s += away[j] * segment.chord[j];
            }
            s /= segment.length * segment.length;
            if (segment.closest(away, s) > kSame * kSame || s < -0.02 || s > least) return;
            double along = 0.0, square = 0.0;
            for (int j = 0; j < n_joints_; ++j) {
                const double slant = segment.slope(j, s);
                along += slant * tangent(int(k))[j], square += slant * slant;
            }
            if (along * along > 0.8 * square) least = s, found = int(k);
        });
        return found;
    }

    // The place on known curves that a configuration is at, but for a tolerance.
    OnCurve where(const double* q, double tolerance) const {
        struct Candidate {
            int place;
            float square;
        };
        constexpr int kMostCandidates = 16;
        Candidate candidates[kMostCandidates];
        int n = 0;
        known_.for_near(q, 0.55 * kLongestSegment, [&](Index i, float square) {
            int last = n < kMostCandidates ? n++ : 0;
            if (n == kMostCandidates && last == 0) {  // in place of the farthest
                for (int c = 1; c < n; ++c) last = candidates[c].square > candidates[last].square ? c : last;
                if (square >= candidates[last].square) return;
            }
            candidates[last] = {int(i), square};
        });
        std::sort(candidates, candidates + n, [](const auto& a, const auto& b) { return a.square < b.square; });
        double away[kMostJoints], least = tolerance * tolerance;
        const double enough = std::min(least, kSame * kSame);
        OnCurve best;
        for (int c = 0; c < n; ++c) {
            const int i = candidates[c].place;
            if (candidates[c].square <= enough) return {i, 0, 0.0};
            double ahead = 0.0;
            for (int j = 0; j < n_joints_; ++j) {
                away[j] = difference(q[j], place(i)[j], wraps_[j]), ahead += away[j] * tangent(i)[j];
            }
            const int side = ahead >= 0.0;
            if (links_[i][side].place < 0) continue;
            const Segment part = segment(i, side);
            double s = std::abs(ahead) / std::max(part.length, 1e-300);
            const double square = part.closest(away, s);
            if (square <= least && s > -0.05 && s < 1.05) best = {i, side, s}, least = square;
            if (least <= enough && best.place >= 0) return best;
        }
        return best;
    }

    // Puts a place into a segment, whose cubic it is not on, but whose curve.
    void insert(const OnCurve& at, const double* place, const double* tangent) {
        const Link to = links_[at.place][at.side];
        const Segment part = segment(at.place, at.side);
        double along = 0.0;
        for (int j = 0; j < n_joints_; ++j) along += part.slope(j, at.s) * tangent[j];
        const int side = along > 0.0 ? 0 : 1, added = add(place, tangent);
        join(at.place, at.side, added, side), join(added, 1 - side, to.place, to.side);
    }

   private:
    Places known_;
    int n_joints_;
    bool wraps_[kMostJoints];
    Configurations places_, tangents_;  // tangents: unit vectors
    std::vector<std::array<Link, 2>> links_;
};

}  // namespace eim
