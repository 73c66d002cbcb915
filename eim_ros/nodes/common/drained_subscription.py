"""A subscription whose messages are taken all at once when somebody needs them.

The executor of rclpy spends about 0.1 ms on each message, even if nobody needs it: transforms and joint states at 1 kHz
cost an idle node a quarter of a core (`benchmarks/service_load.py topics`). This subscription belongs to a callback
group that never executes, so the executor does not wait for it, and the middleware keeps the messages.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSProfile

__all__ = ["DrainedSubscription"]


class DrainedSubscription:
    """A subscription of a node, for several threads.

    Parameters
    ----------
    node : Node
    message_type : type
    topic : str
    qos_profile : QoSProfile
        Its depth is the number of messages that wait at most; older ones are lost.
    """

    def __init__(self, node: Node, message_type: Any, topic: str, qos_profile: QoSProfile) -> None:
        self._node = node
        self._subscription = node.create_subscription(
            message_type,
            topic,
            _unexpected,
            qos_profile,
            callback_group=_NeverExecuted(),
            raw=True,
            # waiting for events would wake the executor for each message, too
            event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
        )
        self._lock = threading.Lock()

    @property
    def topic(self) -> str:
        """Full name of the topic."""
        return str(self._subscription.topic_name)

    @property
    def n_publishers(self) -> int:
        """Number of known publishers."""
        return int(self._subscription.get_publisher_count())

    def take(self) -> list[bytes]:
        """All messages that wait, serialised, in the order of their arrival."""
        return [data for data, _ in self.take_with_info(self._subscription.qos_profile.depth)]

    def take_with_info(self, most: int) -> list[tuple[bytes, Any]]:
        """At most so many messages, each with what the middleware knows about it."""
        subscription, taken = self._subscription, list[tuple[bytes, Any]]()
        with self._lock, subscription.handle:
            while len(taken) < most:  # ends even if messages come faster than they are taken
                message = subscription.handle.take_message(subscription.msg_type, True)
                if message is None:
                    break
                taken.append(message)
        return taken

    def destroy(self) -> None:
        """End the subscription."""
        with contextlib.suppress(Exception):  # the context is being shut down
            self._node.destroy_subscription(self._subscription)


class _NeverExecuted(ReentrantCallbackGroup):
    def can_execute(self, entity: Any) -> bool:
        return False


def _unexpected(message: Any) -> None:
    raise AssertionError("messages of this subscription are taken, not handed over")
