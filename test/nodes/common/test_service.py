"""Tests of the pool of workers and of error descriptions, without ROS."""

from __future__ import annotations

import threading
import time

import pytest

from eim_ros.core.errors import ConfigurationError, EimError
from eim_ros.nodes.common.service import RequestPool, reason_of


def test_jobs_are_served_in_order() -> None:
    served: list[int] = []
    pool = RequestPool(served.append, forbidden, n_threads=1, size=100)
    assert all(pool.offer(job) for job in range(100))
    wait_for_idle(pool)
    assert served == list(range(100))
    assert pool.close(5.0)


@pytest.mark.parametrize(("n_threads", "size"), [(1, 1), (2, 3)])
def test_jobs_beyond_threads_and_size_are_refused_until_one_is_done(n_threads: int, size: int) -> None:
    gate = threading.Event()
    pool: RequestPool[int] = RequestPool(lambda job: wait(gate), [].append, n_threads, size)
    assert [pool.offer(job) is not None for job in range(n_threads + size + 2)] == [True] * (n_threads + size) + [
        False
    ] * 2
    gate.set()
    wait_for_idle(pool)
    assert pool.offer(0)
    assert pool.close(5.0)


def test_close_gives_up_waiting_jobs_and_reports_a_busy_worker() -> None:
    gate, started = threading.Event(), threading.Event()
    served: list[int] = []
    given_up: list[int] = []

    def serve(job: int) -> None:
        started.set()
        wait(gate)
        served.append(job)

    pool = RequestPool(serve, given_up.append, n_threads=1, size=5)
    for job in range(3):
        pool.offer(job)
    assert started.wait(5.0)
    assert not pool.close(0.01)
    assert given_up == [1, 2]
    gate.set()
    assert pool.close(5.0)
    assert served == [0]
    assert pool.n_open == 0
    assert not pool.offer(9)


def test_each_job_is_served_or_given_up_once_when_the_pool_is_closed_meanwhile() -> None:
    for _ in range(30):
        served: list[int] = []
        given_up: list[int] = []
        refused: list[int] = []
        pool: RequestPool[int] = RequestPool(served.append, given_up.append, n_threads=2, size=400)

        def offer_all(pool: RequestPool[int] = pool, refused: list[int] = refused) -> None:
            refused += [job for job in range(300) if not pool.offer(job)]

        giver = threading.Thread(target=offer_all)
        giver.start()
        assert pool.close(5.0)
        giver.join()
        assert sorted(served + given_up + refused) == list(range(300))


def test_long_requests_do_not_delay_short_ones() -> None:
    """There are more long requests than threads, and the queue for long requests is full."""
    gate, done = threading.Event(), threading.Event()
    pool: RequestPool[str] = RequestPool(lambda job: wait(gate) if job == "long" else done.set(), [].append, 2, 3)
    assert [pool.offer("long", budget=30.0) is not None for _ in range(6)] == [True] * 5 + [False]
    assert pool.offer("short", budget=0.1)
    assert done.wait(10.0)
    gate.set()
    assert pool.close(5.0)


@pytest.mark.parametrize("budget", [0.0, 1e-300, 1e300])
def test_budgets_of_any_size_are_served(budget: float) -> None:
    served = threading.Event()
    pool: RequestPool[int] = RequestPool(lambda job: served.set(), [].append, n_threads=1, size=1)
    assert pool.offer(0, budget)
    assert served.wait(10.0)
    assert pool.close(5.0)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConfigurationError("give the robot once,\n   not twice"), "give the robot once, not twice"),
        (EimError(""), "internal error: EimError:"),
        (KeyError("joint"), "internal error: KeyError: 'joint'"),
        (ValueError("two\nlines"), "internal error: ValueError: two lines"),
    ],
)
def test_reason_is_one_line(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason


def forbidden(job: int) -> None:
    raise AssertionError(f"job {job} was given up")


def wait(gate: threading.Event) -> None:
    assert gate.wait(10.0)


def wait_for_idle(pool: RequestPool[int]) -> None:
    end = time.monotonic() + 10.0
    while pool.n_open and time.monotonic() < end:
        time.sleep(0.005)
    assert pool.n_open == 0
