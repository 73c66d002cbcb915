// Closed curves of a nominal arm, moved to the pose of the actual arm.
//
// Near a singularity, tracing fails, but the curves of the nominal arm are known in closed form. Each of their places
// is corrected to the pose by least squares. Places are added until the cubics between them are accurate.
#pragma once

#include "certify/components.hpp"
#include "manifold/null_space.hpp"

namespace eim {

class MovedCurves {
   public:
    // `task` has no limits.
    MovedCurves(const Chain& chain, const Task& task) : chain_(chain), task_(task) {}

    // Moves a closed curve, given by places and unit tangents of the nominal arm. Returns false if a place moves far,
    // or if a cubic may be inaccurate.
    bool move(const Configurations& places, const Configurations& tangents, Curve& curve) const {
        Place first, last, next;
        for (Index i = 0; i < places.size(); ++i) {
            const bool is_last = i + 1 == places.size();
            if (is_last) {
                next = first;
            } else if (!move(places.row(i), tangents.row(i), next)) {
                return false;
            }
            if (i == 0) {
                first = last = next;
                add(next, curve);
                continue;
            }
            double square = 0.0;
            for (int j = 0; j < 7; ++j) {
                next.q[j] = last.q[j] + difference(next.q[j], last.q[j], task_.bounds.wraps[j]);
                square += (next.q[j] - last.q[j]) * (next.q[j] - last.q[j]);
            }
            if (!is_last && square < kSame * kSame) continue;  // the two sides of a turn
            if (!fill(last, next, kMostHalvings, curve)) return false;
            last = next;
        }
        return curve.n_segments() > 2;
    }

    // Returns the distance of a configuration from the cubics of a curve [rad], at most 1.
    double distance(const Curve& curve, const double* q) const {
        double least = 1.0;
        for (int i = 0; i < curve.n_segments(); ++i) {
            const Segment part = curve.segment(i);
            double away[kMostJoints], s = 0.5;
            for (int j = 0; j < 7; ++j) away[j] = difference(q[j], part.start[j], task_.bounds.wraps[j]);
            const double square = part.closest(away, s);
            if (s > -0.1 && s < 1.1) least = std::min(least, square);
        }
        return std::sqrt(least);
    }

   private:
    static constexpr double kFarthest = 0.05;    // [rad]: largest correction of a joint
    static constexpr double kLeastTurned = 0.5;  // least cosine of the angle between a tangent and its prediction

    // A solution, and the unit tangent of its curve.
    struct Place {
        double q[7], tangent[7];
    };

    // Moves a configuration, and projects a direction onto the tangent there. Returns false if the configuration moves
    // far, or if the direction turns far.
    bool move(const double* from, const double* direction, Place& place) const {
        Rows row(Configurations{7, {from, from + 7}});
        run_rows<7>(chain_, task_, {task_.position_tolerance, task_.orientation_tolerance, 12, 3}, RowJobs::all(row));
        if (!row.converged[0]) return false;
        for (int j = 0; j < 7; ++j) {
            const double away = difference(row.row(0)[j], from[j], task_.bounds.wraps[j]);
            if (!(std::abs(away) <= kFarthest)) return false;
            place.q[j] = from[j] + away, place.tangent[j] = direction[j];
        }
        Kinematics<double, 7> at;
        double y[6], square = 0.0;
        forward<7>(chain_, place.q, at);
        differentiate<7>(chain_, at);
        const double left = to_null_space<7>(chain_, at.jacobian, false, place.tangent, y);
        for (int j = 0; j < 7; ++j) square += direction[j] * direction[j];
        for (double& part : place.tangent) part /= std::sqrt(left);
        return left > kLeastTurned * kLeastTurned * square;
    }

    static void add(const Place& place, Curve& curve) {
        curve.places.add(place.q), curve.tangents.add(place.tangent), curve.numbers.push_back(-1);
    }

    // Adds the places between two places, and the second place. Returns false if a cubic may be inaccurate.
    bool fill(const Place& from, const Place& to, int n_left, Curve& curve) const {
        double chord[7], middle[7], direction[7];
        for (int j = 0; j < 7; ++j) chord[j] = to.q[j] - from.q[j];
        if (is_smooth(chord, from.tangent, to.tangent)) {
            add(to, curve);
            return true;
        }
        static constexpr bool never[kMostJoints] = {};
        const Segment part(7, from.q, from.tangent, 1.0, to.q, to.tangent, 1.0, never);
        Place place;
        for (int j = 0; j < 7; ++j) middle[j] = part.at(j, 0.5), direction[j] = part.slope(j, 0.5);
        return n_left > 0 && move(middle, direction, place) && fill(from, place, n_left - 1, curve) &&
               fill(place, to, n_left - 1, curve);
    }

    const Chain& chain_;
    const Task& task_;
};

}  // namespace eim
