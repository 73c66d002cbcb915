"""Smoothing, which shortens a path of configurations along the self-motions of its poses.

The search for a path chooses among samples of each pose, so its result is not smooth. Smoothing moves all
configurations at once. Each configuration moves along the null space N_k of its pose, q_k + N_k z_k. A Gauss-Newton
step minimises

    sum over steps k and joints j of w_kj (dq_kj)^2,

and its matrix is block tridiagonal. The weights w are 1 for the sum of squares, and 1 / |dq_kj| for the L1 length,
which gives iteratively reweighted least squares. The ratio of the largest steps converts metres to radians. For the
objective "time", a step takes max_j |dq_kj| / v_j with the largest velocities v. A norm of high order approximates this
maximum.

After each step, configurations are moved back onto their poses. The step is accepted if the cost falls, and if limits,
largest steps and collision checks are still satisfied. Configurations that would violate these conditions do not move.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from eim_ros.core.arrays import BoolArray, FloatArray
from eim_ros.ik.problem import Problem
from eim_ros.ik.revolutions import TURN, Revolutions
from eim_ros.ik.setup import PATIENCE

Objective: TypeAlias = Literal["squares", "length", "largest_step", "time"]

OBJECTIVES: tuple[Objective, ...] = ("squares", "length", "largest_step", "time")
ENOUGH = 1e-3  # relative decrease of the cost below which a round ends
MOST_ITERATIONS = 80
MOST_TRIES = 6  # attempts of one iteration; each attempt fixes more configurations or shortens the motion
MOST_RELEASES = 3  # number of times that fixed configurations are released
TRUST = 0.3  # largest motion of a joint in one iteration [rad or m]
HELD = 1e8  # weight that keeps a configuration fixed
DAMPING = 1e-7  # weight of the motion, which keeps the matrix definite if the arm is singular
STRICTER = 8.0  # factor on the weight of a step that became too large
POWER = 10  # order of the norm that approximates the largest step and the slowest joint
ROUNDNESS = 0.02  # share of the mean motion below which the L1 length and the time are smoothed
MARGIN = 1e-9  # relative margin of largest steps
FIRST_ESTIMATE = 1e-4  # time for one pose in the first iteration [s]


@dataclass(eq=False)
class PathSmoother:
    """Local minimisation of the cost of a path without gaps and jumps.

    Attributes
    ----------
    problem : Problem
        Constraints of all poses.
    poses : (n_poses, 4, 4)
    revolutions : Revolutions
        Limits of the joints, and joints with 2π-equivalent values.
    max_steps : (n_poses, dof)
        Largest change of each joint from the previous pose, or from `origin`, to each pose [rad] or [m].
    objective : {"squares", "length", "largest_step", "time"}
        "squares" (sum of squared steps), "length" (sum of absolute changes of all joints), "largest_step", or "time"
        (duration with all velocities at most `Robot.velocity_limits`) [s].
    origin : (dof,), optional
        Configuration before the first pose.
    """

    problem: Problem
    poses: FloatArray
    revolutions: Revolutions
    max_steps: FloatArray
    objective: Objective = "squares"
    origin: FloatArray | None = None

    def __post_init__(self) -> None:
        self._epsilon = 0.0
        problem, circles = self.problem, self.revolutions.bounds(self.problem.bounds)
        self._tasks = [problem.at(pose, circles).task for pose in self.poses]
        self._lower = np.where(self.revolutions.unlimited, -np.inf, self.revolutions.lower)
        self._upper = np.where(self.revolutions.unlimited, np.inf, self.revolutions.upper)
        self._movable = self.revolutions.lower < self.revolutions.upper
        slides = problem.robot.prismatic
        self._units = np.ones(problem.robot.dof)  # factors that make metres comparable with radians
        if slides.any() and not slides.all():
            largest = np.median(self.max_steps, axis=0)
            self._units[slides] = np.median(largest[~slides]) / largest[slides]
        self._before = np.empty((0, problem.robot.dof)) if self.origin is None else self.origin[None]
        self._largest = self.max_steps[1 - len(self._before) :]  # (n_steps, dof)

    @property
    def n_free(self) -> int:
        """Number of directions in which each configuration can move."""
        return max(self.problem.redundancy, 0)

    def cost(self, rows: FloatArray) -> float:
        """Return the cost of a path (n_poses, dof)."""
        steps = np.abs(self._measured(rows))
        if self.objective == "squares":
            return float((steps**2).sum())
        if self.objective == "length":
            return float(steps.sum())
        if self.objective == "time":
            return float(self._durations(rows).max(axis=1, initial=0.0).sum())
        return float((np.abs(self._steps(rows)) / self._largest).max(initial=0.0))

    def smoothed(self, rows: FloatArray, deadline: float) -> FloatArray:
        """Return a path (n_poses, dof) of lower or equal cost; the deadline is a time of `perf_counter` [s]."""
        if not self.n_free or len(rows) < 2:
            return rows
        best, extra = rows, np.ones_like(self._steps(rows))
        held, trust, n_releases = np.zeros(len(rows), dtype=np.bool_), TRUST, 0
        duration = FIRST_ESTIMATE * len(rows)
        for _ in range(MOST_ITERATIONS):
            began = time.perf_counter()
            if began + 1.5 * duration > deadline:
                break
            moved = self._moved(best, extra, held, trust, deadline)
            duration = max(duration, time.perf_counter() - began)
            before = self._surrogate(best)
            decrease = 0.0 if moved is None else (before - self._surrogate(moved)) / max(before, 1e-300)
            best = best if moved is None else moved
            if decrease < ENOUGH:
                if not held.any() or n_releases == MOST_RELEASES:
                    break
                held[:] = False
                trust, n_releases = 0.3 * trust, n_releases + 1
        return best if self.cost(best) <= self.cost(rows) else rows

    def _steps(self, rows: FloatArray) -> FloatArray:
        """Return the change of each joint in each step (n_steps, dof) [rad] or [m]."""
        return np.diff(np.concatenate([self._before, rows]), axis=0)

    def _measured(self, rows: FloatArray) -> FloatArray:
        """Return the change of each joint in each step, with metres scaled to be comparable with radians."""
        return self._units * self._steps(rows)

    def _durations(self, rows: FloatArray) -> FloatArray:
        """Return the time that each joint needs in each step (n_steps, dof) [s]."""
        return np.asarray(np.abs(self._steps(rows)) / self.problem.robot.velocity_limits)

    def _norms(self, durations: FloatArray) -> FloatArray:
        """Return a smooth upper bound (n_steps, 1) of the longest duration in each step [s]."""
        return np.asarray(((durations**POWER).sum(axis=1, keepdims=True) + self._epsilon**POWER) ** (1.0 / POWER))

    def _roundness(self, steps: FloatArray) -> float:
        return ROUNDNESS * float(np.abs(steps).mean()) + 1e-9

    def _surrogate(self, rows: FloatArray) -> float:
        """Return the smooth cost that the iterations minimise."""
        if self.objective == "length":
            return float(np.sqrt(self._measured(rows) ** 2 + self._epsilon**2).sum())
        if self.objective == "largest_step":
            scaled = np.abs(self._steps(rows)) / self._largest
            return float((scaled**POWER).sum() ** (1.0 / POWER))
        if self.objective == "time":
            return float(self._norms(self._durations(rows)).sum())
        return self.cost(rows)

    def _weights(self, rows: FloatArray) -> FloatArray:
        """Return the weight of the square of each step (n_steps, dof)."""
        if self.objective == "time":
            durations = self._durations(rows)
            self._epsilon = self._roundness(durations.max(axis=1, initial=0.0))
            norms = self._norms(durations)
            relative = (durations / norms) ** (POWER - 2) + 1e-4
            return np.asarray(relative * self._epsilon / (norms * self.problem.robot.velocity_limits**2))
        steps = self._measured(rows)
        self._epsilon = self._roundness(steps)
        if self.objective == "length":
            return np.asarray(self._units**2 * self._epsilon / np.sqrt(steps**2 + self._epsilon**2))
        if self.objective == "largest_step":
            scaled = np.abs(self._steps(rows)) / self._largest
            return np.asarray(((scaled / max(scaled.max(), 1e-300)) ** (POWER - 2) + 1e-4) / self._largest**2)
        return np.broadcast_to(self._units**2, steps.shape)

    def _moved(
        self, rows: FloatArray, extra: FloatArray, held: BoolArray, trust: float, deadline: float
    ) -> FloatArray | None:
        """Return a path of lower cost after one step; None if none was found. `extra` and `held` are updated."""
        null_space, weights = self._null_space(rows), self._weights(rows)
        before, share, stopped = self._surrogate(rows), 1.0, np.zeros(len(rows), dtype=np.bool_)
        for _ in range(MOST_TRIES):
            if time.perf_counter() > deadline:
                return None
            motion = share * self._motion(rows, null_space, weights * extra, held | stopped, trust)
            goal, is_kept = self._projected(rows, rows + motion)
            steps = np.abs(self._steps(goal))
            too_large = (steps > self._largest * (1.0 + MARGIN)).any(axis=1)
            if not is_kept.all():
                stopped |= ~is_kept
            elif too_large.any():
                extra[too_large] *= STRICTER
                share *= 0.7
            elif self._surrogate(goal) >= before:
                share *= 0.4
            else:
                collides = self._colliding(rows, goal)
                if not collides.any():
                    return goal
                held |= collides
        return None

    def _null_space(self, rows: FloatArray) -> FloatArray:
        """Return orthonormal directions (n, dof, n_free) in which the pose does not change."""
        jacobian = self.problem.robot.jacobian(rows)
        jacobian = jacobian[:, :3] if self.problem.position_only else jacobian
        found = np.zeros((len(rows), rows.shape[1], self.n_free))
        found[:, self._movable] = np.linalg.svd(jacobian[:, :, self._movable])[2][:, -self.n_free :].transpose(0, 2, 1)
        return found

    def _motion(
        self, rows: FloatArray, null_space: FloatArray, weights: FloatArray, held: BoolArray, trust: float
    ) -> FloatArray:
        """Return the motion (n, dof) within the limits and `trust` that minimises the weighted sum of squares."""
        n, r, steps = len(rows), self.n_free, self._steps(rows)
        after = np.zeros((n, rows.shape[1]))
        first = np.zeros((n, rows.shape[1]))
        n_before = len(self._before)
        first[1 - n_before :], after[: n - 1] = weights, weights[n_before:]
        pull = np.zeros_like(rows)
        pull[1 - n_before :] += weights * steps
        pull[: n - 1] -= (weights * steps)[n_before:]
        diagonal = np.einsum("nji,nj,njk->nik", null_space, first + after, null_space)
        beyond = -np.einsum("nji,nj,njk->nik", null_space[:-1], after[:-1], null_space[1:])
        scale = float(np.abs(diagonal).max()) + 1e-300
        diagonal += DAMPING * scale * np.eye(r)
        fixed, at = held.copy(), np.zeros((n, r))
        for _ in range(3):
            found = self._solved(
                diagonal + np.where(fixed, HELD * scale, 0.0)[:, None, None] * np.eye(r),
                beyond,
                -np.einsum("nji,nj->ni", null_space, pull) + np.where(fixed[:, None], HELD * scale * at, 0.0),
            )
            motion = np.einsum("nji,ni->nj", null_space, found)
            largest = float(np.abs(motion).max())
            motion *= min(1.0, trust / max(largest, 1e-300))
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(motion > 0.0, self._upper - rows, np.where(motion < 0.0, self._lower - rows, np.inf))
                share = np.where(np.abs(motion) > 1e-12, room / motion, np.inf).min(axis=1)
            out = (share < 1.0) & ~fixed
            motion *= np.clip(share, 0.0, 1.0)[:, None]
            if not out.any():
                break
            fixed |= out
            at[out] = (found * min(1.0, trust / max(largest, 1e-300)) * np.clip(share, 0.0, 1.0)[:, None])[out]
        return np.asarray(motion)

    def _solved(self, diagonal: FloatArray, beyond: FloatArray, right: FloatArray) -> FloatArray:
        """Return the solution (n, r) of a symmetric block tridiagonal system with blocks (n, r, r), (n - 1, r, r)."""
        from scipy.linalg import solveh_banded  # imported here, because it doubles the import time of the package

        n, r = right.shape
        banded = np.zeros((2 * r, n * r))  # lower form: banded[i - j, j]
        for row in range(r):
            for column in range(r):
                if row >= column:
                    banded[row - column, column::r] = diagonal[:, row, column]
                banded[r + row - column, column : (n - 1) * r : r] = beyond[:, column, row]
        return np.asarray(solveh_banded(banded, right.ravel(), lower=True, check_finite=False)).reshape(n, r)

    def _projected(self, rows: FloatArray, goal: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return configurations moved onto their poses, and which of them (n,) are valid and continuous."""
        chain, effort, found = self.problem.robot.chain, self.problem.effort_of(PATIENCE), goal.copy()
        on_circles = self.revolutions.on_circles(goal)
        is_valid = np.ones(len(rows), dtype=np.bool_)
        for index in np.flatnonzero((goal != rows).any(axis=1)).tolist():
            moved, *_ = chain.refine(self._tasks[index], effort, on_circles[index : index + 1])
            is_valid[index] = chain.verify(self._tasks[index], moved)[1][0]
            found[index] = moved[0]
        turns = np.where(self.revolutions.circles, np.round((goal - found) / TURN), 0.0)
        found += TURN * turns
        is_valid &= ((found >= self._lower) & (found <= self._upper)).all(axis=1)
        return found, is_valid

    def _colliding(self, rows: FloatArray, goal: FloatArray) -> BoolArray:
        """Return which configurations (n,) moved and violate the checks, or collide on the way to a neighbour."""
        found = np.zeros(len(rows), dtype=np.bool_)
        has_moved = (goal != rows).any(axis=1)
        if self.problem.is_checked:
            on_circles = self.revolutions.on_circles(goal[has_moved], of_limited=False)
            found[has_moved] = ~self.problem.allowed(on_circles)
        if self.problem.avoids_collisions:
            n_before, path = len(self._before), np.concatenate([self._before, goal])
            is_new = np.concatenate([np.zeros(n_before, dtype=np.bool_), has_moved])
            steps = np.flatnonzero(is_new[1:] | is_new[:-1])
            colliding = steps[~self.problem.is_free(path[steps], path[steps + 1] - path[steps])]
            ends = np.concatenate([colliding, colliding + 1]) - n_before
            found[ends[ends >= 0]] = True
            found &= has_moved
        return found
