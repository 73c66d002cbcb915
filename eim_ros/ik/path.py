"""One solution for each pose of a Cartesian path, so that the joints move little and never jump where they need not.

A first pass samples at every STRIDE-th pose and follows all families of solutions along the path (`PathSearch`). Where
its path jumps or has gaps, the other poses are sampled as well, and families followed backward too. Where the path
still jumps, the graph of solutions tells whether there can be one without: steps a little larger, by what the solutions
held may be off from those left out, either lead from end to end, then solutions are added there, or prove that there is
none along the families found.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConfigurationError
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.goal import Goal
from eim_ros.ik.path_search import PathSearch, Reach
from eim_ros.ik.request import SampleRequest, checked_configuration
from eim_ros.ik.sampler import Sampler, check_sampler
from eim_ros.kinematics.deadlines import OutOfTime, with_grace
from eim_ros.kinematics.pose import check_poses
from eim_ros.kinematics.robot import Robot
from eim_ros.numerics.arguments import as_number
from eim_ros.numerics.keywords import check_keywords

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["JointPath", "PathOptions", "sample_path"]

FloatArray = npt.NDArray[np.float64]

STRIDE = 8
WINDOW = 24  # poses before and after a jump where solutions are added
TIMEOUT = 5.0  # [s], default
PARAMETERS = ("poses", "n", "random_seed", "near", "largest_step")


@dataclass(frozen=True, eq=False)
class JointPath:
    """A configuration for each pose.

    Only a path with the error code SUCCESS may be executed. Any other one is false, and empty as a sequence: its length
    is 0 and a loop over it has no iterations. What was found of it is in `positions`, a row for each pose in any case.

    Attributes
    ----------
    joint_names : tuple of str
    positions : (n_poses, dof)
        [rad] or [m]; NaN if none was found for the pose. Continuous joints are unrolled and may go beyond -π and π;
        joints with limits of more than a turn have those of their 2π-equivalent values with which the path jumps least.
    position_error, orientation_error : (n_poses,)
        By forward kinematics [m], [rad]; infinite where there is none.
    valid : (n_poses,) of bool
        Whether the errors are within the tolerances, the joints within the limits, and no collision was found.
    examined : (n_poses,) of bool
        Whether the pose was looked at before time was up. If it was, and is not valid, no solution was found; if it was
        not, it may have one.
    largest_step : float
        Largest difference of a joint between successive rows of `positions`, and between `near` and the first one [rad]
        or [m]; poses without a row are left out.
    n_reached : int
        Poses, from the first, that steps of at most the largest asked for lead to; if time was up, by `positions`.
    nearest_miss : float
        Least step from these to a solution of the next pose that was found [rad] or [m], if time was up the one in
        `positions`; infinite if that pose has none, 0 if all poses are reached.
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
    examined: npt.NDArray[np.bool_]
    largest_step: float
    n_reached: int
    nearest_miss: float
    error_code: ErrorCode
    message: str
    elapsed: float

    def __bool__(self) -> bool:
        """Whether all poses are reached by steps that are small enough."""
        return self.error_code == ErrorCode.SUCCESS

    def __len__(self) -> int:
        return len(self.positions) if self else 0

    def __iter__(self) -> Iterator[FloatArray]:
        """The configurations (dof,) of a path with SUCCESS, in order; nothing of any other."""
        return iter(self.positions[: len(self)])


class PathOptions(TypedDict, total=False):
    """Keywords of `sample_path`.

    position_only, position_tolerance, orientation_tolerance
        As in `SampleRequest`.
    timeout : float
        [s]; default 5. Of the complete call: in its last tenth the rest of the path is followed by one solution alone.
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
        Samples of a pose that is sampled; where more than one direction of the joints is free, so many solutions of a
        pose are followed to the next.
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
    check_keywords(options, PathOptions.__annotations__, "sample_path", PARAMETERS)
    check_sampler(sampler)
    wanted = check_poses(poses)
    chosen_options: PathOptions = {"timeout": TIMEOUT, **options}
    first = SampleRequest(wanted[0], n, random_seed, **chosen_options)
    if not as_number(largest_step) > 0.0:
        raise ConfigurationError(f"the largest step must be positive, got {largest_step}", largest_step)
    try:
        goal = Goal.of(sampler.robot, sampler.fitted(first), with_grace(began + first.timeout))
    except OutOfTime as error:
        return _not_begun(sampler.robot, len(wanted), f"timed out: {error}", began)
    search = PathSearch(
        sampler,
        goal,
        wanted,
        float(largest_step),
        np.random.default_rng(random_seed),
        first.n,
        first.timeout - (time.perf_counter() - began),
        None if near is None else checked_configuration(sampler.robot, near),
    )
    chosen, is_proven = _searched(search)
    return _joint_path(search, chosen, is_proven, began)


def _searched(search: PathSearch) -> tuple[FloatArray, bool]:
    """The best path, NaN at poses without a solution, and whether it is known that none has no jumps."""
    n_poses = len(search.poses)
    search.follow(range(0, n_poses, STRIDE))
    chosen = search.best()
    if not _is_found(search, chosen) and not search.out_of_time:
        search.follow([index for index in range(n_poses) if index % STRIDE])
        search.follow_back()
        chosen = search.best()
    if search.has_gaps or not search.is_covered or search.out_of_time or _is_found(search, chosen):
        return chosen, False
    return _refined(search, chosen)


def _is_found(search: PathSearch, chosen: FloatArray) -> bool:
    """Whether a path has no gaps and no jumps."""
    return not np.isnan(chosen).any() and not search.is_jump(search.steps(chosen)).any()


def _refined(search: PathSearch, chosen: FloatArray) -> tuple[FloatArray, bool]:
    """A path with fewer jumps than the chosen one, and whether there can be none without."""
    n_poses, refined = len(search.poses), set[int]()
    relaxed, on_path = search.reach(2.0 * search.cover)
    if relaxed.n_poses < n_poses:
        return chosen, not search.out_of_time
    while search.redundancy == 1 and not search.out_of_time:
        windows = _around_jumps(search, chosen)
        new = {pose for window in windows for pose in window} - refined
        if not new:
            break
        search.refine(new, on_path)
        refined |= new
        chosen = search.best()
        if _is_found(search, chosen):
            break
        if any(search.is_cut(window) for window in windows if refined.issuperset(window)):
            return chosen, not search.out_of_time
        on_path = search.reach(2.0 * search.cover)[1]
    return chosen, False


def _around_jumps(search: PathSearch, chosen: FloatArray) -> list[range]:
    """Poses before and after each jump of a path without gaps."""
    n_poses = len(search.poses)
    jumps = np.flatnonzero(search.is_jump(search.steps(chosen))) + (0 if search.origin is not None else 1)
    return [range(max(int(at) - WINDOW, 0), min(int(at) + WINDOW, n_poses)) for at in jumps]


def _joint_path(search: PathSearch, chosen: FloatArray, is_proven: bool, began: float) -> JointPath:
    """What was found, with its errors by forward kinematics; what collides was left out when it was found."""
    robot, goal = search.sampler.robot, search.goal
    errors = np.full((2, len(chosen)), np.inf)
    valid = np.zeros(len(chosen), dtype=bool)
    within_limits = search.revolutions.on_circles(chosen, of_limited=False)
    for index in np.flatnonzero(~np.isnan(chosen).any(axis=1)).tolist():
        task = goal.at(search.poses[index], goal.bounds).task
        measured, reaches = robot.chain.verify(task, within_limits[index : index + 1])
        errors[:, index], valid[index] = measured[:, 0], reaches[0]
    steps = search.steps(chosen)
    largest, n_jumps = float(steps.max(initial=0.0)), int(search.is_jump(steps).sum())
    is_all = bool(valid.all()) and not n_jumps
    reach = Reach.all(len(chosen)) if is_all else search.final_reach(chosen)
    if is_all:
        code, message = ErrorCode.SUCCESS, f"{len(chosen)} poses, no joint steps farther than {largest:.3g}"
    else:
        code = ErrorCode.TIMED_OUT if search.out_of_time else ErrorCode.NO_IK_SOLUTION
        if valid.all():
            message = f"the path jumps {n_jumps} times, by up to {largest:.3g}{_break(search, reach, is_proven)}"
        else:
            message = _gaps(search, valid)
        message = f"timed out: {message}" if code == ErrorCode.TIMED_OUT else message
    return JointPath(
        robot.joint_names,
        chosen,
        errors[0],
        errors[1],
        valid,
        search.examined | valid,
        largest,
        reach.n_poses,
        reach.nearest_miss,
        code,
        message,
        time.perf_counter() - began,
    )


def _not_begun(robot: Robot, n_poses: int, message: str, began: float) -> JointPath:
    """A path of which no pose was examined."""
    nothing, none = np.full(n_poses, np.inf), np.zeros(n_poses, dtype=bool)
    rows, elapsed = np.full((n_poses, robot.dof), np.nan), time.perf_counter() - began
    return JointPath(
        robot.joint_names, rows, nothing, nothing, none, none, 0.0, 0, math.inf, ErrorCode.TIMED_OUT, message, elapsed
    )


def _gaps(search: PathSearch, valid: npt.NDArray[np.bool_]) -> str:
    """How many poses were examined and have no solution, and how many were not examined."""
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
    """Where steps that are small enough end, and what the next one would take."""
    if reach.n_poses == len(search.poses):
        return ""
    asked, pose = f"{search.largest_step:.3g}", reach.n_poses
    start = "the start" if pose == 0 else f"pose {pose - 1}"
    found = "none can be without along the solutions found" if is_proven else "none was found without"
    return (
        f"; {found}: steps of at most {asked} lead as far as {start}, and from there to pose {pose} one of at least "
        f"{reach.nearest_miss:.3g}"
    )
