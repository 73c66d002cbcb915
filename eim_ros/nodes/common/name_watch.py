"""Finds other live nodes with the same name: their services would answer the same requests, perhaps for another robot.

Every node publishes an identifier of its process on `~/instance` once per second, latched, so that a newcomer hears it
as soon as the middleware has matched the two. A message proves that its sender lives, unlike the graph of ROS, which
lists a killed process for some seconds more.
"""

from __future__ import annotations

import time
import uuid

from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from std_msgs.msg import String

from eim_ros.core.errors import ServiceError
from eim_ros.nodes.common.qos import LATCHED_QOS
from eim_ros.nodes.common.subscriptions import DrainedSubscription

_DISCOVERY = 0.5  # [s] that the middleware usually needs to match a new node with those that are there
_SILENCE = 3.0  # [s] without a message after which another node counts as dead; three periods
_PERIOD = 0.02  # [s] between two looks of a node that starts


class NameWatch:
    """Watches for other nodes with the name of a node; `announce` is to be called once per second.

    Parameters
    ----------
    node : Node
        Node whose name is watched; it need not be spun.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._instance = uuid.uuid4().hex
        self._state = ""
        self._heard: dict[str, float] = {}  # time of the last message of each other instance [s]
        self._created = time.monotonic()
        self._publisher = node.create_publisher(String, "~/instance", LATCHED_QOS)
        profile = QoSProfile(depth=100, durability=LATCHED_QOS.durability, reliability=LATCHED_QOS.reliability)
        self._subscription = DrainedSubscription(node, String, "~/instance", profile)

    def announce(self, state: str) -> None:
        """Publish the identifier and the state: "active", "starting", or anything else."""
        self._state = state
        self._publisher.publish(String(data=f"{self._instance} {state}"))

    def conflict(self) -> str:
        """A sentence if another node with this name is active; otherwise empty."""
        now = time.monotonic()
        for message in self._subscription.take():
            instance, _, state = deserialize_message(message, String).data.partition(" ")
            yields_to = state == "active" or (state == self._state == "starting" and instance < self._instance)
            if instance != self._instance and yields_to:
                self._heard[instance] = now
            else:
                self._heard.pop(instance, None)
        if all(heard < now - _SILENCE for heard in self._heard.values()):
            return ""
        return f"another live node is named {self._node.get_fully_qualified_name()}: give one of them another name"

    def check(self) -> None:
        """Raise `ServiceError` if another node with this name is active. A new node waits until it can know.

        If two nodes start at the same time, the one with the smaller identifier may become active.
        """
        self.announce("starting")
        while not (conflict := self.conflict()) and time.monotonic() < self._known_at():
            time.sleep(_PERIOD)
        if conflict:
            self.announce("")
            raise ServiceError(conflict, self._node.get_name())

    def _known_at(self) -> float:
        """When all live nodes with this name have been heard [s]; later if the graph lists one that is silent."""
        name = self._node.get_fully_qualified_name()
        listed = [f"{space.rstrip('/')}/{name}" for name, space in self._node.get_node_names_and_namespaces()]
        return self._created + (_DISCOVERY if listed.count(name) < 2 else _SILENCE)
