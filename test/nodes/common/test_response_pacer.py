"""The pacer, without ROS's transport."""

from __future__ import annotations

import threading
from time import monotonic

import pytest

from eim_ros.nodes.common.deferred_service import Exchange
from eim_ros.nodes.common.response_pacer import ResponsePacer

N = 20  # more than are sent at once


def exchange(number: int) -> Exchange:
    return Exchange(number, None, monotonic(), lambda: None)


def test_one_answer_is_sent_by_the_thread_that_posts_it() -> None:
    senders: list[threading.Thread] = []
    pacer = ResponsePacer(lambda exchange: senders.append(threading.current_thread()))
    pacer.expect(exchange(0))
    pacer.post(exchange(0))
    assert senders == [threading.current_thread()]
    pacer.close()


@pytest.mark.parametrize("close_early", [False, True])
def test_answers_of_a_burst_are_all_sent_in_order(close_early: bool) -> None:
    sent: list[int] = []
    complete = threading.Event()

    def send(exchange: Exchange) -> None:
        sent.append(exchange.request)
        if len(sent) == N:
            complete.set()

    pacer = ResponsePacer(send)
    for number in range(N):
        pacer.expect(exchange(number))
    for number in range(N):
        pacer.post(exchange(number))
    assert close_early or complete.wait(10.0)
    pacer.close()
    assert sent == list(range(N))
