"""Walks along the solutions of one pose: the self-motion of a redundant arm.

`grow` explores it where it has more than one dimension (else see `curves.py`), `settle` descends on it.

From a solution q a step along the null space of its Jacobian, h t with t in the direction of (I - J^+ J) d, leaves the
pose by the second order of h only, and some steps of the refiner lead back: a new solution, at a wanted distance.
Growing from all solutions at once, and keeping only points that are at least a spacing away from every other, samples
the solutions evenly: Poisson-disk sampling (Bridson 2007) on the manifold of solutions.

`settle` goes along the part of minus a gradient that is in the null space, down to where nothing is left of it.

numba's disk cache notices a change of this file only: touch it when what it takes from `kernels.py` or `lanes.py`
changes.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics.kernels import (
    TWO_PI,
    columns,
    forward,
    next_uniform,
    refine_one,
    solve_damped,
    task_difference,
    task_rows,
)
from eim_ros.kinematics.lanes import LANES, refine_lanes
from eim_ros.numerics.compiled import compiled

__all__ = ["SPACING", "grow", "settle"]

FloatArray = npt.NDArray[np.float64]

BATCH = 6 * LANES  # steps that are led back to the pose side by side
PROJECTION_DAMPING = 1e-9
LEAST_SHARE = 1e-3  # of a direction that has to be in the null space to be followed
STEPS_BACK = 10  # of the refiner after a step along the null space, at most
PATIENCE = 3
FORESIGHT = 0.7  # a step that is predicted to end closer than this share of the spacing to a known point is not taken
MOST_HEADS = 6 * LANES  # points from which steps are tried for a batch
LEAST_YIELD = 0.08  # new points per step tried, below which all that can be reached is about known
SPACING = 0.6  # of solutions at least, as a share of the step

MOST_DESCENTS = 200  # steps to a local minimum
MOST_HALVINGS = 12  # of a step after which the cost is not lower
SHORTEST_SCALE = 0.1  # of a step to the descent; weights are at most 1
LONGEST_STEP = 0.3  # [rad, m]
FLAT = 3e-5  # [rad, m]: length of the gradient along the self-motion at which a minimum is reached
EXACT = 1e-12  # [m], [rad]: errors to which steps are led back, that their noise does not hide how the cost falls
WIDEST_MARGIN = 1e-2  # [rad, m]: closer than this to a limit counts as at it, until a minimum with that is reached
NARROWING = 1e-3
EDGE = 1e-8  # [m], [rad]: closer than this to a limit or to the end of a tolerance is at it


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
    directions; its end is kept when it is at least SPACING steps from all points. On a curve (n_directions 1) a walk
    goes on ahead only. Ends when hardly any step leads to a new point, or the capacity is used up. The seed is in
    [0, 1). Returns the number of points.
    """
    m, dof, capacity = links.shape[0] - 1, points.shape[1], points.shape[0]
    trigonometry, frames, tip = np.zeros((3, (m + 7) // 8 * 8)), np.empty((m, 6)), np.empty((3, 4))
    jacobian, masked, vectors = np.empty((dof, 6)), np.empty((dof, 6)), np.empty((2, 6))
    direction, tangent, anchors = np.empty(dof), np.empty(dof), np.empty((n_points, dof))
    batch = BATCH + 2 * n_directions
    ends, errors = np.empty((batch, dof)), np.empty((2, batch))
    converged, iterations = np.zeros(batch, dtype=np.bool_), np.zeros(batch, dtype=np.int64)
    state = np.uint64(seed * 9007199254740992.0)
    spacing, n_known = SPACING * step, n_points
    head = n_anchors = n_tried = 0
    while head < n_points < capacity and n_points - n_known >= LEAST_YIELD * n_tried:
        n_ends = n_heads = 0
        while head < n_points and n_ends < BATCH and n_heads < MOST_HEADS:
            is_walked = head >= n_known  # and so apart from all others
            if is_walked or not _is_near(bounds, anchors, n_anchors, points[head], spacing):
                n_heads += 1
                if not is_walked:
                    for j in range(dof):
                        anchors[n_anchors, j] = points[head, j]
                    n_anchors += 1
                forward(links, points[head], trigonometry, frames, tip)
                columns(links, frames, tip, jacobian)
                for _ in range(n_directions):
                    for j in range(dof):
                        state, uniform = next_uniform(state)
                        direction[j] = 2.0 * uniform - 1.0
                    n_ends = _append_steps(
                        bounds, points, n_points, head, jacobian, direction, position_only, step, masked, vectors,
                        tangent, ends, n_ends,
                    )  # fmt: skip
                    n_tried += 2
            head += 1
        if n_ends > 0:
            refine_lanes(
                links, bounds, ends[:n_ends], target, position_only, tolerances, position_tolerance,
                orientation_tolerance, STEPS_BACK, PATIENCE, converged, iterations, errors,
            )  # fmt: skip
        for i in range(n_ends):
            if n_points < capacity and converged[i] and not _is_near(bounds, points, n_points, ends[i], spacing):
                for j in range(dof):
                    points[n_points, j] = ends[i, j]
                n_points += 1
    return n_points


@compiled
def _append_steps(
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
    """Append to ends the steps from a point, forth and back along a direction, that lead away from all that is known.

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
        near_end = _is_near(bounds, ends, n_ends, ends[n_ends], foreseen)
        if not near_end and not _is_near(bounds, points, n_points, ends[n_ends], foreseen):
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
    dof, length = q.shape[0], 0.0
    for j in range(dof):
        outward = (q[j] <= bounds[0, j] and direction[j] < 0.0) or (q[j] >= bounds[1, j] and direction[j] > 0.0)
        free = 0.0 if outward and bounds[2, j] == 0.0 else 1.0
        tangent[j] = free * direction[j]
        length += tangent[j] * tangent[j]
        for k in range(6):
            masked[j, k] = free * jacobian[j, k]
    left = _to_null_space(masked, position_only, vectors, tangent)
    if not left > LEAST_SHARE * LEAST_SHARE * length:
        return False
    scale = 1.0 / math.sqrt(left)
    for j in range(dof):
        tangent[j] *= scale
    return True


@compiled
def _to_null_space(masked: FloatArray, position_only: bool, vectors: FloatArray, tangent: FloatArray) -> float:
    """Take from tangent (dof,) what is not in the null space of a transposed Jacobian; squared length of the rest."""
    left = 0.0
    for k in range(6):
        vectors[0, k] = 0.0
        for j in range(tangent.shape[0]):
            vectors[0, k] += masked[j, k] * tangent[j]
    solve_damped(masked, position_only, PROJECTION_DAMPING, vectors)
    for j in range(tangent.shape[0]):
        for k in range(6):
            tangent[j] -= masked[j, k] * vectors[1, k]
        left += tangent[j] * tangent[j]
    return left


@compiled
def _is_at_limit(bounds: FloatArray, q: FloatArray) -> bool:
    """Whether a joint stands at a limit."""
    at_limit = False
    for j in range(q.shape[0]):
        at_limit |= bounds[2, j] == 0.0 and (q[j] <= bounds[0, j] or q[j] >= bounds[1, j])
    return at_limit


@compiled
def _is_near(bounds: FloatArray, points: FloatArray, n_points: int, q: FloatArray, radius: float) -> bool:
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


@compiled
def settle(
    links: FloatArray,
    bounds: FloatArray,
    points: FloatArray,
    preferred: FloatArray,
    target: FloatArray,
    position_only: bool,
    tolerances: FloatArray,
    position_tolerance: float,
    orientation_tolerance: float,
) -> None:
    """Move each of points (n, dof), solutions of the target, along the self-motion to a local minimum of a cost.

    The cost is sum_j w_j (q_j - p_j)^2, with p, w and 1 where differences are on the circle in the rows of preferred
    (3, dof). It never rises: a point that cannot be moved without stays as it is. The length of the first step is that
    of the least cost along a straight line, of the others that of Barzilai and Borwein (1988), for one free dimension
    the secant method; each is halved until the cost falls.
    """
    m, dof, partial = links.shape[0] - 1, points.shape[1], tolerances.shape[0] > 0
    trigonometry, frames, tip = np.zeros((3, (m + 7) // 8 * 8)), np.empty((m, 6)), np.empty((3, 4))
    jacobian, masked, vectors, axes = np.empty((dof, 6)), np.empty((dof, 6)), np.empty((2, 6)), np.empty((3, 3))
    q, trial, best, edges = np.empty(dof), np.empty(dof), np.empty(dof), np.maximum(tolerances - EDGE, 0.0)
    tangent, taken, slope = np.empty(dof), np.zeros(dof), np.zeros(dof)
    for i in range(points.shape[0]):
        q[:] = points[i]
        _, _, distance, angle = refine_one(
            links, bounds, q, target, position_only, tolerances, EXACT, EXACT, STEPS_BACK, PATIENCE, trigonometry,
            frames, tip, jacobian, vectors, axes, best,
        )  # fmt: skip
        if not (distance <= position_tolerance and angle <= orientation_tolerance):
            continue
        cost = _cost(preferred, q)
        taken[:] = 0.0
        margin = WIDEST_MARGIN
        for _ in range(MOST_DESCENTS):
            forward(links, q, trigonometry, frames, tip)
            columns(links, frames, tip, jacobian)
            if partial:
                task_difference(tip, target, edges, vectors, axes)
                task_rows(target, edges, vectors, axes, jacobian)
            left = _descent(bounds, preferred, q, jacobian, position_only, edges, margin, masked, vectors, tangent)
            scale = _scale(bounds, preferred, q, left, tangent, taken, slope)
            falls = False
            n_tries = 0 if left <= max(FLAT, 0.1 * margin) ** 2 else MOST_HALVINGS
            while not falls and n_tries > 0:
                for j in range(dof):
                    trial[j] = q[j] + scale * tangent[j]
                _, _, distance, angle = refine_one(
                    links, bounds, trial, target, position_only, tolerances, EXACT, EXACT, STEPS_BACK, PATIENCE,
                    trigonometry, frames, tip, jacobian, vectors, axes, best,
                )  # fmt: skip
                reaches = distance <= position_tolerance and angle <= orientation_tolerance
                falls = reaches and _cost(preferred, trial) < cost
                scale *= 0.5
                n_tries -= 1
            if falls:
                cost = _cost(preferred, trial)
                for j in range(dof):
                    taken[j], slope[j] = _difference(trial[j], q[j], bounds[2, j]), tangent[j]
                    q[j] = trial[j]
            elif margin > EDGE:
                margin = max(NARROWING * margin, EDGE)
                taken[:] = 0.0
            else:
                break
        if cost < _cost(preferred, points[i]):
            points[i] = q


@compiled
def _scale(
    bounds: FloatArray,
    preferred: FloatArray,
    q: FloatArray,
    left: float,
    tangent: FloatArray,
    taken: FloatArray,
    slope: FloatArray,
) -> float:
    """How far to go along tangent (dof,), whose squared length is left, not beyond a limit: see `settle`.

    taken (dof,) is the step before, zero for none, and slope (dof,) the tangent there.
    """
    curvature = square = bend = 0.0
    for j in range(q.shape[0]):
        curvature += preferred[1, j] * tangent[j] * tangent[j]
        square += taken[j] * taken[j]
        bend -= taken[j] * (tangent[j] - slope[j])
    if square > 0.0:
        scale = max(square / bend, SHORTEST_SCALE) if bend > 0.0 else math.inf
    else:
        scale = left / curvature if curvature > 0.0 else math.inf
    if left > 0.0:
        scale = min(scale, LONGEST_STEP / math.sqrt(left))
    for j in range(q.shape[0]):
        room = max(bounds[1, j] - q[j] if tangent[j] > 0.0 else q[j] - bounds[0, j], 0.0)
        if bounds[2, j] == 0.0 and abs(tangent[j]) * scale > room:
            scale = room / abs(tangent[j])
    return scale


@compiled
def _descent(
    bounds: FloatArray,
    preferred: FloatArray,
    q: FloatArray,
    jacobian: FloatArray,
    position_only: bool,
    edges: FloatArray,
    margin: float,
    masked: FloatArray,
    vectors: FloatArray,
    tangent: FloatArray,
) -> float:
    """Fill tangent with the steepest descent of half the cost along the self-motion; returns its squared length.

    A joint at a limit may move inwards only, and so may a tolerance at its end, whose row of the Jacobian begins as
    free: those that a descent would take outwards are held, one round after the other, until none is left. vectors[0]
    is what the tip is beyond the edges, zero where it is within.
    """
    dof = q.shape[0]
    side, held_joints, held_rows = np.zeros(6), np.zeros(dof), np.ones(6)
    for a in range(edges.shape[0]):
        side[a] = vectors[0, a]
        held_rows[a] = 0.0 if edges[a] > 0.0 else 1.0
    while True:
        for j in range(dof):
            free = 1.0 - held_joints[j]
            tangent[j] = -free * preferred[1, j] * _difference(q[j], preferred[0, j], preferred[2, j])
            for k in range(6):
                masked[j, k] = free * held_rows[k] * jacobian[j, k]
        left = _to_null_space(masked, position_only, vectors, tangent)
        n_held = 0
        for j in range(dof):
            if bounds[2, j] == 0.0 and held_joints[j] == 0.0:
                below, above = q[j] <= bounds[0, j] + margin, q[j] >= bounds[1, j] - margin
                if (below and tangent[j] < 0.0) or (above and tangent[j] > 0.0):
                    held_joints[j] = 1.0
                    n_held += 1
        for a in range(edges.shape[0]):
            if held_rows[a] == 0.0 and side[a] != 0.0:
                outwards = 0.0
                for j in range(dof):
                    outwards -= jacobian[j, a] * tangent[j] * side[a]
                if outwards > 0.0:
                    held_rows[a] = 1.0
                    n_held += 1
        if n_held == 0:
            return left


@compiled
def _cost(preferred: FloatArray, q: FloatArray) -> float:
    """sum_j w_j (q_j - p_j)^2."""
    cost = 0.0
    for j in range(q.shape[0]):
        difference = _difference(q[j], preferred[0, j], preferred[2, j])
        cost += preferred[1, j] * difference * difference
    return cost
