"""Subscriptions without a callback. Messages wait in the middleware until the node takes all of them at once.

The executor of rclpy spends about 0.1 ms on each message, even if the node does not need it. Transforms and joint
states at 1 kHz would use a quarter of a core in an idle node (`benchmarks/service_load.py topics`).
`DrainedSubscription` belongs to a callback group that never executes. Therefore, the executor does not wake up for its
messages.

`RawSubscription` is based on `DrainedSubscription`, and accepts a topic of any type. This subscription returns
serialised messages with their times of arrival, and counts lost messages. The subscription is reliable if all
publishers are reliable. In a test with bursts of 1000 joint states, a best-effort subscription lost hundreds of
messages.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.duration import Duration
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    QoSCompatibility,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
)
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

from eim_ros.bags.writer import Topic
from eim_ros.core.errors import ConfigurationError


class DrainedSubscription:
    """Thread-safe subscription that takes messages from the middleware on request.

    The depth of the QoS is the maximum number of waiting messages. If more messages arrive, the oldest ones are lost.
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
            # event callbacks would wake the executor for each message
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
        """Take all waiting messages in order of arrival, in serialised form."""
        return [data for data, _ in self.take_with_info(self._subscription.qos_profile.depth)]

    def take_with_info(self, most: int) -> list[tuple[bytes, Any]]:
        """Take at most `most` messages, each with the information of the middleware."""
        subscription, taken = self._subscription, list[tuple[bytes, Any]]()
        with self._lock, subscription.handle:
            while len(taken) < most:  # ends even if messages arrive faster
                message = subscription.handle.take_message(subscription.msg_type, True)
                if message is None:
                    break
                taken.append(message)
        return taken

    def destroy(self) -> None:
        """End the subscription."""
        with contextlib.suppress(Exception):  # fails if the context is being shut down
            self._node.destroy_subscription(self._subscription)


class _NeverExecuted(ReentrantCallbackGroup):
    def can_execute(self, entity: Any) -> bool:
        return False


def _unexpected(message: Any) -> None:
    raise AssertionError("messages of this subscription are read by `take`, not by a callback")


def topic_of(node: Node, name: str) -> Topic | None:
    """Return the type of a topic and the QoS of its publishers, or None while the topic has no publisher.

    `ConfigurationError` is raised if the publishers have different types.
    """
    publishers = node.get_publishers_info_by_topic(name)
    types = {publisher.topic_type for publisher in publishers}
    if not types:
        return None
    if len(types) > 1:
        raise ConfigurationError(
            f"topic {name} has publishers of several types ({', '.join(sorted(types))}); stop the publishers of all "
            "types except one",
            name,
        )
    offered = tuple(dict.fromkeys(_offered(publisher.qos_profile) for publisher in publishers))
    return Topic(name, types.pop(), qos=offered)


class RawSubscription:
    """Subscription to a topic of any type, with a deep queue and a QoS that matches the publishers.

    `topic` is a result of `topic_of`, and `depth` is the length of the queue. The constructor raises
    `ConfigurationError` if the message type is not installed.
    """

    def __init__(self, node: Node, topic: Topic, depth: int) -> None:
        self._node = node
        self.topic = topic
        self.n_lost = 0
        self._profile = _requested(topic.qos, depth)
        self._newest: dict[bytes, int] = {}  # sequence number of the last message of each publisher
        self._subscription = DrainedSubscription(node, _message_class(topic.type), topic.name, self._profile)

    def take(self, most: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield the arrival time [ns], publication time [ns] and content of at most `most` waiting messages."""
        for data, info in self._subscription.take_with_info(most):
            self._count_lost(info)
            yield info["received_timestamp"] or time.time_ns(), info["source_timestamp"] or 0, data

    @property
    def unheard(self) -> str:
        """Message about publishers with an incompatible QoS; empty without such publishers.

        Their messages do not arrive. A publisher is incompatible if it has a weaker QoS and appears after the
        subscription.
        """
        publishers = self._node.get_publishers_info_by_topic(self.topic.name)
        weaker = [
            publisher.node_name
            for publisher in publishers
            if qos_check_compatible(publisher.qos_profile, self._profile)[0] == QoSCompatibility.ERROR
        ]
        if not weaker:
            return ""
        return (
            f"{', '.join(weaker)} has a new publisher with a weaker quality of service, whose messages are not recorded"
        )

    def destroy(self) -> None:
        """End the subscription."""
        self._subscription.destroy()

    def _count_lost(self, info: Any) -> None:
        """Count messages that are missing in the sequence numbers of a publisher."""
        number, publisher = info["publication_sequence_number"], info["publisher_gid"]["data"]
        if number is None:
            return
        before = self._newest.get(publisher)
        if before is not None and number > before + 1:
            self.n_lost += number - before - 1
        self._newest[publisher] = number


def _message_class(name: str) -> Any:
    package, _, kind = name.partition("/msg/")
    try:
        return getattr(importlib.import_module(f"{package}.msg"), kind)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"the message type {name} is not installed: source a workspace with it ({error})", name
        ) from error


def _requested(offered: tuple[Qos, ...], depth: int) -> QoSProfile:
    """Return the strongest QoS that all publishers offer."""
    reliable = all(qos.reliability == QosReliability.RELIABLE for qos in offered)
    latched = all(qos.durability == QosDurability.TRANSIENT_LOCAL for qos in offered)
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def _offered(profile: QoSProfile) -> Qos:
    """Convert a QoS profile to the type of rosbags. Both use the same enumeration values."""
    return Qos(
        QosHistory(int(profile.history)),
        profile.depth,
        QosReliability(int(profile.reliability)),
        QosDurability(int(profile.durability)),
        _time(profile.deadline),
        _time(profile.lifespan),
        QosLiveliness(int(profile.liveliness)),
        _time(profile.liveliness_lease_duration),
        profile.avoid_ros_namespace_conventions,
    )


def _time(duration: Duration) -> QosTime:
    return QosTime(*divmod(duration.nanoseconds, 1_000_000_000))
