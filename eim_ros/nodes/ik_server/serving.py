"""The way of a request through `ik_server`: taken, queued, solved by a worker thread, its answer paced and counted.

The executor's thread only takes requests, so it is always there; whatever does not fit is answered BUSY, unsolved.
Each request is answered: those that wait or are being solved when the node ends are told so.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from eim_ros.nodes.common.waiting_room import WaitingRoom
from eim_ros.nodes.ik_server.calls import CALLS, Prepared, outcome_of, refuse
from eim_ros.nodes.ik_server.fields import RequestError
from eim_ros.nodes.ik_server.reaching import reaching
from eim_ros.nodes.ik_server.settings import IkServerSettings
from eim_ros.nodes.ik_server.surroundings import FrameNotKnownYet, Surroundings

__all__ = ["Serving"]

_LINGER = 0.3  # [s] in which a client that is there reads what was sent

Prepare: TypeAlias = Callable[[Any, Any, Surroundings, IkServerSettings], Prepared]


class _WaitsForFrame(Exception):
    """A request was left in the waiting room."""


@dataclass(frozen=True)
class _Call:
    """A request, how it is understood, and who sends its answer."""

    prepare: Prepare
    pacer: ResponsePacer
    exchange: Exchange


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
    around : callable
        Returns what is known of the surroundings of a robot.
    among : callable
        Returns the sampler among what a request that avoids collisions avoids beside its own obstacles; may raise, too.
    """

    def __init__(
        self,
        node: Node,
        settings: Callable[[], IkServerSettings],
        sampler: Callable[[], Sampler],
        around: Callable[[Robot], Surroundings],
        among: Callable[[Sampler], Sampler],
    ) -> None:
        self._node = node
        self._settings = settings
        self._sampler, self._among = sampler, among
        self._around = around
        self._counters = AnswerCounters()
        self._pacers = {name: ResponsePacer(self._send) for name in CALLS}
        self._solving: dict[int, _Call] = {}  # by the identity of the exchange
        self._n_given_up = 0
        self._lock = threading.Lock()
        self._queue: RequestQueue[_Call] = RequestQueue(
            self._serve, self._refuse_at_end, n_threads=settings().threads, size=settings().queue_size
        )
        self._room: WaitingRoom[_Call] = WaitingRoom(self._offer, settings().queue_size)
        for name, (service_type, prepare) in CALLS.items():
            receive = partial(self._receive, prepare, self._pacers[name])
            create_deferred_service(node, service_type, name, receive, SERVICE_QOS)

    def facts(self) -> dict[str, str]:
        """For `/diagnostics`."""
        return {"requests open": str(self._queue.n_open), **self._counters.facts()}

    def stop(self, timeout: float) -> bool:
        """Solve no more, and answer all; False when a request is still being solved after `timeout` [s]."""
        for call in self._room.close():
            self._refuse_at_end(call)
        idle = self._queue.close(timeout)
        with self._lock:
            unsolved = [*self._solving.values()]
            self._solving.clear()
        for call in unsolved:
            call.exchange.response = type(call.exchange.response)()  # the worker goes on with the other one
            self._refuse_at_end(call)
        return idle

    def send_rest(self) -> None:
        """Send what the pacers have held back, and let the last answers be read: they go with the service."""
        for pacer in self._pacers.values():
            pacer.close()
        if self._n_given_up:
            time.sleep(_LINGER)

    def _receive(self, prepare: Prepare, pacer: ResponsePacer, exchange: Exchange) -> None:
        """On the executor's thread."""
        pacer.expect(exchange)
        self._offer(_Call(prepare, pacer, exchange))

    def _offer(self, call: _Call) -> None:
        if not self._queue.offer(call):
            message = f"{self._queue.n_open} requests are waiting (parameter queue_size): try again later"
            refuse(call.exchange.response, ErrorCode.BUSY, message)
            call.pacer.post(call.exchange)

    def _serve(self, call: _Call) -> None:
        """On a worker thread: answer, whatever happens."""
        exchange = call.exchange
        response = exchange.response
        with self._lock:
            self._solving[id(exchange)] = call
        try:
            self._solve(call, response)
        except _WaitsForFrame:
            with self._lock:
                self._solving.pop(id(exchange), None)
            return
        except RequestError as error:
            refuse(response, error.code, str(error))
        except Exception as error:
            response = type(response)()  # it may have been half filled
            refuse(response, ErrorCode.FAILURE, reason_of(error))
        with self._lock:
            if self._solving.pop(id(exchange), None) is None:  # the node has ended: it is answered
                return
        exchange.response = response
        call.pacer.post(exchange)

    def _refuse_at_end(self, call: _Call) -> None:
        """A request that waited, or was being solved, when the queue was closed."""
        self._n_given_up += 1
        message = f"{self._node.get_name()} was ended before this was solved"
        refuse(call.exchange.response, ErrorCode.FAILURE, message)
        call.pacer.post(call.exchange)

    def _solve(self, call: _Call, response: Any) -> None:
        exchange, settings = call.exchange, self._settings()
        sampler = reaching(self._sampler(), exchange.request)
        around = replace(self._around(sampler.robot), arrival=exchange.arrival)
        try:
            prepared = call.prepare(exchange.request, response, around, settings)
        except FrameNotKnownYet:
            until = exchange.arrival + settings.transform_timeout
            if time.monotonic() >= until or not self._room.enter(call, lambda: around.are_known, until):
                raise
            raise _WaitsForFrame from None
        exchange.deadline = exchange.arrival + prepared.timeout
        waited = time.monotonic() - exchange.arrival
        if waited >= prepared.timeout:
            raise RequestError(ErrorCode.TIMED_OUT, f"timeout {prepared.timeout} s passed while waiting behind others")
        prepared.solve(self._among(sampler) if prepared.avoids else sampler, prepared.timeout - waited)

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
