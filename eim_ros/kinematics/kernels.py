"""Compiled kernels: forward kinematics, Jacobian, damped least squares and its restarts, as plain loops.

They share one file because numba's disk cache notices a change of a kernel's own file only, not of a file it calls.
Arrays are few and packed, and scratch arrays are arguments: a kernel that unpacks or slices arrays counts references.

One step of damped least squares with error e = (target - tip position, rotation vector from tip to target) is

    q <- clamp(q + J^T y),    (J J^T + lambda^2 I) y = e,    lambda^2 = a c |e|^2 + floor

(Nakamura and Hanafusa 1986; damping by the error: Sugihara 2011). The caution a is 1, times 4 after each step that made
the error larger, halved after each other one: without it a pose out of reach is circled, not approached. Only joints
that can still move count: one that stands at a limit and would be pushed further out is left out of J. An attempt is
given up when the squared error does not halve within `patience` steps. Errors reported are those of the configuration
returned.

Arguments named alike throughout:
links (m + 1, 16): the chain, see `chain.py`; bounds (3, dof): lower limits, upper limits, 1 where a joint wraps else 0;
tolerances (6,), or (0,) for none: see `task_difference`;
trigonometry (3, m rounded up to a multiple of 8): values, sines and cosines of the joints; frames (m, 6): origin and
axis of each moving joint in the base frame; tip (3, 4) or (4, 4): pose of the tip; jacobian (dof, 6): transposed;
vectors (2, 6): error and y; axes (3, 3): see `task_difference`; errors (2, n): position [m] and orientation [rad]
errors.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics.chain import MULTIPLIER, OFFSET, PRISMATIC, SOURCE
from eim_ros.numerics.compiled import compiled, compiled_exactly

__all__ = [
    "BAD_POSE",
    "BAD_SEED",
    "DONE",
    "check_request",
    "errors_many",
    "forward_many",
    "is_rigid",
    "jacobian_many",
    "refine_many",
    "skeleton_many",
    "solve_many",
    "task_difference",
]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
Triangle = tuple[float, float, float, float, float, float]

DONE, BAD_POSE, BAD_SEED = 0, 1, 2

DAMPING = 3e-2
DAMPING_FLOOR = 1e-10
PIVOT_FLOOR = 1e-14
STALL_RATIO = 0.5
RIGID_TOLERANCE = 2e-3
LONGEST = 1e100  # [m]: squares must not overflow

TWO_PI = 2.0 * math.pi
TWO_BY_PI = 2.0 / math.pi
HALF_PI_HIGH = float.fromhex("0x1.921fb544p+0")  # 33 bits: its product with k < 2^20 is exact
HALF_PI_LOW = float.fromhex("0x1.0b4611a626331p-34")
LARGE_ANGLE = 1e5


@compiled_exactly
def sines_and_cosines(trigonometry: FloatArray) -> None:
    """Fill rows 1 and 2 with sine and cosine of row 0, within 2^-52 for |x| < 1e6, without branches: four at once.

    x = k pi/2 + r with |r| <= pi/4, pi/2 in two parts (Cody and Waite 1980), then Taylor series of r with an error
    below 1e-16. Six times as fast as libm. Needs the order of operations as written.
    """
    for i in range(trigonometry.shape[1]):
        x = trigonometry[0, i]
        k = np.floor(x * TWO_BY_PI + 0.5)
        r = (x - k * HALF_PI_HIGH) - k * HALF_PI_LOW
        z = r * r
        s = -1 / 5040 + z * (1 / 362880 + z * (-1 / 39916800 + z * (1 / 6227020800 + z * (-1 / 1307674368000))))
        s = r + r * z * (-1 / 6 + z * (1 / 120 + z * s))
        c = 1 / 40320 + z * (-1 / 3628800 + z * (1 / 479001600 + z * (-1 / 87178291200 + z * (1 / 20922789888000))))
        c = 1.0 - 0.5 * z + z * z * (1 / 24 + z * (-1 / 720 + z * c))
        quadrant = k - 4.0 * np.floor(0.25 * k)
        odd = (quadrant == 1.0) | (quadrant == 3.0)
        sine = c if odd else s
        cosine = s if odd else c
        trigonometry[1, i] = -sine if quadrant >= 2.0 else sine
        trigonometry[2, i] = -cosine if (quadrant == 1.0) | (quadrant == 2.0) else cosine


@compiled
def forward(links: FloatArray, q: FloatArray, trigonometry: FloatArray, frames: FloatArray, tip: FloatArray) -> None:
    """Pose of the tip in tip[:3, :4], and the frames of the joints."""
    m = links.shape[0] - 1
    for i in range(m):
        value = links[i, MULTIPLIER] * q[int(links[i, SOURCE])] + links[i, OFFSET]
        if not abs(value) < LARGE_ANGLE and links[i, PRISMATIC] == 0.0:
            value = np.fmod(value, TWO_PI)
        trigonometry[0, i] = value
    sines_and_cosines(trigonometry)
    xx, yx, zx, px = links[0, 0], links[0, 1], links[0, 2], links[0, 9]
    xy, yy, zy, py = links[0, 3], links[0, 4], links[0, 5], links[0, 10]
    xz, yz, zz, pz = links[0, 6], links[0, 7], links[0, 8], links[0, 11]
    for i in range(m):
        frames[i, 0], frames[i, 1], frames[i, 2] = px, py, pz
        frames[i, 3], frames[i, 4], frames[i, 5] = zx, zy, zz
        if links[i, PRISMATIC] != 0.0:
            value = trigonometry[0, i]
            px, py, pz = px + value * zx, py + value * zy, pz + value * zz
        else:
            s, c = trigonometry[1, i], trigonometry[2, i]
            xx, yx = c * xx + s * yx, c * yx - s * xx
            xy, yy = c * xy + s * yy, c * yy - s * xy
            xz, yz = c * xz + s * yz, c * yz - s * xz
        a, b, c = links[i + 1, 9], links[i + 1, 10], links[i + 1, 11]
        px, py, pz = px + xx * a + yx * b + zx * c, py + xy * a + yy * b + zy * c, pz + xz * a + yz * b + zz * c
        a, d, g = links[i + 1, 0], links[i + 1, 1], links[i + 1, 2]
        b, e, h = links[i + 1, 3], links[i + 1, 4], links[i + 1, 5]
        c, f, k = links[i + 1, 6], links[i + 1, 7], links[i + 1, 8]
        xx, yx, zx = a * xx + b * yx + c * zx, d * xx + e * yx + f * zx, g * xx + h * yx + k * zx
        xy, yy, zy = a * xy + b * yy + c * zy, d * xy + e * yy + f * zy, g * xy + h * yy + k * zy
        xz, yz, zz = a * xz + b * yz + c * zz, d * xz + e * yz + f * zz, g * xz + h * yz + k * zz
    tip[0, 0], tip[0, 1], tip[0, 2], tip[0, 3] = xx, yx, zx, px
    tip[1, 0], tip[1, 1], tip[1, 2], tip[1, 3] = xy, yy, zy, py
    tip[2, 0], tip[2, 1], tip[2, 2], tip[2, 3] = xz, yz, zz, pz


@compiled
def columns(links: FloatArray, frames: FloatArray, tip: FloatArray, jacobian: FloatArray) -> None:
    """Transposed Jacobian from the frames of the joints; followers add to the column of the joint they follow."""
    for j in range(jacobian.shape[0]):
        for k in range(6):
            jacobian[j, k] = 0.0
    for i in range(frames.shape[0]):
        j, scale = int(links[i, SOURCE]), links[i, MULTIPLIER]
        zx, zy, zz = scale * frames[i, 3], scale * frames[i, 4], scale * frames[i, 5]
        if links[i, PRISMATIC] != 0.0:
            jacobian[j, 0] += zx
            jacobian[j, 1] += zy
            jacobian[j, 2] += zz
        else:
            rx, ry, rz = tip[0, 3] - frames[i, 0], tip[1, 3] - frames[i, 1], tip[2, 3] - frames[i, 2]
            jacobian[j, 0] += zy * rz - zz * ry
            jacobian[j, 1] += zz * rx - zx * rz
            jacobian[j, 2] += zx * ry - zy * rx
            jacobian[j, 3] += zx
            jacobian[j, 4] += zy
            jacobian[j, 5] += zz


@compiled
def pose_difference(
    tip: FloatArray, target: FloatArray, position_only: bool, vectors: FloatArray
) -> tuple[float, float]:
    """Write the error from tip to target, in the base frame, to vectors[0]; return both lengths [m], [rad].

    The angle is atan2(|v|, c) with v the sine part and c the cosine of the relative rotation: exact over [0, pi].
    """
    x, y, z = target[0, 3] - tip[0, 3], target[1, 3] - tip[1, 3], target[2, 3] - tip[2, 3]
    vectors[0, 0], vectors[0, 1], vectors[0, 2] = x, y, z
    distance = math.sqrt(x * x + y * y + z * z)
    vectors[0, 3] = vectors[0, 4] = vectors[0, 5] = 0.0
    if position_only:
        return distance, 0.0
    x = y = z = 0.0
    cosine = -0.5
    for k in range(3):
        x += 0.5 * (tip[1, k] * target[2, k] - tip[2, k] * target[1, k])
        y += 0.5 * (tip[2, k] * target[0, k] - tip[0, k] * target[2, k])
        z += 0.5 * (tip[0, k] * target[1, k] - tip[1, k] * target[0, k])
        cosine += 0.5 * (tip[0, k] * target[0, k] + tip[1, k] * target[1, k] + tip[2, k] * target[2, k])
    sine = math.sqrt(x * x + y * y + z * z)
    angle = math.atan2(sine, cosine)
    if sine > 1e-12:
        scale = angle / sine
        vectors[0, 3], vectors[0, 4], vectors[0, 5] = scale * x, scale * y, scale * z
    return distance, angle


@compiled
def task_difference(
    tip: FloatArray, target: FloatArray, tolerances: FloatArray, vectors: FloatArray, axes: FloatArray
) -> tuple[float, float]:
    """As `pose_difference`, but in the frame of the target, and only what is beyond the tolerances (6,) of its axes.

    The rotation of the tip in that frame is taken apart into a twist about its axis k of the largest tolerance, and
    after it the shortest rotation that takes this axis to the tip's, its swing, whose rotation vector lies in the plane
    of the two other axes. Their components are what the tolerances are for. So where the twist is free, what remains
    is exactly the angle between the two axes k, however far the tip is twisted, which a rotation vector's components
    are not.

    Fills axes (3, 3): in its rows, in the base frame, the axes of the target after the swing. The swing has the same
    components along these, and a turn about the tip's axis k has none along the two others.
    """
    for a in range(3):
        off = 0.0
        for b in range(3):
            off += target[b, a] * (target[b, 3] - tip[b, 3])
        vectors[0, a] = _beyond(off, tolerances[a])
    k = 2
    for a in range(1, -1, -1):
        if tolerances[3 + a] > tolerances[3 + k]:
            k = a
    i, j = (k + 1) % 3, (k + 2) % 3
    ik = jk = kk = ii = ij = ji = jj = 0.0  # of the tip's rotation in the target's frame
    for b in range(3):
        ik, jk, kk = ik + target[b, i] * tip[b, k], jk + target[b, j] * tip[b, k], kk + target[b, k] * tip[b, k]
        ii, ij = ii + target[b, i] * tip[b, i], ij + target[b, i] * tip[b, j]
        ji, jj = ji + target[b, j] * tip[b, i], jj + target[b, j] * tip[b, j]
    sine = math.sqrt(ik * ik + jk * jk)
    swing = math.atan2(sine, kk)
    if sine > 1e-12:
        about_i, about_j = swing / sine * jk, -swing / sine * ik
        share = 1.0 / (1.0 + kk) if kk > 0.0 else (1.0 - kk) / (sine * sine)
        for b in range(3):
            common = share * (ik * target[b, i] + jk * target[b, j]) + target[b, k]
            axes[i, b], axes[j, b] = target[b, i] - ik * common, target[b, j] - jk * common
    else:  # none, or half a turn, about whichever axis
        about_i, about_j = (swing, 0.0) if tolerances[3 + i] >= tolerances[3 + j] else (0.0, swing)
        for b in range(3):
            axes[i, b] = target[b, i] if kk > 0.0 or about_i > 0.0 else -target[b, i]
            axes[j, b] = target[b, j] if kk > 0.0 or about_j > 0.0 else -target[b, j]
    for b in range(3):
        axes[k, b] = tip[b, k]
    vectors[0, 3 + i] = _beyond(about_i, tolerances[3 + i])
    vectors[0, 3 + j] = _beyond(about_j, tolerances[3 + j])
    vectors[0, 3 + k] = _beyond(-math.atan2(ji - ij, ii + jj), tolerances[3 + k])
    distance = angle = 0.0
    for a in range(3):
        distance += vectors[0, a] * vectors[0, a]
        angle += vectors[0, 3 + a] * vectors[0, 3 + a]
    return math.sqrt(distance), math.sqrt(angle)


@compiled
def _beyond(value: float, tolerance: float) -> float:
    """What is left of a value when the tolerance is taken off."""
    if value > tolerance:
        return value - tolerance
    return value + tolerance if value < -tolerance else 0.0


@compiled
def task_rows(
    target: FloatArray, tolerances: FloatArray, vectors: FloatArray, axes: FloatArray, jacobian: FloatArray
) -> None:
    """Turn the transposed Jacobian into the axes of the error; components within their tolerances are left out."""
    for j in range(jacobian.shape[0]):
        x, y, z = jacobian[j, 0], jacobian[j, 1], jacobian[j, 2]
        u, v, w = jacobian[j, 3], jacobian[j, 4], jacobian[j, 5]
        for a in range(3):
            jacobian[j, a] = target[0, a] * x + target[1, a] * y + target[2, a] * z
            jacobian[j, 3 + a] = axes[a, 0] * u + axes[a, 1] * v + axes[a, 2] * w
        for a in range(6):
            if tolerances[a] > 0.0 and vectors[0, a] == 0.0:
                jacobian[j, a] = 0.0


@compiled
def solve_damped(jacobian: FloatArray, position_only: bool, damping: float, vectors: FloatArray) -> None:
    """Solve (J J^T + damping I) y = error by Cholesky, with error in vectors[0] and y in vectors[1].

    In blocks of 3, each a tuple of scalars, which stay in registers: [[P, C^T], [C, O]] with P of the position rows and
    O of the orientation rows. Twice as fast as loops over a (6, 6) array.
    """
    p00 = p11 = p22 = damping
    p10 = p20 = p21 = 0.0
    for k in range(jacobian.shape[0]):
        a, b, c = jacobian[k, 0], jacobian[k, 1], jacobian[k, 2]
        p00, p10, p11 = p00 + a * a, p10 + a * b, p11 + b * b
        p20, p21, p22 = p20 + a * c, p21 + b * c, p22 + c * c
    position = _cholesky(p00, p10, p11, p20, p21, p22)
    y0, y1, y2 = _lower(position, vectors[0, 0], vectors[0, 1], vectors[0, 2])
    y3 = y4 = y5 = 0.0
    if not position_only:
        o00 = o11 = o22 = damping
        o10 = o20 = o21 = c00 = c01 = c02 = c10 = c11 = c12 = c20 = c21 = c22 = 0.0
        for k in range(jacobian.shape[0]):
            a, b, c = jacobian[k, 0], jacobian[k, 1], jacobian[k, 2]
            d, e, f = jacobian[k, 3], jacobian[k, 4], jacobian[k, 5]
            o00, o10, o11 = o00 + d * d, o10 + d * e, o11 + e * e
            o20, o21, o22 = o20 + d * f, o21 + e * f, o22 + f * f
            c00, c01, c02 = c00 + d * a, c01 + d * b, c02 + d * c
            c10, c11, c12 = c10 + e * a, c11 + e * b, c12 + e * c
            c20, c21, c22 = c20 + f * a, c21 + f * b, c22 + f * c
        c00, c01, c02 = _lower(position, c00, c01, c02)
        c10, c11, c12 = _lower(position, c10, c11, c12)
        c20, c21, c22 = _lower(position, c20, c21, c22)
        orientation = _cholesky(
            o00 - c00 * c00 - c01 * c01 - c02 * c02,
            o10 - c10 * c00 - c11 * c01 - c12 * c02,
            o11 - c10 * c10 - c11 * c11 - c12 * c12,
            o20 - c20 * c00 - c21 * c01 - c22 * c02,
            o21 - c20 * c10 - c21 * c11 - c22 * c12,
            o22 - c20 * c20 - c21 * c21 - c22 * c22,
        )
        y3, y4, y5 = _lower(
            orientation,
            vectors[0, 3] - c00 * y0 - c01 * y1 - c02 * y2,
            vectors[0, 4] - c10 * y0 - c11 * y1 - c12 * y2,
            vectors[0, 5] - c20 * y0 - c21 * y1 - c22 * y2,
        )
        y3, y4, y5 = _upper(orientation, y3, y4, y5)
        y0 -= c00 * y3 + c10 * y4 + c20 * y5
        y1 -= c01 * y3 + c11 * y4 + c21 * y5
        y2 -= c02 * y3 + c12 * y4 + c22 * y5
    vectors[1, 0], vectors[1, 1], vectors[1, 2] = _upper(position, y0, y1, y2)
    vectors[1, 3], vectors[1, 4], vectors[1, 5] = y3, y4, y5


@compiled
def _cholesky(a00: float, a10: float, a11: float, a20: float, a21: float, a22: float) -> Triangle:
    """Lower factor L of a symmetric (3, 3) matrix, row by row, with the reciprocals of its diagonal."""
    d0 = 1.0 / math.sqrt(max(a00, PIVOT_FLOOR))
    l10, l20 = a10 * d0, a20 * d0
    d1 = 1.0 / math.sqrt(max(a11 - l10 * l10, PIVOT_FLOOR))
    l21 = (a21 - l20 * l10) * d1
    d2 = 1.0 / math.sqrt(max(a22 - l20 * l20 - l21 * l21, PIVOT_FLOOR))
    return d0, l10, d1, l20, l21, d2


@compiled
def _lower(factor: Triangle, a: float, b: float, c: float) -> tuple[float, float, float]:
    """Solve L x = (a, b, c)."""
    d0, l10, d1, l20, l21, d2 = factor
    a = a * d0
    b = (b - l10 * a) * d1
    return a, b, (c - l20 * a - l21 * b) * d2


@compiled
def _upper(factor: Triangle, a: float, b: float, c: float) -> tuple[float, float, float]:
    """Solve L^T x = (a, b, c)."""
    d0, l10, d1, l20, l21, d2 = factor
    c = c * d2
    b = (b - l21 * c) * d1
    return (a - l10 * b - l20 * c) * d0, b, c


@compiled
def _inside(value: float, lower: float, upper: float, wraps: float) -> float:
    """The value wrapped to [-pi, pi) or clamped to the limits."""
    if wraps != 0.0:
        if value < -math.pi or value >= math.pi:
            value -= TWO_PI * np.floor((value + math.pi) / TWO_PI)
            if value >= math.pi or value < -math.pi:  # rounding
                value = -math.pi
        return value
    return min(max(value, lower), upper)


@compiled
def refine_one(
    links: FloatArray,
    bounds: FloatArray,
    q: FloatArray,
    target: FloatArray,
    position_only: bool,
    tolerances: FloatArray,
    position_tolerance: float,
    orientation_tolerance: float,
    max_iterations: int,
    patience: int,
    trigonometry: FloatArray,
    frames: FloatArray,
    tip: FloatArray,
    jacobian: FloatArray,
    vectors: FloatArray,
    axes: FloatArray,
    best: FloatArray,
) -> tuple[bool, int, float, float]:
    """Damped least squares from q, in place; q ends as the best configuration met.

    Returns whether both errors are within tolerance, the number of steps, and the errors of q.
    """
    dof, partial = q.shape[0], tolerances.shape[0] > 0
    for j in range(dof):
        q[j] = _inside(q[j], bounds[0, j], bounds[1, j], bounds[2, j])
        best[j] = q[j]
    least = best_distance = best_angle = reference = previous = math.inf
    caution = 1.0
    iteration = 0
    while True:
        forward(links, q, trigonometry, frames, tip)
        if partial:
            distance, angle = task_difference(tip, target, tolerances, vectors, axes)
        else:
            distance, angle = pose_difference(tip, target, position_only, vectors)
        if distance <= position_tolerance and angle <= orientation_tolerance:
            return True, iteration, distance, angle
        square = distance * distance + angle * angle
        caution = max(0.5 * caution, 1.0) if square < previous else 4.0 * caution
        previous = square
        if square < least:
            least, best_distance, best_angle = square, distance, angle
            for j in range(dof):
                best[j] = q[j]
        if iteration >= max_iterations:
            break
        if iteration % patience == 0:
            if not least < STALL_RATIO * reference:
                break
            reference = least
        columns(links, frames, tip, jacobian)
        if partial:
            task_rows(target, tolerances, vectors, axes, jacobian)
        for j in range(dof):
            if bounds[2, j] == 0.0 and (q[j] <= bounds[0, j] or q[j] >= bounds[1, j]):
                push = 0.0
                for k in range(6):
                    push += jacobian[j, k] * vectors[0, k]
                if (q[j] <= bounds[0, j] and push < 0.0) or (q[j] >= bounds[1, j] and push > 0.0):
                    for k in range(6):
                        jacobian[j, k] = 0.0
        solve_damped(jacobian, position_only, caution * DAMPING * square + DAMPING_FLOOR, vectors)
        for j in range(dof):
            step = 0.0
            for k in range(6):
                step += jacobian[j, k] * vectors[1, k]
            q[j] = _inside(q[j] + step, bounds[0, j], bounds[1, j], bounds[2, j])
        iteration += 1
    for j in range(dof):
        q[j] = best[j]
    return False, iteration, best_distance, best_angle


@compiled
def is_rigid(pose: FloatArray) -> bool:
    """Whether a transform (4, 4) is finite with an orthonormal, right-handed rotation above a row 0 0 0 1."""
    worst = abs(pose[3, 0]) + abs(pose[3, 1]) + abs(pose[3, 2]) + abs(pose[3, 3] - 1.0)
    for a in range(3):
        for b in range(3):
            product = pose[0, a] * pose[0, b] + pose[1, a] * pose[1, b] + pose[2, a] * pose[2, b]
            worst = max(worst, abs(product - 1.0) if a == b else abs(product))
            if not abs(pose[a, b]) < 2.0:
                return False
    determinant = (
        pose[0, 0] * (pose[1, 1] * pose[2, 2] - pose[1, 2] * pose[2, 1])
        - pose[0, 1] * (pose[1, 0] * pose[2, 2] - pose[1, 2] * pose[2, 0])
        + pose[0, 2] * (pose[1, 0] * pose[2, 1] - pose[1, 1] * pose[2, 0])
    )
    finite = abs(pose[0, 3]) + abs(pose[1, 3]) + abs(pose[2, 3]) < LONGEST
    return bool(finite and worst <= RIGID_TOLERANCE and determinant > 0.0)


@compiled
def check_request(target: FloatArray, q: FloatArray) -> int:
    """DONE if the target is a rigid transform and all seeds q (n, dof) are finite, or what is wrong."""
    if not is_rigid(target):
        return BAD_POSE
    for i in range(q.shape[0]):
        for j in range(q.shape[1]):
            if not abs(q[i, j]) < math.inf:
                return BAD_SEED
    return DONE


@compiled
def refine_many(
    links: FloatArray,
    bounds: FloatArray,
    q: FloatArray,
    target: FloatArray,
    position_only: bool,
    tolerances: FloatArray,
    position_tolerance: float,
    orientation_tolerance: float,
    max_iterations: int,
    patience: int,
    converged: BoolArray,
    iterations: IntArray,
    errors: FloatArray,
) -> None:
    """`refine_one` for each row of q (n, dof), in place; target and rows were checked."""
    m, dof = links.shape[0] - 1, q.shape[1]
    trigonometry, frames, tip = np.zeros((3, (m + 7) // 8 * 8)), np.empty((m, 6)), np.empty((3, 4))
    jacobian, vectors, axes, best = np.empty((dof, 6)), np.empty((2, 6)), np.empty((3, 3)), np.empty(dof)
    for i in range(q.shape[0]):
        converged[i], iterations[i], errors[0, i], errors[1, i] = refine_one(
            links, bounds, q[i], target, position_only, tolerances, position_tolerance, orientation_tolerance,
            max_iterations, patience, trigonometry, frames, tip, jacobian, vectors, axes, best,
        )  # fmt: skip


@compiled
def next_uniform(state: np.uint64) -> tuple[np.uint64, float]:
    """splitmix64 (Steele, Lea and Flood 2014): next state and a number in [0, 1)."""
    state = np.uint64(state + np.uint64(0x9E3779B97F4A7C15))
    z = state
    z = np.uint64((z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9))
    z = np.uint64((z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB))
    z = np.uint64(z ^ (z >> np.uint64(31)))
    return state, float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled
def solve_many(
    links: FloatArray,
    bounds: FloatArray,
    q: FloatArray,
    targets: FloatArray,
    position_only: bool,
    tolerances: FloatArray,
    position_tolerance: float,
    orientation_tolerance: float,
    max_iterations: int,
    patience: int,
    converged: BoolArray,
    iterations: IntArray,
    errors: FloatArray,
    max_restarts: int,
    seed: float,
) -> int:
    """Uniform restarts for each target (n, 4, 4) until one converges; else the best attempt, polished, is kept in q.

    The seed is in [0, 1). Returns DONE, or BAD_POSE and nothing done.
    """
    for i in range(targets.shape[0]):
        if not is_rigid(targets[i]):
            return BAD_POSE
    m, dof = links.shape[0] - 1, q.shape[1]
    trigonometry, frames, tip = np.zeros((3, (m + 7) // 8 * 8)), np.empty((m, 6)), np.empty((3, 4))
    jacobian, vectors, axes = np.empty((dof, 6)), np.empty((2, 6)), np.empty((3, 3))
    best, attempt = np.empty(dof), np.empty(dof)
    state = np.uint64(seed * 9007199254740992.0)
    for i in range(q.shape[0]):
        least = math.inf
        iterations[i] = 0
        for _ in range(max_restarts):
            for j in range(dof):
                state, uniform = next_uniform(state)
                attempt[j] = bounds[0, j] + uniform * (bounds[1, j] - bounds[0, j])
            success, steps, distance, angle = refine_one(
                links, bounds, attempt, targets[i], position_only, tolerances, position_tolerance,
                orientation_tolerance, max_iterations, patience, trigonometry, frames, tip, jacobian, vectors, axes,
                best,
            )  # fmt: skip
            iterations[i] += steps
            square = distance * distance + angle * angle
            if success or not square >= least:
                least, errors[0, i], errors[1, i], converged[i] = square, distance, angle, success
                for j in range(dof):
                    q[i, j] = attempt[j]
            if success:
                break
        if not converged[i]:  # without hurry, for the least error of a pose that may be out of reach
            converged[i], steps, errors[0, i], errors[1, i] = refine_one(
                links, bounds, q[i], targets[i], position_only, tolerances, position_tolerance,
                orientation_tolerance, max_iterations, max_iterations + 1, trigonometry, frames, tip, jacobian, vectors,
                axes, best,
            )  # fmt: skip
            iterations[i] += steps
    return DONE


@compiled
def forward_many(links: FloatArray, q: FloatArray, poses: FloatArray) -> None:
    """Transforms (n, 4, 4) of configurations (n, dof)."""
    m = links.shape[0] - 1
    trigonometry, frames = np.zeros((3, (m + 7) // 8 * 8)), np.empty((m, 6))
    for i in range(q.shape[0]):
        forward(links, q[i], trigonometry, frames, poses[i])
        poses[i, 3, 0] = poses[i, 3, 1] = poses[i, 3, 2] = 0.0
        poses[i, 3, 3] = 1.0


@compiled
def jacobian_many(links: FloatArray, q: FloatArray, jacobians: FloatArray) -> None:
    """Jacobians (n, 6, dof) of configurations (n, dof), rows linear then angular, in the base frame."""
    m, dof = links.shape[0] - 1, q.shape[1]
    trigonometry, frames, tip = np.zeros((3, (m + 7) // 8 * 8)), np.empty((m, 6)), np.empty((3, 4))
    transposed = np.empty((dof, 6))
    for i in range(q.shape[0]):
        forward(links, q[i], trigonometry, frames, tip)
        columns(links, frames, tip, transposed)
        for j in range(dof):
            for k in range(6):
                jacobians[i, k, j] = transposed[j, k]


@compiled
def skeleton_many(links: FloatArray, q: FloatArray, points: FloatArray) -> None:
    """Points (n, m + 2, 3): base, origin of each moving joint, tip."""
    m = links.shape[0] - 1
    trigonometry, frames, tip = np.zeros((3, (m + 7) // 8 * 8)), np.empty((m, 6)), np.empty((3, 4))
    for i in range(q.shape[0]):
        forward(links, q[i], trigonometry, frames, tip)
        for k in range(3):
            points[i, 0, k] = 0.0
            points[i, m + 1, k] = tip[k, 3]
            for j in range(m):
                points[i, j + 1, k] = frames[j, k]


@compiled
def errors_many(
    links: FloatArray, q: FloatArray, target: FloatArray, tolerances: FloatArray, errors: FloatArray
) -> None:
    """Errors of configurations (n, dof) against one transform (4, 4)."""
    m = links.shape[0] - 1
    trigonometry, frames, tip = np.zeros((3, (m + 7) // 8 * 8)), np.empty((m, 6)), np.empty((3, 4))
    vectors, axes = np.empty((2, 6)), np.empty((3, 3))
    for i in range(q.shape[0]):
        forward(links, q[i], trigonometry, frames, tip)
        if tolerances.shape[0] > 0:
            errors[0, i], errors[1, i] = task_difference(tip, target, tolerances, vectors, axes)
        else:
            errors[0, i], errors[1, i] = pose_difference(tip, target, False, vectors)
