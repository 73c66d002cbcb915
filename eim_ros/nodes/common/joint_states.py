"""Current joint positions from a topic of type `sensor_msgs/JointState`."""

from __future__ import annotations

import math
import struct
import threading

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState

from eim_ros.nodes.common.frames import CdrReader
from eim_ros.nodes.common.subscriptions import DrainedSubscription

_DEPTH = 1000
_PERIOD = 0.2  # [s] maximum time between reads, so that a fast publisher does not displace the states of a slow one


class JointPositions:
    """Latest position of each joint, from one or several publishers.

    Each publisher may cover different joints. The subscription lasts as long as the node.
    """

    def __init__(self, node: Node, topic: str) -> None:
        self._node = node
        # best effort also matches reliable publishers
        profile = QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._subscription = DrainedSubscription(node, JointState, topic, profile)
        self._positions: dict[str, float] = {}
        self._lock = threading.Lock()
        node.create_timer(_PERIOD, self._take, clock=Clock(clock_type=ClockType.STEADY_TIME))

    @property
    def now(self) -> dict[str, float]:
        """Latest position of each joint that was published [rad] or [m], by joint name."""
        self._take()
        with self._lock:
            return dict(self._positions)

    def _take(self) -> None:
        with self._lock:
            for message in self._subscription.take():
                names, values = joint_positions_of(message)
                if len(names) == len(values):
                    told = zip(names, values, strict=True)
                    self._positions.update({name: value for name, value in told if math.isfinite(value)})
                elif values:  # a state without positions contains only velocities or efforts
                    told_of = f"{len(names)} names and {len(values)} positions"
                    self._node.get_logger().warning(
                        f"{self._subscription.topic}: a state of {told_of} is left out", throttle_duration_sec=5.0
                    )


def joint_positions_of(message: bytes) -> tuple[list[str], tuple[float, ...]]:
    """Return the names and positions [rad] or [m] of a serialised `sensor_msgs/JointState`."""
    try:
        reader = CdrReader(message)
        reader.time(), reader.text()  # skip the header
        names = [reader.text() for _ in range(reader.count())]
        return names, reader.doubles(reader.count())
    except (ValueError, struct.error):
        state = deserialize_message(message, JointState)
        return list(state.name), tuple(state.position)
