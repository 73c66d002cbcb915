"""Sending of responses, without a wait for clients that have left.

The middleware addresses a response to the endpoint that the client reads. If a client has left before its request is
taken, Fast DDS waits 100 ms for that endpoint to appear. The reason is that the announcement of a new client can arrive
later than its request. During this wait, rclpy holds the lock of the interpreter, so all threads and signal handlers of
the process wait as well. In the meantime, further impatient clients leave. If many clients leave, an ordinary service
does not respond for half a minute.

Therefore, `Mail` first looks up the client among the endpoints that the node knows. If the client is known after its
request was taken, rclpy does not wait, even if the client leaves later. An unknown client has the same 100 ms to
appear, while its response waits in the list of `Deliveries`. After this time, the response is dropped. The thread of
the executor never sends responses.

If the middleware is not Fast DDS, or if the header does not identify the client, responses are sent immediately.
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

_ANNOUNCED_WITHIN = 0.1  # [s] maximum time until the announcement of a client arrives; Fast DDS waits for the same time
_RETRY = 0.01  # [s] time between two searches for a client
_SETTLED, _FRESH = 1.0, 0.2  # [s] a client known for _SETTLED is not looked up again within _FRESH of the last search
_POLL = 0.02  # [s] polling period of the list of undelivered responses

# The last byte of the identifier of a reader has this bit (RTPS standard, section 9.3.1.2). Without this bit, the
# client uses an older protocol, and Fast DDS does not wait for the client.
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
    """Return the identifier of the endpoint that receives the response to a request, or None if it is unknown.

    The header of a request contains the identifier, but rclpy has no attribute for it. Therefore, this function reads
    it from the C structure. pybind11 stores the address of this structure directly behind the head of each object. The
    function compares the existing attributes with the structure. If they differ, the layout of rclpy has changed, and
    the result is None.
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
    """Clients of a service that the middleware of this process knows. The class is thread-safe.

    A search takes 15 us per client. Therefore, its result is used for all requests that were taken before the search.
    """

    def __init__(self, node: Node, service: Service) -> None:
        self._node = node
        self._topic = f"rr{node.resolve_service_name(service.srv_name)}Reply"  # name of the topic in DDS
        self._lock = threading.Lock()
        self._since: dict[bytes, float] = {}  # time of the first search that found each client [s]
        self._looked = -1.0

    def include(self, client: bytes, after: float) -> bool:
        """Return whether the client was present at or after a time of `time.monotonic` [s].

        A client that has been known for longer than _SETTLED is not looked up again within _FRESH. During the shutdown
        of the context, no search is possible, and the last result is used.
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
        except Exception:  # rclpy has a separate class for each reason of a failure
            return
        clients = [bytes(endpoint.endpoint_gid[:_N_BYTES]) for endpoint in found]
        self._since = {client: self._since.get(client, now) for client in clients}
        self._looked = now


class Mail:
    """Sender for the responses of a service."""

    def __init__(self, node: Node, service: Service) -> None:
        self.node = node
        self.send: Callable[[Any, Any], None] = service.send_response
        is_known = get_rmw_implementation_identifier().startswith("rmw_fastrtps")
        self.clients = Clients(node, service) if is_known else None

    def envelope(self, header: Any) -> Envelope:
        """Return the envelope for the response to a request that this thread has just taken."""
        return Envelope(self, header)


class Envelope:
    """Address of one response, with a method that sends the response."""

    def __init__(self, mail: Mail, header: Any) -> None:
        self._mail, self._header = mail, header
        self._taker, self._taken = threading.get_ident(), time.monotonic()
        self._client = None if mail.clients is None else client_of(header)
        self._is_sendable = self._is_there(self._taken)

    def is_awaited(self) -> bool:
        """Return whether the client is present. A new client counts as present for `_ANNOUNCED_WITHIN`."""
        now = time.monotonic()
        return now < self._taken + _ANNOUNCED_WITHIN or self._is_there(now - _ANNOUNCED_WITHIN)

    def send(self, response: Any) -> None:
        """Send the response on this thread if possible. Otherwise, the thread of the deliveries sends it."""
        if self._is_sendable and threading.get_ident() != self._taker:
            self._send(response)
        else:
            DELIVERIES.add(lambda: self._sent(response))

    def _is_there(self, after: float) -> bool:
        clients = self._mail.clients
        return self._client is None or clients is None or clients.include(self._client, after)

    def _sent(self, response: Any) -> bool:
        """Try to send the response. Return whether it was sent or dropped."""
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
        except Exception as error:  # normal during the shutdown of the context
            reason = shortened(f"{type(error).__name__}: {error}")
            self._mail.node.get_logger().error(f"a response could not be sent: {reason}")
        DELIVERIES.last = time.monotonic()


class Deliveries:
    """Thread that sends responses for other threads that cannot or must not send them.

    `last` is the time of `time.monotonic` of the last response of this process [s]. `n_dropped` is the number of
    responses that were dropped because their client had left.
    """

    def __init__(self) -> None:
        self.last, self.n_dropped = -1e9, 0
        self._new: queue.SimpleQueue[Callable[[], bool]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._n_open = 0

    def add(self, deliver: Callable[[], bool]) -> None:
        """Call a function on the thread of the deliveries until it returns True. The function must not raise an
        exception.
        """
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
        """Wait at most `timeout` [s] until all responses are sent and `settle` [s] have passed since the last one.

        Clients need the time `settle` to read their responses. Unread responses are lost when the service is destroyed.
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
"""The deliveries of this process. The thread starts with the first delivery."""
