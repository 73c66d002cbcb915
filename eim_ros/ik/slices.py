"""A set of solutions of more than one dimension, sampled by slices: curves and points on which nothing is left out.

A slice holds joints at random, and of a goal with tolerances the pose at a random place within them, until what is
left are curves, which are traced from end to end, or points in closed form. Each place on them stands for a known part
of the set, its *mass*: the length around it, times how much of the set that stands for, by the probability of the slice
(`measure.py`, `slice_proposals.py`). Sums over the places of all slices are integrals over the set on average, whatever
the basins of restarts are; solutions that restarts lead to, or samples of a model moved onto the pose, are not
distributed so. Like the random linear spaces of Breiding and Marigliano 2020, "Random points on an algebraic manifold",
along the axes of joints.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from eim_ros.ik.all_solutions import MOST_RANKED, all_solutions
from eim_ros.ik.completeness import Completeness
from eim_ros.ik.goal import Goal
from eim_ros.ik.measure import POSITION_ROWS, ScaledMeasure
from eim_ros.ik.measured_set import MeasuredSet, effective_size
from eim_ros.ik.ranking import UNORDERED, Ranking
from eim_ros.ik.request import SampleRequest
from eim_ros.ik.samples import NO_EXPERT
from eim_ros.ik.slice_proposals import SliceProposals
from eim_ros.ik.tolerance_box import ToleranceBox
from eim_ros.kinematics.deadlines import is_past
from eim_ros.solver import SelfMotions, Task

__all__ = ["Slices"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
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
