"""Solutions of an arm with a closed form. No search is needed, and the number of solutions is known.

Every arm with six joints has a closed form if at most one of them is prismatic. If axes intersect or are parallel in
the usual ways, answers of the form are certified. All other arms have the general form, which is solved by elimination.
Arms with fewer joints are completed by virtual joints. A measured noise level bounds the number of solutions of the
general form, so its answers are complete, but not certified. If a certificate is requested, the elimination is repeated
with twice the precision and bounds of all errors. A certificate is impossible if all eliminations of an arm are
degenerate.

Solutions that differ by revolutions of joints count separately if the limits allow more than one revolution. There can
be many such solutions, so only the requested number is enumerated, starting with the preferred ones.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from eim_ros.core.arrays import FloatArray, IntArray
from eim_ros.core.deadlines import NEVER, is_past
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.parallel import generator, seed_fraction
from eim_ros.ik.candidates import Batch, Candidates, Outcome, Rows
from eim_ros.ik.completeness import CompletenessReport, grant, grant_points
from eim_ros.ik.messages import code_and_message
from eim_ros.ik.order import distinct_rows
from eim_ros.ik.prior import Prior
from eim_ros.ik.problem import Found, Problem
from eim_ros.ik.request import MAX_SOLUTIONS, Covering, Draws, Proposals, Spread
from eim_ros.ik.revolutions import in_revolution_of
from eim_ros.ik.strategies.densities import ScaledMeasure, WeightedPoints, draw, log_density_of
from eim_ros.ik.strategies.manifold import Curves, components_of, nearby
from eim_ros.ik.strategies.restarts import DISTINCT_TOLERANCE
from eim_ros.kinematics.virtual_joints import Target, VirtualForm
from eim_ros.solver import ClosedForm as Form
from eim_ros.solver import revolutions, swept_self_motions

SIX_JOINTS, SEVEN_JOINTS = 6, 7
# Roots that differ by less are equal up to rounding [rad]. Poses of nearly double roots differ by only the square of
# this value.
FINEST = 1e-6
LINE = 8 * 8  # length of a row in the table of `ClosedForm.solutions` [byte]
MOST_OUTCOMES = 256  # number of different outcomes that are cached
NO_CHOICES = np.empty(0)
UNSEEN = Outcome(0, ("", None))
MOST_RANKED = 10_000  # number of revolutions to rank if they are not enumerated in the requested order


class Roots(NamedTuple):
    """Solutions of a pose by a closed form.

    Attributes
    ----------
    candidates : Candidates
        Verified solutions. If some of them are selected later, there are more than requested.
    n_total : float
        Number of solutions, including those that differ by revolutions.
    is_singular : bool
        Whether the arm is singular in some solution, so that joints can turn while the tip stays still. The candidates
        then contain one solution of each such self-motion.
    is_complete : bool
        Whether it is proven that there are no other solutions, apart from further solutions on a self-motion. There is
        no proof if the form left a case undecided, or if no elimination bounds the number of solutions.
    is_certified : bool
        Whether completeness is proven without the measured noise level of an elimination.
    is_swept : bool
        Whether a closed form describes all self-motions as curves.
    has_near_duplicates : bool
        Whether some solutions differ by less than DISTINCT_TOLERANCE in every joint.
    in_time : bool
        Whether there was time to enumerate the requested number.
    n_distinct : int, optional
        Number of solutions if 2π-equivalent solutions count once; None if it is unknown.
    """

    candidates: Candidates
    n_total: float
    is_singular: bool
    is_complete: bool
    is_certified: bool
    is_swept: bool = False
    has_near_duplicates: bool = False
    in_time: bool = True
    n_distinct: int | None = None


class ClosedForm:
    """Strategy for arms with a closed form: six joints, or seven joints if one of them is fixed."""

    def applies(self, problem: Problem) -> bool:
        """Return whether the arm and the task have a closed form, and the solutions are not samples of the model."""
        if isinstance(problem.aim, Draws):
            return ScaledMeasure.of(problem).n_free == 0 and problem.tolerances is None
        return not isinstance(problem.aim, Proposals) and not problem.is_sampled and has_closed_form(problem)

    def prepare(self, problem: Problem, prior: Prior) -> Points | None:
        """Return the solver for many poses; None if the answer needs more than the roots of the closed form."""
        if isinstance(problem.aim, Draws) or closed_form(problem) is None:
            return None
        if problem.order.needs_density or (problem.order.reference is not None and isinstance(problem.aim, Covering)):
            return None
        return Points(problem)

    def solve(self, problem: Problem, known: Found | None) -> Found:
        """Return all roots. The result is final unless the arm is singular in one of them."""
        if isinstance(problem.aim, Draws):
            return self._drawn(problem)
        roots = all_roots(problem)
        assert roots is not None
        form = closed_form(problem)
        is_swept = roots.is_swept or (roots.is_singular and problem.near is not None)
        if is_swept and form is not None:
            return found_by_sweeps(problem, form, roots)
        return found_by_roots(problem, roots)

    def _drawn(self, problem: Problem) -> Found:
        log_density = log_density_of(problem)
        q = _all_points(problem)
        return draw(problem, WeightedPoints(q, np.zeros(len(q))), log_density(q))


class Points:
    """Solver that answers many poses by a closed form in one compiled call."""

    def __init__(self, problem: Problem) -> None:
        form = closed_form(problem)
        assert form is not None
        self._problem, self._form = problem, form
        self._wraps = problem.bounds[2] > 0.0
        self._has_wraps = bool(self._wraps.any())
        self._outcomes = dict[bytes, Outcome | None]()

    def solve(self, batch: Batch) -> Rows:
        """Return the solutions of poses. Poses with free angles or undecided cases have no outcome."""
        problem, n, reference = self._problem, self._problem.n, batch.reference
        fractions = [seed_fraction(seed) for seed in batch.seeds] if n == 1 and reference is None else NO_CHOICES
        options = FINEST, problem.is_certified, reference, None, n, batch.deadline, batch.n_threads, fractions
        q, errors, table = self._form.solutions(problem.robot.chain, problem.task, batch.poses, *options)
        content, counts = table.tobytes(), None
        if len(batch.seeds) == 1:
            outcome = self._outcomes.get(content, UNSEEN)
            outcomes = [self._outcome(content, table[0].tolist()) if outcome is UNSEEN else outcome]
            if len(q) > n:
                q, errors = taken(q, errors, chosen_rows(problem, int(table[0, 1]), n, batch.seeds[0], reference))
        else:
            keys = [content[at : at + LINE] for at in range(0, len(content), LINE)]
            outcomes = [self._outcomes.get(key, UNSEEN) for key in keys]
            if UNSEEN in outcomes:
                outcomes = [self._outcome(key, line) for key, line in zip(keys, table.tolist(), strict=True)]
            counts = table[:, 0].astype(np.int64)
            if (counts > n).any():
                q, errors, counts = self._fewer(q, errors, table, batch)
        if reference is not None and self._has_wraps:
            q = in_revolution_of(reference, q, self._wraps)
        return Rows(q, errors, counts, outcomes)

    def _fewer(
        self, q: FloatArray, errors: FloatArray, table: FloatArray, batch: Batch
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return at most the requested number of rows of each pose, their errors, and the number of rows (m,)."""
        problem, n, (n_rows, n_roots) = self._problem, self._problem.n, table[:, :2].T.astype(np.int64)
        firsts, counts = np.cumsum(n_rows) - n_rows, np.minimum(n_rows, n)
        rows = np.flatnonzero(np.arange(len(q)) - np.repeat(firsts, n_rows) < n)
        if problem.order.is_fair and batch.reference is None:
            starts = np.cumsum(counts) - counts
            for i in np.flatnonzero(n_roots > n).tolist():
                chosen = chosen_rows(problem, int(n_roots[i]), n, batch.seeds[i], None)
                rows[starts[i] : starts[i] + n] = firsts[i] + chosen
        return *taken(q, errors, rows), counts

    def _outcome(self, key: bytes, line: list[float]) -> Outcome | None:
        """Return the outcome for a line of the table, or None for an undecided pose. Outcomes are cached."""
        if key not in self._outcomes:
            if len(self._outcomes) >= MOST_OUTCOMES:
                self._outcomes.clear()
            self._outcomes[key] = self._new_outcome(*line)
        return self._outcomes[key]

    def _new_outcome(
        self,
        n_rows: float,
        n_roots: float,
        n_total: float,
        is_complete: float,
        is_certified: float,
        is_singular: float,
        is_swept: float,
        has_near_duplicates: float,
    ) -> Outcome | None:
        problem = self._problem
        if math.isnan(n_total) or is_singular:
            return None
        if has_near_duplicates and isinstance(problem.aim, Spread) and problem.n > 1:
            return None
        n = min(int(n_rows), problem.n)
        candidates = Candidates.solutions(np.empty((n, problem.robot.dof)), np.empty((2, n)))
        in_time = n_rows >= min(problem.n, n_total) or math.isinf(n_total)
        flags = False, bool(is_complete), bool(is_certified)
        n_distinct = _n_distinct(n_rows, n_roots, n_total, problem.order.reference)
        roots = Roots(candidates, n_total, *flags, in_time=in_time, n_distinct=n_distinct)
        found = found_by_roots(problem, roots)
        if not found.is_final or found.timed_out or (found.n_total is None and not math.isinf(n_total)):
            return None
        code, message = code_and_message(problem, found, candidates)
        return Outcome(code, (message, found.report), math.nan if math.isinf(n_total) else n_total)


def found_by_roots(problem: Problem, roots: Roots) -> Found:
    """Return the result of a closed form. It is final if there are roots, and if the arm is not singular in a root."""
    found = roots.candidates
    if math.isinf(roots.n_total):  # the reference itself is a solution
        return Found(found)
    is_certain = roots.is_complete and not roots.is_singular
    if not roots.in_time and len(found):
        return Found(found, timed_out=True, n_total=roots.n_total if is_certain and not problem.n_unchecked else None)
    is_certain = is_certain and roots.in_time
    report = report_of_points(problem, roots) if is_certain else None
    if not is_certain or not len(found):
        return Found(found, False, is_exhausted=is_certain, is_singular=roots.is_singular, report=report)
    # without the report, the number of solutions would look like a proof
    if report is None and not roots.is_certified:
        return Found(found)
    return Found(found, n_total=roots.n_total, report=report, n_distinct=roots.n_distinct)


def found_by_sweeps(problem: Problem, form: Form, roots: Roots) -> Found:
    """Return isolated solutions, and solutions on self-motions that begin at singular solutions.

    The result is final if a closed form describes all self-motions.
    """
    chain, task, deadline, aim = problem.robot.chain, problem.task, problem.deadline, problem.aim
    isolated = form.roots(chain, task, FINEST, problem.is_certified)
    points, n_points, in_time = _revolutions_of(problem, isolated.positions[: isolated.n_isolated])
    motions = swept_self_motions(form, chain, task, seed_fraction(problem.seed))
    is_exhaustive = roots.is_swept and motions.is_certified and in_time
    curves = Curves(problem, motions, components_of(motions, is_exhaustive, roots.is_certified), True)
    near, n, is_covering = problem.near, problem.n, isinstance(aim, Covering)
    if near is not None and not is_covering:
        members, has_all = curves.nearest(near, n, deadline)
        members = members.joined(nearby(problem, near)[0])
    elif is_covering:
        members, has_all = curves.covering(n - len(points), deadline)
    else:
        members, has_all = curves.even(deadline)
    found = points.joined(members)
    if not is_covering:  # a random order makes the first solutions a fair choice
        found = found.pick(generator(problem.seed).permutation(len(found)))
        found = found.pick(distinct_rows(problem.robot, found.q, DISTINCT_TOLERANCE))
    evidence = curves.evidence.with_points(n_points) if n_points <= MAX_SOLUTIONS else curves.evidence
    report = grant(replace(evidence, is_exhaustive=is_exhaustive and has_all), problem.until)
    is_final = report.is_complete and bool(len(found))
    timed_out = not (in_time and has_all) and is_past(deadline)
    free_joints = tuple(problem.robot.joint_names[joint] for joint in motions.free_joints)
    is_empty = report.is_complete and not report.n_components
    is_singular = not report.is_complete
    return Found(
        found,
        is_final or timed_out,
        timed_out,
        is_empty,
        is_singular=is_singular,
        report=report,
        free_joints=free_joints,
    )


def _revolutions_of(problem: Problem, roots: FloatArray) -> tuple[Candidates, int, bool]:
    """Return up to the requested number of allowed 2π-equivalents of roots, their number, and whether time sufficed."""
    chain, task = problem.robot.chain, problem.task
    if problem.is_checked:  # revolutions do not change collisions
        first, _, sources, _ = revolutions(chain, task, roots, None, None, len(roots), NEVER)
        each, index = np.unique(sources, return_index=True)
        roots = roots[each[problem.allowed(first[index])]]
    reference, weights, most = _revolution_cost(problem)
    rows, errors, _, n_total = revolutions(chain, task, roots, reference, weights, most, problem.deadline)
    in_time = len(rows) >= min(most, n_total) and not problem.n_unchecked
    return Candidates.solutions(rows, errors), int(min(n_total, MAX_SOLUTIONS + 1)), in_time


def has_closed_form(problem: Problem) -> bool:
    """Return whether the arm and the task have a closed form, with certificates if the request needs them."""
    form = closed_form(problem) or virtual_form(problem)
    return form is not None and (not problem.is_certified or form.certifies)


def all_roots(problem: Problem) -> Roots | None:
    """Return the requested number of solutions; None if there is no closed form.

    Solutions are ordered by the cost of their revolutions, which is the distance to `near` or the cost of the posture.
    Without such a preference, each root first appears in the revolution nearest to the middle of the limits, and then
    in further revolutions.
    """
    form = closed_form(problem)
    if form is None:
        virtual = virtual_form(problem)
        return None if virtual is None else _virtual_roots(problem, virtual)
    chain, task, deadline = problem.robot.chain, problem.task, problem.deadline
    options = chain, task, problem.pose[None], FINEST, problem.is_certified
    reference, weights, most = _revolution_cost(problem)
    n_distinct: int | None
    if problem.is_checked:  # revolutions do not change collisions, so each root is checked once
        rows, _, table = form.solutions(*options, None, weights, 0, NEVER)
        _, n_roots, _, *flags = table[0].tolist()
        each = rows[: int(n_roots)]
        kept = each[problem.allowed(each)]
        n_roots = n_distinct = len(kept)
        rows, errors, _, n_total = revolutions(chain, task, kept, reference, weights, max(most, n_roots), deadline)
    else:
        rows, errors, table = form.solutions(*options, reference, weights, most, deadline)
        n_rows, n_roots, n_total, *flags = table[0].tolist()
        n_distinct = _n_distinct(n_rows, n_roots, n_total, reference)
    in_time = (len(rows) >= min(most, n_total) or math.isinf(n_total)) and not problem.n_unchecked
    has_near_duplicates = bool(flags[-1])
    if has_near_duplicates and isinstance(problem.aim, Spread) and len(rows) > 1:
        chosen = distinct_rows(problem.robot, rows, DISTINCT_TOLERANCE)
        rows, errors, n_roots = rows[chosen], errors[:, chosen], np.count_nonzero(chosen < n_roots)
    if len(rows) > problem.n:
        rows, errors = taken(
            rows, errors, chosen_rows(problem, int(n_roots), most, problem.seed, problem.order.reference)
        )
    is_complete, is_certified, is_singular, is_swept, _ = map(bool, flags)
    evidence = is_singular, is_complete, is_certified, is_swept, has_near_duplicates
    return Roots(Candidates.solutions(rows, errors), n_total, *evidence, in_time, n_distinct)


def _n_distinct(n_rows: float, n_roots: float, n_total: float, reference: FloatArray | None) -> int | None:
    """Return the number of roots; None if it is unknown, because the nearest solutions may not include all roots."""
    return int(n_roots) if reference is None or n_rows >= n_total else None


def chosen_rows(
    problem: Problem, n_roots: int, most: int, seed: int | None, reference: FloatArray | None
) -> IntArray | slice:
    """Return the rows of solutions to keep. Without a preference, all roots have equal probabilities."""
    n = problem.n
    if n < n_roots and problem.order.is_fair and reference is None:
        if n == 1:  # a slice is faster than an index
            first = int(seed_fraction(seed) * n_roots)
            return slice(first, first + 1)
        return generator(seed).permutation(n_roots)[:n]
    return slice(most)


def taken(q: FloatArray, errors: FloatArray, rows: IntArray | slice) -> tuple[FloatArray, FloatArray]:
    """Return some of the configurations (n, dof) and of their errors (2, n)."""
    if isinstance(rows, slice):
        return q[rows], errors[:, rows]
    return q.take(rows, axis=0), errors.take(rows, axis=1)  # an index would take three times as long


def report_of_points(problem: Problem, roots: Roots) -> CompletenessReport | None:
    """Return the report on isolated solutions that are all known, or None if there are too many to list."""
    if roots.n_total > MAX_SOLUTIONS:
        return None
    return grant_points(int(roots.n_total), problem.until, roots.is_certified)


def _all_points(problem: Problem) -> FloatArray:
    """Return all solutions (n, dof); raise `ConfigurationError` if some may be unknown."""
    roots = all_roots(problem.with_aim(Spread(max(problem.n, MOST_RANKED))))
    is_certain = roots is not None and roots.is_complete and (roots.is_certified or not problem.is_certified)
    if roots is None or not is_certain or roots.is_singular or len(roots.candidates) < roots.n_total:
        raise ConfigurationError(
            "draw needs solutions that form curves or surfaces, or a closed form that finds all of them; for this arm "
            "and pose, call sample instead",
            None,
        )
    return roots.candidates.q


def closed_form(problem: Problem) -> Form | None:
    """Return the closed form of the robot. One of seven joints may be fixed by the constraints."""
    robot, setup = problem.robot, problem.setup
    if problem.position_only or setup.tolerances is not None:
        return None
    if robot.dof != SEVEN_JOINTS or not setup.is_narrowed:
        return robot.closed_form
    forms = (robot.closed_form_with_fixed(int(joint)) for joint in np.flatnonzero(setup.lower == setup.upper))
    return next((form for form in forms if form is not None), None)


def virtual_form(problem: Problem) -> VirtualForm | None:
    """Return the form of an arm with too few joints for its task, or with three prismatic joints; otherwise None."""
    robot, free = problem.robot, free_axes(problem)
    return None if free is None or robot.dof + len(free) > SIX_JOINTS else robot.form_with_virtual_joints(free)


def _virtual_roots(problem: Problem, form: VirtualForm) -> Roots:
    """Return the requested number of solutions, computed with virtual joints."""
    chain, task, deadline = problem.robot.chain, problem.task, problem.deadline
    roots = form.roots(_target(problem), FINEST, problem.is_certified)
    reference, weights, most = _revolution_cost(problem)
    kept = roots.positions
    if problem.is_checked or (problem.n < len(kept) and problem.order.is_fair):
        rows, _, sources, _ = revolutions(chain, task, kept, None, weights, len(kept), NEVER)
        first = np.sort(np.unique(sources, return_index=True)[1])
        kept = kept[sources[first]]
        if problem.is_checked:  # revolutions do not change collisions
            kept = kept[problem.allowed(rows[first])]
        if problem.n < len(kept) and problem.order.is_fair:
            kept = kept[generator(problem.seed).permutation(len(kept))]
    rows, errors, _, n_total = revolutions(chain, task, kept, reference, weights, most, deadline)
    in_time = len(rows) >= min(most, n_total) and not problem.n_unchecked
    if isinstance(problem.aim, Spread) and len(rows) > 1:
        chosen = distinct_rows(problem.robot, rows, DISTINCT_TOLERANCE)
        rows, errors = rows[chosen], errors[:, chosen]
    flags = roots.is_singular, roots.is_complete, roots.is_certified
    return Roots(Candidates.solutions(rows, errors), n_total, *flags, in_time=in_time)


def free_axes(problem: Problem) -> str | None:
    """Return the axes of the tip about which any angle is allowed, such as "z", or None for other tolerances."""
    tolerances = problem.setup.tolerances
    if tolerances is None:
        return "xyz" if problem.position_only else ""
    is_free = tolerances[3:] >= math.pi
    if problem.position_only:
        is_free[:] = True
    if tolerances[:3].any() or tolerances[3:][~is_free].any() or np.count_nonzero(is_free) not in (1, 3):
        return None
    return "".join(axis for axis, is_axis_free in zip("xyz", is_free, strict=True) if is_axis_free)


def _target(problem: Problem) -> Target:
    """Return the target for a form with virtual joints."""
    setup, robot = problem.setup, problem.robot
    tolerances = np.empty(0) if setup.tolerances is None else setup.tolerances.copy()
    if problem.position_only:
        tolerances = np.empty(0)
    errors = setup.constraints.position_tolerance, setup.constraints.orientation_tolerance
    return Target.of(problem.pose, problem.position_only, tolerances, errors, robot.dof)


def _revolution_cost(problem: Problem) -> tuple[FloatArray | None, FloatArray | None, int]:
    """Return the reference (dof,) and the joint weights for the order of revolutions, and their largest number."""
    order, n = problem.order, problem.n
    if order.criterion == "posture" and order.posture is not None:
        return *order.posture.of(problem.robot), n
    return order.reference, None, n if order.criterion in ("distance", "") else max(n, MOST_RANKED)
