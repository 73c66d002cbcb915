"""Listens to MoveIt's planning scene, and asks move_group for the whole of it once: only differences may follow."""

from __future__ import annotations

from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from eim_ros.errors import ConfigurationError
from eim_ros.kinematics import Robot
from eim_ros.kinematics.attachments import fixed_links
from eim_ros.nodes.common.interfaces import MoveItGetPlanningScene, MoveItPlanningScene
from eim_ros.nodes.ik_server.planning_scene import PlanningSceneObjects

__all__ = ["PlanningSceneTopic"]

_DEPTH = 100  # as many differences may wait as move_group keeps
_PERIOD = 1.0  # [s] between two looks for move_group
WORLD_NAMES, WORLD_GEOMETRY, OCTOMAP = 8, 16, 32  # of PlanningSceneComponents


class PlanningSceneTopic:
    """The obstacles of a planning scene.

    Parameters
    ----------
    node : Node
    topic : str
        Of `moveit_msgs/PlanningScene`; the whole scene is asked for by `get_planning_scene` beside it.
    robot : Robot
        In whose base frame obstacles are.

    Raises
    ------
    ConfigurationError
        Where there is no moveit_msgs.
    """

    def __init__(self, node: Node, topic: str, robot: Robot) -> None:
        if MoveItPlanningScene is None:
            raise ConfigurationError(
                "planning_scene_topic needs moveit_msgs, which cannot be imported: source a workspace with MoveIt",
                topic,
            )
        self._node = node
        self.objects = PlanningSceneObjects(fixed_links(robot, robot.base_link))
        qos = QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.RELIABLE)
        self._subscription = node.create_subscription(MoveItPlanningScene, topic, self.objects.update, qos)
        service = f"{topic.rpartition('/')[0]}/get_planning_scene" if "/" in topic else "get_planning_scene"
        self._client = node.create_client(MoveItGetPlanningScene, service)
        self._timer = node.create_timer(_PERIOD, self._ask)

    def close(self) -> None:
        """Listen no more."""
        self._node.destroy_timer(self._timer)
        self._node.destroy_client(self._client)
        self._node.destroy_subscription(self._subscription)

    def _ask(self) -> None:
        if self._client.service_is_ready():
            self._timer.cancel()
            request = MoveItGetPlanningScene.Request()
            request.components.components = WORLD_NAMES | WORLD_GEOMETRY | OCTOMAP
            self._client.call_async(request).add_done_callback(self._take)

    def _take(self, future: Any) -> None:
        if future.exception() is None and future.result() is not None:
            self.objects.update(future.result().scene)
