"""Compiled kernels: forward kinematics, Jacobian, damped least squares and its restarts, as plain loops.

They share one file because numba's disk cache notices a change of a kernel's own file only, not of a file it calls.

One step of damped least squares with error e = (target - tip position, rotation vector from tip to target) is

    q <- clamp(q + J^T y),    (J J^T + lambda^2 I) y = e,    lambda^2 = c |e|^2 + floor

(Nakamura and Hanafusa 1986; damping by the error: Sugihara 2011). Only joints that can still move count: one that stands
at a limit and would be pushed further out is left out of J. Errors reported are those of the configuration returned.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics.chain import Chain
from eim_ros.kinematics.compiled import compiled

__all__ = ["errors_many", "forward_many", "jacobian_many", "refine_many", "skeleton_many", "solve_many"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

DAMPING = 1e-2
DAMPING_FLOOR = 1e-10
STALL_CHECK = 6
STALL_RATIO = 0.5
TWO_PI = 2.0 * math.pi


@compiled
def forward(chain: Chain, q: FloatArray, origins: FloatArray, axes: FloatArray, tip: FloatArray) -> None:
    """Pose of the tip as tip[:3, :4], and origin and axis (m, 3) of each moving joint, all in the base frame."""
    rotations, translations, prismatic, source, multiplier, offset = chain
    xx, xy, xz = rotations[0, 0, 0], rotations[0, 1, 0], rotations[0, 2, 0]
    yx, yy, yz = rotations[0, 0, 1], rotations[0, 1, 1], rotations[0, 2, 1]
    zx, zy, zz = rotations[0, 0, 2], rotations[0, 1, 2], rotations[0, 2, 2]
    px, py, pz = translations[0, 0], translations[0, 1], translations[0, 2]
    for i in range(prismatic.shape[0]):
        origins[i, 0], origins[i, 1], origins[i, 2] = px, py, pz
        axes[i, 0], axes[i, 1], axes[i, 2] = zx, zy, zz
        value = multiplier[i] * q[source[i]] + offset[i]
        if prismatic[i]:
            px, py, pz = px + value * zx, py + value * zy, pz + value * zz
        else:
            c, s = math.cos(value), math.sin(value)
            xx, yx = c * xx + s * yx, c * yx - s * xx
            xy, yy = c * xy + s * yy, c * yy - s * xy
            xz, yz = c * xz + s * yz, c * yz - s * xz
        tx, ty, tz = translations[i + 1, 0], translations[i + 1, 1], translations[i + 1, 2]
        px, py, pz = (
            px + xx * tx + yx * ty + zx * tz,
            py + xy * tx + yy * ty + zy * tz,
            pz + xz * tx + yz * ty + zz * tz,
        )
        a, b, c = rotations[i + 1, 0, 0], rotations[i + 1, 1, 0], rotations[i + 1, 2, 0]
        d, e, f = rotations[i + 1, 0, 1], rotations[i + 1, 1, 1], rotations[i + 1, 2, 1]
        g, h, k = rotations[i + 1, 0, 2], rotations[i + 1, 1, 2], rotations[i + 1, 2, 2]
        xx, yx, zx = a * xx + b * yx + c * zx, d * xx + e * yx + f * zx, g * xx + h * yx + k * zx
        xy, yy, zy = a * xy + b * yy + c * zy, d * xy + e * yy + f * zy, g * xy + h * yy + k * zy
        xz, yz, zz = a * xz + b * yz + c * zz, d * xz + e * yz + f * zz, g * xz + h * yz + k * zz
    tip[0, 0], tip[0, 1], tip[0, 2], tip[0, 3] = xx, yx, zx, px
    tip[1, 0], tip[1, 1], tip[1, 2], tip[1, 3] = xy, yy, zy, py
    tip[2, 0], tip[2, 1], tip[2, 2], tip[2, 3] = xz, yz, zz, pz


@compiled
def columns(chain: Chain, origins: FloatArray, axes: FloatArray, tip: FloatArray, jacobian: FloatArray) -> None:
    """Transposed Jacobian (dof, 6) from the joints' origins and axes."""
    _, _, prismatic, source, multiplier, _ = chain
    jacobian[:] = 0.0
    for i in range(prismatic.shape[0]):
        j, scale = source[i], multiplier[i]
        zx, zy, zz = scale * axes[i, 0], scale * axes[i, 1], scale * axes[i, 2]
        if prismatic[i]:
            jacobian[j, 0] += zx
            jacobian[j, 1] += zy
            jacobian[j, 2] += zz
        else:
            rx, ry, rz = tip[0, 3] - origins[i, 0], tip[1, 3] - origins[i, 1], tip[2, 3] - origins[i, 2]
            jacobian[j, 0] += zy * rz - zz * ry
            jacobian[j, 1] += zz * rx - zx * rz
            jacobian[j, 2] += zx * ry - zy * rx
            jacobian[j, 3] += zx
            jacobian[j, 4] += zy
            jacobian[j, 5] += zz


@compiled
def pose_difference(tip: FloatArray, target: FloatArray, position_only: bool, error: FloatArray) -> tuple[float, float]:
    """Write (position difference, rotation vector) from tip to target in the base frame; return both lengths.

    The angle is atan2(|v|, c) with v the sine part and c the cosine of the relative rotation: exact over [0, pi].
    """
    error[0] = target[0, 3] - tip[0, 3]
    error[1] = target[1, 3] - tip[1, 3]
    error[2] = target[2, 3] - tip[2, 3]
    distance = math.sqrt(error[0] * error[0] + error[1] * error[1] + error[2] * error[2])
    error[3] = error[4] = error[5] = 0.0
    if position_only:
        return distance, 0.0
    trace = 0.0
    for k in range(3):
        error[3] += 0.5 * (tip[1, k] * target[2, k] - tip[2, k] * target[1, k])
        error[4] += 0.5 * (tip[2, k] * target[0, k] - tip[0, k] * target[2, k])
        error[5] += 0.5 * (tip[0, k] * target[1, k] - tip[1, k] * target[0, k])
        trace += tip[0, k] * target[0, k] + tip[1, k] * target[1, k] + tip[2, k] * target[2, k]
    sine = math.sqrt(error[3] * error[3] + error[4] * error[4] + error[5] * error[5])
    angle = math.atan2(sine, 0.5 * (trace - 1.0))
    if sine > 1e-12:
        scale = angle / sine
        error[3] *= scale
        error[4] *= scale
        error[5] *= scale
    return distance, angle


@compiled
def solve_damped(
    jacobian: FloatArray, error: FloatArray, n: int, damping: float, matrix: FloatArray, y: FloatArray
) -> None:
    """Solve (J J^T + damping I) y = error for the first n rows by Cholesky; jacobian is transposed (dof, 6)."""
    for a in range(n):
        for b in range(a + 1):
            total = 0.0
            for k in range(jacobian.shape[0]):
                total += jacobian[k, a] * jacobian[k, b]
            matrix[a, b] = total
        matrix[a, a] += damping
    for a in range(n):
        for b in range(a):
            total = matrix[a, b]
            for k in range(b):
                total -= matrix[a, k] * matrix[b, k]
            matrix[a, b] = total * matrix[b, b]
        total = matrix[a, a]
        for k in range(a):
            total -= matrix[a, k] * matrix[a, k]
        matrix[a, a] = 1.0 / math.sqrt(max(total, 1e-14))  # the diagonal holds reciprocals
        total = error[a]
        for k in range(a):
            total -= matrix[a, k] * y[k]
        y[a] = total * matrix[a, a]
    for a in range(n - 1, -1, -1):
        total = y[a]
        for k in range(a + 1, n):
            total -= matrix[k, a] * y[k]
        y[a] = total * matrix[a, a]


@compiled
def refine_one(
    chain: Chain,
    q: FloatArray,
    target: FloatArray,
    position_only: bool,
    position_tolerance: float,
    orientation_tolerance: float,
    max_iterations: int,
    lower: FloatArray,
    upper: FloatArray,
    wraps: BoolArray,
    work: FloatArray,
) -> tuple[bool, int, float, float]:
    """Damped least squares from q, in place; q ends as the best configuration met.

    Returns whether both errors are within tolerance, the number of steps, and the errors of q.
    """
    m, dof = chain.prismatic.shape[0], q.shape[0]
    origins, axes, jacobian = work[:m, 0:3], work[:m, 3:6], work[:dof, 6:12]
    tip, matrix, error, y = work[m : m + 3, 0:4], work[m + 3 : m + 9, 0:6], work[m, 6:12], work[m + 1, 6:12]
    best, work_best = work[:dof, 12], math.inf
    n = 3 if position_only else 6
    distance, angle = math.inf, math.inf
    best_distance, best_angle = math.inf, math.inf
    reference = math.inf
    iteration = 0
    for j in range(dof):
        q[j] = _inside(q[j], lower[j], upper[j], wraps[j])
    while True:
        forward(chain, q, origins, axes, tip)
        distance, angle = pose_difference(tip, target, position_only, error)
        if distance <= position_tolerance and angle <= orientation_tolerance:
            return True, iteration, distance, angle
        square = distance * distance + angle * angle
        if square < work_best:
            work_best, best_distance, best_angle = square, distance, angle
            for j in range(dof):
                best[j] = q[j]
        if iteration >= max_iterations:
            break
        if iteration % STALL_CHECK == 0:
            if work_best > STALL_RATIO * reference:
                break
            reference = work_best
        columns(chain, origins, axes, tip, jacobian)
        for j in range(dof):
            push = 0.0
            for k in range(n):
                push += jacobian[j, k] * error[k]
            if not wraps[j] and ((q[j] <= lower[j] and push < 0.0) or (q[j] >= upper[j] and push > 0.0)):
                for k in range(n):
                    jacobian[j, k] = 0.0
        solve_damped(jacobian, error, n, DAMPING * square + DAMPING_FLOOR, matrix, y)
        for j in range(dof):
            step = 0.0
            for k in range(n):
                step += jacobian[j, k] * y[k]
            q[j] = _inside(q[j] + step, lower[j], upper[j], wraps[j])
        iteration += 1
    for j in range(dof):
        q[j] = best[j]
    return False, iteration, best_distance, best_angle


@compiled
def _inside(value: float, lower: float, upper: float, wraps: bool) -> float:
    """The value wrapped to [-pi, pi) or clamped to the limits."""
    if wraps:
        if value < -math.pi or value >= math.pi:
            value -= TWO_PI * math.floor((value + math.pi) / TWO_PI)
            if value >= math.pi or value < -math.pi:
                value = -math.pi
        return value
    return min(max(value, lower), upper)


@compiled
def _next_uniform(state: np.uint64) -> tuple[np.uint64, float]:
    """splitmix64 (Steele, Lea and Flood 2014): next state and a number in [0, 1)."""
    state = np.uint64(state + np.uint64(0x9E3779B97F4A7C15))
    z = state
    z = np.uint64((z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9))
    z = np.uint64((z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB))
    z = np.uint64(z ^ (z >> np.uint64(31)))
    return state, float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled
def refine_many(
    chain: Chain,
    q: FloatArray,
    target: FloatArray,
    position_only: bool,
    position_tolerance: float,
    orientation_tolerance: float,
    max_iterations: int,
    lower: FloatArray,
    upper: FloatArray,
    wraps: BoolArray,
    converged: BoolArray,
    iterations: IntArray,
    errors: FloatArray,
) -> None:
    """`refine_one` for each row of q (n, dof), in place; errors (2, n) holds position then orientation errors."""
    work = np.empty((chain.prismatic.shape[0] + 9, 13))
    for i in range(q.shape[0]):
        converged[i], iterations[i], errors[0, i], errors[1, i] = refine_one(
            chain, q[i], target, position_only, position_tolerance, orientation_tolerance, max_iterations,
            lower, upper, wraps, work,
        )  # fmt: skip


@compiled
def solve_many(
    chain: Chain,
    q: FloatArray,
    targets: FloatArray,
    position_only: bool,
    position_tolerance: float,
    orientation_tolerance: float,
    max_iterations: int,
    lower: FloatArray,
    upper: FloatArray,
    wraps: BoolArray,
    converged: BoolArray,
    iterations: IntArray,
    errors: FloatArray,
    max_restarts: int,
    seed: np.uint64,
) -> None:
    """Uniform restarts for each target (n, 4, 4) until one converges; the best attempt is kept in q (n, dof)."""
    dof = q.shape[1]
    work = np.empty((chain.prismatic.shape[0] + 9, 13))
    attempt = np.empty(dof)
    state = np.uint64(seed)
    for i in range(q.shape[0]):
        best = math.inf
        iterations[i] = 0
        for _ in range(max_restarts):
            for j in range(dof):
                state, uniform = _next_uniform(state)
                attempt[j] = lower[j] + uniform * (upper[j] - lower[j])
            success, steps, distance, angle = refine_one(
                chain, attempt, targets[i], position_only, position_tolerance, orientation_tolerance, max_iterations,
                lower, upper, wraps, work,
            )  # fmt: skip
            iterations[i] += steps
            square = distance * distance + angle * angle
            if success or square < best:
                best, errors[0, i], errors[1, i], converged[i] = square, distance, angle, success
                q[i, :] = attempt
            if success:
                break


@compiled
def forward_many(chain: Chain, q: FloatArray, poses: FloatArray) -> None:
    """Transforms (n, 4, 4) of configurations (n, dof)."""
    m = chain.prismatic.shape[0]
    work = np.empty((2, m, 3))
    for i in range(q.shape[0]):
        forward(chain, q[i], work[0], work[1], poses[i])
        poses[i, 3, 0] = poses[i, 3, 1] = poses[i, 3, 2] = 0.0
        poses[i, 3, 3] = 1.0


@compiled
def jacobian_many(chain: Chain, q: FloatArray, jacobians: FloatArray) -> None:
    """Jacobians (n, 6, dof) of configurations (n, dof), rows linear then angular, in the base frame."""
    m, dof = chain.prismatic.shape[0], q.shape[1]
    work, tip, transposed = np.empty((2, m, 3)), np.empty((3, 4)), np.empty((dof, 6))
    for i in range(q.shape[0]):
        forward(chain, q[i], work[0], work[1], tip)
        columns(chain, work[0], work[1], tip, transposed)
        for j in range(dof):
            for k in range(6):
                jacobians[i, k, j] = transposed[j, k]


@compiled
def skeleton_many(chain: Chain, q: FloatArray, points: FloatArray) -> None:
    """Points (n, m + 2, 3): base, origin of each moving joint, tip."""
    m = chain.prismatic.shape[0]
    axes, tip = np.empty((m, 3)), np.empty((3, 4))
    for i in range(q.shape[0]):
        points[i, 0, :] = 0.0
        forward(chain, q[i], points[i, 1 : m + 1], axes, tip)
        for k in range(3):
            points[i, m + 1, k] = tip[k, 3]


@compiled
def errors_many(chain: Chain, q: FloatArray, target: FloatArray, errors: FloatArray) -> None:
    """Position and orientation errors (2, n) of configurations (n, dof) against one transform (4, 4)."""
    m = chain.prismatic.shape[0]
    work, tip, difference = np.empty((2, m, 3)), np.empty((3, 4)), np.empty(6)
    for i in range(q.shape[0]):
        forward(chain, q[i], work[0], work[1], tip)
        errors[0, i], errors[1, i] = pose_difference(tip, target, False, difference)
