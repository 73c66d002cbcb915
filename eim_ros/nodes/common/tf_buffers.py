"""Buffers of `geometry_msgs/TransformStamped`: tf2's where tf2_ros is installed, else ours, which answers the same."""

from __future__ import annotations

import struct
from typing import Any, Protocol

import numpy as np
from rclpy.duration import Duration
from rclpy.serialization import deserialize_message
from rclpy.time import Time

from eim_ros.kinematics.frames import HISTORY, SECOND, FrameBuffer, FrameError, StampedTransform
from eim_ros.kinematics.pose import pose_from
from eim_ros.nodes.common.cdr import CdrReader
from eim_ros.nodes.common.interfaces import TFMessage

try:
    import tf2_ros
except ImportError:
    tf2_ros = None

__all__ = ["OwnBuffer", "Tf2Buffer", "TransformBuffer", "nanoseconds", "stamped_transforms", "transform_buffer"]


class TransformBuffer(Protocol):
    """Transforms of the last seconds; for several threads."""

    def put(self, message: bytes, is_static: bool) -> list[FrameError]:
        """Keep the transforms of a serialised `tf2_msgs/TFMessage`; returns what is wrong with those that are none."""

    def lookup(self, target: str, source: str, stamp: int | None) -> np.ndarray:
        """As `FrameBuffer.lookup`."""

    def clear(self) -> None:
        """Forget all but static transforms."""


def transform_buffer() -> TransformBuffer:
    """The best there is."""
    return OwnBuffer() if tf2_ros is None else Tf2Buffer()


class OwnBuffer:
    """A `FrameBuffer` of messages."""

    def __init__(self) -> None:
        self._buffer = FrameBuffer()
        self.lookup = self._buffer.lookup
        self.clear = self._buffer.clear

    def put(self, message: bytes, is_static: bool) -> list[FrameError]:
        refused = []
        for child, transform in stamped_transforms(message):
            try:
                self._buffer.put(child, transform, is_static)
            except FrameError as error:
                refused.append(error)
        return refused


class Tf2Buffer:
    """The buffer of tf2_ros. It ignores what is no transform by itself, and says so on stderr."""

    def __init__(self) -> None:
        self._buffer = tf2_ros.Buffer(Duration(seconds=HISTORY))

    def put(self, message: bytes, is_static: bool) -> list[FrameError]:
        keep = self._buffer.set_transform_static if is_static else self._buffer.set_transform
        for transform in deserialize_message(message, TFMessage).transforms:
            keep(transform, "eim_ros")
        return []

    def lookup(self, target: str, source: str, stamp: int | None) -> np.ndarray:
        try:
            found = self._buffer.lookup_transform_core(target, source, Time(nanoseconds=stamp or 0))
        except tf2_ros.TransformException as error:
            may_come = not isinstance(error, tf2_ros.ExtrapolationException) or "past" not in str(error)
            raise FrameError(str(error), source, may_come) from error
        position, rotation = found.transform.translation, found.transform.rotation
        return pose_from(
            (position.x, position.y, position.z),
            (rotation.x, rotation.y, rotation.z, rotation.w),
        )

    def clear(self) -> None:
        self._buffer.clear()


def stamped_transforms(message: bytes) -> list[tuple[str, StampedTransform]]:
    """Child frames and transforms of a serialised `tf2_msgs/TFMessage`."""
    try:
        reader = CdrReader(message)
        return [_transform(reader) for _ in range(reader.count())]
    except (ValueError, struct.error):
        return [_transform_of(transform) for transform in deserialize_message(message, TFMessage).transforms]


def _transform(reader: CdrReader) -> tuple[str, StampedTransform]:
    stamp, parent, child = reader.time(), reader.text(), reader.text()
    numbers = reader.doubles(7)
    return _named(parent, child, stamp, numbers[:3], numbers[3:])


def _transform_of(message: Any) -> tuple[str, StampedTransform]:
    position, rotation = message.transform.translation, message.transform.rotation
    return _named(
        message.header.frame_id,
        message.child_frame_id,
        nanoseconds(message.header.stamp),
        (position.x, position.y, position.z),
        (rotation.x, rotation.y, rotation.z, rotation.w),
    )


def _named(
    parent: str, child: str, stamp: int, position: tuple[float, ...], quaternion: tuple[float, ...]
) -> tuple[str, StampedTransform]:
    """Names may begin with a slash, as in tf of ROS 1."""
    return child.lstrip("/"), StampedTransform(parent.lstrip("/"), stamp, position, quaternion)


def nanoseconds(stamp: Any) -> int:
    """Of a `builtin_interfaces/Time`."""
    return int(stamp.sec) * SECOND + int(stamp.nanosec)
