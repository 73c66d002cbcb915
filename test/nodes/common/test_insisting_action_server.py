"""Answers of an action server to a client that it has not discovered yet are sent again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rclpy
from rclpy.action import ActionClient, CancelResponse
from rclpy.executors import SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from eim_ros.action import Train
from eim_ros.nodes.common import undiscovered_client
from eim_ros.nodes.common.insisting_action_server import create_action_server

UNRELIABLE = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)


@pytest.fixture
def node(ros_environment: None) -> Iterator[Node]:
    made = rclpy.create_node("late_goals")
    yield made
    made.destroy_node()


def execute(goal: Any) -> Any:
    goal.succeed()
    return Train.Result()


def spin_until(node: Node, is_so: Callable[[], object]) -> None:
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    end = time.monotonic() + 60.0
    while not is_so() and time.monotonic() < end:
        executor.spin_once(0.1)


@pytest.mark.parametrize("kind", ["goal", "cancel", "result"])
def test_answer_that_rclpy_would_drop_is_tried_again(node: Node, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A reader that demands more than the service offers is never matched, as one that is not discovered yet."""
    monkeypatch.setattr(undiscovered_client, "PAUSES", (0.01, 0.01))
    sent: list[bool] = []
    try_once = undiscovered_client._is_sent
    monkeypatch.setattr(undiscovered_client, "_is_sent", lambda send: sent.append(try_once(send)) or sent[-1])
    executed: list[bool] = []
    server = create_action_server(
        node,
        Train,
        "~/train",
        execute_callback=lambda goal: executed.append(True) or execute(goal),
        cancel_callback=lambda goal: CancelResponse.ACCEPT,
        **{f"{kind}_service_qos_profile": UNRELIABLE},
    )
    client = ActionClient(node, Train, "~/train")
    goal = client.send_goal_async(Train.Goal())
    if kind == "goal":
        spin_until(node, lambda: len(sent) >= 3 and executed)
        assert not goal.done()
        assert executed  # rclpy goes on with the goal, whose client will know
    else:
        spin_until(node, goal.done)
        goal.result().get_result_async() if kind == "result" else goal.result().cancel_goal_async()
        spin_until(node, lambda: sent.count(False) >= 3)
    assert sent.count(False) >= 3
    server.destroy()
    client.destroy()


def test_goals_are_answered(node: Node) -> None:
    server = create_action_server(node, Train, "~/train", execute_callback=execute)
    assert type(server._handle).__mro__[1] is rclpy_implementation.ActionServer  # which is what it was again
    client = ActionClient(node, Train, "~/train")
    goal = client.send_goal_async(Train.Goal())
    spin_until(node, goal.done)
    result = goal.result().get_result_async()
    spin_until(node, result.done)
    assert result.done()
    server.destroy()
    client.destroy()
