// Conversion of NumPy arrays to tasks and limits.
#pragma once

#include "chain/rigid_transform.hpp"
#include "chain/task.hpp"
#include "numerics/arrays.hpp"

namespace eim {

// Reads limits from rows (3, n_joints): lower limits, upper limits, and whether each joint wraps.
inline Bounds<double> make_bounds(const Converted<double>& rows) {
    expect_shape(rows, "bounds", {3, kAny});
    expect(rows.shape(1) <= kMostJoints, "bounds must have at most " + std::to_string(kMostJoints) + " joints");
    Bounds<double> bounds{};
    for (int j = 0; j < rows.shape(1); ++j) {
        bounds.lower[j] = rows.at(0, j), bounds.upper[j] = rows.at(1, j), bounds.wraps[j] = rows.at(2, j) != 0.0;
    }
    return bounds;
}

inline Task make_task(const Converted<double>& bounds, const Converted<double>& pose, bool position_only,
                      const Converted<double>& tolerances, double position_tolerance, double orientation_tolerance) {
    expect_shape(pose, "pose", {4, 4});
    expect(tolerances.size() == 0 || tolerances.size() == 6, "tolerances must be (6,) or (0,)");
    expect(is_rigid(pose.data(), 1e-3), "the pose must be a rigid transform");
    Task task{};
    task.bounds = make_bounds(bounds);
    std::copy_n(task.bounds.lower, kMostJoints, task.single_bounds.lower);
    std::copy_n(task.bounds.upper, kMostJoints, task.single_bounds.upper);
    std::copy_n(task.bounds.wraps, kMostJoints, task.single_bounds.wraps);
    std::copy_n(pose.data(), 12, &task.target[0][0]);
    std::copy_n(tolerances.data(), tolerances.size(), task.tolerances);
    task.has_tolerances = tolerances.size() == 6;
    task.position_only = position_only && !task.has_tolerances;
    task.position_tolerance = position_tolerance, task.orientation_tolerance = orientation_tolerance;
    return task;
}

}  // namespace eim
