"""Loading of a node's robot or model. A name, a file, a URDF text or a latched topic specifies the robot."""

from __future__ import annotations

import threading

from rclpy.node import Node
from std_msgs.msg import String

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot
from eim_ros.kinematics.urdf import listed, parse_urdf
from eim_ros.nodes.common.qos import LATCHED_QOS
from eim_ros.nodes.settings import RobotSettings


def load_robot(settings: RobotSettings, description: str) -> Robot:
    """Load the chain of a robot between the base link and the tip link of the settings.

    By default, the base link is the root of the URDF, and the tip link is `UrdfTree.default_tip`. The URDF text
    `description` is used only if `settings.robot` is empty. `RobotError` is raised if the robot cannot be read.
    `ConfigurationError` is raised if there is no robot, or if the description is not URDF text.
    """
    base, tip, folders = settings.base_link or None, settings.tip_link or None, settings.package_folders
    if settings.robot:
        return Robot.quietly(settings.robot, tip, base=base, package_paths=folders)
    if not description:
        raise ConfigurationError(
            "no robot is given: set the parameter robot, robot_description or use_robot_description_topic", ""
        )
    check_description(description)
    return Robot.quietly(description.lstrip(), tip, base=base, package_paths=folders)


def load_sampler(model: str, settings: RobotSettings, description: str) -> Sampler:
    """Load a model for the given robot, or for the robot of the model. Without a model, load only the robot."""
    if not model:
        return Sampler(load_robot(settings, description))
    check_description(description)
    source, tip, base = settings.robot or description or None, settings.tip_link or None, settings.base_link or None
    return Sampler.load(model, source, tip, base=base, package_paths=settings.package_folders)


def check_description(description: str) -> None:
    """Raise `ConfigurationError` if a non-empty description is not URDF text.

    Without this check, `Robot` would interpret the text as the name of a file.
    """
    if description and not description.lstrip().startswith("<"):
        raise ConfigurationError(
            f"robot_description must be the text of a URDF, got {description[:200]!r}", description
        )


def chain_of(robot: Robot, *, is_default: bool) -> str:
    """Return a description of a chain for the log, with the names of the robot, its base and its tip.

    If `is_default` is true, the settings do not name the tip, and the description also lists other possible tips.
    """
    chain = f"'{robot.name}' from '{robot.base_link}' to '{robot.tip_link}'"
    ends = parse_urdf(robot.urdf).leaves() if is_default else []
    if len(ends) < 2:
        return chain
    return f"{chain} (chosen automatically; branches end in {listed(ends)}; the parameter tip_link selects another tip)"


class RobotDescription:
    """URDF text of a node's robot, from its parameter or, if the settings require it, from `robot_description`.

    The executor's thread stores the latest URDF text, and another thread waits for it. rclpy's `wait_for_message` is
    not suitable, because the spinning executor may take the message instead. A latched message arrives only once.
    """

    def __init__(self, node: Node, settings: RobotSettings) -> None:
        self._node, self._settings = node, settings
        self._latest = ""
        self._closed = False
        self._changed = threading.Condition()
        self._topic = ""
        if settings.use_robot_description_topic:
            self._topic = node.create_subscription(String, "robot_description", self._take, LATCHED_QOS).topic_name

    def urdf(self) -> str:
        """Return the URDF text. The text of the parameter may be empty.

        `ConfigurationError` is raised if the topic is used and no text arrives in time, or if `close` is called.
        """
        if not self._topic:
            return self._settings.robot_description
        self._node.get_logger().info(f"waiting for {self._topic}")
        timeout = self._settings.robot_description_timeout
        with self._changed:
            self._changed.wait_for(lambda: self._latest or self._closed, timeout)
            if not self._latest:
                raise ConfigurationError(
                    f"no URDF arrived on {self._topic} within {timeout} s; check that its publisher is running"
                )
            return self._latest

    def close(self) -> None:
        """End all waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _take(self, message: String) -> None:
        with self._changed:
            self._latest = str(message.data)
            self._changed.notify_all()
