"""The search for solutions of one pose: rounds of proposing, refining, continuation and verifying."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.ik.goal import Goal
from eim_ros.ik.pool import Pool
from eim_ros.ik.proposal import ConditionalMixture
from eim_ros.ik.samples import NO_EXPERT
from eim_ros.solver import Experts, Found, Round, Spread

__all__ = ["DISTINCT_TOLERANCE", "OUT_OF_REACH_SEEDS", "Search"]

FloatArray = npt.NDArray[np.float64]

DISTINCT_TOLERANCE = 0.01  # [rad or m]: configurations closer than this in every joint are near-duplicates
FINEST = 0.001  # the same, of what continuation adds where near-duplicates are not dropped
STEP = 0.45  # [rad, m] of continuation
FRUITLESS_SEEDS = 3000  # seeds tried without any new solution before the search ends
CONTINUED_SEEDS = 1000  # the same, after continuation; where solutions have to differ, without any far from all others
OUT_OF_REACH_SEEDS = 256  # the same, where the pose is farther away than the arm is long
FIRST_YIELD, LEAST_YIELD = 0.8, 0.1  # new configurations per seed, from which the size of a round follows
HELPLESS = 0.2  # yield below which the model is taken to be of little help
SPARE_SEEDS = 4
EXPLORING_UNIFORM = 0.25  # share of uniform seeds at explore = 1
FEWEST_ROOTS = 40  # solutions from seeds before continuation begins, or half of those wanted
MANY = 200  # solutions beyond which half as many come from continuation: more seeds find more families
MOST_CONTINUED = 1000  # configurations found by continuation in a round; its cost grows as their square
ANOTHER_SEED = 0.5 * (math.sqrt(5.0) - 1.0)  # added modulo 1 for each round
UNHURRIED = 100  # the refiner's patience with the best attempt
MOST_SEEDS_PER_ROUND = 256  # a round is not interrupted, so its length bounds how late a timeout is noticed


@dataclass
class Search:
    """Finds configurations that satisfy a goal.

    A round takes seeds from the mixture, refines them and keeps what is valid. Where little of a round is new, half of
    the next seeds are uniform, so that no pose is lost that uniform restarts would solve.

    With `explore` > 0 seeds are stratified over the experts, their weights tempered to weight^(1 - explore / 2), and
    some seeds are uniform in any case, that no family of solutions is missed. Where solutions are curves about that
    share of the configurations (half of it of those beyond the first MANY) comes from continuation along them, which
    begins at what was found first. On surfaces and beyond, a restart costs less than continuation does.

    Attributes
    ----------
    goal : Goal
    conditional : ConditionalMixture
    seed : float
        From 0 to below 1.
    distinct : bool
        Whether near-duplicates are dropped.
    apart : float
        [rad or m]: configurations closer than this in every joint are such.
    near : (dof,) array, optional
        First seed.
    explore : float
        From 0, samples of the model, to 1.
    patience : int
        Seeds tried without any new solution before the search ends.
    """

    goal: Goal
    conditional: ConditionalMixture
    seed: float
    distinct: bool = False
    apart: float = DISTINCT_TOLERANCE
    near: FloatArray | None = None
    explore: float = 0.0
    patience: int = FRUITLESS_SEEDS

    def run(self, n: int, deadline: float) -> tuple[Pool, bool]:
        """Up to n valid configurations, or the best attempt, and whether time was up: a time of `perf_counter` [s].

        There may be more than n.
        """
        goal, dof = self.goal, self.goal.robot.dof
        found, plan = Found(dof), self._plan(deadline)
        patience = self.patience if goal.is_within_reach else OUT_OF_REACH_SEEDS
        n_continued = int(self.explore * (min(n, MANY) + 0.5 * max(n - MANY, 0)))
        n_roots = max(n - n_continued, min((n + 1) // 2, FEWEST_ROOTS)) if self.explore else n
        least_uniform = EXPLORING_UNIFORM * self.explore if len(self.conditional.log_weights) else 1.0
        yields, uniform_share, fruitless, n_rounds = FIRST_YIELD, least_uniform, 0, 0
        can_continue = n_roots < n and goal.constraints.tolerances is None and goal.redundancy == 1
        nothing = np.empty((0, dof))
        while len(found) < n and fruitless < patience:
            if n_rounds and time.perf_counter() >= deadline:
                return self._outcome(found), True
            n_before = len(found)
            n_missing = (n_roots if can_continue and not plan.has_continued else n) - n_before
            n_seeds = min(max(int(n_missing / yields) + SPARE_SEEDS, 2 * fruitless), MOST_SEEDS_PER_ROUND)
            plan.n_uniform = int(uniform_share * n_seeds)
            plan.n_drawn = n_seeds - plan.n_uniform
            plan.fewest_roots = 1 if n_rounds else (n_roots + 1) // 2
            plan.n_wanted = min(n, n_before + n_seeds + MOST_CONTINUED) if can_continue else 0
            near = nothing if self.near is None or n_rounds else self.near[None]
            goal.robot.chain.search_round(goal.task, plan, self._conditional, near, goal.robot.continuous, found)
            n_rounds += 1
            plan.seed = (plan.seed + ANOTHER_SEED) % 1.0
            n_seeded = found.n_seeded
            gained = n_new = n_seeded - n_before
            if goal.is_checked:
                kept = np.concatenate([np.ones(n_before, dtype=np.bool_), goal.allowed(found.rows[0][n_before:])])
                found.keep(kept)
                gained = int(np.count_nonzero(kept[:n_seeded])) - n_before
            elif plan.has_continued and self.distinct:  # what lies between known solutions tells nothing of others
                gained = found.n_remote
            if can_continue and n_seeded >= plan.fewest_roots:
                plan.has_continued, patience = True, min(patience, CONTINUED_SEEDS)
                can_continue = not goal.is_checked and len(found) < MOST_CONTINUED
            fruitless = 0 if gained else fruitless + n_seeds
            yields = max(n_new / n_seeds, LEAST_YIELD)
            uniform_share = max(least_uniform, 0.5 if yields < HELPLESS else 0.0)
        return self._outcome(found), False

    @property
    def _conditional(self) -> tuple[Experts, FloatArray, FloatArray]:
        return self.conditional.experts, self.conditional.log_weights, self.conditional.contexts

    def _plan(self, deadline: float) -> Round:
        """What all rounds have in common."""
        plan = Round()
        plan.tempering, plan.stratified = 1.0 - 0.5 * self.explore, self.explore > 0.0
        plan.distinct_tolerance = self.apart if self.distinct else -1.0
        plan.has_continued = False
        plan.spread = Spread(STEP, DISTINCT_TOLERANCE if self.distinct else FINEST, self.goal.redundancy, deadline)
        plan.effort, plan.seed = self.goal.effort(), self.seed
        return plan

    def _outcome(self, found: Found) -> Pool:
        """What was found, or else the best attempt, for which the refiner now takes its time."""
        if not len(found):
            return self.goal.refined(found.best, np.full(1, NO_EXPERT, np.uint32), UNHURRIED)
        positions, errors, experts = found.rows
        return Pool(positions, errors[0], errors[1], np.ones(len(found), dtype=np.bool_), experts)
