"""Families of the solutions of one pose: which of them the arm can pass between without moving its tip.

An arm with one joint more than a pose takes has curves of solutions, its self-motions, cut into pieces by its limits.
Each piece is a family. Between the known solutions others are found by continuation, so close to each other that the
chord to the next one follows the null space of the Jacobian at both of its ends:

    |t_i . (q_k - q_i)| >= ALIGNED |q_k - q_i|,    J(q_i) t_i = 0

An arm without such a joint has single solutions; one solution, and what whole turns of joints make of it, is a family.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from eim_ros.errors import RobotError
from eim_ros.ik.selection import distinct_rows, nearest, on_torus
from eim_ros.kinematics import Robot
from eim_ros.kinematics.arguments import positive_number
from eim_ros.kinematics.chain import PRISMATIC, SOURCE
from eim_ros.kinematics.task import redundancy
from eim_ros.solver import Effort, Spread, Task, fill_self_motions

__all__ = ["Family", "families", "family_labels"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

STEP = 0.45  # [rad, m] of continuation
SPACING = 0.1  # [rad, m]
NEXT, AFTER_A_GAP = 2.1, 4.2  # spacings to the next one on a curve at most, and where one between is looked for
ALIGNED = 0.7
ALIKE = 1e-3  # [rad, m]: what differs by less is one solution
MOST = 4000  # solutions on all curves
EFFORT = Effort(1e-6, 1e-6, 10, 3)


@dataclass(frozen=True, eq=False)
class Family:
    """Solutions of a pose between which the arm can move while its tip stays.

    Attributes
    ----------
    positions : (n, dof)
        Verified solutions [rad] or [m]; along a curve in the order in which the arm passes through them.
    along : (n,)
        Length of the way from the first one [rad, m]; of single solutions their number.
    is_curve : bool
        Whether the arm can pass from one to the next.
    is_closed : bool
        Whether it comes from the last one back to the first.
    """

    positions: FloatArray
    along: FloatArray
    is_curve: bool
    is_closed: bool = False

    def __len__(self) -> int:
        return len(self.positions)


def families(
    robot: Robot,
    solutions: npt.ArrayLike,
    pose: npt.ArrayLike,
    *,
    position_only: bool = False,
    spacing: float = SPACING,
    random_seed: int = 0,
) -> list[Family]:
    """The families of some solutions of a pose, the longest first.

    Parameters
    ----------
    robot : Robot
    solutions : (n, dof) array_like
        Configurations that reach the pose, within the limits; n may be 0. Those that do not, and those that differ from
        others by less than 0.001 rad or m, are left out.
    pose : (4, 4) array_like
        Of the tip in the base frame.
    position_only : bool
        Whether any orientation will do.
    spacing : float
        About how far solutions on a curve are from each other in some joint [rad, m].
    random_seed : int
        Of the direction in which curves are followed first.

    Returns
    -------
    list of Family
        Where more than one direction is free there is no order along a curve: then all solutions are one family.
    """
    task = robot.task(pose, position_only=position_only)
    rows = robot._finite_rows(solutions, "solutions")
    spacing = positive_number(spacing, "the spacing")
    if not spacing < math.inf:
        raise RobotError("the spacing of solutions must be finite", spacing)
    rows = rows[robot.chain.verify(task, rows)[1]]
    rows = rows[distinct_rows(robot, rows, ALIKE)]
    free = redundancy(robot.bounds, position_only)
    if not len(rows):
        return []
    if free > 1:
        return [Family(rows, np.arange(float(len(rows))), is_curve=False)]
    if free < 1:
        return _single(robot, rows)
    seed = np.random.default_rng(random_seed).random()
    filled = fill_self_motions(robot.chain, task, Spread(STEP, spacing, 1, math.inf), rows, MOST, seed)
    filled = filled[robot.chain.verify(task, filled)[1]]
    filled = np.concatenate([filled, _within_gaps(robot, task, filled, position_only, spacing)])
    return _curves(robot, filled, _neighbours(robot, filled, position_only, NEXT * spacing))


def family_labels(robot: Robot, found: list[Family], solutions: FloatArray) -> IntArray:
    """Index (n,) of the family that each solution (n, dof) is nearest to, in the joint that differs most."""
    if not found or not len(solutions):
        return np.zeros(0, dtype=np.int64)
    owners = np.repeat(np.arange(len(found)), [len(family) for family in found])
    _, index = nearest(robot, solutions, np.concatenate([family.positions for family in found]))
    return np.asarray(owners[index])


def _single(robot: Robot, rows: FloatArray) -> list[Family]:
    """Those that differ by whole turns together, from the one that is turned least."""
    moving = robot.links[:-1]
    slides = set(moving[moving[:, PRISMATIC] != 0.0, SOURCE].astype(np.int64).tolist())
    angles = [joint for joint in range(robot.dof) if joint not in slides]
    points = rows.copy()
    points[:, angles] = np.mod(points[:, angles], 2.0 * np.pi)
    points = np.where(points >= 2.0 * np.pi, 0.0, points)
    period = np.zeros(robot.dof)
    period[angles] = 2.0 * np.pi
    points -= np.where(period > 0.0, 0.0, points.min(axis=0))
    pairs = cKDTree(points, boxsize=period).query_pairs(ALIKE, p=np.inf, output_type="ndarray")
    labels = _components(len(rows), pairs)
    turned = np.abs(rows - 0.5 * (robot.lower + robot.upper)).sum(axis=1)
    found = []
    for label in range(labels.max() + 1):
        members = np.flatnonzero(labels == label)
        members = members[np.argsort(turned[members], kind="stable")]
        found.append(Family(rows[members], np.arange(float(len(members))), is_curve=False))
    return found


def _within_gaps(robot: Robot, task: Task, rows: FloatArray, position_only: bool, spacing: float) -> FloatArray:
    """Solutions halfway between those that seem to be neighbours although there is a gap between them."""
    neighbours = _neighbours(robot, rows, position_only, AFTER_A_GAP * spacing)
    start, side = np.nonzero(neighbours > np.arange(len(rows))[:, None])
    ways = _between(robot, rows[start], rows[neighbours[start, side]])
    has_gap = np.abs(ways).max(axis=1, initial=0.0) > NEXT * spacing
    halfway = rows[start[has_gap]] + 0.5 * ways[has_gap]
    refined, is_solution, *_ = robot.chain.refine(task, EFFORT, halfway)
    return np.asarray(refined[is_solution])


def _curves(robot: Robot, rows: FloatArray, neighbours: IntArray) -> list[Family]:
    """Curves through these rows (n, dof), of which those next to each (n, 2) are known."""
    found = []
    is_visited = np.zeros(len(rows), dtype=np.bool_)
    n_neighbours = (neighbours >= 0).sum(axis=1)
    for first in np.argsort(n_neighbours, kind="stable"):  # ends of curves before places within them
        if is_visited[first]:
            continue
        order, place = [], int(first)
        while place >= 0:
            is_visited[place] = True
            order.append(place)
            place = next((int(k) for k in neighbours[place] if k >= 0 and not is_visited[k]), -1)
        is_closed = len(order) > 2 and first in neighbours[order[-1]]
        positions = rows[order]
        along = np.concatenate(
            [[0.0], np.cumsum(np.linalg.norm(_between(robot, positions[:-1], positions[1:]), axis=1))]
        )
        found.append(Family(positions, along, is_curve=True, is_closed=is_closed))
    return sorted(found, key=lambda family: -family.along[-1])


def _tangents(robot: Robot, rows: FloatArray, position_only: bool) -> FloatArray:
    """Unit vectors (n, dof) that the tip does not feel: of the null spaces of the Jacobians."""
    jacobians = robot.jacobian(rows)[:, : 3 if position_only else 6]
    fixed = robot.lower == robot.upper
    jacobians[:, :, fixed] = 0.0
    complete = np.linalg.qr(np.swapaxes(jacobians[:, :, ~fixed], 1, 2), mode="complete")[0]
    tangents = np.zeros_like(rows)
    tangents[:, ~fixed] = complete[:, :, -1]
    return tangents


def _neighbours(robot: Robot, rows: FloatArray, position_only: bool, farthest: float) -> IntArray:
    """The next place (n, 2) behind and ahead of each, by its tangent; -1 for none."""
    tangents = _tangents(robot, rows, position_only)
    points, period = on_torus(robot, rows)
    pairs = cKDTree(points, boxsize=period).query_pairs(farthest, p=np.inf, output_type="ndarray")
    chords = _between(robot, rows[pairs[:, 0]], rows[pairs[:, 1]])
    lengths = np.linalg.norm(chords, axis=1)
    cosines = [np.einsum("ij,ij->i", tangents[pairs[:, end]], chords) for end in (0, 1)]
    follows = np.minimum(*np.abs(cosines)) >= ALIGNED * lengths
    ends = np.concatenate([pairs[follows], pairs[follows, ::-1]])
    is_ahead = np.concatenate([cosines[0][follows] > 0.0, cosines[1][follows] < 0.0]).astype(np.int64)
    order = np.argsort(-np.tile(lengths[follows], 2), kind="stable")  # the nearest is written last, and stays
    nearest = np.full((len(rows), 2), -1, dtype=np.int64)
    nearest[ends[order, 0], is_ahead[order]] = ends[order, 1]
    is_mutual = (nearest[nearest] == np.arange(len(rows))[:, None, None]).any(axis=2)
    return np.where((nearest >= 0) & is_mutual, nearest, -1)


def _between(robot: Robot, start: FloatArray, end: FloatArray) -> FloatArray:
    """Ways (n, dof) from configurations to others, the shorter way round where a joint is continuous."""
    ways = end - start
    return np.where(robot.continuous, (ways + np.pi) % (2.0 * np.pi) - np.pi, ways)


def _components(n: int, pairs: IntArray) -> IntArray:
    graph = coo_array((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)
