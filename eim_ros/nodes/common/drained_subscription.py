"""A subscription whose messages are taken all at once when somebody needs them.

The executor of rclpy spends about a tenth of a millisecond on each message, whoever needs it: topics at 1 kHz, as
transforms and joint states are, would keep an idle node busy. So this one is kept out of its wait set, by a callback
group that never lets it in; the middleware keeps the messages.
"""

from __future__ import annotations

import threading
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile

__all__ = ["DrainedSubscription"]


class DrainedSubscription:
    """For several threads.

    Parameters
    ----------
    node : Node
    message_type : type
    topic : str
    qos_profile : QoSProfile
        Its depth is how many messages wait at most; older ones are lost.
    """

    def __init__(self, node: Node, message_type: Any, topic: str, qos_profile: QoSProfile) -> None:
        self._subscription = node.create_subscription(
            message_type, topic, _unexpected, qos_profile, callback_group=_Excluded(), raw=True
        )
        self._lock = threading.Lock()

    @property
    def topic(self) -> str:
        """Its full name."""
        return str(self._subscription.topic_name)

    @property
    def n_publishers(self) -> int:
        """How many publishers are known."""
        return int(self._subscription.get_publisher_count())

    def take(self) -> list[bytes]:
        """All messages that have come since, in their order, serialised."""
        subscription, taken = self._subscription, list[bytes]()
        with self._lock, subscription.handle:
            while len(taken) < subscription.qos_profile.depth:  # however fast they come, this ends
                message = subscription.handle.take_message(subscription.msg_type, subscription.raw)
                if message is None:
                    break
                taken.append(message[0])
        return taken


class _Excluded(CallbackGroup):
    """Never executed."""

    def can_execute(self, entity: Any) -> bool:
        return False

    def beginning_execution(self, entity: Any) -> bool:
        return False

    def ending_execution(self, entity: Any) -> None:
        return None


def _unexpected(message: Any) -> None:
    raise AssertionError("messages of this subscription are taken, not handed over")
