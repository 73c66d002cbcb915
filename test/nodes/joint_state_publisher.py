"""Publisher of joint states in this process, for nodes that record or collect joint states."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from nodes.client_node import ClientNode
from nodes.server_process import ServerProcess, wait_until
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState


class Robot:
    """Robot that publishes joint states to a node."""

    def __init__(
        self, client: ClientNode, server: ServerProcess, topic: str, names: Sequence[str], reliable: bool = True
    ) -> None:
        reliability = ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT
        self._client, self._server, self._names = client, server, list(names)
        self._publisher = client.node.create_publisher(
            JointState,
            topic,
            QoSProfile(depth=1000, reliability=reliability),
            # rclpy deprecates a call of the default callbacks
            event_callbacks=PublisherEventCallbacks(use_default_callbacks=False),
        )

    def publish(self, *positions: float) -> None:
        message = JointState(name=self._names, position=[float(value) for value in positions])
        message.header.stamp = self._client.node.get_clock().now().to_msg()
        self._publisher.publish(message)

    def publish_while_stopped(self, n_states: int) -> None:
        """Stop the process of the node, publish joint states that are 1e-4 apart, and continue the process."""
        self._server.signal(signal.SIGSTOP)
        for i in range(n_states):
            self.publish(*[1e-4 * i] * len(self._names))
        self._server.signal(signal.SIGCONT)

    def wait_for_listener(self) -> None:
        wait_until(lambda: self._publisher.get_subscription_count() > 0, "subscription", self._server)

    def wait_for_no_listener(self) -> None:
        """Wait until this process knows that a subscription has ended, and cannot mistake it for the next one."""
        wait_until(lambda: self._publisher.get_subscription_count() == 0, "end of the subscription", self._server)

    def destroy(self) -> None:
        self._client.node.destroy_publisher(self._publisher)
