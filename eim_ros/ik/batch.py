"""Samples for many poses that share one timeout, such that a hard pose costs the others nothing.

Poses are answered in blocks, on all cores: side by side in one compiled call where uniform restarts will do, see
`SideBySide`, else each by the sampler, in threads. Each pose may take an equal share of the time that is left. What the
easy ones do not need goes, where all answers are kept, in a second pass to those whose share was too short.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConfigurationError
from eim_ros.ik.batch_samples import BatchSamples
from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.request import SampleOptions, SampleRequest
from eim_ros.ik.sampler import Sampler, check_sampler
from eim_ros.ik.samples import Samples
from eim_ros.ik.side_by_side import SideBySide
from eim_ros.kinematics.pose import check_poses
from eim_ros.numerics.cores import checked_threads
from eim_ros.numerics.keywords import check_keywords

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["answer_batch", "sample_batch", "stream_batch"]

FloatArray = npt.NDArray[np.float64]

ROWS_PER_BLOCK, MOST_PER_BLOCK, FEWEST_PER_BLOCK = 1 << 16, 1 << 13, 16
LARGEST_SEED = 2**63
PARAMETERS = ("poses", "n", "random_seed", "n_threads")


def sample_batch(
    sampler: Sampler,
    poses: npt.ArrayLike,
    n: int = 100,
    random_seed: int | None = None,
    *,
    n_threads: int | None = None,
    **options: Unpack[SampleOptions],
) -> BatchSamples:
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
    n_threads : int, optional
        At most so many threads work at once; default: one for each core. Answers do not depend on it, unless the
        timeout cuts them short.
    **options
        See `SampleRequest`, the same for all poses; but `timeout` is for all of them together [s]. When it is over no
        more poses are begun; those that were not have no best attempt, either, and the code TIMED_OUT.

    Returns
    -------
    BatchSamples
        A sequence of `Samples`, one for each pose.

    Raises
    ------
    PoseError
        If the poses have another shape, or one is no finite rigid transform: told by its index.
    EimError
        As `Sampler.sample`.
    """
    check_keywords(options, SampleOptions.__annotations__, "sample_batch", PARAMETERS)
    check_sampler(sampler)
    wanted = check_poses(poses)
    return answer_batch(sampler, wanted, SampleRequest(wanted[0], n, random_seed, **options), n_threads)


def stream_batch(
    sampler: Sampler,
    poses: npt.ArrayLike,
    n: int = 100,
    random_seed: int | None = None,
    *,
    block: int | None = None,
    n_threads: int | None = None,
    **options: Unpack[SampleOptions],
) -> Iterator[BatchSamples]:
    """As `sample_batch`, but answers come in blocks as they are found: memory is that of one block.

    The clock runs while the caller works on a block, too. There is no second pass: a pose whose share of the time was
    too short stays so.

    Parameters
    ----------
    sampler, poses, n, random_seed, n_threads, **options
        See `sample_batch`.
    block : int, optional
        Poses of a block; default: so many that a block has about 65536 configurations, from 16 to 8192.
    """
    check_keywords(options, SampleOptions.__annotations__, "stream_batch", (*PARAMETERS, "block"))
    check_sampler(sampler)
    wanted = check_poses(poses)
    request = SampleRequest(wanted[0], n, random_seed, **options)
    if block is not None and (isinstance(block, bool) or not isinstance(block, int) or block < 1):
        raise ConfigurationError(f"block must be a whole number of at least 1, got {block!r}", block)
    work = _BatchWork.of(sampler, request, n_threads)
    return work.blocks(wanted, np.arange(len(wanted)), time.perf_counter() + request.timeout, block)


def answer_batch(
    sampler: Sampler, poses: FloatArray, request: SampleRequest, n_threads: int | None = None
) -> BatchSamples:
    """As `sample_batch`, of poses (n_poses, 4, 4) for each of which the rest of a request is asked."""
    deadline = time.perf_counter() + request.timeout
    work = _BatchWork.of(sampler, request, n_threads)
    found = BatchSamples.joined(list(work.blocks(poses, np.arange(len(poses)), deadline)))
    late = np.flatnonzero(found.error_codes == ErrorCode.TIMED_OUT)
    if not len(late) or time.perf_counter() >= deadline:
        return found
    again = BatchSamples.joined(list(work.blocks(poses[late], late, deadline)))
    rows = np.arange(len(found))
    was_begun = (again.n_valid > 0) | ~np.isnan(again.best_attempt_errors[:, 0])
    is_better = was_begun & (again.n_valid >= found.n_valid[late])
    rows[late[is_better]] = len(found) + np.flatnonzero(is_better)
    return BatchSamples.joined([found, again]).take(rows)


@dataclass(frozen=True)
class _BatchWork:
    """How the poses of a batch are answered.

    Attributes
    ----------
    sampler : Sampler
    request : SampleRequest
    side_by_side : SideBySide or None
        None where the sampler answers pose by pose.
    n_threads : int
    base : int
        Random seed of the first pose.
    """

    sampler: Sampler
    request: SampleRequest
    side_by_side: SideBySide | None
    n_threads: int
    base: int

    @classmethod
    def of(cls, sampler: Sampler, request: SampleRequest, n_threads: int | None) -> _BatchWork:
        n_threads = checked_threads(n_threads)
        base = request.random_seed
        base = int(np.random.default_rng().integers(LARGEST_SEED)) if base is None else base
        if type(sampler).answer is not Sampler.answer:  # what answers in a way of its own does so pose by pose
            return cls(sampler, request, None, n_threads, base)
        together = SideBySide(sampler, request)
        if together.goal.is_checked:  # shapes are compared under the interpreter's lock, with one scratch space
            n_threads = 1
        return cls(sampler, request, together if together.fits else None, n_threads, base)

    def blocks(
        self, poses: FloatArray, indices: npt.NDArray[np.int64], deadline: float, size: int | None = None
    ) -> Iterator[BatchSamples]:
        """Answers to poses (m, 4, 4), of which the indices (m,) decide the random seeds, in blocks."""
        size = size or min(max(ROWS_PER_BLOCK // self.request.n, FEWEST_PER_BLOCK), MOST_PER_BLOCK)
        for first in range(0, len(poses), size):
            some, numbers = poses[first : first + size], indices[first : first + size]
            if self.side_by_side is None:
                yield BatchSamples.of(self._one_by_one(some, numbers, len(poses) - first, deadline))
                continue
            now = time.perf_counter()
            share = max(0.0, deadline - now) * len(some) / (len(poses) - first)
            seeds = np.array([self.base % 2**64], dtype=np.uint64) + numbers.astype(np.uint64)
            yield self.side_by_side.answer(some, seeds, now + share, self.n_threads)

    def _one_by_one(
        self, poses: FloatArray, indices: npt.NDArray[np.int64], n_left: int, deadline: float
    ) -> Sequence[Samples]:
        """Answers of the sampler to poses, behind which there are n_left - len(poses) more."""

        def answered(number: int) -> Samples:
            left = deadline - time.perf_counter()
            if left <= 0.0:
                return _not_begun(self.sampler)
            share = left * min(1.0, self.n_threads / (n_left - number))
            seed = None if self.request.random_seed is None else self.request.random_seed + int(indices[number])
            return self.sampler.answer(replace(self.request, pose=poses[number], random_seed=seed, timeout=share))

        if self.n_threads == 1 or len(poses) == 1:
            return [answered(number) for number in range(len(poses))]
        with ThreadPoolExecutor(self.n_threads) as pool:
            return list(pool.map(answered, range(len(poses))))


def _not_begun(sampler: Sampler) -> Samples:
    """The answer to a pose for which no time was left."""
    robot = sampler.robot
    nothing = np.empty(0)
    return Samples(
        robot.joint_names,
        np.empty((0, robot.dof)),
        nothing,
        nothing,
        np.empty(0, dtype=np.bool_),
        np.empty(0, dtype=np.uint32),
        ErrorCode.TIMED_OUT,
        "timed out: no time was left to begin this pose",
        0.0,
    )
