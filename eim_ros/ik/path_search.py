"""Search for a path of configurations along Cartesian poses, with small motions and as few jumps as possible.

Every pose has a layer of solutions. The solutions of the previous layer are moved onto the pose, which follows their
self-motion components along the path. Samples of some poses find components that begin at a later pose. If solutions
are points or curves, continuation fills gaps between them. Every solution of a known component is then within `cover`
of a solution in the layer.

The layers form a graph. The shortest path through the graph minimises

    sum over the steps of |dq|^2 + PENALTY [some joint moves farther than allowed].

In the layers, joints with 2π-equivalent values are treated as circles. `Revolutions` unrolls the path afterwards.

A search has three stages, and `PathRefinement` repeats them:

1. Every STRIDE-th pose is sampled, and components are followed forward.
2. If the path jumps, collides or has gaps, the other poses are sampled too, and components are followed backward.
3. If the path still jumps, steps are allowed to be larger by twice `cover`. If no path satisfies this relaxed limit,
   every path along the known components jumps. Otherwise solutions are added near the relaxed path, and the test is
   repeated.

Stage 3 proves that there is no path if closed forms certify the components. It is also a proof if closed forms list all
solutions, and all steps between these solutions were checked. There is also no path if no configuration reaches some
pose, or if the next pose is too far away for one step. Let L be the largest distance of the tip from a joint. If the
joint turns by an angle a, it turns the tip by at most a and moves the tip along an arc by at most a L. A prismatic
joint moves the tip by its travel s. If no joint moves farther than allowed in a step, the step moves and turns the tip
by at most

    sum over revolute joints of a_j L_j + sum over prismatic joints of s_j,    sum over revolute joints of a_j.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from eim_ros.core.arrays import BoolArray, FloatArray, IntArray
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik.candidates import Candidates, ErrorCode
from eim_ros.ik.engine import Engine
from eim_ros.ik.order import AS_FOUND
from eim_ros.ik.prior import Prior
from eim_ros.ik.problem import Problem
from eim_ros.ik.request import Aim, Covering, Spread
from eim_ros.ik.revolutions import Reach, Revolutions
from eim_ros.ik.setup import Setup
from eim_ros.ik.solutions import Solutions
from eim_ros.ik.strategies import is_refuted
from eim_ros.kinematics import Robot
from eim_ros.kinematics.urdf import MULTIPLIER, OFFSET, PRISMATIC, SOURCE, TRANSLATION
from eim_ros.solver import ContinuationOptions, distinct_rows, fill_self_motions, is_within, path_reach, shortest_path

NO_EDGES = np.empty((0, 2), dtype=np.int64)
NO_POSES = np.empty(0, dtype=np.int64)
PENALTY = 1e4  # cost of a jump [rad^2], larger than any sum of allowed steps
SPACING = 1.0 / 6.0  # distance between neighbours in a layer, as a share of the largest step
COARSER = 4.0  # factor on the spacing if collisions are checked; a check takes a hundred times as long as a solution
COVER = 1.25  # largest distance of a solution from its layer in any joint, as a multiple of the spacing
FINER = 4.0  # factor on the density of layers near places where the graph almost has a path
STEP = 0.45  # step length of continuation [rad, m]
STRIDE = 8  # poses whose index is a multiple of this number are sampled first
WINDOW = 24  # number of poses on each side of a jump at which solutions are added
MOST = 4000  # largest number of solutions of a layer
ISOLATED = 0.01  # smallest difference between distinct isolated solutions [rad or m]
MOST_ROOTS = 16  # largest number of isolated solutions of six joints, if 2π-equivalent solutions count once
LAYER = 2**20  # number larger than the size of any layer
FEWEST_NEIGHBOURS, MOST_NEIGHBOURS = 4, 512  # number of neighbours of a colliding step that are also checked
STEPS_AT_ONCE = 1024  # number of steps that are checked for collisions between two checks of the deadline
MOVED_AT_ONCE, CHECKED_AT_ONCE = 512, 16  # number of solutions between two checks of the deadline
SEARCH_SHARE = 0.9  # share of the time for the search; afterwards one solution is moved along the remaining poses
ROUNDING = 1e-9  # relative difference between two ways of computing a step
PAIR = 3e-9  # first estimate of the time for one edge of the graph in the shortest path [s]
MEASURED_AT = 16  # index of the pose at which the time for an edge is measured
VERIFIED = 2e-5  # time to verify one pose of the final path [s]
FARTHER = 1e-9  # a motion that exceeds the bound of a step by this much counts as impossible [m, rad]
ARCCOS_ROUNDING = 1e-7  # rounding error of the arccosine near an angle of 0 [rad]


@dataclass(eq=False)
class PathSearch:
    """Search for the solutions of all poses of one path, and for the best choice among them.

    The timeout starts when the object is constructed. Paths are arrays (n_poses, dof) with NaN for poses without a
    solution.
    """

    setup: Setup
    prior: Prior
    problem: Problem  # problem of the first pose
    poses: FloatArray  # (n_poses, 4, 4)
    max_steps: FloatArray  # (n_poses, dof), largest change of each joint from the previous pose [rad] or [m]
    rng: np.random.Generator
    n: int  # number of samples of a pose, and of solutions that move to the next pose if several directions are free
    timeout: float  # [s]
    origin: FloatArray | None = None  # (dof,), configuration before the first pose
    clock: Callable[[], float] = time.perf_counter  # function that returns the time [s]

    def __post_init__(self) -> None:
        self.began = self.clock()
        problem, n_poses = self.problem, len(self.poses)
        nothing = np.empty((0, problem.robot.dof))
        self.layers = [nothing] * n_poses  # solutions (n_k, dof) of each pose, on circles in [-π, π)
        self.examined = np.zeros(n_poses, dtype=np.bool_)  # whether the search for solutions was finished in time
        self.misses = dict[int, tuple[float, float]]()  # errors [m], [rad] of the best attempt at poses without samples
        self.refuted = set[int]()  # poses for which it is proven that no configuration reaches them
        self.listed = set[int]()  # poses whose solutions are isolated and all in the layer
        self.impossible = impossible_steps(problem, self.poses, self.max_steps, self.origin)
        self.largest_step = float(self.max_steps.min())
        self.scale = self.largest_step / self.max_steps  # factors that make the largest step of all joints equal
        self.spacing = SPACING * self.largest_step * (COARSER if problem.is_checked else 1.0)
        self.revolutions = Revolutions.of(problem.robot, problem.bounds)
        self.redundancy = problem.redundancy if problem.tolerances is None else problem.robot.dof
        self.before = nothing if self.origin is None else self.origin[None]
        self.first_step = 1 - len(self.before)  # index of the pose that the first step leads to
        self._limit = self.largest_step * (1.0 + ROUNDING)
        self._bounds = self.revolutions.bounds(problem.bounds)
        self._problems, self._engines = dict[int, Problem](), dict[Aim, Engine]()
        self._carried: FloatArray | None = None
        self._counts, self._pair = np.zeros(n_poses), PAIR
        # colliding steps to each pose: indices in the previous layer and in the layer of the pose
        self._blocked = [NO_EDGES] * n_poses
        self._checked = [NO_POSES] * n_poses  # all checked steps, each encoded as one number
        self._attempts = dict[int, FloatArray]()
        self._merged = 0.0  # largest change of a step if merged solutions replace its ends [rad] or [m]
        self._certified = set[int]()  # poses for which it is proven that all components are known
        self._is_free = dict[bytes, bool]()  # whether a motion is free of collisions, by its two configurations

    def with_constraints(self, timeout: float, **changes: Any) -> PathSearch:
        """Return a new search with other fields of `Constraints`; raise `OutOfTime` if shapes cannot be prepared."""
        setup = Setup(self.setup.robot, dataclasses.replace(self.setup.constraints, **changes))
        known, pose = self.problem, self.poses[0]
        problem = Problem(setup, pose, known.position_only, known.aim, deadline=known.deadline)
        return dataclasses.replace(self, setup=setup, problem=problem, timeout=timeout)

    @property
    def deadline(self) -> float:
        """Time on the clock at which the search ends, so that time is left to find and verify the shortest path [s]."""
        verifying = VERIFIED * float(np.count_nonzero(self._counts))
        return self.began + SEARCH_SHARE * self.timeout - self._choosing - verifying

    @property
    def until(self) -> float:
        """The deadline as a time of `perf_counter` [s]."""
        return time.perf_counter() + max(0.0, self.deadline - self.clock())

    @property
    def out_of_time(self) -> bool:
        """Whether the deadline has passed."""
        return self.clock() >= self.deadline

    @property
    def has_gaps(self) -> bool:
        """Whether some pose has no solution."""
        return not all(map(len, self.layers))

    @property
    def is_covered(self) -> bool:
        """Whether solutions are points or curves. Layers then contain all of the components found, up to `cover`."""
        return self.redundancy <= 1

    @property
    def cover(self) -> float:
        """Largest distance between a solution and its nearest neighbour in the layer, in any joint; 0 for points."""
        return COVER * self.spacing if self.redundancy == 1 else 0.0

    @property
    def _choosing(self) -> float:
        """Estimate of the time for one shortest path through the layers [s]."""
        return self._pair * float(self._counts[:-1] @ self._counts[1:])

    def _in_time(self, start: int, stop: int, block: int) -> Iterator[slice]:
        """Yield slices of a range until time is up, but at least the first slice if the range begins at 0."""
        for first in range(start, stop, block):
            if first and self.out_of_time:
                return
            yield slice(first, first + block)

    # The stages of the search

    def run(self) -> tuple[FloatArray, bool]:
        """Return the best path, and whether it is proven that every path jumps or has gaps."""
        n_poses = len(self.poses)
        self.follow(range(0, n_poses, STRIDE))
        chosen = self.best()
        if not self.is_found(chosen) and not self.out_of_time:
            self.follow(index for index in range(n_poses) if index % STRIDE)
            self.follow_back()
            chosen = self.best()
        return self.judged(chosen)

    def judged(self, chosen: FloatArray) -> tuple[FloatArray, bool]:
        """Add solutions near the jumps of a path. Return the new path, and whether every path is proven to fail."""
        if self.is_found(chosen) or self.out_of_time:
            return chosen, False
        if len(self.impossible) or self.has_gaps:
            return chosen, len(self.impossible) > 0 or self._has_impossible_pose()
        if not self.is_covered:
            return chosen, False
        chosen, cut = self._refined(chosen)
        if self.is_found(chosen) or self.out_of_time:
            return chosen, False
        return chosen, self._is_certified_cut(cut) if self.redundancy == 1 else self._lists_no_path()

    def densify(self) -> None:
        """Double the number of solutions that the next stages look for at each pose."""
        self.spacing *= 0.5
        if not self.is_covered:
            self.n = min(2 * self.n, MOST)

    def _refined(self, chosen: FloatArray) -> tuple[FloatArray, range]:
        """Return a path with fewer jumps, and the poses that no path along the known components leads through."""
        refined = set[int]()
        relaxed, on_path = self._reach(2.0 * self.cover)
        if relaxed.n_poses < len(self.poses):
            return chosen, range(relaxed.n_poses + 1)
        while self.redundancy == 1 and not self.out_of_time:
            faults = np.union1d(self.jumps(chosen), self.colliding(chosen)).tolist()
            windows = [range(max(at - WINDOW, 0), min(at + WINDOW, len(self.poses))) for at in faults]
            new = {pose for window in windows for pose in window} - refined
            if not new:
                break
            self._refine(new, on_path)
            refined |= new
            chosen = self.best()
            if self.is_found(chosen):
                break
            cuts = [window for window in windows if refined.issuperset(window) and self._is_cut(window)]
            if cuts:
                return chosen, cuts[0]
            on_path = self._reach(2.0 * self.cover)[1]
        return chosen, range(0)

    def _refine(self, poses: Iterable[int], on_path: BoolArray) -> None:
        """Add solutions to the layers of some poses, near the solutions (n,) that are on a relaxed path."""
        first = np.cumsum([0] + [len(layer) for layer in self.layers])
        spacing, cover = self.spacing / FINER, self.cover
        for index in sorted(poses):
            if self.out_of_time:
                return
            layer = self.layers[index]
            marked = layer[on_path[first[index] : first[index + 1]]]
            added = self._spread(index, layer, spacing, 3 * MOST)[len(layer) :]
            near = added[is_within(self._bounds, added, marked, cover)]
            self._put(index, np.concatenate([layer, near]))

    # The layers

    def follow(self, sampled: Iterable[int]) -> None:
        """Fill the layers from first to last. The poses at the indices `sampled` are also sampled."""
        own = set(sampled)
        for index in range(len(self.poses)):
            known = self.layers[index]
            if self.out_of_time:
                if not self.examined[index]:
                    self._carry_on_alone(index)
                return
            is_examined = True
            found = [known, self._moved(self.layers[index - 1] if index else self.before, index)]
            if index not in self.misses and (index in own or not (len(known) or len(found[1]))):
                samples, is_examined = self.samples(index)
                found.append(samples)
            self.examined[index] |= is_examined
            if index == MEASURED_AT:
                self._shortest(range(index))
            self._put(index, self._completed(index, np.concatenate(found), index in own or index == 0))

    def follow_back(self) -> None:
        """Follow components from the last pose to the first, because some are found only at later poses."""
        for index in range(len(self.poses) - 2, -1, -1):
            if self.out_of_time:
                return
            known = self.layers[index]
            moved = self._moved(self.layers[index + 1], index)
            apart = max(2.0 * self.cover, ISOLATED) if self.is_covered else self.largest_step
            new = moved[~is_within(self._bounds, moved, known, apart)]
            if len(new):
                self._put(index, self._completed(index, np.concatenate([known, new])))

    def moved_along(self, rows: FloatArray, indices: range) -> FloatArray:
        """Move rows (n, dof) from pose to pose, and return the configurations (n_indices, n, dof) at these poses.

        If a row cannot reach a pose within the limits and the largest step, its configurations are NaN from this pose
        on. The step to the first pose is limited only if the path begins at a given configuration.
        """
        found = np.full((len(indices), *rows.shape), np.nan)
        left = np.arange(len(rows))
        for number, index in enumerate(indices):
            if self.out_of_time or not len(left):
                break
            moved = self._solved(index, rows)
            motions = np.abs(self.revolutions.differences(moved.q, rows))
            largest = self.max_steps[index if indices.step > 0 else min(index + 1, len(self.poses) - 1)]
            is_free = number == 0 and self.origin is None
            kept = moved.valid & (is_free | (motions <= largest * (1.0 + ROUNDING)).all(axis=1))
            left, rows = left[kept], moved.q[kept]
            found[number, left] = rows
        return found

    def samples(self, index: int) -> tuple[FloatArray, bool]:
        """Return solutions of a pose, and whether the search for them was finished in time."""
        samples = self._answer(Spread(self.n), index, int(self.rng.integers(2**31)))
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
        return rows, bool(samples) or samples.error_code != ErrorCode.TIMED_OUT

    def _answer(self, aim: Aim, index: int, seed: int) -> Solutions:
        """Return the engine's answer for a pose."""
        if aim not in self._engines:
            self._engines[aim] = Engine(self.setup, self.prior, aim, AS_FOUND)
        return self._engines[aim].answer(self.poses[index], AS_FOUND, seed, self.until)

    def _problem_of(self, index: int) -> Problem:
        """Return the problem of a pose. It treats joints with 2π-equivalent values as circles."""
        if index not in self._problems:
            self._problems[index] = self.problem.at(self.poses[index], self._bounds)
        return self._problems[index]

    def _solved(self, index: int, rows: FloatArray) -> Candidates:
        """Move configurations (n, dof) onto a pose."""
        return self._problem_of(index).solved(rows, np.zeros(len(rows), dtype=np.uint32))

    def _moved(self, before: FloatArray, index: int) -> FloatArray:
        """Return the valid results (n, dof) of moving solutions of another pose onto this pose."""
        if not self.is_covered and len(before) > self.n:
            before = before[self.rng.choice(len(before), self.n, replace=False)]
        found = [before[:0]]
        for some in self._in_time(0, len(before), CHECKED_AT_ONCE if self.problem.is_checked else MOVED_AT_ONCE):
            moved = self._solved(index, before[some])
            found.append(moved.q[moved.valid])
        return np.concatenate(found)

    def _completed(self, index: int, rows: FloatArray, is_filled: bool = True) -> FloatArray:
        """Return the distinct solutions. If they lie on curves and `is_filled` is true, fill the gaps between them."""
        apart = 0.85 * self.spacing if self.redundancy == 1 else ISOLATED
        rows = rows[distinct_rows(self._bounds, rows, apart, self.deadline)[0]][:MOST]
        return self._spread(index, rows, self.spacing, MOST) if self.redundancy == 1 and is_filled else rows

    def _spread(self, index: int, rows: FloatArray, spacing: float, most: int) -> FloatArray:
        """Return the solutions, and more between them, so that gaps along their curves are at most `spacing`."""
        problem = self._problem_of(index)
        if not len(rows):
            return rows
        spread = ContinuationOptions(STEP, spacing, 1, self.until)
        found = fill_self_motions(problem.robot.chain, problem.task, spread, rows, most, self.rng.random())
        if not problem.is_checked:
            return found
        added = (found[some] for some in self._in_time(len(rows), len(found), CHECKED_AT_ONCE))
        return np.concatenate([rows, *(some[problem.allowed(some)] for some in added)])

    def _carry_on_alone(self, index: int) -> None:
        """Move only the best solution of the previous pose from pose to pose, because little time is left."""
        self._carried = carried = np.full((len(self.poses), self.problem.robot.dof), np.nan)
        if index:
            carried[:index] = self._shortest(range(index))
        known = np.concatenate([self.before, carried[~np.isnan(carried).any(axis=1)]])[-1:]
        for pose in range(index, len(self.poses)):
            if not len(known) or self.clock() >= self.began + self.timeout - VERIFIED * pose:
                break
            moved = self._solved(pose, known)
            if moved.valid[0]:
                carried[pose], self.examined[pose] = moved.q[0], True
            known = moved.q

    def _put(self, index: int, layer: FloatArray) -> None:
        known = self.layers[index]
        self.layers[index], self._counts[index] = layer, len(layer)
        if not np.array_equal(layer[: len(known)], known):  # indices of blocked steps refer to the previous layer
            for pose in range(index, min(index + 2, len(self._blocked))):
                self._blocked[pose], self._checked[pose] = NO_EDGES, NO_POSES

    # The choice of a path

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

        Colliding steps of the shortest path are blocked, until no other path has fewer jumps, or time is up. More and
        more neighbouring steps are checked at the same time. The next path often contains one of these steps, and the
        search for a path takes longer than the check of a step.
        """
        poses, widths = range(len(self.poses)), np.full(len(self.poses), FEWEST_NEIGHBOURS)
        while True:
            rows, chosen = self._shortest(poses), self._chosen
            if not self.problem.avoids_collisions or self.out_of_time:
                return rows
            is_new = False
            for pose in self.colliding(rows).tolist():
                is_new |= self._block(pose, int(chosen[pose - 1]) if pose else 0, int(chosen[pose]), int(widths[pose]))
                widths[pose] = min(2 * widths[pose], MOST_NEIGHBOURS)
            if not is_new:  # the path is free, or no other path has fewer jumps
                return rows

    def _shortest(self, poses: range) -> FloatArray:
        """Return the shortest path (n, dof) on circles through a range of poses; NaN for poses without a solution."""
        began, graph = self.clock(), self._graph(poses)
        rows, counts, n_before = graph[0], graph[1], len(graph[1]) - len(poses)
        chosen = shortest_path(*graph, self.largest_step, PENALTY, self._blocked_edges(counts, poses))
        self._chosen = chosen[n_before:]
        if len(poses) >= MEASURED_AT and (n_pairs := float(counts[:-1] @ counts[1:])):
            self._pair = (self.clock() - began) / n_pairs
        found = np.full((len(chosen), rows.shape[1]), np.nan)
        found[chosen >= 0] = rows[(np.cumsum(counts) - counts + chosen)[chosen >= 0]]
        return found[n_before:]

    def _block(self, pose: int, start: int, end: int, width: int) -> bool:
        """Block a colliding step to a pose, and the steps between neighbours of its ends that collide.

        Return False if the step is blocked already.
        """
        if (self._blocked[pose] == (start, end)).all(axis=1).any():
            return False
        before, after = self.layers[pose - 1] if pose else self.before, self.layers[pose]
        starts, ends = self._nearest(before, start, width), self._nearest(after, end, width)
        motions = self.revolutions.differences(after[ends], before[starts, None])
        i, k = np.nonzero((self.scale[pose] * np.abs(motions)).max(axis=2) <= self._limit)
        codes = starts[i] * LAYER + ends[k]
        is_new = ~np.isin(codes, self._checked[pose])
        i, k, codes = i[is_new], k[is_new], codes[is_new]
        collides = np.empty(0, dtype=np.bool_)
        for some in self._in_time(0, len(codes), STEPS_AT_ONCE):
            is_free = self.problem.is_free(before[starts[i[some]]], motions[i[some], k[some]])
            collides = np.concatenate([collides, ~is_free])
        n = len(collides)
        edges = np.column_stack([starts[i[:n]], ends[k[:n]]])[collides]
        self._checked[pose] = np.concatenate([self._checked[pose], codes[:n]])
        self._blocked[pose] = np.concatenate([self._blocked[pose], edges])
        return True

    def _nearest(self, layer: FloatArray, index: int, n: int) -> IntArray:
        """Return the indices of the n solutions of a layer that are nearest to one of them, including itself."""
        if len(layer) <= n:
            return np.arange(len(layer))
        away = (self.revolutions.differences(layer, layer[index]) ** 2).sum(axis=1)
        return np.argpartition(away, n)[:n]

    def _is_held_back(self, chosen: FloatArray, found: FloatArray) -> bool:
        """Return whether a path jumps only because joint limits prevent further revolutions."""
        rows = np.concatenate([self.before, chosen])
        on_circles = self.revolutions.steps(rows, self.scale[self.first_step :])
        return not (on_circles > self._limit).any() and len(self.jumps(found)) > 0

    def _unrolled(self, slack: float = 0.0) -> Reach | None:
        """Search among all 2π-equivalent values, or return None if time is up or there are too many values.

        Steps may exceed the limit by `slack` [rad] or [m].
        """
        return self.revolutions.search(self.layers, self.max_steps + slack, self.origin, lambda: self.out_of_time)

    def _graph(self, poses: range) -> tuple[FloatArray, IntArray, BoolArray, FloatArray]:
        """Return solutions of a range of poses, sizes of layers, joints that are circles, and factors of steps."""
        layers, scale = self.layers[poses.start : poses.stop], self.scale[poses.start : poses.stop]
        if len(self.before) and not poses.start:
            layers, scale = [self.before, *layers], np.concatenate([self.scale[:1], scale])
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
        return np.concatenate([NO_EDGES, *edges])

    # Steps and faults of a path

    def steps(self, rows: FloatArray) -> FloatArray:
        """Return the largest motion of a joint in each step of a path, ignoring gaps.

        Motions are scaled so that the smallest limit of a joint applies to all joints.
        """
        scale = self.scale[~np.isnan(rows).any(axis=1)][self.first_step :]
        return np.asarray((scale * self._motions(rows)).max(axis=1, initial=0.0))

    def max_step(self, rows: FloatArray) -> float:
        """Return the largest motion of any joint in a path [rad] or [m], ignoring gaps."""
        return float(self._motions(rows).max(initial=0.0))

    def jumps(self, rows: FloatArray) -> IntArray:
        """Return the poses that a path reaches by steps that are too large. Poses without a solution are skipped."""
        there = np.flatnonzero(~np.isnan(rows).any(axis=1))
        return there[self.first_step :][self.steps(rows) > self._limit]

    def colliding(self, rows: FloatArray) -> IntArray:
        """Return the poses that a path reaches by steps that are small enough but collide on the way."""
        if not self.problem.avoids_collisions:
            return NO_POSES
        path = np.concatenate([self.before, rows])
        motions = self.revolutions.differences(path[1:], path[:-1])
        scaled = (self.scale[self.first_step :] * np.abs(motions)).max(axis=1, initial=0.0)  # NaN without a solution
        steps = np.flatnonzero(scaled <= self._limit)
        keys = [path[step].tobytes() + motions[step].tobytes() for step in steps.tolist()]
        is_new = np.array([key not in self._is_free for key in keys], dtype=np.bool_)
        if is_new.any():
            is_free = self.problem.is_free(path[steps[is_new]], motions[steps[is_new]])
            self._is_free.update(zip([keys[at] for at in np.flatnonzero(is_new)], is_free.tolist(), strict=True))
        return steps[[not self._is_free[key] for key in keys]] + self.first_step

    def is_found(self, rows: FloatArray) -> bool:
        """Return whether a path has no gaps, no jumps, and no motions that collide."""
        return not (np.isnan(rows).any() or len(self.jumps(rows)) or len(self.colliding(rows)))

    def n_faults(self, rows: FloatArray) -> tuple[int, int]:
        """Return the number of gaps of a path, and of its jumps and motions that collide."""
        return int(np.isnan(rows).any(axis=1).sum()), len(self.jumps(rows)) + len(self.colliding(rows))

    def final_reach(self, chosen: FloatArray) -> Reach:
        """Return how far a path without large steps leads. If time is up, return how far the chosen path leads."""
        has_time = self._carried is None and self.clock() + self._choosing < self.began + self.timeout
        if has_time:
            reach = self._unrolled() if self.revolutions.repeating.any() else self._reach()[0]
            if reach is not None:
                return reach
        path = np.concatenate([chosen[:1] if self.origin is None else self.before, chosen])
        steps = (self.scale * np.abs(np.diff(path, axis=0))).max(axis=1)
        steps = np.where(np.isnan(steps), np.inf, steps)
        ends = np.flatnonzero(steps > self._limit)
        return Reach(int(ends[0]), float(steps[ends[0]])) if len(ends) else Reach(len(chosen))

    def _motions(self, rows: FloatArray) -> FloatArray:
        return np.abs(np.diff(np.concatenate([self.before, rows[~np.isnan(rows).any(axis=1)]]), axis=0))

    # Proofs that there is no path

    def _has_impossible_pose(self) -> bool:
        """Return whether some pose is proven to have no solution."""
        for index, layer in enumerate(self.layers):
            if self.refuted or self.out_of_time:
                break
            problem = self.problem.at(self.poses[index], self.problem.bounds)
            if not len(layer) and is_refuted(problem, self._attempts.get(index)):
                self.refuted.add(index)
        return bool(self.refuted)

    def _lists_no_path(self) -> bool:
        """Return whether the layers contain all solutions up to a pose that no path without jumps reaches.

        All steps that could be on such a path were checked for collisions.
        """
        reach: Reach | None = self._reach(self._merged)[0]
        if reach is not None and reach.n_poses == len(self.poses):
            # a path exists, unless joint limits prevent the revolutions that it needs
            reach = self._unrolled(self._merged)
        if reach is None or reach.rows is not None:
            return False
        return self.listed.issuperset(range(reach.n_poses + 1)) and not self.out_of_time

    def _is_certified_cut(self, poses: range) -> bool:
        """Return whether a closed form proves that no path leads through some poses.

        It is assumed that no path leads along the components in the layers of these poses. The closed form then proves
        that there are no other components. Nothing is proven with collision checks or other checks, because they may
        leave parts of a component that are smaller than the spacing of the layer.
        """
        if not poses or self.problem.is_checked:
            return False
        for index in poses:
            if index in self._certified:
                continue
            try:
                answer = self._answer(Covering(STEP, MOST, "certified"), index, 0)
            except ConfigurationError:  # there is no closed form
                return False
            rows = self.revolutions.on_circles(answer.q)
            if not answer.certified or not is_within(self._bounds, rows, self.layers[index], self.cover).all():
                self._put(index, self._completed(index, np.concatenate([self.layers[index], rows])))
                return False
            self._certified.add(index)
        return not self.out_of_time

    def _is_cut(self, poses: range) -> bool:
        """Return whether no path leads through a range of poses. All layers of these poses must have been refined."""
        graph = self._graph(poses)
        largest = self.largest_step + 2.0 * self.cover / FINER
        return bool(path_reach(*graph, largest, NO_EDGES)[1] < len(graph[1]))

    def _reach(self, slack: float = 0.0) -> tuple[Reach, BoolArray]:
        """Return how far paths lead if their steps may exceed the limit by `slack` [rad] or [m].

        If the slack is positive, colliding steps are also allowed, because steps near them may not collide. The second
        value marks which solutions (n,) of all layers in sequence are on such a path from the first to the last pose.
        """
        poses, n_before = range(len(self.poses)), len(self.before)
        graph = self._graph(poses)
        blocked = NO_EDGES if slack else self._blocked_edges(graph[1], poses)
        on_path, n_reached, nearest = path_reach(*graph, self.largest_step + slack, blocked)
        n_reached = max(n_reached - n_before, 0)
        return Reach(n_reached, 0.0 if n_reached == len(poses) else float(nearest)), on_path[n_before:]


def impossible_steps(problem: Problem, poses: FloatArray, max_steps: FloatArray, origin: FloatArray | None) -> IntArray:
    """Return the poses that are too far from the previous pose for the largest steps of the joints.

    The poses (n_poses, 4, 4) follow the configuration `origin` (dof,), if there is one. `max_steps` (n_poses, dof)
    contains the largest change of each joint from the previous pose to each pose [rad] or [m].
    """
    constraints, setup = problem.setup.constraints, problem.setup
    first = 1 if origin is None else 0
    path = poses if origin is None else np.concatenate([problem.robot.fk(origin[None]), poses])
    distances, angles = longest_motions(problem.robot, max_steps[first:])
    moved = np.linalg.norm(np.diff(path[:, :3, 3], axis=0), axis=1)
    is_too_far = moved > distances + 2.0 * (constraints.position_tolerance + setup.slack) + FARTHER
    if not problem.position_only and problem.tolerances is None:
        between = np.einsum("nji,nji->n", path[1:, :3, :3], path[:-1, :3, :3])  # trace of the rotation between poses
        turned = np.arccos(np.clip(0.5 * (between - 1.0), -1.0, 1.0))
        is_too_far |= turned > angles + 2.0 * constraints.orientation_tolerance + ARCCOS_ROUNDING
    return np.flatnonzero(is_too_far) + first


def longest_motions(robot: Robot, max_steps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds of the motion (n,) [m] and the rotation (n,) [rad] of the tip in steps (n, dof) of the joints."""
    joints = robot.links[:-1]
    sources = joints[:, SOURCE].astype(np.int64)
    slides = joints[:, PRISMATIC] != 0.0
    ends = np.abs([joints[:, MULTIPLIER] * limit[sources] + joints[:, OFFSET] for limit in (robot.lower, robot.upper)])
    lengths = np.linalg.norm(
        robot.links[1:, TRANSLATION], axis=1
    )  # distance from each joint to the next one, or to the tip
    travel = np.where(slides, ends.max(axis=0), 0.0)
    away = np.cumsum((lengths + travel)[::-1])[::-1]  # largest distance from each joint to the tip
    motions = np.abs(joints[:, MULTIPLIER]) * max_steps[:, sources]
    turns = np.where(slides, 0.0, motions)
    return (turns * away + np.where(slides, motions, 0.0)).sum(axis=1), turns.sum(axis=1)
