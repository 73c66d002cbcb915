"""The search for solutions of one pose: rounds of proposing, refining, walking and verifying."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.ik.goal import Goal, Pool
from eim_ros.ik.proposal import ConditionalMixture
from eim_ros.ik.proposal_kernels import spread_out
from eim_ros.ik.samples import NO_EXPERT
from eim_ros.ik.selection import distinct_rows

__all__ = ["DISTINCT_TOLERANCE", "Search"]

FloatArray = npt.NDArray[np.float64]
ExpertArray = npt.NDArray[np.uint32]

DISTINCT_TOLERANCE = 0.01  # [rad or m]: configurations closer than this in every joint are near-duplicates
FRUITLESS_SEEDS = 3000  # seeds tried without any new solution before the search ends
OUT_OF_REACH_SEEDS = 256  # the same, where the pose is farther away than the arm is long
FIRST_YIELD, LEAST_YIELD = 0.8, 0.1  # new configurations per seed, from which the size of a round follows
HELPLESS = 0.2  # yield below which the model is taken to be of little help
SPARE_SEEDS = 4
OVERDRAW = 2  # seeds drawn for each that is refined when exploring
EXPLORING_UNIFORM = 0.4  # share of uniform seeds at explore = 1
APART = 0.11  # distance of such seeds, as a share of the diagonal of the box of joint limits
MOST_WALKED = 1000  # configurations found by walks, which are not interrupted either; their cost grows as the square
UNHURRIED = 100  # the refiner's patience with the best attempt
MOST_SEEDS_PER_ROUND = 256  # a round is not interrupted, so its length bounds how late a timeout is noticed


@dataclass
class Search:
    """Finds configurations that satisfy a goal.

    A round takes seeds from the mixture, refines them and keeps what is valid. Where little of a round is new, half of
    the next seeds are uniform, so that no pose is lost that uniform restarts would solve.

    With `explore` > 0 experts are drawn with weights in proportion to weight^(1 - explore / 2), seeds are the most
    different ones of more, some of them uniform in any case, and up to that share of the configurations come from walks
    along the self-motion, which end where hardly more of it is to be discovered.

    Attributes
    ----------
    goal : Goal
    conditional : ConditionalMixture
    rng : numpy Generator
    distinct : bool
        Whether near-duplicates are dropped.
    near : (dof,) array, optional
        First seed.
    explore : float
        From 0, samples of the model, to 1.
    """

    goal: Goal
    conditional: ConditionalMixture
    rng: np.random.Generator
    distinct: bool = False
    near: FloatArray | None = None
    explore: float = 0.0

    def run(self, n: int, deadline: float) -> tuple[Pool, bool]:
        """Up to n valid configurations, or the best attempt, and whether time was up: a time of `perf_counter` [s]."""
        pool = best = Pool.empty(self.goal.robot.dof)
        patience = FRUITLESS_SEEDS if self.goal.is_within_reach else OUT_OF_REACH_SEEDS
        to_walk = min(int(self.explore * n), MOST_WALKED)
        least_uniform = EXPLORING_UNIFORM * self.explore
        n_missing, yields, uniform_share, fruitless, is_first = n - to_walk, FIRST_YIELD, least_uniform, 0, True
        while len(pool) < n and fruitless < patience:
            if time.perf_counter() >= deadline and not is_first:
                return self._outcome(pool, best), True
            round_size = min(max(int(n_missing / yields) + SPARE_SEEDS, 2 * fruitless), MOST_SEEDS_PER_ROUND)
            refined = self.goal.refined(*self._seeds(round_size, uniform_share, is_first))
            n_before = len(pool)
            pool = self._merged(pool, refined.chosen())
            gained = len(pool) - n_before
            if not len(pool):
                best = best.joined(refined).best()
            elif to_walk and len(pool) < n:
                pool = self._merged(pool, self.goal.walked(pool, min(to_walk, n - len(pool)), self.rng).chosen())
                to_walk = 0
            fruitless = 0 if gained else fruitless + round_size
            yields = max(gained / round_size, LEAST_YIELD)
            uniform_share = 0.5 if yields < HELPLESS else least_uniform
            n_missing, is_first = n - len(pool), False
        return self._outcome(pool, best), False

    def _outcome(self, pool: Pool, best: Pool) -> Pool:
        """What was found, or else the best attempt, for which the refiner now takes its time."""
        return pool if len(pool) else self.goal.refined(best.positions, best.expert, UNHURRIED)

    def _seeds(self, n: int, uniform_share: float, first: bool) -> tuple[FloatArray, ExpertArray]:
        """Seeds (n, dof) and their experts; the first ones begin with the configuration to be near."""
        n_uniform = int(uniform_share * n)
        seeds, expert = self._drawn(n - n_uniform)
        others = [self.near[None]] if first and self.near is not None else []
        if n_uniform:
            others.append(self.goal.uniform(n_uniform, self.rng))
        if not others:
            return seeds, expert
        n_others = sum(map(len, others))
        return np.concatenate([*others, seeds]), np.append(np.full(n_others, NO_EXPERT, dtype=np.uint32), expert)

    def _drawn(self, n: int) -> tuple[FloatArray, ExpertArray]:
        """Samples (n, dof) of the mixture and their experts; for exploring the most different ones of more."""
        if not self.explore:
            return self.conditional.sample(n, self.rng)
        seeds, expert = self.conditional.sample(OVERDRAW * n, self.rng, 1.0 - 0.5 * self.explore)
        chosen = spread_out(self.goal.robot.bounds, seeds, APART * self.goal.robot.extent, n)
        return seeds[chosen], expert[chosen]

    def _merged(self, pool: Pool, fresh: Pool) -> Pool:
        merged = pool.joined(fresh)
        if not self.distinct or not len(fresh):
            return merged
        return merged.pick(distinct_rows(self.goal.robot, merged.positions, DISTINCT_TOLERANCE))
