"""The search for solutions of one pose: rounds of proposing, refining, continuation and verifying.

The nearest of solutions that cannot be traced, as they are surfaces or points without closed form.

Many are found, and of these the nearest are moved along the self-motion to where the distance is least. Where that is
depends on where one begins: of 40 random poses of each of five arms, 128 solutions and the 16 nearest of them led to
the least distance of all that 4000 led to, in .6 ms (64 and 8: in 37 of 40 of the worst arm). With tolerances per axis
the descents take 2 ms each; half as many lead to within .1 rad of the least distance.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.ik.candidates import Pool
from eim_ros.ik.order import Posture, distance_to, distinct_rows
from eim_ros.ik.prior import ConditionalMixture
from eim_ros.ik.problem import Goal
from eim_ros.solver import NO_EXPERT, Experts, Found, Round, Spread

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


NEAR_AT_ONCE = 0.2  # [rad, m]: a solution so near is taken for the nearest one without a look at the others
N_FOUND, N_MOVED, N_MOVED_WITHIN_TOLERANCES = 128, 16, 8
FRUITLESS_NEAR_SEEDS = 512  # tried without any new solution, where there are few


def nearest_found(goal: Goal, search: Search, near: FloatArray, n: int, deadline: float) -> tuple[Pool, bool]:
    """Solutions, the nearest of all among them, or the best attempt, and whether time was up.

    Parameters
    ----------
    goal : Goal
    search : Search
        Has `near` as its first seed.
    near : (dof,)
        Configuration to which solutions should be near [rad or m].
    n : int
        Number of solutions that are wanted at least.
    deadline : float
        A time of `perf_counter` [s].
    """
    posture = Posture(dict(zip(goal.robot.joint_names, near.tolist(), strict=True)))
    if n == 1:
        first = goal.refined(near[None], np.full(1, NO_EXPERT, np.uint32))
        if first.valid[0]:
            moved, _ = goal.descended(first, posture, deadline)
            if distance_to(goal.robot, moved.positions, near)[0] <= NEAR_AT_ONCE:
                return moved, False
    search.patience = min(search.patience, FRUITLESS_NEAR_SEEDS)
    pool, out_of_time = search.run(max(n, N_FOUND), deadline)
    if not pool.valid.any():
        return pool, out_of_time
    order = np.argsort(distance_to(goal.robot, pool.positions, near), kind="stable")
    n_moved = N_MOVED if goal.constraints.tolerances is None else N_MOVED_WITHIN_TOLERANCES
    moved, _ = goal.descended(pool.pick(order[:n_moved]), posture, deadline)
    everything = moved.joined(pool.pick(order))
    everything = everything.pick(np.argsort(distance_to(goal.robot, everything.positions, near), kind="stable"))
    if search.distinct:
        everything = everything.pick(distinct_rows(goal.robot, everything.positions, DISTINCT_TOLERANCE))
    return everything, out_of_time and len(everything) < n
