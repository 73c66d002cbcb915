// Proof that no arm between a nominal arm and the actual arm is singular in a box of joint angles.
//
// Arm A_h has the axes of the nominal arm, moved by h times the gaps (`certify/isotopy.hpp`). The axes of A_h are
// expressed in the frame of the link between joints 2 and 3, counted from 0. Moments are taken about a point of axis 3.
// In this frame, an axis depends only on the joints between it and the link.
//
// Let J (6 x 7) have these lines as columns at the middle of the box, and let J P = 1. Over the box, line i changes by
// at most w_i. Let J' be the matrix of any configuration in the box. If the sum of w_i |row i of P| is below 1, J' P is
// invertible, and J' has rank 6.
#pragma once

#include "closed_form/redundancy_parameter.hpp"
#include "numerics/portable.hpp"

namespace eim {

// Ranges of the joint angles, middle +- radius [rad], in the order in which the form reads the joints.
struct AngleBox {
    double middle[7] = {}, radius[7] = {};
};

// A range of h, the share of the gaps.
struct Shares {
    double least, most;

    double middle() const { return 0.5 * (least + most); }
    double half() const { return 0.5 * (most - least) * (1.0 + 1e-15); }
};

class ArmsBetween {
   public:
    explicit ArmsBetween(const ParameterisedForm& form) : form_(form) {
        const Line* axes = form.axes();
        const Vector centre = form.centre(), corner = form.corner();
        about_ = axes[3].foot(centre);
        const double to_corner = length(corner - about_), to_centre = length(centre - about_);
        for (int i = 0; i < 7; ++i) {
            reach_[i] = (i < 3 ? to_corner : i > 3 ? to_centre : 0.0) + form.gap();
            points_[i] = i == 3 ? about_ : i < 3 ? corner : centre;
        }
        points_[0] = axes[0].foot(corner);
        reach_[0] += length(points_[0] - corner);
        unit_ = 0.5 * (to_corner + to_centre) + form.gap();
    }

    // Whether all arms with these shares of the gaps have rank 6 everywhere in the box.
    bool have_full_rank(const AngleBox& box, const Shares& shares) const {
        double j[7][6], sizes[7], p[7][6];
        lines(box.middle, shares.middle(), j), changes(box, shares, sizes);
        if (!right_inverse(j, p)) return false;
        double sum = 0.0, residual = 0.0;
        for (int i = 0; i < 7; ++i) {
            double square = 0.0;
            for (const double entry : p[i]) square += entry * entry;
            sum += sizes[i] * std::sqrt(square);
        }
        for (int a = 0; a < 6; ++a) {
            for (int b = 0; b < 6; ++b) {
                double entry = a == b ? -1.0 : 0.0;
                for (int i = 0; i < 7; ++i) entry += j[i][a] * p[i][b];
                residual += entry * entry;
            }
        }
        return sum + std::sqrt(residual) < kMostChange;
    }

    // Encloses the translation from the nominal arm's tip to the actual arm's tip. Returns the middle of a ball that
    // contains it, and sets `off` to the radius. `rotation` is the rotation of the pose (`ParameterisedForm::AtPose`).
    Vector translation(const AngleBox& box, const Motion& rotation, double& off) const {
        const Vector* gaps = form_.gap_vectors();
        const double *r = box.radius, *sizes = form_.gaps();
        const auto turn = [&](int i, const Vector& v, double sign) {
            return turned(v, form_.axes()[i].direction, sign * box.middle[i]);
        };
        off = 1e-12 * form_.size();
        // a gap that turns far is only known by its size
        const auto known = [&](int gap, double angle) {
            off += sizes[gap] * std::min(angle, 1.0) * (1.0 + 1e-9);
            return angle < 1.0 ? gaps[gap] : Vector{};
        };
        const Vector second = known(2, r[0] + r[1]), fifth = known(5, r[5] + r[6]), sixth = known(6, r[6]);
        return turn(0, turn(1, second, 1.0), 1.0) + rotation.turn(turn(6, turn(5, fifth, -1.0) + sixth, -1.0));
    }

    // Bounds the change of each line over the box and the shares.
    void changes(const AngleBox& box, const Shares& shares, double (&sizes)[7]) const {
        for (const int way : {1, -1}) {
            double away = 0.0;
            for (int i = way > 0 ? 3 : 2; i >= 0 && i < 7; i += way) {
                const double moment = (away * reach_[i] + shares.half() * form_.gap()) / unit_;
                sizes[i] = std::sqrt(away * away + moment * moment) * (1.0 + 1e-12) + kRounded;
                away += box.radius[i];
            }
        }
    }

    // Computes the axes as lines in the frame of the middle link: unit direction, and moment in units of `unit()`.
    void lines(const double (&q)[7], double share, double (&j)[7][6]) const {
        const Vector* gaps = form_.gap_vectors();
        const Vector moved[7] = {gaps[2] * -share, gaps[2] * -share,           {}, {}, {},
                                 gaps[5] * share,  (gaps[5] + gaps[6]) * share};
        for (const int way : {1, -1}) {
            Vector rows[3] = {{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}}, offset{};  // x -> rows x + offset
            const auto turn = [&](const Vector& v) {
                return Vector{dot(rows[0], v), dot(rows[1], v), dot(rows[2], v)};
            };
            for (int i = way > 0 ? 3 : 2; i >= 0 && i < 7; i += way) {
                const Vector axis = form_.axes()[i].direction, point = points_[i] + moved[i];
                const Vector direction = turn(axis), moment = cross(turn(point) + offset - about_, direction);
                const double entries[6] = {direction.x,      direction.y,      direction.z,
                                           moment.x / unit_, moment.y / unit_, moment.z / unit_};
                std::copy_n(entries, 6, j[i]);
                const double c = portable::cos(q[i]), s = way * portable::sin(q[i]);
                const Vector fixed = turn(point);
                for (Vector& row : rows) row = turned(row, axis, c, -s);
                offset = offset + fixed - turn(point);
            }
        }
    }

    double unit() const { return unit_; }  // unit of moments [m]

   private:
    static constexpr double kMostChange = 0.99;  // below 1 to allow for rounding
    static constexpr double kRounded =
        1e-10;  // bound of the rounding error of a line; the actual error is much smaller

    // Computes the smallest P with J P = 1. Returns false if J is nearly singular.
    static bool right_inverse(const double (&j)[7][6], double (&p)[7][6]) {
        double l[6][6];  // Cholesky factor of J J^T
        for (int a = 0; a < 6; ++a) {
            for (int b = 0; b <= a; ++b) {
                double sum = 0.0;
                for (int i = 0; i < 7; ++i) sum += j[i][a] * j[i][b];
                for (int c = 0; c < b; ++c) sum -= l[a][c] * l[b][c];
                if (a == b && !(sum > 1e-12)) return false;
                l[a][b] = a == b ? std::sqrt(sum) : sum / l[b][b];
            }
        }
        for (int i = 0; i < 7; ++i) {
            for (int a = 0; a < 6; ++a) {
                double sum = j[i][a];
                for (int c = 0; c < a; ++c) sum -= l[a][c] * p[i][c];
                p[i][a] = sum / l[a][a];
            }
            for (int a = 5; a >= 0; --a) {
                double sum = p[i][a];
                for (int c = a + 1; c < 6; ++c) sum -= l[c][a] * p[i][c];
                p[i][a] = sum / l[a][a];
            }
        }
        return true;
    }

    const ParameterisedForm& form_;
    Vector about_, points_[7];
    double reach_[7], unit_;  // [m]: distances from the point on axis 3 along the links; the unit of moments
};

}  // namespace eim
