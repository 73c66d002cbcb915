"""The refiner of `kernels.py` for many seeds at once: LANES of them side by side, so that each line is vector code.

The same algorithm as `kernels.refine_one`, its plain version, but every quantity is a row of LANES numbers, one for
each seed, and every inner loop runs over a row. A lane whose seed has ended takes the next one. All in one file because
numba's disk cache notices a change of a kernel's own file only (so touch this one, too, when a constant or
`task_difference`, which it takes from `kernels.py`, changes). Arrays are flat, rows at constant offsets of LANES: so
the compiler can prove that rows do not overlap.

Arguments named alike throughout, beside those of `kernels.py`:
q (dof,): rows, one for each joint; sine, cosine, value (m,): rows, one for each link; state (12,): x, y and z axis and
origin of the frame that is carried along the chain, in the end the tip; frames (6 m,): origin and z axis of each link's
frame; jacobian (6 dof,): transposed; error (8,): error vector, distance [m], angle [rad]; gram (21,): lower triangle of
J J^T, row by row; axes (9,): see `kernels.task_difference`; solution (6,): y.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics.chain import MULTIPLIER, OFFSET, PRISMATIC, SOURCE
from eim_ros.kinematics.kernels import (
    DAMPING,
    DAMPING_FLOOR,
    HALF_PI_HIGH,
    HALF_PI_LOW,
    LARGE_ANGLE,
    PIVOT_FLOOR,
    STALL_RATIO,
    TWO_BY_PI,
    TWO_PI,
    task_difference,
)
from eim_ros.numerics.compiled import compiled, compiled_exactly

__all__ = ["LANES", "errors_lanes", "polish_lanes", "refine_lanes", "verify_lanes"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

LANES = 16
PI, HALF_PI = math.pi, 0.5 * math.pi


@compiled_exactly
def sines_and_cosines(value: FloatArray, sine: FloatArray, cosine: FloatArray) -> None:
    """As `kernels.sines_and_cosines`, of all values."""
    for i in range(value.shape[0]):
        x = value[i]
        k = np.floor(x * TWO_BY_PI + 0.5)
        r = (x - k * HALF_PI_HIGH) - k * HALF_PI_LOW
        z = r * r
        s = -1 / 5040 + z * (1 / 362880 + z * (-1 / 39916800 + z * (1 / 6227020800 + z * (-1 / 1307674368000))))
        s = r + r * z * (-1 / 6 + z * (1 / 120 + z * s))
        c = 1 / 40320 + z * (-1 / 3628800 + z * (1 / 479001600 + z * (-1 / 87178291200 + z * (1 / 20922789888000))))
        c = 1.0 - 0.5 * z + z * z * (1 / 24 + z * (-1 / 720 + z * c))
        quadrant = k - 4.0 * np.floor(0.25 * k)
        odd = (quadrant == 1.0) | (quadrant == 3.0)
        first = c if odd else s
        second = s if odd else c
        sine[i] = -first if quadrant >= 2.0 else first
        cosine[i] = -second if (quadrant == 1.0) | (quadrant == 2.0) else second


@compiled
def forward(
    links: FloatArray,
    q: FloatArray,
    value: FloatArray,
    sine: FloatArray,
    cosine: FloatArray,
    state: FloatArray,
    frames: FloatArray,
) -> None:
    """Fill state with the pose of the tip, and the frames of the links."""
    m = links.shape[0] - 1
    for i in range(m):
        source, scale, offset = int(links[i, SOURCE]) * LANES, links[i, MULTIPLIER], links[i, OFFSET]
        joint, own = q[source : source + LANES], value[i * LANES : (i + 1) * LANES]
        for lane in range(LANES):
            own[lane] = scale * joint[lane] + offset
    n_large = 0.0
    for i in range(value.shape[0]):
        n_large += 1.0 if abs(value[i]) >= LARGE_ANGLE else 0.0
    if n_large != 0.0:
        for i in range(value.shape[0]):
            if links[i // LANES, PRISMATIC] == 0.0:
                value[i] = np.fmod(value[i], TWO_PI)
    sines_and_cosines(value, sine, cosine)
    for k in range(3):
        x, y, z, p = links[0, 3 * k], links[0, 3 * k + 1], links[0, 3 * k + 2], links[0, 9 + k]
        for lane in range(LANES):
            state[k * LANES + lane] = x
            state[(3 + k) * LANES + lane] = y
            state[(6 + k) * LANES + lane] = z
            state[(9 + k) * LANES + lane] = p
    for i in range(m):
        ox, oy, oz = links[i + 1, 9], links[i + 1, 10], links[i + 1, 11]
        r00, r01, r02 = links[i + 1, 0], links[i + 1, 1], links[i + 1, 2]
        r10, r11, r12 = links[i + 1, 3], links[i + 1, 4], links[i + 1, 5]
        r20, r21, r22 = links[i + 1, 6], links[i + 1, 7], links[i + 1, 8]
        turns = 1.0 - links[i, PRISMATIC]
        first, last = i * LANES, (i + 1) * LANES
        slide, sin, cos = value[first:last], sine[first:last], cosine[first:last]
        frame = frames[6 * i * LANES : 6 * (i + 1) * LANES]
        for lane in range(LANES):  # a sliding joint does not turn, a turning one does not slide
            if turns == 0.0:
                sin[lane], cos[lane] = 0.0, 1.0
            else:
                slide[lane] = 0.0
        for lane in range(LANES):  # the three coordinates do not mix
            s, c, way = sin[lane], cos[lane], slide[lane]
            x, y, z, p = state[lane], state[3 * LANES + lane], state[6 * LANES + lane], state[9 * LANES + lane]
            frame[lane], frame[3 * LANES + lane] = p, z
            x, y, p = c * x + s * y, c * y - s * x, p + way * z
            state[lane] = r00 * x + r10 * y + r20 * z
            state[3 * LANES + lane] = r01 * x + r11 * y + r21 * z
            state[6 * LANES + lane] = r02 * x + r12 * y + r22 * z
            state[9 * LANES + lane] = p + ox * x + oy * y + oz * z
            x, y, z, p = state[LANES + lane], state[4 * LANES + lane], state[7 * LANES + lane], state[10 * LANES + lane]
            frame[LANES + lane], frame[4 * LANES + lane] = p, z
            x, y, p = c * x + s * y, c * y - s * x, p + way * z
            state[LANES + lane] = r00 * x + r10 * y + r20 * z
            state[4 * LANES + lane] = r01 * x + r11 * y + r21 * z
            state[7 * LANES + lane] = r02 * x + r12 * y + r22 * z
            state[10 * LANES + lane] = p + ox * x + oy * y + oz * z
            x, y, z, p = (
                state[2 * LANES + lane],
                state[5 * LANES + lane],
                state[8 * LANES + lane],
                state[11 * LANES + lane],
            )
            frame[2 * LANES + lane], frame[5 * LANES + lane] = p, z
            x, y, p = c * x + s * y, c * y - s * x, p + way * z
            state[2 * LANES + lane] = r00 * x + r10 * y + r20 * z
            state[5 * LANES + lane] = r01 * x + r11 * y + r21 * z
            state[8 * LANES + lane] = r02 * x + r12 * y + r22 * z
            state[11 * LANES + lane] = p + ox * x + oy * y + oz * z


@compiled
def columns(links: FloatArray, state: FloatArray, frames: FloatArray, jacobian: FloatArray) -> None:
    """Transposed Jacobian; followers add to the column of the joint they follow."""
    jacobian[:] = 0.0
    for i in range(links.shape[0] - 1):
        row, scale, turns = int(links[i, SOURCE]) * 6 * LANES, links[i, MULTIPLIER], 1.0 - links[i, PRISMATIC]
        slides = scale * links[i, PRISMATIC]
        turns = scale * turns
        column, frame = jacobian[row : row + 6 * LANES], frames[6 * i * LANES : 6 * (i + 1) * LANES]
        for lane in range(LANES):
            zx, zy, zz = frame[3 * LANES + lane], frame[4 * LANES + lane], frame[5 * LANES + lane]
            rx = state[9 * LANES + lane] - frame[lane]
            ry = state[10 * LANES + lane] - frame[LANES + lane]
            rz = state[11 * LANES + lane] - frame[2 * LANES + lane]
            column[lane] += turns * (zy * rz - zz * ry) + slides * zx
            column[LANES + lane] += turns * (zz * rx - zx * rz) + slides * zy
            column[2 * LANES + lane] += turns * (zx * ry - zy * rx) + slides * zz
            column[3 * LANES + lane] += turns * zx
            column[4 * LANES + lane] += turns * zy
            column[5 * LANES + lane] += turns * zz


@compiled
def pose_difference(state: FloatArray, target: FloatArray, position_only: bool, error: FloatArray) -> None:
    """Error from tip to target, and its two lengths; the angle as in `kernels.pose_difference`.

    atan2(s, c) of s >= 0 from a guess t right to 1e-5 (Hastings 1955) and the sine of what is left, s cos t - c sin t.
    """
    tx, ty, tz = target[0, 3], target[1, 3], target[2, 3]
    for lane in range(LANES):
        x, y, z = tx - state[9 * LANES + lane], ty - state[10 * LANES + lane], tz - state[11 * LANES + lane]
        error[lane], error[LANES + lane], error[2 * LANES + lane] = x, y, z
        error[6 * LANES + lane] = math.sqrt(x * x + y * y + z * z)
    if position_only:
        for i in range(3 * LANES):
            error[3 * LANES + i] = 0.0
        for lane in range(LANES):
            error[7 * LANES + lane] = 0.0
        return
    ax, ay, az = target[0, 0], target[1, 0], target[2, 0]
    bx, by, bz = target[0, 1], target[1, 1], target[2, 1]
    cx, cy, cz = target[0, 2], target[1, 2], target[2, 2]
    for lane in range(LANES):
        xx, xy, xz = state[lane], state[LANES + lane], state[2 * LANES + lane]
        yx, yy, yz = state[3 * LANES + lane], state[4 * LANES + lane], state[5 * LANES + lane]
        zx, zy, zz = state[6 * LANES + lane], state[7 * LANES + lane], state[8 * LANES + lane]
        x = 0.5 * ((xy * az - xz * ay) + (yy * bz - yz * by) + (zy * cz - zz * cy))
        y = 0.5 * ((xz * ax - xx * az) + (yz * bx - yx * bz) + (zz * cx - zx * cz))
        z = 0.5 * ((xx * ay - xy * ax) + (yx * by - yy * bx) + (zx * cy - zy * cx))
        c = 0.5 * (xx * ax + xy * ay + xz * az + yx * bx + yy * by + yz * bz + zx * cx + zy * cy + zz * cz) - 0.5
        s = math.sqrt(x * x + y * y + z * z)
        size = abs(c)
        larger, smaller = max(s, size), min(s, size)
        a = smaller / max(larger, 1e-300)
        b = a * a
        t = a * (0.9998660 + b * (-0.3302995 + b * (0.1801410 + b * (-0.0851330 + b * 0.0208351))))
        t = HALF_PI - t if s > size else t
        t = PI - t if c < 0.0 else t
        r = t - HALF_PI  # sine and cosine of t by the series about pi/2, where |r| <= pi/2
        u = r * r
        cosine = -1 / 5040 + u * (1 / 362880 + u * (-1 / 39916800 + u * (1 / 6227020800 + u * (-1 / 1307674368000))))
        cosine = -(r + r * u * (-1 / 6 + u * (1 / 120 + u * (cosine + u * u * u * u * u * (1 / 355687428096000)))))
        sine = 1 / 40320 + u * (-1 / 3628800 + u * (1 / 479001600 + u * (-1 / 87178291200 + u / 20922789888000)))
        sine = 1.0 - 0.5 * u + u * u * (1 / 24 + u * (-1 / 720 + u * (sine - u * u * u * u * u / 6402373705728000)))
        left = (s * cosine - c * sine) / math.sqrt(max(s * s + c * c, 1e-300))
        angle = t + left + left * left * left * (1.0 / 6.0)
        scale = angle / max(s, 1e-300)
        scale = scale if s > 1e-12 else 0.0
        error[3 * LANES + lane], error[4 * LANES + lane], error[5 * LANES + lane] = scale * x, scale * y, scale * z
        error[7 * LANES + lane] = angle


@compiled
def task_differences(
    state: FloatArray,
    target: FloatArray,
    tolerances: FloatArray,
    tip: FloatArray,
    vectors: FloatArray,
    frame: FloatArray,
    error: FloatArray,
    axes: FloatArray,
) -> None:
    """`kernels.task_difference` lane by lane: it branches too much to gain from lanes."""
    for lane in range(LANES):
        for k in range(3):
            for column in range(4):
                tip[k, column] = state[(3 * column + k) * LANES + lane]
        error[6 * LANES + lane], error[7 * LANES + lane] = task_difference(tip, target, tolerances, vectors, frame)
        for k in range(6):
            error[k * LANES + lane] = vectors[0, k]
        for a in range(3):
            for b in range(3):
                axes[(3 * a + b) * LANES + lane] = frame[a, b]


@compiled
def task_rows(
    target: FloatArray, tolerances: FloatArray, error: FloatArray, axes: FloatArray, jacobian: FloatArray
) -> None:
    """As `kernels.task_rows`."""
    xx, xy, xz = target[0, 0], target[1, 0], target[2, 0]
    yx, yy, yz = target[0, 1], target[1, 1], target[2, 1]
    zx, zy, zz = target[0, 2], target[1, 2], target[2, 2]
    for j in range(jacobian.shape[0] // (6 * LANES)):
        column = jacobian[6 * j * LANES : 6 * (j + 1) * LANES]
        for lane in range(LANES):
            x, y, z = column[lane], column[LANES + lane], column[2 * LANES + lane]
            column[lane] = xx * x + xy * y + xz * z
            column[LANES + lane] = yx * x + yy * y + yz * z
            column[2 * LANES + lane] = zx * x + zy * y + zz * z
            x, y, z = column[3 * LANES + lane], column[4 * LANES + lane], column[5 * LANES + lane]
            for a in range(3):
                turn = axes[3 * a * LANES + lane] * x + axes[(3 * a + 1) * LANES + lane] * y
                column[(3 + a) * LANES + lane] = turn + axes[(3 * a + 2) * LANES + lane] * z
        for a in range(6):
            if tolerances[a] > 0.0:
                for lane in range(LANES):
                    beyond = 1.0 if error[a * LANES + lane] != 0.0 else 0.0
                    column[a * LANES + lane] *= beyond


@compiled
def release_limits(bounds: FloatArray, q: FloatArray, error: FloatArray, jacobian: FloatArray) -> None:
    """Leave out joints that stand at a limit and would be pushed further out."""
    for j in range(bounds.shape[1]):
        if bounds[2, j] != 0.0:
            continue
        lower, upper = bounds[0, j], bounds[1, j]
        joint, column = q[j * LANES : (j + 1) * LANES], jacobian[6 * j * LANES : 6 * (j + 1) * LANES]
        for lane in range(LANES):
            push = column[lane] * error[lane]
            push += column[LANES + lane] * error[LANES + lane]
            push += column[2 * LANES + lane] * error[2 * LANES + lane]
            push += column[3 * LANES + lane] * error[3 * LANES + lane]
            push += column[4 * LANES + lane] * error[4 * LANES + lane]
            push += column[5 * LANES + lane] * error[5 * LANES + lane]
            at = joint[lane]
            stuck = ((at <= lower) & (push < 0.0)) | ((at >= upper) & (push > 0.0))
            free = 0.0 if stuck else 1.0
            column[lane] *= free
            column[LANES + lane] *= free
            column[2 * LANES + lane] *= free
            column[3 * LANES + lane] *= free
            column[4 * LANES + lane] *= free
            column[5 * LANES + lane] *= free


@compiled
def products(jacobian: FloatArray, damping: FloatArray, gram: FloatArray) -> None:
    """J J^T + damping I, lower triangle; two columns at a time, which halves how often sums are loaded and stored."""
    gram[:] = 0.0
    for j in range(0, jacobian.shape[0] // (6 * LANES), 2):
        column = jacobian[6 * j * LANES : 6 * (j + 1) * LANES]
        other = jacobian[6 * (j + 1) * LANES : 6 * (j + 2) * LANES]
        for lane in range(LANES):
            a, b, c = column[lane], column[LANES + lane], column[2 * LANES + lane]
            d, e, f = column[3 * LANES + lane], column[4 * LANES + lane], column[5 * LANES + lane]
            p, q, r = other[lane], other[LANES + lane], other[2 * LANES + lane]
            s, t, u = other[3 * LANES + lane], other[4 * LANES + lane], other[5 * LANES + lane]
            gram[lane] += a * a + p * p
            gram[LANES + lane] += b * a + q * p
            gram[2 * LANES + lane] += b * b + q * q
            gram[3 * LANES + lane] += c * a + r * p
            gram[4 * LANES + lane] += c * b + r * q
            gram[5 * LANES + lane] += c * c + r * r
            gram[6 * LANES + lane] += d * a + s * p
            gram[7 * LANES + lane] += d * b + s * q
            gram[8 * LANES + lane] += d * c + s * r
            gram[9 * LANES + lane] += d * d + s * s
            gram[10 * LANES + lane] += e * a + t * p
            gram[11 * LANES + lane] += e * b + t * q
            gram[12 * LANES + lane] += e * c + t * r
            gram[13 * LANES + lane] += e * d + t * s
            gram[14 * LANES + lane] += e * e + t * t
            gram[15 * LANES + lane] += f * a + u * p
            gram[16 * LANES + lane] += f * b + u * q
            gram[17 * LANES + lane] += f * c + u * r
            gram[18 * LANES + lane] += f * d + u * s
            gram[19 * LANES + lane] += f * e + u * t
            gram[20 * LANES + lane] += f * f + u * u
    for lane in range(LANES):
        gram[lane] += damping[lane]
        gram[2 * LANES + lane] += damping[lane]
        gram[5 * LANES + lane] += damping[lane]
        gram[9 * LANES + lane] += damping[lane]
        gram[14 * LANES + lane] += damping[lane]
        gram[20 * LANES + lane] += damping[lane]


@compiled
def solve_damped(gram: FloatArray, error: FloatArray, position_only: bool, solution: FloatArray) -> None:
    """Solve (J J^T + damping I) y = error by Cholesky."""
    for lane in range(LANES):
        a0 = 1.0 / math.sqrt(max(gram[lane], PIVOT_FLOOR))
        b0, c0 = gram[LANES + lane] * a0, gram[3 * LANES + lane] * a0
        b1 = 1.0 / math.sqrt(max(gram[2 * LANES + lane] - b0 * b0, PIVOT_FLOOR))
        c1 = (gram[4 * LANES + lane] - c0 * b0) * b1
        c2 = 1.0 / math.sqrt(max(gram[5 * LANES + lane] - c0 * c0 - c1 * c1, PIVOT_FLOOR))
        d0, e0, f0 = gram[6 * LANES + lane] * a0, gram[10 * LANES + lane] * a0, gram[15 * LANES + lane] * a0
        d1 = (gram[7 * LANES + lane] - d0 * b0) * b1
        e1 = (gram[11 * LANES + lane] - e0 * b0) * b1
        f1 = (gram[16 * LANES + lane] - f0 * b0) * b1
        d2 = (gram[8 * LANES + lane] - d0 * c0 - d1 * c1) * c2
        e2 = (gram[12 * LANES + lane] - e0 * c0 - e1 * c1) * c2
        f2 = (gram[17 * LANES + lane] - f0 * c0 - f1 * c1) * c2
        d3 = 1.0 / math.sqrt(max(gram[9 * LANES + lane] - d0 * d0 - d1 * d1 - d2 * d2, PIVOT_FLOOR))
        e3 = (gram[13 * LANES + lane] - e0 * d0 - e1 * d1 - e2 * d2) * d3
        f3 = (gram[18 * LANES + lane] - f0 * d0 - f1 * d1 - f2 * d2) * d3
        e4 = 1.0 / math.sqrt(max(gram[14 * LANES + lane] - e0 * e0 - e1 * e1 - e2 * e2 - e3 * e3, PIVOT_FLOOR))
        f4 = (gram[19 * LANES + lane] - f0 * e0 - f1 * e1 - f2 * e2 - f3 * e3) * e4
        f5 = gram[20 * LANES + lane] - f0 * f0 - f1 * f1 - f2 * f2 - f3 * f3 - f4 * f4
        f5 = 1.0 / math.sqrt(max(f5, PIVOT_FLOOR))
        y0 = error[lane] * a0
        y1 = (error[LANES + lane] - b0 * y0) * b1
        y2 = (error[2 * LANES + lane] - c0 * y0 - c1 * y1) * c2
        y3 = (error[3 * LANES + lane] - d0 * y0 - d1 * y1 - d2 * y2) * d3
        y4 = (error[4 * LANES + lane] - e0 * y0 - e1 * y1 - e2 * y2 - e3 * y3) * e4
        y5 = (error[5 * LANES + lane] - f0 * y0 - f1 * y1 - f2 * y2 - f3 * y3 - f4 * y4) * f5
        y5 = 0.0 if position_only else y5 * f5
        y4 = 0.0 if position_only else (y4 - f4 * y5) * e4
        y3 = 0.0 if position_only else (y3 - e3 * y4 - f3 * y5) * d3
        y2 = (y2 - d2 * y3 - e2 * y4 - f2 * y5) * c2
        y1 = (y1 - c1 * y2 - d1 * y3 - e1 * y4 - f1 * y5) * b1
        y0 = (y0 - b0 * y1 - c0 * y2 - d0 * y3 - e0 * y4 - f0 * y5) * a0
        solution[lane], solution[LANES + lane], solution[2 * LANES + lane] = y0, y1, y2
        solution[3 * LANES + lane], solution[4 * LANES + lane], solution[5 * LANES + lane] = y3, y4, y5


@compiled
def move(bounds: FloatArray, jacobian: FloatArray, solution: FloatArray, q: FloatArray) -> None:
    """q <- q + J^T y, wrapped or clamped to the limits."""
    for j in range(bounds.shape[1]):
        lower, upper = bounds[0, j], bounds[1, j]
        joint, column = q[j * LANES : (j + 1) * LANES], jacobian[6 * j * LANES : 6 * (j + 1) * LANES]
        for lane in range(LANES):
            step = column[lane] * solution[lane]
            step += column[LANES + lane] * solution[LANES + lane]
            step += column[2 * LANES + lane] * solution[2 * LANES + lane]
            step += column[3 * LANES + lane] * solution[3 * LANES + lane]
            step += column[4 * LANES + lane] * solution[4 * LANES + lane]
            step += column[5 * LANES + lane] * solution[5 * LANES + lane]
            joint[lane] += step
        if bounds[2, j] != 0.0:
            for lane in range(LANES):
                at = joint[lane]
                at -= TWO_PI * np.floor((at + PI) / TWO_PI)
                joint[lane] = at if (at < PI) & (at >= -PI) else -PI
        else:
            for lane in range(LANES):
                joint[lane] = min(max(joint[lane], lower), upper)


@compiled
def refine_lanes(
    links: FloatArray,
    bounds: FloatArray,
    positions: FloatArray,
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
    """`kernels.refine_one` for each row of positions (n, dof), in place; rows and target were checked."""
    n, dof, m = positions.shape[0], positions.shape[1], links.shape[0] - 1
    partial, tip, vectors, frame = tolerances.shape[0] > 0, np.empty((3, 4)), np.empty((2, 6)), np.empty((3, 3))
    axes = np.zeros(9 * LANES)
    value, sine, cosine = np.zeros(m * LANES), np.zeros(m * LANES), np.zeros(m * LANES)
    state, frames, jacobian = np.zeros(12 * LANES), np.zeros(6 * m * LANES), np.zeros(6 * (dof + dof % 2) * LANES)
    error, gram, solution, damping = (
        np.zeros(8 * LANES), np.zeros(21 * LANES), np.zeros(6 * LANES), np.zeros(LANES),
    )  # fmt: skip
    q, best = np.zeros(dof * LANES), np.zeros(dof * LANES)
    row_of, step_of = np.full(LANES, -1), np.zeros(LANES, dtype=np.int64)
    least, reference, previous = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    caution, distance_of, angle_of = np.ones(LANES), np.zeros(LANES), np.zeros(LANES)
    following = n_active = 0
    for lane in range(LANES):
        if following < n:
            _load(bounds, positions, following, lane, q, best, row_of, step_of, least, reference, previous, caution)
            following += 1
            n_active += 1
    while n_active > 0:
        forward(links, q, value, sine, cosine, state, frames)
        if partial:
            task_differences(state, target, tolerances, tip, vectors, frame, error, axes)
        else:
            pose_difference(state, target, position_only, error)
        for lane in range(LANES):
            row = row_of[lane]
            if row < 0:
                continue
            distance, angle = error[6 * LANES + lane], error[7 * LANES + lane]
            done = distance <= position_tolerance and angle <= orientation_tolerance
            converged[row] = done
            square = distance * distance + angle * angle
            caution[lane] = max(0.5 * caution[lane], 1.0) if square < previous[lane] else 4.0 * caution[lane]
            previous[lane] = square
            if done or square < least[lane]:
                least[lane], distance_of[lane], angle_of[lane] = square, distance, angle
                for j in range(dof):
                    best[j * LANES + lane] = q[j * LANES + lane]
            ended = done or step_of[lane] >= max_iterations
            if not ended and step_of[lane] % patience == 0:
                ended = not least[lane] < STALL_RATIO * reference[lane]
                reference[lane] = least[lane]
            if not ended:
                step_of[lane] += 1
                damping[lane] = caution[lane] * DAMPING * square + DAMPING_FLOOR
                continue
            iterations[row], errors[0, row], errors[1, row] = step_of[lane], distance_of[lane], angle_of[lane]
            for j in range(dof):
                positions[row, j] = best[j * LANES + lane]
            row_of[lane] = -1
            n_active -= 1
        columns(links, state, frames, jacobian)
        if partial:
            task_rows(target, tolerances, error, axes, jacobian)
        release_limits(bounds, q, error, jacobian)
        products(jacobian, damping, gram)
        solve_damped(gram, error, position_only, solution)
        move(bounds, jacobian, solution, q)
        for lane in range(LANES):
            if row_of[lane] < 0 and following < n:
                _load(bounds, positions, following, lane, q, best, row_of, step_of, least, reference, previous, caution)
                following += 1
                n_active += 1


@compiled
def load_rows(positions: FloatArray, first: int, n_rows: int, q: FloatArray) -> None:
    """Let lanes q (dof LANES,) be n_rows rows of positions (n, dof), from the first on."""
    for lane in range(n_rows):
        for j in range(positions.shape[1]):
            q[j * LANES + lane] = positions[first + lane, j]


@compiled
def errors_lanes(
    links: FloatArray, positions: FloatArray, target: FloatArray, tolerances: FloatArray, errors: FloatArray
) -> None:
    """As `kernels.errors_many`."""
    n, dof, m = positions.shape[0], positions.shape[1], links.shape[0] - 1
    tip, vectors, frame, axes = np.empty((3, 4)), np.empty((2, 6)), np.empty((3, 3)), np.zeros(9 * LANES)
    value, sine, cosine = np.zeros(m * LANES), np.zeros(m * LANES), np.zeros(m * LANES)
    state, frames, error, q = np.zeros(12 * LANES), np.zeros(6 * m * LANES), np.zeros(8 * LANES), np.zeros(dof * LANES)
    for first in range(0, n, LANES):
        n_rows = min(LANES, n - first)
        load_rows(positions, first, n_rows, q)
        forward(links, q, value, sine, cosine, state, frames)
        if tolerances.shape[0] > 0:
            task_differences(state, target, tolerances, tip, vectors, frame, error, axes)
        else:
            pose_difference(state, target, False, error)
        for lane in range(n_rows):
            errors[0, first + lane], errors[1, first + lane] = error[6 * LANES + lane], error[7 * LANES + lane]


@compiled
def polish_lanes(
    links: FloatArray,
    bounds: FloatArray,
    positions: FloatArray,
    target: FloatArray,
    position_only: bool,
    position_tolerance: float,
    orientation_tolerance: float,
    valid: BoolArray,
) -> None:
    """One step of the refiner for each of positions (n, dof), in place; and whether all is well with it after that.

    Of configurations within the limits and so close to the target that one step is enough, this is what they take: the
    refiner would begin another one to see that. Joints that turn endlessly end in [-pi, pi).
    """
    n, dof, m = positions.shape[0], positions.shape[1], links.shape[0] - 1
    value, sine, cosine = np.zeros(m * LANES), np.zeros(m * LANES), np.zeros(m * LANES)
    state, frames, jacobian = np.zeros(12 * LANES), np.zeros(6 * m * LANES), np.zeros(6 * (dof + dof % 2) * LANES)
    error, gram, solution, damping = (
        np.zeros(8 * LANES), np.zeros(21 * LANES), np.zeros(6 * LANES), np.zeros(LANES),
    )  # fmt: skip
    q = np.zeros(dof * LANES)
    for first in range(0, n, LANES):
        n_rows = min(LANES, n - first)
        load_rows(positions, first, n_rows, q)
        forward(links, q, value, sine, cosine, state, frames)
        pose_difference(state, target, position_only, error)
        for lane in range(LANES):
            square = (
                error[6 * LANES + lane] * error[6 * LANES + lane] + error[7 * LANES + lane] * error[7 * LANES + lane]
            )
            damping[lane] = DAMPING * square + DAMPING_FLOOR
        columns(links, state, frames, jacobian)
        release_limits(bounds, q, error, jacobian)
        products(jacobian, damping, gram)
        solve_damped(gram, error, position_only, solution)
        move(bounds, jacobian, solution, q)
        forward(links, q, value, sine, cosine, state, frames)
        pose_difference(state, target, position_only, error)
        for lane in range(n_rows):
            inside = error[6 * LANES + lane] <= position_tolerance and error[7 * LANES + lane] <= orientation_tolerance
            for j in range(dof):
                at = q[j * LANES + lane]
                positions[first + lane, j] = at
                inside &= at >= bounds[0, j] and at <= bounds[1, j]
            valid[first + lane] = inside


@compiled
def verify_lanes(
    links: FloatArray,
    bounds: FloatArray,
    positions: FloatArray,
    target: FloatArray,
    position_only: bool,
    tolerances: FloatArray,
    position_tolerance: float,
    orientation_tolerance: float,
    errors: FloatArray,
    valid: BoolArray,
) -> None:
    """Fill errors (2, n) of positions (n, dof), and whether each is within the tolerances and the limits."""
    errors_lanes(links, positions, target, tolerances, errors)
    for i in range(positions.shape[0]):
        if position_only:
            errors[1, i] = 0.0
        inside = errors[0, i] <= position_tolerance and errors[1, i] <= orientation_tolerance
        for j in range(positions.shape[1]):
            inside &= positions[i, j] >= bounds[0, j] and positions[i, j] <= bounds[1, j]
        valid[i] = inside


@compiled
def _load(
    bounds: FloatArray,
    positions: FloatArray,
    row: int,
    lane: int,
    q: FloatArray,
    best: FloatArray,
    row_of: IntArray,
    step_of: IntArray,
    least: FloatArray,
    reference: FloatArray,
    previous: FloatArray,
    caution: FloatArray,
) -> None:
    """Begin with the seed in a row."""
    for j in range(bounds.shape[1]):
        at = positions[row, j]
        if bounds[2, j] == 0.0:
            at = min(max(at, bounds[0, j]), bounds[1, j])
        elif at < -PI or at >= PI:
            at -= TWO_PI * np.floor((at + PI) / TWO_PI)
            if at >= PI or at < -PI:  # rounding
                at = -PI
        q[j * LANES + lane] = best[j * LANES + lane] = at
    row_of[lane], step_of[lane] = row, 0
    least[lane] = reference[lane] = previous[lane] = math.inf
    caution[lane] = 1.0
