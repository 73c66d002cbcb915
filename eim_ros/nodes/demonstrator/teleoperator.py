"""Teleoperation of the planar robot by velocity commands, which are converted to short trajectories.

The topic ~/twist commands the linear velocity of the tip in the plane and its angular velocity. The topic
~/joint_velocity commands velocities of joints by name. The robot stops if a command is not renewed in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from geometry_msgs.msg import Twist
from rclpy.node import Node
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from eim_ros.core.errors import ConfigurationError, JointStateError
from eim_ros.nodes.common.node import guarded
from eim_ros.nodes.common.process import PeriodicWork
from eim_ros.nodes.planar_simulator.messages import trajectory_message
from eim_ros.planar import PlanarArm
from eim_ros.planar.arm import joint_velocity, target_after

_PERIOD = 0.05  # [s] time between two trajectories
_HORIZON = 0.15  # [s] duration of each trajectory


class Person:
    """Converter of a person's velocity commands into short trajectories.

    A command expires after `patience` [s]. `publish` is called with each trajectory. An empty trajectory stops the
    robot.
    """

    def __init__(self, node: Node, arm: PlanarArm, patience: float, publish: Callable[[JointTrajectory], None]) -> None:
        self._arm = arm
        self._patience = patience
        self._publish = publish
        self._q: np.ndarray | None = None
        # time [s], and joint velocity [rad/s] as a function of q
        self._wish: tuple[float, Callable[[np.ndarray], np.ndarray]] | None = None
        self._node = node
        self._listening = [
            node.create_subscription(JointState, "joint_states", self._take_state, 10),
            node.create_subscription(Twist, "~/twist", guarded(node, self._take_twist), 10),
            node.create_subscription(JointState, "~/joint_velocity", guarded(node, self._take_velocity), 10),
        ]
        self._driving = PeriodicWork(node, {self._command: _PERIOD})

    def close(self) -> None:
        """End the subscriptions, and stop the robot if a command is active."""
        self._driving.stop()
        for subscription in self._listening:
            self._node.destroy_subscription(subscription)
        if self._wish is not None:
            self._publish(JointTrajectory())

    def _take_state(self, message: JointState) -> None:
        places = dict(zip(message.name, message.position, strict=False))
        if all(name in places for name in self._arm.joint_names):
            self._q = np.array([places[name] for name in self._arm.joint_names])

    def _take_twist(self, message: Twist) -> None:
        linear, angular = np.array([message.linear.x, message.linear.y]), float(message.angular.z)
        if not (np.isfinite(linear).all() and np.isfinite(angular)):
            raise ConfigurationError(
                f"the velocities of a twist must be finite, got {linear.tolist()} and {angular}", linear.tolist()
            )
        self._take_wish(lambda q: joint_velocity(self._arm, q, linear, angular))

    def _take_velocity(self, message: JointState) -> None:
        names = list(message.name)
        unknown = sorted(set(names) - set(self._arm.joint_names))
        if unknown:
            raise JointStateError(f"the velocity command names unknown joints: {unknown}", names)
        if len(names) != len(message.velocity) or not np.isfinite(message.velocity).all():
            raise JointStateError(
                f"expected one finite velocity for each of {len(names)} names, got {list(message.velocity)}", names
            )
        wished = dict(zip(names, message.velocity, strict=True))
        velocity = np.array([wished.get(name, 0.0) for name in self._arm.joint_names])
        self._take_wish(lambda q: velocity)

    def _take_wish(self, velocity: Callable[[np.ndarray], np.ndarray]) -> None:
        """Set the current command, a function from a configuration [rad] to joint velocities [rad/s]."""
        self._wish = (time.monotonic(), velocity)
        self._driving.start()

    def _command(self) -> None:
        """Publish a short trajectory for the current command, or stop the robot if the command has expired."""
        if self._wish is None or self._q is None:
            return
        since, velocity = self._wish
        if time.monotonic() - since > self._patience:
            self._wish = None
            self._driving.stop()
            self._publish(JointTrajectory())
            return
        target = target_after(self._arm, self._q, velocity(self._q), _HORIZON)
        self._publish(trajectory_message(self._arm.joint_names, np.array([_HORIZON]), target[None]))
