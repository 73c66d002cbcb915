"""What `ik_server` knows beside a request: how frames lie to the robot's base, and where its joints are now."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState

from eim_ros.ik import ErrorCode
from eim_ros.kinematics import Robot
from eim_ros.kinematics.frames import FrameError
from eim_ros.nodes.common.base_frames import BaseFrames
from eim_ros.nodes.common.tf_buffers import nanoseconds
from eim_ros.nodes.common.transforms import Transforms
from eim_ros.nodes.ik_server.fields import RequestError, configuration_of

__all__ = ["FrameNotKnownYet", "Surroundings"]


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
