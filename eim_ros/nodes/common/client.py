"""A client for nodes whose calls always end: asks again where no answer comes in time, or the server is busy.

    client = RetryingClient(node, SampleIK, "/ik_server/sample_ik", timeout=2.0)
    future = client.call_async(request)             # as that of any client of rclpy
    answer = await client.call_async(request)       # the same in a coroutine of the node

A plain client waits for good where its answer was lost. What is asked twice may be answered twice; the first answer
counts, so the services are to be such that asking again does no harm, as all are that only compute.

Waiting for a lifecycle node that loads its model before it serves.

    client.wait_for_service()
    wait_until_active(node, "/ik_server", wait=60.0)

Its services are there from the start, so that they can say what the node is doing; they serve once it is active.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import rclpy
from lifecycle_msgs.srv import GetState
from rclpy.callback_groups import CallbackGroup
from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.executors import Executor
from rclpy.node import Node
from rclpy.task import Future
from rclpy.timer import Timer

from eim_ros.core.errors import ConfigurationError, ServiceError
from eim_ros.ik import ErrorCode
from eim_ros.nodes.common.qos import SERVICE_QOS

_PAUSE = 0.1  # [s] after which a busy server is asked again, twice as long each further time


class RetryingClient:
    """See the module. It keeps as many answers as the servers of this package keep requests.

    Parameters
    ----------
    node : Node
        Which must be spun for calls to end.
    service_type : type
    name : str
        Of the service.
    timeout : float
        Time that each attempt has, > 0 [s], in wall time.
    n_attempts : int
        At least 1.
    callback_group : CallbackGroup, optional
        By default that of the node; a callback that waits for an answer needs another one than its own.
    """

    def __init__(
        self,
        node: Node,
        service_type: Any,
        name: str,
        *,
        timeout: float = 5.0,
        n_attempts: int = 3,
        callback_group: CallbackGroup | None = None,
    ) -> None:
        if not timeout > 0.0:
            raise ConfigurationError(f"the timeout must be positive, got {timeout} s", timeout)
        if n_attempts < 1:
            raise ConfigurationError(f"n_attempts must be at least 1, got {n_attempts}", n_attempts)
        self._node, self._timeout, self._n_attempts, self._group = node, timeout, n_attempts, callback_group
        self.client: Client = node.create_client(
            service_type, name, qos_profile=SERVICE_QOS, callback_group=callback_group
        )

    def wait_for_service(self, timeout: float | None = None) -> bool:
        """Whether the service is there within a time [s]; None: however long it takes."""
        return bool(self.client.wait_for_service(timeout))

    def call_async(self, request: Any) -> Future:
        """Ask; the future holds the answer, or `ServiceError` when no attempt brought one; cancel it to give up."""
        return _Call(self.client, request, self._after, self._timeout, self._n_attempts).future

    def close(self) -> None:
        """Destroy the client; calls under way are not answered any more."""
        self._node.destroy_client(self.client)

    def _after(self, seconds: float, do: Callable[[], None]) -> Callable[[], None]:
        """Have something done once; what is returned prevents it."""
        timer: Timer | None = None

        def end() -> None:
            if timer is not None:
                self._node.destroy_timer(timer)

        def tick() -> None:
            end()
            do()

        clock = Clock(clock_type=ClockType.STEADY_TIME)
        timer = self._node.create_timer(seconds, tick, callback_group=self._group, clock=clock)
        return end


class _Call:
    """One request until its end; answers and timers may come on several threads."""

    def __init__(
        self,
        client: Client,
        request: Any,
        after: Callable[[float, Callable[[], None]], Callable[[], None]],
        timeout: float,
        n_attempts: int,
    ) -> None:
        self.future = Future()
        self._client, self._request, self._after = client, request, after
        self._timeout, self._n_attempts = timeout, n_attempts
        self._lock = threading.RLock()
        self._n_asked = 0
        self._asked: Future | None = None
        self._forget_timer: Callable[[], None] = lambda: None
        self.future.add_done_callback(lambda _: self._stop())
        self._ask()

    def _ask(self) -> None:
        with self._lock:
            self._stop()
            if self.future.done():
                return
            self._n_asked += 1
            self._asked = self._client.call_async(self._request)
            self._forget_timer = self._after(self._timeout, self._miss)
            self._asked.add_done_callback(self._take)

    def _take(self, asked: Any) -> None:
        with self._lock:
            if self._asked is None or asked is not self._asked or self.future.done():
                return
            answer = asked.result()
            if _is_busy(answer) and self._n_asked < self._n_attempts:
                self._stop()
                self._forget_timer = self._after(_PAUSE * 2.0 ** (self._n_asked - 1), self._ask)
            else:
                self.future.set_result(answer)

    def _miss(self) -> None:
        with self._lock:
            if self.future.done():
                return
            if self._n_asked < self._n_attempts:
                self._ask()
                return
            self.future.set_exception(
                ServiceError(
                    f"service {self._client.srv_name} did not answer {self._n_attempts} requests, within "
                    f"{self._timeout} s each: is the node running?",
                    self._client.srv_name,
                )
            )

    def _stop(self) -> None:
        """Wait neither for an answer nor for a time."""
        with self._lock:
            self._forget_timer()
            self._forget_timer = lambda: None
            asked, self._asked = self._asked, None
            if asked is not None and not asked.done():
                self._client.remove_pending_request(asked)


def _is_busy(answer: Any) -> bool:
    code = getattr(answer, "error_code", None)
    return getattr(code, "val", code) == ErrorCode.BUSY


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
