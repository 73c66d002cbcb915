"""Callbacks that end neither the spin nor a client's patience, whatever the work in them raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rclpy.node import Node

from eim_ros.errors import EimError
from eim_ros.nodes.common.reasons import reason_of

if TYPE_CHECKING:
    from eim_ros.nodes.common.managed_node import ManagedNode

__all__ = ["answered", "guarded"]


def guarded(node: Node, work: Callable[..., None]) -> Callable[..., None]:
    """A callback for timers and topics that logs what the work raises."""

    def callback(*arguments: Any) -> None:
        try:
            work(*arguments)
        except EimError as error:  # what others sent
            node.get_logger().warning(reason_of(error), throttle_duration_sec=1.0)
        except Exception as error:  # nothing ends the spin
            node.get_logger().error(reason_of(error), throttle_duration_sec=1.0)

    return callback


def answered(
    node: ManagedNode, serve: Callable[[Any, Any], None], then: Callable[[], None] | None = None
) -> Callable[[Any, Any], Any]:
    """A service callback that answers in every case, where the response has `success` and `message`.

    Parameters
    ----------
    node : ManagedNode
        Refuses while it is not active, and logs what was refused.
    serve : callable
        Called with request and response, which it fills; it has succeeded unless it raises, and what it raises becomes
        the response's message.
    then : callable, optional
        Called before the response is sent, for example to publish a status.
    """

    def callback(request: Any, response: Any) -> Any:
        try:
            node.check_active()
            serve(request, response)
            response.success = True
        except Exception as error:  # nothing ends the spin
            response.success, response.message = False, reason_of(error)
        if not response.success:
            node.get_logger().warning(response.message)
        if then is not None:
            guarded(node, then)()
        return response

    return callback
