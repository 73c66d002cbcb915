"""Jobs that cannot be done yet wait here for what they need, and keep no worker thread meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["WaitingRoom"]

Job = TypeVar("Job")

_PERIOD = 0.005  # [s] between two looks at what is missing


@dataclass(frozen=True, eq=False)
class _Waiting(Generic[Job]):
    job: Job
    is_ready: Callable[[], bool]
    until: float


class WaitingRoom(Generic[Job]):
    """One thread, which sleeps while nobody waits.

    Parameters
    ----------
    resume : callable
        Called with each job, on that thread, when it is ready or has waited long enough; must not raise.
    size : int
        Most jobs that may wait.
    """

    def __init__(self, resume: Callable[[Job], None], size: int) -> None:
        self._resume = resume
        self._size = size
        self._waiting: list[_Waiting[Job]] = []
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="waiting-room", daemon=True)
        self._thread.start()

    def enter(self, job: Job, is_ready: Callable[[], bool], until: float) -> bool:
        """Wait until `is_ready`, which must not raise, or until a time of `time.monotonic` [s]; False without room."""
        with self._changed:
            if self._closed or len(self._waiting) >= self._size:
                return False
            self._waiting.append(_Waiting(job, is_ready, until))
            self._changed.notify()
        return True

    def close(self) -> list[Job]:
        """End the thread; returns those that still wait."""
        with self._changed:
            self._closed = True
            left, self._waiting = self._waiting, []
            self._changed.notify()
        self._thread.join()
        return [each.job for each in left]

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                present = list(self._waiting)
            now = time.monotonic()
            done = [each for each in present if now >= each.until or each.is_ready()]
            with self._changed:
                done = [each for each in done if each in self._waiting]  # `close` may have taken them
                self._waiting = [each for each in self._waiting if each not in done]
            for each in done:
                self._resume(each.job)
            time.sleep(_PERIOD)
