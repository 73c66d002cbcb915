"""Buffers of `geometry_msgs/TransformStamped`: tf2's where tf2_ros is installed, else ours, which answers the same."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from rclpy.duration import Duration
from rclpy.time import Time

from eim_ros.kinematics.frames import HISTORY, SECOND, FrameBuffer, FrameError, StampedTransform
from eim_ros.kinematics.pose import pose_from

try:
    import tf2_ros
except ImportError:
    tf2_ros = None

__all__ = ["OwnBuffer", "Tf2Buffer", "TransformBuffer", "nanoseconds", "transform_buffer"]


class TransformBuffer(Protocol):
    """Transforms of the last seconds; for several threads."""

    def put(self, message: Any, is_static: bool) -> None:
        """Keep a transform; `FrameError` where it is none."""

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

    def put(self, message: Any, is_static: bool) -> None:
        position, rotation = message.transform.translation, message.transform.rotation
        transform = StampedTransform(
            message.header.frame_id.lstrip("/"),  # as tf of ROS 1 called them
            nanoseconds(message.header.stamp),
            (position.x, position.y, position.z),
            (rotation.x, rotation.y, rotation.z, rotation.w),
        )
        self._buffer.put(message.child_frame_id.lstrip("/"), transform, is_static)


class Tf2Buffer:
    """The buffer of tf2_ros. It ignores what is no transform by itself, and says so on stderr."""

    def __init__(self) -> None:
        self._buffer = tf2_ros.Buffer(Duration(seconds=HISTORY))

    def put(self, message: Any, is_static: bool) -> None:
        keep = self._buffer.set_transform_static if is_static else self._buffer.set_transform
        keep(message, "eim_ros")

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


def nanoseconds(stamp: Any) -> int:
    """Of a `builtin_interfaces/Time`."""
    return int(stamp.sec) * SECOND + int(stamp.nanosec)
