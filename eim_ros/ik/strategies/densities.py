"""Densities on the exact set of solutions: uniform, given by the model, or given by a cost and a temperature.

The density "uniform" is constant by length, area or volume, where joints are scaled by their ranges. Isolated points
have equal probabilities. The density "model" is the density p(q | y) of the model, restricted to the set and normalised
on the set:

    p(q) / int_set p(q) du,    or p(q) / sum_i p(q_i) for isolated points.

Exact solutions therefore have the learned proportions, such as the ratio of elbow up to elbow down. Samples of the
model that are moved onto the pose have other proportions. A cost c with a temperature T has the density
exp(-c(q) / T), normalised in the same way. A `Posture` is such a cost.

The set is represented by weighted points. All isolated points are known, curves are divided completely, and sets of
higher dimension are sampled by slices (`slices.py`).

Let u = q / r be the joints scaled by their ranges r, and J_u = J diag(r). The dimension of the set is the dimension of
the null space of J_u. If the joints H are fixed, the remaining solutions are curves. Each piece of a curve represents a
part of the set (co-area formula, Federer 1969, 3.2.12):

    int_set g du = int du_H int_curve g / |du_H on the set| dl,
    |du_H on the set|^2 = det(J_R J_R^T) / det(J_u J_u^T),

where J_R contains the columns of J_u for the joints that are not in H.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import BoolArray, FloatArray, IntArray
from eim_ros.core.checks import as_numbers
from eim_ros.core.deadlines import Effort, is_past, with_grace
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik.candidates import Candidates
from eim_ros.ik.completeness import CompletenessReport
from eim_ros.ik.order import Posture
from eim_ros.ik.problem import Found, Problem
from eim_ros.ik.request import Draws
from eim_ros.solver import NO_EXPERT, exp, log

LogDensity: TypeAlias = Callable[[FloatArray], FloatArray]

DRAWN_AT_ONCE = 65_536  # draws between two checks of the deadline
FEWEST_PIECES, MOST_PIECES = 4000, 200_000
PIECES_EACH = 20  # number of pieces for each draw; two draws from one piece are equal

_effort = Effort(1e-7)  # initial estimate of the time for each piece of a curve [s]

POSITION_ROWS, POSE_ROWS = 3, 6


@dataclass(frozen=True, eq=False)
class ScaledMeasure:
    """Length, area and volume on the set of solutions, where each joint is scaled by its range.

    Attributes
    ----------
    problem : Problem
    ranges : (dof,)
        Ranges of the robot's joints [rad, m]. Narrower limits of the problem are ignored.
    moving : (dof,) of bool
        Joints that can move within the limits.
    n_rows : int
        Number of rows of the Jacobian: 3 if any orientation is accepted, otherwise 6.
    """

    problem: Problem
    ranges: FloatArray
    moving: BoolArray
    n_rows: int

    @classmethod
    def of(cls, problem: Problem) -> ScaledMeasure:
        """Return the measure on the solutions of a problem."""
        tolerances, setup, robot = problem.tolerances, problem.setup, problem.robot
        is_turned = tolerances is not None and bool((tolerances[3:] >= math.pi).all())
        n_rows = POSITION_ROWS if problem.position_only or is_turned else POSE_ROWS
        return cls(problem, robot.upper - robot.lower, setup.lower < setup.upper, n_rows)

    @property
    def n_free(self) -> int:
        """Dimension of the solutions of one pose; negative if the arm has fewer joints than the task needs."""
        return int(np.count_nonzero(self.moving)) - self.n_rows

    def jacobians(self, q: FloatArray) -> FloatArray:
        """Return J_u (n, n_rows, n_moving) at configurations (n, dof)."""
        of = self.problem.robot.chain.jacobian(q)[:, : self.n_rows]
        return np.asarray((of * self.ranges)[:, :, self.moving])

    def log_length(self, q: FloatArray) -> FloatArray:
        """Return the log (n,) of the scaled length per rad or m of curves, if the curves are the complete set."""
        return self._log_length(q, np.zeros(q.shape, np.bool_))

    def log_share(self, q: FloatArray, held: BoolArray) -> FloatArray:
        """Return the log (n,) of the part of the set that curves with fixed joints H represent, per rad or m of curve.

        This part is the scaled length times |du_H on the set|, which is the weight of H among all choices of the same
        number of joints. The squares of the weights of all choices add up to the dimension of the set. `held` (n, dof)
        marks the joints H.
        """
        rest = np.where(self.moving & ~held, self.ranges, 0.0)
        of_set = self._log_det(q, np.where(self.moving, self.ranges, 0.0))
        return self._log_length(q, held) + 0.5 * _difference(self._log_det(q, rest), of_set)

    def log_rate(self, q: FloatArray, rates: FloatArray, is_open: BoolArray) -> FloatArray:
        """Return the log (n,) of the rate at which free offsets change across the set; see `ToleranceBox.rates`.

        Parameters
        ----------
        q : (n, dof)
        rates : (n, 6, 6)
            Map from velocities of the tip to rates of the offsets.
        is_open : (6,) of bool
            Offsets with a tolerance. The other offsets are zero.
        """
        rows = slice(self.n_rows)
        of_offsets = rates[:, rows, rows] @ self.jacobians(q)
        exact = of_offsets[:, ~is_open[rows]]
        with np.errstate(divide="ignore", invalid="ignore"):
            grams = (np.linalg.slogdet(each @ each.transpose(0, 2, 1))[1] for each in (of_offsets, exact))
            return np.asarray(0.5 * (next(grams) - next(grams)))

    def _log_length(self, q: FloatArray, held: BoolArray) -> FloatArray:
        scales = np.where(self.moving & ~held, self.ranges, 0.0)
        scaled, plain = self._log_det(q, scales), self._log_det(q, np.sign(scales))
        return np.asarray(0.5 * _difference(scaled, plain) - log(np.where(scales > 0.0, scales, 1.0)).sum(axis=-1))

    def _log_det(self, q: FloatArray, scales: FloatArray) -> FloatArray:
        weights = np.broadcast_to(scales, q.shape) ** 2
        return self.problem.robot.chain.gram_log_dets(q, weights, self.n_rows)


def _difference(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the difference (n,) of log determinants; minus infinity at singularities."""
    return np.where(np.isfinite(b), a, -np.inf) - np.where(np.isfinite(b), b, 0.0)


def n_pieces(n: int, seconds: float = math.inf) -> int:
    """Return the number of pieces into which curves are divided for n draws, given the remaining time [s]."""
    wanted = min(max(FEWEST_PIECES, PIECES_EACH * n), MOST_PIECES)
    share = min(1.0, max(seconds, 0.0) / _effort.seconds(wanted))
    return max(FEWEST_PIECES, int(share * wanted))


def took_pieces(n: int, seconds: float) -> None:
    """Update the estimate with the time that the division into n pieces took [s]."""
    _effort.took(n, seconds)


def log_density_of(problem: Problem) -> LogDensity:
    """Return a function that maps configurations (n, dof) to log densities [nat], which are not normalised."""
    aim = problem.aim
    assert isinstance(aim, Draws)
    density, temperature = aim.density, aim.temperature
    if isinstance(density, Posture):
        posture = density
        return lambda q: -posture.costs(problem.robot, q) / temperature
    if density == "uniform":
        return lambda q: np.zeros(len(q))
    if density == "model":
        if not len(problem.conditional.log_weights):
            raise ConfigurationError(
                "density 'model' needs a model: give one by Sampler.load, or use 'uniform'", density
            )
        return problem.conditional.log_prob
    assert callable(density)
    cost = density
    return lambda q: -_costs(cost, q) / temperature


def _costs(cost: Callable[[FloatArray], npt.ArrayLike], q: FloatArray) -> FloatArray:
    """Call a cost function, and check the shape and the values of the costs (n,)."""
    if not len(q):
        return np.empty(0)
    try:
        costs = as_numbers(cost(q.copy()))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the cost cannot be computed for configurations of shape {q.shape}: {error}", cost
        ) from error
    if costs.shape != (len(q),) or not (costs > -np.inf).all():
        found = f"an array of shape {costs.shape}" if costs.shape != (len(q),) else "NaN or negative infinity"
        raise ConfigurationError(
            f"a cost must return one number for each of {len(q)} configurations, got {found}", cost
        )
    return costs


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Solutions that represent the set of all solutions.

    Attributes
    ----------
    q : (n, dof)
    log_mass : (n,)
        Log of the length, area, volume or number of solutions that each point represents.
    slices : (n,) of int, optional
        Slice of each point, if the points are a sample of the set; None if the set was divided completely.
    report : CompletenessReport, optional
        Report on the curves, if the set consists of curves.
    is_late : bool
        Whether time ended before the sample had the requested size.
    is_fair : bool
        Whether the points represent the set. The value is False if time ended before the set was divided completely.
    """

    q: FloatArray
    log_mass: FloatArray
    slices: IntArray | None = None
    report: CompletenessReport | None = None
    is_late: bool = False
    is_fair: bool = True

    def draw(
        self, log_density: FloatArray, n: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, float] | None:
        """Draw n points with probabilities from log densities (n_points,), which need not be normalised.

        Return None if no point has a positive probability.

        Draws from a set that was divided completely are independent, and some of them may be equal. Draws from a sample
        are spread over the sample by systematic resampling (Kitagawa 1996). No point is then drawn much more often than
        its weight requires.

        Returns
        -------
        (n, dof), (n,), float
            Draws, their log densities normalised on the set [nat], and their effective sample size.
        """
        log_weights = self.log_mass + log_density
        log_total = log_sum_exp(log_weights)
        if not np.isfinite(log_total):
            return None
        weights = exp(log_weights - log_total)
        if self.slices is None:
            rows = rng.choice(len(weights), size=n, p=weights / weights.sum())
            size = float(n)
        else:
            ends = np.cumsum(weights)
            rows = np.searchsorted(ends, (np.arange(n) + rng.random()) / n * ends[-1], side="right")
            rows = rng.permutation(np.minimum(rows, len(weights) - 1))
            of_slices = effective_sample_size(log(np.bincount(self.slices, weights)))
            size = n * of_slices / (n + of_slices)  # the variances of slices and of draws add up
        return self.q[rows], log_density[rows] - log_total, size


def draw(problem: Problem, points: WeightedPoints, log_density: FloatArray) -> Found:
    """Draw from the points by their log densities (n_points,) [nat].

    The result has no log densities if nothing can be drawn, because there is no solution or the points do not represent
    the set.
    """
    n, deadline = problem.n, with_grace(problem.deadline)
    rng = np.random.default_rng(problem.seed)
    parts: list[Candidates] = []
    log_probs: list[FloatArray] = []
    size = 0.0
    for first in range(0, n, DRAWN_AT_ONCE):
        if first and is_past(deadline):
            break
        drawn = points.draw(log_density, min(DRAWN_AT_ONCE, n - first), rng)
        if drawn is None:
            nothing = Candidates(*(np.empty(0) for _ in range(5)))  # type: ignore[arg-type]  # not read
            return Found(nothing, False, timed_out=points.is_late)
        q, log_prob, size = drawn
        # collisions were checked when the points were found
        parts.append(problem.measured(q, np.full(len(q), NO_EXPERT, np.uint32)))
        log_probs.append(log_prob)
        size = _size_of_more(size, len(q), sum(map(len, parts)))
    found = Candidates.concatenate(parts)
    if not points.is_fair:
        return Found(found, timed_out=True, report=points.report, effective_sample_size=0.0)
    is_late = points.is_late or len(found) < n
    log_prob = np.concatenate(log_probs)
    return Found(found, timed_out=is_late, report=points.report, log_prob=log_prob, effective_sample_size=size)


def _size_of_more(size: float, n: int, n_more: int) -> float:
    """Return the effective sample size of `n_more` draws from points, given the size `size` of n draws."""
    of_points = 1.0 / size - 1.0 / n if size > 0.0 else np.inf
    return float(1.0 / (1.0 / n_more + max(of_points, 0.0)))


def log_sum_exp(values: FloatArray) -> float:
    """Return the log of the sum of the exponentials of values (n,); minus infinity without values.

    Unlike the functions of NumPy and SciPy, this function returns the same bits on every processor.
    """
    most = float(values.max(initial=-np.inf))
    return most + float(log(exp(values - most).sum())) if math.isfinite(most) else most


def effective_sample_size(log_weights: FloatArray) -> float:
    """Return the effective sample size (sum w)^2 / sum w^2 of weights w (Kong 1992); 0 without weights."""
    log_sums = [log_sum_exp(power * log_weights) for power in (1, 2)]
    return float(exp(2.0 * log_sums[0] - log_sums[1])) if math.isfinite(log_sums[0]) else 0.0
