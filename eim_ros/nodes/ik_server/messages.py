"""Conversion between the messages of `ik_server` and the sampler. Requests are parsed, and responses are filled.

An invalid field is refused with an error code and a message. The message names the cause and the expected value.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from geometry_msgs.msg import Pose
from sensor_msgs.msg import JointState

from eim_ros.core.deadlines import NEVER, OutOfTime, is_past, with_grace
from eim_ros.core.errors import EimError, PoseError
from eim_ros.ik import Completeness, Constraints, ErrorCode, JointPath, Posture, Sampler, Solutions
from eim_ros.ik.joint_path import velocity_times
from eim_ros.ik.nearest_pose import NearestPose
from eim_ros.ik.request import Guarantee
from eim_ros.kinematics import Robot
from eim_ros.kinematics.frames import FrameError
from eim_ros.kinematics.links import fixed_links, following_joints
from eim_ros.nodes.common.frames import BaseFrames, Transforms
from eim_ros.nodes.common.interfaces import IKGuarantee
from eim_ros.nodes.common.messages import (
    misnamed,
    nanoseconds,
    put_arrays,
    repeated_names,
    trajectory_points,
    transform_of,
)
from eim_ros.nodes.ik_server.constraints import constraints_of
from eim_ros.nodes.settings import IkServerSettings

SHORTEST_STEP = 1e-6  # [s] time between equal configurations, because controllers need increasing times


class RequestError(EimError):
    """A request that cannot be served; `code` is the error code of the response."""

    def __init__(self, code: ErrorCode, message: str, value: object = None) -> None:
        super().__init__(message, value)
        self.code = code


def invalid(message: str, value: object = None) -> RequestError:
    """Return the error for an invalid field."""
    return RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, message, value)


def pose_of(pose: Pose, name: str) -> np.ndarray:
    """Return the transform (4, 4) of a message."""
    try:
        return transform_of(pose)
    except PoseError as error:
        raise invalid(f"{name}: {error}", error.value) from error


def poses_of(poses: Sequence[Pose], settings: IkServerSettings, deadline: float = NEVER) -> np.ndarray:
    """Return the transforms (n, 4, 4) of messages. Raise `RequestError` if there are too many messages.

    The deadline is a time of `perf_counter` [s]. If it passes before all messages are read, the error code is
    TIMED_OUT.
    """
    if not 1 <= len(poses) <= settings.max_samples:
        raise invalid(
            f"there are {len(poses)} poses, expected 1 to {settings.max_samples} (parameter max_samples)", len(poses)
        )
    found, until = np.empty((len(poses), 4, 4)), with_grace(deadline)
    for index, pose in enumerate(poses):
        if is_past(until):
            message = f"timed out: {len(poses) - index} of {len(poses)} poses were not read in time"
            raise RequestError(ErrorCode.TIMED_OUT, message, len(poses))
        found[index] = pose_of(pose, f"pose {index}")
    return found


def seed_of(value: int) -> int | None:
    """Return the seed, or None if it is negative."""
    return int(value) if value >= 0 else None


def constraints_for(message: Any, robot: Robot, settings: IkServerSettings, deadline: float = NEVER) -> Constraints:
    """Return the constraints of an `IKConstraints`, checked for a robot, with prepared shapes.

    The deadline is a time of `perf_counter` [s]. If it passes before the end, the error code is TIMED_OUT.
    """
    try:
        constraints = constraints_of(message, robot, settings, with_grace(deadline))
        checked = ("obstacles", "self_collision", "limits", "fixed", "branch")
        if any(getattr(constraints, name) for name in checked):
            constraints.check(robot, with_grace(deadline))
    except OutOfTime as error:
        raise RequestError(ErrorCode.TIMED_OUT, f"timed out: {error}", error.value) from error
    except EimError as error:
        raise invalid(str(error), error.value) from error
    return constraints


def count_of(name: str, n: int, n_poses: int, maximum: int) -> int:
    """Return `n`, the number of configurations per pose. Raise `RequestError` if their total exceeds `maximum`."""
    if not 1 <= n <= maximum:
        raise invalid(f"{name} is {n}, expected 1 to {maximum} (parameter max_samples)", n)
    if n * n_poses > maximum:
        raise invalid(
            f"{n} configurations for each of {n_poses} poses make {n * n_poses}, expected at most {maximum} (parameter "
            "max_samples)",
            n * n_poses,
        )
    return int(n)


def positive(name: str, value: float, default: float) -> float:
    """Return the value, or the default if it is 0."""
    if not (math.isfinite(value) and value >= 0.0):
        raise invalid(f"{name} is {value}, expected a positive number, or 0 for the default {default}", value)
    return float(value) or default


def timeout_of(value: float, settings: IkServerSettings) -> float:
    """Return the timeout [s], or the default if it is 0."""
    timeout = positive("timeout", value, settings.default_timeout)
    if timeout > settings.max_timeout:
        raise invalid(
            f"timeout is {timeout} s, expected at most {settings.max_timeout} s (parameter max_timeout)", timeout
        )
    return timeout


def guarantee_of(message: Any) -> Guarantee:
    """Return the guarantee of an `IKGuarantee`."""
    if message.kind == IKGuarantee.NONE:
        return None
    if message.kind == IKGuarantee.CERTIFIED:
        return "certified"
    if message.kind != IKGuarantee.BOUND:
        raise invalid(f"guarantee.kind is {message.kind}, expected NONE, BOUND or CERTIFIED", message.kind)
    default = Completeness()
    try:
        return Completeness(message.confidence or default.confidence, message.missed_share or default.missed_share)
    except EimError as error:
        raise invalid(f"guarantee: {error}", error.value) from error


def order_of(request: Any) -> str | dict[str, float] | None:
    """Return the order of a request, or None for the default of the sampler."""
    names, weights = list(request.order), list(request.order_weights)
    if not names and not weights:
        return None
    weights = weights or [1.0] * len(names)
    if len(names) != len(weights):
        raise invalid(
            f"order has {len(names)} names, but order_weights has {len(weights)} numbers; expected equal numbers", names
        )
    if repeated := repeated_names(names):
        raise invalid(f"order contains {repeated} more than once; expected each name once", names)
    return names[0] if len(names) == 1 else dict(zip(names, weights, strict=True))


def posture_of(request: Any, robot: Robot) -> Posture | None:
    """Return the preferred posture of a request, or None without a posture."""
    names, values, weights = list(request.posture.name), list(request.posture.position), list(request.posture_weights)
    if not names and not values and not weights:
        return None
    weights = weights or [1.0] * len(names)
    if not len(names) == len(values) == len(weights):
        raise invalid(
            f"posture has {len(names)} names and {len(values)} positions, and there are {len(weights)} "
            "posture_weights; expected equal numbers (posture_weights may be empty)",
            names,
        )
    if repeated := repeated_names(names):
        raise invalid(f"posture contains {repeated} more than once; expected each joint once", names)
    posture = Posture(dict(zip(names, values, strict=True)), dict(zip(names, weights, strict=True)))
    try:
        posture.of(robot)
    except EimError as error:
        raise invalid(str(error), error.value) from error
    return posture


def configuration_of(field: str, state: JointState, joint_names: tuple[str, ...]) -> np.ndarray | None:
    """Return joint values (dof,) in the order of `joint_names`, or None for an empty state.

    Joints are matched by name, and unknown joints are refused. `field` is the name of the state in error messages.
    """
    names, values = list(state.name), state.position
    if not names and not len(values):
        return None
    problem = misnamed(names, joint_names)
    if len(names) != len(values):
        problem = f"has {len(names)} names and {len(values)} positions"
    elif not problem and not all(map(math.isfinite, values)):
        problem = f"is not finite: {list(values)}"
    if problem:
        raise RequestError(
            ErrorCode.INVALID_ROBOT_STATE, f"{field} {problem}; expected {', '.join(joint_names)}, each once", names
        )
    by_name = dict(zip(names, values, strict=True))
    return np.array([by_name[name] for name in joint_names], dtype=np.float64)


class FrameNotKnownYet(RequestError):
    """A transform is unknown, but may become known."""


@dataclass(frozen=True, eq=False)
class RequestContext:
    """Knowledge of a server at the time of a request: the robot, frames and joint positions."""

    robot: Robot  # poses are in the frame of its base link
    transforms: Transforms | None = None  # listener to tf; without it, only frames fixed to the base link are known
    frame_prefix: str = ""  # prefix of the robot's links in tf
    # current positions of joints [rad] or [m]; None without a topic of joint states
    joints: Mapping[str, float] | None = None
    # Arrival of the request as a time of `time.monotonic` [s]. The timeout starts at this time. By default, it is the
    # current time.
    arrival: float | None = None
    _needed: list[tuple[str, int]] = field(default_factory=list, init=False, repr=False)

    def in_base(self, header: Any, what: str) -> np.ndarray:
        """Return the pose (4, 4) of a header's frame in the base link at the header's stamp (0: the latest time).

        An empty frame is the base link. `what` is the name of the header's owner in error messages. If the frame is
        unknown, `RequestError` with FRAME_TRANSFORM_FAILURE is raised, or `FrameNotKnownYet` if the frame may become
        known.
        """
        wanted = str(header.frame_id), nanoseconds(header.stamp)
        if not self.frames.is_fixed(wanted[0]):
            self._needed.append(wanted)
        try:
            return self.frames.in_base(*wanted)
        except FrameError as error:
            kind = FrameNotKnownYet if error.may_come else RequestError
            raise kind(
                ErrorCode.FRAME_TRANSFORM_FAILURE, f"{what} is in frame {wanted[0]!r}, {error}", wanted[0]
            ) from error

    def deadline(self, timeout: float) -> float:
        """Return the deadline of a request with a timeout [s], a time of `time.perf_counter` [s]."""
        waited = 0.0 if self.arrival is None else time.monotonic() - self.arrival
        return time.perf_counter() + timeout - waited

    def near(self, state: JointState) -> np.ndarray | None:
        """Return the joint values (dof,) of a request's state.

        For an empty state, the result is the robot's current joint values, or None if they are unknown. `RequestError`
        with INVALID_ROBOT_STATE is raised if joints are missing, or if the state is malformed.
        """
        given = configuration_of("near", state, self.robot.joint_names)
        if given is not None or self.joints is None:
            return given
        if self.unknown_joints:
            raise RequestError(
                ErrorCode.INVALID_ROBOT_STATE,
                f"near is empty, and {self.unknown_joints}: give near, or publish these joints",
                None,
            )
        return np.array([self.joints[name] for name in self.robot.joint_names])

    @cached_property
    def frames(self) -> BaseFrames:
        """Frames of the robot and of tf."""
        return BaseFrames(self.robot, self.transforms, self.frame_prefix)

    @property
    def unknown_joints(self) -> str:
        """Phrase that lists joints of the chain without a known position; empty if all positions are known."""
        if self.joints is None:
            return ""
        missing = [name for name in self.robot.joint_names if name not in self.joints]
        return f"no position of {', '.join(missing)} has arrived on the joint_states_topic" if missing else ""

    @property
    def are_known(self) -> bool:
        """Whether all requested frames are known now."""
        try:
            for frame, stamp in self._needed:
                self.frames.in_base(frame, stamp)
        except FrameError as error:
            return not error.may_come
        return True


def with_tip_and_tool(sampler: Sampler, constraints: Any) -> Sampler:
    """Return the sampler for the `tip_link` and the `tool` of an `IKConstraints`.

    An invalid field raises `RequestError` with INVALID_LINK_NAME or INVALID_GOAL_CONSTRAINTS.
    """
    if not constraints.tip_link and _is_identity(constraints.tool):
        return sampler
    tool = link_on_tip("tip_link", str(constraints.tip_link), sampler.robot) @ pose_of(constraints.tool, "tool")
    return sampler if np.array_equal(tool, np.eye(4)) else sampler.with_tool(tool)


def link_on_tip(field: str, link: str, robot: Robot, default: str = "") -> np.ndarray:
    """Return the pose (4, 4) of a link in the frame of the tip of the chain. The link must be fixed to the tip.

    If `link` is empty, `default` is used, which may be the tip. `field` is the name of the link in error messages.
    """
    wanted, fixed = link or default or robot.tip_link, fixed_links(robot, robot.tip_link)
    if wanted not in fixed:
        raise RequestError(
            ErrorCode.INVALID_LINK_NAME,
            f"{field} is {link!r}, expected {robot.tip_link!r}, a link that is fixed to it "
            f"({', '.join(list(fixed)[1:]) or 'there is none'}), or an empty name",
            link,
        )
    return fixed[wanted]


def _is_identity(pose: Pose) -> bool:
    """Return whether a message has default values. This test takes a tenth of the time of a conversion to a matrix."""
    p, r = pose.position, pose.orientation
    return p.x == p.y == p.z == r.x == r.y == r.z == 0.0 and r.w == 1.0


def fill(message: Any, solutions: Solutions, deadline: float, wants_log_prob: bool) -> None:
    """Copy an answer into an `IKSolutions`. Arrays are copied as bytes, because lists are slower.

    Log densities are omitted if they are neither requested nor known. Log densities are also omitted if their
    computation would exceed the deadline, a time of `perf_counter` [s].
    """
    wants_log_prob = wants_log_prob and time.perf_counter() + solutions.seconds_of_log_prob < deadline
    fields = solutions.to_message(wants_log_prob)
    code = fields.pop("error_code")
    message.error_code.val, message.error_code.message = code["val"], code["message"]
    for name, value in fields.items():
        if not isinstance(value, np.ndarray):
            setattr(message, name, value)
        elif value.dtype == np.bool_:
            setattr(message, name, value.tolist())
        else:
            put_arrays(message, **{name: value})


def fill_path(response: Any, path: JointPath) -> None:
    """Copy a path into a `FollowIK.Response`."""
    response.error_code.val, response.error_code.message = int(path.error_code), path.message
    response.joint_names, response.n = list(path.joint_names), len(path.q)
    errors = {"position_error": path.position_error, "orientation_error": path.orientation_error}
    put_arrays(response, positions=path.q, **errors)
    response.valid, response.examined = path.valid.tolist(), path.examined.tolist()
    response.max_step = path.max_step


def stamps_of(rows: np.ndarray, near: np.ndarray | None, velocities: np.ndarray) -> Sequence[float]:
    """Return increasing times (n,) [s] of configurations (n, dof) under velocity limits (dof,).

    Time 0 is at `near`, or at the first row. All times are 0 if a joint has no velocity limit.
    """
    if not np.isfinite(velocities).all():
        return [0.0] * len(rows)
    path = rows if near is None else np.concatenate([near[None], rows])
    times = velocity_times(path, velocities) + SHORTEST_STEP * np.arange(len(path))
    return [float(time) for time in times[len(path) - len(rows) :]]


def fill_trajectory(trajectory: Any, robot: Robot, rows: np.ndarray, times: Sequence[float]) -> None:
    """Fill a `JointTrajectory` with configurations (n, dof) and their times (n,) [s]."""
    trajectory.header.frame_id, trajectory.joint_names = robot.base_link, list(robot.joint_names)
    trajectory.points = trajectory_points(times, rows)


def fill_nearest_poses(response: Any, found: Sequence[NearestPose]) -> None:
    """Copy the configurations nearest to several targets into a `SolveNearestIK.Response`."""
    is_missing = [bool(np.isnan(each.q).any()) for each in found]
    code, remark = ErrorCode.SUCCESS, ""
    if any(is_missing):
        code = ErrorCode.GOAL_IN_COLLISION
        remark = f"{sum(is_missing)} of {len(found)} targets have only candidates that collide"
    elif not all(each.in_time for each in found):
        code, remark = ErrorCode.TIMED_OUT, "timed out: there may be nearer poses; request a longer timeout"
    response.error_code.val, response.error_code.message = int(code), remark
    response.joint_names, response.n = list(found[0].joint_names), len(found)
    put_arrays(response, positions=np.stack([each.q for each in found]))
    response.position_error = [each.position_error for each in found]
    response.orientation_error = [each.orientation_error for each in found]
    response.exact = [each.is_exact for each in found]


def fill_nearest(response: Any, state: Any, robot: Robot, q: np.ndarray, remark: str) -> None:
    """Fill a response with a state: joints of the chain and their mimic joints are at a solution (dof,).

    Other fields of the request's state are copied unchanged. The response is ours or MoveIt's. `remark` becomes its
    message.
    """
    solved = dict(zip(robot.joint_names, q.tolist(), strict=True))
    followers = following_joints(robot)
    given = dict(zip(state.joint_state.name, state.joint_state.position, strict=True))
    for name in given.keys() & followers.keys():
        mimic = followers[name]
        given[name] = mimic.multiplier * solved[mimic.joint] + mimic.offset
    put_state(response.solution, state, {**given, **solved})
    put_code(response, ErrorCode.SUCCESS, remark)


def put_state(message: Any, given: Any, joints: Mapping[str, float]) -> None:
    """Fill a state with joint values [rad] or [m], and with the other fields of a given state."""
    message.joint_state.header = given.joint_state.header
    message.joint_state.name, message.joint_state.position = list(joints), list(joints.values())
    for name in ("multi_dof_joint_state", "attached_collision_objects", "is_diff"):
        if hasattr(given, name):  # only MoveIt's message has the first two fields
            setattr(message, name, getattr(given, name))


def error_code_of(response: Any) -> Any:
    """Return the `ErrorCodes` of a response, ours or MoveIt's."""
    return response.solutions.error_code if hasattr(response, "solutions") else response.error_code


def put_code(response: Any, code: ErrorCode, message: str) -> None:
    """Set the error code and message of a response."""
    field = error_code_of(response)
    field.val = int(code)
    if hasattr(field, "message"):  # older releases of MoveIt have no such field
        field.message = message
