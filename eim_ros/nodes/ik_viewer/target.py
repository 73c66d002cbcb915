"""The target of `ik_viewer`, and its interactive marker in RViz.

`FollowedTarget` stores the newest target pose. The pose is evaluated at a fixed time, or moves with its frame.

`TargetMarker` shows the target as arrows and rings that the user drags. This class implements the server side of
interactive markers: the topics `update` and `feedback` and the service `get_interactive_markers`. A client requests the
marker and the number of the last update. The client then receives numbered updates. If a number is missing, the client
requests the marker again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile
from visualization_msgs import msg
from visualization_msgs.srv import GetInteractiveMarkers

from eim_ros.core.errors import PoseError
from eim_ros.kinematics.frames import FrameError
from eim_ros.nodes.common.frames import BaseFrames
from eim_ros.nodes.common.messages import pose_message
from eim_ros.nodes.common.node import guarded

MOVED = 1e-9  # [m, 1] a target has moved if an entry of its pose in the base frame changes by more
TARGET = "target"  # name of the marker
# for each axis of the marker, the axis of a quarter turn that moves the x axis of the control to it
_AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 0.0, 1.0), "z": (0.0, 1.0, 0.0)}
_UPDATES = QoSProfile(depth=100)


@dataclass(frozen=True, eq=False)
class Target:
    """Requested pose of the tip."""

    pose: np.ndarray  # (4, 4): pose in `frame`
    frame: str = ""  # name of the frame; empty means the base frame
    stamp: int = 0  # time of the frame [ns]; 0 means that the target moves with the frame


class FollowedTarget:
    """Pose of the newest target in the base frame.

    The pose at the start is `first` (4, 4). A target waits at most `timeout` [s] for the pose of its frame.
    """

    def __init__(self, frames: BaseFrames, first: np.ndarray, timeout: float) -> None:
        self._frames, self._timeout = frames, timeout
        self._target: Target | None = None  # target that moves with its frame
        self._waiting: tuple[Target, float] | None = None  # target in an unknown frame, and its deadline [s]
        self.pose = first

    def take(self, target: Target, now: float) -> bool:
        """Set a new target at the time `now` [s]. Return whether the pose has changed.

        `PoseError` is raised if the pose of the target's frame is unknown and cannot become known.
        """
        self._waiting = target, now + self._timeout
        return self.look(now)

    def look(self, now: float) -> bool:
        """Update the pose at the time `now` [s]. Return whether it has changed.

        `PoseError` is raised once per target if the pose of its frame does not become known in time.
        """
        if self._waiting is not None:
            target, until = self._waiting
            try:
                found = self._in_base(target)
            except FrameError as error:
                if error.may_come and now < until:
                    return False
                self._waiting = None
                raise PoseError(f"a target is in frame {target.frame!r}, {error}", target.frame) from error
            self._waiting, self._target = None, None if self._stands_still(target) else target
        elif self._target is not None:
            try:
                found = self._in_base(self._target)
            except FrameError:  # keep the last pose while the frame is unknown
                return False
        else:
            return False
        has_moved = bool(np.abs(found - self.pose).max() > MOVED)
        self.pose = found
        return has_moved

    def _stands_still(self, target: Target) -> bool:
        return target.stamp != 0 or self._frames.is_fixed(target.frame)

    def _in_base(self, target: Target) -> np.ndarray:
        return np.asarray(self._frames.in_base(target.frame, target.stamp) @ target.pose)


class TargetMarker:
    """Server of the target's interactive marker. The marker is hidden until `show` is called.

    The arrows have the length `size` [m]. `moved` is called with each feedback message that moves the target.
    """

    def __init__(
        self, node: Node, namespace: str, size: float, moved: Callable[[msg.InteractiveMarkerFeedback], None]
    ) -> None:
        self._node, self._size, self._moved = node, size, moved
        self._number = 0
        self._marker: msg.InteractiveMarker | None = None
        self._updates = node.create_publisher(msg.InteractiveMarkerUpdate, f"{namespace}/update", _UPDATES)
        node.create_subscription(msg.InteractiveMarkerFeedback, f"{namespace}/feedback", guarded(node, self._take), 10)
        node.create_service(GetInteractiveMarkers, f"{namespace}/get_interactive_markers", self._tell)

    def show(self, pose: np.ndarray, frame: str, position_only: bool) -> None:
        """Show the marker at a pose (4, 4) in a frame. With `position_only`, it has no rings."""
        marker = msg.InteractiveMarker(name=TARGET, description=TARGET, scale=self._size, pose=pose_message(pose))
        marker.header.frame_id = frame
        marker.controls = [
            msg.InteractiveMarkerControl(name=f"{kind}_{axis}", interaction_mode=mode, orientation=_orientation(turn))
            for kind, mode in (
                ("move", msg.InteractiveMarkerControl.MOVE_AXIS),
                ("rotate", msg.InteractiveMarkerControl.ROTATE_AXIS),
            )
            for axis, turn in _AXES.items()
            if kind == "move" or not position_only
        ]
        self._marker = marker
        self._publish(markers=[marker])

    def move(self, pose: np.ndarray) -> None:
        """Move the marker to a pose (4, 4) in all clients except the client that drags it."""
        assert self._marker is not None
        self._marker.pose = pose_message(pose)
        self._publish(
            poses=[msg.InteractiveMarkerPose(name=TARGET, header=self._marker.header, pose=self._marker.pose)]
        )

    def hide(self) -> None:
        """Hide the marker."""
        if self._marker is not None:
            self._marker = None
            self._publish(erases=[TARGET])

    def _publish(self, **content: Any) -> None:
        self._number += 1
        kind = msg.InteractiveMarkerUpdate.UPDATE
        name = self._node.get_fully_qualified_name()
        self._updates.publish(msg.InteractiveMarkerUpdate(server_id=name, seq_num=self._number, type=kind, **content))

    def _tell(self, request: Any, response: Any) -> Any:
        response.sequence_number = self._number
        response.markers = [] if self._marker is None else [self._marker]
        return response

    def _take(self, message: msg.InteractiveMarkerFeedback) -> None:
        is_move = message.event_type == msg.InteractiveMarkerFeedback.POSE_UPDATE
        if is_move and message.marker_name == TARGET and self._marker is not None:
            self._moved(message)


def _orientation(turn: tuple[float, float, float]) -> Any:
    """Return the orientation of a control as a quarter turn about an axis.

    A turn about the x axis does not change the direction of the control.
    """
    x, y, z = np.array(turn) / np.sqrt(2.0)
    quaternion = pose_message(np.eye(4)).orientation
    quaternion.x, quaternion.y, quaternion.z, quaternion.w = float(x), float(y), float(z), float(np.sqrt(0.5))
    return quaternion
