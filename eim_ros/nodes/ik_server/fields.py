"""The fields that requests of `ik_server` share: each is checked, and refused with an error code and a message."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from geometry_msgs.msg import Pose
from sensor_msgs.msg import JointState

from eim_ros.errors import EimError, PoseError
from eim_ros.ik import Constraints, ErrorCode
from eim_ros.kinematics import Robot
from eim_ros.kinematics.deadlines import NEVER, OutOfTime, is_past, with_grace
from eim_ros.nodes.common.data_directory import DataDirectory
from eim_ros.nodes.common.interfaces import SampleIK, SampleIKBatch, SampleIKPath
from eim_ros.nodes.common.pose_messages import transform_of
from eim_ros.nodes.ik_server.constraint_messages import constraints_of
from eim_ros.nodes.ik_server.settings import IkServerSettings

__all__ = [
    "RequestError",
    "configuration_of",
    "constraints_for",
    "count_of",
    "pose_of",
    "poses_of",
    "positive",
    "random_seed_of",
    "timeout_of",
]


class RequestError(EimError):
    """A request that cannot be served as it is; `code` is the error code to answer with."""

    def __init__(self, code: ErrorCode, message: str, value: object = None) -> None:
        super().__init__(message, value)
        self.code = code


def pose_of(pose: Pose, name: str) -> np.ndarray:
    """Transform (4, 4) of a message."""
    try:
        return transform_of(pose)
    except PoseError as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, f"{name}: {error}", error.value) from error


def poses_of(poses: Sequence[Pose], settings: IkServerSettings, deadline: float = NEVER) -> np.ndarray:
    """Transforms (n, 4, 4) of as many messages as are allowed; TIMED_OUT if there is no time to read them.

    The deadline is a time of `perf_counter` [s].
    """
    if not 1 <= len(poses) <= settings.max_samples:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"there are {len(poses)} poses, expected 1 to {settings.max_samples} (parameter max_samples)",
            len(poses),
        )
    found, until = np.empty((len(poses), 4, 4)), with_grace(deadline)
    for index, pose in enumerate(poses):
        if is_past(until):
            message = f"timed out: no time was left to read {len(poses) - index} of {len(poses)} poses"
            raise RequestError(ErrorCode.TIMED_OUT, message, len(poses))
        found[index] = pose_of(pose, f"pose {index}")
    return found


def random_seed_of(value: int) -> int | None:
    """None where it is negative."""
    return int(value) if value >= 0 else None


def constraints_for(
    request: SampleIK.Request | SampleIKBatch.Request | SampleIKPath.Request,
    robot: Robot,
    data: DataDirectory,
    deadline: float = NEVER,
) -> Constraints:
    """Constraints that this robot can be asked for, with their shapes prepared.

    Meshes of obstacles may be read from the directory `data`. The deadline is a time of `perf_counter` [s]; TIMED_OUT
    if there is no time until then.
    """
    try:
        constraints = constraints_of(request, robot, data, with_grace(deadline))
        constraints.check(robot, with_grace(deadline))
    except OutOfTime as error:
        raise RequestError(ErrorCode.TIMED_OUT, f"timed out: {error}", error.value) from error
    except EimError as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, str(error), error.value) from error
    return constraints


def count_of(n: int, maximum: int) -> int:
    """A number of samples within its bounds."""
    if not 1 <= n <= maximum:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS, f"n_samples is {n}, expected 1 to {maximum} (parameter max_samples)", n
        )
    return int(n)


def positive(name: str, value: float, default: float) -> float:
    """The value, or the default for 0."""
    if not (math.isfinite(value) and value >= 0.0):
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"{name} is {value}, expected a positive number, or 0 for {default}",
            value,
        )
    return float(value) or default


def timeout_of(value: float, settings: IkServerSettings) -> float:
    """The timeout [s], or the default for 0."""
    timeout = positive("timeout", value, settings.default_timeout)
    if timeout > settings.max_timeout:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"timeout is {timeout} s, expected at most {settings.max_timeout} s (parameter max_timeout)",
            timeout,
        )
    return timeout


def configuration_of(field: str, state: JointState, joint_names: tuple[str, ...]) -> np.ndarray | None:
    """Joint values (dof,) in the order of `joint_names`, matched by name; None for an empty state.

    Joints of other names are refused. `field` is what a refusal calls the state.
    """
    names, values = list(state.name), state.position
    if not names and not len(values):
        return None
    problem = ""
    if len(names) != len(values):
        problem = f"has {len(names)} names and {len(values)} positions"
    elif len(set(names)) != len(names):
        problem = f"names a joint twice: {', '.join(names)}"
    elif unknown := sorted(set(names) - set(joint_names)):
        problem = f"names unknown joints: {', '.join(unknown)}"
    elif missing := [name for name in joint_names if name not in names]:
        problem = f"lacks joints: {', '.join(missing)}"
    elif not all(map(math.isfinite, values)):
        problem = f"is not finite: {list(values)}"
    if problem:
        raise RequestError(
            ErrorCode.INVALID_ROBOT_STATE, f"{field} {problem}; expected {', '.join(joint_names)}, each once", names
        )
    by_name = dict(zip(names, values, strict=True))
    return np.array([by_name[name] for name in joint_names], dtype=np.float64)
