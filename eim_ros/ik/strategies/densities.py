"""Distributions on the exact set of solutions: uniform, of the model, or of a cost and a temperature.

"uniform" has the same density everywhere: by length, area or volume with joints scaled by their ranges, of points each
as often. "model" has the density of the model, p(q | y), restricted to the set and normalised there,

    p(q) / int_set p(q) du,    of points p(q) / sum_i p(q_i),

so that what was learned, such as which way the elbow points, is kept in its proportions by solutions that are exact;
samples of the model that are moved onto the pose are not distributed so. A cost c and a temperature T have the density
exp(-c(q) / T), normalised likewise; "posture" is the cost of a preferred posture.

Curves are divided as a whole, points are all known; of more dimensions slices are sampled (`slices.py`).

Length, area and volume on the set of solutions, each joint scaled by its range: turns and slides count alike.

In u = q / r, with ranges r of the robot's joints, solutions of a pose have the dimension of the null space of the
Jacobian J_u = J diag(r). Where joints H are held, curves remain, and each piece of them stands for a part of the set
(the co-area formula, Federer 1969, 3.2.12):

    int_set g du = int du_H int_curve g / |du_H on the set| dl,
    |du_H on the set|^2 = det(J_R J_R^T) / det(J_u J_u^T),

with J_R the columns of J_u of the other joints.

A set of solutions as places that stand for parts of it, and draws from distributions on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import as_numbers
from eim_ros.core.deadlines import Effort
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik.completeness import FoundFamilies
from eim_ros.ik.prior import ConditionalMixture
from eim_ros.ik.problem import Goal
from eim_ros.ik.request import SampleRequest
from eim_ros.ik.strategies.closed_form import AllSolutions

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

POSITION_ROWS, POSE_ROWS = 3, 6


@dataclass(frozen=True, eq=False)
class ScaledMeasure:
    """Of the solutions of a goal.

    Attributes
    ----------
    goal : Goal
    ranges : (dof,)
        By which joints are divided [rad, m]: those of the robot, whatever narrower limits the goal has.
    moving : (dof,) of bool
        Joints that the goal leaves free.
    n_rows : int
        Of the Jacobian: 3 where any orientation will do, else 6.
    """

    goal: Goal
    ranges: FloatArray
    moving: BoolArray
    n_rows: int

    @classmethod
    def of(cls, goal: Goal) -> ScaledMeasure:
        tolerances = goal.constraints.tolerances
        is_turned = tolerances is not None and bool((np.asarray(tolerances)[3:] >= math.pi).all())
        n_rows = POSITION_ROWS if goal.position_only or is_turned else POSE_ROWS
        return cls(goal, goal.robot.upper - goal.robot.lower, goal.lower < goal.upper, n_rows)

    @property
    def n_free(self) -> int:
        """Dimensions of the solutions of one pose; they may be negative."""
        return int(np.count_nonzero(self.moving)) - self.n_rows

    def jacobians(self, positions: FloatArray) -> FloatArray:
        """J_u (n, n_rows, n_moving) of configurations (n, dof)."""
        of = self.goal.robot.chain.jacobian(positions)[:, : self.n_rows]
        return np.asarray((of * self.ranges)[:, :, self.moving])

    def log_length(self, positions: FloatArray) -> FloatArray:
        """Log (n,) of the length of curves for each rad or m of them, where they are all of the set."""
        return self._log_length(positions, np.zeros(positions.shape, np.bool_))

    def log_share(self, positions: FloatArray, held: BoolArray) -> FloatArray:
        """The same of curves on which joints are held, (n, dof) of bool, times |du_H on the set|, the weight of one way
        to hold joints among all of as many: the squares of these add up to the dimension of the set.
        """
        rest = np.where(self.moving & ~held, self.ranges, 0.0)
        of_set = self._log_det(positions, np.where(self.moving, self.ranges, 0.0))
        return self._log_length(positions, held) + 0.5 * _difference(self._log_det(positions, rest), of_set)

    def log_rate(self, positions: FloatArray, rates: FloatArray, is_open: BoolArray) -> FloatArray:
        """Log (n,) of how fast open offsets change across the set of solutions, see `ToleranceBox.rates`.

        Parameters
        ----------
        positions : (n, dof)
        rates : (n, 6, 6)
            From velocities of the tip to those of the offsets.
        is_open : (6,) of bool
            Offsets that have a tolerance; the others are zero everywhere.
        """
        rows = slice(self.n_rows)
        of_offsets = rates[:, rows, rows] @ self.jacobians(positions)
        exact = of_offsets[:, ~is_open[rows]]
        with np.errstate(divide="ignore", invalid="ignore"):
            grams = (np.linalg.slogdet(each @ each.transpose(0, 2, 1))[1] for each in (of_offsets, exact))
            return np.asarray(0.5 * (next(grams) - next(grams)))

    def _log_length(self, positions: FloatArray, held: BoolArray) -> FloatArray:
        scales = np.where(self.moving & ~held, self.ranges, 0.0)
        scaled, plain = self._log_det(positions, scales), self._log_det(positions, np.sign(scales))
        return np.asarray(0.5 * _difference(scaled, plain) - np.log(np.where(scales > 0.0, scales, 1.0)).sum(axis=-1))

    def _log_det(self, positions: FloatArray, scales: FloatArray) -> FloatArray:
        weights = np.broadcast_to(scales, positions.shape) ** 2
        return self.goal.robot.chain.gram_log_dets(positions, weights, self.n_rows)


def _difference(a: FloatArray, b: FloatArray) -> FloatArray:
    """a - b (n,) of log determinants; minus infinity where the arm is singular: no part of a surface."""
    return np.where(np.isfinite(b), a, -np.inf) - np.where(np.isfinite(b), b, 0.0)


MOST_FREE = 6  # dimensions: with more, too few of the ways to hold joints lead to any solution


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


IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Solutions drawn at random.

    Attributes
    ----------
    positions : (n, dof)
    log_prob : (n,)
        Log density of each, normalised on the set [nat].
    effective_size : float
        As many independent draws as these are worth.
    """

    positions: FloatArray
    log_prob: FloatArray
    effective_size: float


@dataclass(frozen=True, eq=False)
class MeasuredSet:
    """Places on a set.

    Attributes
    ----------
    positions : (n, dof)
        Those that satisfy the goal.
    log_mass : (n,)
        Log of the length, area, volume or number of solutions that each stands for.
    slices : (n,) of int, optional
        Which places were found together, where these are a sample of the set; None where the set was divided as a
        whole.
    families : FoundFamilies, optional
        Where the set is curves.
    is_late : bool
        Whether time was up before the sample was as large as wanted.
    is_fair : bool
        Whether places represent the set; not where time was up while it was divided.
    """

    positions: FloatArray
    log_mass: FloatArray
    slices: IntArray | None = None
    families: FoundFamilies | None = None
    is_late: bool = False
    is_fair: bool = True

    def draw(self, log_density: FloatArray, n: int, rng: np.random.Generator) -> Drawn | None:
        """n places, by log densities on the set (n_places,), which need not be normalised; None where there are none.

        From a set that was divided they are independent, and one may come more than once. From a sample they are spread
        over it (systematic resampling, Kitagawa 1996): of no place come many more than its share.
        """
        log_weights = self.log_mass + log_density
        log_total = np.logaddexp.reduce(log_weights)  # scipy's logsumexp takes as long to import as all of this package
        if not np.isfinite(log_total):
            return None
        weights = np.exp(log_weights - log_total)
        if self.slices is None:
            rows = rng.choice(len(weights), size=n, p=weights / weights.sum())
            worth = float(n)
        else:
            ends = np.cumsum(weights)
            rows = np.searchsorted(ends, (np.arange(n) + rng.random()) / n * ends[-1], side="right")
            rows = rng.permutation(np.minimum(rows, len(weights) - 1))
            with np.errstate(divide="ignore"):
                size = effective_size(np.log(np.bincount(self.slices, weights)))
            worth = n * size / (n + size)  # variances of draws from the slices, and of these, add up
        return Drawn(self.positions[rows], log_density[rows] - log_total, worth)


def effective_size(log_weights: FloatArray) -> float:
    """(sum w)^2 / sum w^2 of the weights of slices, whose places are found together (Kong 1992); 0 of none."""
    log_sums = [np.logaddexp.reduce(power * log_weights) for power in (1, 2)]
    return float(np.exp(2.0 * log_sums[0] - log_sums[1])) if np.isfinite(log_sums[0]) else 0.0
