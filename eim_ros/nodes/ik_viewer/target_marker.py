"""The target as an interactive marker of RViz: arrows and rings to drag, and what a server of these has to do.

The topics `update` and `feedback` and the service `get_interactive_markers` in a namespace of their own. A client gets
the marker with the number of the last update, and then updates with the numbers that follow; if one is missing it asks
again.
"""

from __future__ import annotations

from collections.abc import Callable
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

from eim_ros.nodes.common.callbacks import guarded
from eim_ros.nodes.common.pose_messages import pose_message

__all__ = ["TARGET", "TargetMarker"]

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
