"""Samples for several poses that share one timeout, such that a hard pose costs the others nothing.

Each pose may take an equal share of the time that is left. What the easy ones do not need goes in a second pass to
those whose share was too short.
"""

from __future__ import annotations

import time
from typing import Any

import numpy.typing as npt

from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.request import check_numbers
from eim_ros.ik.sampler import Sampler
from eim_ros.ik.samples import Samples
from eim_ros.kinematics.pose import check_poses

__all__ = ["sample_batch"]


def sample_batch(
    sampler: Sampler,
    poses: npt.ArrayLike,
    n: int = 100,
    random_seed: int | None = None,
    *,
    timeout: float = 1.0,
    **options: Any,
) -> list[Samples]:
    """Sample configurations for each of several poses.

    Parameters
    ----------
    sampler : Sampler
    poses : (n_poses, 4, 4) array_like
        Wanted poses of the tip in the base frame, at least one.
    n : int
        Number of configurations for each pose, >= 1.
    random_seed : int, optional
        At least 0: the i-th pose, from 0, is sampled with random_seed + i. Fresh ones if missing.
    timeout : float
        For all poses together [s]. When it is over, each pose that is left still gets one round of the search, as with
        a timeout of 0.
    **options
        Of `Sampler.sample`, the same for all poses.

    Returns
    -------
    list of Samples
        One for each pose.

    Raises
    ------
    PoseError
        If the poses have another shape, or one is no finite rigid transform.
    EimError
        As `Sampler.sample`.
    """
    began = time.perf_counter()
    check_numbers(n, random_seed, timeout=timeout)
    deadline, wanted = began + timeout, check_poses(poses)

    def sampled(index: int, n_left: int) -> Samples:
        left = max(0.0, deadline - time.perf_counter())
        number = None if random_seed is None else random_seed + index
        return sampler.sample(wanted[index], n, number, timeout=left / n_left, **options)

    answers = [sampled(index, len(wanted) - index) for index in range(len(wanted))]
    late = [index for index, samples in enumerate(answers) if samples.error_code == ErrorCode.TIMED_OUT]
    for done, index in enumerate(late):
        if time.perf_counter() >= deadline:
            break
        again = sampled(index, len(late) - done)
        if again.valid.sum() >= answers[index].valid.sum():
            answers[index] = again
    return answers
