"""The search for solutions of one pose: rounds of proposing, refining and walking, in the end verified."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.ik.goal import PATIENCE, Goal, Pool
from eim_ros.ik.proposal import ConditionalMixture
from eim_ros.ik.samples import NO_EXPERT
from eim_ros.ik.search_kernels import search_round
from eim_ros.kinematics.curves import empty_blocks
from eim_ros.kinematics.robot import redundancy

__all__ = ["DISTINCT_TOLERANCE", "Search"]

FloatArray = npt.NDArray[np.float64]
ExpertArray = npt.NDArray[np.uint32]

DISTINCT_TOLERANCE = 0.01  # [rad or m]: configurations closer than this in every joint are near-duplicates
STEP = 0.4  # [rad, m] of walks
SHORTEST_STEP = 1.7 * DISTINCT_TOLERANCE  # per joint: solutions on a curve are 0.6 of it apart, and so distinct
FRUITLESS_SEEDS = 3000  # seeds tried without any new solution before the search ends
WALKED_SEEDS = 1000  # the same, after walks along all that was found
OUT_OF_REACH_SEEDS = 256  # the same, where the pose is farther away than the arm is long
FIRST_YIELD, LEAST_YIELD = 0.8, 0.1  # new configurations per seed, from which the size of a round follows
HELPLESS = 0.2  # yield below which the model is taken to be of little help
SPARE_SEEDS = 4
EXPLORING_UNIFORM = 0.4  # share of uniform seeds at explore = 1
FEWEST_ROOTS = 24  # solutions from seeds before walks begin, or half of those wanted
MOST_WALKED = 1000  # configurations found by walks, which are not interrupted either; their cost grows as the square
UNHURRIED = 100  # the refiner's patience with the best attempt
MOST_SEEDS_PER_ROUND = 256  # a round is not interrupted, so its length bounds how late a timeout is noticed


@dataclass
class Search:
    """Finds configurations that satisfy a goal.

    A round takes seeds from the mixture, refines them and keeps what is valid. Where little of a round is new, half of
    the next seeds are uniform, so that no pose is lost that uniform restarts would solve.

    With `explore` > 0 about that share of the configurations comes from walks along the self-motion that begin at what
    was found first. Seeds are then stratified over the experts, their weights levelled to weight^(1 - explore / 2), and
    some seeds are uniform in any case, that no family of solutions is missed.

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
        """Up to n valid configurations, or the best attempt, and whether time was up: a time of `perf_counter` [s].

        There may be more than n.
        """
        goal, dof = self.goal, self.goal.robot.dof
        positions, experts = np.empty((0, dof)), np.empty(0, dtype=np.uint32)
        best = np.full(dof + 1, math.inf)
        patience = FRUITLESS_SEEDS if goal.is_within_reach else OUT_OF_REACH_SEEDS
        n_roots = max(n - int(self.explore * n), min((n + 1) // 2, FEWEST_ROOTS)) if self.explore else n
        least_uniform = EXPLORING_UNIFORM * self.explore
        yields, uniform_share, fruitless, n_rounds = FIRST_YIELD, least_uniform, 0, 0
        n_free = redundancy(goal.bounds, goal.position_only)
        is_to_walk = n_roots < n and n_free > 0 and goal.constraints.tolerances is None
        while len(positions) < n and fruitless < patience:
            if time.perf_counter() >= deadline and n_rounds:
                return self._outcome(positions, experts, best), True
            n_missing = (n_roots if is_to_walk else n) - len(positions)
            n_seeds = min(max(int(n_missing / yields) + SPARE_SEEDS, 2 * fruitless), MOST_SEEDS_PER_ROUND)
            fewest_roots = 1 if n_rounds else (n_roots + 1) // 2
            near = self.near[None] if self.near is not None and not n_rounds else np.empty((0, dof))
            n_before, n_uniform = len(positions), int(uniform_share * n_seeds)
            n_wanted = min(n, n_before + n_seeds + MOST_WALKED) if is_to_walk else 0
            positions, experts, n_seeded = self._round(
                positions, experts, near, n_uniform, n_seeds - n_uniform, fewest_roots, n_wanted, n_free, best
            )
            if is_to_walk and n_seeded >= fewest_roots:
                is_to_walk, patience = False, min(patience, WALKED_SEEDS)
            n_rounds += 1
            gained = n_seeded - n_before
            if goal.can_collide:
                free = np.concatenate([np.ones(n_before, dtype=np.bool_), goal.free(positions[n_before:])])
                positions, experts = positions[free], experts[free]
                gained = int(np.count_nonzero(free[:n_seeded])) - n_before
            fruitless = 0 if gained else fruitless + n_seeds
            yields = max(gained / n_seeds, LEAST_YIELD)
            uniform_share = 0.5 if yields < HELPLESS else least_uniform
        return self._outcome(positions, experts, best), False

    def _outcome(self, positions: FloatArray, experts: ExpertArray, best: FloatArray) -> Pool:
        """What was found, or else the best attempt, for which the refiner now takes its time; measured."""
        if not len(positions):
            return self.goal.refined(best[None, :-1], np.full(1, NO_EXPERT, dtype=np.uint32), UNHURRIED)
        return self.goal.measured(positions, experts).chosen()

    def _round(
        self,
        positions: FloatArray,
        experts: ExpertArray,
        near: FloatArray,
        n_uniform: int,
        n_drawn: int,
        fewest_roots: int,
        n_wanted: int,
        n_free: int,
        best: FloatArray,
    ) -> tuple[FloatArray, ExpertArray, int]:
        """What was found so far and by one round more, and how many of it not by walks, see `search_round`."""
        goal, robot, model, dof = self.goal, self.goal.robot, self.conditional.experts, self.goal.robot.dof
        n_known = len(positions)
        room = max(n_known + len(near) + n_uniform + n_drawn, n_wanted)
        rows, numbers = np.empty((room, dof)), np.empty(room, dtype=np.uint32)
        rows[:n_known], numbers[:n_known] = positions, experts
        uniform = self.rng.random(n_drawn + n_uniform * dof + 1)
        n_rows, n_seeded = search_round(
            robot.links, goal.bounds, robot.bounds[2], goal.pose, goal.position_only and not len(goal.task), goal.task,
            float(goal.position_tolerance), float(goal.orientation_tolerance), PATIENCE, self.conditional.log_weights,
            1.0 - 0.5 * self.explore, self.conditional.contexts, model.weights, model.biases, model.scale_trils,
            model.n_reported, self.explore > 0.0, uniform[:n_drawn], self.rng.standard_normal((n_drawn, dof)),
            uniform[n_drawn:-1].reshape(n_uniform, dof), near, DISTINCT_TOLERANCE if self.distinct else -1.0, rows,
            numbers, n_known, fewest_roots, n_wanted, n_free, STEP, SHORTEST_STEP * math.sqrt(dof), uniform[-1],
            empty_blocks(n_wanted, dof), best,
        )  # fmt: skip
        return rows[:n_rows], numbers[:n_rows], n_seeded
