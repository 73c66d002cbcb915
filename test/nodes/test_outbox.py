"""The outbox, without ROS's transport."""

from __future__ import annotations

import threading
from time import monotonic

import pytest

from eim_ros.nodes.deferred_service import Exchange
from eim_ros.nodes.outbox import Outbox

N = 20  # more than are sent at once


def exchange(number: int) -> Exchange:
    return Exchange(number, None, monotonic(), lambda: None)


def test_one_answer_is_sent_by_the_thread_that_posts_it() -> None:
    senders: list[threading.Thread] = []
    outbox = Outbox(lambda exchange: senders.append(threading.current_thread()))
    outbox.expect(exchange(0))
    outbox.post(exchange(0))
    assert senders == [threading.current_thread()]
    outbox.close()


@pytest.mark.parametrize("close_early", [False, True])
def test_answers_of_a_burst_are_all_sent_in_order(close_early: bool) -> None:
    sent: list[int] = []
    complete = threading.Event()

    def send(exchange: Exchange) -> None:
        sent.append(exchange.request)
        if len(sent) == N:
            complete.set()

    outbox = Outbox(send)
    for number in range(N):
        outbox.expect(exchange(number))
    for number in range(N):
        outbox.post(exchange(number))
    assert close_early or complete.wait(10.0)
    outbox.close()
    assert sent == list(range(N))
