"""Frames as tf has them: what is published on /tf and /tf_static.

Like the listener of tf2_ros, but without work while nobody asks: messages are taken when a transform is looked up, and
now and then so that none is lost.
"""

from __future__ import annotations

import numpy as np
from rclpy.clock import Clock, ClockType, JumpThreshold, TimeJump
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from eim_ros.kinematics.frames import FrameError
from eim_ros.nodes.common.drained_subscription import DrainedSubscription
from eim_ros.nodes.common.interfaces import TFMessage
from eim_ros.nodes.common.tf_buffers import transform_buffer

__all__ = ["Transforms"]

_DEPTH = 1000  # messages that wait between two looks: 5 kHz
_PERIOD = 0.2  # [s] between two looks while nobody asks


class Transforms:
    """Listens for the life of a node; for several threads.

    Parameters
    ----------
    node : Node
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._buffer = transform_buffer()
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
        """Pose (4, 4) of a frame in another at a time [ns], 0 for the latest at which it is known.

        Raises
        ------
        FrameError
            Naming what is not known.
        """
        self._take()
        try:
            return self._buffer.lookup(target, source, stamp or None)
        except FrameError as error:
            if TFMessage is None:
                raise FrameError("no tf here: tf2_msgs is not installed", source) from error
            if not any(subscription.n_publishers for subscription in self._subscriptions.values()):
                raise FrameError(f"{error}; nobody publishes on /tf or /tf_static", error.value) from error
            raise

    def _take(self) -> None:
        for is_static, subscription in self._subscriptions.items():
            for message in subscription.take():
                for error in self._buffer.put(message, is_static):
                    self._node.get_logger().warning(f"tf: {error}", throttle_duration_sec=5.0)

    def _set_back(self, jump: TimeJump) -> None:
        """Of a simulation that begins anew."""
        self._buffer.clear()
