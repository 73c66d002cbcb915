"""Samples for several poses that share one timeout, such that a hard pose costs the others nothing.

Each pose may take an equal share of the time that is left. What the easy ones do not need goes in a second pass to
those whose share was too short.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.request import SampleOptions, SampleRequest
from eim_ros.ik.sampler import Sampler, check_sampler
from eim_ros.ik.samples import Samples
from eim_ros.kinematics.pose import check_poses

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["answer_batch", "sample_batch"]


def sample_batch(
    sampler: Sampler,
    poses: npt.ArrayLike,
    n: int = 100,
    random_seed: int | None = None,
    **options: Unpack[SampleOptions],
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
    **options
        See `SampleRequest`, the same for all poses; but `timeout` is for all of them together [s]. When it is over,
        each pose that is left still gets one round of the search, as with a timeout of 0.

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
    check_sampler(sampler)
    wanted = check_poses(poses)
    return answer_batch(sampler, wanted, SampleRequest(wanted[0], n, random_seed, **options))


def answer_batch(sampler: Sampler, poses: npt.NDArray[np.float64], request: SampleRequest) -> list[Samples]:
    """As `sample_batch`, of poses (n_poses, 4, 4) for each of which the rest of a request is asked."""
    deadline = time.perf_counter() + request.timeout

    def answered(index: int, n_left: int) -> Samples:
        share = max(0.0, deadline - time.perf_counter()) / n_left
        number = None if request.random_seed is None else request.random_seed + index
        return sampler.answer(replace(request, pose=poses[index], random_seed=number, timeout=share))

    answers = [answered(index, len(poses) - index) for index in range(len(poses))]
    late = [index for index, samples in enumerate(answers) if samples.error_code == ErrorCode.TIMED_OUT]
    for done, index in enumerate(late):
        if time.perf_counter() >= deadline:
            break
        again = answered(index, len(late) - done)
        if again.valid.sum() >= answers[index].valid.sum():
            answers[index] = again
    return answers
