"""Representatives: a few arms of a picture that stand for many others.

Arms are grouped by self-motion component, or by k-means over the drawn arms. The arm nearest to the mean of a group
represents it. The distance of two configurations is the root mean square distance of their joint origins [m], because
joint angles mislead: a wrist that turns freely changes them and leaves the picture as it is. k-means starts at farthest
points (Gonzalez 1985, "Clustering to minimize the maximum intercluster distance") and iterates as in Lloyd (1982,
"Least squares quantization in PCM"), so a picture contains nothing random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.ik.components import families, family_labels
from eim_ros.kinematics import Robot

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
NO_GROUP = -1
MAX_ITERATIONS = 50
ALIKE = 1e-3  # arms nearer to each other than this part of their size are drawn as one


@dataclass(frozen=True, eq=False)
class Groups:
    """Who stands for whom.

    Attributes
    ----------
    representatives : (n_groups,) int
        Index of the arm that stands for each group, largest group first.
    labels : (n,) int
        Group of each arm, or NO_GROUP.
    heading : str
        What groups are, in words.
    """

    representatives: IntArray
    labels: IntArray
    heading: str


def group_arms(arms: FloatArray, n_groups: int) -> Groups:
    """Up to `n_groups` groups of arms that look alike.

    Parameters
    ----------
    arms : (n, n_points, 3)
        Joint origins [m].
    n_groups : int
        At least 1; there are fewer if arms coincide.
    """
    chosen, labels = _k_means(_rows(arms), n_groups)
    return _largest_first(chosen, labels, n_groups, "Configurations by the solid arm they resemble most")


def group_families(robot: Robot, positions: FloatArray, arms: FloatArray, pose: FloatArray, n_groups: int) -> Groups:
    """The families of solutions of a pose, see `families`: the largest ones, the rest is in no group.

    Parameters
    ----------
    robot : Robot
    positions : (n, dof)
        Solutions.
    arms : (n, n_points, 3)
        Their joint origins [m].
    pose : (4, 4)
    n_groups : int
    """
    found = families(robot, positions, pose)
    if not found:  # they are no solutions
        return group_arms(arms, n_groups)
    _, labels = np.unique(family_labels(robot, found, positions), return_inverse=True)
    rows = _rows(arms)
    members = [np.flatnonzero(labels == label) for label in range(int(labels.max(initial=-1)) + 1)]
    chosen = np.array([_nearest(rows, own, rows[own].mean(axis=0)) for own in members], dtype=np.int64)
    heading = f"Configurations of each of the {len(members)} families" if len(members) > 1 else ""
    return _largest_first(chosen, labels, n_groups, heading)


def _rows(arms: FloatArray) -> FloatArray:
    return np.asarray(arms.reshape(len(arms), 3 * arms.shape[1]) / np.sqrt(arms.shape[1]))


def _k_means(rows: FloatArray, n_groups: int) -> tuple[IntArray, IntArray]:
    """Indices (k,) of the rows nearest to the means of their groups, and the group (n,) of each row."""
    labels = np.zeros(len(rows), dtype=np.int64)
    if len(rows) == 0:
        return labels, labels
    means = _farthest_points(rows, n_groups)
    for _ in range(MAX_ITERATIONS):
        previous = labels
        labels = np.argmin([np.linalg.norm(rows - mean, axis=1) for mean in means], axis=0)
        filled = np.unique(labels)
        labels = np.searchsorted(filled, labels)
        means = np.array([rows[labels == i].mean(axis=0) for i in range(len(filled))])
        if np.array_equal(labels, previous):
            break
    chosen = [_nearest(rows, np.flatnonzero(labels == i), mean) for i, mean in enumerate(means)]
    return np.array(chosen, dtype=np.int64), labels


def _farthest_points(rows: FloatArray, n_points: int) -> FloatArray:
    """Up to so many rows: the one nearest to the mean, then always the one farthest from those taken."""
    alike = ALIKE * np.abs(rows).max()
    chosen = [_nearest(rows, np.arange(len(rows)), rows.mean(axis=0))]
    distance = np.linalg.norm(rows - rows[chosen[0]], axis=1)
    while len(chosen) < n_points and distance.max() > alike:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.linalg.norm(rows - rows[chosen[-1]], axis=1))
    return rows[chosen]


def _nearest(rows: FloatArray, among: IntArray, point: FloatArray) -> int:
    return int(among[np.argmin(np.linalg.norm(rows[among] - point, axis=1))])


def _largest_first(chosen: IntArray, labels: IntArray, n_groups: int, heading: str) -> Groups:
    sizes = np.bincount(labels, minlength=len(chosen))
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    ranked = rank[labels] if len(labels) else labels
    return Groups(chosen[order][:n_groups], np.where(ranked < n_groups, ranked, NO_GROUP), heading)
