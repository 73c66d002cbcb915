"""The target of `ik_viewer`: a pose in some frame, that is where it is told, or moves along with its frame.

The target as an interactive marker of RViz: arrows and rings to drag, and what a server of these has to do.

The topics `update` and `feedback` and the service `get_interactive_markers` in a namespace of their own. A client gets
the marker with the number of the last update, and then updates with the numbers that follow; if one is missing it asks
again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile
from visualization_msgs.msg import (
    InteractiveMarker,
    InteractiveMarkerControl,
    InteractiveMarkerFeedback,
    InteractiveMarkerPose,
    InteractiveMarkerUpdate,
)
from visualization_msgs.srv import GetInteractiveMarkers

from eim_ros.core.errors import PoseError
from eim_ros.kinematics.frames import FrameError
from eim_ros.nodes.common.frames import BaseFrames
from eim_ros.nodes.common.messages import pose_message
from eim_ros.nodes.common.node import guarded

MOVED = 1e-9  # [m, 1] in an entry of its pose in the base frame, above which a target has moved


@dataclass(frozen=True, eq=False)
class Target:
    """A pose as it is told.

    Attributes
    ----------
    pose : (4, 4)
    frame : str
        Empty for that of the base link.
    stamp : int
        When the pose is that in its frame [ns]; 0: always, it moves along with the frame.
    """

    pose: np.ndarray
    frame: str = ""
    stamp: int = 0


class FollowedTarget:
    """Where the newest target is in the base frame.

    Parameters
    ----------
    frames : BaseFrames
    first : (4, 4)
        In the base frame.
    timeout : float
        Longest time that one waits for its frame [s].
    """

    def __init__(self, frames: BaseFrames, first: np.ndarray, timeout: float) -> None:
        self._frames, self._timeout = frames, timeout
        self._target: Target | None = None  # which moves along with its frame
        self._waiting: tuple[Target, float] | None = None  # one that is not known yet, and until when it may come
        self.pose = first

    def take(self, target: Target, now: float) -> bool:
        """A new one, at a time [s]; returns whether the pose has changed.

        Raises
        ------
        PoseError
            If its frame is not known, and cannot become so.
        """
        self._waiting = target, now + self._timeout
        return self.look(now)

    def look(self, now: float) -> bool:
        """Look again at a time [s]; returns whether the pose has changed. Raises as `take`, once for each target."""
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
            except FrameError:  # of a frame that is known no longer: where it was
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


TARGET = "target"  # name of the marker
_AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 0.0, 1.0), "z": (0.0, 1.0, 0.0)}  # a control's own x axis, turned there
_UPDATES = QoSProfile(depth=100)


class TargetMarker:
    """Serves the marker; nothing is shown until it has a pose.

    Parameters
    ----------
    node : Node
    namespace : str
        Of the topics and the service.
    size : float
        Of the arrows [m].
    moved : callable
        Called with each feedback that moves the target.
    """

    def __init__(
        self, node: Node, namespace: str, size: float, moved: Callable[[InteractiveMarkerFeedback], None]
    ) -> None:
        self._node, self._size, self._moved = node, size, moved
        self._number = 0
        self._marker: InteractiveMarker | None = None
        self._updates = node.create_publisher(InteractiveMarkerUpdate, f"{namespace}/update", _UPDATES)
        node.create_subscription(InteractiveMarkerFeedback, f"{namespace}/feedback", guarded(node, self._take), 10)
        node.create_service(GetInteractiveMarkers, f"{namespace}/get_interactive_markers", self._tell)

    def show(self, pose: np.ndarray, frame: str, position_only: bool) -> None:
        """Show the marker at a pose (4, 4) in a frame, with rings unless any orientation will do."""
        marker = InteractiveMarker(name=TARGET, description=TARGET, scale=self._size, pose=pose_message(pose))
        marker.header.frame_id = frame
        marker.controls = [
            InteractiveMarkerControl(name=f"{kind}_{axis}", interaction_mode=mode, orientation=_orientation(turn))
            for kind, mode in (
                ("move", InteractiveMarkerControl.MOVE_AXIS),
                ("rotate", InteractiveMarkerControl.ROTATE_AXIS),
            )
            for axis, turn in _AXES.items()
            if kind == "move" or not position_only
        ]
        self._marker = marker
        self._publish(markers=[marker])

    def move(self, pose: np.ndarray) -> None:
        """Move the marker to a pose (4, 4); whoever drags it has moved it already."""
        assert self._marker is not None
        self._marker.pose = pose_message(pose)
        self._publish(poses=[InteractiveMarkerPose(name=TARGET, header=self._marker.header, pose=self._marker.pose)])

    def hide(self) -> None:
        """Show none."""
        if self._marker is not None:
            self._marker = None
            self._publish(erases=[TARGET])

    def _publish(self, **content: Any) -> None:
        self._number += 1
        kind = InteractiveMarkerUpdate.UPDATE
        name = self._node.get_fully_qualified_name()
        self._updates.publish(InteractiveMarkerUpdate(server_id=name, seq_num=self._number, type=kind, **content))

    def _tell(self, request: Any, response: Any) -> Any:
        response.sequence_number = self._number
        response.markers = [] if self._marker is None else [self._marker]
        return response

    def _take(self, message: InteractiveMarkerFeedback) -> None:
        is_move = message.event_type == InteractiveMarkerFeedback.POSE_UPDATE
        if is_move and message.marker_name == TARGET and self._marker is not None:
            self._moved(message)


def _orientation(turn: tuple[float, float, float]) -> Any:
    """Of a control whose x axis is to be an axis of the marker: a quarter turn, or none."""
    x, y, z = np.array(turn) / np.sqrt(2.0)
    quaternion = pose_message(np.eye(4)).orientation
    quaternion.x, quaternion.y, quaternion.z, quaternion.w = float(x), float(y), float(z), float(np.sqrt(0.5))
    return quaternion
