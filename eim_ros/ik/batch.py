"""Samples for many poses that share one timeout, such that a hard pose costs the others nothing.

Poses are answered in blocks, on all cores: side by side in one compiled call where uniform restarts will do, see
`SideBySide`, else each by the sampler, in threads. Each pose may take an equal share of the time that is left. What the
easy ones do not need goes, where all answers are kept, in a second pass to those whose share was too short.

Many poses at once in one compiled call, by uniform restarts in lanes and threads.

That is where no model prefers some configurations, none is found by continuation or known in closed form, and nothing
but the pose, tolerances and limits is asked for. The answer to a pose depends on its random seed alone, not on other
poses or the number of threads.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eim_ros.core.deadlines import NEVER, OutOfTime, is_past
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.parallel import checked_threads
from eim_ros.ik.candidates import ErrorCode
from eim_ros.ik.order import UNORDERED
from eim_ros.ik.prior import GivenDensity
from eim_ros.ik.problem import Goal
from eim_ros.ik.request import SampleRequest
from eim_ros.ik.solutions import Answerer, BatchSamples, Samples
from eim_ros.ik.strategies import FEWEST_TO_EXPLORE
from eim_ros.ik.strategies.closed_form import has_closed_form
from eim_ros.ik.strategies.restarts import DISTINCT_TOLERANCE, FRUITLESS_SEEDS, OUT_OF_REACH_SEEDS
from eim_ros.solver import NO_EXPERT, solve_poses

if TYPE_CHECKING:
    pass


FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class SideBySide:
    """Answers poses of which all else is asked alike.

    Parameters
    ----------
    sampler : Sampler
    request : SampleRequest
        Of which the pose, the random seed and the timeout do not count.
    deadline : float
        A time of `perf_counter` [s] until which shapes are prepared; else there is `OutOfTime`.
    """

    def __init__(self, sampler: Answerer, request: SampleRequest, deadline: float = NEVER) -> None:
        self.sampler, self.robot = sampler, sampler.robot
        self.request = sampler.resolved(request)
        self.goal = Goal.of(self.robot, self.request, deadline)

    @property
    def fits(self) -> bool:
        """Whether uniform restarts answer the request as the sampler would: as many, as fair, as valid."""
        asked = self.request
        explores = asked.explore if asked.explore is not None else float(asked.n >= FEWEST_TO_EXPLORE)
        is_plain = (
            asked.refine
            and asked.near is None
            and asked.until is None
            and asked.separation is None
            and asked.distribution is None
            and asked.posture is None
            and asked.order in (None, UNORDERED)
        )
        has_model = self.sampler.n_experts > 0
        averages = self.goal.constraints.tolerances is not None or self.goal.position_only
        by_model = has_model and (self.sampler.has_preference or averages or asked.explore is not None)
        is_sampled = not (self.goal.is_checked or by_model or has_closed_form(self.goal, asked))
        return is_plain and not explores and is_sampled

    def answer(
        self, poses: FloatArray, random_seeds: npt.NDArray[np.uint64], deadline: float, n_threads: int
    ) -> BatchSamples:
        """Answers to poses (m, 4, 4) with random seeds (m,); the deadline is a time of `perf_counter` [s]."""
        began = time.perf_counter()
        goal, n = self.goal, self.request.n
        away = np.linalg.norm(poses[:, :3, 3], axis=1)
        is_near = away <= self.robot.reach + goal.position_tolerance + goal.constraints.slack
        patience = np.where(is_near, FRUITLESS_SEEDS, OUT_OF_REACH_SEEDS)
        positions, errors, valid, counts, late = solve_poses(
            self.robot.chain,
            goal.task,
            goal.effort(),
            poses,
            random_seeds,
            patience,
            n,
            DISTINCT_TOLERANCE if self.request.distinct else -1.0,
            n_threads,
            deadline,
        )
        ends = np.cumsum(counts)
        n_valid = np.add.reduceat(np.append(valid, False), ends - counts, dtype=np.int64) * (counts > 0)
        attempts, attempt_errors = np.full((len(poses), self.robot.dof), np.nan), np.full((len(poses), 2), np.nan)
        if not valid.all():  # the only row of a pose without a solution is its best attempt
            without = np.flatnonzero((n_valid == 0) & (counts > 0))
            attempts[without], attempt_errors[without] = positions[ends[without] - 1], errors[:, ends[without] - 1].T
            positions, errors, valid = positions[valid], errors[:, valid], valid[valid]
        codes = np.where(n_valid > 0, int(ErrorCode.SUCCESS), int(ErrorCode.NO_IK_SOLUTION))
        codes[late] = int(ErrorCode.TIMED_OUT)
        nothing_known = np.full(len(positions), np.nan)
        no_expert = np.full(len(positions), NO_EXPERT, dtype=np.uint32)
        return BatchSamples(
            self.robot.joint_names,
            n_valid,
            positions,
            errors[0],
            errors[1],
            valid,
            no_expert,
            codes,
            self._messages(n_valid, late, attempt_errors),
            np.full(len(poses), (time.perf_counter() - began) / len(poses)),
            nothing_known,
            np.zeros(len(poses), dtype=np.bool_),
            np.full(len(poses), np.nan),
            np.full(len(poses), np.nan),
            np.full(len(poses), None),
            attempts,
            attempt_errors,
            _Densities(self.sampler, poses) if self.sampler.n_experts else None,
        )

    def _messages(
        self, n_valid: IntArray, late: npt.NDArray[np.bool_], attempt_errors: FloatArray
    ) -> npt.NDArray[np.object_]:
        """In words; `attempt_errors` (m, 2) of poses without a solution, NaN where nothing was tried."""
        n = self.request.n
        kind = "different configurations" if self.request.distinct else "configurations"
        messages = np.empty(len(n_valid), dtype=np.object_)
        messages[:] = f"{n} of {n} {kind} are valid"
        for index in np.flatnonzero(late | (n_valid < n)):
            reason = "timed out: " if late[index] else ""
            rest = "" if late[index] else "; the search ended without more"
            if n_valid[index]:
                messages[index] = f"{reason}{n_valid[index]} of {n} {kind} are valid{rest}"
            elif not np.isnan(attempt_errors[index, 0]):
                off = f"{attempt_errors[index, 0]:.3g} m and {attempt_errors[index, 1]:.3g} rad"
                messages[index] = f"{reason}no valid configuration found; the best is off by {off}"
            else:
                messages[index] = "timed out: no time was left to begin this pose"
        return messages


class _Densities:
    """The model given each of poses (m, 4, 4)."""

    def __init__(self, sampler: Answerer, poses: FloatArray) -> None:
        self._sampler, self._poses = sampler, poses

    def __call__(self, index: int) -> GivenDensity:
        conditioning = self._sampler.conditioning
        return conditioning.density(conditioning.contexts_of(self._poses[index][None].copy()))


ROWS_PER_BLOCK, MOST_PER_BLOCK, FEWEST_PER_BLOCK = 1 << 16, 1 << 13, 16
LARGEST_SEED = 2**63
NOT_BEGUN = "timed out: no time was left to begin this pose"


def answer_blocks(
    sampler: Answerer,
    poses: FloatArray,
    request: SampleRequest,
    block: int | None = None,
    n_threads: int | None = None,
    began: float | None = None,
) -> Iterator[BatchSamples]:
    """Answer poses (n_poses, 4, 4) in blocks as they are found, so that memory is that of one block.

    The clock runs while the caller works on a block. There is no second pass: a pose whose share of the time was too
    short stays so. A block has about 65536 configurations by default, from 16 to 8192 poses.
    """
    if block is not None and (isinstance(block, bool) or not isinstance(block, int) or block < 1):
        raise ConfigurationError(f"block must be a whole number of at least 1, got {block!r}", block)
    deadline = (time.perf_counter() if began is None else began) + request.timeout
    work = _BatchWork.of(sampler, request, n_threads, deadline)
    return work.blocks(poses, np.arange(len(poses)), work.deadline, block)


def answer_batch(
    sampler: Answerer,
    poses: FloatArray,
    request: SampleRequest,
    n_threads: int | None = None,
    began: float | None = None,
) -> BatchSamples:
    """Answer a request for each of the poses (n_poses, 4, 4) instead of its own.

    The timeout counts from `began`, a time of `perf_counter` [s]; default: now.
    """
    deadline = (time.perf_counter() if began is None else began) + request.timeout
    work = _BatchWork.of(sampler, request, n_threads, deadline)
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
    deadline : float
        A time of `perf_counter` [s].
    problem : str
        Why no pose can be begun in time, for their messages; empty mostly.
    """

    sampler: Answerer
    request: SampleRequest
    side_by_side: SideBySide | None
    n_threads: int
    base: int
    deadline: float
    problem: str = ""

    @classmethod
    def of(cls, sampler: Answerer, request: SampleRequest, n_threads: int | None, deadline: float) -> _BatchWork:
        n_threads = checked_threads(n_threads)
        base = request.random_seed
        base = int(np.random.default_rng().integers(LARGEST_SEED)) if base is None else base
        try:
            together = SideBySide(sampler, request, deadline)
        except OutOfTime as error:
            return cls(sampler, request, None, n_threads, base, deadline, f"timed out: {error}")
        if together.goal.is_checked:  # shapes are compared under the interpreter's lock, with one scratch space
            n_threads = 1
        return cls(sampler, request, together if together.fits else None, n_threads, base, deadline)

    def blocks(
        self, poses: FloatArray, indices: npt.NDArray[np.int64], deadline: float, size: int | None = None
    ) -> Iterator[BatchSamples]:
        """Answers to poses (m, 4, 4), of which the indices (m,) decide the random seeds, in blocks."""
        size = size or min(max(ROWS_PER_BLOCK // self.request.n, FEWEST_PER_BLOCK), MOST_PER_BLOCK)
        for first in range(0, len(poses), size):
            if self.problem or is_past(deadline):
                for start in range(first, len(poses), max(size, MOST_PER_BLOCK)):
                    yield self._not_begun(min(max(size, MOST_PER_BLOCK), len(poses) - start))
                return
            some, numbers = poses[first : first + size], indices[first : first + size]
            if self.side_by_side is None:
                answers = self._one_by_one(some, numbers, len(poses) - first, deadline)
                parts = [BatchSamples.of(answers)] if answers else []
                if len(answers) < len(some):
                    parts.append(self._not_begun(len(some) - len(answers)))
                yield BatchSamples.joined(parts)
                continue
            now = time.perf_counter()
            share = max(0.0, deadline - now) * len(some) / (len(poses) - first)
            seeds = np.array([self.base % 2**64], dtype=np.uint64) + numbers.astype(np.uint64)
            yield self.side_by_side.answer(some, seeds, now + share, self.n_threads)

    def _not_begun(self, n: int) -> BatchSamples:
        return BatchSamples.not_begun(self.sampler.robot.joint_names, n, self.problem or NOT_BEGUN)

    def _one_by_one(
        self, poses: FloatArray, indices: npt.NDArray[np.int64], n_left: int, deadline: float
    ) -> Sequence[Samples]:
        """Answers of the sampler to poses, behind which there are n_left - len(poses) more.

        There are none of the last poses, for which no time was left.
        """

        def answered(number: int) -> Samples | None:
            left = deadline - time.perf_counter()
            if left <= 0.0:
                return None
            share = left * min(1.0, self.n_threads / (n_left - number))
            seed = None if self.request.random_seed is None else self.request.random_seed + int(indices[number])
            return self.sampler.answer(replace(self.request, pose=poses[number], random_seed=seed, timeout=share))

        answers: list[Samples | None] = [None] * len(poses)
        following = itertools.count()

        def work() -> None:
            while (number := next(following)) < len(poses):
                answers[number] = answered(number)
                if answers[number] is None:
                    break

        n_threads = min(self.n_threads, len(poses))
        if n_threads == 1:
            work()
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                for ended in [pool.submit(work) for _ in range(n_threads)]:
                    ended.result()
        n_begun = max((number + 1 for number, answer in enumerate(answers) if answer is not None), default=0)
        return [
            Samples.not_begun(self.sampler.robot.joint_names, NOT_BEGUN) if each is None else each
            for each in answers[:n_begun]
        ]
