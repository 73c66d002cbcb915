"""Lifecycle transitions on a thread of their own, one after the other: the executor's thread answers meanwhile.

rclpy makes a transition in the handler of `~/change_state`, which keeps the executor's thread for as long as a model is
loaded; nobody would learn then what the node is doing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.task import Future

from eim_ros.nodes.common.reasons import reason_of
from eim_ros.nodes.common.service import Exchange, RequestPool, defer, send

__all__ = ["Transitions", "started"]

_MOST_WAITING = 10  # transitions that may wait for the one that is made


def started(node: LifecycleNode) -> bool:
    """Configure and activate a node; False, with the reason in the log, where one of them fails."""
    try:
        triggers = (node.trigger_configure, node.trigger_activate)
        success = all(trigger() == TransitionCallbackReturn.SUCCESS for trigger in triggers)
    except Exception as error:
        node.get_logger().error(f"cannot start: {reason_of(error)}")
        return False
    if success:
        node.get_logger().info("serving")
    return success


class _Job(NamedTuple):
    make: Callable[[], None]
    give_up: Callable[[], None]


class Transitions:
    """Takes `~/change_state` of a lifecycle node from the executor's thread.

    Parameters
    ----------
    node : LifecycleNode
        Whose transitions they are.
    """

    def __init__(self, node: LifecycleNode) -> None:
        self._node = node
        self._pool: RequestPool[_Job] = RequestPool(
            lambda job: job.make(), lambda job: job.give_up(), n_threads=1, size=_MOST_WAITING
        )
        service = node._service_change_state
        defer(service, partial(self._receive, service.callback))

    def start(self) -> Future:
        """Configure and activate; the future will tell whether both succeeded."""
        future = Future()
        self._pool.offer(_Job(lambda: future.set_result(started(self._node)), partial(future.set_result, False)))
        return future

    def close(self, timeout: float) -> bool:
        """Make no more; False when one still goes on after `timeout` [s]."""
        return self._pool.close(timeout)

    def _receive(self, change: Callable[[Any, Any], Any], exchange: Exchange) -> None:
        """On the executor's thread: queue the wish; refused, as nothing has changed, where too many wait."""
        refuse = partial(send, exchange, self._node)  # as it is: without success
        if self._pool.offer(_Job(partial(self._change, change, exchange), refuse)) is None:
            refuse()

    def _change(self, change: Callable[[Any, Any], Any], exchange: Exchange) -> None:
        """On the transitions' thread: make one, by rclpy's own handler."""
        try:
            change(exchange.request, exchange.response)
        except Exception as error:
            self._node.get_logger().error(f"a transition failed: {reason_of(error)}")
        send(exchange, self._node)
