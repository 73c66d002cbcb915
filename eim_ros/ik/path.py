"""One solution for each pose of a Cartesian path, so that the joints move little and never jump where they need not.

Each pose has candidates: samples of its own, and the candidates of its neighbours moved onto it, which follow a motion
that is possible. Dynamic programming picks one for each pose, such that the sum over the steps of |dq|^2, plus PENALTY
for each step in which a joint moves farther than allowed, is least. A first pass samples at every STRIDE-th pose and
follows forward. Where its path jumps or has gaps, the other poses are sampled as well, and candidates followed backward
too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConfigurationError
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.goal import Goal
from eim_ros.ik.request import SampleRequest, checked_configuration
from eim_ros.ik.sampler import Sampler, check_sampler
from eim_ros.kinematics.arguments import is_number
from eim_ros.kinematics.pose import check_poses

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["JointPath", "PathOptions", "sample_path"]

FloatArray = npt.NDArray[np.float64]

PENALTY = 1e4  # [rad^2]: of a jump; more than any sum of allowed steps
STRIDE = 10
TIMEOUT = 5.0  # [s], default
FOLLOWED = 0.5  # share of the followed candidates that are the best ones so far; the others are drawn, to stay diverse


@dataclass(frozen=True, eq=False)
class JointPath:
    """A configuration for each pose.

    Attributes
    ----------
    joint_names : tuple of str
    positions : (n_poses, dof)
        [rad] or [m]; NaN where the pose has no solution.
    position_error, orientation_error : (n_poses,)
        By forward kinematics [m], [rad]; infinite where there is none.
    valid : (n_poses,) of bool
        Whether the errors are within the tolerances, the joints within the limits, and no collision was found.
    largest_step : float
        Largest motion of a joint from one pose to the next, on the circle where it is continuous [rad] or [m].
    error_code : ErrorCode
        SUCCESS if every pose is solved and no step is larger than asked for; NO_IK_SOLUTION; TIMED_OUT.
    message : str
    elapsed : float
        [s].
    """

    joint_names: tuple[str, ...]
    positions: FloatArray
    position_error: FloatArray
    orientation_error: FloatArray
    valid: npt.NDArray[np.bool_]
    largest_step: float
    error_code: ErrorCode
    message: str
    elapsed: float


class PathOptions(TypedDict, total=False):
    """Keywords of `sample_path`.

    position_only, position_tolerance, orientation_tolerance
        As in `SampleRequest`.
    timeout : float
        [s]; default 5.
    constraints : Constraints, optional
        What is asked of every configuration; between the poses nothing is checked for collisions.
    """

    position_only: bool | None
    position_tolerance: float
    orientation_tolerance: float
    timeout: float
    constraints: Constraints | None


def sample_path(
    sampler: Sampler,
    poses: npt.ArrayLike,
    n: int = 48,
    random_seed: int | None = None,
    *,
    near: npt.ArrayLike | None = None,
    largest_step: float = 0.3,
    **options: Unpack[PathOptions],
) -> JointPath:
    """Follow a path of poses.

    Parameters
    ----------
    sampler : Sampler
    poses : (n_poses, 4, 4) array_like
        Of the tip in the base frame, at least one.
    n : int
        Samples for each pose; about three times as many candidates are looked at.
    random_seed : int, optional
        At least 0; the same seed gives the same path unless the timeout cuts it short.
    near : (dof,) array_like, optional
        Where the robot is: the step to the first pose counts as well.
    largest_step : float
        Most that a joint should move from one pose to the next [rad] or [m].
    **options
        See `PathOptions`.

    Raises
    ------
    PoseError, JointStateError, ConfigurationError, ConstraintError
        If an argument is malformed.
    """
    began = time.perf_counter()
    check_sampler(sampler)
    wanted = check_poses(poses)
    if unknown := set(options) - set(PathOptions.__annotations__):
        raise ConfigurationError(f"sample_path has no option {min(unknown)!r}", unknown)
    chosen_options: PathOptions = {"timeout": TIMEOUT, **options}
    first = SampleRequest(wanted[0], n, random_seed, **chosen_options)
    if not (is_number(largest_step) and largest_step > 0.0):
        raise ConfigurationError(f"the largest step must be positive, got {largest_step}", largest_step)
    fitted = first.fitted(sampler.robot, sampler.context_kind)
    goals = [Goal.of(sampler.robot, replace(fitted, pose=pose)) for pose in wanted]
    search = _Search(sampler, goals, largest_step, np.random.default_rng(random_seed), first.n, began + first.timeout)
    origin = None if near is None else checked_configuration(sampler.robot, near)
    own = [np.empty((0, sampler.robot.dof))] * len(goals)
    search.sample(own, range(0, len(goals), STRIDE))
    candidates = search.followed(own, origin)
    chosen = search.best(candidates, origin)
    if search.has_gaps_or_jumps(chosen, origin) and not search.out_of_time:
        search.sample(own, [index for index in range(len(goals)) if index % STRIDE])
        forward = search.followed(own, origin)
        candidates = search.followed(forward[::-1], None, reverse=True)[::-1]
        chosen = search.best(candidates, origin)
    return search.result(chosen, origin, time.perf_counter() - began)


@dataclass(frozen=True, eq=False)
class _Search:
    sampler: Sampler
    goals: list[Goal]
    largest_step: float
    rng: np.random.Generator
    n: int
    deadline: float

    @property
    def out_of_time(self) -> bool:
        return time.perf_counter() >= self.deadline

    def sample(self, own: list[FloatArray], indices: Iterable[int]) -> None:
        """Fill in samples of these poses, while there is time."""
        for index in indices:
            if self.out_of_time:
                return
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
            own[index] = samples.positions[samples.valid]

    def followed(self, own: list[FloatArray], origin: FloatArray | None, reverse: bool = False) -> list[FloatArray]:
        """Candidates of each pose: its own, and those of the pose before moved onto it."""
        goals = self.goals[::-1] if reverse else self.goals
        result: list[FloatArray] = []
        costs: FloatArray = np.empty(0)
        for goal, fresh in zip(goals, own, strict=True):
            before = result[-1] if result else (fresh[:0] if origin is None else origin[None])
            seeds = before[self._worth_following(costs if result else np.zeros(len(before)))]
            moved = goal.refined(seeds, np.zeros(len(seeds), dtype=np.uint32))
            candidates = np.concatenate([moved.positions[moved.valid], fresh])
            if len(before) and len(candidates):
                steps = self._transitions(before, candidates)
                costs = (steps + (costs[:, None] if result else 0.0)).min(axis=0)
            else:
                costs = np.zeros(len(candidates))
            result.append(candidates)
        return result

    def best(self, candidates: list[FloatArray], origin: FloatArray | None) -> list[FloatArray | None]:
        """One candidate for each pose that has any."""
        costs: FloatArray | None = None
        before: FloatArray | None = None if origin is None else origin[None]
        back: list[npt.NDArray[np.int64]] = []
        solved = [index for index, rows in enumerate(candidates) if len(rows)]
        for index in solved:
            rows = candidates[index]
            if before is None:
                costs, previous = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64)
            else:
                total = self._transitions(before, rows)
                total = total if costs is None else total + costs[:, None]
                previous = total.argmin(axis=0)
                costs = np.take_along_axis(total, previous[None], axis=0)[0]
            back.append(previous)
            before = rows
        chosen: list[FloatArray | None] = [None] * len(candidates)
        at = 0 if costs is None else int(costs.argmin())
        for index, previous in zip(reversed(solved), reversed(back), strict=True):
            chosen[index] = candidates[index][at]
            at = int(previous[at])
        return chosen

    def has_gaps_or_jumps(self, chosen: list[FloatArray | None], origin: FloatArray | None) -> bool:
        return any(row is None for row in chosen) or bool((self._steps(chosen, origin) > self.largest_step).any())

    def result(self, chosen: list[FloatArray | None], origin: FloatArray | None, elapsed: float) -> JointPath:
        robot = self.sampler.robot
        positions = np.array([np.full(robot.dof, np.nan) if row is None else row for row in chosen])
        errors = np.full((2, len(chosen)), np.inf)
        valid = np.zeros(len(chosen), dtype=bool)
        for index, (goal, row) in enumerate(zip(self.goals, chosen, strict=True)):
            if row is not None:
                pool = goal.verified(row[None], np.zeros(1, dtype=np.uint32))
                errors[:, index], valid[index] = (pool.position_error[0], pool.orientation_error[0]), pool.valid[0]
        steps = self._steps(chosen, origin)
        largest, n_jumps = float(steps.max(initial=0.0)), int((steps > self.largest_step).sum())
        n_missing = int((~valid).sum())
        if n_missing:
            code = ErrorCode.TIMED_OUT if self.out_of_time else ErrorCode.NO_IK_SOLUTION
            first = int((~valid).argmax())
            message = f"{n_missing} of {len(chosen)} poses have no solution, the first of them is pose {first}"
            message = f"timed out: {message}" if code == ErrorCode.TIMED_OUT else message
        elif n_jumps:
            code, message = ErrorCode.NO_IK_SOLUTION, f"the path jumps {n_jumps} times, by up to {largest:.3g}"
        else:
            code, message = ErrorCode.SUCCESS, f"{len(chosen)} poses, no joint steps farther than {largest:.3g}"
        return JointPath(robot.joint_names, positions, errors[0], errors[1], valid, largest, code, message, elapsed)

    def _steps(self, chosen: list[FloatArray | None], origin: FloatArray | None) -> FloatArray:
        """Largest motion of a joint in each step, gaps left out."""
        rows = ([] if origin is None else [origin]) + [row for row in chosen if row is not None]
        if len(rows) < 2:
            return np.empty(0)
        return np.asarray(np.abs(self._differences(np.array(rows[:-1]), np.array(rows[1:]))).max(axis=1))

    def _worth_following(self, costs: FloatArray) -> npt.NDArray[np.int64]:
        """The best ones, and some of the others; once time is up the best one alone."""
        if self.out_of_time:
            return np.argsort(costs, kind="stable")[:1]
        if len(costs) <= self.n:
            return np.arange(len(costs))
        order = np.argsort(costs, kind="stable")
        n_best = int(FOLLOWED * self.n)
        return np.concatenate([order[:n_best], self.rng.choice(order[n_best:], self.n - n_best, replace=False)])

    def _transitions(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """Cost (n, m) of each step."""
        difference = self._differences(before[:, None], after[None])
        jumps = np.abs(difference).max(axis=-1) > self.largest_step
        return np.asarray(np.einsum("nmj,nmj->nm", difference, difference) + PENALTY * jumps)

    def _differences(self, before: FloatArray, after: FloatArray) -> FloatArray:
        difference = after - before
        continuous = self.sampler.robot.continuous
        if continuous.any():
            wrapped = (difference + np.pi) % (2.0 * np.pi) - np.pi
            difference = np.where(continuous, wrapped, difference)
        return np.asarray(difference)
