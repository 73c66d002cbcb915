"""Client for the topics of the planar robot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import PoseStamped
from nodes.client_node import ClientNode
from nodes.server_process import ServerProcess
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory
from visualization_msgs.msg import MarkerArray

from eim_ros.msg import TaskStatus

DEPTH = QoSProfile(depth=20_000)  # 100 s of joint states, because this process may wait for another one to start


class PlanarRobot:
    """Client that stores the messages of a simulator and sends trajectories to the simulator."""

    def __init__(self, client: ClientNode, server: ServerProcess, namespace: str) -> None:
        self.server, self._client = server, client
        node, simulator = client.node, f"{namespace}/planar_simulator"
        self.states: list[JointState] = []
        self.tips: list[PoseStamped] = []
        self.statuses: list[TaskStatus] = []
        self.markers: list[MarkerArray] = []
        self.refusals: list[str] = []
        self._own = [
            _all_of(node, JointState, f"{namespace}/joint_states", self.states),
            _all_of(node, PoseStamped, f"{namespace}/tip_pose", self.tips),
            _all_of(node, TaskStatus, f"{simulator}/status", self.statuses),
            node.create_subscription(MarkerArray, f"{simulator}/markers", self.markers.append, 10),
            node.create_subscription(
                String, f"{simulator}/refused", lambda message: self.refusals.append(message.data), 10
            ),
        ]
        self._publisher = node.create_publisher(JointTrajectory, f"{namespace}/joint_trajectory", 10)

    def close(self) -> None:
        for subscription in self._own:
            self._client.node.destroy_subscription(subscription)
        self._client.node.destroy_publisher(self._publisher)

    def hear(self, condition: Callable[[], Any], what: str, timeout: float = 60.0) -> None:
        self._client.hear(self.server, condition, what, timeout)

    def send(self, message: JointTrajectory) -> None:
        """Publish a trajectory as soon as the simulator has subscribed."""
        self.hear(lambda: self._publisher.get_subscription_count() > 0, "subscription to joint_trajectory")
        self._publisher.publish(message)

    def hear_new(self, wanted: Callable[[TaskStatus], bool], what: str) -> TaskStatus:
        """Return the first new status that meets a condition."""
        self.statuses.clear()
        self.hear(lambda: any(wanted(message) for message in self.statuses), what)
        return next(message for message in self.statuses if wanted(message))


def _all_of(node: Node, kind: type, topic: str, kept: list[Any]) -> Subscription:
    """Store every message. Each callback takes all waiting messages, because 400 callbacks/s would overload a core."""

    def take(message: Any) -> None:
        kept.append(message)
        while (taken := subscription.handle.take_message(kind, False)) is not None:
            kept.append(taken[0])

    subscription = node.create_subscription(kind, topic, take, DEPTH)
    return subscription
