"""Solutions of an arm with one redundant direction: self-motion curves, traced from end to end.

A few restarts find the curves, continuation follows each curve to its ends, and limits divide the curves into
components. The answer divides the components evenly, or contains the point of each component nearest to a reference
configuration. If only the nearest solution is requested and the arm has a closed form, no curve is traced.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from eim_ros.core.arrays import FloatArray, IntArray
from eim_ros.core.deadlines import is_past, with_grace
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.parallel import seed_fraction
from eim_ros.ik.candidates import Batch, Candidates, ErrorCode, Outcome, Rows, Told
from eim_ros.ik.completeness import Completeness, CompletenessReport, Evidence, grant
from eim_ros.ik.messages import code_and_message
from eim_ros.ik.order import Posture, distance_to, distinct_rows, is_within
from eim_ros.ik.prior import Prior
from eim_ros.ik.problem import Found, Problem
from eim_ros.ik.request import Covering, Draws, Proposals
from eim_ros.ik.revolutions import in_revolution_of
from eim_ros.ik.strategies.densities import (
    ScaledMeasure,
    WeightedPoints,
    draw,
    log_density_of,
    n_pieces,
    took_pieces,
)
from eim_ros.ik.strategies.restarts import FEWEST_TO_DIVERSIFY
from eim_ros.kinematics import Robot
from eim_ros.kinematics.branches import BOUNDARY
from eim_ros.solver import (
    NO_EXPERT,
    General7R,
    ParameterisedForm,
    SelfMotions,
    log,
    nearest_on_curve,
    solve_on_curves,
    trace_components,
)

NO_BOUND = 1.0
NEARLY_A_REVOLUTION = 2.0 * math.pi - 0.01  # [rad]
NEARBY = 0.2  # distance from the reference within which solutions are searched first [rad, m]
MOST_NEAREST = 8  # number of components whose nearest solution is returned, if more than one solution is requested
# search for short arcs: spacing [rad, m], and limits of its effort
FINE_ARC, MOST_ON_ARCS, ARC_HALVINGS = 0.1, 20_000, 10
# search for the nearest solution: number of checked solutions, in total and between two checks of the deadline
FINELY, CHECKED_AT_ONCE = 1000, 16


class Manifold:
    """Strategy that traces the curves of an arm with one redundant direction."""

    def applies(self, problem: Problem) -> bool:
        """Return whether solutions are curves, and whether all, the nearest or evenly spread solutions are needed."""
        if isinstance(problem.aim, Proposals) or not problem.is_curve:
            return False
        if isinstance(problem.aim, Draws):
            return True
        if not isinstance(problem.aim, Covering) and problem.order.criterion != "distance":
            diversity = problem.aim.diversity
            is_even = problem.n >= FEWEST_TO_DIVERSIFY if diversity is None else diversity == 1.0
            if not is_even:
                return False
        return True

    def prepare(self, problem: Problem, prior: Prior) -> CurveSolver | None:
        """Return the solver for many poses; None if there is a guarantee, or too many configurations to compare."""
        aim = problem.aim
        if isinstance(aim, Draws) or aim.guarantee is not None or problem.order.needs_density:
            return None
        return None if isinstance(aim, Covering) and problem.order.reference is not None else CurveSolver(problem)

    def solve(self, problem: Problem, known: Found | None) -> Found:
        """Return solutions on the traced curves. The result is final if all components could be traced."""
        aim, near, deadline = problem.aim, problem.near, problem.deadline
        if isinstance(aim, Draws):
            return self._drawn(problem)
        if not (problem.is_within_reach or problem.is_certified):
            return Found(no_candidates(problem), False)
        is_covering = isinstance(aim, Covering)
        local = None
        if near is not None and problem.n == 1 and not is_covering:
            nearest = nearest_in_closed_form(problem, near)
            if nearest is not None:
                return Found(nearest)
            local, is_surely = nearby(problem, near)
            if is_surely:
                return Found(local)
        curves = Curves.of(problem)
        if near is None or is_covering:
            found, in_time = curves.even(deadline)
        else:
            found, in_time = curves.nearest(near, problem.n, deadline)
            found = found if local is None else found.joined(local)
        wants_all = is_covering or near is not None
        timed_out = (wants_all and not curves.in_time and time.perf_counter() >= deadline) or not in_time
        report = (
            curves.report if in_time else grant(replace(curves.evidence, is_exhaustive=False, missed_share=NO_BOUND))
        )
        if curves.is_traced and len(found):
            return Found(found, timed_out=timed_out, report=report)
        is_empty = curves.in_time and curves.report.certified and not curves.report.n_components
        return Found(found, False, timed_out=timed_out, is_exhausted=is_empty, is_minor=True, report=report)

    def _drawn(self, problem: Problem) -> Found:
        curves, measure, deadline = Curves.of(problem), ScaledMeasure.of(problem), problem.deadline
        log_density = log_density_of(problem)
        n, began = n_pieces(problem.n, deadline - time.perf_counter()), time.perf_counter()
        q, spacing, is_fair = curves.scattered(n, with_grace(deadline))
        log_mass = measure.log_length(q) + log(spacing)
        took_pieces(len(q), time.perf_counter() - began)
        is_late = not (curves.in_time and is_fair) or n < n_pieces(problem.n)
        points = WeightedPoints(q, log_mass, None, curves.report, is_late, is_fair)
        return draw(problem, points, log_density(q))


class CurveSolver:
    """Solver that traces the curves of many poses in one compiled call."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._bound = problem, Completeness()
        self._wraps = problem.bounds[2] > 0.0
        self._has_wraps, self._nowhere = bool(self._wraps.any()), np.empty((0, problem.robot.dof))
        self._has_turns = bool((problem.robot.continuous & ~self._wraps).any())
        self._form = None if problem.position_only else problem.robot.parameterised_form
        nearest = Candidates.solutions(np.empty((1, problem.robot.dof)), np.empty((2, 1)))
        self._nearest = Outcome(*_told(problem, Found(nearest)))

    def solve(self, batch: Batch) -> Rows:
        """Return the solutions of poses. Poses that are out of reach, or with untraced curves, have no outcome."""
        problem, near, m = self._problem, batch.reference, len(batch.poses)
        if m > 1 or not problem.setup.is_within_reach(batch.poses[0]):
            reached = problem.setup.are_within_reach(batch.poses)
            if not reached.all():
                return self._of_some(batch, np.flatnonzero(reached))
        robot, spacing = problem.robot, problem.max_spacing
        places = self._nowhere
        if near is not None:
            places = equivalents(problem, near) if self._has_turns else near[None]
        q, errors, table, components = solve_on_curves(
            robot.chain,
            problem.task,
            problem.effort,
            batch.poses,
            [seed_fraction(seed) for seed in batch.seeds],
            problem.n,
            spacing or 0.0,
            self._bound.confidence,
            near,
            places,
            robot.continuous,
            self._form,
            batch.n_threads,
            batch.deadline,
        )
        is_late = is_past(batch.deadline)
        outcomes = list[Outcome | None]()
        first = 0
        for line in table.tolist():
            n_components = int(line[1])
            outcomes.append(self._outcome(line, components[first : first + n_components], is_late))
            first += n_components
        if near is not None and self._has_wraps:
            q = in_revolution_of(near, q, self._wraps)
        counts = None if m == 1 else table[:, 0].astype(np.int64)
        return Rows(q, errors, counts, outcomes)

    def _of_some(self, batch: Batch, which: IntArray) -> Rows:
        """Return the solutions of the poses `which`. Other poses have no outcome."""
        m, outcomes = len(batch.poses), list[Outcome | None]()
        counts, dof = np.zeros(m, np.int64), self._problem.robot.dof
        if not len(which):
            return Rows(np.empty((0, dof)), np.empty((2, 0)), None if m == 1 else counts, [None] * m)
        some = self.solve(batch._replace(poses=batch.poses[which], seeds=[batch.seeds[i] for i in which.tolist()]))
        counts[which] = len(some.q) if some.counts is None else some.counts
        outcomes = [None] * m
        for i, outcome in zip(which.tolist(), some.outcomes, strict=True):
            outcomes[i] = outcome
        return some._replace(counts=counts, outcomes=outcomes)

    def _outcome(self, line: list[float], components: FloatArray, is_late: bool) -> Outcome | None:
        """Return the outcome for a line of the table, or None if the pose needs another strategy."""
        n_rows, n_components, missed_share, is_nearest, has_searched, in_time, is_too_fine = line
        if is_nearest:
            return self._nearest
        if math.isnan(missed_share):
            return None
        problem, spacing = self._problem, self._problem.max_spacing
        if is_too_fine and spacing is not None:
            check_spacing(spacing, float(np.ceil(components[:, 0] / spacing).sum()), problem.n)
        lengths, closed, traced = components.T
        if not (n_rows and n_components and traced.all()):
            return None
        wants_all = isinstance(problem.aim, Covering) or problem.order.reference is not None
        timed_out = (wants_all and not has_searched and is_late) or not in_time

        def told() -> Told:
            share = missed_share if in_time else NO_BOUND
            report = grant(Evidence(lengths, closed > 0.0, traced > 0.0, False, True, share))
            rows = Candidates.solutions(np.empty((int(n_rows), problem.robot.dof)), np.empty((2, int(n_rows))))
            return _told(problem, Found(rows, timed_out=timed_out, report=report))[1]

        return Outcome(ErrorCode.TIMED_OUT if timed_out else ErrorCode.SUCCESS, told)


def _told(problem: Problem, found: Found) -> tuple[ErrorCode, Told]:
    code, message = code_and_message(problem, found, found.candidates)
    return code, (message, found.report)


def check_spacing(spacing: float, n_parts: float, max_solutions: int) -> None:
    """Raise `ConfigurationError` if a spacing [rad, m] needs more configurations than allowed."""
    if n_parts > max_solutions:
        raise ConfigurationError(
            f"max_spacing {spacing} needs about {n_parts:.0f} configurations, which exceeds max_solutions "
            f"({max_solutions}): increase max_spacing or max_solutions, or give revolutions='one' if joints turn more "
            "than once",
            spacing,
        )


def components_of(motions: SelfMotions, is_exhaustive: bool, is_exact: bool, missed_share: float = 1.0) -> Evidence:
    """Return the components of self-motions as evidence."""
    lengths, closed, traced = motions.components.T
    return Evidence(lengths, closed > 0.0, traced > 0.0, is_exhaustive, is_exact, missed_share)


def certified_form(problem: Problem) -> ParameterisedForm | None:
    """Return the closed form with one joint as parameter, which finds all components; None without such a form."""
    if problem.position_only or not problem.is_curve or joints_of_a_revolution(problem):
        return None
    return problem.robot.parameterised_form


def forms_of_curves(problem: Problem) -> Iterator[ParameterisedForm | General7R]:
    """Yield the forms that prove which self-motion curves exist if limits are ignored, the fastest first."""
    if problem.position_only or not problem.is_curve:
        return
    for form in (problem.robot.parameterised_form, problem.robot.general_7r):
        if form is not None:
            yield form


def joints_of_a_revolution(problem: Problem) -> list[str]:
    """Return the names of joints with 2π-equivalent values, because their limits allow a full revolution."""
    bounds = problem.bounds
    is_wide = (bounds[1] - bounds[0] >= NEARLY_A_REVOLUTION) & (bounds[2] == 0.0)
    return [problem.robot.joint_names[joint] for joint in np.flatnonzero(is_wide)]


@dataclass(frozen=True, eq=False)
class Curves:
    """Self-motion curves of a problem.

    Attributes
    ----------
    problem : Problem
    motions : SelfMotions
    evidence : Evidence
    in_time : bool
        Whether the search for curves ended before the deadline.
    """

    problem: Problem
    motions: SelfMotions
    evidence: Evidence
    in_time: bool

    @classmethod
    def of(cls, problem: Problem) -> Curves:
        """Search until the requested bound is reached. Without a bound, search until missing components are unlikely.

        If a certificate is requested, a closed form determines the components. If there is no closed form, or if it
        leaves a case undecided, a search finds the components, and a proof must show that none is missing. The closed
        form is also used if a bound is requested and the arm is too close to a singularity to trace every curve.
        """
        until, deadline, chain = problem.until, problem.deadline, problem.robot.chain
        wanted = until or Completeness()
        motions = SelfMotions(chain, problem.task, seed_fraction(problem.seed))
        form = certified_form(problem)
        certified = in_time = False
        if problem.is_certified and form is not None:
            certified = in_time = motions.certify(chain, form)
        if not certified:
            share = NO_BOUND if until is None else wanted.missed_share
            in_time = motions.search(chain, problem.effort, wanted.confidence, share, deadline)
            if problem.is_certified:
                certified = any(motions.prove(chain, form, deadline) for form in forms_of_curves(problem))
            is_stuck = until is not None and not motions.components[:, 2].all()
            if is_stuck and form is not None and not problem.is_certified:
                certified = motions.certify(chain, form)
                in_time = in_time or certified
        missed = motions.missed_share(wanted.confidence)
        evidence = components_of(motions, is_exhaustive=certified, is_exact=True, missed_share=missed)
        return cls(problem, motions, evidence, in_time)

    @functools.cached_property
    def report(self) -> CompletenessReport:
        """Report that follows from the evidence."""
        return grant(self.evidence, self.problem.until)

    @property
    def is_traced(self) -> bool:
        """Whether there are components, and all of them are known from end to end."""
        return bool(len(self.report.traced) and self.report.traced.all())

    def even(self, deadline: float) -> tuple[Candidates, bool]:
        """Return solutions spread evenly over all components in random order, and whether there was time for all.

        Raises
        ------
        ConfigurationError
            If the requested spacing needs more than `max_solutions`.
        """
        problem, spacing = self.problem, self.problem.max_spacing
        if spacing is None:
            found, in_time = self._even(problem.n, 0.0, deadline)
            return found, len(found) >= problem.n or (in_time and not problem.n_unchecked)
        check_spacing(spacing, self._n_parts(spacing), problem.n)
        if not problem.setup.constraints.branch:
            found, in_time = self._even(problem.n, spacing, deadline)
            return found, in_time and not problem.n_unchecked
        found, in_time = self._divided(problem.n, deadline, spacing)
        kept = self._allowed(found)
        kept = kept.joined(short_arcs(problem, found.q, kept.q, spacing)).pick(slice(problem.n))
        return kept, in_time and not problem.n_unchecked

    def _even(self, n: int, spacing: float, deadline: float) -> tuple[Candidates, bool]:
        problem = self.problem
        conditions = problem.allowed if problem.is_checked else None
        rows, errors, in_time = self.motions.even(problem.robot.chain, problem.task, n, spacing, deadline, conditions)
        return Candidates.solutions(rows, errors), in_time

    def covering(self, n: int, deadline: float) -> tuple[Candidates, bool]:
        """Return at most n solutions on all components, and whether they are as close as requested.

        Solutions are farther apart if n is too small. An error would be wrong here, because users of an arm with
        isolated solutions do not expect curves and do not choose a spacing.
        """
        spacing = self.problem.max_spacing
        assert spacing is not None
        is_close = self._n_parts(spacing) <= n
        found, in_time = self._divided(max(n, 0), deadline, spacing if is_close else None)
        return self._allowed(found), is_close and in_time and not self.problem.n_unchecked

    def _n_parts(self, spacing: float) -> float:
        return float(np.ceil(self.evidence.lengths / spacing).sum())

    def scattered(self, n: int, deadline: float) -> tuple[FloatArray, float, bool]:
        """Return about n random points (n, dof) on all components, and the length [rad, m] that each point represents.

        Also return whether there was time for all points. If time ran out, the points do not represent the set.
        """
        length = float(self.report.lengths.sum())
        if length <= 0.0:
            return np.empty((0, self.problem.robot.dof)), 1.0, True
        rows, errors, in_time = self.motions.scattered(self.problem.robot.chain, length / n, deadline)
        found = self._allowed(Candidates.solutions(rows, errors))
        return found.q, length / n, in_time and not self.problem.n_unchecked

    def nearest(self, near: FloatArray, n: int, deadline: float) -> tuple[Candidates, bool]:
        """Return the nearest solution of each of the nearest components, and others that divide all components evenly.

        If collisions are checked, the components are divided finely, and solutions are checked in the order of their
        distance until n of them are valid. If n is 1, this solution is then moved nearer until an obstacle stops it.
        Also return whether there was time for the search.
        """
        problem, robot, checked = self.problem, self.problem.robot, self.problem.is_checked
        most, n_others = (MOST_NEAREST, n) if n > 1 else (1, 0)
        rows, errors, in_time = self.motions.nearest(
            robot.chain,
            problem.task,
            problem.effort,
            near,
            equivalents(problem, near),
            robot.continuous,
            most,
            max(n, FINELY) if checked else n_others,
            deadline,
        )
        found = Candidates.solutions(rows, errors)
        if not checked:
            return found.pick(slice(1)) if n == 1 else found, in_time
        kept: list[Candidates] = []
        for first in range(0, len(found), CHECKED_AT_ONCE):
            kept.append(self._allowed(found.pick(slice(first, first + CHECKED_AT_ONCE))))
            if sum(map(len, kept)) >= n:
                break
            if is_past(deadline):
                in_time = False
                break
        found = functools.reduce(Candidates.joined, kept, found.pick(slice(0)))
        if n > 1:
            return found, in_time
        return problem.optimized(found.pick(slice(1)), Posture.at(robot, near), deadline)[0], in_time

    def _divided(self, n: int, deadline: float, spacing: float | None = None) -> tuple[Candidates, bool]:
        """Return solutions that divide all components, and whether there was time for all."""
        problem = self.problem
        rows, errors, in_time = self.motions.divided(problem.robot.chain, problem.task, n, spacing or 0.0, deadline)
        return Candidates.solutions(rows, errors), in_time

    def _allowed(self, found: Candidates) -> Candidates:
        return found.pick(np.flatnonzero(self.problem.allowed(found.q))) if self.problem.is_checked else found


def short_arcs(problem: Problem, q: FloatArray, known: FloatArray, spacing: float) -> Candidates:
    """Return a solution of each arc in the branch that is farther than `spacing` from known solutions (m, dof).

    Such an arc may lie between two of the solutions `q` (n, dof) that divide all components. The margin of the branch
    has a maximum on such an arc. The maximum is found by halving the intervals to both neighbours.
    """
    robot, branch = problem.robot, problem.setup.constraints.branch
    fraction, finely = seed_fraction(problem.seed), min(spacing, FINE_ARC)
    rows, owners, closed = trace_components(robot.chain, problem.task, q, finely, MOST_ON_ARCS, fraction)
    if not len(rows):
        return Candidates.solutions(rows, np.empty((2, 0)))
    before, after = np.arange(len(rows)) - 1, np.arange(len(rows)) + 1
    for number in np.unique(owners):  # ends of a curve are their own neighbours
        own = np.flatnonzero(owners == number)
        before[own[0]], after[own[-1]] = (own[-1], own[0]) if closed[number] else (own[0], own[-1])
    margins = robot.branches.margins(rows, branch)
    is_peak = (margins <= BOUNDARY) & (margins >= margins[before]) & (margins >= margins[after])
    peaks = np.flatnonzero(is_peak)
    left, middle, right = rows[before[peaks]], rows[peaks], rows[after[peaks]]
    for _ in range(ARC_HALVINGS):
        sides = [middle + 0.5 * _short_way(robot, end - middle) for end in (left, right)]
        moved, *_ = robot.chain.refine(problem.task, problem.effort, np.concatenate(sides))
        lower, upper = moved[: len(peaks)], moved[len(peaks) :]
        three = np.stack([robot.branches.margins(each, branch) for each in (lower, middle, upper)])
        best, points = three.argmax(axis=0), np.stack([left, lower, middle, upper, right])
        left, middle, right = (points[best + i, np.arange(len(peaks))] for i in range(3))
    inside = np.concatenate([middle, rows[margins > BOUNDARY]])
    apart = spacing / math.sqrt(robot.dof)  # if each joint differs by less, the distance is below `spacing`
    if len(known):
        inside = inside[~is_within(robot, inside, known, apart)]
        away = [float(distance_to(robot, known, each).min()) for each in inside]
        inside = inside[np.array(away) > spacing]
    found = problem.verified(inside, np.full(len(inside), NO_EXPERT, np.uint32)).chosen()
    return found.pick(distinct_rows(robot, found.q, apart))


def _short_way(robot: Robot, steps: FloatArray) -> FloatArray:
    return np.where(robot.continuous, (steps + np.pi) % (2.0 * np.pi) - np.pi, steps)


def no_candidates(problem: Problem) -> Candidates:
    """Return no rows."""
    return Candidates.solutions(np.empty((0, problem.robot.dof)), np.empty((2, 0)))


def nearby(problem: Problem, near: FloatArray) -> tuple[Candidates, bool]:
    """Return at most one solution close to a configuration, and whether it is proven to be the nearest one."""
    errors, _ = problem.robot.chain.verify(problem.task, near[None])
    nothing = no_candidates(problem)
    if errors[1, 0] > NEARBY * math.sqrt(len(near)):  # joints within this distance turn the tip by a smaller angle
        return nothing, False
    found, distances = _towards(problem, near[None], near)
    if not len(found) or (problem.is_checked and not problem.allowed(found.q).all()):
        return nothing, False
    chain = problem.robot.chain
    return found, chain.is_surely_nearest(found.q[0], float(distances[0]), problem.position_only)


def nearest_in_closed_form(problem: Problem, near: FloatArray) -> Candidates | None:
    """Return the solution nearest to a configuration by closed form.

    The result is None if there is no closed form, if the solution is not allowed, or if the form leaves a case
    undecided, which is rare.
    """
    form = None if problem.position_only else problem.robot.parameterised_form
    if form is None:
        return None
    robot = problem.robot
    start = problem.unwound(near)
    rows, errors, _ = form.nearest(robot.chain, problem.task, problem.effort, near, start, robot.continuous)
    if not len(rows) or (problem.is_checked and not problem.allowed(rows).all()):
        return None
    return Candidates.solutions(rows, errors)


def equivalents(problem: Problem, near: FloatArray) -> FloatArray:
    """Return 2π-equivalents (n, dof) of a configuration with continuous joints near their narrowed limits.

    Each continuous joint with narrowed limits is moved to the revolution nearest to its range. A joint has two such
    values if both ends of the range are equally near.
    """
    found = [near]
    for joint in np.flatnonzero(problem.robot.continuous & (problem.bounds[2] == 0.0)):
        ends = problem.bounds[:2, joint]
        turns = 2.0 * math.pi * np.round((ends - near[joint]) / (2.0 * math.pi))
        steps = [np.where(np.arange(len(near)) == joint, turn, 0.0) for turn in np.unique(turns)]
        found = [turned + step for turned in found for step in steps]
    return np.stack(found)


def _towards(problem: Problem, q: FloatArray, near: FloatArray) -> tuple[Candidates, FloatArray]:
    """Move configurations onto the pose, and along the self-motion to the point nearest to `near`.

    Return the configurations that reach the pose, and their distances from `near`. Collisions are not checked.
    """
    robot = problem.robot
    rows, errors, distances = nearest_on_curve(
        robot.chain, problem.task, problem.effort, problem.unwound(q), near, robot.continuous
    )
    return Candidates.solutions(rows, errors), distances
