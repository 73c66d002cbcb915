"""If many requests arrive at once, each request is answered, possibly with BUSY, and the node stays responsive."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from nodes.client_node import ClientNode, request
from nodes.server_process import ServerProcess

from eim_ros.core.parallel import usable_cores
from eim_ros.ik import ErrorCode
from eim_ros.msg import IKGuarantee, IKSolutions
from eim_ros.srv import SampleIK, SolveAllIK

N = 200


def send_all(client: ClientNode, server: ServerProcess, messages: list[SampleIK.Request]) -> list[IKSolutions]:
    service = client.client(server, SampleIK, "/ik_server/sample_ik")
    return [answer.solutions for answer in client.results([service.call_async(message) for message in messages])]


@pytest.mark.parametrize(("threads", "queue_size"), [(1, 20), (3, 250)])
def test_none_of_200_concurrent_requests_is_lost(
    start_server: Callable[..., ServerProcess], client: ClientNode, threads: int, queue_size: int
) -> None:
    server = start_server(threads=threads, queue_size=queue_size)
    messages = [request(n_samples=1000 if index < 5 else 100, seed=7, timeout=30.0) for index in range(N)]
    answers = send_all(client, server, messages)
    codes = Counter(answer.error_code.val for answer in answers)
    assert set(codes) <= {ErrorCode.SUCCESS, ErrorCode.BUSY}, (codes, server.log)
    assert codes[ErrorCode.SUCCESS] >= queue_size or codes[ErrorCode.SUCCESS] == N
    served = [answer for answer in answers[5:] if answer.error_code.val == ErrorCode.SUCCESS]
    assert all(answer.positions == served[0].positions for answer in served)  # equal requests get equal answers
    for answer in answers:
        if answer.error_code.val == ErrorCode.BUSY:
            assert "queue_size" in answer.error_code.message
            assert answer.n == 0
    if queue_size >= N:
        assert codes[ErrorCode.SUCCESS] == N
    assert client.sample(server, request()).error_code.val == ErrorCode.SUCCESS
    assert server.stop() == 0, server.log


def test_requests_that_wait_when_the_node_ends_are_answered(
    start_server: Callable[..., ServerProcess], client: ClientNode
) -> None:
    """The running request is also answered, even if it would take longer than the node may take to end."""
    server = start_server(max_samples=1_000_000)
    service = client.client(server, SampleIK, "/ik_server/sample_ik")
    futures = [service.call_async(request(n_samples=1_000_000, timeout=25.0)) for _ in range(20)]
    while {item.key: item.value for item in client.diagnosis(server, "active").values}["requests open"] != "20":
        assert not any(future.done() for future in futures), server.log
    server.signal(signal.SIGINT)
    answers = [answer.solutions for answer in client.results(futures)]
    assert {answer.error_code.val for answer in answers} == {ErrorCode.FAILURE}
    assert {answer.error_code.message for answer in answers} == {
        "ik_server was shut down before the request was solved"
    }
    assert server.wait() == 0, server.log


def test_more_long_requests_than_cores_do_not_delay_short_ones(
    start_server: Callable[..., ServerProcess], client: ClientNode
) -> None:
    """Short requests are answered while all long requests are still running."""
    server = start_server(model="panda_pose", max_timeout=3600.0)
    unlikely = {"guarantee": IKGuarantee(kind=IKGuarantee.BOUND, missed_share=1e-9), "timeout": 3600.0}
    service = client.client(server, SolveAllIK, "/ik_server/solve_all_ik")
    long = [
        service.call_async(reachable_by_panda(SolveAllIK, position_only=False, **unlikely))
        for _ in range(usable_cores() + 1)
    ]
    assert client.state(server) == "active"  # other services also respond
    answers = [client.sample(server, reachable_by_panda(timeout=5.0)).error_code.val for _ in range(10)]
    assert set(answers) <= {ErrorCode.SUCCESS, ErrorCode.TIMED_OUT}, server.log  # busy machine: timeouts
    assert ErrorCode.SUCCESS in answers
    assert not any(future.done() for future in long), server.log
    assert server.stop() == 0, server.log
    assert {answer.solutions.error_code.val for answer in client.results(long)} == {ErrorCode.FAILURE}, server.log


def reachable_by_panda(service_type: Any = SampleIK, **fields: object) -> Any:
    asked = request((0.4, 0.1, 0.5), service_type, **fields)
    asked.header.frame_id = "panda_link0"
    asked.poses[0].orientation.x, asked.poses[0].orientation.w = 1.0, 0.0
    return asked


def test_a_client_that_reads_nothing_does_not_hold_back_the_answers_to_others(
    start_server: Callable[..., ServerProcess], client: ClientNode
) -> None:
    server = start_server()
    client.client(server, SampleIK, "/ik_server/sample_ik")
    deaf = ClientNode("deaf_client")
    for _ in range(200):  # more requests than the server can answer at once
        deaf.client(server, SampleIK, "/ik_server/sample_ik").call_async(request(n_samples=1, timeout=30.0))
    answers = [client.sample(server, request(n_samples=1)).error_code.val for _ in range(50)]
    deaf.destroy()
    assert set(answers) <= {ErrorCode.SUCCESS, ErrorCode.TIMED_OUT}, server.log
    assert ErrorCode.SUCCESS in answers
    assert server.stop() == 0, server.log


def test_a_second_server_of_one_name_is_refused_until_the_first_is_dead(
    start_server: Callable[..., ServerProcess], client: ClientNode
) -> None:
    first = start_server()
    assert client.sample(first, request()).error_code.val == ErrorCode.SUCCESS
    second = start_server()
    assert second.wait() == 1
    assert "another running node is also named /ik_server" in second.log
    first.kill()  # without notice, so the middleware lists the server for a few more seconds
    third = start_server()
    third.wait_for_log("serving")
    assert third.stop() == 0, third.log
