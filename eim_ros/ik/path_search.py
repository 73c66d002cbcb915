"""Which solution of each pose makes a path of little motion: families followed along the path, and the shortest way.

Each pose is a layer of solutions. They come from the layer before, moved onto the pose, which follows every family of
solutions along the path, and from samples of some poses, which find families that begin on the way. Where solutions are
points or curves, gaps are filled by continuation, such that every solution of a family is within `cover` of one in the
layer. Then the layered graph has a path wherever there is one with steps smaller by twice that; and where it has none
even with steps larger by as much, there is none.

    shortest path: least sum over the steps of |dq|^2 + PENALTY [some joint moves farther than allowed]
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eim_ros.ik.goal import Goal
from eim_ros.ik.sampler import Sampler
from eim_ros.ik.selection import distinct_rows, is_within
from eim_ros.solver import Spread, fill_self_motions, path_reach, shortest_path

__all__ = ["PathSearch", "Reach"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

PENALTY = 1e4  # [rad^2]: of a jump; more than any sum of allowed steps
SPACING = 1.0 / 6.0  # of the solutions of a layer, as a share of the largest step
COARSER = 4.0  # the same, where each is checked for collisions, which takes a hundred times as long
COVER = 1.25  # spacings: farthest from a solution of a family to the nearest one in the layer, in any joint
FINER = 4.0  # how much denser layers become where the graph almost has a path
STEP = 0.45  # [rad, m] of continuation
MOST = 4000  # solutions of a layer
ISOLATED = 0.01  # [rad or m]: solutions that are points differ by more


@dataclass(frozen=True)
class Reach:
    """How far steps of at most the largest lead from the first pose.

    Attributes
    ----------
    n_poses : int
        Poses reached.
    nearest_miss : float
        Least step from there to a solution of the following pose [rad] or [m]; infinite if that has none, 0 if all are
        reached.
    """

    n_poses: int
    nearest_miss: float

    @classmethod
    def all(cls, n_poses: int) -> Reach:
        """Where a path was found whose steps are small enough."""
        return cls(n_poses, 0.0)


@dataclass(eq=False)
class PathSearch:
    """Solutions of the poses of one path, and the best choice of them.

    Attributes
    ----------
    sampler : Sampler
    goals : list of Goal
        One for each pose.
    largest_step : float
        Most that a joint should move from one pose to the next [rad] or [m].
    rng : numpy.random.Generator
        Advanced in place.
    n : int
        Samples for a pose; where more than one direction is free, so many solutions of a pose are followed to the next.
    deadline : float
        On the clock of `time.perf_counter` [s].
    origin : (dof,), optional
        Where the path begins.
    layers : list of (n_k, dof)
    misses : dict
        Errors [m], [rad] of the best attempt at poses of which no sample was valid.
    """

    sampler: Sampler
    goals: list[Goal]
    largest_step: float
    rng: np.random.Generator
    n: int
    deadline: float
    origin: FloatArray | None = None
    layers: list[FloatArray] = field(init=False)
    misses: dict[int, tuple[float, float]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        goal = self.goals[0]
        nothing = np.empty((0, goal.robot.dof))
        self.layers = [nothing for _ in self.goals]
        self.redundancy = goal.redundancy if goal.constraints.tolerances is None else self.goals[0].robot.dof
        self.spacing = SPACING * self.largest_step * (COARSER if goal.is_checked else 1.0)

    @property
    def out_of_time(self) -> bool:
        return time.perf_counter() >= self.deadline

    @property
    def has_gaps(self) -> bool:
        """Whether some pose has no solution."""
        return not all(map(len, self.layers))

    @property
    def is_covered(self) -> bool:
        """Whether layers hold all solutions of the families found, to within `cover`: if these are points, curves."""
        return self.redundancy <= 1

    @property
    def cover(self) -> float:
        """Farthest from a solution to the nearest one in its layer, in any joint [rad] or [m]; 0 where all are held."""
        return COVER * self.spacing if self.redundancy == 1 else 0.0

    def follow(self, sampled: Iterable[int]) -> None:
        """Fill the layers from the first to the last: what the layer before leads to, and samples of these poses."""
        own = set(sampled)
        for index in range(len(self.goals)):
            known = self.layers[index]
            before = self.layers[index - 1] if index else (known[:0] if self.origin is None else self.origin[None])
            if self.out_of_time:
                self._carry_on_alone(index)
                return
            found = [known, self._moved(before, index)]
            if index not in self.misses and (index in own or not (len(known) or len(found[1]))):
                found.append(self._samples(index))
            self.layers[index] = self._completed(index, np.concatenate(found), index in own or index == 0)

    def follow_back(self) -> None:
        """Add what families that were found later lead to on earlier poses."""
        for index in range(len(self.goals) - 2, -1, -1):
            if self.out_of_time:
                return
            known = self.layers[index]
            moved = self._moved(self.layers[index + 1], index)
            apart = max(2.0 * self.cover, ISOLATED) if self.is_covered else self.largest_step
            new = moved[~is_within(self.goals[index].robot, moved, known, apart)]
            if len(new):
                self.layers[index] = self._completed(index, np.concatenate([known, new]))

    def refine(self, poses: Iterable[int], on_path: BoolArray) -> None:
        """Make the layers of these poses denser, near the solutions (n,) on a path of slightly larger steps."""
        first = np.cumsum([0] + [len(layer) for layer in self.layers])
        spacing, cover = self.spacing / FINER, self.cover
        for index in sorted(set(poses)):
            if self.out_of_time:
                return
            marked = self.layers[index][on_path[first[index] : first[index + 1]]]
            denser = self._spread(index, self.layers[index], spacing, 3 * MOST)
            added = denser[len(self.layers[index]) :]
            near = added[is_within(self.goals[index].robot, added, marked, cover)]
            self.layers[index] = np.concatenate([self.layers[index], near])

    def best(self) -> list[FloatArray | None]:
        """A solution for each pose that has any: the shortest path."""
        chosen = shortest_path(*self._graph(), self.largest_step, PENALTY)[self._n_before :]
        pairs = zip(self.layers, chosen.tolist(), strict=True)
        return [None if number < 0 else layer[number] for layer, number in pairs]

    def reach(self, slack: float = 0.0) -> tuple[Reach, BoolArray]:
        """How far paths lead whose steps are larger than the largest by at most `slack`.

        And which solutions (n,) of all layers, one after the other, are on such a path from end to end.
        """
        on_path, n_reached, nearest = path_reach(*self._graph(), self.largest_step + slack)
        n_poses = max(n_reached - self._n_before, 0)
        nearest = 0.0 if n_poses == len(self.goals) else nearest
        return Reach(n_poses, float(nearest)), on_path[self._n_before :]

    def is_cut(self, poses: range) -> bool:
        """Whether no path leads through these successive poses, of which all layers were refined."""
        rows, counts, wraps = self._graph(poses)
        return bool(path_reach(rows, counts, wraps, self.largest_step + 2.0 * self.cover / FINER)[1] < len(counts))

    def steps(self, chosen: list[FloatArray | None]) -> FloatArray:
        """Largest motion of a joint in each step, gaps left out."""
        rows = ([] if self.origin is None else [self.origin]) + [row for row in chosen if row is not None]
        if len(rows) < 2:
            return np.empty(0)
        difference = np.diff(np.array(rows), axis=0)
        wrapped = (difference + np.pi) % (2.0 * np.pi) - np.pi
        return np.asarray(np.abs(np.where(self.sampler.robot.continuous, wrapped, difference)).max(axis=1))

    @property
    def _n_before(self) -> int:
        return 0 if self.origin is None else 1

    def _graph(self, poses: range | None = None) -> tuple[FloatArray, npt.NDArray[np.int64], BoolArray]:
        """All solutions, or those of some poses, how many each layer has, and which joints wrap."""
        layers = self.layers if poses is None else self.layers[poses.start : poses.stop]
        layers = [self.origin[None], *layers] if self.origin is not None and (not poses or not poses.start) else layers
        counts = np.array([len(layer) for layer in layers], dtype=np.int64)
        return np.concatenate(layers), counts, self.sampler.robot.continuous

    def _samples(self, index: int) -> FloatArray:
        """Valid samples of a pose."""
        goal = self.goals[index]
        samples = self.sampler.sample(
            goal.pose,
            self.n,
            int(self.rng.integers(2**31)),
            order="none",
            position_only=goal.position_only,
            position_tolerance=goal.position_tolerance,
            orientation_tolerance=goal.orientation_tolerance,
            timeout=max(0.0, self.deadline - time.perf_counter()),
            constraints=goal.constraints,
        )
        if not samples.valid.any():
            self.misses[index] = float(samples.position_error[0]), float(samples.orientation_error[0])
        return samples.positions[samples.valid]

    def _moved(self, before: FloatArray, index: int) -> FloatArray:
        """Solutions of another pose, moved onto this one."""
        if not len(before):
            return before
        if not self.is_covered and len(before) > self.n:
            before = before[self.rng.choice(len(before), self.n, replace=False)]
        moved = self.goals[index].refined(before, np.zeros(len(before), dtype=np.uint32))
        return moved.positions[moved.valid]

    def _completed(self, index: int, rows: FloatArray, is_filled: bool = True) -> FloatArray:
        """Different ones of these solutions, and where they are curves and it is asked for those between them."""
        apart = 0.85 * self.spacing if self.redundancy == 1 else ISOLATED
        rows = rows[distinct_rows(self.goals[index].robot, rows, apart)][:MOST]
        return self._spread(index, rows, self.spacing, MOST) if self.redundancy == 1 and is_filled else rows

    def _spread(self, index: int, rows: FloatArray, spacing: float, most: int) -> FloatArray:
        """These solutions, and those that divide the curves through them."""
        goal = self.goals[index]
        if not len(rows):
            return rows
        spread = Spread(STEP, spacing, 1, self.deadline)
        found = fill_self_motions(goal.robot.chain, goal.task, spread, rows, most, self.rng.random())
        if goal.is_checked:
            found = np.concatenate([rows, found[len(rows) :][goal.allowed(found[len(rows) :])]])
        return found

    def _carry_on_alone(self, index: int) -> None:
        """Time is up: the best solution of the pose before is moved on from pose to pose, and nothing else."""
        chosen = [row for row in self.best()[:index] if row is not None]
        last = self.origin if not chosen else chosen[-1]
        for pose in range(index, len(self.goals)):
            if last is None:
                return
            moved = self.goals[pose].refined(last[None], np.zeros(1, dtype=np.uint32))
            if moved.valid[0] and not len(self.layers[pose]):
                self.layers[pose] = moved.positions
            last = moved.positions[0]
