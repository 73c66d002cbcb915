"""Waiting for a lifecycle node that loads its model before it serves.

    client.wait_for_service()
    wait_until_active(node, "/ik_server", wait=60.0)

Its services are there from the start, so that they can say what the node is doing; they serve once it is active.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import rclpy
from lifecycle_msgs.srv import GetState
from rclpy.client import Client
from rclpy.executors import Executor
from rclpy.node import Node

from eim_ros.errors import ServiceError

__all__ = ["Watch", "ignore", "wait_until_active"]

Watch = Callable[[str, float], None]
"""Called again and again with the state that is told (empty: none yet) and the time that has passed [s]."""

_PERIOD = 0.05  # [s] between two looks
_ANSWERED_WITHIN = 1.0  # [s]; a node that is not overloaded answers at once
_CURES = {
    "unconfigured": ": configure and activate it, for example with 'ros2 lifecycle set'",
    "inactive": ": activate it, for example with 'ros2 lifecycle set'",
}


def ignore(state: str, elapsed: float) -> None:
    """The `Watch` that does nothing."""


def wait_until_active(
    node: Node, server: str, wait: float = 5.0, watch: Watch = ignore, executor: Executor | None = None
) -> None:
    """Until a lifecycle node is active.

    Parameters
    ----------
    node : Node
        Node of the caller, which is spun meanwhile.
    server : str
        Full name of the node that is waited for.
    wait : float
        Longest time to wait [s]; may be infinite.
    watch : callable
        Called meanwhile; what it raises ends the wait.
    executor : Executor, optional
        Spins the caller's node; by default rclpy's global one.

    Raises
    ------
    ServiceError
        When the node is not active in time, or can no longer become so; with its state.
    """
    client = node.create_client(GetState, f"{server}/get_state")
    began = time.monotonic()
    try:
        while (state := _state(client, node, executor)) != "active":
            elapsed = time.monotonic() - began
            if state == "finalized" or elapsed >= wait:
                told = f"{state}, not active," if state else "silent"
                raise ServiceError(f"{server} is {told} after {elapsed:.1f} s{_CURES.get(state, '')}", state)
            watch(state, elapsed)
            time.sleep(_PERIOD)
    finally:
        node.destroy_client(client)


def _state(client: Client, node: Node, executor: Executor | None) -> str:
    """What the node says of itself; empty when it says nothing."""
    if not client.service_is_ready():
        return ""
    future = client.call_async(GetState.Request())
    rclpy.spin_until_future_complete(node, future, executor, _ANSWERED_WITHIN)
    if future.done():
        return str(future.result().current_state.label)
    client.remove_pending_request(future)
    return ""
