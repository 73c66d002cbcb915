"""Choice among configurations: distances on the joints' own topology, near-duplicates, order."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eim_ros import solver
from eim_ros.kinematics import Robot

__all__ = ["distance_to", "distinct_in_time", "distinct_rows", "farthest_rows", "is_within", "nearest", "on_torus"]

FloatArray = npt.NDArray[np.float64]


def distance_to(robot: Robot, positions: FloatArray, reference: FloatArray) -> FloatArray:
    """Euclidean distance (n,) [rad, m] of configurations (n, dof) to one (dof,), on the circle where continuous."""
    difference = positions - reference
    wrapped = (difference + np.pi) % (2.0 * np.pi) - np.pi
    return np.asarray(np.linalg.norm(np.where(robot.continuous, wrapped, difference), axis=1))


def distinct_rows(robot: Robot, positions: FloatArray, tolerance: float) -> npt.NDArray[np.int64]:
    """Indices of the configurations (n, dof) that are no near-duplicate of an earlier one.

    Two are near-duplicates if no joint differs by more than the tolerance [rad or m].
    """
    return solver.distinct_rows(robot.bounds, positions, tolerance, math.inf)[0]


def distinct_in_time(
    robot: Robot, positions: FloatArray, tolerance: float, deadline: float
) -> tuple[npt.NDArray[np.int64], bool]:
    """As `distinct_rows`, but only of the first rows that there is time to compare; and whether these are all.

    The deadline is a time of `perf_counter` [s]; time grows as the square of the number of rows.
    """
    kept, n_seen = solver.distinct_rows(robot.bounds, positions, tolerance, deadline)
    return kept, n_seen == len(positions)


def farthest_rows(robot: Robot, positions: FloatArray, n: int, deadline: float = math.inf) -> npt.NDArray[np.int64]:
    """Indices of n configurations (n_all, dof) that are spread over all, in Euclidean distance.

    Each is the one farthest from those before it, with which holes are at most twice as large as with the best choice
    (Gonzalez 1985), moved to the middle of those that are nearest to it. Fewer where the others are the same as these.
    At the deadline, a time of `perf_counter` [s], the rest are the first of those that are not chosen yet.
    """
    return solver.farthest_rows(robot.bounds, positions, n, deadline)


def on_torus(robot: Robot, positions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points (n, dof) and periods (dof,) for a periodic `cKDTree`.

    Continuous joints are in [0, 2 pi), the others are shifted to begin at 0 and have the period 0: none.
    """
    period = np.where(robot.continuous, 2.0 * np.pi, 0.0)
    points = np.where(robot.continuous, np.mod(positions, 2.0 * np.pi), positions)
    points = np.where(robot.continuous & (points >= 2.0 * np.pi), 0.0, points)  # mod rounds up for tiny negatives
    return points - np.where(robot.continuous, 0.0, points.min(axis=0)), period


def is_within(robot: Robot, positions: FloatArray, others: FloatArray, distance: float) -> npt.NDArray[np.bool_]:
    """Whether some other configuration (m, dof) differs from each (n, dof) by at most a distance in every joint."""
    return solver.is_within(robot.bounds, positions, others, distance)


def nearest(robot: Robot, positions: FloatArray, others: FloatArray) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Of each configuration (n, dof) the other one (m, dof) that is nearest in the joint that differs most.

    Returns
    -------
    (n,) array
        That difference [rad or m]; infinite where there is none.
    (n,) array of int
        Which one it is; m where none is.
    """
    if not len(positions) or not len(others):
        return np.full(len(positions), np.inf), np.full(len(positions), len(others), dtype=np.int64)
    from scipy.spatial import cKDTree  # here: it takes a third of a second to import, and most answers need none

    points, period = on_torus(robot, np.concatenate([positions, others]))
    tree = cKDTree(points[len(positions) :], boxsize=period)
    away, index = tree.query(points[: len(positions)], p=np.inf)
    return np.asarray(away, dtype=np.float64), np.asarray(index, dtype=np.int64)
