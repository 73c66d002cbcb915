"""All solutions of a pose of an arm that has a closed form: none is searched for, and their number is known.

Configurations that differ by whole turns of joints are counted apart where limits allow for more than one turn. There
may be very many of them, so they are enumerated from the preferred ones on, as many as are wanted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.ik.goal import Goal
from eim_ros.ik.pool import Pool
from eim_ros.ik.ranking import Ranking
from eim_ros.ik.request import SampleRequest
from eim_ros.ik.samples import NO_EXPERT
from eim_ros.ik.search import DISTINCT_TOLERANCE
from eim_ros.solver import windings

__all__ = ["AllSolutions", "all_solutions"]

FloatArray = npt.NDArray[np.float64]

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
    """

    pool: Pool
    n_all: float
    is_singular: bool


def all_solutions(goal: Goal, wanted: SampleRequest, ranking: Ranking) -> AllSolutions | None:
    """The solutions that a request asks for; None where the arm, or what is asked of it, has no closed form.

    They come by the cost of their turns: the distance to `near`, the cost of the posture, or without either each root
    in the turn that is nearest to the middle of the limits, and then further turns of all.
    """
    form = goal.robot.closed_form
    if form is None or goal.position_only or goal.constraints.tolerances is not None or not wanted.distinct:
        return None
    chain = goal.robot.chain
    roots, is_free = form.roots(chain, goal.task, DISTINCT_TOLERANCE)
    reference, weights, most = _turn_cost(goal, wanted, ranking)
    is_by_root = reference is None
    reference = 0.5 * (goal.lower + goal.upper) if reference is None else reference
    if goal.is_checked:  # once for each root: a whole turn changes nothing
        rows, _, valid, sources, _ = windings(chain, goal.task, roots, reference, weights, True, len(roots))
        roots = roots[sources[valid][goal.allowed(rows[valid])]]
    if wanted.n < len(roots) and ranking.is_fair:
        roots = roots[np.random.default_rng(wanted.random_seed).permutation(len(roots))]
    rows, errors, valid, _, n_all = windings(chain, goal.task, roots, reference, weights, is_by_root, most)
    pool = Pool(rows, errors[0], errors[1], valid, np.full(len(rows), NO_EXPERT, np.uint32)).chosen()
    return AllSolutions(pool, n_all - (len(rows) - len(pool)), bool(is_free.any()))


def _turn_cost(goal: Goal, wanted: SampleRequest, ranking: Ranking) -> tuple[FloatArray | None, FloatArray, int]:
    """Of windings: the configuration (dof,) from which on they come, the weight of each joint, and how many."""
    weights = np.ones(goal.robot.dof)
    if ranking.criterion == "posture" and wanted.preference is not None:
        return *wanted.preference.of(goal.robot), wanted.n
    if ranking.criterion in ("distance", ""):
        return wanted.reference, weights, wanted.n
    return wanted.reference, weights, max(wanted.n, MOST_RANKED)
