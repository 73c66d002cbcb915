"""Restarts: rounds of model or uniform seeds, solved numerically, continued along curves, and verified.

Restarts also find the nearest solution if solutions form surfaces, or are points without a closed form. The nearest of
many solutions are moved along the null space to a local minimum of the distance. The result depends on the start. In a
test with 40 random poses of each of five arms, 128 solutions and the 16 nearest of them gave the same distance as 4000
solutions, in 0.6 ms. With 64 and 8 this was true for only 37 of 40 poses of the worst arm. With tolerances per axis
each optimisation takes 2 ms. Half as many then suffice for a result within 0.1 rad of the smallest distance.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from eim_ros.core.arrays import FloatArray
from eim_ros.core.deadlines import NEVER, is_past, with_grace
from eim_ros.core.parallel import seed_fraction
from eim_ros.ik.candidates import Candidates
from eim_ros.ik.completeness import grant_points
from eim_ros.ik.order import Posture, distance_to, distinct_in_time, distinct_rows, farthest_rows, is_within
from eim_ros.ik.problem import Found, Problem, Proposals, Spread
from eim_ros.solver import NO_EXPERT, ContinuationOptions, Experts, SearchRound, Task
from eim_ros.solver import Found as FoundRows

DISTINCT_TOLERANCE = 0.01  # [rad or m]; configurations closer than this in every joint are near-duplicates
FINEST = 0.001  # the same for continuation, if near-duplicates are not dropped
STEP = 0.45  # step length of continuation [rad, m]
MAX_SEEDS_WITHOUT_GAIN = 3000  # seeds without any new solution after which the search ends
CONTINUED_SEEDS = 1000  # the same after continuation, without a new solution far from all others
OUT_OF_REACH_SEEDS = 256  # the same if the pose is farther away than the arm is long
NEAR_SEEDS = 512  # the same in the search for the nearest solution
FIRST_YIELD, LEAST_YIELD = 0.8, 0.1  # first and smallest estimate of solutions per seed, for the size of a round
LOW_YIELD = 0.2  # number of new solutions per seed below which half of the seeds are uniform
SPARE_SEEDS = 4
MODEL_SEEDS = 1000  # samples of the model without any solution after which seeds are uniform
DIVERSE_UNIFORM = 0.25  # share of uniform seeds for diversity 1
FEWEST_ROOTS = 40  # number of solutions from seeds before continuation begins, or half of the requested number
CONTINUATION_CUTOFF = 200  # solutions beyond which half come from continuation; more seeds find more components
MOST_CONTINUED = 1000  # configurations from continuation in a round; its cost grows as their square
NEXT_SEED = 0.5 * (math.sqrt(5.0) - 1.0)  # added modulo 1 in each round
OTHER_SEED = math.sqrt(2.0) - 1.0  # added modulo 1 for another search; differs from all multiples of NEXT_SEED
FINAL_PATIENCE = 100  # number of iterations without progress before the solver gives up on the best attempt
MOST_SEEDS_PER_ROUND = 256  # a round is not interrupted, so this bounds how late a timeout is noticed
DEFAULT_DIVERSITY, FEWEST_TO_DIVERSIFY = 0.85, 16  # default without a preference, and smallest n to use it
OVERSAMPLING = {2: 4.0, 3: 8.0}  # solutions for each requested one at diversity 1, by dimension of the set
MOST_OVERSAMPLING = 24.0  # the same for more than three dimensions
MOST_SPREAD = 2000  # largest request with oversampling; the time for the choice grows as its square
POSE_DIMENSIONS = 6
SINGULAR, SINGULAR_SHARE = 1e-5, 0.05  # singular values below this count as 0; smallest share of singular solutions
MOST_MEASURED = 1000  # number of solutions whose singular values are computed
N_FOUND, N_MOVED, N_MOVED_WITHIN_TOLERANCES = 128, 16, 8
PROPOSED_AT_ONCE = 8192  # proposals between two checks of the deadline


class RawProposals:
    """Draw configurations from the model without solving them."""

    def applies(self, problem: Problem) -> bool:
        """Return whether proposals are requested."""
        return isinstance(problem.aim, Proposals)

    def solve(self, problem: Problem, known: Found | None) -> Found:
        """Draw and verify configurations in blocks, at least one block, until there are enough or time is up."""
        rng, parts, n = np.random.default_rng(problem.seed), list[Candidates](), problem.n
        for first in range(0, n, PROPOSED_AT_ONCE):
            if first and is_past(problem.deadline):
                break
            parts.append(problem.verified(*problem.conditional.sample(min(PROPOSED_AT_ONCE, n - first), rng)))
        found = Candidates.concatenate(parts)
        return Found(found, timed_out=len(found) < n)


class Restarts:
    """Search for solutions from seeds, and add them to the results of other strategies."""

    def applies(self, problem: Problem) -> bool:
        """Return True: restarts work for every arm and task."""
        return True

    def solve(self, problem: Problem, known: Found | None) -> Found:
        """Return the known solutions together with the results of the search. The result is final."""
        if not problem.is_within_reach:
            best, nothing = self._searched(problem, is_hopeless=True), grant_points(0, problem.until, is_exact=True)
            return best._replace(timed_out=False, n_total=0.0, report=nothing)
        if known is None:
            return self._searched(problem)
        if known.is_minor:
            return self._joined_to_curves(problem, known)
        searched = self._searched(problem, is_hopeless=known.is_exhausted)
        found, timed_out = searched.candidates, searched.timed_out
        if known.is_exhausted and not found.valid.any():
            report = known.report or grant_points(0, problem.until, False)
            return Found(found, n_total=0.0, report=report)
        if len(known.candidates):
            found = known.candidates.joined(_apart(problem, found.chosen(), known.candidates))
            found, is_compared = _distinct(problem, found)
            timed_out = timed_out or not is_compared
        return searched._replace(candidates=found, timed_out=timed_out, is_singular=known.is_singular)

    def searched_on(self, problem: Problem, known: Found) -> Found:
        """Search until the deadline for a first solution, with other random numbers than before."""
        found = self._searched(problem, until_deadline=True)
        n_restarts = known.n_restarts + found.n_restarts
        if found.candidates.n_valid:
            return found._replace(n_restarts=n_restarts)
        best = known.candidates.joined(found.candidates).best()
        return known._replace(candidates=best, timed_out=True, n_restarts=n_restarts)

    def _joined_to_curves(self, problem: Problem, known: Found) -> Found:
        """Return solutions of restarts, then solutions of curves that could not all be traced.

        There is no continuation, because it fails at singularities.
        """
        searched = self._searched(problem, known.is_exhausted, diversity=0.0)
        found, timed_out = searched.candidates, known.timed_out or searched.timed_out
        if len(known.candidates):
            found, is_compared = _distinct(
                problem, _apart(problem, found.chosen(), known.candidates).joined(known.candidates)
            )
            timed_out = timed_out or not is_compared
        assert known.report is not None
        report = replace(known.report, is_singular=_is_singular(problem, found.chosen()))
        return searched._replace(candidates=found, timed_out=timed_out, report=report)

    def _searched(
        self,
        problem: Problem,
        is_hopeless: bool = False,
        diversity: float | None = None,
        until_deadline: bool = False,
    ) -> Found:
        """Return the result of a search; if there can be no solution, it is the best attempt."""
        diversity = _diversity(problem) if diversity is None else diversity
        seed = seed_fraction(problem.seed)
        search = Search(problem, seed, near=problem.order.reference, diversity=diversity)
        if until_deadline:
            search.until_deadline, search.seed = True, (seed + OTHER_SEED) % 1.0
        found, timed_out = self._run(search, is_hopeless)
        return Found(found, timed_out=timed_out, n_restarts=search.n_restarts)

    def _run(self, search: Search, is_hopeless: bool) -> tuple[Candidates, bool]:
        """Return the result of a search, and whether time ended."""
        problem, diversity = search.problem, search.diversity
        n, near, order = problem.n, problem.near, problem.order
        if problem.max_spacing is not None:
            search.apart = problem.max_spacing
        if is_hopeless:
            search.patience = OUT_OF_REACH_SEEDS
        elif near is not None:
            return nearest_found(problem, search, near)
        is_surface = problem.redundancy > 1 or problem.tolerances is not None
        has_wish = order.reference is not None or order.posture is not None
        if not (diversity and is_surface and n <= MOST_SPREAD) or has_wish:
            return search.run(n)
        search.distinct = False  # oversampling needs no removal of near-duplicates
        more = OVERSAMPLING.get(problem.redundancy, MOST_OVERSAMPLING) * diversity
        found, is_late = search.run(int(n * (1.0 + more)))
        found = found.pick(farthest_rows(problem.robot, found.q, n, with_grace(problem.deadline)))
        found, is_compared = _distinct(problem, found)
        return found, (is_late and len(found) < n) or not is_compared


def _diversity(problem: Problem) -> float:
    """Return the requested diversity, or the default, which is higher for many solutions."""
    aim = problem.aim
    if isinstance(aim, Spread) and aim.diversity is not None:
        return aim.diversity
    return DEFAULT_DIVERSITY if problem.n >= FEWEST_TO_DIVERSIFY else 0.0


def _distinct(problem: Problem, found: Candidates) -> tuple[Candidates, bool]:
    """Return candidates without near-duplicates, and whether there was time to compare all."""
    rows, is_compared = distinct_in_time(problem.robot, found.q, DISTINCT_TOLERANCE, with_grace(problem.deadline))
    return found.pick(rows), is_compared


def _apart(problem: Problem, found: Candidates, known: Candidates) -> Candidates:
    """Return candidates that are farther than the requested spacing from all known ones."""
    if problem.max_spacing is None:
        return found
    return found.pick(np.flatnonzero(~is_within(problem.robot, found.q, known.q, problem.max_spacing)))


def _is_singular(problem: Problem, found: Candidates) -> bool:
    """Return whether solutions of a pose have more free directions than the arm has redundant joints.

    The answer is True only if this applies to a share of the solutions, because a curve may pass through single
    singular configurations.
    """
    q = found.q[:MOST_MEASURED]
    if problem.position_only or not len(q):
        return False
    jacobians = problem.robot.jacobian(q)[:, :, problem.bounds[0] < problem.bounds[1]]
    is_singular = np.linalg.svd(jacobians, compute_uv=False)[:, POSE_DIMENSIONS - 1] < SINGULAR
    return bool(is_singular.mean() > SINGULAR_SHARE)


@dataclass
class Search:
    """Find configurations that solve a problem, in rounds.

    A round takes seeds from the model, moves them onto the pose, and keeps the valid results. If few solutions of a
    round are new, half of the next seeds are uniform. Therefore the search solves every pose that uniform restarts
    would solve. If samples of the model are requested, no seed is uniform, unless the first `MODEL_SEEDS` samples lead
    to no solution at all.

    With `diversity` > 0 seeds are stratified over the experts, and weights are tempered to weight^(1 - diversity / 2).
    Some seeds are always uniform, so that no component is missed. If solutions are curves, `diversity` is also about
    the share of solutions from continuation, which begins at the solutions found first. Beyond the first
    `CONTINUATION_CUTOFF` solutions the share is half of that. On surfaces a restart costs less than continuation.

    Attributes
    ----------
    problem : Problem
    seed : float
        From 0 to below 1.
    distinct : bool
        Whether near-duplicates are dropped.
    apart : float
        Configurations closer than this in every joint are near-duplicates [rad or m].
    near : (dof,) array, optional
        First seed.
    diversity : float
        From 0 (samples of the model) to 1.
    patience : int
        Seeds without any new solution after which the search ends.
    until_deadline : bool
        Whether the search for the first solution continues until the deadline.
    n_restarts : int
        Number of seeds tried so far.
    """

    problem: Problem
    seed: float
    distinct: bool = True
    apart: float = DISTINCT_TOLERANCE
    near: FloatArray | None = None
    diversity: float = 0.0
    patience: int = MAX_SEEDS_WITHOUT_GAIN
    until_deadline: bool = False
    n_restarts: int = 0

    def run(self, n: int) -> tuple[Candidates, bool]:
        """Return n or more valid configurations, or the best attempt, and whether time ended before there were n."""
        problem, dof, deadline = self.problem, self.problem.robot.dof, self.problem.deadline
        found, plan = FoundRows(dof), self._plan(deadline)
        patience = self.patience if problem.is_within_reach else OUT_OF_REACH_SEEDS
        n_continued = int(self.diversity * (min(n, CONTINUATION_CUTOFF) + 0.5 * max(n - CONTINUATION_CUTOFF, 0)))
        n_roots = max(n - n_continued, min((n + 1) // 2, FEWEST_ROOTS)) if self.diversity else n
        least_uniform = DIVERSE_UNIFORM * self.diversity if len(problem.conditional.log_weights) else 1.0
        yields, uniform_share, without_gain, n_rounds = FIRST_YIELD, least_uniform, 0, 0
        can_continue = n_roots < n and problem.tolerances is None and problem.redundancy == 1
        nothing = np.empty((0, dof))
        while len(found) < n and (without_gain < patience or (self.until_deadline and not len(found))):
            if n_rounds and time.perf_counter() + problem.order.seconds(len(found)) >= deadline:
                return self._result(found), True
            n_before = len(found)
            n_missing = (n_roots if can_continue and not plan.has_continued else n) - n_before
            n_seeds = min(max(_seeds_for(n_missing, yields), 2 * without_gain), MOST_SEEDS_PER_ROUND)
            plan.n_uniform = int(uniform_share * n_seeds)
            plan.n_drawn = n_seeds - plan.n_uniform
            plan.fewest_roots = 1 if n_rounds else (n_roots + 1) // 2
            plan.n_wanted = min(n, n_before + n_seeds + MOST_CONTINUED) if can_continue else 0
            near = nothing if self.near is None or n_rounds else self.near[None]
            problem.robot.chain.search_round(
                problem.task, plan, self._conditional, near, problem.robot.continuous, found
            )
            n_rounds, self.n_restarts = n_rounds + 1, self.n_restarts + n_seeds
            plan.seed = (plan.seed + NEXT_SEED) % 1.0
            n_seeded = found.n_seeded
            gained = n_new = n_seeded - n_before
            if problem.is_checked:
                kept = np.concatenate([np.ones(n_before, dtype=np.bool_), problem.allowed(found.rows[0][n_before:])])
                found.keep(kept)
                gained = int(np.count_nonzero(kept[:n_seeded])) - n_before
            elif plan.has_continued and self.distinct:  # the rest are between known solutions
                gained = found.n_remote
            if can_continue and n_seeded >= plan.fewest_roots:
                plan.has_continued, patience = True, min(patience, CONTINUED_SEEDS)
                can_continue = not problem.is_checked and len(found) < MOST_CONTINUED
            without_gain = 0 if gained else without_gain + n_seeds
            yields = max(n_new / n_seeds, LEAST_YIELD)
            if problem.is_sampled:
                uniform_share = 1.0 if not len(found) and without_gain >= MODEL_SEEDS else uniform_share
            else:
                uniform_share = max(least_uniform, 0.5 if yields < LOW_YIELD else 0.0)
        return self._result(found), False

    def first_round(self, task: Task, seed: float) -> FoundRows:
        """Return the solutions of a pose in the first round of `run(problem.n)`, without a model or diversity."""
        problem, n = self.problem, self.problem.n
        found, plan = FoundRows(problem.robot.dof), self._plan(NEVER)
        plan.seed, plan.n_uniform, plan.n_drawn = seed, min(_seeds_for(n, FIRST_YIELD), MOST_SEEDS_PER_ROUND), 0
        plan.fewest_roots, plan.n_wanted = (n + 1) // 2, 0
        nothing = np.empty((0, problem.robot.dof))
        problem.robot.chain.search_round(task, plan, self._conditional, nothing, problem.robot.continuous, found)
        return found

    @property
    def _conditional(self) -> tuple[Experts, FloatArray, FloatArray]:
        conditional = self.problem.conditional
        return conditional.experts, conditional.log_weights, conditional.contexts

    def _plan(self, deadline: float) -> SearchRound:
        """Return the options common to all rounds."""
        plan, problem = SearchRound(), self.problem
        plan.tempering, plan.stratified = 1.0 - 0.5 * self.diversity, self.diversity > 0.0
        plan.distinct_tolerance = self.apart if self.distinct else -1.0
        plan.has_continued = False
        finest = DISTINCT_TOLERANCE if self.distinct else FINEST
        plan.spread = ContinuationOptions(STEP, finest, problem.redundancy, deadline)
        plan.effort, plan.seed = problem.effort, self.seed
        return plan

    def _result(self, found: FoundRows) -> Candidates:
        """Return the solutions. If there are none, return the best attempt after further iterations."""
        if not len(found):
            return self.problem.solved(found.best, np.full(1, NO_EXPERT, np.uint32), FINAL_PATIENCE)
        q, errors, experts = found.rows
        return Candidates.solutions(q, errors, experts)


def _seeds_for(n: int, yields: float) -> int:
    """Return the number of seeds for n solutions, given the number of solutions per seed."""
    return int(n / yields) + SPARE_SEEDS


def nearest_found(problem: Problem, search: Search, near: FloatArray) -> tuple[Candidates, bool]:
    """Return solutions with the nearest first, or the best attempt, and whether time ended.

    Parameters
    ----------
    problem : Problem
    search : Search
        Has `near` as its first seed.
    near : (dof,)
        Configuration [rad or m].
    """
    n, robot, deadline = problem.n, problem.robot, problem.deadline
    posture = Posture.at(robot, near)
    if n == 1:
        first = problem.solved(near[None], np.full(1, NO_EXPERT, np.uint32))
        if first.valid[0]:
            moved, _ = problem.optimized(first, posture, deadline)
            distance = float(distance_to(robot, moved.q, near)[0])
            if robot.chain.is_surely_nearest(moved.q[0], distance, problem.position_only):
                return moved, False
    search.patience = min(search.patience, NEAR_SEEDS)
    found, timed_out = search.run(max(n, N_FOUND))
    if not found.valid.any():
        return found, timed_out
    order = np.argsort(distance_to(robot, found.q, near), kind="stable")
    n_moved = N_MOVED if problem.tolerances is None else N_MOVED_WITHIN_TOLERANCES
    moved, _ = problem.optimized(found.pick(order[:n_moved]), posture, deadline)
    everything = moved.joined(found.pick(order))
    everything = everything.pick(np.argsort(distance_to(robot, everything.q, near), kind="stable"))
    if search.distinct:  # those found already differ from each other, so only those close to a moved one are compared
        is_close = is_within(robot, everything.q, moved.q, DISTINCT_TOLERANCE)
        close = np.flatnonzero(is_close)
        kept = ~is_close
        kept[close[distinct_rows(robot, everything.q[close], DISTINCT_TOLERANCE)]] = True
        everything = everything.pick(np.flatnonzero(kept))
    return everything, timed_out and len(everything) < n
