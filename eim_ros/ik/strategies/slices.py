"""Draws from a set of solutions with more than one dimension, by slices that consist of known curves or points.

A slice fixes some joints at random values. For a task with tolerances, it also fixes the pose within the tolerances.
The remaining solutions are curves, which are traced from end to end, or points in closed form. Each point represents a
known part of the set, its *mass*. The mass is the length of curve around the point, times the part of the set per unit
of length, divided by the probability density of the slice (see `densities.py`). Sums over the points of all slices are
therefore unbiased estimates of integrals over the set. Restarts do not have this property, because their basins of
attraction differ in size. Samples of a model that are moved onto the pose do not have it either. The method intersects
the set with random linear spaces (Breiding and Marigliano 2020, "Random points on an algebraic manifold"). In this
module, these spaces are parallel to the axes of joints.

The number of fixed joints is the dimension of the set minus one. A choice H of joints is drawn in proportion to the
mean of |du_H on the set|^2 over known solutions, so joints with little freedom are seldom fixed. The values of these
joints are uniform, or mostly near known solutions if the requested density prefers some solutions. The mass is divided
by the density of the proposal, so proposals affect the time of the search, but not the result.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field, replace

import numpy as np

from eim_ros.core.arrays import FloatArray, IntArray, length, orthonormal_rows, product
from eim_ros.core.deadlines import is_past
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik.completeness import Completeness
from eim_ros.ik.prior import Prior
from eim_ros.ik.problem import Found, Problem
from eim_ros.ik.request import Draws, Spread
from eim_ros.ik.setup import Setup
from eim_ros.ik.strategies.closed_form import MOST_RANKED, all_roots
from eim_ros.ik.strategies.densities import (
    POSITION_ROWS,
    LogDensity,
    ScaledMeasure,
    WeightedPoints,
    draw,
    effective_sample_size,
    log_density_of,
)
from eim_ros.ik.strategies.restarts import Search
from eim_ros.kinematics.tolerances import ToleranceBox
from eim_ros.solver import NO_EXPERT, SelfMotions, Task, exp, log

FEW_KNOWN, MANY_KNOWN = 300, 2000  # numbers of known solutions for proposals, for uniform and other densities
MOST_FREE = 6  # largest number of dimensions; with more, too few choices of fixed joints lead to a solution
MOST_DETERMINANTS = 100_000  # largest number of determinants for the probabilities of all choices of joints
EVEN_CHOICES = 0.1  # share of proposals in which all choices of joints are equally likely
NEAR_SHARE = 0.7  # share of proposals near known solutions, if some are preferred
BANDWIDTH = 0.2  # width of kernels relative to the rule for a normal density; densities with several modes need less
LEAST_WIDTH = 0.02  # smallest width of a kernel, as a share of a joint's range
AT_ONCE = 32  # number of slices between two checks of the deadline
SPACING, FINE_SPACING = 0.5, 0.15  # mean distance between points on curves [rad, m], without and with preferences
SIZE_EACH = 4.0  # effective sample size of the slices for each draw, if there is time
LEAST_SIZE = 64.0  # smallest total effective sample size, because weights of fewer slices are unreliable
# proposals are derived again after this number of slices if the effective share of slices is smaller
FEWEST_TO_LEARN, POOR = 128, 0.1
N_LIKELY = 2000
MOST_SLICES = 100_000
MAX_SLICES_WITHOUT_GAIN = 1000  # number of slices without any solution that ends the search
NO_TOLERANCES, NO_BOUND = np.empty(0), 1.0
LATEST = 0.02  # longest time after the deadline for the end of a round [s]


@dataclass(frozen=True, eq=False)
class SliceProposals:
    """Proposal density for the joints that a slice fixes and for the values of these joints.

    Attributes
    ----------
    lower, widths : (dof,)
        Lower limits, and differences between the limits [rad, m].
    ranges : (dof,)
        Ranges of the robot's joints [rad, m].
    choices : (n_choices, n_held) of int
        Joints that are fixed in each choice.
    probabilities : (n_choices,)
    near : (n_near, dof)
        Solutions near which joints are fixed. If there are none, values are uniform.
    deviations : (dof,)
        Standard deviations of the kernels around these solutions [rad, m].
    """

    lower: FloatArray
    widths: FloatArray
    ranges: FloatArray
    choices: IntArray
    probabilities: FloatArray
    near: FloatArray
    deviations: FloatArray

    @classmethod
    def of(cls, measure: ScaledMeasure, known: FloatArray, near: FloatArray) -> SliceProposals:
        """Return proposals derived from known solutions (n, dof) and preferred solutions among them (n_near, dof)."""
        setup, joints = measure.problem.setup, np.flatnonzero(measure.moving)
        choices = np.array(list(itertools.combinations(range(len(joints)), max(measure.n_free - 1, 0))), dtype=np.int64)
        probabilities = np.ones(len(choices))
        if choices.size and len(known):
            probabilities = _mean_squares(measure, known[: MOST_DETERMINANTS // len(choices) + 1], choices)
        probabilities = (1.0 - EVEN_CHOICES) * probabilities / probabilities.sum() + EVEN_CHOICES / len(choices)
        widths, deviations = setup.upper - setup.lower, np.zeros_like(measure.ranges)
        anywhere = cls(setup.lower, widths, measure.ranges, joints[choices], probabilities, near[:0], deviations)
        return anywhere.close_to(near) if len(near) else anywhere

    def close_to(self, near: FloatArray) -> SliceProposals:
        """Return proposals near other solutions (n_near, dof). Widths follow Silverman's rule (1986, 4.3.2)."""
        n_held = self.choices.shape[1]
        factor = BANDWIDTH * float(exp(log(4.0 / ((n_held + 2.0) * len(near))) / (n_held + 4.0)))
        deviations = np.maximum(factor * near.std(axis=0), LEAST_WIDTH * self.ranges)
        return replace(self, near=near, deviations=deviations)

    def draw(self, rng: np.random.Generator) -> tuple[IntArray, FloatArray, float]:
        """Draw joints (n_held,) and values [rad, m] to fix them at.

        Also return the log of the probability of the joints times the density of their values. The density is with
        respect to shares of the joints' ranges.
        """
        choice = int(rng.choice(len(self.choices), p=self.probabilities))
        joints = self.choices[choice]
        widths, deviations = self.widths[joints], self.deviations[joints]
        is_near = bool(len(self.near)) and rng.random() < NEAR_SHARE
        if is_near:
            values = self.near[rng.integers(len(self.near)), joints] + deviations * rng.standard_normal(len(joints))
        else:
            values = self.lower[joints] + widths * rng.random(len(joints))
        inside = (values >= self.lower[joints]) & (values <= self.lower[joints] + widths)
        density = float(np.prod(self.ranges[joints] / widths)) * bool(inside.all())
        if len(self.near):
            away = (values - self.near[:, joints]) / deviations
            peak = np.prod(self.ranges[joints] / (np.sqrt(2.0 * np.pi) * deviations))
            around = float(peak * exp(-0.5 * (away**2).sum(axis=1)).mean())
            density = (1.0 - NEAR_SHARE) * density + NEAR_SHARE * around
        return joints, values, float(log(density * self.probabilities[choice]))


def _mean_squares(measure: ScaledMeasure, known: FloatArray, choices: IntArray) -> FloatArray:
    """Return the mean of |du_H on the set|^2 (n_choices,) over solutions, by minors of the null-space projection."""
    jacobians = measure.jacobians(known)
    rows = orthonormal_rows(jacobians)[0]
    projections = np.eye(jacobians.shape[2]) - product(rows.transpose(0, 2, 1), rows)
    minors = projections[:, choices[:, :, None], choices[:, None, :]]
    return np.asarray(np.maximum(_determinants(minors), 0.0).mean(axis=0))


def _determinants(matrices: FloatArray) -> FloatArray:
    """Return the determinants (...) of positive semidefinite matrices (..., n, n), computed by elimination."""
    rest, determinants = matrices.copy(), np.ones(matrices.shape[:-2])
    for i in range(matrices.shape[-1]):
        pivot = rest[..., i, i].copy()
        determinants *= pivot
        row = rest[..., i, :] / np.where(pivot > 0.0, pivot, 1.0)[..., None]
        rest = rest - rest[..., :, i, None] * row[..., None, :]
    return determinants


class Slices:
    """Strategy that draws from sets of two to six dimensions, or from sets with tolerances per axis."""

    def applies(self, problem: Problem) -> bool:
        """Return whether draws are requested. Strategies for curves and points are tried before this one."""
        return isinstance(problem.aim, Draws)

    def prepare(self, problem: Problem, prior: Prior) -> None:
        """Return None, because there is no compiled solver."""

    def solve(self, problem: Problem, known: Found | None) -> Found:
        """Return draws from slices, or nothing if the search finds no solution."""
        measure = ScaledMeasure.of(problem)
        log_density = log_density_of(problem)
        _check_dimensions(measure)
        if problem.until is not None:
            raise ConfigurationError(
                "a guarantee needs solutions that form curves, or points in closed form: leave out the guarantee",
                problem.until,
            )
        return draw(problem, *self._points(measure, log_density))

    def _points(self, measure: ScaledMeasure, log_density: LogDensity) -> tuple[WeightedPoints, FloatArray]:
        """Return the points of slices and their log densities (n,). Proposals are derived from known solutions."""
        problem, aim = measure.problem, measure.problem.aim
        assert isinstance(aim, Draws)
        is_model, is_uniform = aim.density == "model", aim.density == "uniform"
        search = Search.of(problem, diversity=0.0 if is_model else 1.0)
        n_known = FEW_KNOWN if is_uniform else MANY_KNOWN
        found, *_ = replace(search, n=n_known, distinct=False, oversampling=0.0).run()
        known = found.chosen().q
        if not len(known):
            return WeightedPoints(known, np.empty(0)), np.empty(0)
        rng = np.random.default_rng(problem.seed)
        near = known if is_model else known[:0]
        if not is_uniform and not is_model:
            log_weights = log_density(known)
            weights = exp(log_weights - log_weights.max())
            near = known[rng.choice(len(known), size=MANY_KNOWN, p=weights / weights.sum())]
        proposals = SliceProposals.of(measure, known, near)
        return SliceSampler(measure, proposals, log_density, rng).run(problem.deadline)


def _check_dimensions(measure: ScaledMeasure) -> None:
    """Raise `ConfigurationError` if the set has too many dimensions, or if slices are not curves."""
    if measure.n_free > MOST_FREE:
        raise ConfigurationError(
            f"draw supports at most {MOST_FREE} joints more than the task needs, but this arm has {measure.n_free}: "
            "fix some joints, or call sample",
            measure.n_free,
        )
    form = measure.problem.robot.closed_form
    if measure.n_free < 0 or (measure.n_free == 0 and (form is None or measure.n_rows == POSITION_ROWS)):
        raise ConfigurationError(
            "draw needs an arm with more joints than the task needs, or all solutions from a closed form: call sample "
            "instead",
            None,
        )


@dataclass(eq=False)
class SliceSampler:
    """Sampler of a set of solutions by slices.

    Attributes
    ----------
    measure : ScaledMeasure
    proposals : SliceProposals
    log_density : callable
        Log density of configurations (n, dof), not normalised.
    rng : numpy.random.Generator
    """

    measure: ScaledMeasure
    proposals: SliceProposals
    log_density: LogDensity
    rng: np.random.Generator
    _box: ToleranceBox = field(init=False)
    _spacing: float = field(init=False)

    def __post_init__(self) -> None:
        problem = self.measure.problem
        farthest = problem.robot.reach + float(length(problem.pose[:3, 3]))
        self._box = ToleranceBox.of(problem.pose, problem.tolerances, farthest)
        self._exact = Setup(problem.robot, replace(problem.setup.constraints, tolerances=None))
        self._spacing = FINE_SPACING if len(self.proposals.near) else SPACING
        self._box.widest[self.measure.n_rows :] = 0.0

    def run(self, deadline: float) -> tuple[WeightedPoints, FloatArray]:
        """Sample until draws are almost as good as independent draws, or until a time of `perf_counter` [s].

        Return the points and their log densities (n,).
        """
        n_wanted = float(self.measure.problem.n)
        size = max(SIZE_EACH * n_wanted, LEAST_SIZE)
        rounds: list[_Round] = []
        sums, is_late, n_to_learn, is_preferring = np.empty(0), False, FEWEST_TO_LEARN, len(self.proposals.near) > 0
        while effective_sample_size(sums) < size:
            is_late = time.perf_counter() >= deadline
            if is_late or len(sums) >= (MOST_SLICES if np.isfinite(sums).any() else MAX_SLICES_WITHOUT_GAIN):
                break
            new = self._round(len(sums), deadline)
            if new is None:
                is_late = True
                break
            rounds.append(new)
            sums = np.concatenate([sums, rounds[-1].log_sums(len(sums))])
            if len(sums) == n_to_learn and 0.0 < effective_sample_size(sums) < POOR * n_to_learn and is_preferring:
                self.proposals = self.proposals.close_to(_likely(rounds, self.rng))
                rounds, sums, n_to_learn = [], np.empty(0), 2 * n_to_learn
        q = np.concatenate([np.empty((0, self.measure.problem.robot.dof)), *(each.q for each in rounds)])
        log_mass = np.concatenate([np.empty(0), *(each.log_mass for each in rounds)]) - log(max(len(sums), 1))
        slices = np.concatenate([np.empty(0, np.int64), *(each.slices for each in rounds)])
        densities = np.concatenate([np.empty(0), *(each.log_density for each in rounds)])
        is_late &= effective_sample_size(sums) < n_wanted
        return WeightedPoints(q, log_mass, slices, None, is_late), densities

    def _round(self, first: int, deadline: float) -> _Round | None:
        """Return a round of slices, numbered from `first`; None if time ends before a slice is finished."""
        problem, measure, rng, box = self.measure.problem, self.measure, self.rng, self._box
        held, rates = np.zeros((AT_ONCE, problem.robot.dof), np.bool_), np.zeros((AT_ONCE, 6, 6))
        log_probability, is_open = np.zeros(AT_ONCE), box.widest > 0.0
        offsets = box.drawn(AT_ONCE, rng)
        poses = box.poses(offsets) if is_open.any() else np.repeat(problem.pose[None], AT_ONCE, axis=0)
        found: list[FloatArray] = []
        for k, (pose, offset) in enumerate(zip(poses, offsets, strict=True)):
            if is_past(deadline + LATEST):
                return None
            joints, values, log_probability[k] = self.proposals.draw(rng)
            held[k, joints] = True
            found.append(
                self._slice(pose, joints, values, deadline + LATEST)
                if box.is_inside(offset)
                else values[:0].reshape(0, problem.robot.dof)
            )
            rates[k] = box.rates(offset) if is_open.any() else 0.0
        if is_past(deadline + LATEST):  # the last slice may be incomplete
            return None
        q = np.concatenate(found)
        slices = np.repeat(np.arange(AT_ONCE), [len(each) for each in found])
        log_mass = log(2.0 * box.widest[is_open]).sum() - log_probability[slices]
        if measure.n_free > 0:
            log_mass = log_mass + measure.log_share(q, held[slices]) + log(self._spacing / measure.n_free)
        if is_open.any():
            log_mass = log_mass - measure.log_rate(q, rates[slices], is_open)
        valid = problem.verified(q, np.full(len(q), NO_EXPERT, np.uint32)).valid
        kept = np.flatnonzero(valid & np.isfinite(log_mass))
        q = q[kept]
        return _Round(q, log_mass[kept], self.log_density(q), first + slices[kept])

    def _slice(self, pose: FloatArray, joints: IntArray, values: FloatArray, deadline: float) -> FloatArray:
        """Return the solutions (n, dof) of a pose with fixed joints: isolated points, or points on curves."""
        measure, problem = self.measure, self.measure.problem
        chain, bounds, constraints = problem.robot.chain, problem.bounds.copy(), problem.setup.constraints
        if measure.n_free == 0:
            return self._points(pose)
        if (values < bounds[0, joints]).any() or (values > bounds[1, joints]).any():
            return np.empty((0, problem.robot.dof))
        bounds[:2, joints], bounds[2, joints] = values, 0.0
        errors = constraints.position_tolerance, constraints.orientation_tolerance
        task = Task(bounds, pose, measure.n_rows == POSITION_ROWS, NO_TOLERANCES, *errors)
        motions = SelfMotions(chain, task, float(self.rng.random()))
        motions.search(chain, problem.effort, Completeness().confidence, NO_BOUND, deadline)
        return motions.scattered(chain, self._spacing, deadline)[0]

    def _points(self, pose: FloatArray) -> FloatArray:
        """Return the solutions (n, dof) of a pose in closed form; no rows if there is no closed form."""
        problem = self.measure.problem
        aim = Spread(max(problem.n, MOST_RANKED))
        roots = all_roots(Problem(self._exact, pose, False, aim, seed=problem.seed, deadline=problem.deadline))
        return np.empty((0, problem.robot.dof)) if roots is None else roots.candidates.q


def _likely(rounds: list[_Round], rng: np.random.Generator) -> FloatArray:
    """Draw points (N_LIKELY, dof) with probabilities in proportion to their weights."""
    log_weights = np.concatenate([each.log_mass + each.log_density for each in rounds])
    weights = exp(log_weights - log_weights.max())
    rows = rng.choice(len(weights), size=N_LIKELY, p=weights / weights.sum())
    return np.concatenate([each.q for each in rounds])[rows]


@dataclass(frozen=True, eq=False)
class _Round:
    """Points (n, dof) of some slices, with their log masses (n,), log densities (n,) and slices (n,)."""

    q: FloatArray
    log_mass: FloatArray
    log_density: FloatArray
    slices: IntArray

    def log_sums(self, first: int) -> FloatArray:
        """Return the log weights (AT_ONCE,) of the slices from `first` on."""
        log_weights = self.log_mass + self.log_density
        most = log_weights.max(initial=-np.inf)
        if most == -np.inf:
            return np.full(AT_ONCE, -np.inf)
        weights = np.bincount(self.slices - first, exp(log_weights - most), AT_ONCE)
        return np.asarray(most + log(weights))
