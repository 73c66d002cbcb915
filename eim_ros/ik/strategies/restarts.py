"""Restarts: numerical search for solutions in rounds of seeds, which are uniform or drawn from a model.

Restarts also find the nearest solution if solutions form surfaces, or are points without a closed form. The nearest of
many solutions are moved along the null space to a local minimum of the distance. The minimum depends on the start, so
several solutions are moved. In a test with 40 random poses of each of five arms, moving the 16 nearest of 128 solutions
took 0.6 ms and found the same distance as 4000 solutions. Moving the 8 nearest of 64 solutions found this distance for
only 37 of 40 poses of the worst arm. With tolerances per axis, each optimisation takes 2 ms. Only 8 solutions are moved
in this case, which gives a distance within 0.1 rad of the smallest one.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import BoolArray, FloatArray, IntArray
from eim_ros.core.deadlines import is_past, with_grace
from eim_ros.core.parallel import random_bits, seed_fraction
from eim_ros.ik.candidates import Batch, Candidates, ErrorCode, Outcome, Rows, Told
from eim_ros.ik.completeness import grant_points
from eim_ros.ik.messages import NOT_BEGUN, code_and_message
from eim_ros.ik.order import Posture, distance_to, distinct_in_time, distinct_rows, is_within
from eim_ros.ik.prior import Prior
from eim_ros.ik.problem import Found, Problem
from eim_ros.ik.request import Proposals, Spread
from eim_ros.solver import NO_EXPERT, Patience, SearchOptions, search_poses, solve_poses

DISTINCT_TOLERANCE = 0.01  # [rad or m]; configurations closer than this in every joint are near-duplicates
MAX_SEEDS_WITHOUT_GAIN = 3000  # number of seeds without any new solution after which the search ends
OUT_OF_REACH_SEEDS = 256  # the same number for poses that are farther away than the arm is long
NEAR_SEEDS = 512  # the same number in the search for the nearest solution
OTHER_SEED = math.sqrt(2.0) - 1.0  # added modulo 1 to get another seed; unrelated to the golden ratio
DEFAULT_DIVERSITY, FEWEST_TO_DIVERSIFY = 0.85, 16  # default without a preference, and smallest n with this default
OVERSAMPLING = {2: 4.0, 3: 8.0}  # solutions per requested solution at diversity 1, by dimension of the set
MOST_OVERSAMPLING = 24.0  # the same ratio for more than three dimensions
MOST_SPREAD = 2000  # largest request with oversampling; the time to choose rows grows with the square of the number
POSE_DIMENSIONS = 6
SINGULAR, SINGULAR_SHARE = 1e-5, 0.05  # largest singular value that counts as 0; smallest share of singular solutions
MOST_MEASURED = 1000  # number of solutions whose singular values are computed
N_FOUND, N_MOVED, N_MOVED_WITHIN_TOLERANCES = 128, 16, 8
PROPOSED_AT_ONCE = 8192  # number of proposals between two checks of the deadline
NOTHING_BEGUN = Outcome(ErrorCode.TIMED_OUT, (NOT_BEGUN, None))


class RawProposals:
    """Strategy that draws configurations from the model without solving them."""

    def applies(self, problem: Problem) -> bool:
        """Return whether proposals are requested."""
        return isinstance(problem.aim, Proposals)

    def prepare(self, problem: Problem, prior: Prior) -> None:
        """Return None, because there is no compiled solver."""

    def solve(self, problem: Problem, known: Found | None) -> Found:
        """Draw and verify blocks of configurations until there are enough or time is up; at least one block."""
        rng, parts, n = np.random.default_rng(problem.seed), list[Candidates](), problem.n
        for first in range(0, n, PROPOSED_AT_ONCE):
            if first and is_past(problem.deadline):
                break
            parts.append(problem.verified(*problem.conditional.sample(min(PROPOSED_AT_ONCE, n - first), rng)))
        found = Candidates.concatenate(parts)
        return Found(found, timed_out=len(found) < n)


class Restarts:
    """Strategy that searches for solutions from seeds, and adds them to the results of other strategies."""

    def applies(self, problem: Problem) -> bool:
        """Return True, because restarts work for every arm and task."""
        return True

    def prepare(self, problem: Problem, prior: Prior) -> UniformSolver | SearchSolver | None:
        """Return the solver for many poses; None if solutions should be near a configuration."""
        if not isinstance(problem.aim, Spread) or problem.order.reference is not None:
            return None
        if not problem.has_model and not _diversity(problem):
            return UniformSolver(problem)
        return SearchSolver(problem, prior)

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
        """Search for a first solution until the deadline, with new random numbers."""
        found = self._searched(problem, until_deadline=True)
        n_restarts = known.n_restarts + found.n_restarts
        if found.candidates.n_valid:
            return found._replace(n_restarts=n_restarts)
        best = known.candidates.joined(found.candidates).best()
        return known._replace(candidates=best, timed_out=True, n_restarts=n_restarts)

    def _joined_to_curves(self, problem: Problem, known: Found) -> Found:
        """Return solutions of restarts, followed by the known solutions on curves.

        This method is used if not all curves could be traced. There is no continuation, because it fails near
        singularities.
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
        """Return the result of a search. If there can be no solution, this is the best attempt."""
        diversity = _diversity(problem) if diversity is None else diversity
        search, near = Search.of(problem, diversity, is_hopeless), problem.near
        if until_deadline:
            search = replace(search, until_deadline=True, seed=(search.seed + OTHER_SEED) % 1.0)
        found, timed_out, n_restarts = search.run() if near is None or is_hopeless else nearest_found(search, near)
        return Found(found, timed_out=timed_out, n_restarts=n_restarts)


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
    """Return candidates that are farther than the requested spacing from all known candidates."""
    if problem.max_spacing is None:
        return found
    return found.pick(np.flatnonzero(~is_within(problem.robot, found.q, known.q, problem.max_spacing)))


def _is_singular(problem: Problem, found: Candidates) -> bool:
    """Return whether solutions of a pose have more free directions than the arm has redundant joints.

    The answer is True only for a sufficient share of the solutions, because a curve may pass through single singular
    configurations.
    """
    q = found.q[:MOST_MEASURED]
    if problem.position_only or not len(q):
        return False
    jacobians = problem.robot.jacobian(q)[:, :, problem.bounds[0] < problem.bounds[1]]
    is_singular = np.linalg.svd(jacobians, compute_uv=False)[:, POSE_DIMENSIONS - 1] < SINGULAR
    return bool(is_singular.mean() > SINGULAR_SHARE)


@dataclass(frozen=True)
class Search:
    """Search for configurations that solve a problem, in rounds; see `solver/search/search.hpp`.

    Attributes
    ----------
    problem : Problem
    n : int
        Number of solutions to look for.
    seed : float
        Seed of the search, from 0 to below 1.
    diversity : float
        Diversity from 0 (samples of the model) to 1 (evenly over the set of solutions).
    distinct : bool
        Whether near-duplicates are removed.
    patience : int
        Number of seeds without any new solution after which the search ends.
    oversampling : float
        Number of solutions that are searched for each requested solution. The solutions farthest apart are returned.
    until_deadline : bool
        Whether the search for the first solution continues until the deadline.
    """

    problem: Problem
    n: int
    seed: float
    diversity: float
    distinct: bool = True
    patience: int = MAX_SEEDS_WITHOUT_GAIN
    oversampling: float = 0.0
    until_deadline: bool = False

    @classmethod
    def of(cls, problem: Problem, diversity: float, is_hopeless: bool = False) -> Search:
        """Return the search of a problem."""
        is_far = is_hopeless or not problem.is_within_reach
        more = 0.0 if is_hopeless else _oversampling(problem, diversity)
        patience = OUT_OF_REACH_SEEDS if is_far else MAX_SEEDS_WITHOUT_GAIN
        fraction = seed_fraction(problem.seed)
        return cls(problem, problem.n, fraction, diversity, patience=patience, oversampling=more)

    def run(self) -> tuple[Candidates, bool, int]:
        """Return n solutions or the best attempt, whether time ran out, and the number of seeds."""
        problem, robot = self.problem, self.problem.robot
        reference, conditional = problem.order.reference, problem.conditional
        near = np.empty((0, robot.dof)) if reference is None else reference[None]
        patience = Patience(problem.setup.first_joint, math.inf, self.patience, self.patience)
        q, errors, valid, expert, _, late, n_restarts = search_poses(
            robot.chain,
            problem.task,
            self.options(),
            problem.pose[None],
            [self.seed],
            patience,
            (conditional.experts, conditional.log_weights[None], conditional.contexts[None]),
            near,
            robot.continuous,
            problem.allowed if problem.is_checked else None,
            1,
            problem.deadline,
        )
        return Candidates(q, errors[0], errors[1], valid, expert), bool(late[0]), int(n_restarts[0])

    def options(self) -> SearchOptions:
        """Return the options of the compiled search."""
        options, problem = SearchOptions(), self.problem
        options.n, options.diversity, options.redundancy = self.n, self.diversity, problem.redundancy
        spacing = None if self.oversampling else problem.max_spacing
        options.apart = DISTINCT_TOLERANCE if spacing is None else spacing
        options.is_distinct, options.oversampling = self.distinct, self.oversampling
        options.is_sampled, options.until_deadline = problem.is_sampled, self.until_deadline
        options.effort, options.ordering_seconds = problem.effort, problem.order.seconds_factor
        return options


def _oversampling(problem: Problem, diversity: float) -> float:
    """Return the number of solutions to search for each requested one, so that the chosen solutions are far apart."""
    is_surface = problem.redundancy > 1 or problem.tolerances is not None
    has_wish = problem.order.reference is not None or problem.order.posture is not None
    if not (diversity and is_surface and problem.n <= MOST_SPREAD) or has_wish:
        return 0.0
    return OVERSAMPLING.get(problem.redundancy, MOST_OVERSAMPLING) * diversity


class UniformSolver:
    """Solver that answers many poses by uniform restarts in one compiled call, with vector lanes and threads.

    The answer to a pose depends on its seed, and not on other poses or the number of threads.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem, self._patience = problem, patience_of(problem)
        self._success = _success(problem)

    def solve(self, batch: Batch) -> Rows:
        """Return the solutions of poses. Every pose has an outcome."""
        problem, n = self._problem, self._problem.n
        numbers = np.array([random_bits() if seed is None else seed % 2**64 for seed in batch.seeds], np.uint64)
        q, errors, valid, counts, late, n_restarts = solve_poses(
            problem.robot.chain,
            problem.task,
            problem.effort,
            batch.poses,
            numbers,
            self._patience,
            n,
            DISTINCT_TOLERANCE,
            batch.n_threads,
            batch.deadline,
        )
        if len(batch.poses) == 1 and len(q) == n and valid[0]:
            return Rows(q, errors, None, (self._success,))
        found = _Searched(problem, batch, q, errors, valid, None, counts, late, n_restarts)
        return found.rows(self._success)


class SearchSolver:
    """Solver that answers many poses in one compiled call, by diverse searches or from samples of a model."""

    def __init__(self, problem: Problem, prior: Prior) -> None:
        self._problem, self._prior, self._patience = problem, prior, patience_of(problem)
        self._options = Search.of(problem, _diversity(problem)).options()
        self._nowhere = np.empty((0, problem.robot.dof))
        self._success = _success(problem)

    def solve(self, batch: Batch) -> Rows:
        """Return the solutions of poses. Every pose has an outcome."""
        problem, robot, order = self._problem, self._problem.robot, self._problem.order
        conditionals = self._prior.conditionals(batch.poses)
        found = search_poses(
            robot.chain,
            problem.task,
            self._options,
            batch.poses,
            [seed_fraction(seed) for seed in batch.seeds],
            self._patience,
            conditionals,
            self._nowhere,
            robot.continuous,
            None,
            batch.n_threads,
            batch.deadline,
        )
        rows = self._successful(*found) if len(batch.poses) == 1 else None
        is_ranked = order.needs_density and problem.n > 1
        is_late = is_ranked and is_past(batch.deadline)
        if rows is None or is_late:
            remark = "; there was no time to order them by density" if is_late else ""
            rows = _Searched(problem, batch, *found).rows(self._success, remark)
        if is_late or not is_ranked:
            return rows
        counts = np.array([len(rows.q)]) if rows.counts is None else rows.counts
        experts, log_weights, contexts = conditionals
        log_prob = experts.log_densities(log_weights, contexts, rows.q, counts, batch.n_threads)
        ranks = np.lexsort((-log_prob, np.repeat(np.arange(len(counts)), counts)))
        expert = None if rows.expert is None else rows.expert[ranks]
        return rows._replace(q=rows.q[ranks], errors=rows.errors[:, ranks], expert=expert, log_prob=log_prob[ranks])

    def _successful(
        self,
        q: FloatArray,
        errors: FloatArray,
        valid: BoolArray,
        expert: npt.NDArray[np.uint32],
        counts: IntArray,
        late: BoolArray,
        n_restarts: IntArray,
    ) -> Rows | None:
        """Return the rows of one pose in the most frequent case, where all rows are solutions as requested.

        `_Searched` covers the general case, but takes ten times as long.
        """
        n = self._problem.n
        if len(q) < n or late[0] or not all(valid[:n].tolist()):
            return None
        if self._problem.is_sampled and NO_EXPERT in expert[:n].tolist():
            return None
        return Rows(q[:n], errors[:, :n], None, (self._success,), None, expert[:n])


@dataclass(frozen=True, eq=False)
class _Searched:
    """Results of searches for the poses of a batch. A pose without a solution may have its best attempt as a row."""

    problem: Problem
    batch: Batch
    q: FloatArray  # (n, dof)
    errors: FloatArray  # (2, n)
    valid: BoolArray  # (n,)
    expert: npt.NDArray[np.uint32] | None  # (n,)
    counts: IntArray  # (m,)
    late: BoolArray  # (m,): whether the deadline passed
    n_restarts: IntArray  # (m,)

    def rows(self, success: Outcome, remark: str = "") -> Rows:
        """Return the requested number of solutions of each pose. `success` is the outcome if all were found.

        The remark is added to messages of poses with solutions.
        """
        n, m, firsts = self.problem.n, len(self.counts), np.cumsum(self.counts) - self.counts
        owners = np.repeat(np.arange(m), self.counts)
        kept = self.valid & (np.arange(len(self.q)) - firsts[owners] < n)
        n_kept = np.bincount(owners[kept], minlength=m)
        is_begun = self.counts > 0
        is_special = is_begun & ((n_kept < n) | self.late)
        if self.expert is not None and self.problem.is_sampled:
            is_special[owners[kept & (self.expert == NO_EXPERT)]] = True
        if remark:
            success = Outcome(success.code, (success.message + remark, None))
        outcomes = [success if begun else NOTHING_BEGUN for begun in is_begun.tolist()]
        for i in np.flatnonzero(is_special).tolist():
            rows = slice(int(firsts[i]), int(firsts[i] + self.counts[i]))
            outcomes[i] = self._outcome(i, rows, int(n_kept[i]), remark)
        expert = None if self.expert is None else self.expert[kept]
        return Rows(self.q[kept], self.errors[:, kept], None if m == 1 else n_kept, outcomes, None, expert)

    def _outcome(self, i: int, rows: slice, n_valid: int, remark: str) -> Outcome:
        """Return the outcome of a pose with rows, `n_valid` of them valid. The message is created when it is read."""
        if n_valid:
            is_late = bool(self.late[i])
            code = ErrorCode.TIMED_OUT if is_late else ErrorCode.SUCCESS
            return Outcome(code, lambda: self._told(i, rows, is_late, None, remark))
        is_proven = not self.problem.setup.is_within_reach(self.batch.poses[i])
        is_late = bool(self.late[i]) and not is_proven  # a proof does not depend on the search
        code = ErrorCode.TIMED_OUT if is_late else ErrorCode.NO_IK_SOLUTION
        position_error, orientation_error = self.errors[:, rows.start].tolist()
        attempt = self.q[rows.start], position_error, orientation_error
        n_total = 0.0 if is_proven else None
        told = functools.partial(self._told, i, rows, is_late, n_total, "")
        return Outcome(code, told, math.nan if n_total is None else n_total, attempt=attempt)

    def _told(self, i: int, rows: slice, is_late: bool, n_total: float | None, remark: str) -> Told:
        """Return message and report of a pose."""
        report = None if n_total is None else grant_points(0, None, is_exact=True)
        expert = np.full(self.counts[i], NO_EXPERT, np.uint32) if self.expert is None else self.expert[rows]
        found = Candidates(self.q[rows], self.errors[0, rows], self.errors[1, rows], self.valid[rows], expert)
        result = Found(found, timed_out=is_late, n_total=n_total, n_restarts=int(self.n_restarts[i]))
        problem = self.problem.at(self.batch.poses[i], self.problem.bounds)
        return code_and_message(problem, result, found)[1] + remark, report


def patience_of(problem: Problem) -> Patience:
    """Return the number of seeds without a new solution after which the search for a pose ends."""
    setup = problem.setup
    return Patience(setup.first_joint, setup.farthest, MAX_SEEDS_WITHOUT_GAIN, OUT_OF_REACH_SEEDS)


def _success(problem: Problem) -> Outcome:
    """Return the outcome if all requested solutions are found."""
    found = Candidates.solutions(
        np.empty((problem.n, problem.robot.dof)), np.empty((2, problem.n)), np.zeros(problem.n, np.uint32)
    )
    code, message = code_and_message(problem, Found(found), found)
    return Outcome(code, (message, None))


def nearest_found(search: Search, near: FloatArray) -> tuple[Candidates, bool, int]:
    """Return solutions, the nearest first, or the best attempt; also whether time ran out, and the number of seeds.

    Parameters
    ----------
    search : Search
        Search with `near` as its first seed.
    near : (dof,)
        Configuration [rad or m].
    """
    problem = search.problem
    n, robot, deadline = problem.n, problem.robot, problem.deadline
    posture = Posture.at(robot, near)
    if n == 1:
        first = problem.solved(near[None], np.full(1, NO_EXPERT, np.uint32))
        if first.valid[0]:
            moved, _ = problem.optimized(first, posture, deadline)
            distance = float(distance_to(robot, moved.q, near)[0])
            if robot.chain.is_surely_nearest(moved.q[0], distance, problem.position_only):
                return moved, False, 0
    patience = min(search.patience, NEAR_SEEDS)
    found, timed_out, n_restarts = replace(search, n=max(n, N_FOUND), patience=patience).run()
    if not found.valid.any():
        return found, timed_out, n_restarts
    order = np.argsort(distance_to(robot, found.q, near), kind="stable")
    n_moved = N_MOVED if problem.tolerances is None else N_MOVED_WITHIN_TOLERANCES
    moved, _ = problem.optimized(found.pick(order[:n_moved]), posture, deadline)
    everything = moved.joined(found.pick(order))
    everything = everything.pick(np.argsort(distance_to(robot, everything.q, near), kind="stable"))
    if search.distinct:  # only solutions close to a moved solution can be duplicates
        is_close = is_within(robot, everything.q, moved.q, DISTINCT_TOLERANCE)
        close = np.flatnonzero(is_close)
        kept = ~is_close
        kept[close[distinct_rows(robot, everything.q[close], DISTINCT_TOLERANCE)]] = True
        everything = everything.pick(np.flatnonzero(kept))
    return everything, timed_out and len(everything) < n, n_restarts
