"""Answers for many poses that share one timeout, so that a hard pose does not take the time of others.

Poses are answered in blocks on all cores. If a closed form or uniform restarts give the same answers as the sampler, a
block is one compiled call (see `RootsBatch` and `CompiledBatch`). The sampler answers the other poses in threads. Each
pose may use an equal share of the remaining time. If all answers are kept, a second pass gives the unused time to the
poses that timed out.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from eim_ros.core.arrays import BoolArray, FloatArray, IntArray
from eim_ros.core.checks import checked_whole
from eim_ros.core.deadlines import OutOfTime, is_past
from eim_ros.core.parallel import checked_threads
from eim_ros.ik.candidates import Candidates, ErrorCode
from eim_ros.ik.completeness import CompletenessReport
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.order import Ordering
from eim_ros.ik.prior import ConditionalDensity, Prior
from eim_ros.ik.problem import OUT_OF_REACH, Aim, Covering, Problem, Setup, Spread, outcome, too_far
from eim_ros.ik.solutions import Solutions
from eim_ros.ik.strategies.closed_form import FINEST, Roots, chosen_rows, closed_form, found_by_roots, has_closed_form
from eim_ros.ik.strategies.restarts import (
    DISTINCT_TOLERANCE,
    FEWEST_TO_DIVERSIFY,
    MAX_SEEDS_WITHOUT_GAIN,
    OUT_OF_REACH_SEEDS,
)
from eim_ros.kinematics import Robot
from eim_ros.solver import NO_EXPERT, solve_poses

Outcome: TypeAlias = tuple[ErrorCode, str, CompletenessReport | None]

ROWS_PER_BLOCK, MOST_PER_BLOCK, FEWEST_PER_BLOCK = 1 << 16, 1 << 13, 16
LARGEST_SEED = 2**63
MOST_OUTCOMES = 256  # number of different outcomes that are kept
NOTHING = ErrorCode.NO_IK_SOLUTION, "", None
NOT_BEGUN = "timed out: there was no time to begin this pose"


class Solver(Protocol):
    """The part of `Sampler` that batches and paths use."""

    robot: Robot
    prior: Prior
    constraints: Constraints
    _setup: Setup

    def with_constraints(self, constraints: Constraints | None = None, **changes: Any) -> Solver:
        """Return a sampler with other constraints."""
        ...

    @property
    def n_experts(self) -> int:
        """Number of experts; 0 without a model."""
        ...

    @property
    def has_preference(self) -> bool:
        """Whether the model prefers some configurations to others."""
        ...

    def _solved(
        self,
        pose: FloatArray,
        position_only: bool | None,
        aim: Aim,
        order: Ordering,
        seed: int | None,
        deadline: float,
    ) -> Solutions: ...


@dataclass(frozen=True)
class BatchTask:
    """Request for every pose of a batch.

    Attributes
    ----------
    aim : Spread, Covering or Draws
    order : Ordering
    seed : int, optional
        Seed of the first pose. The pose with index i uses `seed + i`.
    deadline : float
        Deadline of the complete batch, a time of `perf_counter` [s].
    n_threads : int, optional
        Number of threads. Default: the number of cores.
    """

    aim: Aim
    order: Ordering
    seed: int | None
    deadline: float
    n_threads: int | None = None


def answer_blocks(sampler: Solver, poses: FloatArray, task: BatchTask, block: int | None = None) -> Iterator[Solutions]:
    """Answer poses (n_poses, 4, 4) and yield blocks of answers, so that only one block is in memory.

    The time that the caller spends on a block counts towards the deadline. There is no second pass. By default a block
    has about 65536 rows, and 16 to 8192 poses.
    """
    size = None if block is None else checked_whole(block, 1, "block")
    work = _BatchWork.of(sampler, task)
    return work.blocks(poses, np.arange(len(poses)), size)


def answer_batch(sampler: Solver, poses: FloatArray, task: BatchTask) -> Solutions:
    """Answer poses (n_poses, 4, 4), with a second pass for those that timed out."""
    work = _BatchWork.of(sampler, task)
    found = Solutions.concatenate(work.blocks(poses, np.arange(len(poses))))
    late = np.flatnonzero(found.error_codes == ErrorCode.TIMED_OUT)
    if not len(late) or time.perf_counter() >= task.deadline:
        return found
    again = Solutions.concatenate(work.blocks(poses[late], late))
    rows = np.arange(found.n_poses)
    was_begun = (again.n_valid > 0) | ~np.isnan(again.best_attempt_errors[:, 0])
    is_better = was_begun & (again.n_valid >= found.n_valid[late])
    rows[late[is_better]] = found.n_poses + np.flatnonzero(is_better)
    return Solutions.concatenate([found, again]).poses(rows)


class RootsBatch:
    """Solve poses by a closed form in one compiled call, with the answers of the sampler."""

    def __init__(self, sampler: Solver, task: BatchTask) -> None:
        self.sampler, self.robot, self.task = sampler, sampler.robot, task
        self.problem = problem_of(sampler, task)
        self._form = closed_form(self.problem)
        self._outcomes: dict[tuple[float, ...], Outcome | None] = {}

    @property
    def is_equivalent(self) -> bool:
        """Return whether the answer to a pose follows from its roots alone."""
        aim, order, problem = self.task.aim, self.task.order, self.problem
        if order.criterion != "" or order.reference is not None or order.posture is not None or problem.is_checked:
            return False
        if len(self.robot.unlimited_slides):  # the limits depend on the pose, see `Setup.reaching`
            return False
        is_suited = isinstance(aim, Covering) or (isinstance(aim, Spread) and not self.sampler.n_experts)
        return is_suited and self._form is not None and has_closed_form(problem)

    def solve(
        self, poses: FloatArray, numbers: IntArray, deadline: float, n_threads: int
    ) -> tuple[Solutions, IntArray]:
        """Answer poses (m, 4, 4) whose seeds have numbers (m,); also return the indices of those that are undecided.

        The deadline is a time of `perf_counter` [s].
        """
        began, problem, n = time.perf_counter(), self.problem, self.problem.n
        dof, m = self.robot.dof, len(poses)
        q, errors, table = self.solutions(poses, deadline, n_threads)
        kept: list[Outcome] = []
        counts, open_, rows, first = np.zeros(m, np.int64), list[int](), list[IntArray](), 0
        for number, line in enumerate(map(tuple, table.tolist())):
            found, n_rows = self.outcome(line), int(line[0])
            if found is None:
                found = NOTHING
                open_.append(number)
            else:
                chosen = np.arange(n_rows)
                if n_rows > n:
                    seed = None if self.task.seed is None else self.task.seed + int(numbers[number])
                    chosen = chosen[chosen_rows(problem, int(line[1]), n, seed)]
                rows.append(first + chosen)
                counts[number] = len(chosen)
            kept.append(found)
            first += n_rows
        codes, messages, reports = zip(*kept, strict=True)
        index = np.concatenate([np.empty(0, np.int64), *rows])
        found_rows = Candidates.solutions(q[index], errors[:, index])
        return Solutions(
            self.robot.joint_names,
            found_rows.q,
            found_rows.position_error,
            found_rows.orientation_error,
            found_rows.valid,
            found_rows.expert,
            counts,
            np.array(codes, np.int64),
            messages,
            np.full(m, (time.perf_counter() - began) / m),
            table[:, 2],
            reports,
            np.full(m, np.nan),
            np.full((m, dof), np.nan),
            np.full((m, 2), np.nan),
            None,
            densities_of(self.sampler.prior, poses) if self.sampler.n_experts else None,
            self.robot,
        ), np.array(open_, np.int64)

    def solutions(
        self,
        poses: FloatArray,
        deadline: float,
        n_threads: int,
        choice: float = -1.0,
        reference: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the solutions of poses (m, 4, 4), their errors, and the table; see `ClosedForm.solutions`."""
        assert self._form is not None
        chain, problem = self.robot.chain, self.problem
        options = FINEST, problem.is_certified, reference, None, problem.n, deadline, n_threads, choice
        return self._form.solutions(chain, problem.task, poses, *options)

    def outcome(self, line: tuple[float, ...]) -> Outcome | None:
        """Return the outcome of a line of the table; None if it is not final. Few lines differ."""
        try:
            return self._outcomes[line]
        except KeyError:
            if len(self._outcomes) >= MOST_OUTCOMES:
                self._outcomes.clear()
            found = self._outcomes[line] = self._new_outcome(*line)
            return found

    def _new_outcome(
        self,
        n_rows: float,
        n_roots: float,
        n_total: float,
        is_complete: float,
        is_certified: float,
        is_singular: float,
        is_swept: float,
        has_near_duplicates: float,
    ) -> Outcome | None:
        problem = self.problem
        if is_singular or (has_near_duplicates and isinstance(problem.aim, Spread) and problem.n > 1):
            return None
        n = min(int(n_rows), problem.n)
        candidates = Candidates.solutions(np.empty((n, self.robot.dof)), np.empty((2, n)))
        in_time = n_rows >= min(problem.n, n_total) or math.isinf(n_total)
        roots = Roots(candidates, n_total, False, bool(is_complete), bool(is_certified), in_time=in_time)
        found = found_by_roots(problem, roots)
        if not found.is_final or found.timed_out or (found.n_total is None and not math.isinf(n_total)):
            return None
        return *outcome(problem, found, candidates, False), found.report


class CompiledBatch:
    """Solve poses by uniform restarts in lanes and threads, in one compiled call.

    The answer to a pose depends on its seed, not on other poses or the number of threads.
    """

    def __init__(self, sampler: Solver, task: BatchTask) -> None:
        self.sampler, self.robot, self.task = sampler, sampler.robot, task
        self.problem = problem_of(sampler, task)
        self._base = int(np.random.default_rng().integers(LARGEST_SEED)) if task.seed is None else task.seed

    @property
    def is_equivalent(self) -> bool:
        """Return whether uniform restarts give answers of the same size, spread and validity as the sampler."""
        aim, order, problem = self.task.aim, self.task.order, self.problem
        if not isinstance(aim, Spread) or order.criterion != "" or order.reference is not None:
            return False
        if order.posture is not None or problem.is_checked or closed_form(problem) is not None:
            return False
        if len(self.robot.unlimited_slides):  # the limits depend on the pose, see `Setup.reaching`
            return False
        is_diverse = aim.diversity if aim.diversity is not None else aim.n >= FEWEST_TO_DIVERSIFY
        averages = problem.tolerances is not None or problem.position_only
        prefers = self.sampler.has_preference or averages or aim.diversity is not None
        return not is_diverse and not (self.sampler.n_experts and prefers)

    def solve(
        self, poses: FloatArray, numbers: IntArray, deadline: float, n_threads: int
    ) -> tuple[Solutions, IntArray]:
        """Answer all poses (m, 4, 4), as `RootsBatch.solve` does; no pose is undecided."""
        began = time.perf_counter()
        seeds = np.array([self._base % 2**64], dtype=np.uint64) + numbers.astype(np.uint64)
        problem, n = self.problem, self.task.aim.n
        is_near = problem.setup.are_within_reach(poses)
        q, errors, valid, counts, late = solve_poses(
            self.robot.chain,
            problem.task,
            problem.effort,
            poses,
            seeds,
            np.where(is_near, MAX_SEEDS_WITHOUT_GAIN, OUT_OF_REACH_SEEDS),
            n,
            DISTINCT_TOLERANCE,
            n_threads,
            deadline,
        )
        ends = np.cumsum(counts)
        n_valid = np.add.reduceat(np.append(valid, False), ends - counts, dtype=np.int64) * (counts > 0)
        attempts, attempt_errors = np.full((len(poses), self.robot.dof), np.nan), np.full((len(poses), 2), np.nan)
        if not valid.all():  # the only row of a pose without a solution is its best attempt
            without = np.flatnonzero((n_valid == 0) & (counts > 0))
            attempts[without], attempt_errors[without] = q[ends[without] - 1], errors[:, ends[without] - 1].T
            q, errors, valid = q[valid], errors[:, valid], valid[valid]
        codes = np.where(n_valid > 0, int(ErrorCode.SUCCESS), int(ErrorCode.NO_IK_SOLUTION))
        late &= is_near | (counts == 0)  # an answer that is proven does not depend on the rest of the search
        codes[late] = int(ErrorCode.TIMED_OUT)
        unknown = np.full(len(poses), np.nan)
        answers = Solutions(
            self.robot.joint_names,
            q,
            errors[0],
            errors[1],
            valid,
            np.full(len(q), NO_EXPERT, np.uint32),
            n_valid,
            codes,
            self._messages(n_valid, late, is_near, attempt_errors),
            np.full(len(poses), (time.perf_counter() - began) / len(poses)),
            np.where(is_near, unknown, 0.0),
            (None,) * len(poses),
            unknown,
            attempts,
            attempt_errors,
            None,
            densities_of(self.sampler.prior, poses) if self.sampler.n_experts else None,
            self.robot,
        )
        return answers, np.empty(0, np.int64)

    def _messages(
        self, n_valid: IntArray, late: BoolArray, is_near: BoolArray, attempt_errors: FloatArray
    ) -> tuple[str, ...]:
        """Return the outcomes in words; `attempt_errors` (m, 2) are NaN if nothing was tried."""
        n = self.task.aim.n
        messages = [f"{n} of {n} distinct solutions"] * len(n_valid)
        for index in np.flatnonzero(late | (n_valid < n)).tolist():
            reason = "timed out: " if late[index] else ""
            if n_valid[index]:
                rest = "" if late[index] else "; the search found no more"
                messages[index] = f"{reason}{n_valid[index]} of {n} distinct solutions{rest}"
            elif not np.isnan(attempt_errors[index, 0]):
                off = f"{attempt_errors[index, 0]:.3g} m and {attempt_errors[index, 1]:.3g} rad"
                far = too_far(self.robot, attempt_errors[index, 0])
                known = f"no solution found in {MAX_SEEDS_WITHOUT_GAIN} restarts"
                if late[index] or not is_near[index]:
                    known = "no solution found" if is_near[index] else f"there is no solution, {OUT_OF_REACH}"
                messages[index] = f"{reason}{known}; the best attempt is off by {off}{far}"
            else:
                messages[index] = NOT_BEGUN
        return tuple(messages)


def problem_of(sampler: Solver, task: BatchTask) -> Problem:
    """Return the problem that the poses of a batch have in common, with another pose."""
    setup = sampler._setup
    position_only = setup.is_position_only(sampler.prior.kind)
    return Problem(setup, np.eye(4), position_only, task.aim, task.order, deadline=task.deadline)


def densities_of(prior: Prior, poses: FloatArray) -> list[ConditionalDensity | None]:
    """Return the density of a model for each of some poses (m, 4, 4)."""
    return [prior.density(each[None]) for each in prior.contexts_of(poses)]


@dataclass(frozen=True)
class _BatchWork:
    """Work on the poses of a batch.

    Attributes
    ----------
    sampler : Sampler
    task : BatchTask
    compiled : RootsBatch, CompiledBatch or None
        None if the sampler answers pose by pose.
    n_threads : int
    problem : str
        Reason for which no pose can be started in time; empty otherwise.
    """

    sampler: Solver
    task: BatchTask
    compiled: RootsBatch | CompiledBatch | None
    n_threads: int
    problem: str = ""

    @classmethod
    def of(cls, sampler: Solver, task: BatchTask) -> _BatchWork:
        n_threads = checked_threads(task.n_threads)
        try:
            batches = RootsBatch(sampler, task), CompiledBatch(sampler, task)
        except OutOfTime as error:
            return cls(sampler, task, None, n_threads, f"timed out: {error}")
        if batches[0].problem.is_checked:  # shapes are compared under the interpreter's lock, with one scratch space
            n_threads = 1
        return cls(sampler, task, next((each for each in batches if each.is_equivalent), None), n_threads)

    def blocks(self, poses: FloatArray, indices: IntArray, size: int | None = None) -> Iterator[Solutions]:
        """Answer poses (m, 4, 4) in blocks; the indices (m,) decide their seeds."""
        deadline = self.task.deadline
        size = size or min(max(ROWS_PER_BLOCK // self.task.aim.n, FEWEST_PER_BLOCK), MOST_PER_BLOCK)
        for first in range(0, len(poses), size):
            if self.problem or is_past(deadline):
                for start in range(first, len(poses), max(size, MOST_PER_BLOCK)):
                    yield self._not_begun(min(max(size, MOST_PER_BLOCK), len(poses) - start))
                return
            some, numbers = poses[first : first + size], indices[first : first + size]
            if self.compiled is None:
                yield self._one_by_one(some, numbers, len(poses) - first)
                continue
            now, n_later = time.perf_counter(), len(poses) - first - len(some)
            share = max(0.0, deadline - now) * len(some) / (len(some) + n_later)
            answers, undecided = self.compiled.solve(some, numbers, now + share, self.n_threads)
            if len(undecided):
                others = self._one_by_one(some[undecided], numbers[undecided], len(undecided) + n_later)
                order = np.arange(len(some))
                order[undecided] = len(some) + np.arange(len(undecided))
                answers = Solutions.concatenate([answers, others]).poses(order)
            yield answers

    def _not_begun(self, n: int) -> Solutions:
        return Solutions.empty(self.sampler.robot.joint_names, n, self.problem or NOT_BEGUN)

    def _one_by_one(self, poses: FloatArray, indices: IntArray, n_left: int) -> Solutions:
        """Answer poses with the sampler. They are the first of the `n_left` remaining poses."""
        task = self.task

        def answered(number: int) -> Solutions | None:
            now = time.perf_counter()
            left = task.deadline - now
            if left <= 0.0:
                return None
            share = left * min(1.0, self.n_threads / (n_left - number))
            seed = None if task.seed is None else task.seed + int(indices[number])
            return self.sampler._solved(poses[number], None, task.aim, task.order, seed, now + share)

        answers: list[Solutions | None] = [None] * len(poses)
        numbers = itertools.count()

        def work() -> None:
            while (number := next(numbers)) < len(poses):
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
        return Solutions.concatenate(self._not_begun(1) if each is None else each for each in answers)
