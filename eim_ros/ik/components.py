"""Self-motion components: solutions of one pose between which the arm can move while its tip stays still.

If an arm has one joint more than a pose needs, its solutions form curves, which are called self-motions. Joint limits
divide the curves into pieces, and each piece is a component. The components of known solutions are traced from end to
end, see `solver/search/self_motions.hpp`. If an arm has no redundancy, its solutions are isolated points, and a
component is one solution together with its 2π-equivalent solutions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from eim_ros.core.arrays import FloatArray, IntArray
from eim_ros.core.checks import checked_whole, expect, positive_number, with_hints
from eim_ros.core.errors import RobotError
from eim_ros.ik.order import distinct_rows, nearest
from eim_ros.kinematics import Robot
from eim_ros.kinematics.tolerances import redundancy
from eim_ros.solver import trace_components

DEFAULT_SPACING = 0.15  # arc length between successive solutions [rad, m]
SAME_SOLUTION = 1e-3  # solutions with smaller differences in every joint count as one [rad, m]
MAX_POINTS = 4000  # largest number of solutions on all curves (approximate)


@dataclass(frozen=True, eq=False)
class Component:
    """Solutions of one pose that are connected by a self-motion.

    Attributes
    ----------
    positions : (n, dof)
        Verified solutions [rad] or [m]. On a curve they are ordered from one end to the other.
    along : (n,)
        Arc length from the first solution [rad, m]. For isolated solutions, the index is used instead.
    is_curve : bool
        Whether the solutions lie on a curve, so that the arm can move from each to the next.
    is_closed : bool
        Whether the curve returns from the last solution to the first.
    """

    positions: FloatArray
    along: FloatArray
    is_curve: bool
    is_closed: bool = False

    def __len__(self) -> int:
        """Return the number of solutions."""
        return len(self.positions)


@with_hints
def self_motion_components(
    robot: Robot,
    solutions: npt.ArrayLike,
    pose: npt.ArrayLike,
    *,
    position_only: bool = False,
    spacing: float = DEFAULT_SPACING,
    seed: int = 0,
) -> list[Component]:
    """Return the self-motion components of solutions of a pose, in order of descending length.

    If more than one direction is free, the solutions have no order, and all of them are returned as one component.

    Parameters
    ----------
    robot : Robot
    solutions : (n, dof) array_like
        Configurations that reach the pose within the limits; n may be 0. Only components that contain one of these
        configurations are found. Configurations are ignored if they miss the pose, or if they are within 0.001 rad or m
        of an earlier one.
    pose : (4, 4) array_like
        Pose of the tip in the base frame.
    position_only : bool
        Whether any orientation is accepted.
    spacing : float
        Largest arc length between successive solutions of a curve [rad, m]. A larger value is used if the curves would
        otherwise have more than 4000 solutions.
    seed : int
        Seed of the order in which the directions along curves are followed.

    Raises
    ------
    RobotError
        If an argument is malformed.

    Examples
    --------
    All configurations of a Panda that reach a pose belong to a few curves:

    >>> from eim_ros.ik import Component, Sampler, component_labels, self_motion_components
    >>> sampler, pose = Sampler("panda"), [0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0]
    >>> found = self_motion_components(sampler.robot, sampler.solve_all(pose).q, pose)
    >>> isinstance(found[0], Component), found[0].is_curve
    (True, True)
    >>> component_labels(sampler.robot, found, found[0].positions[:3]).tolist()
    [0, 0, 0]
    """
    expect(robot, Robot, "robot", RobotError)
    seed = checked_whole(seed, 0, "seed", RobotError)
    task = robot.task(pose, position_only=position_only)
    rows = robot._finite_rows(solutions, "solutions")
    spacing = positive_number(spacing, "the spacing")
    if not spacing < math.inf:
        raise RobotError(f"the spacing of solutions must be finite, got {spacing}", spacing)
    rows = rows[robot.chain.verify(task, rows)[1]]
    rows = rows[distinct_rows(robot, rows, SAME_SOLUTION)]
    free = redundancy(robot.bounds, position_only)
    if not len(rows):
        return []
    if free > 1:
        return [Component(rows, np.arange(float(len(rows))), is_curve=False)]
    if free < 1:
        return _single(robot, rows)
    fraction = np.random.default_rng(seed).random()
    return _curves(robot, *trace_components(robot.chain, task, rows, spacing, MAX_POINTS, fraction))


def component_labels(robot: Robot, found: list[Component], solutions: FloatArray) -> IntArray:
    """Return the index (n,) of the component nearest to each solution (n, dof), by the largest joint difference."""
    if not found or not len(solutions):
        return np.zeros(0, dtype=np.int64)
    owners = np.repeat(np.arange(len(found)), [len(component) for component in found])
    _, index = nearest(robot, solutions, np.concatenate([component.positions for component in found]))
    return np.asarray(owners[index])


def _single(robot: Robot, rows: FloatArray) -> list[Component]:
    """Group 2π-equivalent solutions. Each group starts with the solution closest to the middle of the limits."""
    angles = ~robot.prismatic
    points = rows.copy()
    points[:, angles] = np.mod(points[:, angles], 2.0 * np.pi)
    points = np.where(points >= 2.0 * np.pi, 0.0, points)
    period = np.zeros(robot.dof)
    period[angles] = 2.0 * np.pi
    points -= np.where(period > 0.0, 0.0, points.min(axis=0))
    pairs = cKDTree(points, boxsize=period).query_pairs(SAME_SOLUTION, p=np.inf, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(len(rows),) * 2)
    labels = connected_components(graph, directed=False)[1]
    turned = np.abs(rows - 0.5 * (robot.lower + robot.upper)).sum(axis=1)
    found = []
    for label in range(labels.max() + 1):
        members = np.flatnonzero(labels == label)
        members = members[np.argsort(turned[members], kind="stable")]
        found.append(Component(rows[members], np.arange(float(len(members))), is_curve=False))
    return found


def _curves(robot: Robot, rows: FloatArray, owners: IntArray, closed: npt.NDArray[np.bool_]) -> list[Component]:
    """Return components of ordered points (n, dof). `owners` (n,) is the component of each point."""
    found = []
    for number, is_closed in enumerate(closed.tolist()):
        places = rows[owners == number]
        if len(places):
            ways = np.diff(places, axis=0)
            ways = np.where(robot.continuous, (ways + np.pi) % (2.0 * np.pi) - np.pi, ways)  # the short way around
            lengths = np.linalg.norm(ways, axis=1)
            along = np.concatenate([[0.0], np.cumsum(lengths)])
            found.append(Component(places, along, is_curve=True, is_closed=is_closed))
    return sorted(found, key=lambda component: -component.along[-1])
