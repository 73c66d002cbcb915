"""State of a robot: poses of frames from its fixed links and from tf, and current joint positions from topics.

`BaseFrames` looks up a frame among the links that are fixed to the base link. If it is not one of them, tf is used.
`Transforms` listens to /tf and /tf_static. Unlike the listener of tf2_ros, it causes almost no load while no transform
is needed, and pip can install it. `Transforms` reads messages when a transform is looked up. To lose no message, it
also reads them periodically. `JointPositions` listens to joint states in the same way.

`CdrReader` reads serialised messages directly (XCDR version 1, OMG DDSI-RTPS 2.3, section 10.5). rclpy creates a Python
object for each field, which takes 50 us per transform. `CdrReader` reads only the required numbers, which takes 5 us.
rclpy reads messages with another serialisation.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from rclpy.clock import Clock, ClockType, JumpThreshold, TimeJump
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState

from eim_ros.kinematics import Robot
from eim_ros.kinematics.frames import SECOND, FrameBuffer, FrameError, StampedTransform
from eim_ros.kinematics.links import fixed_links
from eim_ros.nodes.common.interfaces import TFMessage
from eim_ros.nodes.common.messages import nanoseconds
from eim_ros.nodes.common.subscriptions import DrainedSubscription

LITTLE_ENDIAN = b"\x00\x01"  # identifier of plain CDR in the first two bytes of a message
CDR_HEADER_BYTES = 4  # two bytes of identifier and two bytes of options before the fields
_DEPTH = 1000  # maximum number of messages between two reads; enough for 5 kHz
_PERIOD = 0.2  # [s] maximum time between two reads; keeps fast publishers from displacing slow ones


class CdrReader:
    """Sequential reader of the fields of a serialised message.

    The constructor raises `ValueError` if the message is not plain little-endian CDR. If the message is truncated, the
    methods raise `struct.error` or `ValueError`.
    """

    def __init__(self, data: bytes) -> None:
        if data[:2] != LITTLE_ENDIAN:
            raise ValueError("the message is not plain little-endian CDR")
        self._data = memoryview(data)[CDR_HEADER_BYTES:]
        self._place = 0

    def time(self) -> int:
        """Read a `builtin_interfaces/Time` [ns]."""
        place = self._aligned(4)
        whole, rest = struct.unpack_from("<iI", self._data, place)
        self._place = place + 8
        return int(whole) * SECOND + int(rest)

    def count(self) -> int:
        """Read the length of a sequence, or a uint32."""
        place = self._aligned(4)
        self._place = place + 4
        return int(struct.unpack_from("<I", self._data, place)[0])

    def text(self) -> str:
        """Read a string."""
        length = self.count()
        place, self._place = self._place, self._place + length
        if self._place > len(self._data) or not length:
            raise ValueError("the message is truncated")
        return str(self._data[place : self._place - 1], "utf-8")  # without the terminating null byte

    def doubles(self, n: int) -> tuple[float, ...]:
        """Read `n` float64 values."""
        place = self._aligned(8) if n else self._place
        self._place = place + 8 * n
        return struct.unpack_from(f"<{n}d", self._data, place)

    def _aligned(self, size: int) -> int:
        return -(-self._place // size) * size


def stamped_transforms(message: bytes) -> list[tuple[str, StampedTransform]]:
    """Return the child frames and transforms of a serialised `tf2_msgs/TFMessage`."""
    try:
        reader = CdrReader(message)
        return [_transform(reader) for _ in range(reader.count())]
    except (ValueError, struct.error):
        return [_transform_of(transform) for transform in deserialize_message(message, TFMessage).transforms]


def _transform(reader: CdrReader) -> tuple[str, StampedTransform]:
    stamp, parent, child, numbers = reader.time(), reader.text(), reader.text(), reader.doubles(7)
    return _named(parent, child, stamp, numbers)


def _transform_of(message: Any) -> tuple[str, StampedTransform]:
    place, turn = message.transform.translation, message.transform.rotation
    numbers = (place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w)
    return _named(message.header.frame_id, message.child_frame_id, nanoseconds(message.header.stamp), numbers)


def _named(parent: str, child: str, stamp: int, numbers: tuple[float, ...]) -> tuple[str, StampedTransform]:
    """Return the child frame and its transform, without the leading slash that ROS 1 allowed in frame names."""
    return child.lstrip("/"), StampedTransform(parent.lstrip("/"), stamp, numbers[:3], numbers[3:])


class Transforms:
    """Thread-safe listener to /tf and /tf_static. The listener exists as long as the node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._buffer = FrameBuffer()
        self._subscriptions: dict[bool, DrainedSubscription] = {}
        if TFMessage is None:
            return
        for is_static, topic, durability in (
            (True, "/tf_static", DurabilityPolicy.TRANSIENT_LOCAL),
            (False, "/tf", DurabilityPolicy.VOLATILE),
        ):
            profile = QoSProfile(depth=_DEPTH, durability=durability)
            self._subscriptions[is_static] = DrainedSubscription(node, TFMessage, topic, profile)
        node.create_timer(_PERIOD, self._take, clock=Clock(clock_type=ClockType.STEADY_TIME))
        backwards = JumpThreshold(min_forward=None, min_backward=Duration(nanoseconds=-1), on_clock_change=True)
        self._jumps = node.get_clock().create_jump_callback(backwards, post_callback=self._set_back)

    def lookup(self, target: str, source: str, stamp: int) -> np.ndarray:
        """Return the pose (4, 4) of frame `source` in frame `target` at a time [ns]. Time 0 means the latest pose.

        `FrameError` is raised if the pose is unknown. Its message names the missing frame or transform.
        """
        self._take()
        try:
            return self._buffer.lookup(target, source, stamp or None)
        except FrameError as error:
            if TFMessage is None:
                raise FrameError(
                    "tf is not available, because tf2_msgs is not installed: install it", source
                ) from error
            if not any(subscription.n_publishers for subscription in self._subscriptions.values()):
                raise FrameError(f"{error}; no node publishes on /tf or /tf_static", error.value) from error
            raise

    def _take(self) -> None:
        for is_static, subscription in self._subscriptions.items():
            for message in subscription.take():
                for child, transform in stamped_transforms(message):
                    try:
                        self._buffer.put(child, transform, is_static)
                    except FrameError as error:
                        self._node.get_logger().warning(f"tf: {error}", throttle_duration_sec=5.0)

    def _set_back(self, jump: TimeJump) -> None:
        """Clear the buffer when the clock jumps backwards, for example when a simulation restarts."""
        self._buffer.clear()


@dataclass(frozen=True, eq=False)
class BaseFrames:
    """Poses of frames relative to the base link of a robot."""

    robot: Robot
    # Listener to tf. Without a listener, only frames that are fixed to the base link are known.
    transforms: Transforms | None = None
    prefix: str = ""  # prefix of the robot's link names in tf

    @cached_property
    def _fixed(self) -> Mapping[str, np.ndarray]:
        return fixed_links(self.robot, self.robot.base_link)

    def is_fixed(self, frame: str) -> bool:
        """Return whether a frame is fixed to the base link. Such frames do not need tf.

        An empty name means the base link.
        """
        return not frame or frame in self._fixed or frame.removeprefix(self.prefix) in self._fixed

    def in_base(self, frame: str, stamp: int = 0) -> np.ndarray:
        """Return the pose (4, 4) of a frame in the base frame at a time [ns]. Time 0 means the latest pose.

        `FrameError` is raised if the pose is unknown. Its attribute `may_come` is true if the pose may become known
        soon.
        """
        if self.is_fixed(frame):
            link = frame.removeprefix(self.prefix)
            return self._fixed[(frame if frame in self._fixed else link) or self.robot.base_link]
        base = self.robot.base_link
        if self.transforms is None:
            raise FrameError(
                f"expected the base link {base!r}, a link that is fixed to it "
                f"({', '.join(list(self._fixed)[1:]) or 'there is none'}), or an empty name, because this node does "
                "not listen to tf (parameter use_tf)",
                frame,
            )
        try:
            return self.transforms.lookup(self.prefix + base, frame, stamp)
        except FrameError as error:
            raise FrameError(
                f"which is neither fixed to the base link {base!r} nor known from tf: {error}", frame, error.may_come
            ) from error


class JointPositions:
    """Latest position of each joint, from one or several publishers.

    Different publishers may publish different joints. The subscription exists as long as the node.
    """

    def __init__(self, node: Node, topic: str) -> None:
        self._node = node
        # a best-effort subscription also matches reliable publishers
        profile = QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._subscription = DrainedSubscription(node, JointState, topic, profile)
        self._positions: dict[str, float] = {}
        self._lock = threading.Lock()
        node.create_timer(_PERIOD, self._take, clock=Clock(clock_type=ClockType.STEADY_TIME))

    @property
    def now(self) -> dict[str, float]:
        """Latest published position of each joint [rad] or [m], by joint name."""
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
                        f"{self._subscription.topic}: a joint state with {told_of} is ignored",
                        throttle_duration_sec=5.0,
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
