"""Short ways to the answers of plain requests, which have no model or further checks, and at most a reference.

A closed form, or the first round of a search, usually gives such an answer. A shortcut is prepared once and used for
many poses. If it gives no answer, the strategies search for one with the same random numbers.
"""

from __future__ import annotations

import math
import time
from typing import Protocol

import numpy as np

from eim_ros.core.arrays import FloatArray
from eim_ros.core.deadlines import NEVER
from eim_ros.core.parallel import seed_fraction
from eim_ros.ik.batch import BatchTask, Outcome, RootsBatch, Solver, problem_of
from eim_ros.ik.candidates import Candidates
from eim_ros.ik.order import AS_FOUND
from eim_ros.ik.problem import Aim, Covering, Found, Spread, outcome
from eim_ros.ik.revolutions import in_revolution_of
from eim_ros.ik.solutions import Solutions
from eim_ros.ik.strategies import STRATEGIES
from eim_ros.ik.strategies.closed_form import chosen_rows, taken
from eim_ros.ik.strategies.restarts import Search
from eim_ros.kinematics import Robot
from eim_ros.solver import NO_EXPERT

MOST_OF_FIRST_ROUND = 4  # number of solutions that the first round of a search finds in more than half of all cases
UNKNOWN, UNKNOWN_ERRORS = np.full(1, np.nan), np.full((1, 2), np.nan)


class Shortcut(Protocol):
    """A short way to the answers of a request."""

    def answer(self, pose: FloatArray, near: FloatArray | None, seed: int | None, deadline: float) -> Solutions | None:
        """Answer one pose (4, 4); return None if that needs a strategy.

        With a configuration `near` (dof,), the answer is the nearest solution, so the request must be for one solution.
        The deadline is a time of `perf_counter` [s].
        """
        ...


def shortcut_of(sampler: Solver, aim: Aim) -> Shortcut | None:
    """Return the shortcut for a request, or None."""
    if sampler.n_experts or sampler._setup.is_checked or not isinstance(aim, Spread | Covering):
        return None
    if len(sampler.robot.unlimited_slides):  # the limits depend on the pose, see `Setup.reaching`
        return None
    task = BatchTask(aim, AS_FOUND, None, NEVER)
    roots = RootsBatch(sampler, task)
    if roots.is_equivalent:
        return ByRoots(roots)
    is_few = isinstance(aim, Spread) and aim.n <= MOST_OF_FIRST_ROUND and not aim.diversity
    if is_few and not any(strategy.applies(roots.problem) for strategy in STRATEGIES[:-1]):
        return ByFirstRound(sampler, task)
    return None


class ByRoots:
    """Answers from the roots of a closed form."""

    def __init__(self, roots: RootsBatch) -> None:
        self.roots, self.n, self._plain = roots, roots.problem.n, _PlainAnswers(roots.robot)
        wraps = roots.problem.bounds[2] > 0.0
        self._wraps = wraps if wraps.any() else None

    def answer(self, pose: FloatArray, near: FloatArray | None, seed: int | None, deadline: float) -> Solutions | None:
        """Answer one pose; see `Shortcut`."""
        began, roots, n = time.perf_counter(), self.roots, self.n
        choice = seed_fraction(seed) if n == 1 and near is None else -1.0
        q, errors, table = roots.solutions(pose[None], deadline, 1, choice, near)
        line = tuple(table[0].tolist())
        found = roots.outcome(line)
        if found is None:
            return None
        if len(q) > n:
            rows = chosen_rows(roots.problem, int(line[1]), n, seed) if near is None else slice(n)
            q, errors = taken(q, errors, rows)
        if near is not None and self._wraps is not None:
            q = in_revolution_of(near, q, self._wraps)
        n_total = UNKNOWN if math.isinf(line[2]) else table[:, 2]
        return self._plain.answer(q, errors, found, began, n_total)


class ByFirstRound:
    """Answers of the first round of a search from uniform seeds."""

    def __init__(self, sampler: Solver, task: BatchTask) -> None:
        self.problem = problem_of(sampler, task)
        self._search, self._plain = Search(self.problem, 0.0), _PlainAnswers(sampler.robot)
        n, dof = self.problem.n, sampler.robot.dof  # the outcome is the same for all poses
        candidates = Candidates.solutions(np.empty((n, dof)), np.empty((2, n)))
        self._outcome = *outcome(self.problem, Found(candidates), candidates, False), None

    def answer(self, pose: FloatArray, near: FloatArray | None, seed: int | None, deadline: float) -> Solutions | None:
        """Answer one pose; see `Shortcut`."""
        if near is not None:
            return None
        began, problem = time.perf_counter(), self.problem
        task = problem.setup.task(pose, problem.position_only)
        found = self._search.first_round(task, seed_fraction(seed))
        if len(found) < problem.n:
            return None
        q, errors, _ = found.rows
        if len(q) > problem.n:
            q, errors = q[: problem.n], errors[:, : problem.n]
        return self._plain.answer(q, errors, self._outcome, began, UNKNOWN)


class _PlainAnswers:
    """Answers without best attempts, densities and effective sample sizes."""

    def __init__(self, robot: Robot) -> None:
        self._robot, self._no_attempt = robot, np.full((1, robot.dof), np.nan)

    def answer(self, q: FloatArray, errors: FloatArray, found: Outcome, began: float, n_total: FloatArray) -> Solutions:
        """Return the answer of verified solutions (n, dof); `began` is a time of `perf_counter` [s]."""
        code, message, report = found
        n = len(q)
        valid, expert = np.empty(n, np.bool_), np.empty(n, np.uint32)
        valid.fill(True)  # takes less time than np.full
        expert.fill(NO_EXPERT)
        return Solutions(
            self._robot.joint_names,
            q,
            errors[0],
            errors[1],
            valid,
            expert,
            np.array([n]),
            np.array([int(code)]),
            (message,),
            np.array([time.perf_counter() - began]),
            n_total,
            (report,),
            UNKNOWN,
            self._no_attempt,
            UNKNOWN_ERRORS,
            robot=self._robot,
        )
