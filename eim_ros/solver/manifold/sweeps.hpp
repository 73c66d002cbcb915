// Self-motions as curves, for arms with a closed form at poses where one angle is free (see `Sweep`).
//
// A value of the free angle has solutions if its level is within [-1, 1]. The values with solutions form the full
// circle, or one or two arcs. On an arc, the free angle is middle + half cos(t). While t goes from 0 to 2 pi, the
// solution moves once around a closed curve. It has the first sign up to pi, and the second sign afterwards. The curve
// is smooth at the ends of the arc, where both signs meet.
#pragma once

#include "closed_form/finite_solutions.hpp"
#include "manifold/components.hpp"

namespace eim {

// Smallest difference of the absolute extreme of a level from 1. If the difference is smaller, the extreme may be above
// or below 1, and curves may cross there.
inline constexpr double kClearLevel = 1e-7;
inline constexpr int kFirstParts = 32, kMostHalvingsOfPart = 14;  // numbers of initial parts, and of halvings of a part
inline constexpr double kLongestPart = 0.3;                       // [rad]
inline constexpr double kExactPart = 2e-7;  // [rad]: largest distance of a part's middle from its cubic

// The values of the free angle from middle - half to middle + half. The full circle has half = pi.
struct Arc {
    double middle, half;
};

// Adds the arcs of a sweep. Returns false if the existence of an arc is undecided.
inline bool add_arcs(const Sweep& sweep, std::vector<Arc>& arcs) {
    const Sinusoid& level = sweep.level;
    const double amplitude = level.amplitude(), phase = portable::atan2(level.sine, level.cosine);
    const double most = level.constant + amplitude, least = level.constant - amplitude;
    if (!sweep.has_signs) return arcs.push_back({0.0, kPi}), true;
    if (most < -1.0 - kClearLevel || least > 1.0 + kClearLevel) return true;
    for (const double extreme : {most, least}) {
        if (std::abs(std::abs(extreme) - 1.0) <= kClearLevel) return false;
    }
    if (most < 1.0 && least > -1.0) return arcs.push_back({0.0, kPi}), true;
    const auto away = [&](double value) {
        return portable::acos(std::clamp((value - level.constant) / amplitude, -1.0, 1.0));
    };
    const double first = most > 1.0 ? away(1.0) : 0.0, last = least < -1.0 ? away(-1.0) : kPi;
    if (first == 0.0) {
        arcs.push_back({phase, last});
    } else if (last == kPi) {
        arcs.push_back({phase + kPi, kPi - first});
    } else {
        const double middle = 0.5 * (first + last), half = 0.5 * (last - first);
        arcs.push_back({phase + middle, half}), arcs.push_back({phase - middle, half});
    }
    return true;
}

// Traces a closed curve by parts that are close to cubics. The curve is a function of t from 0 to 2 pi.
template <class At>
class ClosedCurve {
   public:
    ClosedCurve(int n_joints, At at) : at_(at), curve_{{n_joints}, {n_joints}, {}, true} {}

    // Traces the curve. Returns whether all parts are close enough to their cubics.
    bool run() {
        Place from = place(0.0, nullptr);
        add(from);
        const Place first = from;
        bool is_close = true;
        for (int k = 1; k <= kFirstParts; ++k) {
            const Place to = place(k * (2.0 * kPi / kFirstParts), from.q);
            is_close &= follow(from, to, 0);
            from = to;
        }
        for (int j = 0; j < n(); ++j) {  // the last place is the first place after full revolutions
            double* q = curve_.places.row(curve_.places.size() - 1);
            q[j] = first.q[j] + 2.0 * kPi * std::round((q[j] - first.q[j]) / (2.0 * kPi));
            curve_.tangents.row(curve_.tangents.size() - 1)[j] = first.tangent[j];
        }
        return is_close;
    }
    Curve& curve() { return curve_; }

   private:
    struct Place {
        double t, q[kMostJoints], tangent[kMostJoints];
    };

    int n() const { return curve_.places.n_joints; }

    // Returns the place at t, in the revolutions nearest to a known place.
    Place place(double t, const double* known) const {
        constexpr double kStep = 1e-4;
        Place at{t};
        double ahead[kMostJoints], behind[kMostJoints], square = 0.0;
        at_(t, at.q), at_(t + kStep, ahead), at_(t - kStep, behind);
        for (int j = 0; j < n(); ++j) {
            if (known) at.q[j] = known[j] + difference(at.q[j], known[j], true);
            at.tangent[j] = difference(ahead[j], behind[j], true);
            square += at.tangent[j] * at.tangent[j];
        }
        for (int j = 0; j < n(); ++j) at.tangent[j] /= std::max(std::sqrt(square), 1e-300);
        return at;
    }

    void add(const Place& at) {
        curve_.places.add(at.q), curve_.tangents.add(at.tangent), curve_.numbers.push_back(-1);
    }

    // Adds places up to the end of a part. If the cubic is not close enough, the part is halved first.
    bool follow(const Place& from, const Place& to, int n_halved) {
        static constexpr bool never[kMostJoints] = {};
        const Place middle = place(0.5 * (from.t + to.t), from.q);
        const Segment part{n(), from.q, from.tangent, 1.0, to.q, to.tangent, 1.0, never};
        double s = 0.5, away[kMostJoints];
        for (int j = 0; j < n(); ++j) away[j] = middle.q[j] - part.start[j];
        const double off = std::sqrt(part.closest(away, s));
        if (part.length <= kLongestPart && off <= kExactPart) return add(to), true;
        if (n_halved == kMostHalvingsOfPart) return add(to), false;
        const bool is_close = follow(from, middle, n_halved + 1);
        Place end = to;
        for (int j = 0; j < n(); ++j) end.q[j] = middle.q[j] + difference(to.q[j], middle.q[j], true);
        return follow(middle, end, n_halved + 1) && is_close;
    }

    At at_;
    Curve curve_;
};

// Adds the closed curves of all sweeps to `components`. Returns whether the curves are certain.
inline bool add_curves(const Candidates& candidates, const SixJoints& part, double held, CurveComponents& components) {
    bool is_certain = true;
    for (const Sweep& sweep : candidates.sweeps) {
        std::vector<Arc> arcs;
        is_certain &= add_arcs(sweep, arcs);
        for (const Arc& arc : arcs) {
            const bool is_circle = arc.half == kPi;
            for (const double sign : {1.0, -1.0}) {
                if (sign < 0.0 && (!is_circle || !sweep.has_signs)) continue;
                const auto at = [&](double t, double* q) {
                    double six[6];
                    const double turned = portable::sin(t) < 0.0 ? -1.0 : 1.0;
                    sweep.at(is_circle ? t : arc.middle + arc.half * portable::cos(t), is_circle ? sign : turned, six);
                    if (part.held >= 0) q[part.held] = held;
                    for (int i = 0; i < 6; ++i) q[part.joint(i)] = six[i];
                };
                ClosedCurve curve(part.held >= 0 ? 7 : 6, at);
                is_certain &= curve.run();
                components.add(std::move(curve.curve()));
            }
        }
    }
    return is_certain;
}

}  // namespace eim
