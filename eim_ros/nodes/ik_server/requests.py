"""From the messages of `ik_server` to a `SampleRequest`.

Pure functions of messages. Everything a client may have got wrong is refused here, with an error code and a message
that names the cause and what was expected.

What `ik_server` knows beside a request: how frames lie to the robot's base, and where its joints are now.

Which point of the robot is to reach the poses of a request: its tip, a link fixed to it, a tool on either.

The fields that requests of `ik_server` share: each is checked, and refused with an error code and a message.
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
from eim_ros.core.errors import ConfigurationError, EimError, JointStateError, PoseError
from eim_ros.ik import Completeness, Constraints, ErrorCode, Posture, Sampler
from eim_ros.ik.order import Ranking
from eim_ros.ik.request import SampleRequest
from eim_ros.kinematics import Robot
from eim_ros.kinematics.frames import FrameError
from eim_ros.kinematics.links import fixed_links
from eim_ros.nodes.common.data_directory import DataDirectory
from eim_ros.nodes.common.frames import BaseFrames, Transforms, nanoseconds
from eim_ros.nodes.common.interfaces import SampleIK, SampleIKBatch, SampleIKPath
from eim_ros.nodes.common.messages import transform_of
from eim_ros.nodes.ik_server.constraints import constraints_of
from eim_ros.nodes.ik_server.settings import IkServerSettings


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


class FrameNotKnownYet(RequestError):
    """A transform that is not known yet, but may come."""


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Of one request.

    Attributes
    ----------
    robot : Robot
        In the frame of whose base link poses are solved.
    transforms : Transforms, optional
        What tf tells; without it frames are those that are fixed to the base link.
    frame_prefix : str
        What stands before the names of the robot's links in tf.
    joints : mapping of str to float, optional
        Positions of joints now [rad] or [m]; None where nobody is asked for them.
    arrival : float, optional
        When the request came, a time of `time.monotonic` [s]: from there on its timeout counts. Default: now.
    """

    robot: Robot
    transforms: Transforms | None = None
    frame_prefix: str = ""
    joints: Mapping[str, float] | None = None
    arrival: float | None = None
    _needed: list[tuple[str, int]] = field(default_factory=list, init=False, repr=False)

    def in_base(self, header: Any, what: str) -> np.ndarray:
        """Pose (4, 4) of a header's frame in that of the base link, at the header's stamp, 0 for the latest.

        Parameters
        ----------
        header : std_msgs/Header
            An empty frame is that of the base link.
        what : str
            Whose header it is, for the message.

        Raises
        ------
        RequestError
            FRAME_TRANSFORM_FAILURE; `FrameNotKnownYet` where it may be known a little later.
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
        """Until when a request with a timeout [s] is to be answered, a time of `time.perf_counter` [s]."""
        waited = 0.0 if self.arrival is None else time.monotonic() - self.arrival
        return time.perf_counter() + timeout - waited

    def near(self, state: JointState) -> np.ndarray | None:
        """Joint values (dof,) of a request's state, where that is empty those of the robot now; None for neither.

        Raises
        ------
        RequestError
            INVALID_ROBOT_STATE where joints are missing, or the state is malformed.
        """
        given = configuration_of("near", state, self.robot.joint_names)
        if given is not None or self.joints is None:
            return given
        if self.unknown_joints:
            raise RequestError(ErrorCode.INVALID_ROBOT_STATE, f"near is empty, and {self.unknown_joints}", None)
        return np.array([self.joints[name] for name in self.robot.joint_names])

    @cached_property
    def frames(self) -> BaseFrames:
        """Around the robot."""
        return BaseFrames(self.robot, self.transforms, self.frame_prefix)

    @property
    def unknown_joints(self) -> str:
        """Which joints of the chain are asked for and nothing was told of; empty for none."""
        if self.joints is None:
            return ""
        missing = [name for name in self.robot.joint_names if name not in self.joints]
        return f"the topic of joint_states_topic has told nothing of {', '.join(missing)}" if missing else ""

    @property
    def are_known(self) -> bool:
        """Whether the frames that were asked for are known by now."""
        try:
            for frame, stamp in self._needed:
                self.frames.in_base(frame, stamp)
        except FrameError as error:
            return not error.may_come
        return True


def parse(request: SampleIK.Request, around: Surroundings, settings: IkServerSettings) -> SampleRequest:
    """What a request asks of the sampler.

    Parameters
    ----------
    request : SampleIK.Request
        As received; see the comments of the service type for units and defaults.
    around : Surroundings
        Robot of the server, whose joints the request must name, and the frames around it.
    settings : IkServerSettings
        Defaults and limits.

    Raises
    ------
    RequestError
        With the error code to answer.
    """
    in_base = around.in_base(request.pose.header, "pose")
    return _wanted(request, in_base @ pose_of(request.pose.pose, "pose"), around, settings)


def parse_batch(
    request: SampleIKBatch.Request, around: Surroundings, settings: IkServerSettings
) -> tuple[np.ndarray, SampleRequest]:
    """Poses (n_poses, 4, 4) of a request, and what it asks, for the first of them; raises as `parse`."""
    deadline = around.deadline(timeout_of(request.timeout, settings))
    poses = around.in_base(request.header, "poses") @ poses_of(request.poses, settings, deadline)
    n = count_of(request.n_samples, settings.max_samples)
    if n * len(poses) > settings.max_samples:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"{n} configurations for each of {len(poses)} poses are {n * len(poses)}, expected at most "
            f"{settings.max_samples} (parameter max_samples)",
            n * len(poses),
        )
    return poses, _wanted(request, poses[0], around, settings)


def _wanted(
    request: SampleIK.Request | SampleIKBatch.Request,
    pose: np.ndarray,
    around: Surroundings,
    settings: IkServerSettings,
) -> SampleRequest:
    robot, is_drawn = around.robot, bool(request.distribution)
    near = None if is_drawn and not request.near.name else around.near(request.near)
    posture = _posture(request, robot)
    timeout = timeout_of(request.timeout, settings)
    try:
        return SampleRequest(
            pose,
            count_of(request.n_samples, settings.max_samples),
            random_seed_of(request.random_seed),
            near=near,
            order=_order(request, near, posture),
            position_only=bool(request.position_only),
            refine=bool(request.refine),
            distinct=None if is_drawn else bool(request.distinct),
            position_tolerance=positive(
                "position_tolerance", request.position_tolerance, settings.default_position_tolerance
            ),
            orientation_tolerance=positive(
                "orientation_tolerance", request.orientation_tolerance, settings.default_orientation_tolerance
            ),
            timeout=timeout,
            explore=_explore(request.explore),
            constraints=constraints_for(request, robot, settings.data, around.deadline(timeout)),
            posture=posture,
            until=_until(request),
            separation=request.separation or None,
            distribution=request.distribution or None,
            temperature=request.temperature or 1.0,
        )
    except RequestError:
        raise
    except EimError as error:
        is_state = isinstance(error, JointStateError)
        code = ErrorCode.INVALID_ROBOT_STATE if is_state else ErrorCode.INVALID_GOAL_CONSTRAINTS
        raise RequestError(code, str(error), error.value) from error


def _until(request: SampleIK.Request | SampleIKBatch.Request) -> Completeness | None:
    """How whole the answer is to be, if that is asked."""
    if request.confidence == 0.0 and request.missed_share == 0.0:
        return None
    return Completeness(request.confidence, request.missed_share)


def _order(
    request: SampleIK.Request | SampleIKBatch.Request, near: np.ndarray | None, posture: Posture | None
) -> str | dict[str, float] | None:
    """Order of the request; None for the sampler's own."""
    names, weights = list(request.order), list(request.order_weights)
    if not names and not weights:
        return None
    weights = weights or [1.0] * len(names)
    if len(names) != len(weights) or len(set(names)) != len(names):
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"order has {len(names)} names and order_weights {len(weights)} numbers; expected as many, each name once",
            names,
        )
    order: str | dict[str, float] = names[0] if len(names) == 1 else dict(zip(names, weights, strict=True))
    try:
        Ranking(order, near, posture=posture)
    except ConfigurationError as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, f"order: {error}", names) from error
    return order


def _posture(request: SampleIK.Request | SampleIKBatch.Request, robot: Robot) -> Posture | None:
    """Preferred posture of the request, if it has one."""
    names, values, weights = list(request.posture.name), list(request.posture.position), list(request.posture_weights)
    if not names and not values and not weights:
        return None
    weights = weights or [1.0] * len(names)
    if not len(names) == len(values) == len(weights) or len(set(names)) != len(names):
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"posture has {len(names)} names and {len(values)} positions, and there are {len(weights)} "
            "posture_weights; expected as many of each, each joint once, or no posture_weights",
            names,
        )
    posture = Posture(dict(zip(names, values, strict=True)), dict(zip(names, weights, strict=True)))
    try:
        posture.of(robot)
    except ConfigurationError as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, str(error), error.value) from error
    return posture


def _explore(value: float) -> float | None:
    """None where it is negative."""
    if not value <= 1.0:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"explore is {value}, expected 0 to 1, or a negative number for the model's default",
            value,
        )
    return float(value) if value >= 0.0 else None


def reaching(sampler: Sampler, request: Any) -> Sampler:
    """The sampler for the `tip_link` and the `tool` of a request; for one without these fields itself.

    Raises
    ------
    RequestError
        INVALID_LINK_NAME or INVALID_GOAL_CONSTRAINTS.
    """
    if not hasattr(request, "tip_link") or (not request.tip_link and _is_identity(request.tool)):
        return sampler
    robot, link = sampler.robot, str(request.tip_link)
    tool = pose_of(request.tool, "tool")
    if link and link != robot.tip_link:
        fixed = fixed_links(robot, robot.tip_link)
        if link not in fixed:
            raise RequestError(
                ErrorCode.INVALID_LINK_NAME,
                f"tip_link is {link!r}, expected {robot.tip_link!r}, a link that is fixed to it "
                f"({', '.join(list(fixed)[1:]) or 'there is none'}), or nothing",
                link,
            )
        tool = fixed[link] @ tool
    return sampler if np.array_equal(tool, np.eye(4)) else sampler.with_tool(tool)


def _is_identity(pose: Pose) -> bool:
    """Whether a message is the default, as most are; comparing numbers is ten times as fast as making a matrix."""
    p, r = pose.position, pose.orientation
    return p.x == p.y == p.z == r.x == r.y == r.z == 0.0 and r.w == 1.0
