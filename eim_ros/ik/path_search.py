"""Which solution of each pose makes a path of little motion: candidates, and dynamic programming among them.

Each pose has candidates: samples of its own, and the candidates of its neighbours moved onto it, which follow a motion
that is possible. Dynamic programming picks one for each pose, such that the sum over the steps of |dq|^2, plus PENALTY
for each step in which a joint moves farther than allowed, is least.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.ik.goal import Goal
from eim_ros.ik.sampler import Sampler

__all__ = ["PathSearch"]

FloatArray = npt.NDArray[np.float64]

PENALTY = 1e4  # [rad^2]: of a jump; more than any sum of allowed steps
FOLLOWED = 0.5  # share of the followed candidates that are the best ones so far; the others are drawn, to stay diverse


@dataclass(frozen=True, eq=False)
class PathSearch:
    """Candidates of the poses of one path, and the best choice of them.

    Attributes
    ----------
    sampler : Sampler
    goals : list of Goal
        One for each pose.
    largest_step : float
        Most that a joint should move from one pose to the next [rad] or [m].
    rng : numpy.random.Generator
        Advanced in place.
    n : int
        Samples for each pose.
    deadline : float
        On the clock of `time.perf_counter` [s].
    """

    sampler: Sampler
    goals: list[Goal]
    largest_step: float
    rng: np.random.Generator
    n: int
    deadline: float

    @property
    def out_of_time(self) -> bool:
        return time.perf_counter() >= self.deadline

    def sample(self, own: list[FloatArray], indices: Iterable[int]) -> None:
        """Fill in samples of these poses, while there is time."""
        for index in indices:
            if self.out_of_time:
                return
            goal = self.goals[index]
            samples = self.sampler.sample(
                goal.pose,
                self.n,
                int(self.rng.integers(2**31)),
                order="none",
                position_only=goal.position_only,
                position_tolerance=goal.position_tolerance,
                orientation_tolerance=goal.orientation_tolerance,
                timeout=max(0.0, self.deadline - time.perf_counter()),
                constraints=goal.constraints,
            )
            own[index] = samples.positions[samples.valid]

    def followed(self, own: list[FloatArray], origin: FloatArray | None, reverse: bool = False) -> list[FloatArray]:
        """Candidates of each pose: its own, and those of the pose before moved onto it."""
        goals = self.goals[::-1] if reverse else self.goals
        result: list[FloatArray] = []
        costs: FloatArray = np.empty(0)
        for goal, fresh in zip(goals, own, strict=True):
            before = result[-1] if result else (fresh[:0] if origin is None else origin[None])
            seeds = before[self._worth_following(costs if result else np.zeros(len(before)))]
            moved = goal.refined(seeds, np.zeros(len(seeds), dtype=np.uint32))
            candidates = np.concatenate([moved.positions[moved.valid], fresh])
            if len(before) and len(candidates):
                steps = self._transitions(before, candidates)
                costs = (steps + (costs[:, None] if result else 0.0)).min(axis=0)
            else:
                costs = np.zeros(len(candidates))
            result.append(candidates)
        return result

    def best(self, candidates: list[FloatArray], origin: FloatArray | None) -> list[FloatArray | None]:
        """One candidate for each pose that has any."""
        costs: FloatArray | None = None
        before: FloatArray | None = None if origin is None else origin[None]
        back: list[npt.NDArray[np.int64]] = []
        solved = [index for index, rows in enumerate(candidates) if len(rows)]
        for index in solved:
            rows = candidates[index]
            if before is None:
                costs, previous = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64)
            else:
                total = self._transitions(before, rows)
                total = total if costs is None else total + costs[:, None]
                previous = total.argmin(axis=0)
                costs = np.take_along_axis(total, previous[None], axis=0)[0]
            back.append(previous)
            before = rows
        chosen: list[FloatArray | None] = [None] * len(candidates)
        at = 0 if costs is None else int(costs.argmin())
        for index, previous in zip(reversed(solved), reversed(back), strict=True):
            chosen[index] = candidates[index][at]
            at = int(previous[at])
        return chosen

    def has_gaps_or_jumps(self, chosen: list[FloatArray | None], origin: FloatArray | None) -> bool:
        return any(row is None for row in chosen) or bool((self.steps(chosen, origin) > self.largest_step).any())

    def steps(self, chosen: list[FloatArray | None], origin: FloatArray | None) -> FloatArray:
        """Largest motion of a joint in each step, gaps left out."""
        rows = ([] if origin is None else [origin]) + [row for row in chosen if row is not None]
        if len(rows) < 2:
            return np.empty(0)
        return np.asarray(np.abs(self._differences(np.array(rows[:-1]), np.array(rows[1:]))).max(axis=1))

    def _worth_following(self, costs: FloatArray) -> npt.NDArray[np.int64]:
        """The best ones, and some of the others; once time is up the best one alone."""
        if self.out_of_time:
            return np.argsort(costs, kind="stable")[:1]
        if len(costs) <= self.n:
            return np.arange(len(costs))
        order = np.argsort(costs, kind="stable")
        n_best = int(FOLLOWED * self.n)
        return np.concatenate([order[:n_best], self.rng.choice(order[n_best:], self.n - n_best, replace=False)])

    def _transitions(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """Cost (n, m) of each step."""
        difference = self._differences(before[:, None], after[None])
        jumps = np.abs(difference).max(axis=-1) > self.largest_step
        return np.asarray(np.einsum("nmj,nmj->nm", difference, difference) + PENALTY * jumps)

    def _differences(self, before: FloatArray, after: FloatArray) -> FloatArray:
        difference = after - before
        continuous = self.sampler.robot.continuous
        if continuous.any():
            wrapped = (difference + np.pi) % (2.0 * np.pi) - np.pi
            difference = np.where(continuous, wrapped, difference)
        return np.asarray(difference)
