"""Where joints are now, by their names, as the topic of `sensor_msgs/JointState` last told of each."""

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
_PERIOD = 0.2  # [s] between two looks while nobody asks, so that the states of a slow publisher are not pushed out


class JointPositions:
    """Listens for the life of a node, to one publisher or to several that tell of different joints.

    Parameters
    ----------
    node : Node
    topic : str
    """

    def __init__(self, node: Node, topic: str) -> None:
        self._node = node
        profile = QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)  # takes reliable ones, too
        self._subscription = DrainedSubscription(node, JointState, topic, profile)
        self._positions: dict[str, float] = {}
        self._lock = threading.Lock()
        node.create_timer(_PERIOD, self._take, clock=Clock(clock_type=ClockType.STEADY_TIME))

    @property
    def now(self) -> dict[str, float]:
        """Position of each joint that was told of [rad] or [m]."""
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
                elif values:  # without any it tells of velocities or efforts alone
                    told_of = f"{len(names)} names and {len(values)} positions"
                    self._node.get_logger().warning(
                        f"{self._subscription.topic}: a state of {told_of} is left out", throttle_duration_sec=5.0
                    )


def joint_positions_of(message: bytes) -> tuple[list[str], tuple[float, ...]]:
    """Names and positions [rad] or [m] of a serialised `sensor_msgs/JointState`."""
    try:
        reader = CdrReader(message)
        reader.time(), reader.text()  # of the header
        names = [reader.text() for _ in range(reader.count())]
        return names, reader.doubles(reader.count())
    except (ValueError, struct.error):
        state = deserialize_message(message, JointState)
        return list(state.name), tuple(state.position)
