"""The way of a request through `ik_server`: received, queued, solved by a worker thread, answered and counted.

The executor's thread only receives requests. It answers BUSY if too many wait, so no request is dropped silently. Every
request is answered exactly once, also those that wait or are being solved when the node ends.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from rclpy.node import Node

from eim_ros.ik import ErrorCode, Sampler
from eim_ros.kinematics import Robot
from eim_ros.nodes.common.diagnostics import AnswerCounters
from eim_ros.nodes.common.reasons import reason_of
from eim_ros.nodes.common.service import Exchange, RequestPool, create_deferred_service, send
from eim_ros.nodes.ik_server.calls import CALLS, Prepared, budget_of, outcome_of, refuse
from eim_ros.nodes.ik_server.fields import RequestError
from eim_ros.nodes.ik_server.reaching import reaching
from eim_ros.nodes.ik_server.settings import IkServerSettings
from eim_ros.nodes.ik_server.surroundings import FrameNotKnownYet, Surroundings
from eim_ros.numerics.cores import usable_cores

__all__ = ["Serving"]

_LINGER = 0.3  # [s] for clients to read the last answers, which are lost when the service is destroyed
_SHORT = 0.005  # [s] that the executor's thread leaves the interpreter to the only request there is
_PERIOD = 0.005  # [s] between two looks for a transform

Prepare: TypeAlias = Callable[[Any, Any, Surroundings, IkServerSettings], Prepared]


@dataclass(frozen=True, eq=False)
class _Call:
    """A request, its time budget [s], and the function that parses it."""

    prepare: Prepare
    exchange: Exchange
    budget: float


@dataclass(frozen=True, eq=False)
class _FrameWait:
    """A request that waits for a transform until a time of `time.monotonic` [s]."""

    call: _Call
    around: Surroundings
    until: float


class Serving:
    """The services that need a sampler.

    Parameters
    ----------
    node : Node
        Node that offers the services.
    settings : callable
        Returns the present values of the parameters.
    sampler : callable
        Returns the sampler that serves, or raises `RequestError` while there is none.
    around : callable
        Returns what is known of the surroundings of a robot.
    among : callable
        Returns the sampler among the obstacles of the planning scene, which a request that avoids collisions avoids in
        addition to its own; may raise, too.
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
        self._unanswered: dict[int, _Call] = {}  # being solved, by the identity of the exchange
        self._lock, self._closing = threading.Lock(), threading.Event()
        n_threads, size = settings().threads or usable_cores(), settings().queue_size
        self._pool: RequestPool[_Call] = RequestPool(self._serve, self._refuse_at_end, n_threads, size)
        self._frame_waits: RequestPool[_FrameWait] = RequestPool(
            self._wait_for_frame, lambda wait: self._refuse_at_end(wait.call), n_threads=1, size=size
        )
        for name, (service_type, prepare) in CALLS.items():
            create_deferred_service(node, service_type, name, partial(self._receive, prepare))

    def facts(self) -> dict[str, str]:
        """Counts for `/diagnostics`."""
        n_open = self._pool.n_open + self._frame_waits.n_open
        return {"requests open": str(n_open), **self._counters.facts()}

    def stop(self, timeout: float) -> bool:
        """Answer all open requests; return False if one is still being solved after `timeout` [s]."""
        has_open = bool(self._pool.n_open or self._frame_waits.n_open)
        self._closing.set()
        self._frame_waits.close(timeout)
        idle = self._pool.close(timeout)
        with self._lock:
            unsolved = [*self._unanswered.values()]
            self._unanswered.clear()
        for call in unsolved:
            call.exchange.response = type(call.exchange.response)()  # the worker may still write to the other one
            self._refuse_at_end(call)
        if has_open:
            time.sleep(_LINGER)
        return idle

    def _receive(self, prepare: Prepare, exchange: Exchange) -> None:
        """Queue a request; on the executor's thread.

        While a request is the only one, this thread waits a few milliseconds for its answer: otherwise both threads
        compete for the interpreter, which makes most round trips longer.
        """
        future = self._offer(_Call(prepare, exchange, budget_of(exchange.request, self._settings())))
        if future is not None and self._pool.n_open == 1:
            with contextlib.suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
                future.result(_SHORT)

    def _offer(self, call: _Call) -> concurrent.futures.Future[None] | None:
        future = self._pool.offer(call, call.budget)
        if future is None:
            message = f"{self._pool.n_open} requests are waiting (parameter queue_size): try again later"
            self._refuse(call, ErrorCode.BUSY, message)
        return future

    def _serve(self, call: _Call) -> None:
        """Solve and answer a request, whatever happens; on a worker thread."""
        exchange = call.exchange
        with self._lock:
            self._unanswered[id(exchange)] = call
        response = exchange.response
        try:
            if (wait := self._solve(call, response)) is not None:
                with self._lock:
                    self._unanswered.pop(id(exchange), None)
                if self._frame_waits.offer(wait) is None:
                    self._refuse(call, ErrorCode.BUSY, "too many requests wait for transforms: try again later")
                return
        except RequestError as error:
            refuse(response, error.code, str(error))
        except Exception as error:
            response = type(response)()  # it may be half filled
            refuse(response, ErrorCode.FAILURE, reason_of(error))
        with self._lock:
            if self._unanswered.pop(id(exchange), None) is None:  # `stop` has answered it
                return
        exchange.response = response
        self._answer(exchange)

    def _solve(self, call: _Call, response: Any) -> _FrameWait | None:
        """Fill the response, or say which transform is missing that may still come."""
        exchange, settings = call.exchange, self._settings()
        sampler = reaching(self._sampler(), exchange.request)
        around = replace(self._around(sampler.robot), arrival=exchange.arrival)
        try:
            prepared = call.prepare(exchange.request, response, around, settings)
        except FrameNotKnownYet:
            until = exchange.arrival + settings.transform_timeout
            if time.monotonic() >= until:
                raise
            return _FrameWait(call, around, until)
        waited = time.monotonic() - exchange.arrival
        if waited >= prepared.timeout:
            raise RequestError(ErrorCode.TIMED_OUT, f"timeout {prepared.timeout} s passed while waiting behind others")
        prepared.solve(self._among(sampler) if prepared.avoids else sampler, prepared.timeout - waited)
        return None

    def _wait_for_frame(self, wait: _FrameWait) -> None:
        """Queue a request again when its transform is known, or its time is up."""
        while time.monotonic() < wait.until and not wait.around.are_known and not self._closing.wait(_PERIOD):
            pass
        self._offer(wait.call)

    def _refuse_at_end(self, call: _Call) -> None:
        self._refuse(call, ErrorCode.FAILURE, f"{self._node.get_name()} was ended before this was solved")

    def _refuse(self, call: _Call, code: ErrorCode, message: str) -> None:
        refuse(call.exchange.response, code, message)
        self._answer(call.exchange)

    def _answer(self, exchange: Exchange) -> None:
        """Send the response, count it, log anything but success."""
        elapsed = time.monotonic() - exchange.arrival
        if hasattr(exchange.response, "elapsed"):
            exchange.response.elapsed = elapsed
        code, message = outcome_of(exchange.response)
        send(exchange, self._node)
        self._counters.count(code, elapsed)
        if code != ErrorCode.SUCCESS:
            text = f"{ErrorCode(code).name}: {message}"
            self._node.get_logger().warning(text, throttle_duration_sec=1.0)
