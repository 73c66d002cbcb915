"""An action server whose answers to goals, requests for results and cancellations reach clients not discovered yet.

rclpy sends them by methods of the compiled handle that an `ActionServer` makes for itself, and has no way to be given
another. So the class of that handle is replaced while it is made, the only place where this package does so; the
handle is a true one, whose three methods of sending go through `send_to_undiscovered`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from rclpy.action import ActionServer
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node

from eim_ros.nodes.common.undiscovered_client import send_to_undiscovered, watch_for_undiscovered

__all__ = ["create_action_server"]


def create_action_server(node: Node, action_type: Any, name: str, **given: Any) -> ActionServer:
    """An action server of a node; `given` is what `ActionServer` takes beside these."""
    watch_for_undiscovered()
    with _handles_of(_InsistingHandle):
        server = ActionServer(node, action_type, name, **given)
    server._handle.lock = server._lock
    return server


@contextlib.contextmanager
def _handles_of(kind: type) -> Iterator[None]:
    module: Any = rclpy_implementation
    original = module.ActionServer
    module.ActionServer = kind
    try:
        yield
    finally:
        module.ActionServer = original


class _InsistingHandle(rclpy_implementation.ActionServer):
    """`lock` is that of the action server, which it holds while it calls these."""

    lock: threading.Lock

    def send_goal_response(self, *header_and_response: Any) -> None:
        self._insist(super().send_goal_response, header_and_response)

    def send_result_response(self, *header_and_response: Any) -> None:
        self._insist(super().send_result_response, header_and_response)

    def send_cancel_response(self, *header_and_response: Any) -> None:
        self._insist(super().send_cancel_response, header_and_response)

    def _insist(self, send: Callable[..., None], header_and_response: tuple[Any, ...]) -> None:
        def send_locked() -> None:
            with self.lock:
                send(*header_and_response)

        send_to_undiscovered(lambda: send(*header_and_response), send_locked)
