"""Walks along the solutions of one pose: the self-motion of a redundant arm.

The solutions of a pose form curves or surfaces in joint space. From a solution q a step along the null space of its
Jacobian, h t with t in the direction of (I - J^+ J) d, leaves the pose by the second order of h only, and two or three
steps of the refiner lead back: a new solution at a wanted distance for a fraction of what a seed from elsewhere costs.
Growing from all solutions at once, and keeping only points that are at least a spacing away from every other, samples
the solutions evenly: Poisson-disk sampling (Bridson 2007) on the manifold of solutions.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics.kernels import TWO_PI, columns, forward, next_uniform, solve_damped
from eim_ros.kinematics.lanes import LANES, refine_lanes
from eim_ros.numerics.compiled import compiled

__all__ = ["grow"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

BATCH = 2 * LANES  # steps that are led back to the pose side by side
PROJECTION_DAMPING = 1e-9
LEAST_SHARE = 1e-3  # of a direction that has to be in the null space to be followed
STEPS_BACK = 10  # of the refiner after a step along the null space, at most
PATIENCE = 3
FORESIGHT = 0.7  # a step that is predicted to end closer than this share of the spacing to a known point is not taken
MOST_ANCHORS = 3 * LANES  # points from which steps are tried for a batch
LEAST_YIELD = 0.08  # new points per step tried, below which all that can be reached is about known
SPACING = 0.75  # of solutions, as a share of the step


@compiled
def grow(
    links: FloatArray,
    bounds: FloatArray,
    points: FloatArray,
    n_points: int,
    target: FloatArray,
    position_only: bool,
    tolerances: FloatArray,
    position_tolerance: float,
    orientation_tolerance: float,
    step: float,
    n_directions: int,
    seed: float,
) -> int:
    """Append solutions to the first n_points rows of points (capacity, dof), all of them solutions of the target.

    A step of length `step` [rad, m] is tried from every point forth and back along each of n_directions random
    directions; its end is kept when it is at least SPACING steps from all points. Ends when hardly any step leads to a
    new point, or the capacity is used up. The seed is in [0, 1). Returns the number of points.
    """
    m, dof, capacity = links.shape[0] - 1, points.shape[1], points.shape[0]
    trigonometry, frames, tip = np.zeros((3, (m + 7) // 8 * 8)), np.empty((m, 6)), np.empty((3, 4))
    jacobian, masked, vectors = np.empty((dof, 6)), np.empty((dof, 6)), np.empty((2, 6))
    direction, tangent, anchors = np.empty(dof), np.empty(dof), np.empty((capacity, dof))
    batch = BATCH + 2 * n_directions
    ends, errors = np.empty((batch, dof)), np.empty((2, batch))
    converged, iterations = np.zeros(batch, dtype=np.bool_), np.zeros(batch, dtype=np.int64)
    state = np.uint64(seed * 9007199254740992.0)
    spacing, n_known = SPACING * step, n_points
    head = n_anchors = 0
    while head < n_points < capacity and n_points - n_known >= LEAST_YIELD * (2 * n_directions * n_anchors):
        n_ends, n_anchors_before = 0, n_anchors
        while head < n_points and n_ends < BATCH and n_anchors - n_anchors_before < MOST_ANCHORS:
            if not is_near(bounds, anchors, n_anchors, points[head], spacing):
                for j in range(dof):
                    anchors[n_anchors, j] = points[head, j]
                n_anchors += 1
                forward(links, points[head], trigonometry, frames, tip)
                columns(links, frames, tip, jacobian)
                for _ in range(n_directions):
                    for j in range(dof):
                        state, uniform = next_uniform(state)
                        direction[j] = 2.0 * uniform - 1.0
                    n_ends = _both_ways(
                        bounds, points, n_points, head, jacobian, direction, position_only, step, masked, vectors,
                        tangent, ends, n_ends,
                    )  # fmt: skip
            head += 1
        if n_ends > 0:
            refine_lanes(
                links, bounds, ends[:n_ends], target, position_only, tolerances, position_tolerance,
                orientation_tolerance, STEPS_BACK, PATIENCE, converged, iterations, errors,
            )  # fmt: skip
        for i in range(n_ends):
            if n_points < capacity and converged[i] and not is_near(bounds, points, n_points, ends[i], spacing):
                for j in range(dof):
                    points[n_points, j] = ends[i, j]
                n_points += 1
    return n_points


@compiled
def _both_ways(
    bounds: FloatArray,
    points: FloatArray,
    n_points: int,
    head: int,
    jacobian: FloatArray,
    direction: FloatArray,
    position_only: bool,
    step: float,
    masked: FloatArray,
    vectors: FloatArray,
    tangent: FloatArray,
    ends: FloatArray,
    n_ends: int,
) -> int:
    """Append to ends the steps from a point along a direction, forth and back, that lead away from all that is known.

    Returns the number of ends. An end is clamped to the limits.
    """
    dof, foreseen = direction.shape[0], FORESIGHT * SPACING * step
    has_tangent = False
    for way in range(2):
        if way == 1:
            for j in range(dof):
                direction[j], tangent[j] = -direction[j], -tangent[j]
        if way == 0 or _is_at_limit(bounds, points[head]):
            has_tangent = _project(bounds, points[head], jacobian, direction, position_only, masked, vectors, tangent)
        if not has_tangent:
            continue
        for j in range(dof):
            end = points[head, j] + step * tangent[j]
            ends[n_ends, j] = end if bounds[2, j] != 0.0 else min(max(end, bounds[0, j]), bounds[1, j])
        near_end = is_near(bounds, ends, n_ends, ends[n_ends], foreseen)
        if not near_end and not is_near(bounds, points, n_points, ends[n_ends], foreseen):
            n_ends += 1
    return n_ends


@compiled
def _project(
    bounds: FloatArray,
    q: FloatArray,
    jacobian: FloatArray,
    direction: FloatArray,
    position_only: bool,
    masked: FloatArray,
    vectors: FloatArray,
    tangent: FloatArray,
) -> bool:
    """Fill tangent with the unit vector along the part of a direction in the null space; False without such a part.

    A joint that stands at a limit and would be pushed further out does not move.
    """
    dof = q.shape[0]
    length = left = 0.0
    for k in range(6):
        vectors[0, k] = 0.0
    for j in range(dof):
        outward = (q[j] <= bounds[0, j] and direction[j] < 0.0) or (q[j] >= bounds[1, j] and direction[j] > 0.0)
        free = 0.0 if outward and bounds[2, j] == 0.0 else 1.0
        tangent[j] = free * direction[j]
        length += tangent[j] * tangent[j]
        for k in range(6):
            masked[j, k] = free * jacobian[j, k]
            vectors[0, k] += masked[j, k] * tangent[j]
    solve_damped(masked, position_only, PROJECTION_DAMPING, vectors)
    for j in range(dof):
        for k in range(6):
            tangent[j] -= masked[j, k] * vectors[1, k]
        left += tangent[j] * tangent[j]
    if not left > LEAST_SHARE * LEAST_SHARE * length:
        return False
    scale = 1.0 / math.sqrt(left)
    for j in range(dof):
        tangent[j] *= scale
    return True


@compiled
def _is_at_limit(bounds: FloatArray, q: FloatArray) -> bool:
    """Whether a joint stands at a limit."""
    at_limit = False
    for j in range(q.shape[0]):
        at_limit |= bounds[2, j] == 0.0 and (q[j] <= bounds[0, j] or q[j] >= bounds[1, j])
    return at_limit


@compiled
def is_near(bounds: FloatArray, points: FloatArray, n_points: int, q: FloatArray, radius: float) -> bool:
    """Whether one of the first n_points rows is within a radius of q (dof,), on the circle for joints that wrap.

    Two joints tell most rows apart.
    """
    square, dof = radius * radius, q.shape[0]
    few = min(2, dof)
    for i in range(n_points):
        total = 0.0
        for j in range(few):
            total += _difference(points[i, j], q[j], bounds[2, j]) ** 2
        if total < square:
            for j in range(few, dof):
                total += _difference(points[i, j], q[j], bounds[2, j]) ** 2
            if total < square:
                return True
    return False


@compiled
def _difference(a: float, b: float, wraps: float) -> float:
    """a - b, on the circle for a joint that wraps."""
    difference = a - b
    if wraps != 0.0:
        difference -= TWO_PI * np.floor(difference / TWO_PI + 0.5)
    return difference
