"""Representatives: a few arms of a picture that represent many similar arms.

Arms are grouped by self-motion component, or by k-means over the drawn arms. The arm nearest to the mean of a group
represents it. The distance between two configurations is the root mean square distance between their joint origins [m].
Joint angles would be misleading, because a wrist that turns freely changes them but not the picture.

k-means starts at farthest points (Gonzalez 1985, "Clustering to minimize the maximum intercluster distance") and
iterates as in Lloyd (1982, "Least squares quantization in PCM"). Therefore, pictures are not random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray, IntArray
from eim_ros.ik import component_labels, self_motion_components
from eim_ros.kinematics import Robot

NO_GROUP = -1
MAX_ITERATIONS = 50
ALIKE = 1e-3  # arms with a smaller relative distance count as equal


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of arms, and the arm that represents each group."""

    representatives: IntArray  # (n_groups,) int, index of the arm that represents each group, largest group first
    labels: IntArray  # (n,) int, group of each arm, or NO_GROUP
    heading: str  # description of the groups for the legend
    branches: tuple[str, ...] = ()  # branch labels that all arms of a group have, such as "left, up, flip"


def group_arms(arms: FloatArray, n_groups: int) -> Groups:
    """Group arms that look alike, by k-means over their joint origins (n, n_points, 3) [m].

    The result has at most `n_groups` groups, and fewer groups if arms coincide.
    """
    chosen, labels = _k_means(_rows(arms), n_groups)
    return _largest_first(chosen, labels, n_groups, "Configurations by the solid arm they resemble most")


def group_components(robot: Robot, positions: FloatArray, arms: FloatArray, pose: FloatArray, n_groups: int) -> Groups:
    """Group solutions (n, dof) of a pose by self-motion component; see `self_motion_components`.

    The largest components, at most `n_groups`, become groups. The other solutions belong to no group. If no
    configuration solves the pose, `group_arms` groups the configurations by their joint origins (n, n_points, 3) [m].
    """
    found = self_motion_components(robot, positions, pose)
    if not found:  # no row solves the pose
        return group_arms(arms, n_groups)
    _, labels = np.unique(component_labels(robot, found, positions), return_inverse=True)
    rows = _rows(arms)
    members = [np.flatnonzero(labels == label) for label in range(int(labels.max(initial=-1)) + 1)]
    chosen = np.array([_nearest(rows, own, rows[own].mean(axis=0)) for own in members], dtype=np.int64)
    heading = f"Configurations in each of the {len(members)} components" if len(members) > 1 else ""
    groups = _largest_first(chosen, labels, n_groups, heading)
    names = list(robot.branches.labels(positions).values())
    branches = (
        ", ".join(common_labels([label[groups.labels == group] for label in names]))
        for group in range(len(groups.representatives))
    )
    return replace(groups, branches=tuple(branches))


def common_labels(labels: Sequence[npt.NDArray[np.str_]]) -> list[str]:
    """Return the common branch labels of n solutions. Each entry of `labels` (n,) has one label per solution."""
    return [str(label[0]) for label in labels if label[0] and (label == label[0]).all()]


def _rows(arms: FloatArray) -> FloatArray:
    return np.asarray(arms.reshape(len(arms), 3 * arms.shape[1]) / np.sqrt(arms.shape[1]))


def _k_means(rows: FloatArray, n_groups: int) -> tuple[IntArray, IntArray]:
    """Return the index (k,) of the row nearest to the mean of each group, and the group (n,) of each row."""
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
    """Return up to `n_points` rows. The first is nearest to the mean, and each next row is farthest from all previous
    ones.
    """
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
