"""Strategies that solve a problem, in one list: those that apply are tried in turn until a result is final.

closed_form   all roots of arms with a closed form
manifold      self-motion curves, traced from end to end, of arms with one redundant direction
slices        draws from sets of two to six dimensions
restarts      proposals of the model; and a search from seeds, for every arm and task

A new strategy is a class with the two methods of `Strategy` and an entry in `STRATEGIES`.
"""

from __future__ import annotations

from typing import Protocol

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik.problem import Covering, Draws, Found, Problem, Spread
from eim_ros.ik.strategies.closed_form import ClosedForm, has_closed_form
from eim_ros.ik.strategies.densities import ScaledMeasure
from eim_ros.ik.strategies.manifold import Manifold, forms_of_curves
from eim_ros.ik.strategies.restarts import RawProposals, Restarts
from eim_ros.ik.strategies.slices import Slices


class Strategy(Protocol):
    """A way to solve problems."""

    def applies(self, problem: Problem) -> bool:
        """Return whether the strategy suits the arm, the task and the aim."""
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
        If no strategy can give the requested guarantee, or draw from the set.
    """
    if problem.guarantee is not None:
        check_guarantee(problem)
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
                "a guarantee needs solutions that form curves, or points in closed form: an arm with one joint more "
                "than the task needs and no tolerances, or an arm of at most six joints; leave it out",
                problem.until,
            )
        return
    if any(True for _ in forms_of_curves(problem)):
        return
    raise ConfigurationError(
        "'certified' is for poses of arms with seven revolute joints, or with six joints and a closed form, without "
        "tolerances per axis; and for five joints with one free axis; guarantee=Completeness() bounds what may be "
        "missing for others",
        "certified",
    )
