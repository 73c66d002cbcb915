"""A service client that retries, a short-lived node for programs that only call services, and a wait for a node.

    client = RetryingClient(node, SampleIK, "/ik_server/sample_ik", timeout=2.0)
    client.wait_for_service()
    wait_until_active(node, "/ik_server", wait=60.0)
    future = client.call_async(request)             # like any client of rclpy
    answer = await client.call_async(request)       # the same in a coroutine of the node

A plain rclpy client waits forever if a response is lost. `RetryingClient` repeats the request if the response is late
or the server is busy. A server may then process a request twice, and the first response is used. Repeated requests are
safe if the service only computes a result.

The services of a node exist from the start, to report its state, but they serve only while the node is active.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import rclpy
from lifecycle_msgs.srv import GetState
from rclpy.callback_groups import CallbackGroup
from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.context import Context
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Future
from rclpy.timer import Timer

from eim_ros.core.errors import ConfigurationError, ServiceError
from eim_ros.ik import ErrorCode
from eim_ros.nodes.common.qos import SERVICE_QOS

ClientNodeT = TypeVar("ClientNodeT", bound="ClientNode")

_PAUSE = 0.1  # [s] before the first retry of a busy server; doubled after each attempt
Watch = Callable[[str, float], None]
"""Callback with two arguments: the reported state (empty if there is none yet) and the elapsed time [s]."""
_PERIOD = 0.05  # [s] polling period
_ANSWERED_WITHIN = 1.0  # [s] timeout of a state request; only an overloaded node needs longer
_CURES = {
    "unconfigured": ": configure and activate it, for example with 'ros2 lifecycle set'",
    "inactive": ": activate it, for example with 'ros2 lifecycle set'",
}


class RetryingClient:
    """Service client that repeats a request if the response is late or the server is busy.

    Every call ends after at most `n_attempts` attempts. The client can queue as many responses as the servers of this
    package can queue requests; see `SERVICE_QOS`. The constructor raises `ConfigurationError` if `timeout` is not
    positive or `n_attempts` is less than 1.

    Parameters
    ----------
    node : Node
        Node of the caller. Spin this node, otherwise calls do not end.
    name : str
        Name of the service.
    timeout : float
        Timeout of each attempt in wall time [s], > 0.
    n_attempts : int
        Maximum number of attempts per call, at least 1.
    callback_group : CallbackGroup, optional
        Callback group of the client. By default, the node's group. A callback that waits for a response blocks its
        group, so the client must be in another group.
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
        """Wait for the service. Return whether it appears within `timeout` [s]. None waits without a limit."""
        return bool(self.client.wait_for_service(timeout))

    def call_async(self, request: Any) -> Future:
        """Send a request and return a future for its response.

        The future raises `ServiceError` if no attempt gets a response. Cancel the future to stop retrying.
        """
        return _Call(self.client, request, self._after, self._timeout, self._n_attempts).future

    def close(self) -> None:
        """Destroy the client. Pending calls get no response."""
        self._node.destroy_client(self.client)

    def _after(self, seconds: float, do: Callable[[], None]) -> Callable[[], None]:
        """Call `do` once after a delay [s] of wall time. Return a function that cancels this call."""
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
    """One call with all its attempts. Responses and timers may arrive on different threads."""

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
                    f"service {self._client.srv_name} did not answer any of {self._n_attempts} requests within "
                    f"{self._timeout} s each; check that its node is running",
                    self._client.srv_name,
                )
            )

    def _stop(self) -> None:
        """Cancel the timer and discard the pending request."""
        with self._lock:
            self._forget_timer()
            self._forget_timer = lambda: None
            asked, self._asked = self._asked, None
            if asked is not None and not asked.done():
                self._client.remove_pending_request(asked)


def _is_busy(answer: Any) -> bool:
    code = getattr(getattr(answer, "solutions", answer), "error_code", None)
    return getattr(code, "val", None) == ErrorCode.BUSY


def ignore(state: str, elapsed: float) -> None:
    """Do nothing. This function is the default `Watch`."""


class ClientNode:
    """Short-lived node in its own ROS context, used as a context manager, for programs that are not nodes."""

    def __init__(self, name: str) -> None:
        self._context = Context()
        self._context.init()
        self._node = rclpy.create_node(f"{name}_{os.getpid()}", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)

    def __enter__(self: ClientNodeT) -> ClientNodeT:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the node from the ROS graph."""
        self._context.try_shutdown()

    def _wait_for(self, client: Client, wait: float, watch: Watch = ignore) -> None:
        """Wait for a service. Raise `ServiceError` if it does not appear within `wait` [s]."""
        self._until(client.service_is_ready, f"service {client.srv_name}", wait, watch)

    def _until(self, condition: Callable[[], bool], what: str, wait: float, watch: Watch = ignore) -> None:
        began = time.monotonic()
        while not condition():
            elapsed = time.monotonic() - began
            if elapsed >= wait:
                raise ServiceError(f"{what} did not appear within {wait} s; check that its node is running")
            watch("", elapsed)
            self._executor.spin_once(_PERIOD)

    def _answer(self, client: Client, request: Any, timeout: float) -> Any:
        """Return the response. Raise `ServiceError` if it does not arrive within `timeout` [s]."""
        future = client.call_async(request)
        self._executor.spin_until_future_complete(future, timeout)
        if not future.done():
            client.remove_pending_request(future)
            raise ServiceError(
                f"service {client.srv_name} did not answer within {timeout} s; check that its node is running"
            )
        return future.result()


def wait_until_active(
    node: Node, server: str, wait: float = 5.0, watch: Watch = ignore, executor: Executor | None = None
) -> None:
    """Wait until a lifecycle node is active.

    `ServiceError` is raised if the node does not become active in time, or has been finalized. The value of the error
    is the state of the node.

    Parameters
    ----------
    node : Node
        Node of the caller. This function spins the node.
    server : str
        Full name of the lifecycle node.
    wait : float
        Maximum waiting time [s]; may be infinite.
    watch : callable
        Function that is called repeatedly during the wait. An exception from this function ends the wait.
    executor : Executor, optional
        Executor that spins `node` during the wait. By default, rclpy's global executor. Afterwards, the node returns to
        its previous executor, if any.
    """
    owner = node.executor  # rclpy returns this executor even after the node was removed from it
    is_owned = owner is not None and node in owner.get_nodes()
    client = node.create_client(GetState, f"{server}/get_state")
    began = time.monotonic()
    try:
        while (state := _state(client, node, executor)) != "active":
            elapsed = time.monotonic() - began
            if state == "finalized" or elapsed >= wait:
                told = f"is {state}, not active," if state else "has not reported its state"
                raise ServiceError(f"{server} {told} after {elapsed:.1f} s{_CURES.get(state, '')}", state)
            watch(state, elapsed)
            time.sleep(_PERIOD)
    finally:
        node.destroy_client(client)
        if owner is not None and is_owned:
            owner.add_node(node)  # rclpy removes a node from its executor if another executor spins it


def _state(client: Client, node: Node, executor: Executor | None) -> str:
    """Return the lifecycle state that the node reports, or an empty text if the node does not respond."""
    if not client.service_is_ready():
        return ""
    future = client.call_async(GetState.Request())
    rclpy.spin_until_future_complete(node, future, executor, _ANSWERED_WITHIN)
    if future.done():
        return str(future.result().current_state.label)
    client.remove_pending_request(future)
    return ""
