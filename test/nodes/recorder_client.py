"""Calls of the nodes that record and collect, and joint states for them from this process."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import Any

from nodes.client_node import ClientNode
from nodes.server_process import ServerProcess, wait_until
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger


class Robot:
    """Publishes joint states of this process, numbered by their first position."""

    def __init__(self, client: ClientNode, topic: str, names: Sequence[str], reliable: bool = True) -> None:
        reliability = ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT
        self._client, self._names = client, list(names)
        self._publisher = client.node.create_publisher(
            JointState,
            topic,
            QoSProfile(depth=1000, reliability=reliability),
            # the default one logs in a way that rclpy itself deprecates
            event_callbacks=PublisherEventCallbacks(use_default_callbacks=False),
        )

    def publish(self, positions: Sequence[float]) -> None:
        message = JointState(name=self._names, position=[float(value) for value in positions])
        message.header.stamp = self._client.node.get_clock().now().to_msg()
        self._publisher.publish(message)

    def publish_while_stopped(self, server: ServerProcess, n_states: int) -> None:
        """Publish joint states, 1e-4 apart, while the process of the server does not run."""
        server.signal(signal.SIGSTOP)
        for i in range(n_states):
            self.publish([1e-4 * i] * len(self._names))
        server.signal(signal.SIGCONT)

    def wait_for_listener(self, server: ServerProcess) -> None:
        wait_until(lambda: self._publisher.get_subscription_count() > 0, "subscription", server)

    def wait_for_no_listener(self, server: ServerProcess) -> None:
        """Until a subscription that was ended is forgotten here, too: it would be taken for the next one."""
        wait_until(lambda: self._publisher.get_subscription_count() == 0, "end of the subscription", server)

    def destroy(self) -> None:
        self._client.node.destroy_publisher(self._publisher)


def trigger(client: ClientNode, server: ServerProcess, service: str) -> Any:
    return client.call(server, Trigger, service, Trigger.Request())


def status(
    client: ClientNode, server: ServerProcess, kind: type, topic: str, wanted: Callable[[Any], bool], what: str
) -> Any:
    """The next status message that is as wanted."""
    found: list[Any] = []

    def keep(message: Any) -> None:
        if wanted(message):
            found.append(message)

    subscription = client.node.create_subscription(kind, topic, keep, 10)

    def seen() -> bool:
        client.executor.spin_once(0.1)
        return bool(found)

    wait_until(seen, what, server)
    client.node.destroy_subscription(subscription)
    return found[0]
