"""The engine, which runs the strategies to answer requests for one pose or for many.

All calls go through `Engine.answer` or `Engine.blocks`. The first strategy that applies may have a solver that answers
many poses in one compiled call. The strategies solve poses that this solver does not finish one at a time. If there is
no such solver, they solve all poses. The i-th of several poses uses `seed + i`, so its rows equal those of a call for
this pose alone.

Many poses share one timeout and are answered in blocks on all cores. Each pose may use an equal share of the remaining
time, so that a hard pose does not use up the time of the others. If all answers are kept, a second pass gives the
unused time to the poses that timed out.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from eim_ros.core.arrays import FloatArray, IntArray
from eim_ros.core.checks import checked_whole
from eim_ros.core.deadlines import OutOfTime, is_past, with_grace
from eim_ros.core.parallel import checked_threads, random_bits
from eim_ros.ik.candidates import Batch, ErrorCode, Outcome, Rows, Solver, without_open
from eim_ros.ik.messages import NOT_BEGUN, code_and_message
from eim_ros.ik.order import AS_FOUND, Ordering, distinct_in_time
from eim_ros.ik.prior import NO_COMPONENTS, ConditionalDensity, Densities, Prior
from eim_ros.ik.problem import Problem
from eim_ros.ik.request import Aim, Draws, Proposals, Spread
from eim_ros.ik.revolutions import OneRevolution, in_revolution_of
from eim_ros.ik.setup import Setup
from eim_ros.ik.solutions import Solutions
from eim_ros.ik.strategies import STRATEGIES, find
from eim_ros.ik.strategies.restarts import DISTINCT_TOLERANCE

ROWS_PER_BLOCK, MOST_PER_BLOCK, FEWEST_PER_BLOCK = 1 << 16, 1 << 13, 128
# Blocks are this many times larger if all answers are kept. Large blocks save time, because NumPy releases the
# interpreter's lock several times between blocks, and another thread may keep the lock for 5 ms each time.
KEPT_BLOCKS = 16
LARGEST_SEED = 2**63
# Time between two pauses, and their length [s]. Without pauses, other Python threads starve during collision checks,
# which release the interpreter's lock for only some microseconds.
PAUSE_EVERY, PAUSE = 0.01, 1e-4
NOTHING = Outcome(int(ErrorCode.NO_IK_SOLUTION), ("", None))


class Poses(NamedTuple):
    """Several poses to be answered in one call."""

    poses: FloatArray  # (m, 4, 4), checked
    order: Ordering
    seed: int | None  # seed of the first pose; the i-th pose uses seed + i
    deadline: float  # deadline of all poses together, a time of `perf_counter` [s]
    n_threads: int | None  # default: the number of usable cores


class Engine:
    """Answers requests with one aim for one robot, its constraints and its model.

    Parameters
    ----------
    setup : Setup
    prior : Prior
    aim : Spread, Covering, Draws or Proposals
    order : Ordering
        Order that provides the criteria for all requests. Each request may have its own reference.
    """

    def __init__(self, setup: Setup, prior: Prior, aim: Aim, order: Ordering) -> None:
        self._robot, self._one_revolution = setup.robot, None
        if aim.revolutions == "one":
            self._one_revolution = OneRevolution.of(setup)
            setup = self._one_revolution.setup
        self._setup, self._prior, self._aim = setup, prior, aim
        self._seeding = prior.without_model() if isinstance(aim, Spread) and not aim.from_model else prior
        self._solver = _prepared(setup, self._seeding, aim, order)

    def answer(
        self,
        pose: FloatArray,
        order: Ordering,
        seed: int | None,
        deadline: float,
        position_only: bool | None = None,
        until_deadline: bool = False,
    ) -> Solutions:
        """Return the answer for a checked pose (4, 4); the deadline is a time of `perf_counter` [s].

        By default, the constraints and the model decide whether any orientation is accepted. An empty answer is
        returned as soon as it is proven. Without a proof, the search ends after a number of restarts, or at the
        deadline if `until_deadline` is true.
        """
        began, solver = time.perf_counter(), self._solver
        if solver is not None and position_only is None:
            poses = pose[None]
            rows = self._within_limits(solver.solve(Batch(poses, (seed,), order.reference, deadline, 1)), order)
            outcome = rows.outcomes[0]
            is_open = outcome is None or (outcome.code == ErrorCode.NO_IK_SOLUTION and outcome.n_total != 0.0)
            if outcome is not None and not (until_deadline and is_open):
                return self._built(rows, poses, time.perf_counter() - began)
        return self._one(pose, order, seed, deadline, position_only, until_deadline)

    def answers(self, asked: Poses) -> Solutions:
        """Return the answers for several poses, with a second pass for those that timed out."""
        work = _Work.of(self, asked)
        numbers = np.arange(len(asked.poses))
        found = Solutions.concatenate(work.blocks(numbers, KEPT_BLOCKS * self._block_size))
        late = np.flatnonzero(found.error_codes == ErrorCode.TIMED_OUT)
        if not len(late) or time.perf_counter() >= asked.deadline:
            return found
        again = Solutions.concatenate(work.blocks(late, KEPT_BLOCKS * self._block_size))
        was_begun = (again.n_valid > 0) | ~np.isnan(again.best_attempt_errors[:, 0])
        is_better = was_begun & (again.n_valid >= found.n_valid[late])
        numbers[late[is_better]] = found.n_poses + np.flatnonzero(is_better)
        return Solutions.concatenate([found, again]).poses(numbers)

    def blocks(self, asked: Poses, size: int | None = None) -> Iterator[Solutions]:
        """Answer several poses and yield blocks of answers, so that only one block is in memory.

        The time that the caller spends on a block counts towards the deadline. There is no second pass. By default a
        block has about 65536 rows, and 128 to 8192 poses.
        """
        size = self._block_size if size is None else checked_whole(size, 1, "block")
        return _Work.of(self, asked).blocks(np.arange(len(asked.poses)), size)

    def _within_limits(self, rows: Rows, order: Ordering) -> Rows:
        """Shift the rows of a search by revolutions into the limits, if the search treats joints as continuous."""
        if self._one_revolution is None:
            return rows
        return rows._replace(q=self._one_revolution.within_limits(rows.q, order))

    @property
    def _block_size(self) -> int:
        return min(max(ROWS_PER_BLOCK // self._aim.n, FEWEST_PER_BLOCK), MOST_PER_BLOCK)

    def _some(self, batch: Batch, order: Ordering) -> tuple[Solutions, IntArray]:
        """Answer a block of poses in one compiled call, and return the indices of the poses without an outcome."""
        assert self._solver is not None
        began, m = time.perf_counter(), len(batch.poses)
        rows = self._within_limits(without_open(self._solver.solve(batch)), order)
        is_open = np.flatnonzero([each is None for each in rows.outcomes])
        if len(is_open):
            rows = rows._replace(outcomes=[NOTHING if each is None else each for each in rows.outcomes])
        return self._built(rows, batch.poses, np.full(m, (time.perf_counter() - began) / m)), is_open

    def _one(
        self,
        pose: FloatArray,
        order: Ordering,
        seed: int | None,
        deadline: float,
        position_only: bool | None = None,
        until_deadline: bool = False,
    ) -> Solutions:
        """Return the answer of the strategies for a pose, see `answer`."""
        began, setup, prior, aim = time.perf_counter(), self._setup, self._prior, self._aim
        robot = setup.robot
        if position_only is None:
            position_only = setup.is_position_only(prior.kind)
        densities: Sequence[ConditionalDensity] | None = None
        conditional = NO_COMPONENTS
        if prior.evaluator.n_experts and prior.is_prepared(setup.constraints, position_only):
            densities = Densities(prior, pose[None])
        elif prior.evaluator.n_experts:
            densities = (prior.density(prior.contexts(pose, position_only, robot, setup.constraints, seed)),)
        if densities is not None and self._seeding is prior:
            conditional = densities[0].conditional
        options = conditional, seed, deadline, until_deadline
        try:
            problem = Problem(setup.reaching(pose[None]), pose, position_only, aim, order, *options)
        except OutOfTime as error:
            return Solutions.empty(robot.joint_names, 1, f"timed out: {error}", time.perf_counter() - began)
        found, reference = find(problem), order.reference
        kept, is_cut_short = found.candidates, False
        if isinstance(aim, Draws):
            order = AS_FOUND
        elif order.posture is not None and order.moves and found.n_total is None:
            kept, is_cut_short = problem.optimized(kept, order.posture, deadline)
            chosen, is_compared = distinct_in_time(robot, kept.q, DISTINCT_TOLERANCE, with_grace(deadline))
            kept, is_cut_short = kept.pick(chosen), is_cut_short or not is_compared
        code, message = code_and_message(problem, found, kept, is_cut_short)
        n_valid, log_prob, attempt = kept.n_valid, found.log_prob, None
        if not n_valid and len(kept):
            best = kept.best()
            tried = best.q if self._one_revolution is None else self._one_revolution.within_limits(best.q, order)
            attempt = tried[0], float(best.position_error[0]), float(best.orientation_error[0])
        if not isinstance(aim, Proposals) and n_valid < len(kept):  # a caller may execute any row
            log_prob = None if log_prob is None else log_prob[kept.valid]
            kept = kept.chosen()
        if order.is_fair and len(kept) > aim.n:
            kept = kept.pick(slice(aim.n))
        if self._one_revolution is not None:
            kept, robot = replace(kept, q=self._one_revolution.within_limits(kept.q, order)), self._robot
        if len(kept) <= 1:
            order = AS_FOUND
        if densities is not None and order.needs_density:
            if time.perf_counter() + densities[0].seconds(len(kept)) < deadline:
                log_prob = conditional.log_prob(kept.q)
            else:
                order, message = AS_FOUND, message + "; there was no time to order them by density"
        if reference is not None:
            wraps = problem.bounds[2] > 0.0
            if self._one_revolution is not None:
                wraps &= ~self._one_revolution.repeating
            kept = replace(kept, q=in_revolution_of(reference, kept.q, wraps))
        if order is not AS_FOUND or isinstance(aim, Proposals):
            best_first = order.rows(robot, kept, aim.n, log_prob, position_only)
            kept, log_prob = kept.pick(best_first), None if log_prob is None else log_prob[best_first]
        n_total = math.nan if found.n_total is None else float(found.n_total)
        size = math.nan if found.effective_sample_size is None else float(found.effective_sample_size)
        outcome = Outcome(int(code), (message, found.report), n_total, size, attempt)
        errors = np.stack([kept.position_error, kept.orientation_error])
        rows = Rows(kept.q, errors, None, (outcome,), kept.valid, kept.expert, log_prob)
        return self._built(rows, pose[None], time.perf_counter() - began, densities)

    def _built(
        self,
        rows: Rows,
        poses: FloatArray,
        times: FloatArray | float,
        densities: Sequence[ConditionalDensity] | None = None,
    ) -> Solutions:
        """Return the answer with these rows. By default, the densities of the model are computed for these poses."""
        robot = self._robot
        if densities is None and self._prior.evaluator.n_experts:
            densities = Densities(self._prior, poses)
        return Solutions(
            robot.joint_names,
            rows.q,
            rows.errors,
            tuple(rows.outcomes),  # type: ignore[arg-type]  # none is open
            times,
            counts=rows.counts,
            valid=rows.valid,
            expert=rows.expert,
            log_prob=rows.log_prob,
            densities=densities,
            robot=robot,
        )


def _prepared(setup: Setup, prior: Prior, aim: Aim, order: Ordering) -> Solver | None:
    """Return the first applicable strategy's solver for many poses, or None if it has no such solver."""
    is_plain = order.criterion in ("", "density", "distance") and order.posture is None
    position_only = setup.is_position_only(prior.kind)
    is_plain &= not setup.is_checked and not len(setup.robot.unlimited_slides)  # their limits depend on the pose
    if not is_plain or not prior.is_prepared(setup.constraints, position_only):
        return None
    problem = Problem(setup, np.eye(4), position_only, aim, order)
    problem.has_model = prior.evaluator.n_experts > 0
    for strategy in STRATEGIES:
        if strategy.applies(problem):
            return strategy.prepare(problem, prior)
    return None


class _Work:
    """Work on several poses. `problem` is the reason why no pose can be started in time, or empty."""

    def __init__(self, engine: Engine, asked: Poses, seed: int, n_threads: int, problem: str) -> None:
        self._engine, self._asked, self._seed, self._n_threads, self._problem = engine, asked, seed, n_threads, problem

    @classmethod
    def of(cls, engine: Engine, asked: Poses) -> _Work:
        """Prepare the work. Collision checks use one thread, because they run under the interpreter's lock."""
        n_threads, problem, setup = checked_threads(asked.n_threads), "", engine._setup
        if setup.is_checked:
            n_threads = 1
            try:
                Problem(setup, np.eye(4), False, deadline=asked.deadline)
            except OutOfTime as error:
                problem = f"timed out: {error}"
        seed = random_bits() % LARGEST_SEED if asked.seed is None else asked.seed
        return cls(engine, asked, seed, n_threads, problem)

    def blocks(self, numbers: IntArray, size: int) -> Iterator[Solutions]:
        """Answer the poses with these indices (m,) in blocks. The index of a pose decides its seed."""
        engine, asked, m = self._engine, self._asked, len(numbers)
        for first in range(0, m, size):
            if self._problem or is_past(asked.deadline):
                for start in range(first, m, max(size, MOST_PER_BLOCK)):
                    yield self._not_begun(min(max(size, MOST_PER_BLOCK), m - start))
                return
            some, n_left = numbers[first : first + size], m - first
            if engine._solver is None:
                yield self._one_by_one(some, n_left)
                continue
            now, n_later = time.perf_counter(), n_left - len(some)
            share = max(0.0, asked.deadline - now) * len(some) / n_left
            seeds = [self._seed + number for number in some.tolist()]
            batch = Batch(asked.poses[some], seeds, asked.order.reference, now + share, self._n_threads)
            answers, is_open = engine._some(batch, asked.order)
            if len(is_open):
                others = self._one_by_one(some[is_open], len(is_open) + n_later)
                rows = np.arange(len(some))
                rows[is_open] = len(some) + np.arange(len(is_open))
                answers = Solutions.concatenate([answers, others]).poses(rows)
            yield answers

    def _not_begun(self, n: int) -> Solutions:
        return Solutions.empty(self._engine._setup.robot.joint_names, n, self._problem or NOT_BEGUN)

    def _one_by_one(self, numbers: IntArray, n_left: int) -> Solutions:
        """Answer poses by the strategies, one at a time. `n_left` counts these poses and all later poses."""
        asked = self._asked

        def answered(place: int) -> Solutions | None:
            now = time.perf_counter()
            left = asked.deadline - now
            if left <= 0.0:
                return None
            share = left * min(1.0, self._n_threads / (n_left - place))
            number = int(numbers[place])
            return self._engine._one(asked.poses[number], asked.order, self._seed + number, now + share)

        answers: list[Solutions | None] = [None] * len(numbers)
        places = itertools.count()

        def work() -> None:
            paused = time.perf_counter()
            while (place := next(places)) < len(numbers):
                answers[place] = answered(place)
                if answers[place] is None:
                    break
                if time.perf_counter() - paused > PAUSE_EVERY:
                    time.sleep(PAUSE)
                    paused = time.perf_counter()

        n_threads = min(self._n_threads, len(numbers))
        if n_threads == 1:
            work()
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                for ended in [pool.submit(work) for _ in range(n_threads)]:
                    ended.result()
        begun = [each for each in answers if each is not None]
        if len(begun) == len(answers):
            return Solutions.concatenate(begun)
        found = Solutions.concatenate([*begun, self._not_begun(len(answers) - len(begun))])
        return found.poses(np.argsort(np.argsort([each is None for each in answers], kind="stable")))
