"""A wait for a node that becomes active."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import rclpy
from lifecycle_msgs.srv import GetState
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from eim_ros.nodes import wait_until_active


def active(request: GetState.Request, response: GetState.Response) -> GetState.Response:
    response.current_state.label = "active"
    return response


@pytest.fixture
def nodes(ros_environment: None) -> Iterator[list[Node]]:
    """One that waits, and one that is active."""
    made = [rclpy.create_node(name) for name in ("waiting_node", "active_node")]
    made[1].create_service(GetState, "~/get_state", active)
    yield made
    for node in made:
        node.destroy_node()


@pytest.mark.parametrize("is_in_one", [True, False])
def test_node_is_afterwards_in_the_executor_in_which_it_was(nodes: list[Node], is_in_one: bool) -> None:
    waiting, served = nodes
    own, other = SingleThreadedExecutor(), SingleThreadedExecutor()
    other.add_node(served)
    if is_in_one:
        own.add_node(waiting)
    wait_until_active(waiting, "/active_node", wait=60.0, executor=other)
    assert own.get_nodes() == ([waiting] if is_in_one else [])
    assert other.get_nodes() == [served]
    if is_in_one:
        spin(own, waiting)
    for executor in (own, other):
        executor.shutdown()


def spin(executor: SingleThreadedExecutor, node: Node) -> None:
    """Spin until the executor has run a timer of the node."""
    ticks: list[int] = []
    timer = node.create_timer(0.001, lambda: ticks.append(1))
    end = time.monotonic() + 60.0
    while not ticks:
        assert time.monotonic() < end
        executor.spin_once(0.1)
    node.destroy_timer(timer)
