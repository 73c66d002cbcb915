"""Services that respond from worker threads, to keep the executor's thread free for the next request.

    pool = RequestPool(serve, give_up, n_threads=2, size=100)
    create_async_service(node, SampleIK, "~/sample_ik", lambda pending: pool.offer(pending, budget=1.0))

rclpy sends the return value of a handler immediately, and does not support later responses. Therefore, `respond_later`
replaces the method `send_response` of a single service object. `respond_without_waiting` does the same for services
with ordinary handlers. No other code of this package overrides rclpy. `eim_ros.nodes.common.delivery` sends the
responses.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

from rclpy.node import Node
from rclpy.service import Service

from eim_ros.core.errors import EimError, shortened
from eim_ros.nodes.common.delivery import DELIVERIES, Mail
from eim_ros.nodes.common.interfaces import LoadModel
from eim_ros.nodes.common.qos import SERVICE_QOS

_LANE_FACTOR = 4.0  # maximum ratio of two time budgets in the same lane
_MOST_MODELS = 3  # maximum number of models that wait to be loaded
_PATIENT, _NICENESS = 8.0, 10  # requests with a larger budget [s] run with this niceness, to let others start at once
Job = TypeVar("Job")


def reason_of(error: Exception) -> str:
    """Return a one-line description of an error.

    The message of an `EimError` names the cause and the remedy. Any other error is unexpected, and described as an
    internal error with its type.
    """
    is_known = isinstance(error, EimError) and str(error)
    reason = str(error) if is_known else f"internal error: {type(error).__name__}: {error}"
    return shortened(" ".join(reason.split()))


@dataclasses.dataclass(eq=False)
class PendingResponse:
    """One request and its response, to be sent exactly once."""

    request: Any
    response: Any
    arrival: float = 0.0  # time at which the middleware received the request [s], on the clock of `time.monotonic`
    # sends a response to the client, or drops it if the client has left; any thread may call it
    respond: Callable[[Any], None] = lambda response: None
    # returns whether the client still waits for the response
    is_awaited: Callable[[], bool] = lambda: True

    def send(self) -> None:
        """Send the response."""
        self.respond(self.response)

    def drop(self) -> None:
        """Send nothing, because the client has left."""
        DELIVERIES.drop()


def create_async_service(
    node: Node, service_type: Any, name: str, receive: Callable[[PendingResponse], None]
) -> Service:
    """Create a service of the node with `SERVICE_QOS`. `respond_later` defines its responses."""
    service = node.create_service(service_type, name, _answer_nothing, qos_profile=SERVICE_QOS)
    respond_later(node, service, receive)
    return service


def respond_later(node: Node, service: Service, receive: Callable[[PendingResponse], None]) -> None:
    """Make a service pass each request to `receive` instead of its handler, on the executor's thread.

    `receive` must not raise an exception. `receive` fills and sends the response, or passes the pending response to
    other code that does. Several threads may send at the same time, as in rclcpp.
    """
    mail = Mail(node, service)

    def hand_over(pending: PendingResponse, header: Any) -> None:
        envelope = mail.envelope(header)
        pending.arrival = time.monotonic() - _unread_time(header)
        pending.respond, pending.is_awaited = envelope.send, envelope.is_awaited
        receive(pending)

    service.callback, service.send_response = PendingResponse, hand_over


def respond_without_waiting(node: Node) -> None:
    """Make all other services of the node send their responses on the thread of the deliveries."""
    for service in node.services:
        if "send_response" not in vars(service):  # not replaced by `respond_later`
            mail = Mail(node, service)
            service.send_response = lambda response, header, mail=mail: mail.envelope(header).send(response)


def receive_unread(services: Iterable[Service], timeout: float) -> None:
    """Receive remaining requests of services with `respond_later` after the executor has stopped.

    Stop after `timeout` [s], because further requests may arrive in the meantime.
    """
    end = time.monotonic() + timeout
    for service in services:
        while time.monotonic() < end:
            with service.handle:
                request, header = service.handle.service_take_request(service.srv_type.Request)
            if header is None:
                break
            service.send_response(PendingResponse(request, service.srv_type.Response()), header)


class RequestPool(Generic[Job]):
    """A bounded pool of worker threads. Long requests do not delay short ones.

    Requests are sorted into lanes by their time budgets. Each lane has its own threads, which start when they are first
    needed, and serves its requests in order of arrival. The operating system divides the processor among the lanes, and
    lanes with long budgets have a lower priority. Therefore, a request with a short budget runs at once, even if every
    core is busy with long requests. A worker thread calls `serve` with each job. When the pool is closed, `give_up` is
    called with each waiting job. Neither may raise an exception. Each lane has `n_threads` threads and a queue of
    `size` jobs.
    """

    def __init__(self, serve: Callable[[Job], None], give_up: Callable[[Job], None], n_threads: int, size: int) -> None:
        self._serve, self._give_up = serve, give_up
        self._n_threads, self._size = n_threads, size
        self._lanes: dict[int, tuple[ThreadPoolExecutor, dict[Future[None], Job]]] = {}
        self._lock = threading.Lock()
        self._closed = False

    @property
    def n_open(self) -> int:
        """Number of jobs that are waiting or running."""
        with self._lock:
            return sum(len(jobs) for _, jobs in self._lanes.values())

    def offer(self, job: Job, budget: float = 1.0) -> Future[None] | None:
        """Queue a job with a time budget [s]. Return its future, or None if its lane is full or the pool is closed."""
        with self._lock:
            threads, jobs = self._lane(budget)
            if self._closed or len(jobs) >= self._n_threads + self._size:
                return None
            future = threads.submit(self._serve, job)
            jobs[future] = job
        future.add_done_callback(partial(self._end, jobs))
        return future

    def close(self, timeout: float) -> bool:
        """Give up all waiting jobs. Return False if a job is still running after `timeout` [s]."""
        with self._lock:
            self._closed = True
            lanes = [*self._lanes.values()]
        for threads, _ in lanes:
            threads.shutdown(wait=False, cancel_futures=True)
        return not concurrent.futures.wait([future for _, jobs in lanes for future in [*jobs]], timeout).not_done

    def _lane(self, budget: float) -> tuple[ThreadPoolExecutor, dict[Future[None], Job]]:
        level = round(math.log(max(budget, 1e-3), _LANE_FACTOR))
        if level not in self._lanes:
            begin = _yield_to_others if _LANE_FACTOR**level > _PATIENT else None
            self._lanes[level] = ThreadPoolExecutor(self._n_threads, "request", begin), {}
        return self._lanes[level]

    def _end(self, jobs: dict[Future[None], Job], future: Future[None]) -> None:
        with self._lock:
            job = jobs.pop(future)
        if future.cancelled():
            self._give_up(job)


class ModelExchange:
    """The service `~/load_model`. Models are loaded one after the other while the current model serves requests.

    The loader's thread calls `replace` with the path of a model. `replace` loads the model and makes it the current
    one. If it raises an exception, the previous model remains in use, and the response contains the error message.
    """

    def __init__(self, node: Node, replace: Callable[[str], None]) -> None:
        self._node = node
        self._replace = replace
        self._pool: RequestPool[PendingResponse] = RequestPool(
            self._load, self._give_up, n_threads=1, size=_MOST_MODELS
        )
        create_async_service(node, LoadModel, "~/load_model", self._receive)

    def close(self, timeout: float) -> bool:
        """Refuse all waiting requests. Return False if a model is still being loaded after `timeout` [s]."""
        return self._pool.close(timeout)

    def _receive(self, pending: PendingResponse) -> None:
        """Queue a request, or refuse it if too many requests are waiting. The executor's thread calls this method."""
        if self._pool.offer(pending) is None:
            pending.response.message = "too many models are waiting to be loaded: try again later"
            pending.send()

    def _give_up(self, pending: PendingResponse) -> None:
        pending.response.message = f"{self._node.get_name()} was shut down before the model was loaded"
        pending.send()

    def _load(self, pending: PendingResponse) -> None:
        """Load a model and send the response, on the loader's thread."""
        began, path = time.monotonic(), pending.request.path
        told = f"model {shortened(path)}"
        try:
            self._replace(path)
            pending.response.success = True
            self._node.get_logger().info(f"{told} was loaded in {time.monotonic() - began:.1f} s")
        except Exception as error:  # a damaged file can cause any error
            pending.response.message = reason_of(error)
            self._node.get_logger().warning(f"{told} was refused: {pending.response.message}")
        pending.send()


def _yield_to_others() -> None:
    """Lower the priority of the current thread. Only Linux supports a priority per thread."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))


def _unread_time(header: Any) -> float:
    """Return the time since the middleware received the request [s], or 0 if the middleware provides no timestamp."""
    return max(0.0, time.time() - 1e-9 * header.received_timestamp) if header.received_timestamp else 0.0


def _answer_nothing(request: Any, response: Any) -> Any:
    raise AssertionError("the responses of this service are sent later")
