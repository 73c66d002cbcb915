"""An answer whose client is not discovered yet is sent again, and given up when it never is."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator

import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_srvs.srv import Trigger

from eim_ros.nodes.common import undiscovered_client
from eim_ros.nodes.common.deferred_service import Exchange, create_deferred_service, insist
from eim_ros.nodes.common.undiscovered_client import PAUSES, send_to_undiscovered, watch_for_undiscovered

UNRELIABLE = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)


@pytest.fixture
def node(ros_environment: None) -> Iterator[Node]:
    made = rclpy.create_node("late_answers")
    yield made
    made.destroy_node()


def test_answer_that_rclpy_would_drop_is_tried_again_and_then_given_up(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that demands more than the service offers is never matched, as one that is not discovered yet."""
    monkeypatch.setattr(undiscovered_client, "PAUSES", (0.01, 0.01))
    tries: list[float] = []

    def receive(exchange: Exchange) -> None:
        tries.append(time.monotonic())
        exchange.send()

    create_deferred_service(node, Trigger, "~/late", receive, UNRELIABLE)
    client = node.create_client(Trigger, "~/late")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    future = client.call_async(Trigger.Request())
    counted = _count(monkeypatch)
    end = time.monotonic() + 60.0
    while len(counted) < 3 and time.monotonic() < end:
        executor.spin_once(0.1)
        if not tries and not future.done() and client.service_is_ready():
            future = client.call_async(Trigger.Request())
    assert counted[:3] == [False, False, False]


def test_ordinary_answers_are_tried_again_too(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undiscovered_client, "PAUSES", (0.01, 0.01))
    service = node.create_service(Trigger, "~/plain", lambda _, response: response, qos_profile=UNRELIABLE)
    insist(service)
    client = node.create_client(Trigger, "~/plain")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    counted = _count(monkeypatch)
    end = time.monotonic() + 60.0
    while len(counted) < 3 and time.monotonic() < end:
        if not counted:
            client.call_async(Trigger.Request())
        executor.spin_once(0.1)
    assert counted[:3] == [False, False, False]


def test_a_deferred_service_stays_so(node: Node) -> None:
    create_deferred_service(node, Trigger, "~/deferred", lambda exchange: exchange.send(), UNRELIABLE)
    service = next(each for each in node.services if each.srv_name.endswith("/deferred"))
    before = service.send_response
    insist(service)
    assert service.send_response is before


def _count(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each try succeeded, from now on."""
    results: list[bool] = []
    is_sent = undiscovered_client._is_sent

    def counting(send: object) -> bool:
        results.append(is_sent(send))
        return results[-1]

    monkeypatch.setattr(undiscovered_client, "_is_sent", counting)
    return results


def test_answer_arrives_once_the_client_is_known() -> None:
    """The warning is raised by the interpreter as rclpy has it do."""
    watch_for_undiscovered()
    tries: list[int] = []

    def send() -> None:
        tries.append(len(tries))
        if len(tries) <= 2:
            ctypes.pythonapi.PyErr_WarnEx(
                ctypes.py_object(RuntimeWarning), b"failed to send response (timeout): client will not receive", 1
            )

    send_to_undiscovered(send)
    end = time.monotonic() + 60.0
    while len(tries) < 3 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(PAUSES[2])
    assert tries == [0, 1, 2]


def test_other_failures_are_raised() -> None:
    def send() -> None:
        raise ValueError("field")

    with pytest.raises(ValueError, match="field"):
        send_to_undiscovered(send)
