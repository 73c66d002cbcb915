"""Repeated searches for a path, until one has no jumps, a proof shows that there is none, or time is up.

If `PathSearch` finds no path without jumps, it is run again with new samples and twice as many solutions of each pose.
After a few runs, the search begins again with other random numbers.

If two or three directions are free, the extra joints are first fixed at several values, so that solutions are curves.
If more directions are free, or if this search fails, single solutions are moved along all poses. `PathSmoother` then
smooths the best path with all joints.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from dataclasses import dataclass

import numpy as np

from eim_ros.core.arrays import BoolArray, FloatArray
from eim_ros.core.deadlines import OutOfTime, with_grace
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik.candidates import ErrorCode
from eim_ros.ik.joint_path import JointPath
from eim_ros.ik.path_search import PathSearch
from eim_ros.ik.path_smoothing import OBJECTIVES, Objective, PathSmoother
from eim_ros.ik.prior import Prior
from eim_ros.ik.problem import Problem
from eim_ros.ik.request import Spread
from eim_ros.ik.revolutions import Reach
from eim_ros.ik.setup import Setup

DOUBLINGS = 4  # number of times that the density of the layers is doubled before a search begins again
MOST_EXTRA = 2  # largest number of extra joints that are fixed at several values
SLICES = (0.5, 0.25, 0.75, 0.05, 0.95)  # values of one extra joint, as shares of its range
FEWER_SLICES = (0.5, 0.2, 0.8)  # values of each of two extra joints, as shares of its range
SLICED_SHARE = 0.6  # share of the time for paths along which the extra joints do not move


def follow_path(
    setup: Setup,
    prior: Prior,
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

    `max_steps` is a result of `largest_steps`. `n` is the number of solutions of each pose if solutions are neither
    points nor curves.
    """
    began, robot, reaching = time.perf_counter(), setup.robot, setup.reaching(poses)
    if objective is not None and objective not in OBJECTIVES:
        raise ConfigurationError(f"objective must be one of {', '.join(OBJECTIVES)}, got {objective!r}", objective)
    if objective == "time" and not np.isfinite(robot.velocity_limits).all():
        unlimited = robot.joint_names[int(np.argmin(np.isfinite(robot.velocity_limits)))]
        raise ConfigurationError(f"objective 'time' needs velocity limits, but the URDF has none for {unlimited!r}")
    position_only = setup.is_position_only(prior.kind)
    try:
        problem = Problem(reaching, poses[0], position_only, Spread(n), deadline=with_grace(deadline))
    except OutOfTime as error:
        elapsed = time.perf_counter() - began
        return JointPath.not_begun(robot.joint_names, len(poses), f"timed out: {error}", elapsed)
    rng, left = np.random.default_rng(seed), deadline - time.perf_counter()
    search = PathSearch(setup, prior, problem, poses, max_steps, rng, n, left, near)
    smoother = PathSmoother(problem, poses, search.revolutions, max_steps, objective or "squares", near)
    refinement = PathRefinement(search, smoother, deadline)
    chosen, is_proven = refinement.run()
    search = refinement.search
    if objective is not None and not search.out_of_time and search.is_found(chosen):
        chosen = smoother.smoothed(chosen, search.until)
    return refinement.answer(chosen, is_proven, began)


@dataclass(eq=False)
class PathRefinement:
    """Searches for the best path of one request. Each search has more solutions than the previous one."""

    search: PathSearch  # the search with the best path so far
    smoother: PathSmoother
    deadline: float  # time of `perf_counter` [s]
    n_searches: int = 0

    def run(self) -> tuple[FloatArray, bool]:
        """Return the best path (n_poses, dof), and whether it is proven that each path jumps or has gaps."""
        for attempt in (self._sliced, self._carried):
            chosen = attempt(self.search)
            if chosen is not None:
                return chosen, False
        best: tuple[PathSearch, FloatArray] | None = None
        while True:
            search = dataclasses.replace(self.search, timeout=self.deadline - time.perf_counter())
            chosen, is_proven = search.run()
            if best is None and not (is_proven or search.is_found(chosen)):
                is_proven = self._is_impossible_without_checks(search)
            for n_doublings in range(DOUBLINGS + 1):
                self.n_searches += 1
                if best is None or search.n_faults(chosen) < best[0].n_faults(best[1]):
                    best = search, chosen
                if search.is_found(chosen) or is_proven or search.out_of_time:
                    self.search, chosen = best
                    return chosen, is_proven
                if n_doublings < DOUBLINGS:
                    chosen, is_proven = self._denser(search)

    def _denser(self, search: PathSearch) -> tuple[FloatArray, bool]:
        """Repeat a search with new samples and twice as many solutions; see `PathSearch.run`.

        If some poses have no solution yet, only these poses are sampled again.
        """
        gaps = [index for index, layer in enumerate(search.layers) if not len(layer)]
        search.misses.clear()
        if not gaps:
            search.densify()
            other = self._sliced(search, at_random=True)
            if other is None:
                other = self._carried(search)
            if other is not None:
                return other, False
        search.follow(gaps or range(len(search.poses)))
        if not search.has_gaps:
            search.follow_back()
        return search.judged(search.best())

    def _is_impossible_without_checks(self, search: PathSearch) -> bool:
        """Return whether it is proven that there is no path without jumps even if configurations may collide.

        A proof that includes collisions is impossible, because they divide self-motions into small pieces.
        """
        if not search.problem.is_checked or search.has_gaps or not search.is_covered or search.out_of_time:
            return False
        left = search.deadline - search.clock()
        part = search.with_constraints(left, self_collision=False, obstacles=(), links=(), branch={})
        part.rng = np.random.default_rng(0)
        return part.run()[1]

    def _sliced(self, search: PathSearch, at_random: bool = False) -> FloatArray | None:
        """Return the best path along which the extra joints do not move, or None if no path without jumps is found.

        If more than one direction is free, solutions of a pose form surfaces, and samples cover surfaces badly. If the
        extra joints are fixed, solutions form curves, which the layers cover. Several values of the extra joints are
        tried.
        """
        if search.problem.tolerances is not None or not 2 <= search.redundancy <= MOST_EXTRA + 1:
            return None
        slices, found = self._slices(search, at_random), list[FloatArray]()
        until = search.began + (1.0 if at_random else SLICED_SHARE) * search.timeout
        for number, values in enumerate(slices):
            left = until - search.clock()
            if left <= 0.0 or (at_random and search.out_of_time):
                break
            share = left if number == len(slices) - 1 else 0.5 * left  # keep time for other slices
            try:
                part = search.with_constraints(share, fixed={**search.setup.constraints.fixed, **values})
            except OutOfTime:
                break
            chosen, _ = part.run()
            if part.is_found(chosen):
                found.append(chosen)
        search.examined[:] |= bool(found)
        return min(found, key=self.smoother.cost, default=None)

    def _slices(self, search: PathSearch, at_random: bool) -> list[dict[str, float]]:
        """Return the values of the extra joints to try.

        The extra joints are prismatic joints if possible, otherwise the joints nearest to the base. Random values are
        tried after the values in `SLICES`, unless the first configuration determines the values.
        """
        robot, (low, high, _) = search.problem.robot, search.problem.bounds
        movable = np.flatnonzero(low < high).tolist()
        joints = sorted(movable, key=lambda joint: (not robot.prismatic[joint], joint))[: search.redundancy - 1]
        low, high = low[joints], high[joints]
        if search.origin is not None:
            start = search.revolutions.on_circles(search.origin[None], of_limited=False)[:, joints]
            values = start[:0] if at_random else np.clip(start, low, high)
        elif at_random:
            values = search.rng.uniform(low, high, (len(SLICES), len(joints)))
        else:
            shares = SLICES if len(joints) == 1 else FEWER_SLICES
            values = low + np.array(list(itertools.product(shares, repeat=len(joints)))) * (high - low)
        names = [robot.joint_names[joint] for joint in joints]
        return [dict(zip(names, each, strict=True)) for each in values.tolist()]

    def _carried(self, search: PathSearch) -> FloatArray | None:
        """Return the best path without jumps along which one solution moves from pose to pose, or None.

        If more than one direction is free, layers are random samples. The solutions that a long path needs may be
        missing in some layers. Therefore each sample of one pose is moved along the complete path. All joints may move,
        including those of a mobile base. The samples belong to the first, the middle or the last pose.
        """
        if search.redundancy < 2:
            return None
        last = len(search.poses) - 1
        for start in (0,) if search.origin is not None else (0, last // 2, last):
            rows = search.revolutions.on_circles(search.before) if len(search.before) else search.samples(start)[0]
            there = search.moved_along(rows, range(start, last + 1))
            chosen = np.concatenate([search.moved_along(rows, range(start, -1, -1))[:0:-1], there])
            paths = [
                search.revolutions.unrolled(chosen[:, number], search.max_steps, search.origin)
                for number in np.flatnonzero(~np.isnan(chosen).any(axis=(0, 2)))
            ]
            found = [path for path in paths if search.is_found(path)]
            if search.out_of_time:
                break
            if found:
                search.examined[:] = True
                return min(found, key=self.smoother.cost)
        return None

    def answer(self, chosen: FloatArray, is_proven: bool, began: float) -> JointPath:
        """Return the answer with errors by forward kinematics. Poses were checked for collisions during the search."""
        search, n_poses = self.search, len(chosen)
        errors, valid = self._verified(chosen)
        largest, jumps, colliding = search.max_step(chosen), search.jumps(chosen), search.colliding(chosen)
        faults = np.union1d(jumps, colliding)
        is_all = bool(valid.all()) and not len(faults)
        reach = Reach(n_poses) if is_all else search.final_reach(chosen)
        if len(colliding) and reach.n_poses == n_poses:  # time was up, or joint limits prevent further revolutions
            at = int(colliding[0])
            reach = Reach(at, float(search.steps(chosen)[at - search.first_step]))
        code = ErrorCode.SUCCESS if is_all else ErrorCode.NO_IK_SOLUTION if is_proven else ErrorCode.TIMED_OUT
        if is_all:
            message = f"all {n_poses} poses are reached, and no joint steps farther than {largest:.3g}"
        elif not valid.all():
            message = self._gaps(valid)
        elif len(colliding):
            reason = "collide or were not checked" if search.problem.n_unchecked else "collide"
            message = f"{len(colliding)} motions between poses {reason} (the first leads to pose {colliding[0]})"
        else:
            message = f"the path jumps {len(jumps)} times, by up to {largest:.3g}{self._break(reach, is_proven)}"
        if code == ErrorCode.TIMED_OUT:
            after = f" after {self.n_searches} searches" if self.n_searches > 1 else ""
            message = f"timed out{after}: {message}"
        names, examined = search.problem.robot.joint_names, search.examined | valid
        found = (names, chosen, errors[0], errors[1], valid, examined, largest, reach.n_poses, reach.nearest_miss)
        return JointPath(*found, faults, code, message, time.perf_counter() - began)

    def _verified(self, chosen: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return errors (2, n_poses) [m], [rad] and whether rows reach their poses.

        Errors are infinite without a solution.
        """
        search, problem = self.search, self.search.problem
        errors, valid = np.full((2, len(chosen)), np.inf), np.zeros(len(chosen), dtype=np.bool_)
        within_limits = search.revolutions.on_circles(chosen, of_limited=False)
        for index in np.flatnonzero(~np.isnan(chosen).any(axis=1)).tolist():
            task = problem.at(search.poses[index], problem.bounds).task
            measured, reaches = problem.robot.chain.verify(task, within_limits[index : index + 1])
            errors[:, index], valid[index] = measured[:, 0], reaches[0]
        return errors, valid

    def _gaps(self, valid: BoolArray) -> str:
        """Describe the poses without a solution, and the poses that were not examined."""
        parts, examined, n_poses = [], self.search.examined, len(valid)
        for which, what in ((examined & ~valid, "have no solution"), (~examined & ~valid, "were not examined")):
            if which.any():
                first = int(which.argmax())
                missed = ""
                if examined[first] and first in self.search.misses:
                    position, orientation = self.search.misses[first]
                    missed = f", missed by {position:.3g} m and {orientation:.3g} rad at best"
                parts.append(f"{which.sum()} of {n_poses} poses {what} (the first is pose {first}{missed})")
        return "; ".join(parts)

    def _break(self, reach: Reach, is_proven: bool) -> str:
        """Describe the first step that is too large, and its size."""
        pose = reach.n_poses
        if pose == len(self.search.poses):
            return ""
        start = "the start" if pose == 0 else f"pose {pose - 1}"
        found = "no path without jumps exists" if is_proven else "no path without jumps was found"
        return (
            f"; {found}: steps of at most {self.search.largest_step:.3g} lead as far as {start}, and the step from "
            f"there to pose {pose} is at least {reach.nearest_miss:.3g}"
        )
