"""One solution for each pose of a Cartesian path, so that the joints move little and never jump where they need not.

A first pass samples at every STRIDE-th pose and follows all families of solutions along the path (`PathSearch`). Where
its path jumps or has gaps, the other poses are sampled as well, and families followed backward too. Where the path
still jumps, the graph of solutions tells whether there can be one without: steps a little larger, by what the solutions
held may be off from those left out, either lead from end to end, then solutions are added there, or prove that there is
none along the families found.
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
from eim_ros.ik.path_search import PathSearch, Reach
from eim_ros.ik.request import SampleRequest, checked_configuration
from eim_ros.ik.sampler import Sampler, check_sampler
from eim_ros.kinematics.pose import check_poses
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
    n_reached : int
        Poses, from the first, that steps of at most the largest asked for lead to.
    nearest_miss : float
        Least step from these to a solution of the next pose that was found [rad] or [m]; infinite where that has none,
        0 where all poses are reached.
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
    n_reached: int
    nearest_miss: float
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
    fitted = sampler.fitted(first)
    goals = [Goal.of(sampler.robot, replace(fitted, pose=pose)) for pose in wanted]
    search = PathSearch(
        sampler,
        goals,
        float(largest_step),
        np.random.default_rng(random_seed),
        first.n,
        began + first.timeout,
        None if near is None else checked_configuration(sampler.robot, near),
    )
    search.follow(range(0, len(goals), STRIDE))
    chosen = [] if search.has_gaps else search.best()
    if (search.has_gaps or _jumps(search, chosen)) and not search.out_of_time:
        search.follow([index for index in range(len(goals)) if index % STRIDE])
        search.follow_back()
        chosen = []
    chosen, is_proven = chosen or search.best(), False
    if not search.has_gaps and _jumps(search, chosen) and search.is_covered:
        chosen, is_proven = _refined(search, chosen)
    is_all = not search.has_gaps and not _jumps(search, chosen)
    reach = Reach.all(len(goals)) if is_all else search.reach()[0]
    return _joint_path(search, chosen, reach, is_proven, time.perf_counter() - began)


def _refined(search: PathSearch, chosen: list[FloatArray | None]) -> tuple[list[FloatArray | None], bool]:
    """A path with fewer jumps than the chosen one, and whether there can be none without."""
    n_poses, refined = len(search.goals), set[int]()
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
        if not _jumps(search, chosen):
            break
        if any(search.is_cut(window) for window in windows if refined.issuperset(window)):
            return chosen, not search.out_of_time
        on_path = search.reach(2.0 * search.cover)[1]
    return chosen, False


def _jumps(search: PathSearch, chosen: list[FloatArray | None]) -> bool:
    return bool((search.steps(chosen) > search.largest_step).any())


def _around_jumps(search: PathSearch, chosen: list[FloatArray | None]) -> list[range]:
    """Poses before and after each jump of a path without gaps."""
    n_poses = len(search.goals)
    jumps = np.flatnonzero(search.steps(chosen) > search.largest_step) + (0 if search.origin is not None else 1)
    return [range(max(int(at) - WINDOW, 0), min(int(at) + WINDOW, n_poses)) for at in jumps]


def _joint_path(
    search: PathSearch, chosen: list[FloatArray | None], reach: Reach, is_proven: bool, elapsed: float
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
    steps = search.steps(chosen)
    largest, n_jumps = float(steps.max(initial=0.0)), int((steps > search.largest_step).sum())
    n_missing = int((~valid).sum())
    if not n_missing and not n_jumps:
        code, message = ErrorCode.SUCCESS, f"{len(chosen)} poses, no joint steps farther than {largest:.3g}"
    else:
        code = ErrorCode.TIMED_OUT if search.out_of_time else ErrorCode.NO_IK_SOLUTION
        message = _gaps(search, valid) if n_missing else f"the path jumps {n_jumps} times, by up to {largest:.3g}"
        message += _break(search, reach, is_proven) if not n_missing else ""
        message = f"timed out: {message}" if code == ErrorCode.TIMED_OUT else message
    return JointPath(
        robot.joint_names,
        positions,
        errors[0],
        errors[1],
        valid,
        largest,
        reach.n_poses,
        reach.nearest_miss,
        code,
        message,
        elapsed,
    )


def _gaps(search: PathSearch, valid: npt.NDArray[np.bool_]) -> str:
    first = int((~valid).argmax())
    message = f"{int((~valid).sum())} of {len(valid)} poses have no solution, the first of them is pose {first}"
    if first in search.misses:
        position, orientation = search.misses[first]
        message += f", missed by {position:.3g} m and {orientation:.3g} rad at best"
    return message


def _break(search: PathSearch, reach: Reach, is_proven: bool) -> str:
    """Where steps that are small enough end, and what the next one would take."""
    if reach.n_poses == len(search.goals):
        return ""
    asked, pose = f"{search.largest_step:.3g}", reach.n_poses
    start = "the start" if pose == 0 else f"pose {pose - 1}"
    found = "none can be without along the solutions found" if is_proven else "none was found without"
    return (
        f"; {found}: steps of at most {asked} lead as far as {start}, and from there to pose {pose} one of at least "
        f"{reach.nearest_miss:.3g}"
    )
