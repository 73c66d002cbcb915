"""A set of solutions of more than one dimension, sampled by slices: curves and points on which nothing is left out.

A slice holds joints at random, and of a goal with tolerances the pose at a random place within them, until what is
left are curves, which are traced from end to end, or points in closed form. Each place on them stands for a known part
of the set, its *mass*: the length around it, times how much of the set that stands for, by the probability of the slice
(`measure.py`, `slice_proposals.py`). Sums over the places of all slices are integrals over the set on average, whatever
the basins of restarts are; solutions that restarts lead to, or samples of a model moved onto the pose, are not
distributed so. Like the random linear spaces of Breiding and Marigliano 2020, "Random points on an algebraic manifold",
along the axes of joints.

Which joints are held where, for solutions of more than one dimension to become curves that can be traced.

As many joints are held as there are dimensions beyond one. A way H to hold joints is drawn in proportion to the mean
of |du_H on the set|^2 over known solutions, see `measure.py`: joints that solutions leave little room are seldom held.
Where they are held is uniform, or where a distribution is wanted that prefers some solutions mostly near known ones
of these. Whatever is proposed, its density is known and divided by, so that nothing depends on it but the time taken.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from eim_ros.core.deadlines import is_past
from eim_ros.ik.completeness import Completeness
from eim_ros.ik.order import UNORDERED, Ranking
from eim_ros.ik.problem import Goal
from eim_ros.ik.request import SampleRequest
from eim_ros.ik.strategies.closed_form import MOST_RANKED, all_solutions
from eim_ros.ik.strategies.densities import POSITION_ROWS, MeasuredSet, ScaledMeasure, effective_size
from eim_ros.kinematics.tolerances import ToleranceBox
from eim_ros.solver import NO_EXPERT, SelfMotions, Task

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST_DETERMINANTS = 100_000  # of known solutions, for all ways to hold joints
EVEN_WAYS = 0.1  # share of ways that are all as likely
NEAR_SHARE = 0.7  # of what is held near known solutions, where some are preferred
BANDWIDTH = 0.2  # of these distributions, as a share of the rule for a single normal one: there are several modes
LEAST_WIDTH = 0.02  # of the distribution around one of them, as a share of a joint's range


@dataclass(frozen=True, eq=False)
class SliceProposals:
    """A distribution of held joints.

    Attributes
    ----------
    lower, widths : (dof,)
        Limits of what may be held, and how far they are apart [rad, m].
    ranges : (dof,)
        Of the robot's joints [rad, m].
    ways : (n_ways, n_held) of int
        Joints that are held.
    probabilities : (n_ways,)
    near : (n_near, dof)
        Solutions near which joints are held; of none they are held anywhere.
    deviations : (dof,)
        Of normal distributions around these [rad, m].
    """

    lower: FloatArray
    widths: FloatArray
    ranges: FloatArray
    ways: IntArray
    probabilities: FloatArray
    near: FloatArray
    deviations: FloatArray

    @classmethod
    def of(cls, measure: ScaledMeasure, known: FloatArray, near: FloatArray) -> SliceProposals:
        """From known solutions (n, dof), and the preferred ones among them (n_near, dof)."""
        goal, joints = measure.goal, np.flatnonzero(measure.moving)
        ways = np.array(list(itertools.combinations(range(len(joints)), max(measure.n_free - 1, 0))), dtype=np.int64)
        probabilities = np.ones(len(ways))
        if ways.size and len(known):
            probabilities = _mean_squares(measure, known[: MOST_DETERMINANTS // len(ways) + 1], ways)
        probabilities = (1.0 - EVEN_WAYS) * probabilities / probabilities.sum() + EVEN_WAYS / len(ways)
        widths, deviations = goal.upper - goal.lower, np.zeros_like(measure.ranges)
        anywhere = cls(goal.lower, widths, measure.ranges, joints[ways], probabilities, near[:0], deviations)
        return anywhere.close_to(near) if len(near) else anywhere

    def close_to(self, near: FloatArray) -> SliceProposals:
        """The same with joints held mostly near other solutions (n_near, dof) (Silverman 1986, 4.3.2)."""
        n_held = self.ways.shape[1]
        factor = BANDWIDTH * (4.0 / ((n_held + 2.0) * len(near))) ** (1.0 / (n_held + 4.0))
        deviations = np.maximum(factor * near.std(axis=0), LEAST_WIDTH * self.ranges)
        return replace(self, near=near, deviations=deviations)

    def draw(self, rng: np.random.Generator) -> tuple[IntArray, FloatArray, float]:
        """Joints (n_held,) to hold, where [rad, m], and the log of the probability of these joints times the density of
        where, in shares of their ranges.
        """
        way = int(rng.choice(len(self.ways), p=self.probabilities))
        joints = self.ways[way]
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
            around = float(peak * np.exp(-0.5 * (away**2).sum(axis=1)).mean())
            density = (1.0 - NEAR_SHARE) * density + NEAR_SHARE * around
        return joints, values, float(np.log(density * self.probabilities[way]))


def _mean_squares(measure: ScaledMeasure, known: FloatArray, ways: IntArray) -> FloatArray:
    """Mean over solutions of |du_H on the set|^2 (n_ways,): minors of the projection onto the null space of J_u."""
    jacobians = measure.jacobians(known)
    projections = np.eye(jacobians.shape[2]) - np.linalg.pinv(jacobians) @ jacobians
    minors = projections[:, ways[:, :, None], ways[:, None, :]]
    return np.asarray(np.maximum(np.linalg.det(minors), 0.0).mean(axis=0))


LogDensity = Callable[[FloatArray], FloatArray]

AT_ONCE = 32  # slices between two looks at the clock
SPACING, FINE_SPACING = 0.5, 0.15  # [rad, m]: between places on a curve, on average; where some are preferred
SIZE_EACH = 4.0  # effective size of the slices, for each solution wanted, if there is time
LEAST_SIZE = 64.0  # the same in all, however few are wanted: weights of fewer slices are not to be trusted
FEWEST_TO_LEARN, POOR = 128, 0.1  # slices, and their effective share below which later ones are held near the likely
N_LIKELY = 2000
MOST_SLICES = 100_000
FRUITLESS_SLICES = 1000  # at first, without any solution
NO_TOLERANCES, NO_BOUND = np.empty(0), 1.0
LATEST = 0.02  # [s] after the deadline, until when a round that has begun may end


@dataclass(eq=False)
class Slices:
    """Slices of the solutions of a goal.

    Attributes
    ----------
    measure : ScaledMeasure
    proposals : SliceProposals
    wanted : SampleRequest
    log_density : callable
        Of the distribution wanted, of configurations (n, dof), not normalised.
    rng : numpy.random.Generator
    """

    measure: ScaledMeasure
    proposals: SliceProposals
    wanted: SampleRequest
    log_density: LogDensity
    rng: np.random.Generator
    _box: ToleranceBox = field(init=False)
    _spacing: float = field(init=False)

    def __post_init__(self) -> None:
        goal = self.measure.goal
        farthest = goal.robot.reach + float(np.linalg.norm(goal.pose[:3, 3]))
        self._box = ToleranceBox.of(goal.pose, goal.constraints.tolerances, farthest)
        self._spacing = FINE_SPACING if len(self.proposals.near) else SPACING
        self._box.widest[self.measure.n_rows :] = 0.0

    def run(self, deadline: float) -> tuple[MeasuredSet, FloatArray]:
        """Slices until draws from them are almost as good as independent ones, or until a time of `perf_counter` [s].

        Also the log densities (n,) of their places.
        """
        size = max(SIZE_EACH * float(self.wanted.n), LEAST_SIZE)
        rounds: list[_Round] = []
        sums, is_late, n_to_learn, is_preferring = np.empty(0), False, FEWEST_TO_LEARN, len(self.proposals.near) > 0
        while effective_size(sums) < size:
            is_late = time.perf_counter() >= deadline
            if is_late or len(sums) >= (MOST_SLICES if np.isfinite(sums).any() else FRUITLESS_SLICES):
                break
            following = self._round(len(sums), deadline)
            if following is None:
                is_late = True
                break
            rounds.append(following)
            sums = np.concatenate([sums, rounds[-1].log_sums(len(sums))])
            if len(sums) == n_to_learn and 0.0 < effective_size(sums) < POOR * n_to_learn and is_preferring:
                self.proposals = self.proposals.close_to(_likely(rounds, self.rng))
                rounds, sums, n_to_learn = [], np.empty(0), 2 * n_to_learn
        positions = np.concatenate([np.empty((0, self.measure.goal.robot.dof)), *(each.positions for each in rounds)])
        log_mass = np.concatenate([np.empty(0), *(each.log_mass for each in rounds)]) - np.log(max(len(sums), 1))
        slices = np.concatenate([np.empty(0, np.int64), *(each.slices for each in rounds)])
        densities = np.concatenate([np.empty(0), *(each.log_density for each in rounds)])
        is_late &= effective_size(sums) < float(self.wanted.n)
        return MeasuredSet(positions, log_mass, slices, None, is_late), densities

    def _round(self, first: int, deadline: float) -> _Round | None:
        """Some slices, numbered from the first on; None where there is no time to find all that is on one of them."""
        goal, measure, rng, box = self.measure.goal, self.measure, self.rng, self._box
        held, rates = np.zeros((AT_ONCE, goal.robot.dof), np.bool_), np.zeros((AT_ONCE, 6, 6))
        log_probability, is_open = np.zeros(AT_ONCE), box.widest > 0.0
        offsets = box.drawn(AT_ONCE, rng)
        poses = box.poses(offsets) if is_open.any() else np.repeat(goal.pose[None], AT_ONCE, axis=0)
        found: list[FloatArray] = []
        for k, (pose, offset) in enumerate(zip(poses, offsets, strict=True)):
            if is_past(deadline + LATEST):
                return None
            joints, values, log_probability[k] = self.proposals.draw(rng)
            held[k, joints] = True
            found.append(
                self._slice(pose, joints, values, deadline + LATEST)
                if box.is_inside(offset)
                else values[:0].reshape(0, goal.robot.dof)
            )
            rates[k] = box.rates(offset) if is_open.any() else 0.0
        if is_past(deadline + LATEST):  # the last slice may be cut
            return None
        positions = np.concatenate(found)
        slices = np.repeat(np.arange(AT_ONCE), [len(each) for each in found])
        log_mass = np.log(2.0 * box.widest[is_open]).sum() - log_probability[slices]
        if measure.n_free > 0:
            log_mass = log_mass + measure.log_share(positions, held[slices]) + np.log(self._spacing / measure.n_free)
        if is_open.any():
            log_mass = log_mass - measure.log_rate(positions, rates[slices], is_open)
        valid = goal.verified(positions, np.full(len(positions), NO_EXPERT, np.uint32)).valid
        kept = np.flatnonzero(valid & np.isfinite(log_mass))
        positions = positions[kept]
        return _Round(positions, log_mass[kept], self.log_density(positions), first + slices[kept])

    def _slice(self, pose: FloatArray, joints: IntArray, values: FloatArray, deadline: float) -> FloatArray:
        """Solutions (n, dof) of a pose with joints held: points, or places on curves, about a spacing apart."""
        measure, goal = self.measure, self.measure.goal
        chain, bounds = goal.robot.chain, goal.bounds.copy()
        if measure.n_free == 0:
            return self._points(pose)
        if (values < bounds[0, joints]).any() or (values > bounds[1, joints]).any():
            return np.empty((0, goal.robot.dof))
        bounds[:2, joints], bounds[2, joints] = values, 0.0
        errors = goal.position_tolerance, goal.orientation_tolerance
        task = Task(bounds, pose, measure.n_rows == POSITION_ROWS, NO_TOLERANCES, *errors)
        motions = SelfMotions(chain, task, float(self.rng.random()))
        motions.search(chain, goal.effort(), Completeness().confidence, NO_BOUND, deadline)
        return motions.scattered(chain, self._spacing, deadline)[0]

    def _points(self, pose: FloatArray) -> FloatArray:
        goal = self.measure.goal
        exactly = replace(goal.constraints, tolerances=None)
        there = Goal(
            goal.robot, pose, False, goal.position_tolerance, goal.orientation_tolerance, exactly, goal.deadline
        )
        everything = replace(self.wanted, distribution=None, distinct=True, n=max(self.wanted.n, MOST_RANKED))
        known = all_solutions(there, everything, Ranking(UNORDERED))
        return np.empty((0, goal.robot.dof)) if known is None else known.pool.positions


def _likely(rounds: list[_Round], rng: np.random.Generator) -> FloatArray:
    """Places (N_LIKELY, dof) drawn by their weights."""
    log_weights = np.concatenate([each.log_mass + each.log_density for each in rounds])
    weights = np.exp(log_weights - log_weights.max())
    rows = rng.choice(len(weights), size=N_LIKELY, p=weights / weights.sum())
    return np.concatenate([each.positions for each in rounds])[rows]


@dataclass(frozen=True, eq=False)
class _Round:
    """Places (n, dof) of some slices, the log mass and density of each (n,), and its slice (n,)."""

    positions: FloatArray
    log_mass: FloatArray
    log_density: FloatArray
    slices: IntArray

    def log_sums(self, first: int) -> FloatArray:
        """Log weights (AT_ONCE,) of the slices from the first on."""
        log_weights = self.log_mass + self.log_density
        most = log_weights.max(initial=-np.inf)
        if most == -np.inf:
            return np.full(AT_ONCE, -np.inf)
        weights = np.bincount(self.slices - first, np.exp(log_weights - most), AT_ONCE)
        with np.errstate(divide="ignore"):
            return np.asarray(most + np.log(weights))
