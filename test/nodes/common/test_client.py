"""Calls always end with an answer or an error. They are repeated if a response is lost or the server is busy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import rclpy
from lifecycle_msgs.srv import GetState
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Future

from eim_ros.core.errors import ConfigurationError, ServiceError
from eim_ros.ik import ErrorCode
from eim_ros.nodes import RetryingClient, wait_until_active
from eim_ros.nodes.common.service import PendingResponse, create_async_service
from eim_ros.srv import SampleIK

LONG, SHORT = 60.0, 0.2  # [s]

Receive = Callable[[PendingResponse], None]


class Bench:
    """Service whose behaviour the test defines, and its client, on one executor."""

    def __init__(self) -> None:
        self.nodes = [rclpy.create_node(name) for name in ("retrying_server", "retrying_client")]
        self.executor = SingleThreadedExecutor()
        for node in self.nodes:
            self.executor.add_node(node)
        self.taken: list[PendingResponse] = []
        self.answer: Receive = lambda exchange: exchange.respond(exchange.response)
        create_async_service(self.nodes[0], SampleIK, "asked_again", self._receive)

    @property
    def client_node(self) -> Node:
        return self.nodes[1]

    def client(self, timeout: float, n_attempts: int = 3) -> RetryingClient:
        made = RetryingClient(self.client_node, SampleIK, "asked_again", timeout=timeout, n_attempts=n_attempts)
        assert made.wait_for_service(LONG)
        return made

    def finish(self, future: Future) -> SampleIK.Response:
        self.executor.spin_until_future_complete(future, LONG)
        return future.result()

    def close(self) -> None:
        self.executor.shutdown()
        for node in self.nodes:
            node.destroy_node()

    def _receive(self, exchange: PendingResponse) -> None:
        self.taken.append(exchange)
        self.answer(exchange)


@pytest.fixture
def bench(ros_environment: None) -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def request(number: int) -> SampleIK.Request:
    return SampleIK.Request(seed=number)


def answering(code: ErrorCode, n_lost: int = 0, then: ErrorCode = ErrorCode.SUCCESS) -> Receive:
    """Drop the first answers or send them with one error code. Send later answers with another code."""
    taken: list[PendingResponse] = []

    def receive(exchange: PendingResponse) -> None:
        taken.append(exchange)
        exchange.response.solutions.error_code.val = int(code if len(taken) <= n_lost else then)
        if code != ErrorCode.FAILURE or len(taken) > n_lost:
            exchange.respond(exchange.response)

    return receive


def test_lost_answers_are_asked_for_again(bench: Bench) -> None:
    client = bench.client(SHORT)
    bench.answer = answering(ErrorCode.FAILURE, n_lost=2)
    assert bench.finish(client.call_async(request(7))).solutions.error_code.val == ErrorCode.SUCCESS
    assert [exchange.request.seed for exchange in bench.taken] == [7, 7, 7]
    assert not list(bench.client_node.timers)


def test_busy_server_is_asked_again_and_its_last_answer_stays(bench: Bench) -> None:
    client = bench.client(LONG)
    bench.answer = answering(ErrorCode.BUSY, n_lost=2)
    assert bench.finish(client.call_async(request(1))).solutions.error_code.val == ErrorCode.SUCCESS
    bench.answer = answering(ErrorCode.BUSY, n_lost=3)
    assert bench.finish(client.call_async(request(1))).solutions.error_code.val == ErrorCode.BUSY
    assert len(bench.taken) == 6


def test_silence_ends_with_an_error_that_names_the_service(bench: Bench) -> None:
    client = bench.client(SHORT, n_attempts=2)
    bench.answer = lambda exchange: None
    with pytest.raises(ServiceError, match="service asked_again did not answer any of 2 requests within 0.2 s each"):
        bench.finish(client.call_async(request(1)))
    assert len(bench.taken) == 2
    assert not list(bench.client_node.timers)


def test_call_that_is_cancelled_asks_no_more(bench: Bench) -> None:
    client = bench.client(SHORT)
    bench.answer = lambda exchange: None
    future = client.call_async(request(1))
    while not bench.taken:
        bench.executor.spin_once(LONG)
    future.cancel()
    other = client.call_async(request(2))
    with pytest.raises(ServiceError):
        bench.finish(other)
    assert [exchange.request.seed for exchange in bench.taken] == [1, 2, 2, 2]


def test_coroutine_waits_for_the_answer(bench: Bench) -> None:
    client = bench.client(SHORT)
    bench.answer = answering(ErrorCode.FAILURE, n_lost=1)

    async def twice() -> list[int]:
        return [(await client.call_async(request(number))).solutions.error_code.val for number in (1, 2)]

    assert bench.finish(bench.executor.create_task(twice())) == [ErrorCode.SUCCESS] * 2


@pytest.mark.parametrize(("timeout", "n_attempts", "reason"), [(0.0, 3, "timeout"), (1.0, 0, "n_attempts")])
def test_bad_numbers_are_refused(bench: Bench, timeout: float, n_attempts: int, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        RetryingClient(bench.client_node, SampleIK, "asked_again", timeout=timeout, n_attempts=n_attempts)


def active(request: GetState.Request, response: GetState.Response) -> GetState.Response:
    response.current_state.label = "active"
    return response


@pytest.fixture
def nodes(ros_environment: None) -> Iterator[list[Node]]:
    """Create a node that waits for another node, and the other node, which is active."""
    made = [rclpy.create_node(name) for name in ("waiting_node", "active_node")]
    made[1].create_service(GetState, "~/get_state", active)
    yield made
    for node in made:
        node.destroy_node()


@pytest.mark.parametrize("is_in_one", [True, False])
def test_node_is_afterwards_in_the_executor_in_which_it_was(nodes: list[Node], is_in_one: bool) -> None:
    waiting, served = nodes
    own, other = SingleThreadedExecutor(), SingleThreadedExecutor()
    other.add_node(served)
    if is_in_one:
        own.add_node(waiting)
    wait_until_active(waiting, "/active_node", wait=LONG, executor=other)
    assert own.get_nodes() == ([waiting] if is_in_one else [])
    assert other.get_nodes() == [served]
    if is_in_one:
        spin(own, waiting)
    for executor in (own, other):
        executor.shutdown()


def spin(executor: SingleThreadedExecutor, node: Node) -> None:
    """Spin until the executor has run a timer of the node."""
    ticks: list[int] = []
    timer = node.create_timer(0.001, lambda: ticks.append(1))
    end = time.monotonic() + LONG
    while not ticks:
        assert time.monotonic() < end
        executor.spin_once(0.1)
    node.destroy_timer(timer)
