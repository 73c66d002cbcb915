"""How solutions are found: in closed form, spread over traced curves, drawn from a distribution, or searched for.

Which of these depends on the arm and on what is asked of it; what was found is ordered and chosen by the sampler.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from eim_ros.core.deadlines import is_past, with_grace
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.parallel import seed_fraction
from eim_ros.ik.candidates import Pool
from eim_ros.ik.completeness import Completeness, FoundFamilies
from eim_ros.ik.order import UNORDERED, Ranking, distinct_in_time, farthest_rows, is_within
from eim_ros.ik.prior import ConditionalMixture
from eim_ros.ik.problem import Finding, Goal
from eim_ros.ik.request import MOST_SAMPLES, SampleRequest
from eim_ros.ik.strategies.closed_form import MOST_RANKED, all_solutions
from eim_ros.ik.strategies.densities import (
    LogDensity,
    MeasuredSet,
    ScaledMeasure,
    check_dimensions,
    log_density_of,
    n_pieces,
    points_of,
    took_pieces,
)
from eim_ros.ik.strategies.manifold import TracedSolutions, certified_form, is_curve, joints_of_a_turn, nearby
from eim_ros.ik.strategies.restarts import DISTINCT_TOLERANCE, OUT_OF_REACH_SEEDS, Search, nearest_found
from eim_ros.ik.strategies.slices import SliceProposals, Slices
from eim_ros.solver import NO_EXPERT

__all__ = ["FEWEST_TO_EXPLORE", "Finder"]

FloatArray = npt.NDArray[np.float64]

EXPLORE, FEWEST_TO_EXPLORE = 0.85, 16  # where so many are asked of a model that prefers none
# more solutions for each wanted at explore = 1, from which those that are spread out are chosen, by dimensions
SPREAD_FROM = {2: 4.0, 3: 8.0}
SPREAD_FROM_MANY = 24.0  # the same, of more than three dimensions
MOST_SPREAD = 2000  # wanted, at most: the choice takes time of their square
POSE_DIMENSIONS = 6
SINGULAR, SINGULAR_SHARE = 1e-5, 0.05  # least singular value [m, rad per rad, m] that is as good as 0, and of how many
MOST_MEASURED = 1000  # solutions of which it is computed
DRAWN_AT_ONCE = 65_536  # draws between two looks at the clock
FEW_KNOWN, MANY_KNOWN = 300, 2000  # solutions that tell where to look for those of a distribution


@dataclass(frozen=True, eq=False)
class Finder:
    """Finds solutions of one request.

    Attributes
    ----------
    wanted : SampleRequest
        Fitted to the robot.
    goal : Goal
    conditional : ConditionalMixture
        The model, given the pose.
    deadline : float
        A time of `perf_counter` [s].
    ranking : Ranking
        By which the answer will be chosen.
    has_model, prefers : bool
        Whether there is a model, and one that prefers some configurations to others.
    """

    wanted: SampleRequest
    goal: Goal
    conditional: ConditionalMixture
    deadline: float
    ranking: Ranking
    has_model: bool
    prefers: bool

    def find(self) -> Finding:
        """Configurations in closed form where the arm has one, else spread over curves, else searched for."""
        wanted, goal, ranking = self.wanted, self.goal, self.ranking
        known = all_solutions(goal, wanted, ranking)
        if known is not None and not known.in_time and len(known.pool):
            return Finding(known.pool, True, n_all=None if goal.n_unchecked else known.n_all)
        is_certain = known is not None and known.in_time and known.is_whole and not known.is_singular
        if known is not None and is_certain and len(known.pool):
            pool = known.pool
            if ranking.is_fair and ranking.needs_density and len(pool) > wanted.n:
                pool = _drawn(pool, self.conditional.log_prob(pool.positions), wanted)
            return Finding(pool, n_all=known.n_all, families=_points(known.n_all, wanted.until))
        if wanted.certified:
            self._check_certifiable(known is not None)
        if known is None and is_curve(goal) and (goal.is_within_reach or wanted.certified) and self._traces:
            return self._traced()
        if known is None and wanted.until is not None and not is_curve(goal):
            raise ConfigurationError(
                "a guarantee is for solutions that are curves, or points in closed form: of an arm with one joint more "
                "than the pose takes, without tolerances, or of six joints; leave it out",
                wanted.until,
            )
        pool, out_of_time = self._searched(is_certain)
        n_all = 0.0 if is_certain and not pool.valid.any() else None
        if known is not None and len(known.pool):
            pool = known.pool.joined(self._apart(pool.chosen(), known.pool))
            pool, is_compared = self._distinct(pool)
            out_of_time = out_of_time or not is_compared
        is_cut_short = False
        if wanted.preference is not None:
            pool, is_cut_short = goal.descended(pool, wanted.preference, self.deadline)
        is_singular = known is not None and known.is_singular
        families = _points(0.0, wanted.until) if n_all == 0.0 else None
        return Finding(pool, out_of_time and n_all is None, is_cut_short, n_all, is_singular, families)

    def draw(self) -> tuple[Finding, FloatArray | None]:
        """Draws from a distribution on the set of solutions, and the log density (n,) of each there [nat].

        Without any solution what the search comes to, and None; where the set could not be measured, worth nothing.
        """
        wanted, goal = self.wanted, self.goal
        log_density = log_density_of(wanted, goal, self.conditional, self.has_model)
        on_set, densities = self._measured(log_density)
        rng, deadline = np.random.default_rng(wanted.random_seed), with_grace(self.deadline)
        pools: list[Pool] = []
        log_probs: list[FloatArray] = []
        worth = 0.0
        for first in range(0, wanted.n, DRAWN_AT_ONCE):
            if first and is_past(deadline):
                break
            drawn = on_set.draw(densities, min(DRAWN_AT_ONCE, wanted.n - first), rng)
            if drawn is None:
                nothing = replace(wanted, distribution=None, temperature=1.0, posture=None, until=None)
                found = replace(self, wanted=nothing, ranking=Ranking(UNORDERED)).find()
                is_late = on_set.is_late or found.out_of_time
                return replace(found, out_of_time=is_late, worth=0.0 if found.pool.valid.any() else None), None
            # all were checked for collisions when they were found
            pools.append(goal.measured(drawn.positions, np.full(len(drawn.positions), NO_EXPERT, np.uint32)))
            log_probs.append(drawn.log_prob)
            worth = _worth_of_more(drawn.effective_size, len(drawn.positions), sum(map(len, pools)))
        pool = Pool.all_of(pools)
        is_late = on_set.is_late or len(pool) < wanted.n
        if not on_set.is_fair:
            return Finding(pool, True, families=on_set.families, worth=0.0), None
        return Finding(pool, is_late, families=on_set.families, worth=worth), np.concatenate(log_probs)

    def _distinct(self, pool: Pool) -> tuple[Pool, bool]:
        """A pool without near-duplicates, and whether there was time to compare all."""
        rows, is_whole = distinct_in_time(
            self.goal.robot, pool.positions, DISTINCT_TOLERANCE, with_grace(self.deadline)
        )
        return pool.pick(rows), is_whole

    def _measured(self, log_density: LogDensity) -> tuple[MeasuredSet, FloatArray]:
        """The set of solutions as curves, points or slices, and the log density of each place."""
        wanted, goal, measure = self.wanted, self.goal, ScaledMeasure.of(self.goal)
        are_points = measure.n_free == 0 and goal.constraints.tolerances is None
        if wanted.certified:
            self._check_certifiable(are_points)
        if is_curve(goal):
            traced = self._curves()
            n = n_pieces(wanted.n, self.deadline - time.perf_counter())
            began = time.perf_counter()
            positions, spacing, is_fair = traced.scattered(n, with_grace(self.deadline))
            log_mass = measure.log_length(positions) + np.log(spacing)
            took_pieces(len(positions), time.perf_counter() - began)
            is_late = not (traced.in_time and is_fair) or n < n_pieces(wanted.n)
            on_set = MeasuredSet(positions, log_mass, None, traced.families, is_late, is_fair)
        elif are_points:
            everything = replace(
                wanted, distribution=None, temperature=1.0, distinct=True, n=max(wanted.n, MOST_RANKED)
            )
            positions = points_of(all_solutions(goal, everything, Ranking(UNORDERED)))
            on_set = MeasuredSet(positions, np.zeros(len(positions)))
        else:
            check_dimensions(measure)
            if wanted.until is not None:
                raise ConfigurationError(
                    "until is for solutions that are curves, or points in closed form; leave it out", wanted.until
                )
            return self._sliced(measure, log_density)
        return on_set, log_density(on_set.positions)

    def _sliced(self, measure: ScaledMeasure, log_density: LogDensity) -> tuple[MeasuredSet, FloatArray]:
        """Slices, of joints held as known solutions suggest."""
        wanted, goal = self.wanted, self.goal
        is_model, is_uniform = wanted.distribution == "model", wanted.distribution == "uniform"
        explore = 0.0 if is_model else 1.0
        search = Search(goal, self.conditional, seed_fraction(wanted.random_seed), explore=explore)
        pool, _ = search.run(FEW_KNOWN if is_uniform else MANY_KNOWN, self.deadline)
        known = pool.chosen().positions
        if not len(known):
            return MeasuredSet(known, np.empty(0)), np.empty(0)
        rng = np.random.default_rng(wanted.random_seed)
        near = known if is_model else known[:0]
        if not is_uniform and not is_model:
            log_weights = log_density(known)
            weights = np.exp(log_weights - log_weights.max())
            near = known[rng.choice(len(known), size=MANY_KNOWN, p=weights / weights.sum())]
        proposals = SliceProposals.of(measure, known, near)
        return Slices(measure, proposals, wanted, log_density, rng).run(self.deadline)

    def _curves(self) -> TracedSolutions:
        wanted = self.wanted
        seed = seed_fraction(wanted.random_seed)
        return TracedSolutions.of(self.goal, seed, wanted.until, self.deadline, wanted.certified or None)

    def _check_certifiable(self, has_points: bool) -> None:
        """`ConfigurationError` where there is no closed form by which solutions were certified."""
        goal = self.goal
        if has_points or certified_form(goal) is not None:
            return
        if goal.robot.held_form is not None and is_curve(goal) and (wide := joints_of_a_turn(goal)):
            raise ConfigurationError(
                f"certified families need limits narrower than a turn: give {' and '.join(wide)} such by "
                "Constraints(limits=...)",
                True,
            )
        raise ConfigurationError(
            "certified is for whole poses of arms with a closed form, of 6 joints or of 7 with one held (as KUKA iiwa "
            "and Franka), without tolerances per axis; until=Completeness() bounds what may be missing of others",
            True,
        )

    def _searched(self, is_hopeless: bool) -> tuple[Pool, bool]:
        """What the search finds, and whether time was up; where there is known to be nothing, the best attempt."""
        wanted, goal, share = self.wanted, self.goal, self._explore
        seed = seed_fraction(wanted.random_seed)
        search = Search(goal, self.conditional, seed, bool(wanted.distinct), near=wanted.reference, explore=share)
        if wanted.separation is not None:
            search.distinct, search.apart = True, wanted.separation
        if is_hopeless:
            search.patience = OUT_OF_REACH_SEEDS
        elif self._near is not None and wanted.refine:
            return nearest_found(goal, search, self._near, wanted.n, self.deadline)
        is_surface = goal.redundancy > 1 or goal.constraints.tolerances is not None
        has_wish = wanted.reference is not None or wanted.preference is not None
        if not (share and is_surface and wanted.n <= MOST_SPREAD) or has_wish:
            return search.run(wanted.n, self.deadline)
        search.distinct = False  # near-duplicates are not far from each other
        more = SPREAD_FROM.get(goal.redundancy, SPREAD_FROM_MANY) * share
        pool, is_late = search.run(int(wanted.n * (1.0 + more)), self.deadline)
        pool = pool.pick(farthest_rows(goal.robot, pool.positions, wanted.n, with_grace(self.deadline)))
        is_compared = True
        if wanted.distinct:
            pool, is_compared = self._distinct(pool)
        return pool, (is_late and len(pool) < wanted.n) or not is_compared

    @property
    def _near(self) -> FloatArray | None:
        """The configuration to which the answer is to be nearest, where nothing else decides."""
        return self.wanted.reference if self.ranking.criterion == "distance" and not self.wanted.preference else None

    @property
    def _traces(self) -> bool:
        """Whether a request, whose solutions are curves, asks for all of them, or for the nearest one."""
        wanted = self.wanted
        if (
            wanted.until is not None
            or wanted.separation is not None
            or wanted.certified
            or self.ranking.criterion == "distance"
        ):
            return True
        if wanted.explore is not None:
            return wanted.explore == 1.0
        return not self.prefers and wanted.n >= FEWEST_TO_EXPLORE

    def _traced(self) -> Finding:
        """Of curves, traced from end to end; where some could not be, the search adds to them."""
        wanted, goal, deadline = self.wanted, self.goal, self.deadline
        near = self._near
        is_open = wanted.until is None and not wanted.certified
        if near is not None and wanted.n == 1 and is_open and (pool := nearby(goal, near)) is not None:
            return Finding(pool)
        traced = self._curves()
        if near is None or wanted.separation is not None:
            pool, in_time = traced.even(wanted, deadline)
        else:
            pool, in_time = traced.nearest(near, wanted.n, bool(wanted.distinct), deadline)
        wants_all = wanted.until is not None or wanted.separation is not None or near is not None
        is_cut = wants_all and not traced.in_time and time.perf_counter() >= deadline
        out_of_time = is_cut or not in_time
        families = traced.families if in_time else replace(traced.families, is_whole=False, certified=False)
        if not traced.is_traced or not len(pool):
            is_empty = traced.in_time and not len(traced.families.traced)
            asked = replace(wanted, explore=0.0)  # restarts alone: where the arm is singular continuation leads nowhere
            more, was_late = replace(self, wanted=asked)._searched(is_empty)
            out_of_time = out_of_time or was_late
            if len(pool):
                pool, is_compared = self._distinct(self._apart(more.chosen(), pool).joined(pool))
                out_of_time = out_of_time or not is_compared
            else:
                pool = more
            families = replace(families, is_singular=_is_singular(goal, pool.chosen()))
        is_cut_short = False
        if wanted.preference is not None:
            pool, is_cut_short = goal.descended(pool, wanted.preference, self.deadline)
        return Finding(pool, out_of_time, is_cut_short, families=families)

    def _apart(self, pool: Pool, known: Pool) -> Pool:
        """What of a pool is not within the separation asked for of others that are known."""
        separation = self.wanted.separation
        if separation is None:
            return pool
        near = is_within(self.goal.robot, pool.positions, known.positions, separation)
        return pool.pick(np.flatnonzero(~near))

    @property
    def _explore(self) -> float:
        """How much all solutions matter, from 0 to 1, by default where nothing is preferred."""
        wanted, robot = self.wanted, self.goal.robot
        if wanted.explore is not None:
            return float(wanted.explore)
        curves = not self.goal.position_only and robot.dof <= POSE_DIMENSIONS + 1
        is_even = not self.has_model or (curves and not self.prefers)
        return EXPLORE if is_even and wanted.n >= FEWEST_TO_EXPLORE else 0.0


def _is_singular(goal: Goal, pool: Pool) -> bool:
    """Whether more directions are free in solutions of a whole pose than the arm has joints to spare.

    That has to hold of a share of them: a curve may lead through single places where the arm is singular.
    """
    rows = pool.positions[:MOST_MEASURED]
    if goal.position_only or not len(rows):
        return False
    jacobians = goal.robot.jacobian(rows)[:, :, goal.bounds[0] < goal.bounds[1]]
    is_singular = np.linalg.svd(jacobians, compute_uv=False)[:, POSE_DIMENSIONS - 1] < SINGULAR
    return bool(is_singular.mean() > SINGULAR_SHARE)


def _worth_of_more(worth: float, n: int, n_more: int) -> float:
    """What `n_more` draws are worth, if n from the same places are worth so much: variances of both kinds add up."""
    of_places = 1.0 / worth - 1.0 / n if worth > 0.0 else np.inf
    return float(1.0 / (1.0 / n_more + max(of_places, 0.0)))


def _points(n_all: float, until: Completeness | None) -> FoundFamilies | None:
    """Solutions that are points, all of them known, unless they are too many to be told one by one."""
    if n_all > MOST_SAMPLES:
        return None
    n = int(n_all)
    nowhere = np.zeros(n), np.zeros(n, np.bool_), np.ones(n, np.bool_)
    return FoundFamilies.of(*nowhere, 0.0, until or Completeness(), certified=True)


def _drawn(pool: Pool, log_prob: FloatArray, wanted: SampleRequest) -> Pool:
    """n rows of a pool drawn by their densities without replacement (Gumbel: the largest of log density plus noise)."""
    noise = np.random.default_rng(wanted.random_seed).gumbel(size=len(pool))
    return pool.pick(np.argsort(-(log_prob + noise), kind="stable")[: wanted.n])
