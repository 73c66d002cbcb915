"""The solutions of one pose where an arm has one joint more than the pose takes: curves, which `trace` follows.

A walk begins at a known solution and takes steps of equal length (predictor and corrector, Allgower and Georg 1990): a
prediction by the cubic through the last two places and their tangents, and Newton's method back to the pose. LANES
walks go on side by side, see `lanes.py`. A prediction led back to within CLOSE takes one more step of it, and that and
the tangent there need one evaluation of the Jacobian: two or three are all that a new solution takes.

Joint limits cut a curve into pieces. So walks go on outside the limits, some steps far, and find the piece on the other
side, however short it is and however few seeds lead there. What lies outside is remembered, that no walk goes there
again, but is no solution. Where a whole turn takes a joint back within its limits, it is inside.

Where more solutions are wanted than steps lead to, seeds between two successive ones are polished: the cubic through
both along their tangents (Hermite) is close to the curve.

numba's disk cache notices a change of this file only: touch it when what it takes from `kernels.py` or `lanes.py`
changes.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics.chain import MULTIPLIER, PRISMATIC, SOURCE
from eim_ros.kinematics.kernels import TWO_PI, next_uniform
from eim_ros.kinematics.lanes import (
    LANES,
    columns,
    forward,
    polish_lanes,
    pose_difference,
    products,
    solve_damped,
)
from eim_ros.kinematics.self_motion import SPACING, grow
from eim_ros.numerics.compiled import compiled

__all__ = ["empty_blocks", "spread_along"]

FloatArray = npt.NDArray[np.float64]
Blocks = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

FORESIGHT = 0.9  # a step predicted to end closer than this share of that to a known place is not taken
STEPS_OUTSIDE = 5  # of a walk outside the limits before it ends
MOST_OUTSIDE = 256  # places outside that are remembered
STEPS_BACK = 6  # of Newton's method from a prediction to the pose
CLOSE = 4e-3  # [m], [rad]: of a prediction led back to within this one more step is enough
CONTRACTION = 0.25  # by which each of them has to lessen the squared error
NEWTON_DAMPING = 1e-3  # of the squared error
TANGENT_DAMPING = 1e-9
POLISHES = 3  # steps of the refiner, at most, to what is close to a solution; most take one
BLOCK = 64  # places compared at once, in single precision
BY_TURN = 1.0 / TWO_PI
SPARE = 1.25  # seeds refined for each solution wanted between others
MARGIN = 1.1  # by which such seeds differ more than solutions have to
SLACK = 1.03  # by which places of walks, which are solutions within 1e-4 or so, differ more from roots
NONE = -1
BEFORE, CHORD, TANGENT, MOVE, N_ROWS = 0, 1, 2, 3, 4  # rows of a joint in the array "rows"
PREDICTS, ARRIVES, BENDS, SIZE, ARC, TURN, AHEAD, N_LANE_ROWS = 0, 1, 2, 3, 4, 5, 6, 7  # rows of the array "lanes"


def empty_blocks(capacity: int, dof: int) -> Blocks:
    """Scratch for `trace` (n_blocks, dof, BLOCK): room for solutions and for what walks meet outside the limits."""
    return np.empty(((capacity + MOST_OUTSIDE + BLOCK - 1) // BLOCK, dof, BLOCK), dtype=np.float32)


@compiled
def spread_along(
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
    finest: float,
    redundancy: int,
    seed: float,
    blocks: Blocks,
) -> int:
    """Append solutions to the first n_points rows of points (capacity, dof), as `trace`, or as `grow` if no curves.

    Returns the number of points.
    """
    if redundancy < 1 or n_points == 0:
        return n_points
    if redundancy == 1 and tolerances.shape[0] == 0:
        return trace(
            links, bounds, points, n_points, target, position_only, position_tolerance, orientation_tolerance, step,
            finest, seed, blocks,
        )  # fmt: skip
    return grow(
        links, bounds, points, n_points, target, position_only, tolerances, position_tolerance, orientation_tolerance,
        step, redundancy, seed,
    )  # fmt: skip


@compiled
def trace(
    links: FloatArray,
    bounds: FloatArray,
    points: FloatArray,
    n_points: int,
    target: FloatArray,
    position_only: bool,
    position_tolerance: float,
    orientation_tolerance: float,
    step: float,
    finest: float,
    seed: float,
    blocks: Blocks,
) -> int:
    """Append solutions to the first n_points rows of points (capacity, dof), all of them solutions of the target.

    They are a step [rad, m] from each other along the curves, and no closer than SPACING steps. If the capacity is not
    used up and `finest` is not negative, the gaps are divided evenly, as long as successive solutions differ by more
    than that in some joint. From those given the appended ones are SPACING steps away, or differ by more than `finest`.
    The seed is in [0, 1). `blocks` is from `empty_blocks`. Returns the number of points.
    """
    dof, n_roots, room = points.shape[1], n_points, blocks.shape[0] * BLOCK
    places, tangents, squares = np.empty((room, dof)), np.empty((room, dof)), np.empty(blocks.shape[2], np.float32)
    parent, is_new, turn = np.full(room, NONE), np.zeros(room, dtype=np.bool_), TWO_PI * bounds[2]
    n_places = _walk(
        links, bounds, points[:n_roots], target, position_only, position_tolerance, orientation_tolerance, step,
        finest, points.shape[0] - n_roots, seed, turn, places, tangents, blocks, parent, is_new, squares,
    )  # fmt: skip
    found, n_found = np.empty((n_places, dof)), 0
    for i in range(n_roots, n_places):
        if is_new[i]:
            found[n_found] = places[i]
            n_found += 1
    found = _solutions(
        links, bounds, found[:n_found], target, position_only, position_tolerance, orientation_tolerance, n_found
    )  # fmt: skip
    for i in range(n_roots):
        _put(blocks, i, points[i])
    for i in range(found.shape[0]):
        # polishing may have moved it close to a root, far from which its place was
        if n_points < points.shape[0] and not _is_duplicate(turn, blocks, n_points, found[i], finest, squares):
            points[n_points] = found[i]
            _put(blocks, n_points, found[i])
            n_points += 1
    n_wanted = points.shape[0] - n_points
    if finest < 0.0 or n_wanted == 0 or n_points == n_roots:
        return n_points
    found = _between(bounds, turn, places[:n_places], tangents, parent, finest, int(SPARE * n_wanted) + 1)
    found = _solutions(
        links, bounds, found, target, position_only, position_tolerance, orientation_tolerance, n_wanted
    )  # fmt: skip
    for i in range(found.shape[0]):
        if n_points < points.shape[0] and not _is_duplicate(turn, blocks, n_points, found[i], finest, squares):
            points[n_points] = found[i]
            _put(blocks, n_points, found[i])
            n_points += 1
    return n_points


@compiled
def _solutions(
    links: FloatArray,
    bounds: FloatArray,
    points: FloatArray,
    target: FloatArray,
    position_only: bool,
    position_tolerance: float,
    orientation_tolerance: float,
    n_wanted: int,
) -> FloatArray:
    """Solutions (k, dof) to which points (n, dof) lead, all of them close to one; points is used up.

    k <= n; of those that take more than one step some may be left out once there are n_wanted.
    """
    n_left, n_found, valid = points.shape[0], 0, np.empty(points.shape[0], dtype=np.bool_)
    solutions, left = np.empty_like(points), points
    for _ in range(POLISHES):
        if n_found >= n_wanted:
            break
        polish_lanes(
            links, bounds, left[:n_left], target, position_only, position_tolerance, orientation_tolerance, valid
        )  # fmt: skip
        n_tried, n_left = n_left, 0
        for i in range(n_tried):
            if valid[i]:
                solutions[n_found] = left[i]
                n_found += 1
            else:
                left[n_left] = left[i]
                n_left += 1
    return solutions[:n_found]


@compiled
def _walk(
    links: FloatArray,
    bounds: FloatArray,
    roots: FloatArray,
    target: FloatArray,
    position_only: bool,
    position_tolerance: float,
    orientation_tolerance: float,
    step: float,
    finest: float,
    most_new: int,
    seed: float,
    turn: FloatArray,
    places: FloatArray,
    tangents: FloatArray,
    blocks: Blocks,
    parent: IntArray,
    is_new: npt.NDArray[np.bool_],
    squares: Blocks,
) -> int:
    """Walk along the curves from all roots (n_roots, dof) both ways; returns the number of places (room, dof) filled.

    First come the roots, then what walks led to: with the tangent (room, dof) there, as long as a step, the place a
    step before, and whether it is new: inside the limits, and apart from all roots. Roots close to others are hidden:
    no walk begins or ends at them. Ends with most_new new places.
    """
    n_roots, dof, m, room = roots.shape[0], roots.shape[1], links.shape[0] - 1, places.shape[0]
    value, sine, cosine = np.zeros(m * LANES), np.zeros(m * LANES), np.zeros(m * LANES)
    state, frames, jacobian = np.zeros(12 * LANES), np.zeros(6 * m * LANES), np.zeros(6 * (dof + dof % 2) * LANES)
    error, gram = np.zeros(8 * LANES), np.zeros(21 * LANES)
    across, along = np.zeros(6 * LANES), np.zeros(6 * LANES)
    q, rows, lanes = np.zeros(dof * LANES), np.zeros(dof * N_ROWS * LANES), np.zeros(N_LANE_ROWS * LANES)
    damping, least = np.ones(LANES), np.zeros(LANES)
    at = np.full(LANES, NONE)  # place where each walk is, or NONE
    n_back, n_outside = np.zeros(LANES, dtype=np.int64), np.zeros(LANES, dtype=np.int64)
    direction, place, period, is_fixed = np.empty(dof), np.empty(dof), np.empty(dof), np.empty(dof)
    _periods(links, bounds, period)
    random = np.uint64(seed * 9007199254740992.0)
    for j in range(dof):
        random, uniform = next_uniform(random)
        is_fixed[j] = 1.0 if bounds[0, j] == bounds[1, j] else 0.0
        direction[j] = (2.0 * uniform - 1.0) * (1.0 - is_fixed[j])
    radius, n_hidden = SPACING * step, 0
    hidden = np.empty(((n_roots + BLOCK - 1) // BLOCK, dof, blocks.shape[2]), dtype=np.float32)
    for i in range(n_roots):
        places[i] = roots[i]
        tangents[i, 0] = math.inf
        is_hidden = _is_near(turn, blocks, i, roots[i], radius, squares)
        _put(blocks, i, roots[i])
        if is_hidden:
            blocks[i // BLOCK, :, i % BLOCK] = np.inf
            _put(hidden, n_hidden, roots[i])
            n_hidden += 1
    n_places, n_new, following, n_active = n_roots, 0, 0, 0
    while True:
        for lane in range(LANES):
            while at[lane] == NONE and following < 2 * n_roots:
                root = following if following < n_roots else following - n_roots
                is_back = following >= n_roots
                following += 1
                if blocks[root // BLOCK, 0, root % BLOCK] == math.inf:  # close to another one
                    continue
                has_tangent = is_back and tangents[root, 0] != math.inf
                for j in range(dof):
                    own = j * N_ROWS * LANES + lane
                    q[j * LANES + lane] = rows[own + BEFORE * LANES] = roots[root, j]
                    rows[own + CHORD * LANES] = -direction[j] if is_back else direction[j]
                    if has_tangent:
                        q[j * LANES + lane] -= tangents[root, j]
                        rows[own + TANGENT * LANES] = -tangents[root, j]
                _settle_turns(bounds, period, q, lane, place)
                if has_tangent and _is_near(turn, blocks, n_places, place, FORESIGHT * radius, squares):
                    continue
                at[lane], n_back[lane], n_outside[lane] = root, 0 if has_tangent else NONE, 0
                lanes[BENDS * LANES + lane] = 1.0 if has_tangent else 0.0
                n_active += 1
        if n_active == 0 or n_new >= most_new or n_places >= room:
            return int(n_places)
        forward(links, q, value, sine, cosine, state, frames)
        pose_difference(state, target, position_only, error)
        for lane in range(LANES):
            lanes[PREDICTS * LANES + lane] = lanes[ARRIVES * LANES + lane] = 0.0
            if at[lane] == NONE:
                continue
            distance, angle = error[6 * LANES + lane], error[7 * LANES + lane]
            square = distance * distance + angle * angle
            if n_back[lane] == NONE:  # at a root
                lanes[PREDICTS * LANES + lane] = 1.0
            elif square <= CLOSE * CLOSE or (distance <= position_tolerance and angle <= orientation_tolerance):
                lanes[PREDICTS * LANES + lane] = lanes[ARRIVES * LANES + lane] = 1.0
            else:
                n_back[lane] += 1
                if n_back[lane] > STEPS_BACK or (n_back[lane] > 1 and not square <= CONTRACTION * least[lane]):
                    at[lane] = NONE
                    n_active -= 1
            least[lane] = square
            damping[lane] = NEWTON_DAMPING * square + TANGENT_DAMPING
        columns(links, state, frames, jacobian)
        _hold(is_fixed, jacobian)
        products(jacobian, damping, gram)
        solve_damped(gram, error, position_only, across)
        _leave_chords(jacobian, lanes, rows, q, error)
        solve_damped(gram, error, position_only, along)
        _predict(jacobian, across, along, step, lanes, rows, q)
        for lane in range(LANES):
            if at[lane] == NONE or lanes[ARRIVES * LANES + lane] == 0.0:
                continue
            inside = _settle_turns(bounds, period, q, lane, place)
            if n_places < room and not _is_near(turn, blocks, n_places, place, radius, squares):
                _put(blocks, n_places, place)
                places[n_places] = place
                if finest < 0.0:
                    apart = not _is_near(turn, hidden, n_hidden, place, radius, squares)
                else:
                    apart = not _is_duplicate(turn, hidden, n_hidden, place, SLACK * finest, squares)
                parent[n_places], is_new[n_places] = at[lane], inside and apart
                at[lane] = n_places
                n_places += 1
                n_new += 1 if inside and apart else 0
                n_outside[lane] = 0 if inside else n_outside[lane] + 1
            else:
                at[lane] = NONE
                n_active -= 1
        _move(rows, q)
        for lane in range(LANES):
            if at[lane] == NONE or lanes[PREDICTS * LANES + lane] == 0.0:
                continue
            for j in range(dof):
                tangents[at[lane], j] = rows[(j * N_ROWS + TANGENT) * LANES + lane]
            n_back[lane] = 0
            _settle_turns(bounds, period, q, lane, place)
            if n_outside[lane] > STEPS_OUTSIDE or _is_near(turn, blocks, n_places, place, FORESIGHT * radius, squares):
                at[lane] = NONE
                n_active -= 1


@compiled
def _hold(is_fixed: FloatArray, jacobian: FloatArray) -> None:
    """Leave out joints that cannot move."""
    for j in range(is_fixed.shape[0]):
        if is_fixed[j] != 0.0:
            for i in range(6 * j * LANES, 6 * (j + 1) * LANES):
                jacobian[i] = 0.0


@compiled
def _leave_chords(jacobian: FloatArray, lanes: FloatArray, rows: FloatArray, q: FloatArray, error: FloatArray) -> None:
    """Fill error with -J chord: J^T y then takes from the chord what leaves the pose.

    The chord leads from the last place of a walk to this, where it arrives at one, and at a root in any direction.
    """
    for k in range(6 * LANES):
        error[k] = 0.0
    for j in range(q.shape[0] // LANES):
        column, own = jacobian[6 * j * LANES : 6 * (j + 1) * LANES], rows[j * N_ROWS * LANES : (j + 1) * N_ROWS * LANES]
        joint = q[j * LANES : (j + 1) * LANES]
        for lane in range(LANES):
            arrives, before = lanes[ARRIVES * LANES + lane], own[BEFORE * LANES + lane]
            chord = own[CHORD * LANES + lane]
            chord += arrives * (joint[lane] - before - chord)
            own[CHORD * LANES + lane] = chord
            own[BEFORE * LANES + lane] = before + arrives * (joint[lane] - before)
        for lane in range(LANES):
            chord = own[CHORD * LANES + lane]
            error[lane] -= chord * column[lane]
            error[LANES + lane] -= chord * column[LANES + lane]
            error[2 * LANES + lane] -= chord * column[2 * LANES + lane]
            error[3 * LANES + lane] -= chord * column[3 * LANES + lane]
            error[4 * LANES + lane] -= chord * column[4 * LANES + lane]
            error[5 * LANES + lane] -= chord * column[5 * LANES + lane]


@compiled
def _predict(
    jacobian: FloatArray,
    across: FloatArray,
    along: FloatArray,
    step: float,
    lanes: FloatArray,
    rows: FloatArray,
    q: FloatArray,
) -> None:
    """Move q by J^T across, towards the pose; and find where a step ahead leads from there, for lanes that predict.

    The tangent, chord + J^T along made as long as a step, is kept for the next one; at a root the step is along it,
    later by the cubic through the last place and this. The cubic is taken over the length of the arc, that of the chord
    and as much more as the tangent turned.
    """
    n_dims = q.shape[0] // LANES
    for lane in range(LANES):
        lanes[SIZE * LANES + lane] = lanes[ARC * LANES + lane] = lanes[TURN * LANES + lane] = 0.0
    for j in range(n_dims):
        column, own = jacobian[6 * j * LANES : 6 * (j + 1) * LANES], rows[j * N_ROWS * LANES : (j + 1) * N_ROWS * LANES]
        joint = q[j * LANES : (j + 1) * LANES]
        for lane in range(LANES):
            back = column[lane] * across[lane]
            back += column[LANES + lane] * across[LANES + lane]
            back += column[2 * LANES + lane] * across[2 * LANES + lane]
            back += column[3 * LANES + lane] * across[3 * LANES + lane]
            back += column[4 * LANES + lane] * across[4 * LANES + lane]
            back += column[5 * LANES + lane] * across[5 * LANES + lane]
            joint[lane] += back
        for lane in range(LANES):
            chord = own[CHORD * LANES + lane]
            ahead = chord + column[lane] * along[lane]
            ahead += column[LANES + lane] * along[LANES + lane]
            ahead += column[2 * LANES + lane] * along[2 * LANES + lane]
            ahead += column[3 * LANES + lane] * along[3 * LANES + lane]
            ahead += column[4 * LANES + lane] * along[4 * LANES + lane]
            ahead += column[5 * LANES + lane] * along[5 * LANES + lane]
            own[MOVE * LANES + lane] = ahead
            lanes[SIZE * LANES + lane] += ahead * ahead
            lanes[ARC * LANES + lane] += chord * chord
            lanes[TURN * LANES + lane] += ahead * own[TANGENT * LANES + lane]
    for lane in range(LANES):
        size, bends = step / math.sqrt(max(lanes[SIZE * LANES + lane], 1e-300)), lanes[BENDS * LANES + lane]
        turned = 2.0 - 2.0 * size * lanes[TURN * LANES + lane] / (step * step)
        arc = math.sqrt(lanes[ARC * LANES + lane]) * (1.0 + turned / 24.0) / step
        s = 1.0 + 1.0 / max(arc, 0.5)
        lanes[SIZE * LANES + lane] = size
        lanes[ARC * LANES + lane] = bends * arc * ((s - 2.0) * s * s + s)
        lanes[TURN * LANES + lane] = bends * ((2.0 * s - 3.0) * s * s + 1.0)
        lanes[AHEAD * LANES + lane] = bends * (arc * (s - 1.0) * s * s - 1.0) + 1.0
        lanes[BENDS * LANES + lane] = max(bends, lanes[PREDICTS * LANES + lane])
    for j in range(n_dims):
        own = rows[j * N_ROWS * LANES : (j + 1) * N_ROWS * LANES]
        for lane in range(LANES):
            predicts, tangent = lanes[PREDICTS * LANES + lane], own[TANGENT * LANES + lane]
            new = lanes[SIZE * LANES + lane] * own[MOVE * LANES + lane]
            move = lanes[ARC * LANES + lane] * tangent - lanes[TURN * LANES + lane] * own[CHORD * LANES + lane]
            own[MOVE * LANES + lane] = predicts * (move + lanes[AHEAD * LANES + lane] * new)
            own[TANGENT * LANES + lane] = tangent + predicts * (new - tangent)


@compiled
def _move(rows: FloatArray, q: FloatArray) -> None:
    """Take the step that was predicted, where one was."""
    for j in range(q.shape[0] // LANES):
        joint, own = q[j * LANES : (j + 1) * LANES], rows[j * N_ROWS * LANES : (j + 1) * N_ROWS * LANES]
        for lane in range(LANES):
            joint[lane] += own[MOVE * LANES + lane]


@compiled
def _periods(links: FloatArray, bounds: FloatArray, period: FloatArray) -> None:
    """Fill period (dof,): by what a joint may be moved without moving any link, 0 for none."""
    for j in range(period.shape[0]):
        period[j] = TWO_PI
    for i in range(links.shape[0] - 1):
        scale = links[i, MULTIPLIER]
        if links[i, PRISMATIC] != 0.0 or scale != np.floor(scale):
            period[int(links[i, SOURCE])] = 0.0


@compiled
def _settle_turns(bounds: FloatArray, period: FloatArray, q: FloatArray, lane: int, place: FloatArray) -> bool:
    """Fill place (dof,) with the configuration of a lane, as near to the limits as whole turns take it; whether within.

    Joints that turn endlessly are in [-pi, pi).
    """
    inside = True
    for j in range(place.shape[0]):
        x = q[j * LANES + lane]
        if not (x >= bounds[0, j] and x <= bounds[1, j]) and period[j] != 0.0:
            x -= TWO_PI * np.floor((x - 0.5 * (bounds[0, j] + bounds[1, j])) / TWO_PI + 0.5)
            if bounds[2, j] != 0.0 and not (x >= bounds[0, j] and x <= bounds[1, j]):  # rounding
                x = bounds[0, j]
        if bounds[2, j] != 0.0 and x >= bounds[1, j]:
            x = bounds[0, j]
        inside &= x >= bounds[0, j] and x <= bounds[1, j]
        place[j] = x
    return inside


@compiled
def _put(blocks: Blocks, i: int, place: FloatArray) -> None:
    """Let place i of the blocks be place (dof,); those after it in its block are then nowhere."""
    if i % BLOCK == 0:
        blocks[i // BLOCK] = np.inf
    for j in range(place.shape[0]):
        blocks[i // BLOCK, j, i % BLOCK] = place[j]


@compiled
def _is_near(
    turn: FloatArray, blocks: Blocks, n_places: int, place: FloatArray, radius: float, squares: Blocks
) -> bool:
    """Whether one of the first n_places is within a radius of place (dof,).

    turn (dof,), dof >= 4: 2 pi where differences are on the circle, else 0. Four joints tell most blocks apart. (The
    width of a block is taken from the array, for only then is the loop over it vector code.)
    """
    limit, width, half, by_turn = np.float32(radius * radius), blocks.shape[2], np.float32(0.5), np.float32(BY_TURN)
    x0, x1, x2, x3 = np.float32(place[0]), np.float32(place[1]), np.float32(place[2]), np.float32(place[3])
    t0, t1, t2, t3 = np.float32(turn[0]), np.float32(turn[1]), np.float32(turn[2]), np.float32(turn[3])
    one, none = np.float32(1.0), np.float32(0.0)
    turns = turn[0] + turn[1] + turn[2] + turn[3] > 0.0
    for block in range((n_places + BLOCK - 1) // BLOCK):
        n_near = none
        for i in range(width):
            d0, d1 = blocks[block, 0, i] - x0, blocks[block, 1, i] - x1
            d2, d3 = blocks[block, 2, i] - x2, blocks[block, 3, i] - x3
            if turns:
                d0 -= t0 * np.floor(d0 * by_turn + half)
                d1 -= t1 * np.floor(d1 * by_turn + half)
                d2 -= t2 * np.floor(d2 * by_turn + half)
                d3 -= t3 * np.floor(d3 * by_turn + half)
            total = d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3
            squares[i] = total
            n_near += one if total < limit else none
        if n_near == none:
            continue
        for j in range(4, place.shape[0]):
            x, t = np.float32(place[j]), np.float32(turn[j])
            for i in range(width):
                d = blocks[block, j, i] - x
                d -= t * np.floor(d * by_turn + half)
                squares[i] += d * d
        n_near = none
        for i in range(width):
            n_near += one if squares[i] < limit else none
        if n_near != none:
            return True
    return False


@compiled
def _is_duplicate(
    turn: FloatArray, blocks: Blocks, n_places: int, place: FloatArray, tolerance: float, largest: Blocks
) -> bool:
    """Whether one of the first n_places differs by no more than a tolerance from place (dof,) in any joint.

    Or hardly more: places are known in single precision.
    """
    width, half, by_turn, one, none = (
        blocks.shape[2], np.float32(0.5), np.float32(BY_TURN), np.float32(1.0), np.float32(0.0),
    )  # fmt: skip
    extent = 0.0
    for j in range(place.shape[0]):
        extent = max(extent, abs(place[j]))
    limit = np.float32(tolerance + 3e-7 * (extent + tolerance))
    for block in range((n_places + BLOCK - 1) // BLOCK):
        for j in range(place.shape[0]):
            x, t = np.float32(place[j]), np.float32(turn[j])
            n_near = none
            for i in range(width):
                d = blocks[block, j, i] - x
                d = abs(d - t * np.floor(d * by_turn + half))
                d = d if j == 0 or d > largest[i] else largest[i]
                largest[i] = d
                n_near += one if d <= limit else none
            if n_near == none:
                break
        if n_near != none:
            return True
    return False


@compiled
def _between(
    bounds: FloatArray,
    turn: FloatArray,
    places: FloatArray,
    tangents: FloatArray,
    parent: IntArray,
    finest: float,
    n_wanted: int,
) -> FloatArray:
    """Configurations (n, dof) that divide the steps evenly, n_wanted of them or as many as differ enough.

    Those outside the limits are left out.
    """
    n_places, dof = places.shape
    parts, sign, inside = np.ones(n_places, dtype=np.int64), np.ones(n_places), np.ones(n_places)
    most, length = 1, 0.0
    for i in range(n_places):
        for j in range(dof):
            if not (places[i, j] >= bounds[0, j] and places[i, j] <= bounds[1, j]):
                inside[i] = 0.0
    for i in range(n_places):
        if parent[i] != NONE and inside[i] + inside[parent[i]] > 0.0:
            largest = along = 0.0
            for j in range(dof):
                chord = _difference(places[i, j], places[parent[i], j], turn[j])
                largest = max(largest, abs(chord))
                along += chord * tangents[parent[i], j]
            sign[i] = 1.0 if along >= 0.0 else -1.0  # from a root walks went both ways
            parts[i] = max(int(largest / (MARGIN * finest)), 1)
            most, length = max(most, parts[i]), length + 0.5 * (inside[i] + inside[parent[i]])
    divisor, seeds, n_seeds = 1, np.empty((0, dof)), 0
    while n_seeds < n_wanted and divisor < min(most, n_wanted + 1):
        scale = 1.0 / length if divisor == 1 else divisor / max(n_seeds, 1)
        divisor = min(1 + int(math.ceil(scale * n_wanted)), most, n_wanted + 1)
        n, n_seeds = 0, 0
        for i in range(n_places):
            n += min(parts[i], divisor) - 1
        seeds = np.empty((n, dof))
        for i in range(n_places):
            n_parts = min(parts[i], divisor)
            for part in range(1, n_parts):
                s, is_inside = part / n_parts, True
                for j in range(dof):
                    chord = _difference(places[i, j], places[parent[i], j], turn[j])
                    bow = (1.0 - s) * sign[i] * tangents[parent[i], j] - s * tangents[i, j]
                    x = places[parent[i], j] + s * (s * (3.0 - 2.0 * s) * chord + (1.0 - s) * bow)
                    is_inside &= bounds[2, j] != 0.0 or (x >= bounds[0, j] and x <= bounds[1, j])
                    seeds[n_seeds, j] = x
                n_seeds += 1 if is_inside else 0
    share, n_chosen = min(1.0, n_wanted / max(n_seeds, 1)), 0
    for i in range(n_seeds):
        if int((i + 1) * share) > int(i * share):
            seeds[n_chosen] = seeds[i]
            n_chosen += 1
    return seeds[:n_chosen]


@compiled
def _difference(a: float, b: float, turn: float) -> float:
    """a - b, on the circle where a turn is not 0."""
    difference = a - b
    return float(difference - turn * np.floor(difference * BY_TURN + 0.5))
