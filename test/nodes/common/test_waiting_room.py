"""Jobs that wait: resumed when they are ready or out of time, and given back at the end; each exactly once."""

from __future__ import annotations

import math
import threading
import time

from eim_ros.nodes.common.waiting_room import WaitingRoom

PATIENCE = 30.0  # [s] on a machine that may be busy


def until(condition) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_jobs_are_resumed_when_they_are_ready_in_whatever_order() -> None:
    resumed: list[int] = []
    ready = [threading.Event() for _ in range(3)]
    room = WaitingRoom(resumed.append, 3)
    for job, event in enumerate(ready):
        assert room.enter(job, event.is_set, math.inf)
    for job in (1, 0):
        ready[job].set()
        until(lambda job=job: job in resumed)
    assert (resumed, room.close()) == ([1, 0], [2])
    assert not room.enter(3, lambda: True, math.inf)


def test_job_that_is_never_ready_is_resumed_when_its_time_is_over() -> None:
    resumed: list[str] = []
    room = WaitingRoom(resumed.append, 1)
    assert room.enter("job", lambda: False, time.monotonic() + 0.05)
    until(lambda: resumed)
    assert room.close() == []


def test_no_more_enter_than_there_is_room() -> None:
    room = WaitingRoom(lambda job: None, 2)
    assert [room.enter(job, lambda: False, math.inf) for job in range(3)] == [True, True, False]
    assert room.close() == [0, 1]


def test_each_job_is_resumed_or_given_back_once_while_the_room_is_closed() -> None:
    for _ in range(20):
        resumed: list[int] = []
        room = WaitingRoom(resumed.append, 100)
        entered = [job for job in range(100) if room.enter(job, lambda: True, math.inf)]
        assert sorted([*room.close(), *resumed]) == entered
