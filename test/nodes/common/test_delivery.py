"""Responses reach existing clients. No thread waits for clients that have left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import rclpy
from rclpy.client import Client
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.service import Service
from std_srvs.srv import Trigger

from eim_ros.nodes.common import delivery
from eim_ros.nodes.common.delivery import DELIVERIES, Clients, Envelope, client_of
from eim_ros.nodes.common.service import (
    respond_later,
    respond_without_waiting,
)

LONG = 60.0  # [s]
CLIENT = bytes(15) + bytes([0x04])


class Bench:
    """Node with a service and node with clients, each on its executor."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.senders: list[int] = []  # threads that called rclpy's method for sending
        self.headers: list[Any] = []
        send = Service.send_response

        def watched(service: Service, response: Any, header: Any) -> None:
            if service.srv_name == "delivered":
                self.senders.append(threading.get_ident())
                self.headers.append(header)
            send(service, response, header)

        patch.setattr(Service, "send_response", watched)
        self.server, self.caller = (rclpy.create_node(name) for name in ("delivering_server", "delivered_client"))
        self.executors = [SingleThreadedExecutor(), SingleThreadedExecutor()]
        for executor, node in zip(self.executors, (self.server, self.caller), strict=True):
            executor.add_node(node)
        self.service = self.server.create_service(Trigger, "delivered", lambda request, response: response)

    def client(self) -> Client:
        made = self.caller.create_client(Trigger, "delivered")
        assert made.wait_for_service(LONG)
        return made

    def answered(self, client: Client) -> bool:
        """Return whether a call is answered if server and client run on this thread."""
        future = client.call_async(Trigger.Request())
        end = time.monotonic() + LONG
        while not future.done() and time.monotonic() < end:
            for executor in self.executors:
                executor.spin_once(0.01)
        return bool(future.done())

    def endpoints(self) -> set[bytes]:
        found = self.server.get_subscriptions_info_by_topic("rr/deliveredReply", no_mangle=True)
        return {bytes(each.endpoint_gid) for each in found}

    def close(self) -> None:
        for executor, node in zip(self.executors, (self.server, self.caller), strict=True):
            executor.shutdown()
            node.destroy_node()


@pytest.fixture
def bench(ros_environment: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = Bench(monkeypatch)
    yield made
    made.close()


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("is_async", [False, True])
def test_the_thread_of_the_executor_sends_nothing(bench: Bench, is_async: bool) -> None:
    """Two cases: an ordinary handler returns a response, and a response is sent while the request is received."""
    if is_async:
        respond_later(bench.server, bench.service, lambda pending: pending.send())
    respond_without_waiting(bench.server)
    client = bench.client()
    assert all(bench.answered(client) for _ in range(5))
    assert len(bench.senders) == 5
    assert threading.get_ident() not in bench.senders


def test_a_header_of_another_kind_has_no_address() -> None:
    assert client_of(SimpleNamespace(source_timestamp=1)) is None


def test_answers_to_clients_that_left_are_dropped(bench: Bench) -> None:
    respond_later(bench.server, bench.service, lambda pending: pending.send())
    left = bench.client()
    taken: list[tuple[Trigger.Request, Any]] = []
    for _ in range(5):
        left.call_async(Trigger.Request())

    def are_taken() -> bool:
        with bench.service.handle:
            request, header = bench.service.handle.service_take_request(Trigger.Request)
        if header is not None:
            taken.append((request, header))
        return len(taken) == 5

    wait_until(are_taken)
    bench.caller.destroy_client(left)
    wait_until(lambda: not bench.endpoints())
    before = DELIVERIES.n_dropped
    for request, header in taken:  # like the executor
        bench.service.send_response(bench.service.callback(request, Trigger.Response()), header)
    wait_until(lambda: DELIVERIES.n_dropped == before + 5)
    assert bench.senders == []
    assert bench.answered(bench.client())


class Endpoints:
    """Imitation of a node that knows some clients, and counts how often it is asked."""

    def __init__(self, *clients: bytes) -> None:
        self.clients, self.n_asked = clients, 0

    def resolve_service_name(self, name: str) -> str:
        return name

    def get_subscriptions_info_by_topic(self, topic: str, no_mangle: bool) -> list[SimpleNamespace]:
        self.n_asked += 1
        return [SimpleNamespace(endpoint_gid=[*client]) for client in self.clients]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace the clock of the module under test with a time that tests set."""
    told = SimpleNamespace(now=100.0)
    monkeypatch.setattr(delivery, "time", SimpleNamespace(monotonic=lambda: told.now))
    return told


def test_what_was_known_last_counts_when_the_node_cannot_be_asked(clock: SimpleNamespace) -> None:
    node = Endpoints(CLIENT)
    clients = Clients(_node(node), SimpleNamespace(srv_name="/it"))  # type: ignore[arg-type]
    assert clients.include(CLIENT, clock.now)
    node.get_subscriptions_info_by_topic = _raise  # type: ignore[method-assign]
    clock.now += 5.0
    assert clients.include(CLIENT, clock.now)
    assert not clients.include(bytes(16), clock.now)


@pytest.mark.parametrize("appears_after", [0.05, None])
def test_a_client_has_some_time_to_appear(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, appears_after: float | None
) -> None:
    node, sent = Endpoints(), []
    waiting: list[Callable[[], bool]] = []
    monkeypatch.setattr(DELIVERIES, "add", waiting.append)
    monkeypatch.setattr(delivery, "client_of", lambda header: CLIENT)
    mail = SimpleNamespace(
        node=node,
        send=lambda response, header: sent.append(response),
        clients=Clients(_node(node), SimpleNamespace(srv_name="/it")),  # type: ignore[arg-type]
    )
    envelope = Envelope(mail, object())  # type: ignore[arg-type]
    before = DELIVERIES.n_dropped
    envelope.send("the answer")
    (deliver,) = waiting
    while not deliver():
        assert envelope.is_awaited()
        assert clock.now < 100.2
        clock.now += 0.02
        if appears_after is not None and clock.now > 100.0 + appears_after:
            node.clients = (CLIENT,)
    assert sent == (["the answer"] if appears_after is not None else [])
    assert DELIVERIES.n_dropped - before == (appears_after is None)
    clock.now += 1.0
    assert envelope.is_awaited() == (appears_after is not None)


def _node(stand_in: Endpoints) -> Node:
    return stand_in  # type: ignore[return-value]


def _raise(topic: str, no_mangle: bool) -> list[SimpleNamespace]:
    raise RuntimeError("the context is shut down")
