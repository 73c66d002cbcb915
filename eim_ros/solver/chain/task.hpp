// A task (joint limits, target pose and tolerances) and the error of a configuration.
//
// The error has 6 components in the base frame: target minus tip position, and the rotation vector from tip to target.
// If the task has a tolerance per axis, the error is in the frame of the target, and is reduced by the tolerances.
#pragma once

#include <limits>

#include "chain/chain.hpp"
#include "numerics/portable.hpp"

namespace eim {

template <class S>
struct Bounds {
    S lower[kMostJoints], upper[kMostJoints];  // [rad] or [m]
    bool wraps[kMostJoints];                   // continuous joints, whose values are kept in [-pi, pi)
};

struct Task {
    Bounds<double> bounds;
    Bounds<float> single_bounds;
    double target[3][4];  // rotation and position
    bool position_only, has_tolerances;
    double tolerances[6];                              // along x, y, z [m] and about x, y, z [rad] of the target
    double position_tolerance, orientation_tolerance;  // [m], [rad]: for the error beyond `tolerances`

    template <class S>
    const Bounds<S>& bounds_in() const {
        return in_precision<S>(bounds, single_bounds);
    }
};

// Returns a value of joint j wrapped to [-pi, pi), or clamped to the limits if the joint is not continuous.
template <class V>
inline V within(const Bounds<Scalar<V>>& bounds, int j, V value) {
    using S = Scalar<V>;
    if (!bounds.wraps[j]) {
        const V raised = value < bounds.lower[j] ? fill<V>(bounds.lower[j]) : value;
        return raised > bounds.upper[j] ? fill<V>(bounds.upper[j]) : raised;
    }
    const V turned = value - S(kTwoPi) * nearest(value * S(1.0 / kTwoPi));
    const V result = (value < S(-kPi)) | (value >= S(kPi)) ? turned : value;
    return (result < S(-kPi)) | (result >= S(kPi)) ? fill<V>(S(-kPi)) : result;
}

// Returns a - b. The difference is measured on the circle if the joint is continuous.
inline double difference(double a, double b, bool wraps) {
    return wraps ? wrapped_angle(a - b) : a - b;
}

// Whether a configuration is within the limits without wrapping. Returns false for NaN.
inline bool is_inside(const Bounds<double>& bounds, const double* q, int n_joints) {
    bool inside = true;
    for (int j = 0; j < n_joints; ++j) inside &= q[j] >= bounds.lower[j] && q[j] <= bounds.upper[j];
    return inside;
}

template <class V>
inline void set_frame(Frame<V>& frame, int lane, const double* pose) {  // copies three rows of a transform (4, 4)
    using S = Scalar<V>;
    for (int k = 0; k < 3; ++k, pose += 4) {
        set(frame.x[k], lane, S(pose[0])), set(frame.y[k], lane, S(pose[1])), set(frame.z[k], lane, S(pose[2]));
        set(frame.origin[k], lane, S(pose[3]));
    }
}

// Copies one lane of a frame, and multiplies its origin by a factor.
template <class V>
inline void set_lane(Frame<V>& frame, int lane, const Frame<V>& from, Scalar<V> factor) {
    for (int k = 0; k < 3; ++k) {
        set(frame.x[k], lane, get(from.x[k], lane)), set(frame.y[k], lane, get(from.y[k], lane));
        set(frame.z[k], lane, get(from.z[k], lane)), set(frame.origin[k], lane, factor * get(from.origin[k], lane));
    }
}

// Returns the target in metres, or in the unit of an arm.
template <class V>
inline Frame<V> target_of(const Task& task, double unit = 1.0) {
    Frame<V> frame;
    for (int k = 0; k < 3; ++k) {
        const double* row = task.target[k];
        frame.x[k] = fill<V>(row[0]), frame.y[k] = fill<V>(row[1]), frame.z[k] = fill<V>(row[2]);
        frame.origin[k] = fill<V>(row[3] / unit);
    }
    return frame;
}

template <class V>
struct Difference {
    V vector[6], distance, angle;  // error, norm of its position [m] and rotation [rad]
    V axes[3][3];                  // set only with tolerances; see `beyond_tolerances`
};

// Computes the error of a tip. The angle is accurate over [0, pi], because it is computed from both the sine |v| and
// the cosine of the relative rotation.
template <class V>
inline void pose_difference(const Frame<V>& tip, const Frame<V>& target, bool position_only, Difference<V>& error) {
    using S = Scalar<V>;
    for (int k = 0; k < 3; ++k) error.vector[k] = target.origin[k] - tip.origin[k], error.vector[3 + k] = V{};
    const V *p = error.vector, *a = target.x, *b = target.y, *c = target.z;
    error.distance = square_root(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);
    error.angle = V{};
    if (position_only) return;
    const V *x = tip.x, *y = tip.y, *z = tip.z;
    V cosine = fill<V>(S(-0.5)), sine = V{}, v[3];
    for (int k = 0; k < 3; ++k) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        v[k] = S(0.5) * (x[i] * a[j] - x[j] * a[i] + y[i] * b[j] - y[j] * b[i] + z[i] * c[j] - z[j] * c[i]);
        cosine += S(0.5) * (x[k] * a[k] + y[k] * b[k] + z[k] * c[k]);
        sine += v[k] * v[k];
    }
    sine = square_root(sine);
    error.angle = angle_of(sine, cosine);
    const V safe = sine > S(1e-12) ? sine : fill<V>(S(1)), scale = sine > S(1e-12) ? error.angle / safe : V{};
    for (int k = 0; k < 3; ++k) error.vector[3 + k] = scale * v[k];
}

template <class S>
inline S beyond(S value, S tolerance) {
    if (value > tolerance) return value - tolerance;
    return value < -tolerance ? value + tolerance : S(0);
}

// Computes the error beyond the tolerances of the axes, in the frame of the target.
//
// The rotation of the tip in this frame is split into twist and swing. The twist is a rotation about axis k, the axis
// with the largest tolerance. The swing is the shortest rotation that moves axis k of the target to axis k of the tip.
// The rotation vector of the swing lies in the plane of the other two axes. The tolerances apply to the components of
// twist and swing. If the twist is free, the error is the angle between the two axes k for every twist. The components
// of a single rotation vector do not have this property.
//
// Rows of error.axes, in the base frame, are the axes of the target after the swing. The swing has the same components
// along these axes as along the axes of the target. A rotation about axis k of the tip has no component along the other
// two rows.
template <class S>
inline void beyond_tolerances(const Frame<S>& tip, const Frame<S>& target, const double* tolerances,
                              Difference<S>& error) {
    const S* t[3] = {target.x, target.y, target.z};
    const S* c[3] = {tip.x, tip.y, tip.z};
    S squares[2] = {0, 0};
    for (int a = 0; a < 3; ++a) {
        S off = 0;
        for (int b = 0; b < 3; ++b) off += t[a][b] * (target.origin[b] - tip.origin[b]);
        error.vector[a] = beyond(off, S(tolerances[a]));
    }
    int k = 2;
    for (int a = 1; a >= 0; --a) k = tolerances[3 + a] > tolerances[3 + k] ? a : k;
    const int i = (k + 1) % 3, j = (k + 2) % 3;
    const auto product = [](const S* u, const S* v) { return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]; };
    const S ik = product(t[i], c[k]), jk = product(t[j], c[k]), kk = product(t[k], c[k]);
    const S sine = std::sqrt(ik * ik + jk * jk), swing = portable::atan2(sine, kk);
    S about_i, about_j;
    if (sine > S(1e-12)) {
        about_i = swing / sine * jk, about_j = -swing / sine * ik;
        const S share = kk > 0 ? 1 / (1 + kk) : (1 - kk) / (sine * sine);
        for (int b = 0; b < 3; ++b) {
            const S common = share * (ik * t[i][b] + jk * t[j][b]) + t[k][b];
            error.axes[i][b] = t[i][b] - ik * common, error.axes[j][b] = t[j][b] - jk * common;
        }
    } else {  // no swing, or half a revolution about any axis
        const bool first = tolerances[3 + i] >= tolerances[3 + j];
        about_i = first ? swing : S(0), about_j = first ? S(0) : swing;
        for (int b = 0; b < 3; ++b) {
            error.axes[i][b] = kk > 0 || about_i > 0 ? t[i][b] : -t[i][b];
            error.axes[j][b] = kk > 0 || about_j > 0 ? t[j][b] : -t[j][b];
        }
    }
    const S twist =
        -portable::atan2(product(t[j], c[i]) - product(t[i], c[j]), product(t[i], c[i]) + product(t[j], c[j]));
    for (int b = 0; b < 3; ++b) error.axes[k][b] = c[k][b];
    error.vector[3 + i] = beyond(about_i, S(tolerances[3 + i]));
    error.vector[3 + j] = beyond(about_j, S(tolerances[3 + j]));
    error.vector[3 + k] = beyond(twist, S(tolerances[3 + k]));
    for (int a = 0; a < 6; ++a) squares[a / 3] += error.vector[a] * error.vector[a];
    error.distance = std::sqrt(squares[0]), error.angle = std::sqrt(squares[1]);
}

template <class V>
inline Frame<Scalar<V>> lane_of(const Frame<V>& frame, int lane) {
    Frame<Scalar<V>> one;
    for (int k = 0; k < 3; ++k) {
        one.x[k] = get(frame.x[k], lane), one.y[k] = get(frame.y[k], lane), one.z[k] = get(frame.z[k], lane);
        one.origin[k] = get(frame.origin[k], lane);
    }
    return one;
}

// Measures the errors of tips with respect to targets, as defined by a task. With tolerances per axis, lanes are
// computed one by one. Packs would not be faster, because the code has many branches.
template <class V>
inline void measure(const Frame<V>& tip, const Frame<V>& target, const Task& task, Difference<V>& error) {
    if (!task.has_tolerances) return pose_difference(tip, target, task.position_only, error);
    if constexpr (!kIsPack<V>) {
        beyond_tolerances(tip, target, task.tolerances, error);
    } else {
        for (int lane = 0; lane < kLanes<V>; ++lane) {
            Difference<Scalar<V>> one;
            beyond_tolerances(lane_of(tip, lane), lane_of(target, lane), task.tolerances, one);
            for (int a = 0; a < 6; ++a) set(error.vector[a], lane, one.vector[a]);
            for (int a = 0; a < 9; ++a) set(error.axes[a / 3][a % 3], lane, one.axes[a / 3][a % 3]);
            set(error.distance, lane, one.distance), set(error.angle, lane, one.angle);
        }
    }
}

// Rotates the rows of a transposed Jacobian into the axes of the error. Entries of components within their tolerances
// become zero.
template <class V>
inline void turn_rows(const Frame<V>& target, const double* tolerances, const Difference<V>& error, int n_joints,
                      V (*jacobian)[6]) {
    const V* t[3] = {target.x, target.y, target.z};
    for (int j = 0; j < n_joints; ++j) {
        V column[6];
        std::copy_n(jacobian[j], 6, column);
        for (int a = 0; a < 3; ++a) {
            const V* axis = error.axes[a];
            jacobian[j][a] = t[a][0] * column[0] + t[a][1] * column[1] + t[a][2] * column[2];
            jacobian[j][3 + a] = axis[0] * column[3] + axis[1] * column[4] + axis[2] * column[5];
        }
        for (int a = 0; a < 6; ++a) {
            if (tolerances[a] > 0.0) jacobian[j][a] = error.vector[a] == Scalar<V>(0) ? V{} : jacobian[j][a];
        }
    }
}

}  // namespace eim
