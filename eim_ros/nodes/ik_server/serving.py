"""The way of a request through `ik_server`: taken, queued, solved by a worker thread, its answer paced and counted.

The executor's thread only takes requests, so it is always there; whatever does not fit is answered BUSY, unsolved.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from rclpy.node import Node

from eim_ros.ik import ErrorCode, Sampler
from eim_ros.kinematics import Robot
from eim_ros.nodes.common.deferred_service import Exchange, create_deferred_service, send
from eim_ros.nodes.common.diagnostics import AnswerCounters
from eim_ros.nodes.common.qos import SERVICE_QOS
from eim_ros.nodes.common.reasons import reason_of
from eim_ros.nodes.common.request_queue import RequestQueue
from eim_ros.nodes.common.response_pacer import ResponsePacer
from eim_ros.nodes.ik_server.calls import CALLS, Prepared, outcome_of, refuse
from eim_ros.nodes.ik_server.fields import RequestError
from eim_ros.nodes.ik_server.settings import IkServerSettings

__all__ = ["Serving"]

Prepare: TypeAlias = Callable[[Any, Any, Robot, IkServerSettings], Prepared]
_Call: TypeAlias = tuple[Prepare, ResponsePacer, Exchange]


class Serving:
    """The services that need a sampler.

    Parameters
    ----------
    node : Node
        Which has them.
    settings : callable
        Returns the present values of the parameters.
    sampler : callable
        Returns the sampler that serves, or raises `RequestError` while there is none.
    """

    def __init__(self, node: Node, settings: Callable[[], IkServerSettings], sampler: Callable[[], Sampler]) -> None:
        self._node = node
        self._settings = settings
        self._sampler = sampler
        self._counters = AnswerCounters()
        self._pacers = {name: ResponsePacer(self._send) for name in CALLS}
        self._queue: RequestQueue[_Call] = RequestQueue(
            self._serve, n_threads=settings().threads, size=settings().queue_size
        )
        for name, (service_type, prepare) in CALLS.items():
            receive = partial(self._receive, prepare, self._pacers[name])
            create_deferred_service(node, service_type, name, receive, SERVICE_QOS)

    def facts(self) -> dict[str, str]:
        """For `/diagnostics`."""
        return {"requests open": str(self._queue.n_open), **self._counters.facts()}

    def stop(self, timeout: float) -> bool:
        """Solve no more; False when a request is still being solved after `timeout` [s]."""
        return self._queue.close(timeout)

    def send_rest(self) -> None:
        """Send what the pacers have held back."""
        for pacer in self._pacers.values():
            pacer.close()

    def _receive(self, prepare: Prepare, pacer: ResponsePacer, exchange: Exchange) -> None:
        """On the executor's thread."""
        pacer.expect(exchange)
        if not self._queue.offer((prepare, pacer, exchange)):
            message = f"{self._queue.n_open} requests are waiting (parameter queue_size): try again later"
            refuse(exchange.response, ErrorCode.BUSY, message)
            pacer.post(exchange)

    def _serve(self, call: _Call) -> None:
        """On a worker thread: answer, whatever happens."""
        prepare, pacer, exchange = call
        try:
            self._solve(prepare, exchange)
        except RequestError as error:
            refuse(exchange.response, error.code, str(error))
        except Exception as error:
            exchange.response = type(exchange.response)()  # it may have been half filled
            refuse(exchange.response, ErrorCode.FAILURE, reason_of(error))
        pacer.post(exchange)

    def _solve(self, prepare: Prepare, exchange: Exchange) -> None:
        sampler = self._sampler()
        prepared = prepare(exchange.request, exchange.response, sampler.robot, self._settings())
        exchange.deadline = exchange.arrival + prepared.timeout
        waited = time.monotonic() - exchange.arrival
        if waited >= prepared.timeout:
            raise RequestError(ErrorCode.TIMED_OUT, f"timeout {prepared.timeout} s passed while waiting behind others")
        prepared.solve(sampler, prepared.timeout - waited)

    def _send(self, exchange: Exchange) -> None:
        """Called by a pacer."""
        elapsed = time.monotonic() - exchange.arrival
        if hasattr(exchange.response, "elapsed"):
            exchange.response.elapsed = elapsed
        code, message = outcome_of(exchange.response)
        self._counters.count(code, elapsed)
        if code == ErrorCode.BUSY:
            self._node.get_logger().warning(f"BUSY: {message}", throttle_duration_sec=1.0)
        elif code != ErrorCode.SUCCESS:
            self._node.get_logger().warning(f"{ErrorCode(code).name}: {message}")
        send(exchange, self._node)
