"""Solutions of an arm with one redundant direction: its self-motions traced from end to end, answers spread over them.

Such an arm's solutions are curves. Few restarts find them, continuation follows each to its ends, limits cut them into
families, and the answer divides these evenly. Nothing is left to be filled up by further seeds.
"""

from __future__ import annotations

import functools
import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.core.deadlines import is_past
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik.candidates import Pool
from eim_ros.ik.completeness import Completeness, FoundFamilies
from eim_ros.ik.order import Posture, distance_to, distinct_rows
from eim_ros.ik.problem import Goal
from eim_ros.ik.request import MOST_SAMPLES, SampleRequest
from eim_ros.ik.strategies.restarts import DISTINCT_TOLERANCE, NEAR_AT_ONCE
from eim_ros.solver import NO_EXPERT, HeldForm, SelfMotions, approach

FloatArray = npt.NDArray[np.float64]

MORE = 4  # times as many are tried where too few are free of collisions
MOST_TRIES, LEAST_SHARE = 3, 0.9  # until what near-duplicates took away is made up for, if it is so little
MANY_PLACES, COARSELY = 4096, 512  # places, all over the families, that are looked at first where there are many
OVERSAMPLED = 8.0  # places for each solution that may differ from the others along a curve
MOST_CHECKED = 20_000  # configurations checked for collisions in place of those that collide
NO_BOUND = 1.0
NEARLY_A_TURN = 2.0 * math.pi - 0.01  # [rad]
MOST_NEAREST = 8  # families whose nearest solutions are told, where more than one is wanted
FINELY, CHECKED_AT_ONCE = 1000, 16  # solutions among which the nearest without collisions is looked for


def is_curve(goal: Goal) -> bool:
    """Whether the solutions of a goal are curves, as far as there are any."""
    return goal.redundancy == 1 and goal.constraints.tolerances is None


def certified_form(goal: Goal) -> HeldForm | None:
    """By which the families of a goal are known; None where the arm, or what is asked of it, has none."""
    if goal.position_only or not is_curve(goal) or joints_of_a_turn(goal):
        return None
    return goal.robot.held_form


def joints_of_a_turn(goal: Goal) -> list[str]:
    """Names of joints that may turn by a whole turn within their limits, and count apart before and after."""
    is_wide = (goal.bounds[1] - goal.bounds[0] >= NEARLY_A_TURN) & (goal.bounds[2] == 0.0)
    return [goal.robot.joint_names[joint] for joint in np.flatnonzero(is_wide)]


@dataclass(frozen=True, eq=False)
class TracedSolutions:
    """The curves of solutions of a goal.

    Attributes
    ----------
    goal : Goal
    motions : SelfMotions
    families : FoundFamilies
    in_time : bool
        Whether the search came to its end.
    """

    goal: Goal
    motions: SelfMotions
    families: FoundFamilies
    in_time: bool

    @classmethod
    def of(
        cls, goal: Goal, seed: float, until: Completeness | None, deadline: float, certified: bool | None = None
    ) -> TracedSolutions:
        """Search until a bound holds, or without one until hardly a family can be missing.

        The deadline is a time of `perf_counter` [s]. Certified: by closed form, without a search unless it leaves
        something open; by default where a bound was wanted, but the arm is too close to singular to trace all.
        """
        wanted = until or Completeness()
        chain = goal.robot.chain
        motions = SelfMotions(chain, goal.task, seed)
        form = certified_form(goal)
        is_certified = in_time = bool(certified) and form is not None and motions.certify(chain, form)
        if not is_certified:
            share = NO_BOUND if until is None else wanted.missed_share
            in_time = motions.search(chain, goal.effort(), wanted.confidence, share, deadline)
            if certified is None and until is not None and form is not None and not motions.families[:, 2].all():
                is_certified = motions.certify(chain, form)
                in_time = in_time or is_certified
        lengths, closed, traced = motions.families.T
        missed = motions.missed_share(wanted.confidence)
        found = FoundFamilies.of(lengths, closed > 0.0, traced > 0.0, missed, wanted, is_certified)
        return cls(goal, motions, found, in_time)

    @property
    def is_traced(self) -> bool:
        """Whether there are families, and all are known from end to end."""
        return bool(len(self.families.traced) and self.families.traced.all())

    def even(self, wanted: SampleRequest, deadline: float) -> tuple[Pool, bool]:
        """n solutions spread evenly over all families, or as many as the separation takes, in random order.

        Also whether there was time for all of them.

        Raises
        ------
        ConfigurationError
            If the separation takes more than a million.
        """
        distinct = bool(wanted.distinct)
        if wanted.separation is not None:
            n_parts = float(np.ceil(self.families.lengths / wanted.separation).sum())
            if n_parts > wanted.n:
                raise ConfigurationError(
                    f"max_spacing {wanted.separation} takes about {n_parts:.0f} configurations, at most {wanted.n} "
                    "are returned: ask for a wider one",
                    wanted.separation,
                )
            pool, in_time = self._divided(wanted.n, distinct, deadline, wanted.separation)
            return self._allowed(pool), in_time and not self.goal.n_unchecked
        n, most = wanted.n, min(max(wanted.n, MOST_CHECKED), self._most_distinct(distinct))
        pool, in_time = self._divided(n, distinct, deadline)
        pool, n_tries = self._allowed(pool), 1
        while 0 < len(pool) < wanted.n and n < most and in_time and time.perf_counter() < deadline:
            if not self.goal.is_checked and (n_tries == MOST_TRIES or len(pool) < LEAST_SHARE * wanted.n):
                break  # curves are too short for so many different ones
            n_tries += 1
            n = min(MORE * n if self.goal.is_checked else n + 2 * (wanted.n - len(pool)), most)
            more, in_time = self._divided(n, distinct, deadline)
            more = self._allowed(more)
            pool = more if in_time or len(more) > len(pool) else pool
        return pool.pick(slice(wanted.n)), len(pool) >= wanted.n or (in_time and not self.goal.n_unchecked)

    def scattered(self, n: int, deadline: float) -> tuple[FloatArray, float, bool]:
        """About n places at random on all families, as far as allowed, and the length that each stands for [rad, m].

        Also whether there was time for all of them: if not, those that there are do not represent the set.
        """
        length = float(self.families.lengths.sum())
        if length <= 0.0:
            return np.empty((0, self.goal.robot.dof)), 1.0, True
        rows, errors, in_time = self.motions.scattered(self.goal.robot.chain, length / n, deadline)
        pool = self._allowed(_valid(rows, errors))
        return pool.positions, length / n, in_time and not self.goal.n_unchecked

    def nearest(self, reference: FloatArray, n: int, distinct: bool, deadline: float) -> tuple[Pool, bool]:
        """The nearest solutions: one of each of the nearest families, and if more are wanted, those that divide all
        families evenly; without near-duplicates of those before, if they are to be distinct.

        Where each is checked for collisions, those that divide the families finely are, the nearest first, until there
        are n; a single one is then moved up to what stops it. Also whether there was time for that.
        """
        robot, checked = self.goal.robot, self.goal.is_checked
        most = 1 if n == 1 else MOST_NEAREST
        places = [self.motions.nearest(robot.chain, turned, most) for turned in _turned(self.goal, reference)]
        pool, away = _towards(self.goal, np.concatenate(places), reference)
        if n == 1 and not checked:
            return pool.pick(np.argsort(away)[:1]), True
        if len(places) > 1:  # either may have led to the same place
            pool = pool.pick(distinct_rows(robot, pool.positions, DISTINCT_TOLERANCE))
        more, in_time = self._divided(max(n, FINELY) if checked else n + len(pool), distinct, deadline)
        pool = pool.joined(more)
        if distinct:
            pool = pool.pick(distinct_rows(robot, pool.positions, DISTINCT_TOLERANCE))
        pool = pool.pick(np.argsort(distance_to(robot, pool.positions, reference), kind="stable"))
        if not checked:
            return pool, in_time
        kept: list[Pool] = []
        for first in range(0, len(pool), CHECKED_AT_ONCE):
            kept.append(self._allowed(pool.pick(slice(first, first + CHECKED_AT_ONCE))))
            if sum(map(len, kept)) >= n:
                break
            if is_past(deadline):
                in_time = False
                break
        found = functools.reduce(Pool.joined, kept, pool.pick(slice(0)))
        if n > 1:
            return found, in_time
        towards = Posture(dict(zip(robot.joint_names, reference.tolist(), strict=True)))
        return self.goal.descended(found.pick(slice(1)), towards, deadline)[0], in_time

    def _most_distinct(self, distinct: bool) -> int:
        """Places beyond which no more different solutions are found: along a curve these are a tolerance apart."""
        if not distinct:
            return MOST_SAMPLES
        lengths = self.families.lengths
        return min(MOST_SAMPLES, len(lengths) + int(OVERSAMPLED * float(lengths.sum()) / DISTINCT_TOLERANCE))

    def _divided(self, n: int, distinct: bool, deadline: float, separation: float | None = None) -> tuple[Pool, bool]:
        """Solutions that divide all families, and whether there was time for all."""
        robot, tolerance = self.goal.robot, DISTINCT_TOLERANCE if distinct else -1.0
        if separation is not None:  # successive ones, which may be half of it apart, are no near-duplicates
            tolerance = min(tolerance, separation / (3.0 * math.sqrt(robot.dof)))
        n = n if separation is not None else min(n, self._most_distinct(distinct))
        coarse = None
        if separation is not None or n > MANY_PLACES:  # so that what there is, if time is up, is from all families
            coarse = _valid(*self.motions.even(robot.chain, COARSELY, 0.0, tolerance, deadline)[:2])
        rows, errors, in_time = self.motions.even(robot.chain, n, separation or 0.0, tolerance, deadline)
        if coarse is not None and not in_time and len(coarse) > len(rows):
            return coarse, False
        return _valid(rows, errors), in_time

    def _allowed(self, pool: Pool) -> Pool:
        return pool.pick(np.flatnonzero(self.goal.allowed(pool.positions))) if self.goal.is_checked else pool


def nearby(goal: Goal, reference: FloatArray) -> Pool | None:
    """The solution next to a configuration, where it is so near that it is taken for the nearest one of all."""
    pool, distances = _towards(goal, reference[None], reference)
    if not len(pool) or distances[0] > NEAR_AT_ONCE:
        return None
    return None if goal.is_checked and not goal.allowed(pool.positions).all() else pool


def _turned(goal: Goal, reference: FloatArray) -> list[FloatArray]:
    """The same configuration for joints that do not wrap, as a continuous one with narrower limits does not.

    Such a joint is turned to where it is nearest to its range; where that holds of both ends, there is one of each.
    """
    configurations = [reference]
    for joint in np.flatnonzero(goal.robot.continuous & (goal.bounds[2] == 0.0)):
        ends = goal.bounds[:2, joint]
        turns = 2.0 * math.pi * np.round((ends - reference[joint]) / (2.0 * math.pi))
        steps = [np.where(np.arange(len(reference)) == joint, turn, 0.0) for turn in np.unique(turns)]
        configurations = [turned + step for turned in configurations for step in steps]
    return configurations


def _towards(goal: Goal, positions: FloatArray, reference: FloatArray) -> tuple[Pool, FloatArray]:
    """Configurations moved onto the pose, and along the self-motion to where a configuration is nearest.

    Those that reach the pose, not checked further, and their distances.
    """
    robot = goal.robot
    rows, errors, distances = approach(
        robot.chain, goal.task, goal.effort(), goal.turned(positions), reference, robot.continuous
    )
    return _valid(rows, errors), distances


def _valid(rows: FloatArray, errors: FloatArray) -> Pool:
    n = len(rows)
    return Pool(rows, errors[0], errors[1], np.ones(n, np.bool_), np.full(n, NO_EXPERT, np.uint32))
