"""Families of the solutions of one pose: which of them the arm can pass between without moving its tip.

An arm with one joint more than a pose takes has curves of solutions, its self-motions, cut into pieces by its limits.
Each piece is a family; those through known solutions are traced from end to end (`solver/search/self_motions.hpp`).
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

from eim_ros.core.checks import checked_whole, expect, positive_number
from eim_ros.core.errors import RobotError
from eim_ros.ik.order import distinct_rows, nearest
from eim_ros.kinematics import Robot
from eim_ros.kinematics.tolerances import redundancy
from eim_ros.kinematics.urdf import PRISMATIC, SOURCE
from eim_ros.solver import trace_components

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

SPACING = 0.15  # [rad, m]
ALIKE = 1e-3  # [rad, m]: what differs by less is one solution
MOST = 4000  # places on all curves


@dataclass(frozen=True, eq=False)
class Family:
    """Solutions of a pose between which the arm can move while its tip stays.

    Attributes
    ----------
    positions : (n, dof)
        Verified solutions [rad] or [m]; of a curve places on it from end to end, in the order in which the arm passes
        through them.
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
        Configurations that reach the pose, within the limits, of each family that is wanted; n may be 0. Those that do
        not, and those that differ from others by less than 0.001 rad or m, are left out.
    pose : (4, 4) array_like
        Of the tip in the base frame.
    position_only : bool
        Whether any orientation will do.
    spacing : float
        Longest way along a curve from one place to the next [rad, m], unless there would be more than 4000 places.
    random_seed : int
        Of the directions in which curves are followed first.

    Returns
    -------
    list of Family
        Where more than one direction is free there is no order along a curve: then all solutions are one family.
    """
    expect(robot, Robot, "robot", RobotError)
    random_seed = checked_whole(random_seed, 0, "the random seed", RobotError)
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
    return _curves(robot, *trace_components(robot.chain, task, rows, spacing, MOST, seed))


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


def _curves(robot: Robot, rows: FloatArray, owners: IntArray, closed: npt.NDArray[np.bool_]) -> list[Family]:
    """Families of places (n, dof) in order, the family of each (n,), and whether each is closed (k,)."""
    found = []
    for family, is_closed in enumerate(closed.tolist()):
        places = rows[owners == family]
        if len(places):
            lengths = np.linalg.norm(_between(robot, places[:-1], places[1:]), axis=1)
            along = np.concatenate([[0.0], np.cumsum(lengths)])
            found.append(Family(places, along, is_curve=True, is_closed=is_closed))
    return sorted(found, key=lambda family: -family.along[-1])


def _between(robot: Robot, start: FloatArray, end: FloatArray) -> FloatArray:
    """Ways (n, dof) from configurations to others, the shorter way round where a joint is continuous."""
    ways = end - start
    return np.where(robot.continuous, (ways + np.pi) % (2.0 * np.pi) - np.pi, ways)


def _components(n: int, pairs: IntArray) -> IntArray:
    graph = coo_array((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)
