"""Detection of other live nodes with the same name.

Two nodes with the same name would respond to the same requests, perhaps for different robots. Therefore, every node
publishes an identifier of its process on `~/instance` once per second. The topic is latched. A new node thus receives
the identifier as soon as the middleware has matched the two nodes. A message proves that its sender is alive. The ROS
graph is not a proof, because it lists a killed process for several seconds.

On a busy machine, the middleware may match two nodes only after the new node has become active. The new node ends in
this case. Nodes that have been active for longer than a few seconds do not end, because their arm may be moving. Such
nodes can conflict if two networks are connected.
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

_DISCOVERY = 0.5  # [s] time in which the middleware usually matches a new node with other nodes
_SILENCE = 3.0  # [s] three publishing periods; a node without a message for this time counts as dead
_PERIOD = 0.02  # [s] polling period of a node that is starting
_NEW = 10.0  # [s] a node that became active within this time ends if another node was active earlier


class NameWatch:
    """Watcher for other nodes with the same name. The node must call `announce` once per second.

    The watcher works even if the node is not spun.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._instance = uuid.uuid4().hex
        self._state = ""
        self._heard: dict[str, float] = {}  # time of the last message of each other instance [s]
        self._active_since = 0.0  # [s since 1970]; 0: not active
        self._earlier: set[str] = set()  # other instances that were active before this instance
        self._created = time.monotonic()
        self._publisher = node.create_publisher(String, "~/instance", LATCHED_QOS)
        profile = QoSProfile(depth=100, durability=LATCHED_QOS.durability, reliability=LATCHED_QOS.reliability)
        self._subscription = DrainedSubscription(node, String, "~/instance", profile)

    def announce(self, state: str) -> None:
        """Publish the identifier and a state. Other nodes react only to "active" and "starting"."""
        if state != "active":
            self._active_since = 0.0
        elif self._state != "active":
            self._active_since = time.time()
        self._state = state
        self._publisher.publish(String(data=f"{self._instance} {self._active_since!r} {state}"))

    def conflict(self) -> str:
        """Return an error message if another node with this name is active, otherwise an empty text."""
        now = time.monotonic()
        for message in self._subscription.take():
            instance, since, state = deserialize_message(message, String).data.split(" ", 2)
            yields_to = state == "active" or (state == self._state == "starting" and instance < self._instance)
            if instance != self._instance and yields_to:
                self._heard[instance] = now
            else:
                self._heard.pop(instance, None)
            if state == "active" and (float(since), instance) < (self._active_since, self._instance):
                self._earlier.add(instance)
            else:
                self._earlier.discard(instance)
        if all(heard < now - _SILENCE for heard in self._heard.values()):
            return ""
        return f"another running node is also named {self._node.get_fully_qualified_name()}: rename one of them"

    def must_end(self) -> bool:
        """Return whether this node must end, because another node was already active when it became active."""
        is_new = self._active_since > time.time() - _NEW
        return is_new and bool(self.conflict()) and not self._earlier.isdisjoint(self._heard)

    def check(self) -> None:
        """Raise `ServiceError` if another node with this name is active.

        A new node waits until discovery has had time to find other nodes. If two nodes start at the same time, the node
        with the smaller identifier may become active.
        """
        self.announce("starting")
        while not (conflict := self.conflict()) and time.monotonic() < self._known_at():
            time.sleep(_PERIOD)
        if conflict:
            self.announce("")
            raise ServiceError(conflict, self._node.get_name())

    def _known_at(self) -> float:
        """Return the latest time [s] of the first message of a running node with this name.

        The time is later if the graph lists another node with this name, because that node may be slow or dead.
        """
        name = self._node.get_fully_qualified_name()
        listed = [f"{space.rstrip('/')}/{name}" for name, space in self._node.get_node_names_and_namespaces()]
        return self._created + (_DISCOVERY if listed.count(name) < 2 else _SILENCE)
