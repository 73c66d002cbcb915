"""Where the robot of a node comes from: a name or a file, URDF text, or the topic `robot_description`.

The robot's URDF text from the latched topic `robot_description`, for a thread that waits for it.
"""

from __future__ import annotations

import threading

from rclpy.node import Node
from std_msgs.msg import String

from eim_ros.core.errors import ConfigurationError
from eim_ros.kinematics import Robot
from eim_ros.nodes.common.qos import LATCHED_QOS
from eim_ros.nodes.common.settings import RobotSettings


def load_robot(settings: RobotSettings, description: str) -> Robot:
    """The robot between the links of the settings or, where they are empty, between its root and its only leaf.

    Parameters
    ----------
    settings : RobotSettings
        Name or file, and links.
    description : str
        URDF text, of the parameter or the topic; empty: `settings.robot`.

    Raises
    ------
    RobotError, ConfigurationError
        If it cannot be read, or there is none.
    """
    base, tip = settings.base_link or None, settings.tip_link or None
    if settings.robot:
        return Robot(settings.robot, tip, base=base)
    if not description:
        raise ConfigurationError(
            "no robot: give one of the parameters robot, robot_description, use_robot_description_topic", ""
        )
    check_description(description)
    return Robot(description.lstrip(), tip, base=base)


def check_description(description: str) -> None:
    """`ConfigurationError` for what is there and no URDF text, and would be taken for the name of a file."""
    if description and not description.lstrip().startswith("<"):
        raise ConfigurationError("robot_description is no URDF text", description)


class DescriptionTopic:
    """Subscribes for the life of the node; the executor's thread keeps the latest text, another thread waits for one.

    rclpy's `wait_for_message` would not do: where the executor spins at the same time, either of the two may take the
    message, and a latched one comes once.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._latest = ""
        self._closed = False
        self._changed = threading.Condition()
        self.name = node.create_subscription(String, "robot_description", self._take, LATCHED_QOS).topic_name

    def wait(self, timeout: float) -> str:
        """The latest text, once there is one.

        Raises
        ------
        ConfigurationError
            When none has come after `timeout` [s], or after `close`.
        """
        self._node.get_logger().info(f"waiting for {self.name}")
        with self._changed:
            self._changed.wait_for(lambda: self._latest or self._closed, timeout)
            if not self._latest:
                raise ConfigurationError(f"no URDF came on {self.name} within {timeout} s")
            return self._latest

    def close(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _take(self, message: String) -> None:
        with self._changed:
            self._latest = str(message.data)
            self._changed.notify_all()


def urdf_text(settings: RobotSettings, topic: DescriptionTopic | None) -> str:
    """Of the parameter robot_description, or of the topic where there is one; empty where neither gives any.

    Raises
    ------
    ConfigurationError
        As `DescriptionTopic.wait`.
    """
    return settings.robot_description if topic is None else topic.wait(settings.robot_description_timeout)
