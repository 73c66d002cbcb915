"""Paths of configurations along Cartesian poses, with small motions and as few jumps as possible.

Every pose has a layer of solutions. Moving the solutions of the previous layer onto the pose follows their self-motion
components along the path. Samples of some poses find components that begin later. If solutions are points or curves,
continuation fills gaps. Then every solution of a known component is within `cover` of a solution in the layer.

The layers form a graph. Its shortest path minimises

    sum over the steps of |dq|^2 + PENALTY [some joint moves farther than allowed].

The search has four stages:

1. Every STRIDE-th pose is sampled, and components are followed forward.
2. If the path jumps, collides or has gaps, the other poses are sampled too, and components are followed backward.
3. If the path still jumps, steps are allowed to be larger by twice `cover`. If there is no such path, every path along
   the components found jumps. Otherwise solutions are added near the relaxed path, and the test is repeated.
4. The density of the layers is doubled, with new samples. After a few times, the search begins again with other random
   numbers. It ends with a path, a proof that there is none, or the deadline.

Stage 3 is a proof if closed forms certify the components, or list all solutions and all steps between them were
checked. Further proofs are poses that no configuration reaches, and the bounds of `path_proofs`.

Joints with 2π-equivalent values are circles in the layers. The path is unrolled afterwards, see `Revolutions`.

With two or three free directions, the extra joints are first fixed at several values, so that solutions are curves.
With more, or if that fails, single solutions are moved along all poses. The best path is then smoothed with all joints,
see `PathSmoother`.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import BoolArray, FloatArray, IntArray
from eim_ros.core.checks import is_number, numbers_of
from eim_ros.core.deadlines import OutOfTime, with_grace
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import finite
from eim_ros.ik.candidates import ErrorCode
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.engine import Engine
from eim_ros.ik.order import AS_FOUND, Ordering
from eim_ros.ik.path_proofs import impossible_steps
from eim_ros.ik.path_smoothing import OBJECTIVES, Objective, PathSmoother
from eim_ros.ik.path_timing import acceleration_times, velocity_times
from eim_ros.ik.problem import Problem
from eim_ros.ik.request import Aim, Covering, Spread
from eim_ros.ik.revolutions import Revolutions, Unrolled
from eim_ros.ik.setup import Setup
from eim_ros.ik.strategies import is_refuted
from eim_ros.kinematics import Robot
from eim_ros.solver import ContinuationOptions, distinct_rows, fill_self_motions, is_within, path_reach, shortest_path

NO_EDGES = np.empty((0, 2), dtype=np.int64)
PENALTY = 1e4  # cost of a jump [rad^2], larger than any sum of allowed steps
SPACING = 1.0 / 6.0  # distance of neighbours in a layer, as a share of the largest step
COARSER = 4.0  # factor on the spacing with collision checks, which take a hundred times as long as a solution
COVER = 1.25  # largest distance to the nearest solution in the layer, in any joint, in spacings
FINER = 4.0  # factor on the density of layers near places where the graph almost has a path
STEP = 0.45  # step length of continuation [rad, m]
MOST = 4000  # largest number of solutions of a layer
ISOLATED = 0.01  # smallest difference between distinct solutions that are points [rad or m]
MOST_ROOTS = 16  # largest number of single solutions of six joints, without those that differ by revolutions
LAYER = 2**20  # larger than any layer
FEWEST_NEIGHBOURS, MOST_NEIGHBOURS = 4, 512  # solutions at both ends of a colliding step whose steps are checked, too
STEPS_AT_ONCE = 1024  # number of steps that are checked for collisions between two looks at the clock
MOVED_AT_ONCE, CHECKED_AT_ONCE = 512, 16  # number of solutions between two checks of the deadline
SEARCH_SHARE = 0.9  # share of the time for the search; after it, one solution follows the rest of the path
ROUNDING = 1e-9  # relative difference between two ways of computing a step
PAIR = 3e-9  # first estimate of the time for one edge of the graph in the shortest path [s]
MEASURED_AT = 16  # index of the pose at which this time is measured
VERIFIED = 2e-5  # time to verify one pose of the final path [s]
DOUBLINGS = 4  # number of times that the density of the layers is doubled before a search begins again
MAX_STEP = 0.3  # default of the largest change of a revolute joint between two poses [rad]
MAX_SLIDE = 0.05  # the same of a prismatic joint [m]
MOST_EXTRA = 2  # largest number of extra joints that are fixed at several values
SLICES = (0.5, 0.25, 0.75, 0.05, 0.95)  # values of one extra joint, as shares of its range
FEWER_SLICES = (0.5, 0.2, 0.8)  # the same for each of two extra joints
SLICED_SHARE = 0.6  # share of the time for paths along which the extra joints do not move


class Solver(Protocol):
    """The part of `Sampler` that the search for paths uses."""

    _setup: Setup

    @property
    def robot(self) -> Robot:
        """The arm."""
        ...

    @property
    def constraints(self) -> Constraints:
        """Conditions that every configuration satisfies."""
        ...

    @property
    def context_kind(self) -> str:
        """Kind of the model's contexts."""
        ...

    def with_constraints(self, constraints: Constraints | None = None, **changes: Any) -> Solver:
        """Return a sampler with other constraints."""
        ...

    def _engine(self, aim: Aim, order: Ordering) -> Engine: ...


@dataclass(frozen=True)
class Reach:
    """Extent of the path from the first pose on without steps that are too large.

    `nearest_miss` is the smallest step from the last pose reached to a solution of the next pose [rad] or [m]. It is
    infinite if the next pose has no solution, and 0 if all poses are reached.
    """

    n_poses: int  # number of poses reached
    nearest_miss: float

    @classmethod
    def all(cls, n_poses: int) -> Reach:
        """Return the extent of a path without large steps."""
        return cls(n_poses, 0.0)


@dataclass(eq=False)
class PathSearch:
    """Search for the solutions of all poses of one path, and for the best choice among them.

    The problem belongs to the first pose. The number n of samples of a pose is also the number of solutions that are
    moved on to the next pose if more than one direction is free. The timeout [s] begins with the construction.

    Attributes
    ----------
    layers : list of (n_k, dof)
        Solutions of each pose. Values of joints with 2π-equivalent values are in [-π, π).
    examined : (n_poses,) of bool
        Whether the search for solutions of a pose was finished in time.
    misses : dict
        Position error [m] and orientation error [rad] of the best attempt at each pose without a valid sample.
    refuted : set of int
        Poses that no configuration reaches, which is proven.
    listed : set of int
        Poses whose layer contains all solutions, which are single points.
    impossible : set of int
        Poses that are too far from the pose before for any step of the allowed size.
    """

    sampler: Solver
    problem: Problem
    poses: FloatArray  # (n_poses, 4, 4)
    max_steps: FloatArray  # (n_poses, dof), largest change of each joint from the previous pose to each [rad] or [m]
    rng: np.random.Generator
    n: int
    timeout: float
    origin: FloatArray | None = None  # (dof,), configuration before the first pose
    clock: Callable[[], float] = time.perf_counter  # function that returns the time [s]
    layers: list[FloatArray] = field(init=False)
    examined: BoolArray = field(init=False)
    misses: dict[int, tuple[float, float]] = field(init=False, default_factory=dict)
    refuted: set[int] = field(init=False, default_factory=set)
    listed: set[int] = field(init=False, default_factory=set)
    impossible: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()
        self.largest_step = float(self.max_steps.min())
        self.scale = self.largest_step / self.max_steps  # makes the largest step of all joints equal
        problem, self._problems = self.problem, dict[int, Problem]()
        nothing = np.empty((0, problem.robot.dof))
        self.layers = [nothing for _ in self.poses]
        self.examined = np.zeros(len(self.poses), dtype=np.bool_)
        self.revolutions = Revolutions.of(problem.robot, problem.bounds)
        self._bounds = self.revolutions.bounds(problem.bounds)
        self._carried: FloatArray | None = None
        self._counts, self._pair = np.zeros(len(self.poses)), PAIR
        self.redundancy = problem.redundancy if problem.tolerances is None else problem.robot.dof
        self._before = nothing if self.origin is None else self.origin[None]
        self.first_step = 1 - len(self._before)  # pose that the first step leads to
        self._blocked = [NO_EDGES for _ in self.poses]  # steps that collide: indices in the layers before and of a pose
        self._checked = [np.empty(0, dtype=np.int64) for _ in self.poses]  # all checked steps, as one number each
        self._attempts = dict[int, FloatArray]()
        self._merged = 0.0  # largest change of a step if its ends are exchanged for merged solutions [rad] or [m]
        self._certified = set[int]()  # poses whose components are all known, which is proven
        self.n_searches = 1
        self._is_free = dict[bytes, bool]()  # by the two configurations of a motion
        self.spacing = SPACING * self.largest_step * (COARSER if problem.is_checked else 1.0)
        self.impossible = set(impossible_steps(problem, self.poses, self.max_steps, self.origin).tolist())

    @property
    def deadline(self) -> float:
        """Time of the clock at which the search ends [s]. The rest is for the shortest path and its verification."""
        verifying = VERIFIED * float(np.count_nonzero(self._counts))
        return self.began + SEARCH_SHARE * self.timeout - self._choosing - verifying

    @property
    def _choosing(self) -> float:
        """Estimate of the time for one shortest path through the layers [s]."""
        return self._pair * float(self._counts[:-1] @ self._counts[1:])

    @property
    def _until(self) -> float:
        """The deadline as a time of `perf_counter` [s]."""
        return time.perf_counter() + max(0.0, self.deadline - self.clock())

    @property
    def out_of_time(self) -> bool:
        """Whether the deadline has passed."""
        return self.clock() >= self.deadline

    def problem_of(self, index: int) -> Problem:
        """Return the problem of a pose, in which joints with 2π-equivalent values are circles."""
        if index not in self._problems:
            self._problems[index] = self.problem.at(self.poses[index], self._bounds)
        return self._problems[index]

    @property
    def has_gaps(self) -> bool:
        """Whether some pose has no solution."""
        return not all(map(len, self.layers))

    @property
    def is_covered(self) -> bool:
        """Whether the layers contain all solutions of the components found, up to `cover`.

        This needs solutions that are points or curves.
        """
        return self.redundancy <= 1

    @property
    def cover(self) -> float:
        """Largest distance from a solution to the nearest one in its layer, in any joint [rad] or [m]; 0 for points."""
        return COVER * self.spacing if self.redundancy == 1 else 0.0

    def follow(self, sampled: Iterable[int]) -> None:
        """Fill the layers from first to last, from the previous layer and samples of the poses at these indices."""
        own = set(sampled)
        for index in range(len(self.poses)):
            known = self.layers[index]
            before = self.layers[index - 1] if index else self._before
            if self.out_of_time:
                if not self.examined[index]:
                    self._carry_on_alone(index)
                return
            is_examined = True
            found = [known, self._moved(before, index)]
            if index not in self.misses and (index in own or not (len(known) or len(found[1]))):
                samples, is_examined = self._samples(index)
                found.append(samples)
            self.examined[index] |= is_examined
            if index == MEASURED_AT:
                self._shortest(range(index))
            self._put(index, self._completed(index, np.concatenate(found), index in own or index == 0))

    def moved_along(self, rows: FloatArray, indices: range) -> FloatArray:
        """Return configurations (n_indices, n, dof) that rows (n, dof) lead to, each moved from pose to pose.

        They are NaN from the first pose on that a row does not reach within the limits and the largest step. A step to
        the first pose counts only if it comes from the configuration before the path.
        """
        found = np.full((len(indices), *rows.shape), np.nan)
        left = np.arange(len(rows))
        for number, index in enumerate(indices):
            if self.out_of_time or not len(left):
                break
            moved = self.problem_of(index).solved(rows, np.zeros(len(rows), dtype=np.uint32))
            motions = np.abs(self.revolutions.differences(moved.q, rows))
            largest = self.max_steps[index if indices.step > 0 else min(index + 1, len(self.poses) - 1)]
            is_free = number == 0 and self.origin is None
            kept = moved.valid & (is_free | (motions <= largest * (1.0 + ROUNDING)).all(axis=1))
            left, rows = left[kept], moved.q[kept]
            found[number, left] = rows
        return found

    def follow_back(self) -> None:
        """Follow components from last to first, because some were found after the path had passed."""
        for index in range(len(self.poses) - 2, -1, -1):
            if self.out_of_time:
                return
            known = self.layers[index]
            moved = self._moved(self.layers[index + 1], index)
            apart = max(2.0 * self.cover, ISOLATED) if self.is_covered else self.largest_step
            new = moved[~is_within(self._bounds, moved, known, apart)]
            if len(new):
                self._put(index, self._completed(index, np.concatenate([known, new])))

    def refine(self, poses: Iterable[int], on_path: BoolArray) -> None:
        """Add solutions to the layers of some poses, near the solutions (n,) that are on a relaxed path."""
        first = np.cumsum([0] + [len(layer) for layer in self.layers])
        spacing, cover = self.spacing / FINER, self.cover
        for index in sorted(set(poses)):
            if self.out_of_time:
                return
            marked = self.layers[index][on_path[first[index] : first[index + 1]]]
            denser = self._spread(index, self.layers[index], spacing, 3 * MOST)
            added = denser[len(self.layers[index]) :]
            near = added[is_within(self._bounds, added, marked, cover)]
            self._put(index, np.concatenate([self.layers[index], near]))

    def densify(self) -> None:
        """Double the number of solutions of each pose that the next searches look for."""
        self.spacing *= 0.5
        if not self.is_covered:
            self.n = min(2 * self.n, MOST)

    def best(self) -> FloatArray:
        """Return the shortest path (n_poses, dof), unrolled; NaN for poses without a solution."""
        chosen = self._shortest_free() if self._carried is None else self._carried
        has_any = ~np.isnan(chosen).any(axis=1)
        found: FloatArray = chosen.copy()
        found[has_any] = self.revolutions.unrolled(chosen[has_any], self.max_steps[has_any], self.origin)
        if self._carried is None and has_any.all() and self._is_held_back(chosen, found):
            everything = self._unrolled()
            return found if everything is None or everything.rows is None else everything.rows
        return found

    def _shortest_free(self) -> FloatArray:
        """Return the shortest path (n_poses, dof) on circles whose motions between poses do not collide.

        Steps of the shortest path that collide are blocked, until no other path has fewer jumps, or time is up. More
        and more of their neighbours are checked at the same time, because the next path often takes one of those, and
        because a search for a path takes longer than the check of a step.
        """
        poses, widths = range(len(self.poses)), np.full(len(self.poses), FEWEST_NEIGHBOURS)
        while True:
            rows, chosen = self._shortest(poses), self._chosen
            if not self.problem.avoids_collisions or self.out_of_time:
                return rows
            is_new = False
            for pose in (np.flatnonzero(self.colliding(rows)) + self.first_step).tolist():
                is_new |= self._block(pose, int(chosen[pose - 1]) if pose else 0, int(chosen[pose]), int(widths[pose]))
                widths[pose] = min(2 * widths[pose], MOST_NEIGHBOURS)
            if not is_new:  # the path is free, or no other path has fewer jumps
                return rows

    def _block(self, pose: int, start: int, end: int, width: int) -> bool:
        """Block a colliding step to a pose, and the steps between neighbours of its ends that collide.

        Return False if the step is blocked already.
        """
        if (self._blocked[pose] == (start, end)).all(axis=1).any():
            return False
        before, after = self.layers[pose - 1] if pose else self._before, self.layers[pose]
        starts, ends = self._nearest(before, start, width), self._nearest(after, end, width)
        motions = self.revolutions.differences(after[ends], before[starts, None])
        is_small = (self.scale[pose] * np.abs(motions)).max(axis=2) <= self.largest_step * (1.0 + ROUNDING)
        i, k = np.nonzero(is_small)
        codes = starts[i] * LAYER + ends[k]
        known = self._checked[pose]
        at = np.minimum(np.searchsorted(known, codes), max(len(known) - 1, 0))
        is_new = known[at] != codes if len(known) else np.ones(len(codes), dtype=np.bool_)
        i, k, codes = i[is_new], k[is_new], codes[is_new]
        collides = np.zeros(len(codes), dtype=np.bool_)
        for first in range(0, len(codes), STEPS_AT_ONCE):
            some = slice(first, first + STEPS_AT_ONCE)
            if first and self.out_of_time:
                i, k, codes, collides = i[:first], k[:first], codes[:first], collides[:first]
                break
            collides[some] = ~self.problem.is_free(before[starts[i[some]]], motions[i[some], k[some]])
        edges = np.column_stack([starts[i], ends[k]])[collides]
        self._checked[pose] = np.sort(np.concatenate([known, codes]), kind="stable")
        self._blocked[pose] = np.concatenate([self._blocked[pose], edges])
        return True

    def _nearest(self, layer: FloatArray, index: int, n: int) -> IntArray:
        """Return the indices of the n solutions of a layer that are nearest to one of them, including this one."""
        if len(layer) <= n:
            return np.arange(len(layer))
        away = (self.revolutions.differences(layer, layer[index]) ** 2).sum(axis=1)
        return np.argpartition(away, n)[:n]

    def colliding(self, rows: FloatArray) -> BoolArray:
        """Return which steps (n,) of a path (n_poses, dof) collide between two poses, though they are not too large."""
        path = np.concatenate([self._before, rows])
        motions = self.revolutions.differences(path[1:], path[:-1])
        keys = [before.tobytes() + motion.tobytes() for before, motion in zip(path, motions, strict=False)]
        scaled = (self.scale[self.first_step :] * np.abs(motions)).max(axis=1, initial=0.0)  # NaN without a solution
        is_small = scaled <= self.largest_step * (1.0 + ROUNDING)
        new = [step for step in np.flatnonzero(is_small).tolist() if keys[step] not in self._is_free]
        if new:
            is_free = self.problem.is_free(path[:-1][new], motions[new])
            self._is_free.update(zip([keys[step] for step in new], is_free.tolist(), strict=True))
        collides = [not self._is_free.get(key, True) for key in keys]
        return np.asarray(np.array(collides, dtype=np.bool_) & is_small)

    def _shortest(self, poses: range) -> FloatArray:
        """Return the shortest path (n, dof) on circles through a range of poses; NaN for poses without a solution."""
        began, graph = self.clock(), self._graph(poses)
        chosen = shortest_path(*graph, self.largest_step, PENALTY, self._blocked_edges(graph[1], poses))
        self._chosen = chosen[len(self._before) :]
        if len(poses) >= MEASURED_AT and (n_pairs := float(graph[1][:-1] @ graph[1][1:])):
            self._pair = (self.clock() - began) / n_pairs
        firsts = np.cumsum(graph[1]) - graph[1]
        rows = np.full((len(chosen), self.problem.robot.dof), np.nan)
        rows[chosen >= 0] = graph[0][(firsts + chosen)[chosen >= 0]]
        return np.asarray(rows[len(self._before) :])

    def _is_held_back(self, chosen: FloatArray, found: FloatArray) -> bool:
        """Return whether the path has no jumps on circles, but jumps because limits end the revolutions."""
        rows = np.concatenate([self._before, chosen])
        on_circles = self.revolutions.steps(rows, self.scale[self.first_step :])
        return bool(not self.is_jump(on_circles).any() and self.is_jump(self.steps(found)).any())

    def _unrolled(self, slack: float = 0.0) -> Unrolled | None:
        """Search among all 2π-equivalent values; return None if time is up or if there are too many.

        Steps may exceed the limit by `slack` [rad] or [m].
        """
        return self.revolutions.search(self.layers, self.max_steps + slack, self.origin, lambda: self.out_of_time)

    def is_found(self, rows: FloatArray) -> bool:
        """Return whether a path (n_poses, dof) has no gaps, no jumps, and no motions that collide."""
        if np.isnan(rows).any() or self.is_jump(self.steps(rows)).any():
            return False
        return not (self.problem.avoids_collisions and self.colliding(rows).any())

    def n_faults(self, rows: FloatArray) -> tuple[int, int]:
        """Return the number of gaps of a path (n_poses, dof), and of its jumps and motions that collide."""
        n_gaps, n_jumps = np.isnan(rows).any(axis=1).sum(), self.is_jump(self.steps(rows)).sum()
        n_colliding = self.colliding(rows).sum() if self.problem.avoids_collisions else 0
        return int(n_gaps), int(n_jumps + n_colliding)

    def has_impossible_pose(self) -> bool:
        """Return whether some pose is proven to have no solution."""
        for index, layer in enumerate(self.layers):
            if self.refuted or self.out_of_time:
                break
            problem = self.problem.at(self.poses[index], self.problem.bounds)
            if not len(layer) and is_refuted(problem, self._attempts.get(index)):
                self.refuted.add(index)
        return bool(self.refuted)

    def lists_no_path(self) -> bool:
        """Return whether the layers contain all solutions up to a pose that no path without jumps reaches.

        All steps of the graph that could be on such a path were checked for collisions.
        """
        reach = self.reach(self._merged)[0]
        if reach.n_poses == len(self.poses):  # on circles, but limits end the revolutions
            everything = self._unrolled(self._merged)
            if everything is None or everything.rows is not None:
                return False
            reach = Reach(everything.n_reached, everything.nearest_miss)
        return self.listed.issuperset(range(reach.n_poses + 1)) and not self.out_of_time

    def is_certified_cut(self, poses: range) -> bool:
        """Return whether no path leads through some poses, because a closed form finds no other self-motions there.

        No path must lead along the components in their layers. Collisions and other checks may leave parts of a
        component that are smaller than the spacing of the layer, so nothing is proven with them.
        """
        if not poses or self.problem.is_checked:
            return False
        aim, seed = Covering(STEP, MOST, "certified"), 0
        for index in poses:
            if index in self._certified:
                continue
            try:
                answer = self.sampler._engine(aim, AS_FOUND).answer(self.poses[index], AS_FOUND, seed, self._until)
            except ConfigurationError:  # there is no closed form
                return False
            rows = self.revolutions.on_circles(answer.q)
            if not answer.certified or not is_within(self._bounds, rows, self.layers[index], self.cover).all():
                self._put(index, self._completed(index, np.concatenate([self.layers[index], rows])))
                return False
            self._certified.add(index)
        return not self.out_of_time

    def is_jump(self, steps: FloatArray) -> BoolArray:
        """Return which steps (n,) are larger than the limit."""
        return steps > self.largest_step * (1.0 + ROUNDING)

    def final_reach(self, chosen: FloatArray) -> Reach:
        """Return the extent of the best path without large steps; if time is up, the extent of the chosen path.

        A search that was not cut short in its first round leaves time to compute the extent.
        """
        has_time = self._carried is None and self.clock() + self._choosing < self.began + self.timeout
        if has_time and self.revolutions.repeating.any():
            everything = self._unrolled()
            if everything is not None:
                return Reach(everything.n_reached, everything.nearest_miss)
        elif has_time:
            return self.reach()[0]
        rows = np.concatenate([self._before, chosen])
        steps = (self.scale[self.first_step :] * np.abs(np.diff(rows, axis=0))).max(axis=1, initial=0.0)
        steps = np.where(np.isnan(steps), np.inf, steps)
        if self.origin is None:
            steps = np.concatenate([[math.inf if np.isnan(chosen[0]).any() else 0.0], steps])
        ends = np.flatnonzero(self.is_jump(steps))
        return Reach(int(ends[0]), float(steps[ends[0]])) if len(ends) else Reach.all(len(chosen))

    def reach(self, slack: float = 0.0) -> tuple[Reach, BoolArray]:
        """Return the extent of paths with steps that may exceed the limit by `slack` [rad] or [m].

        With a slack, steps that collide are allowed too, because steps near them may be free. The second value marks
        which solutions (n,) of all layers in sequence are on such a path from the first to the last pose.
        """
        graph = self._graph()
        blocked = NO_EDGES if slack else self._blocked_edges(graph[1], range(len(self.poses)))
        on_path, n_reached, nearest = path_reach(*graph, self.largest_step + slack, blocked)
        n_poses = max(n_reached - len(self._before), 0)
        nearest = 0.0 if n_poses == len(self.poses) else nearest
        return Reach(n_poses, float(nearest)), on_path[len(self._before) :]

    def is_cut(self, poses: range) -> bool:
        """Return whether no path leads through a range of poses. All their layers must have been refined."""
        graph = self._graph(poses)
        largest = self.largest_step + 2.0 * self.cover / FINER
        return bool(path_reach(*graph, largest, NO_EDGES)[1] < len(graph[1]))

    def steps(self, chosen: FloatArray) -> FloatArray:
        """Return the largest motion of a joint in each step of a path (n_poses, dof), without gaps.

        Motions are scaled so that the smallest limit of a joint applies to all joints.
        """
        scale = self.scale[~np.isnan(chosen).any(axis=1)][self.first_step :]
        return np.asarray((scale * self._motions(chosen)).max(axis=1, initial=0.0))

    def max_step(self, chosen: FloatArray) -> float:
        """Return the largest motion of any joint in a path (n_poses, dof) [rad] or [m], without gaps."""
        return float(self._motions(chosen).max(initial=0.0))

    def _motions(self, chosen: FloatArray) -> FloatArray:
        return np.abs(np.diff(np.concatenate([self._before, chosen[~np.isnan(chosen).any(axis=1)]]), axis=0))

    def _graph(self, poses: range | None = None) -> tuple[FloatArray, IntArray, BoolArray, FloatArray]:
        """Return the solutions of a range of poses, the size of each layer, the circles, and factors of the steps."""
        chosen = slice(None) if poses is None else slice(poses.start, poses.stop)
        layers, scale = self.layers[chosen], self.scale[chosen]
        if len(self._before) and (not poses or not poses.start):
            layers, scale = [self._before, *layers], np.concatenate([self.scale[:1], scale])
        counts = np.array([len(layer) for layer in layers], dtype=np.int64)
        return np.concatenate(layers), counts, self.revolutions.circles, scale

    def _blocked_edges(self, counts: IntArray, poses: range) -> IntArray:
        """Return the pairs of rows (n, 2) of a graph between which the motion is known to collide."""
        firsts, shift = np.cumsum(counts) - counts, len(counts) - len(poses)
        edges = [
            self._blocked[pose] + [firsts[layer - 1], firsts[layer]]
            for layer, pose in enumerate(poses, shift)
            if layer and len(self._blocked[pose])
        ]
        return np.concatenate(edges) if edges else NO_EDGES

    def _put(self, index: int, layer: FloatArray) -> None:
        known = self.layers[index]
        self.layers[index], self._counts[index] = layer, len(layer)
        if not np.array_equal(layer[: len(known)], known):  # indices of blocked steps refer to the previous layer
            for pose in range(index, min(index + 2, len(self._blocked))):
                self._blocked[pose], self._checked[pose] = NO_EDGES, np.empty(0, dtype=np.int64)

    def _samples(self, index: int) -> tuple[FloatArray, bool]:
        """Return solutions of a pose, and whether the search for them was finished in time."""
        seed, engine = int(self.rng.integers(2**31)), self.sampler._engine(Spread(self.n), AS_FOUND)
        samples = engine.answer(self.poses[index], AS_FOUND, seed, self._until)
        rows = self.revolutions.on_circles(samples.q)
        if samples.best_attempt is not None and samples.best_attempt_error is not None:
            self.misses[index], self._attempts[index] = samples.best_attempt_error, samples.best_attempt
        if samples.n_total == 0.0:
            self.refuted.add(index)
        elif self.redundancy <= 0 and (samples.n_total <= len(rows) or self.n >= MOST_ROOTS):
            report = samples.completeness
            apart = [len(distinct_rows(self._bounds, rows, each, math.inf)[0]) for each in (ROUNDING, ISOLATED)]
            if report is not None and report.is_complete:
                self.listed.add(index)
                if samples.n_total > len(rows) or apart[0] != apart[1]:
                    self._merged = 2.0 * ISOLATED
        is_examined = bool(samples) or samples.error_code != ErrorCode.TIMED_OUT
        return rows, is_examined

    def _moved(self, before: FloatArray, index: int) -> FloatArray:
        """Return the valid results (n, dof) of moving solutions of another pose onto this one."""
        if not len(before):
            return before
        if not self.is_covered and len(before) > self.n:
            before = before[self.rng.choice(len(before), self.n, replace=False)]
        problem, found = self.problem_of(index), [before[:0]]
        block = CHECKED_AT_ONCE if problem.is_checked else MOVED_AT_ONCE
        for first in range(0, len(before), block):
            if first and self.out_of_time:
                break
            some = before[first : first + block]
            moved = problem.solved(some, np.zeros(len(some), dtype=np.uint32))
            found.append(moved.q[moved.valid])
        return np.concatenate(found)

    def _completed(self, index: int, rows: FloatArray, is_filled: bool = True) -> FloatArray:
        """Return the distinct solutions. If they lie on curves and `is_filled` is true, fill the gaps between them."""
        apart = 0.85 * self.spacing if self.redundancy == 1 else ISOLATED
        rows = rows[distinct_rows(self._bounds, rows, apart, self.deadline)[0]][:MOST]
        return self._spread(index, rows, self.spacing, MOST) if self.redundancy == 1 and is_filled else rows

    def _spread(self, index: int, rows: FloatArray, spacing: float, most: int) -> FloatArray:
        """Return the solutions and others between them, so that gaps along their curves are at most a spacing."""
        problem = self.problem_of(index)
        if not len(rows):
            return rows
        spread = ContinuationOptions(STEP, spacing, 1, self._until)
        found = fill_self_motions(problem.robot.chain, problem.task, spread, rows, most, self.rng.random())
        if not problem.is_checked:
            return found
        kept = [rows]
        for first in range(len(rows), len(found), CHECKED_AT_ONCE):
            if self.out_of_time:
                break
            some = found[first : first + CHECKED_AT_ONCE]
            kept.append(some[problem.allowed(some)])
        return np.concatenate(kept)

    def _carry_on_alone(self, index: int) -> None:
        """Move only the best solution of the previous pose from pose to pose, because little time is left."""
        carried = np.full((len(self.poses), self.problem.robot.dof), np.nan)
        if index:
            carried[:index] = self._shortest(range(index))
        before = carried[~np.isnan(carried).any(axis=1)]
        last = before[-1] if len(before) else self.origin
        for pose in range(index, len(self.poses)):
            if last is None or self.clock() >= self.began + self.timeout - VERIFIED * pose:
                break
            moved = self.problem_of(pose).solved(last[None], np.zeros(1, dtype=np.uint32))
            if moved.valid[0]:
                carried[pose], self.examined[pose] = moved.q[0], True
            last = moved.q[0]
        self._carried = carried


STRIDE = 8
WINDOW = 24  # number of poses before and after a jump where solutions are added


@dataclass(frozen=True, eq=False)
class JointPath:
    """One configuration for each pose of a path.

    Execute a path only if its error code is SUCCESS. Otherwise the path is false, its length is 0 and iteration yields
    nothing. The incomplete result remains available in `q`, which always has one row for each pose.

    Attributes
    ----------
    joint_names : tuple of str
    q : (n_poses, dof)
        Configurations [rad] or [m]; NaN for poses without one. Continuous joints are unrolled and may exceed -π and π.
        For other joints with more than one revolution, those 2π-equivalent values are chosen that make the path jump
        least.
    position_error, orientation_error : (n_poses,)
        Errors by forward kinematics [m], [rad]; infinite for poses without a configuration.
    valid : (n_poses,) of bool
        Whether the configuration satisfies the tolerances, the limits and the collision checks.
    examined : (n_poses,) of bool
        Whether the pose was examined in time. An examined pose that is not valid has no known solution. A pose that was
        not examined may have one.
    max_step : float
        Largest change of a joint between successive rows of `q`, including the step from `near` [rad] or [m]. Poses
        without a configuration are skipped.
    n_reached : int
        Number of poses that can be reached from the first on without steps that are too large. If time was up, this
        refers to `q`.
    nearest_miss : float
        Smallest step from the last pose reached to a known solution of the next pose [rad] or [m]. It is infinite if
        that pose has no solution, and 0 if all poses are reached. If time was up, this refers to `q`.
    jumps : (n_jumps,) of int, optional
        Indices of the poses that the path jumps to, because some joint moves farther than allowed or the straight
        motion collides. There are as few of these reconfigurations as possible with the solutions found, apart from
        those that limits of more than one revolution cause. Poses without a configuration are skipped. None for a
        failed path of a service, which does not report them.
    error_code : ErrorCode
        SUCCESS if every pose is solved and no step is too large; NO_IK_SOLUTION if it is proven that there is no such
        path; TIMED_OUT if none was found in time.
    message : str
    elapsed : float
        Time of the call [s].

    Examples
    --------
    Move the tip of a Panda 0.2 m to the side:

    >>> import numpy as np
    >>> from eim_ros import Sampler
    >>> poses = [[0.4, y, 0.5, 1.0, 0.0, 0.0, 0.0] for y in np.linspace(-0.1, 0.1, 11)]
    >>> path = Sampler("panda").follow(poses, max_step=0.3, seed=0)
    >>> bool(path), path.q.shape, path.max_step <= 0.3
    (True, (11, 7), True)
    """

    joint_names: tuple[str, ...]
    q: FloatArray
    position_error: FloatArray
    orientation_error: FloatArray
    valid: npt.NDArray[np.bool_]
    examined: npt.NDArray[np.bool_]
    max_step: float
    n_reached: int
    nearest_miss: float
    jumps: npt.NDArray[np.int64] | None
    error_code: ErrorCode
    message: str
    elapsed: float

    def times(
        self,
        velocities: npt.ArrayLike,
        accelerations: npt.ArrayLike | None = None,
        *,
        near: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """Return the earliest time (n_poses,) at which each pose can be reached, from 0 at the first one [s].

        Without accelerations, joints move at constant velocity between two poses. With accelerations, the motion is
        along a spline through the configurations, from rest to rest.

        Parameters
        ----------
        velocities : float or (dof,) array_like
            Largest velocity of all joints or of each [rad/s] or [m/s], such as `Robot.velocity_limits`.
        accelerations : float or (dof,) array_like, optional
            Largest accelerations [rad/s^2] or [m/s^2]. They need the library toppra.
        near : (dof,) array_like, optional
            Configuration at time 0. Default: the first row of the path.

        Raises
        ------
        ConfigurationError
            If a pose has no configuration, a limit is not positive and finite, or toppra is needed but not installed.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> line = [[0.4, y, 0.5, 1.0, 0.0, 0.0, 0.0] for y in (-0.1, 0.0, 0.1)]
        >>> times = Sampler("panda").follow(line, max_step=0.5, seed=0).times(1.0)
        >>> times.shape, float(times[0])
        ((3,), 0.0)
        """
        if np.isnan(self.q).any():
            raise ConfigurationError("some poses of the path have no configuration", self.message)
        n_joints, rows = len(self.joint_names), self.q
        if near is not None:
            rows = np.concatenate([numbers_of(near, (n_joints,), "near")[None], rows])
        largest = _limits_of(velocities, n_joints, "velocities")
        if accelerations is None:
            times = velocity_times(rows, largest)
        else:
            times = acceleration_times(rows, largest, _limits_of(accelerations, n_joints, "accelerations"))
        return times[len(rows) - len(self.q) :]

    def to_json(self) -> str:
        """Return the path as JSON with the names of `eim_ros/srv/FollowIK`; numbers that are not finite become null."""
        fields: dict[str, Any] = {
            "error_code": {"val": int(self.error_code), "message": self.message},
            "joint_names": self.joint_names,
            "n": len(self.q),
            "positions": self.q,
        }
        for name in ("position_error", "orientation_error", "valid", "examined", "max_step", "elapsed"):
            fields[name] = getattr(self, name)
        return json.dumps(finite(fields))

    def __bool__(self) -> bool:
        """Return whether all poses are reached by steps that are small enough."""
        return self.error_code == ErrorCode.SUCCESS

    def __repr__(self) -> str:
        """Return the outcome and the ends of the path in at most three lines."""
        ends = (" ".join(f"{value:.4f}" for value in row.tolist()) for row in self.q[:: max(len(self.q) - 1, 1)])
        return "\n".join([f"JointPath: {self.message}", *ends])

    def __len__(self) -> int:
        """Return the number of configurations of a successful path, else 0."""
        return len(self.q) if self else 0

    def __iter__(self) -> Iterator[FloatArray]:
        """Iterate over the configurations (dof,) of a successful path; an unsuccessful one yields nothing."""
        return iter(self.q[: len(self)])


def _limits_of(limits: npt.ArrayLike, n_joints: int, name: str) -> FloatArray:
    """Return the limit of each joint (n_joints,)."""
    found = numbers_of(limits, () if is_number(limits) else (n_joints,), name)
    if not (found > 0.0).all():
        raise ConfigurationError(f"{name} must be positive, got {limits!r}", limits)
    return np.broadcast_to(found, n_joints)


def follow_path(
    sampler: Solver,
    poses: FloatArray,
    near: FloatArray | None,
    max_steps: FloatArray,
    n: int,
    *,
    seed: int | None,
    deadline: float,
    objective: Objective | None = "squares",
) -> JointPath:
    """Follow poses (n_poses, 4, 4) until a deadline, a time of `perf_counter` [s]; see `Sampler.follow`.

    `max_steps` are those of `largest_steps`. `n` is the number of solutions of a pose if solutions are neither points
    nor curves.
    """
    began, setup = time.perf_counter(), sampler._setup.reaching(poses)
    if objective is not None and objective not in OBJECTIVES:
        raise ConfigurationError(f"objective must be one of {', '.join(OBJECTIVES)}, got {objective!r}", objective)
    if objective == "time" and not np.isfinite(sampler.robot.velocity_limits).all():
        unlimited = sampler.robot.joint_names[int(np.argmin(np.isfinite(sampler.robot.velocity_limits)))]
        raise ConfigurationError(f"objective 'time' needs velocity limits, and the URDF has none for {unlimited!r}")
    position_only = setup.is_position_only(sampler.context_kind)
    try:
        problem = Problem(setup, poses[0], position_only, Spread(n), deadline=with_grace(deadline))
    except OutOfTime as error:
        return _not_begun(sampler.robot, len(poses), f"timed out: {error}", began)
    rng, left = np.random.default_rng(seed), deadline - time.perf_counter()
    search = PathSearch(sampler, problem, poses, max_steps, rng, n, left, near)
    smoother = PathSmoother(problem, poses, search.revolutions, max_steps, objective or "squares", near)
    sliced = _sliced(search, smoother)
    if sliced is None:
        sliced = _carried(search, smoother)
    if sliced is None:
        search, chosen, is_proven = _searched_on(search, smoother, deadline)
    else:
        chosen, is_proven = sliced, False
    if objective is not None and not search.out_of_time and search.is_found(chosen):
        chosen = smoother.smoothed(chosen, search._until)
    return _joint_path(search, chosen, is_proven, began)


def largest_steps(
    robot: Robot,
    n_poses: int,
    max_step: float | npt.ArrayLike | Mapping[str, float] | None,
    times: npt.ArrayLike | None,
    near: FloatArray | None,
) -> FloatArray:
    """Return the largest step of each joint to each pose (n_poses, dof), see `Sampler.follow`."""
    steps = np.tile(_steps_of(max_step, robot), (n_poses, 1))
    if times is None:
        return steps
    return np.asarray(np.minimum(steps, robot.velocity_limits * _durations(times, n_poses, near)[:, None]))


def _steps_of(max_step: float | npt.ArrayLike | Mapping[str, float] | None, robot: Robot) -> FloatArray:
    """Return the largest step of each joint (dof,)."""
    steps = np.where(robot.prismatic, MAX_SLIDE, MAX_STEP)
    if isinstance(max_step, Mapping):
        names = list(robot.joint_names)
        if unknown := [name for name in max_step if name not in names]:
            raise ConfigurationError(f"max_step names no joint: {unknown[0]!r}; joints: {', '.join(names)}", max_step)
        indices = [names.index(name) for name in max_step]
        steps[indices] = numbers_of(list(max_step.values()), (len(indices),), "max_step")
    elif max_step is not None:
        is_one = is_number(max_step) or getattr(max_step, "shape", None) == ()
        steps[:] = numbers_of(max_step, () if is_one else (robot.dof,), "max_step")
    if not (steps > 0.0).all():
        raise ConfigurationError(f"max_step must be positive, got {max_step!r}", max_step)
    return steps


def _durations(times: npt.ArrayLike, n_poses: int, near: FloatArray | None) -> FloatArray:
    """Return the duration (n_poses,) of the step to each pose [s]; infinite for the first one without `near`."""
    stamps = numbers_of(times, (n_poses,), "times")
    durations = np.diff(stamps, prepend=-math.inf if near is None else 0.0)
    if not (durations > 0.0).all():
        start = "" if near is None else ", and the first one be positive, because time 0 is at `near`"
        raise ConfigurationError(f"times must increase{start}", times)
    return durations


def _searched_on(first: PathSearch, smoother: PathSmoother, deadline: float) -> tuple[PathSearch, FloatArray, bool]:
    """Return a finished search, its best path, and whether it is proven that each path jumps or has gaps.

    Until there is a path without jumps, a proof, or no more time, the number of solutions of each pose is doubled again
    and again. After a few times, the search begins again with other random numbers.
    """
    best: tuple[PathSearch, FloatArray] | None = None
    n_searches = 0
    while True:
        search = replace(first, timeout=deadline - time.perf_counter())
        chosen, is_proven = _searched(search)
        if best is None and not (is_proven or search.is_found(chosen)):
            is_proven = _is_impossible_without_checks(search)
        for n_doublings in range(DOUBLINGS + 1):
            n_searches += 1
            if best is None or search.n_faults(chosen) < best[0].n_faults(best[1]):
                best = search, chosen
            if search.is_found(chosen) or is_proven or search.out_of_time:
                best[0].n_searches = n_searches
                return *best, is_proven
            if n_doublings < DOUBLINGS:
                chosen, is_proven = _searched_denser(search, smoother)


def _is_impossible_without_checks(search: PathSearch) -> bool:
    """Return whether it is proven that there is no path without jumps even if configurations may collide.

    Collisions and other checks cut self-motions into small pieces, about which nothing can be proven.
    """
    if not search.problem.is_checked or search.has_gaps or not search.is_covered or search.out_of_time:
        return False
    sampler = search.sampler.with_constraints(self_collision=False, obstacles=(), links=(), branch={})
    problem = search.problem
    free = Problem(sampler._setup, search.poses[0], problem.position_only, problem.aim, deadline=problem.deadline)
    left, rng = search.deadline - search.clock(), np.random.default_rng(0)
    part = PathSearch(sampler, free, search.poses, search.max_steps, rng, search.n, left, search.origin)
    return _searched(part)[1]


def _searched_denser(search: PathSearch, smoother: PathSmoother) -> tuple[FloatArray, bool]:
    """Repeat a search with new samples and twice as many solutions; see `_searched`.

    If some poses have no solution yet, only those are sampled again.
    """
    gaps = [index for index, layer in enumerate(search.layers) if not len(layer)]
    search.misses.clear()
    if not gaps:
        search.densify()
        other = _sliced(search, smoother, at_random=True)
        if other is None:
            other = _carried(search, smoother)
        if other is not None:
            return other, False
    search.follow(gaps or range(len(search.poses)))
    if not search.has_gaps:
        search.follow_back()
    return _judged(search, search.best())


def _sliced(search: PathSearch, smoother: PathSmoother, at_random: bool = False) -> FloatArray | None:
    """Return the best path along which the extra joints do not move; None if there is no path without jumps.

    With more than one free direction, solutions of a pose form surfaces that samples cover badly. If extra joints are
    fixed until one direction is left, they form curves, and the layers cover them. Several values are tried.
    """
    if search.problem.tolerances is not None or not 2 <= search.redundancy <= MOST_EXTRA + 1:
        return None
    sampler, problem, found = search.sampler, search.problem, list[FloatArray]()
    slices = _slices(search, at_random)
    for number, values in enumerate(slices):
        share = 1.0 if at_random else SLICED_SHARE
        left = search.began + share * search.timeout - search.clock()
        if left <= 0.0 or (at_random and search.out_of_time):
            break
        fixed = {**sampler.constraints.fixed, **values}
        held = sampler.with_constraints(fixed=fixed)
        try:
            held_problem = Problem(
                held._setup, search.poses[0], problem.position_only, problem.aim, deadline=problem.deadline
            )
        except OutOfTime:
            break
        share = left if number == len(slices) - 1 else 0.5 * left  # one path matters more than the best one
        part = PathSearch(
            held, held_problem, search.poses, search.max_steps, search.rng, search.n, share, search.origin
        )
        chosen, _ = _searched(part)
        if part.is_found(chosen):
            found.append(chosen)
    search.examined[:] |= bool(found)
    return min(found, key=smoother.cost, default=None)


def _carried(search: PathSearch, smoother: PathSmoother) -> FloatArray | None:
    """Return the best path along which one solution moves from pose to pose; None if there is none without jumps.

    With more than one free direction, layers are random samples, and a long path loses the solutions that lead on. Here
    each sample of one pose is moved along the whole path. All joints take part, so a mobile base drives along. The
    samples belong to the first, the middle or the last pose.
    """
    if search.redundancy < 2:
        return None
    last = len(search.poses) - 1
    for start in (0,) if search.origin is not None else (0, last // 2, last):
        rows = search.revolutions.on_circles(search._before) if len(search._before) else search._samples(start)[0]
        there, back = search.moved_along(rows, range(start, last + 1)), search.moved_along(rows, range(start, -1, -1))
        chosen = np.concatenate([back[:0:-1], there])
        paths = [
            search.revolutions.unrolled(chosen[:, number], search.max_steps, search.origin)
            for number in np.flatnonzero(~np.isnan(chosen).any(axis=(0, 2)))
        ]
        found = [path for path in paths if search.is_found(path)]
        if search.out_of_time:
            break
        if found:
            search.examined[:] = True
            return min(found, key=smoother.cost)
    return None


def _slices(search: PathSearch, at_random: bool) -> list[dict[str, float]]:
    """Return the values of the extra joints to try; sliding joints come first, then those near the base.

    Random values are tried after the fixed ones, unless the first configuration decides.
    """
    robot, bounds = search.problem.robot, search.problem.bounds
    slides, movable = robot.prismatic, np.flatnonzero(bounds[0] < bounds[1]).tolist()
    joints = sorted(movable, key=lambda joint: (not slides[joint], joint))[: search.redundancy - 1]
    shares = SLICES if len(joints) == 1 else FEWER_SLICES
    low, high = bounds[0], bounds[1]
    if search.origin is not None:
        if at_random:
            return []
        start = np.clip(search.revolutions.on_circles(search.origin[None], of_limited=False)[0], low, high)
        return [{robot.joint_names[joint]: float(start[joint]) for joint in joints}]
    if at_random:
        names = [robot.joint_names[joint] for joint in joints]
        drawn = search.rng.uniform(low[joints], high[joints], (len(SLICES), len(joints)))
        return [dict(zip(names, values, strict=True)) for values in drawn.tolist()]
    choices = [[float(low[joint] + share * (high[joint] - low[joint])) for share in shares] for joint in joints]
    return [
        dict(zip([robot.joint_names[joint] for joint in joints], values, strict=True))
        for values in itertools.product(*choices)
    ]


def _searched(search: PathSearch) -> tuple[FloatArray, bool]:
    """Return the best path, NaN for poses without a solution, and whether it is proven that each path has a fault."""
    n_poses = len(search.poses)
    search.follow(range(0, n_poses, STRIDE))
    chosen = search.best()
    if not search.is_found(chosen) and not search.out_of_time:
        search.follow([index for index in range(n_poses) if index % STRIDE])
        search.follow_back()
        chosen = search.best()
    return _judged(search, chosen)


def _judged(search: PathSearch, chosen: FloatArray) -> tuple[FloatArray, bool]:
    """Return the best path after more solutions near its jumps, and whether it is proven that each path has a fault."""
    if search.is_found(chosen) or search.out_of_time:
        return chosen, False
    if search.impossible:
        return chosen, True
    if search.has_gaps:
        return chosen, search.has_impossible_pose()
    if not search.is_covered:
        return chosen, False
    chosen, cut = _refined(search, chosen)
    if search.is_found(chosen) or search.out_of_time:
        return chosen, False
    return chosen, search.is_certified_cut(cut) if search.redundancy == 1 else search.lists_no_path()


def _refined(search: PathSearch, chosen: FloatArray) -> tuple[FloatArray, range]:
    """Return a path with fewer jumps, and poses that no path along the components found leads through."""
    n_poses, refined, nothing = len(search.poses), set[int](), range(0)
    relaxed, on_path = search.reach(2.0 * search.cover)
    if relaxed.n_poses < n_poses:
        return chosen, range(relaxed.n_poses + 1)
    while search.redundancy == 1 and not search.out_of_time:
        windows = _around_jumps(search, chosen)
        new = {pose for window in windows for pose in window} - refined
        if not new:
            break
        search.refine(new, on_path)
        refined |= new
        chosen = search.best()
        if search.is_found(chosen):
            break
        cuts = [window for window in windows if refined.issuperset(window) and search.is_cut(window)]
        if cuts:
            return chosen, cuts[0]
        on_path = search.reach(2.0 * search.cover)[1]
    return chosen, nothing


def _around_jumps(search: PathSearch, chosen: FloatArray) -> list[range]:
    """Return the ranges of poses around each jump of a path without gaps."""
    n_poses = len(search.poses)
    jumps = np.flatnonzero(search.is_jump(search.steps(chosen)) | search.colliding(chosen)) + search.first_step
    return [range(max(int(at) - WINDOW, 0), min(int(at) + WINDOW, n_poses)) for at in jumps]


def _joint_path(search: PathSearch, chosen: FloatArray, is_proven: bool, began: float) -> JointPath:
    """Return the path with its errors by forward kinematics. Collisions at the poses were checked during the search."""
    robot, problem = search.sampler.robot, search.problem
    errors = np.full((2, len(chosen)), np.inf)
    valid = np.zeros(len(chosen), dtype=bool)
    within_limits = search.revolutions.on_circles(chosen, of_limited=False)
    for index in np.flatnonzero(~np.isnan(chosen).any(axis=1)).tolist():
        task = problem.at(search.poses[index], problem.bounds).task
        measured, reaches = robot.chain.verify(task, within_limits[index : index + 1])
        errors[:, index], valid[index] = measured[:, 0], reaches[0]
    steps = search.steps(chosen)
    largest, n_jumps, n_colliding = search.max_step(chosen), int(search.is_jump(steps).sum()), 0
    there = np.flatnonzero(~np.isnan(chosen).any(axis=1))
    jumps = there[len(there) - len(steps) :][search.is_jump(steps)]
    if problem.avoids_collisions:
        colliding = np.flatnonzero(search.colliding(chosen)) + search.first_step
        jumps, n_colliding = np.union1d(jumps, colliding), len(colliding)
    is_all = bool(valid.all()) and not len(jumps)
    reach = Reach.all(len(chosen)) if is_all else search.final_reach(chosen)
    if n_colliding and reach.n_poses == len(chosen):  # time was up, or limits end the revolutions
        at = int(colliding[0])
        reach = Reach(at, float(steps[at - search.first_step]))
    if is_all:
        code, message = ErrorCode.SUCCESS, f"{len(chosen)} poses, no joint steps farther than {largest:.3g}"
    else:
        code = ErrorCode.NO_IK_SOLUTION if is_proven else ErrorCode.TIMED_OUT
        if valid.all() and n_colliding:
            reason = "collide or were not checked" if problem.n_unchecked else "collide"
            message = f"{n_colliding} motions between poses {reason}, the first of them to pose {colliding[0]}"
        elif valid.all():
            message = f"the path jumps {n_jumps} times, by up to {largest:.3g}{_break(search, reach, is_proven)}"
        else:
            message = _gaps(search, valid)
        if code == ErrorCode.TIMED_OUT:
            after = f" after {search.n_searches} searches" if search.n_searches > 1 else ""
            message = f"timed out{after}: {message}"
    found = (robot.joint_names, chosen, errors[0], errors[1], valid, search.examined | valid, largest, reach.n_poses)
    return JointPath(*found, reach.nearest_miss, jumps, code, message, time.perf_counter() - began)


def _not_begun(robot: Robot, n_poses: int, message: str, began: float) -> JointPath:
    """Return the answer if no pose was examined."""
    nothing, none = np.full(n_poses, np.inf), np.zeros(n_poses, dtype=bool)
    rows, elapsed = np.full((n_poses, robot.dof), np.nan), time.perf_counter() - began
    found = (robot.joint_names, rows, nothing, nothing, none, none, 0.0, 0, math.inf, np.empty(0, dtype=np.int64))
    return JointPath(*found, ErrorCode.TIMED_OUT, message, elapsed)


def _gaps(search: PathSearch, valid: npt.NDArray[np.bool_]) -> str:
    """Describe the poses without a solution, and those that were not examined."""
    parts, n_poses = [], len(valid)
    without, unknown = search.examined & ~valid, ~search.examined & ~valid
    if without.any():
        first = int(without.argmax())
        parts.append(f"{int(without.sum())} of {n_poses} poses have no solution, the first of them is pose {first}")
        if first in search.misses:
            position, orientation = search.misses[first]
            parts[-1] += f", missed by {position:.3g} m and {orientation:.3g} rad at best"
    if unknown.any():
        first = int(unknown.argmax())
        parts.append(f"{int(unknown.sum())} of {n_poses} poses were not examined, the first of them is pose {first}")
    return "; ".join(parts)


def _break(search: PathSearch, reach: Reach, is_proven: bool) -> str:
    """Describe where the steps become too large, and the size of the next step."""
    if reach.n_poses == len(search.poses):
        return ""
    asked, pose = f"{search.largest_step:.3g}", reach.n_poses
    start = "the start" if pose == 0 else f"pose {pose - 1}"
    found = "none can be without" if is_proven else "none was found without"
    return (
        f"; {found}: steps of at most {asked} lead as far as {start}, and from there to pose {pose} one of at least "
        f"{reach.nearest_miss:.3g}"
    )
