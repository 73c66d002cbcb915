"""A service whose answers are sent later, from another thread: the one place that reaches into a service of rclpy.

rclpy has no supported way to do so. It sends whatever the handler returns as soon as it returns; awaiting a future in a
handler keeps its executor busy polling, and a thread per waiting request costs a pool as deep as the queue.
`Node.create_service` takes no class of one's own, and `~/change_state` of a lifecycle node is made by rclpy. So `defer`
replaces two attributes of one service, which the single- and multi-threaded executors use (Humble to Rolling):
`callback`, which only wraps the request into an `Exchange`, and `send_response`, called with the callback's result and
the header that names the client, which hands both on. It then takes whatever else has arrived, which the executor would
do one by one between looks at everything else: a burst of requests is known to be one before it is answered.

Where a handler may answer at once, as those of states and parameters that rclpy makes, `insist` replaces the latter
alone, so that a client that the server has not discovered yet gets its answer, too.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.service import Service

from eim_ros.nodes.common.reasons import reason_of
from eim_ros.nodes.common.undiscovered_client import send_to_undiscovered, watch_for_undiscovered

__all__ = ["Exchange", "create_deferred_service", "defer", "insist", "send"]


@dataclasses.dataclass
class Exchange:
    """One request and its answer; `send` must be called exactly once. Times [s] are of `time.monotonic`."""

    request: Any
    response: Any
    arrival: float
    send: Callable[[], None]
    received: float = -math.inf  # by the middleware, before `arrival` where requests had to wait for being read
    number: int = 1  # the how many-th request of its client
    deadline: float = math.inf  # when the client stops waiting


def create_deferred_service(
    node: Node, service_type: Any, name: str, receive: Callable[[Exchange], None], qos_profile: QoSProfile
) -> None:
    """Create a service of the node and `defer` its answers."""
    defer(node.create_service(service_type, name, _unanswered, qos_profile=qos_profile), receive)


def defer(service: Service, receive: Callable[[Exchange], None]) -> None:
    """Have a service call `receive` on the executor's thread for each request, in place of its handler; see the module.

    `receive` must neither block nor raise; it, or whomever it passes the exchange on to, fills the response and sends.
    """

    def wrap(request: Any, response: Any) -> Exchange:
        return Exchange(request, response, time.monotonic(), _unsent)

    watch_for_undiscovered()
    service_type, depth = service.srv_type, service.qos_profile.depth
    send_now = service.send_response
    lock = threading.Lock()  # rcl does not promise that two threads may send through one service

    def hand_on(exchange: Exchange, header: Any) -> None:
        def send() -> None:
            with lock:
                send_now(exchange.response, header)

        exchange.send = lambda: send_to_undiscovered(send)
        exchange.received = exchange.arrival - _unread_time(header)
        exchange.number = int(header.request_id.sequence_number)
        receive(exchange)

    def receive_all(exchange: Exchange, header: Any) -> None:
        taken = [(exchange, header)]  # all, before the first one wakes a thread that competes for the interpreter
        while len(taken) < depth:
            with service.handle:
                request, header = service.handle.service_take_request(service_type.Request)
            if header is None:
                break
            taken.append((wrap(request, service_type.Response()), header))
        for each in taken:
            hand_on(*each)

    service.callback, service.send_response = wrap, receive_all


def insist(service: Service) -> None:
    """Have a service send its answers again while their clients are not known, unless they are deferred anyway."""
    if "send_response" in vars(service):
        return
    watch_for_undiscovered()
    send_now, lock = service.send_response, threading.Lock()

    def send_locked(response: Any, header: Any) -> None:
        with lock:
            send_now(response, header)

    service.send_response = lambda response, header: send_to_undiscovered(lambda: send_locked(response, header))


def send(exchange: Exchange, node: Node) -> None:
    """Send an answer from a thread that must go on where that fails, as it does while the context is shut down."""
    try:
        exchange.send()
    except Exception as error:
        node.get_logger().error(f"an answer could not be sent: {reason_of(error)}")


def _unread_time(header: Any) -> float:
    """Time [s] since the middleware received the request; 0 where it does not tell."""
    return max(0.0, time.time() - 1e-9 * header.received_timestamp) if header.received_timestamp else 0.0


def _unanswered(request: Any, response: Any) -> Any:
    raise AssertionError("the answers of this service are deferred")


def _unsent() -> None:
    raise AssertionError("the executor did not hand over the header of this request")
