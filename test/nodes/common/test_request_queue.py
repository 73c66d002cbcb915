"""The bounded queue, without ROS."""

from __future__ import annotations

import threading
import time

import pytest

from eim_ros.nodes.common.request_queue import RequestQueue


def test_jobs_are_served_in_order() -> None:
    served: list[int] = []
    queue = RequestQueue(served.append, forbidden, n_threads=1, size=100)
    assert all(queue.offer(job) for job in range(100))
    wait_for_idle(queue)
    assert served == list(range(100))
    assert queue.close(5.0)


@pytest.mark.parametrize(("n_threads", "size"), [(1, 1), (2, 3)])
def test_jobs_beyond_threads_and_size_are_refused_until_one_is_done(n_threads: int, size: int) -> None:
    gate = threading.Event()
    queue: RequestQueue[int] = RequestQueue(lambda job: wait(gate), [].append, n_threads, size)
    assert [queue.offer(job) for job in range(n_threads + size + 2)] == [True] * (n_threads + size) + [False] * 2
    gate.set()
    wait_for_idle(queue)
    assert queue.offer(0)
    assert queue.close(5.0)


def test_close_gives_up_waiting_jobs_and_reports_a_busy_worker() -> None:
    gate, started = threading.Event(), threading.Event()
    served: list[int] = []
    given_up: list[int] = []

    def serve(job: int) -> None:
        started.set()
        wait(gate)
        served.append(job)

    queue = RequestQueue(serve, given_up.append, n_threads=1, size=5)
    for job in range(3):
        queue.offer(job)
    assert started.wait(5.0)
    assert not queue.close(0.01)
    assert given_up == [1, 2]
    gate.set()
    assert queue.close(5.0)
    assert served == [0]
    assert queue.n_open == 0
    assert not queue.offer(9)


def test_each_job_is_served_or_given_up_once_when_the_queue_is_closed_meanwhile() -> None:
    for _ in range(30):
        served: list[int] = []
        given_up: list[int] = []
        refused: list[int] = []
        queue: RequestQueue[int] = RequestQueue(served.append, given_up.append, n_threads=2, size=400)

        def offer_all(queue: RequestQueue[int] = queue, refused: list[int] = refused) -> None:
            refused += [job for job in range(300) if not queue.offer(job)]

        giver = threading.Thread(target=offer_all)
        giver.start()
        assert queue.close(5.0)
        giver.join()
        assert sorted(served + given_up + refused) == list(range(300))


def forbidden(job: int) -> None:
    raise AssertionError(f"job {job} was given up")


def wait(gate: threading.Event) -> None:
    assert gate.wait(10.0)


def wait_for_idle(queue: RequestQueue[int]) -> None:
    end = time.monotonic() + 10.0
    while queue.n_open and time.monotonic() < end:
        time.sleep(0.005)
    assert queue.n_open == 0
