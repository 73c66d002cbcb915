"""All solutions of a pose of an arm that has a closed form: none is searched for, and their number is known.

Configurations that differ by whole turns of joints are counted apart where limits allow for more than one turn. There
may be very many of them, so they are enumerated from the preferred ones on, as many as are wanted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.core.deadlines import NEVER
from eim_ros.ik.candidates import Pool
from eim_ros.ik.order import Ranking
from eim_ros.ik.problem import Goal
from eim_ros.ik.request import SampleRequest
from eim_ros.ik.strategies.restarts import DISTINCT_TOLERANCE
from eim_ros.solver import NO_EXPERT, ClosedForm, windings

FloatArray = npt.NDArray[np.float64]

SEVEN_JOINTS = 7
MOST_RANKED = 10_000  # windings among which the best are looked for, where the order is not that of their enumeration


@dataclass(frozen=True, eq=False)
class AllSolutions:
    """What a closed form says of a pose.

    Attributes
    ----------
    pool : Pool
        Solutions that satisfy the goal, verified: as many as were wanted, or some more to choose among.
    n_all : float
        How many there are, whole turns included.
    is_singular : bool
        Whether the arm is singular in some solution, so that joints may turn while the tip stays: then there are
        infinitely many, unless limits exclude these. `pool` and `n_all` are of those that stand alone, and of one of
        each family of the others.
    is_whole : bool
        Whether there are no others. Unknown where the axes of the arm are not quite such that there is a closed form,
        as of rounded descriptions and calibrated arms, and two roots of the arm next to it are about to meet.
    in_time : bool
        Whether there was time to enumerate as many as were wanted.
    """

    pool: Pool
    n_all: float
    is_singular: bool
    is_whole: bool
    in_time: bool = True


def has_closed_form(goal: Goal, wanted: SampleRequest) -> bool:
    """Whether the arm, and what is asked of it, have a closed form."""
    if goal.position_only or goal.constraints.tolerances is not None or not wanted.distinct:
        return False
    return _closed_form(goal) is not None


def all_solutions(goal: Goal, wanted: SampleRequest, ranking: Ranking) -> AllSolutions | None:
    """The solutions that a request asks for; None where the arm, or what is asked of it, has no closed form.

    They come by the cost of their turns: the distance to `near`, the cost of the posture, or without either each root
    in the turn that is nearest to the middle of the limits, and then further turns of all.
    """
    if not has_closed_form(goal, wanted):
        return None
    form = _closed_form(goal)
    assert form is not None
    chain, task = goal.robot.chain, goal.task
    roots = form.roots(chain, task, DISTINCT_TOLERANCE)
    reference, weights, most = _turn_cost(goal, wanted, ranking)
    deadline = goal.deadline
    rows, errors, sources, n_all = roots.windings(chain, task, reference, weights, most, deadline)
    if goal.is_checked or (wanted.n < n_all and ranking.is_fair):
        rows, _, sources, _ = roots.windings(
            chain, task, None, weights, len(roots), NEVER
        )  # each root, before further turns
        first = np.sort(np.unique(sources, return_index=True)[1])
        kept = roots.positions[sources[first]]
        if goal.is_checked:  # a whole turn changes nothing
            kept = kept[goal.allowed(rows[first])]
        if wanted.n < len(kept) and ranking.is_fair:
            kept = kept[np.random.default_rng(wanted.random_seed).permutation(len(kept))]
        rows, errors, _, n_all = windings(chain, task, kept, reference, weights, most, deadline)
    n = len(rows)
    pool = Pool(rows, errors[0], errors[1], np.ones(n, np.bool_), np.full(n, NO_EXPERT, np.uint32))
    in_time = n >= min(most, n_all) and not goal.n_unchecked
    return AllSolutions(pool, n_all, roots.is_singular, roots.is_whole, in_time)


def _closed_form(goal: Goal) -> ClosedForm | None:
    """Of the robot, or of what remains of it while a joint is held that the goal leaves a single value."""
    robot = goal.robot
    if robot.dof != SEVEN_JOINTS or not goal.narrows:
        return robot.closed_form
    forms = (robot.closed_form_holding(int(joint)) for joint in np.flatnonzero(goal.lower == goal.upper))
    return next((form for form in forms if form is not None), None)


def _turn_cost(goal: Goal, wanted: SampleRequest, ranking: Ranking) -> tuple[FloatArray | None, FloatArray | None, int]:
    """Of windings: the configuration (dof,) from which on they come, the weight of each joint, and how many."""
    criterion = ranking.criterion
    if criterion == "posture" and wanted.preference is not None:
        return *wanted.preference.of(goal.robot), wanted.n
    most = wanted.n if criterion in ("distance", "") else max(wanted.n, MOST_RANKED)
    return wanted.reference, None, most
