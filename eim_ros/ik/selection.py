"""Choice among configurations: distances on the joints' own topology, near-duplicates, order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics import Robot
from eim_ros.numerics.compiled import compiled

__all__ = ["distance_to", "distinct_rows", "is_duplicate", "on_torus"]

FloatArray = npt.NDArray[np.float64]

TWO_PI = 2.0 * np.pi


def distance_to(robot: Robot, positions: FloatArray, reference: FloatArray) -> FloatArray:
    """Euclidean distance (n,) [rad, m] of configurations (n, dof) to one (dof,), on the circle where continuous."""
    difference = positions - reference
    wrapped = (difference + np.pi) % (2.0 * np.pi) - np.pi
    return np.asarray(np.linalg.norm(np.where(robot.continuous, wrapped, difference), axis=1))


def distinct_rows(robot: Robot, positions: FloatArray, tolerance: float) -> npt.NDArray[np.int64]:
    """Indices of the configurations (n, dof) that are no near-duplicate of an earlier one.

    Two are near-duplicates if no joint differs by more than the tolerance [rad or m].
    """
    keep = np.empty(len(positions), dtype=np.int64)
    return keep[: _distinct(robot.bounds, np.ascontiguousarray(positions), tolerance, keep)]


@compiled
def _distinct(bounds: FloatArray, positions: FloatArray, tolerance: float, keep: npt.NDArray[np.int64]) -> int:
    """Fill keep (n,) with the indices of distinct rows; returns how many."""
    kept, n_kept = np.empty_like(positions), 0
    for i in range(positions.shape[0]):
        if not is_duplicate(bounds, kept, n_kept, positions[i], tolerance):
            kept[n_kept] = positions[i]
            keep[n_kept] = i
            n_kept += 1
    return n_kept


@compiled
def is_duplicate(bounds: FloatArray, rows: FloatArray, n_rows: int, row: FloatArray, tolerance: float) -> bool:
    """Whether one of the first n_rows differs by no more than the tolerance, if that is not negative, in any joint.

    bounds (3, dof) as in the kernels of kinematics. Most rows differ in the first joint.
    """
    if tolerance < 0.0:
        return False
    for i in range(n_rows):
        is_close = True
        for j in range(row.shape[0]):
            difference = rows[i, j] - row[j]
            if bounds[2, j] != 0.0:
                difference -= TWO_PI * np.floor(difference / TWO_PI + 0.5)
            if not abs(difference) <= tolerance:
                is_close = False
                break
        if is_close:
            return True
    return False


def on_torus(robot: Robot, positions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points (n, dof) and periods (dof,) for a periodic `cKDTree`.

    Joints that turn endlessly are in [0, 2 pi), the others are shifted to begin at 0 and have the period 0: none.
    """
    period = np.where(robot.continuous, 2.0 * np.pi, 0.0)
    points = np.where(robot.continuous, np.mod(positions, 2.0 * np.pi), positions)
    points = np.where(robot.continuous & (points >= 2.0 * np.pi), 0.0, points)  # mod rounds up for tiny negatives
    return points - np.where(robot.continuous, 0.0, points.min(axis=0)), period
