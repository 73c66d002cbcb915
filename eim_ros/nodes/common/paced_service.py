"""A service whose handler answers at once, and whose answers are paced so that ordinary clients lose none.

    pacer = create_paced_service(node, SampleMotion, "~/sample_motion", handle)
    ...
    pacer.close()                   # before the node is destroyed: sends what was held back

What is promised to clients: see `unread_answers`. Who answers on other threads uses `create_deferred_service` and a
`ResponsePacer` itself, as `ik_server` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node

from eim_ros.nodes.common.deferred_service import Exchange, create_deferred_service, send
from eim_ros.nodes.common.qos import SERVICE_QOS
from eim_ros.nodes.common.response_pacer import ResponsePacer

__all__ = ["create_paced_service"]


def create_paced_service(node: Node, service_type: Any, name: str, handle: Callable[[Any, Any], Any]) -> ResponsePacer:
    """Create a service of the node, and what paces its answers; to be closed before the node is destroyed.

    Parameters
    ----------
    node : Node
    service_type : type
    name : str
        Of the service.
    handle : callable
        As of any service of rclpy: called with request and response on the executor's thread, returns the response. It
        must not raise.
    """
    pacer = ResponsePacer(lambda exchange: send(exchange, node))

    def receive(exchange: Exchange) -> None:
        pacer.expect(exchange)
        exchange.response = handle(exchange.request, exchange.response)
        pacer.post(exchange)

    create_deferred_service(node, service_type, name, receive, SERVICE_QOS)
    return pacer
