"""One solution for each pose of a Cartesian path, so that the joints move little and never jump where they need not.

A first pass samples at every STRIDE-th pose and follows forward (`PathSearch`). Where its path jumps or has gaps, the
other poses are sampled as well, and candidates followed backward too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConfigurationError
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.goal import Goal
from eim_ros.ik.path_search import PathSearch
from eim_ros.ik.request import SampleRequest, checked_configuration
from eim_ros.ik.sampler import Sampler, check_sampler
from eim_ros.kinematics.arguments import is_number
from eim_ros.kinematics.pose import check_poses

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["JointPath", "PathOptions", "sample_path"]

FloatArray = npt.NDArray[np.float64]

STRIDE = 10
TIMEOUT = 5.0  # [s], default


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
    fitted = sampler.fitted(first)
    goals = [Goal.of(sampler.robot, replace(fitted, pose=pose)) for pose in wanted]
    search = PathSearch(
        sampler, goals, largest_step, np.random.default_rng(random_seed), first.n, began + first.timeout
    )
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
    return _joint_path(search, chosen, origin, time.perf_counter() - began)


def _joint_path(
    search: PathSearch, chosen: list[FloatArray | None], origin: FloatArray | None, elapsed: float
) -> JointPath:
    """What was found, verified by forward kinematics."""
    robot = search.sampler.robot
    positions = np.array([np.full(robot.dof, np.nan) if row is None else row for row in chosen])
    errors = np.full((2, len(chosen)), np.inf)
    valid = np.zeros(len(chosen), dtype=bool)
    for index, (goal, row) in enumerate(zip(search.goals, chosen, strict=True)):
        if row is not None:
            pool = goal.verified(row[None], np.zeros(1, dtype=np.uint32))
            errors[:, index], valid[index] = (pool.position_error[0], pool.orientation_error[0]), pool.valid[0]
    steps = search.steps(chosen, origin)
    largest, n_jumps = float(steps.max(initial=0.0)), int((steps > search.largest_step).sum())
    n_missing = int((~valid).sum())
    if n_missing:
        code = ErrorCode.TIMED_OUT if search.out_of_time else ErrorCode.NO_IK_SOLUTION
        first = int((~valid).argmax())
        message = f"{n_missing} of {len(chosen)} poses have no solution, the first of them is pose {first}"
        message = f"timed out: {message}" if code == ErrorCode.TIMED_OUT else message
    elif n_jumps:
        code, message = ErrorCode.NO_IK_SOLUTION, f"the path jumps {n_jumps} times, by up to {largest:.3g}"
    else:
        code, message = ErrorCode.SUCCESS, f"{len(chosen)} poses, no joint steps farther than {largest:.3g}"
    return JointPath(robot.joint_names, positions, errors[0], errors[1], valid, largest, code, message, elapsed)
