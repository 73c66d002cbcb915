"""Ratings of poses for capability maps and base placement, by the number and the manipulability of solutions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eim_ros.core.arrays import FloatArray, IntArray
from eim_ros.ik.sampler import Sampler
from eim_ros.ik.solutions import Solutions

if TYPE_CHECKING:
    from eim_ros.ik.device import DeviceSampler

N_OF_LARGE_SETS = 16  # number of solutions of a pose if more than one direction of the joints is free
MAX_SPACING = 0.5  # distance between solutions along self-motions [rad, m]
PATIENCE = 1e6  # time limit [s], so large that ratings do not depend on the load of the machine
AT_ONCE, AT_ONCE_ON_DEVICE = 4096, 2**16  # number of poses between two reports of progress


class Ratings(NamedTuple):
    """Statistics of the solutions of poses. `BasePlacements` describes the columns.

    Counts are (n_poses,), and `q` is (n_poses, dof). The length is NaN if self-motions were not traced.
    """

    n_solutions: IntArray
    n_components: IntArray
    length: FloatArray
    manipulability: FloatArray
    q: FloatArray


def rate_on(kernels: DeviceSampler, sampler: Sampler, poses: FloatArray, seed: int) -> Ratings:
    """Rate poses (n_poses, 4, 4) by kernels, `sampler.on(device)`.

    If the arm has a closed form of six joints, kernels return all solutions, and the sampler rates undecided poses.
    Otherwise kernels return up to 16 solutions, and do not trace self-motions. A pose for which kernels find no
    solution counts as not reached.
    """
    found = kernels.measured_batch(poses, N_OF_LARGE_SETS, seed=seed)
    measures, counts, setup = found.manipulability, found.counts.astype(np.int64), sampler._setup
    best = np.arange(len(poses)), np.where(np.isnan(measures), -1.0, measures).argmax(axis=1)
    if kernels.method == "closed form":  # each row represents all of its 2π-equivalents within the limits
        lower, upper, wraps = setup.bounds
        slack = min(setup.constraints.position_tolerance, setup.constraints.orientation_tolerance)
        turns = 1.0 + np.floor((upper + slack - found.q) / math.tau) - np.ceil((lower - slack - found.q) / math.tau)
        is_row = np.arange(found.q.shape[1]) < counts[:, None]
        n_equivalent = np.where(wraps > 0.0, 1.0, turns).prod(axis=2)
        counts = np.where(is_row, n_equivalent, 0.0).sum(axis=1).astype(np.int64)
    reached, is_curve = counts > 0, n_free(sampler) > 0
    ratings = Ratings(
        counts,
        np.where(is_curve, reached, counts),
        np.where(is_curve & reached, np.nan, 0.0),
        np.where(reached, measures[best], 0.0),
        found.q[best],
    )
    if kernels.method == "closed form" and len(undecided := found.undecided):
        for column, rated in zip(ratings, rate(sampler, poses[undecided], seed), strict=True):
            column[undecided] = rated
    return ratings


def n_free(sampler: Sampler) -> int:
    """Return the dimension of the solution sets of a sampler."""
    setup = sampler._setup
    position_only = setup.is_position_only(sampler.context_kind)
    axes = slice(0, 3 if position_only else 6)
    n_tolerant = 0 if setup.tolerances is None else np.count_nonzero(setup.tolerances[axes])
    return setup.redundancies[position_only] + int(n_tolerant)


def rate(sampler: Sampler, poses: FloatArray, seed: int) -> Ratings:
    """Rate poses (n_poses, 4, 4) on the processor."""
    options: dict[str, Any] = {"seed": seed, "timeout": PATIENCE}
    if n_free(sampler) > 1:
        blocks = sampler.stream(poses, Sampler.sample, n=N_OF_LARGE_SETS, **options)
    else:
        blocks = sampler.stream(poses, Sampler.solve_all, max_spacing=MAX_SPACING, **options)
    answers = Solutions.concatenate(blocks)
    position_only = sampler._setup.is_position_only(sampler.context_kind)
    best, q = _most_manipulable(answers, sampler.robot.manipulability(answers.q, position_only))
    n_components, lengths = np.zeros(len(poses), dtype=np.int64), np.zeros(len(poses))
    reports = answers.reports
    for i in np.flatnonzero(answers.n_per_pose).tolist():
        report = reports[i]
        n_components[i] = 1 if report is None else report.n_components
        lengths[i] = 0.0 if report is None else report.lengths.sum()
    return Ratings(answers.n_per_pose, n_components, lengths, best, q)


def _most_manipulable(answers: Solutions, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the largest value (n_poses,) of each pose and its row (n_poses, dof). Values are 0 without solutions."""
    best, q = np.zeros(answers.n_poses), np.full((answers.n_poses, answers.q.shape[1]), np.nan)
    owners = np.repeat(np.arange(answers.n_poses), answers.n_per_pose)
    order = np.lexsort((values, owners))  # the last row of each pose has its largest value
    last = order[np.cumsum(answers.n_per_pose)[answers.n_per_pose > 0] - 1]
    best[owners[last]], q[owners[last]] = values[last], answers.q[last]
    return best, q
