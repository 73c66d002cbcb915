"""Responses are sent without waiting for clients that have left.

The middleware addresses a response to the endpoint at which the client reads. If a client had left when its request
was taken, Fast DDS waits 100 ms for that endpoint to appear, because the announcement of a new client can arrive later
than its request. rclpy holds the lock of the interpreter during this wait, so no thread helps: all threads and signal
handlers of the process wait as well. In that time, further impatient clients leave. A crowd of them stops a plain
service for half a minute after it has left.

`Mail` therefore looks up the client among the endpoints that the node knows, before rclpy is asked to send. If the
client is there after its request was taken, rclpy does not wait, not even if the client leaves later. A client that is
not there has the same 100 ms to appear, during which only the list of `Deliveries` remembers the response. Then the
response is dropped. The thread of the executor never sends.

With other middlewares than Fast DDS, and where the client cannot be read from the header, responses are sent at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.service import Service
from rclpy.utilities import get_rmw_implementation_identifier

from eim_ros.core.errors import shortened

_ANNOUNCED_WITHIN = 0.1  # [s] time for the announcement of a client to arrive; as long as Fast DDS waits
_RETRY = 0.01  # [s] time between two looks for a client
_SETTLED, _FRESH = 1.0, 0.2  # [s] a client known for so long is not looked up again if the last look is so recent
_POLL = 0.02  # [s] time between two looks at what is left to deliver

# According to the RTPS standard, section 9.3.1.2, the last byte of an identifier has this bit if the endpoint reads.
# Otherwise the client uses an older protocol, in which Fast DDS does not wait for it.
_READER = 0x04
_N_BYTES = 16  # length of an identifier


class _ServiceInfo(ctypes.Structure):
    """`rmw_service_info_t` of the middleware interface (rmw/types.h)."""

    _fields_ = (
        ("source_timestamp", ctypes.c_int64),
        ("received_timestamp", ctypes.c_int64),
        ("client", ctypes.c_uint8 * _N_BYTES),
        ("sequence_number", ctypes.c_int64),
    )


def client_of(header: Any) -> bytes | None:
    """Return the identifier of the endpoint to which the response to a request is addressed; None if it is unknown.

    rclpy has the identifier in the header of a request, but no attribute for it. It is read from the C structure,
    whose address pybind11 stores directly behind the head of each object. The attributes that do exist must have the
    same values there, otherwise rclpy has changed and the result is None.
    """
    if type(header).__name__ != "rmw_service_info_t":
        return None
    address = ctypes.c_void_p.from_address(id(header) + object.__basicsize__).value
    if not address:
        return None
    info = _ServiceInfo.from_address(address)
    found = info.source_timestamp, info.received_timestamp, info.sequence_number
    if found != (header.source_timestamp, header.received_timestamp, header.request_id.sequence_number):
        return None
    client = bytes(info.client)
    return client if client[-1] & _READER else None


class Clients:
    """The clients of a service that the middleware of this process knows; thread-safe.

    A look takes 15 us for each client, so it is shared by all requests that were taken before it.
    """

    def __init__(self, node: Node, service: Service) -> None:
        self._node = node
        self._topic = f"rr{node.resolve_service_name(service.srv_name)}Reply"  # name of the topic in DDS
        self._lock = threading.Lock()
        self._since: dict[bytes, float] = {}  # time of the first look that found the client [s]
        self._looked = -1.0

    def include(self, client: bytes, after: float) -> bool:
        """Return whether the client was there at or after a time of `time.monotonic` [s].

        A client that has been there for long is trusted for a moment. During the shutdown of the context nothing can be
        looked up, and the last look counts.
        """
        with self._lock:
            now = time.monotonic()
            is_settled = now - self._since.get(client, now) > _SETTLED and now - self._looked < _FRESH
            if self._looked < after and not is_settled:
                self._look(now)
            return client in self._since

    def _look(self, now: float) -> None:
        try:
            found = self._node.get_subscriptions_info_by_topic(self._topic, no_mangle=True)
        except Exception:  # rclpy has a class for each reason why the node cannot be asked any more
            return
        clients = [bytes(endpoint.endpoint_gid[:_N_BYTES]) for endpoint in found]
        self._since = {client: self._since.get(client, now) for client in clients}
        self._looked = now


class Mail:
    """Sends the responses of a service."""

    def __init__(self, node: Node, service: Service) -> None:
        self.node = node
        self.send: Callable[[Any, Any], None] = service.send_response
        is_known = get_rmw_implementation_identifier().startswith("rmw_fastrtps")
        self.clients = Clients(node, service) if is_known else None

    def envelope(self, header: Any) -> Envelope:
        """Return the envelope for the response to a request that this thread has just taken."""
        return Envelope(self, header)


class Envelope:
    """Way of one response to its client."""

    def __init__(self, mail: Mail, header: Any) -> None:
        self._mail, self._header = mail, header
        self._taker, self._taken = threading.get_ident(), time.monotonic()
        self._client = None if mail.clients is None else client_of(header)
        self._is_sendable = self._is_there(self._taken)

    def is_awaited(self) -> bool:
        """Return whether the client is still there; it may take until `_ANNOUNCED_WITHIN` after the request."""
        now = time.monotonic()
        return now < self._taken + _ANNOUNCED_WITHIN or self._is_there(now - _ANNOUNCED_WITHIN)

    def send(self, response: Any) -> None:
        """Send the response on this thread, or on that of the deliveries if this thread must not or cannot do so."""
        if self._is_sendable and threading.get_ident() != self._taker:
            self._send(response)
        else:
            DELIVERIES.add(lambda: self._sent(response))

    def _is_there(self, after: float) -> bool:
        clients = self._mail.clients
        return self._client is None or clients is None or clients.include(self._client, after)

    def _sent(self, response: Any) -> bool:
        """Return whether the response is done with: sent, or dropped."""
        now = time.monotonic()
        if self._is_sendable or self._is_there(now - _RETRY):
            self._send(response)
            return True
        if now < self._taken + _ANNOUNCED_WITHIN:
            return False
        DELIVERIES.drop()
        return True

    def _send(self, response: Any) -> None:
        try:
            self._mail.send(response, self._header)
        except Exception as error:  # normal while the context is being shut down
            reason = shortened(f"{type(error).__name__}: {error}")
            self._mail.node.get_logger().error(f"an answer could not be sent: {reason}")
        DELIVERIES.last = time.monotonic()


class Deliveries:
    """Thread that sends the responses which other threads must not or cannot send themselves.

    `last` is the time of `time.monotonic` at which this process sent its last response [s]. `n_dropped` is the number
    of responses whose clients had left.
    """

    def __init__(self) -> None:
        self.last, self.n_dropped = -1e9, 0
        self._new: queue.SimpleQueue[Callable[[], bool]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._n_open = 0

    def add(self, deliver: Callable[[], bool]) -> None:
        """Call a function on the thread of the deliveries until it returns True; it must not raise."""
        with self._lock:
            self._n_open += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="deliveries", daemon=True)
                self._thread.start()
        self._new.put(deliver)

    def drop(self) -> None:
        """Count a response that is not sent because its client has left."""
        with self._lock:
            self.n_dropped += 1

    def finish(self, timeout: float, settle: float) -> None:
        """Wait until nothing is left to deliver, at most for `timeout` [s], and `settle` [s] after the last response.

        The clients read their responses in the latter time. They lose those that they have not read when the service is
        destroyed.
        """
        end = time.monotonic() + timeout
        while time.monotonic() < end and (self._n_open or time.monotonic() < self.last + settle):
            time.sleep(_POLL)

    def _run(self) -> None:
        waiting: list[Callable[[], bool]] = []
        while True:
            with contextlib.suppress(queue.Empty):
                waiting.append(self._new.get(timeout=_RETRY if waiting else None))
            left = [deliver for deliver in waiting if not deliver()]
            with self._lock:
                self._n_open -= len(waiting) - len(left)
            waiting = left


DELIVERIES = Deliveries()
"""The deliveries of this process. The thread starts with the first one."""
