"""Distributions on the exact set of solutions: uniform, of the model, or of a cost and a temperature.

"uniform" has the same density everywhere: by length, area or volume with joints scaled by their ranges, of points each
as often. "model" has the density of the model, p(q | y), restricted to the set and normalised there,

    p(q) / int_set p(q) du,    of points p(q) / sum_i p(q_i),

so that what was learned, such as which way the elbow points, is kept in its proportions by solutions that are exact;
samples of the model that are moved onto the pose are not distributed so. A cost c and a temperature T have the density
exp(-c(q) / T), normalised likewise; "posture" is the cost of a preferred posture.

Curves are divided as a whole, points are all known; of more dimensions slices are sampled (`slices.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConfigurationError
from eim_ros.ik.all_solutions import AllSolutions
from eim_ros.ik.goal import Goal
from eim_ros.ik.measure import ScaledMeasure
from eim_ros.ik.proposal import ConditionalMixture
from eim_ros.ik.request import SampleRequest
from eim_ros.ik.slice_proposals import MOST_FREE
from eim_ros.kinematics.deadlines import Effort
from eim_ros.numerics.arguments import as_numbers

__all__ = ["LogDensity", "check_dimensions", "log_density_of", "n_pieces", "points_of", "took_pieces"]

FloatArray = npt.NDArray[np.float64]
LogDensity = Callable[[FloatArray], FloatArray]

_effort = Effort(1e-7)  # [s] for each piece of a curve

FEWEST_PIECES, MOST_PIECES = 4000, 200_000
PIECES_EACH = 20  # for each solution wanted: two that are drawn from one piece are the same


def n_pieces(n: int, seconds: float = math.inf) -> int:
    """Into how many pieces curves are divided for n solutions, if there are so many seconds left to do it."""
    wanted = min(max(FEWEST_PIECES, PIECES_EACH * n), MOST_PIECES)
    share = min(1.0, max(seconds, 0.0) / _effort.seconds(wanted))
    return max(FEWEST_PIECES, int(share * wanted))


def took_pieces(n: int, seconds: float) -> None:
    """Take in how long it took to divide curves into n pieces [s]."""
    _effort.took(max(n, 1), seconds)


def log_density_of(wanted: SampleRequest, goal: Goal, conditional: ConditionalMixture, has_model: bool) -> LogDensity:
    """Log density of configurations (n, dof), not normalised on the set [nat]."""
    distribution, temperature = wanted.distribution, wanted.temperature
    if distribution == "uniform":
        return lambda positions: np.zeros(len(positions))
    if distribution == "model":
        if not has_model:
            raise ConfigurationError("distribution 'model' needs a model; 'uniform' needs none", distribution)
        return conditional.log_prob
    posture = wanted.preference
    if posture is not None:
        return lambda positions: -posture.costs(goal.robot, positions) / temperature
    assert callable(distribution)
    return lambda positions: -_costs(distribution, positions) / temperature


def check_dimensions(measure: ScaledMeasure) -> None:
    """`ConfigurationError` where solutions cannot be sliced: they have too many dimensions, or slices are no curves."""
    if measure.n_free > MOST_FREE:
        raise ConfigurationError(
            f"a distribution is for at most {MOST_FREE} joints more than the pose takes, here are {measure.n_free}: "
            "fix some, or leave the distribution out",
            measure.n_free,
        )
    form = measure.goal.robot.closed_form
    if measure.n_free < 0 or (measure.n_free == 0 and (form is None or measure.n_rows == 3)):
        raise ConfigurationError(
            "a distribution is for solutions that are curves or more, of an arm with more joints than the pose takes, "
            "or points in closed form: leave it out",
            None,
        )


def points_of(known: AllSolutions | None) -> FloatArray:
    """Solutions (n, dof) in closed form; `ConfigurationError` where there is none, or not all could be told."""
    if known is None or known.is_singular or not known.is_whole or len(known.pool) < known.n_all:
        raise ConfigurationError(
            "a distribution is for solutions that are curves or more, of an arm with more joints than the pose takes, "
            "or points in closed form that are all known: leave it out",
            None,
        )
    return known.pool.positions


def _costs(cost: Callable[[FloatArray], npt.ArrayLike], positions: FloatArray) -> FloatArray:
    """Of a callable, checked."""
    if not len(positions):
        return np.empty(0)
    try:
        costs = as_numbers(cost(positions.copy()))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the cost failed for configurations {positions.shape}: {error}", cost) from error
    if costs.shape != (len(positions),) or not (costs > -np.inf).all():
        raise ConfigurationError(
            f"a cost must give a number for each of configurations {positions.shape}, got shape {costs.shape}"
            + ("" if costs.shape != (len(positions),) else " with NaN or negative infinity"),
            cost,
        )
    return costs
