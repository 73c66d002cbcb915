"""Strategies that solve a problem. Applicable strategies are tried in order until a result is final.

closed_form   all solutions of arms with a closed form
manifold      self-motion curves of arms with one redundant direction, traced from end to end
slices        draws from sets of two to six dimensions
restarts      proposals of the model, and a search from seeds for every arm and task

A new strategy is a class with the methods of `Strategy` and an entry in `STRATEGIES`.
"""

from __future__ import annotations

from typing import Protocol

from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik.candidates import Solver
from eim_ros.ik.completeness import grant_points
from eim_ros.ik.prior import Prior
from eim_ros.ik.problem import Found, Problem
from eim_ros.ik.request import Covering, Draws, Proposals, Spread
from eim_ros.ik.strategies.closed_form import ClosedForm, has_closed_form
from eim_ros.ik.strategies.densities import ScaledMeasure
from eim_ros.ik.strategies.manifold import Curves, Manifold, forms_of_curves
from eim_ros.ik.strategies.restarts import RawProposals, Restarts
from eim_ros.ik.strategies.slices import Slices

MAX_SPACING = 0.3  # [rad, m]; has no effect on the proof that there is no solution


class Strategy(Protocol):
    """Strategy for solving problems."""

    def applies(self, problem: Problem) -> bool:
        """Return whether the strategy is suitable for the arm, the task and the aim, independent of the pose."""
        ...

    def prepare(self, problem: Problem, prior: Prior) -> Solver | None:
        """Return a solver of many poses for the request of a problem; None if there is no such solver."""
        ...

    def solve(self, problem: Problem, known: Found | None) -> Found:
        """Solve a problem, given the result of earlier strategies."""
        ...


STRATEGIES: tuple[Strategy, ...] = (ClosedForm(), Manifold(), Slices(), RawProposals(), Restarts())


def find(problem: Problem) -> Found:
    """Solve a problem with the strategies that apply.

    Raises
    ------
    ConfigurationError
        If no strategy can provide the requested guarantee, or draw from the set of solutions.
    """
    if problem.guarantee is not None:
        check_guarantee(problem)
    found = _tried(problem)
    if not problem.until_deadline or found.candidates.n_valid or isinstance(problem.aim, Proposals):
        return found
    if found.timed_out or found.n_total == 0.0 or problem.n_unchecked:
        return found
    attempt = found.candidates.best().q
    if is_refuted(problem, attempt[0] if len(attempt) else None):
        return found._replace(n_total=0.0, report=grant_points(0, problem.until, is_exact=True))
    return Restarts().searched_on(problem, found)


def is_refuted(problem: Problem, attempt: FloatArray | None) -> bool:
    """Return whether it is proven that no configuration reaches the pose, given the best attempt (dof,).

    A proof is possible if the target is beyond the length of the arm, or if links at the tip collide or violate
    conditions. It is also possible for arms with a closed form, and for arms with one redundant joint whose
    self-motions can be certified. If a pose has no self-motion, the proof takes less than a millisecond for arms with a
    spherical shoulder and wrist, and 10 to 200 ms for other arms. There is no proof if the request has tolerances, or
    if configurations on self-motions reach the pose but violate other constraints.
    """
    if not problem.is_within_reach or (attempt is not None and problem.is_excluded_at_tip(attempt)):
        return True
    if has_closed_form(problem):  # the search was not for samples of a model
        return ClosedForm().solve(problem.with_aim(Covering(MAX_SPACING)), None).is_exhausted
    if problem.n_colliding or problem.n_violating or problem.n_outside_branch:
        return False
    if not any(True for _ in forms_of_curves(problem)):
        return False
    report = Curves.of(problem.with_aim(Covering(MAX_SPACING, guarantee="certified"))).report
    return report.certified and not report.n_components


def _tried(problem: Problem) -> Found:
    """Return the result of the strategies that apply."""
    known: Found | None = None
    for strategy in STRATEGIES:
        if not strategy.applies(problem):
            continue
        known = strategy.solve(problem, known)
        if known.is_final:
            return known
        if isinstance(problem.aim, Draws):  # nothing could be drawn
            found = find(problem.with_aim(Spread(problem.n)))
            size = 0.0 if found.candidates.valid.any() else None
            return found._replace(timed_out=known.timed_out or found.timed_out, effective_sample_size=size)
    raise AssertionError("the last strategy is always final")


def check_guarantee(problem: Problem) -> None:
    """Raise `ConfigurationError` if the arm and the task do not allow the requested guarantee."""
    has_points = has_closed_form(problem)
    if isinstance(problem.aim, Draws):
        has_points = ScaledMeasure.of(problem).n_free == 0 and problem.tolerances is None
    if has_points:
        return
    if problem.until is not None:
        if isinstance(problem.aim, Covering) and not problem.is_curve:
            raise ConfigurationError(
                "a guarantee needs solutions that form curves or are known in closed form: leave out the guarantee, or "
                "leave out tolerances and fix joints until at most one joint is redundant",
                problem.until,
            )
        return
    if any(True for _ in forms_of_curves(problem)):
        return
    raise ConfigurationError(
        "'certified' needs seven revolute joints, five joints with one free axis, or six joints with a closed form "
        "and no tolerances per axis. For other arms, guarantee=Completeness() bounds the share of "
        "solutions that may be missing",
        "certified",
    )
