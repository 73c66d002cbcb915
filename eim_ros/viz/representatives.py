"""Few arms that stand for many: k-means over the drawn arms, each group represented by the arm nearest to its mean.

The distance of two configurations is that of the drawn arms: the root mean square distance of their joint origins [m].
Joint angles would not do, for a wrist that may turn freely changes them and leaves the picture as it is. The means
start at farthest points (Gonzalez 1985, "Clustering to minimize the maximum intercluster distance") and follow the
iteration of Lloyd (1982, "Least squares quantization in PCM"), so that there is nothing random in a picture.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["NO_GROUP", "Groups", "group_arms"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

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
    n_experts : (n_groups,) int or None
        Number of experts in each group, if arms were grouped by expert.
    """

    representatives: IntArray
    labels: IntArray
    n_experts: IntArray | None = None


def group_arms(arms: FloatArray, n_groups: int, experts: IntArray | None = None, no_expert: int = NO_GROUP) -> Groups:
    """Up to `n_groups` groups of arms.

    Parameters
    ----------
    arms : (n, n_points, 3)
        Joint origins [m].
    n_groups : int
        At least 1; there are fewer if arms coincide.
    experts : (n,) int, optional
        Then whole experts are grouped, by the mean of their arms, and the arm nearest to its expert's mean represents.
    no_expert : int
        Value of `experts` that is none: those arms get NO_GROUP.
    """
    rows = arms.reshape(len(arms), 3 * arms.shape[1]) / np.sqrt(arms.shape[1])
    if experts is None:
        chosen, labels = _k_means(rows, n_groups)
        return _largest_first(chosen, labels)
    labels = np.full(len(rows), NO_GROUP, dtype=np.int64)
    names, unit = np.unique(experts[experts != no_expert], return_inverse=True)
    if len(names) == 0:
        return Groups(np.empty(0, dtype=np.int64), labels, np.empty(0, dtype=np.int64))
    members = np.flatnonzero(experts != no_expert)
    means = np.array([rows[members[unit == i]].mean(axis=0) for i in range(len(names))])
    experts_chosen, expert_labels = _k_means(means, n_groups)
    labels[members] = expert_labels[unit]
    chosen = np.array([_nearest(rows, members[unit == i], means[i]) for i in experts_chosen], dtype=np.int64)
    return _largest_first(chosen, labels, np.bincount(expert_labels, minlength=len(chosen)))


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


def _largest_first(chosen: IntArray, labels: IntArray, n_experts: IntArray | None = None) -> Groups:
    sizes = np.bincount(labels[labels != NO_GROUP], minlength=len(chosen))
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    ranked = np.full_like(labels, NO_GROUP)
    ranked[labels != NO_GROUP] = rank[labels[labels != NO_GROUP]]
    return Groups(chosen[order], ranked, None if n_experts is None else n_experts[order])
