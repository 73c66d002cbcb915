"""A bounded queue in front of worker threads: no job is forgotten.

What does not fit is refused at once; what still waits when the queue is closed is given up, by who can answer it.

A node's executor thread only offers jobs here, so it stays free to refuse further ones, to answer lifecycle calls and
to publish diagnostics while the compiled work (which releases the interpreter lock) runs.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["RequestQueue"]

Job = TypeVar("Job")


class RequestQueue(Generic[Job]):
    """First in, first out; at most `size` jobs wait while `n_threads` are served.

    Parameters
    ----------
    serve : callable
        Called with one job on a worker thread; must not raise.
    give_up : callable
        Called with each job that waits when the queue is closed, so that it is answered too; must not raise.
    n_threads : int
        Worker threads, at least 1.
    size : int
        Jobs that may wait, at least 1.
    """

    def __init__(self, serve: Callable[[Job], None], give_up: Callable[[Job], None], n_threads: int, size: int) -> None:
        self._serve = serve
        self._give_up = give_up
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._size = size
        self._lock = threading.Lock()
        self._n_open = 0
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"request-{index}", daemon=True) for index in range(n_threads)
        ]
        for thread in self._threads:
            thread.start()

    def offer(self, job: Job) -> bool:
        """Take the job, or return False when as many as allowed are waiting, or after `close`."""
        with self._lock:
            if self._closed or self._n_open >= self._size + len(self._threads):
                return False
            self._n_open += 1
            self._jobs.put(job)  # within the lock: nothing comes behind what ends the workers
        return True

    @property
    def n_open(self) -> int:
        """Jobs that wait or are being served."""
        return self._n_open

    def close(self, timeout: float) -> bool:
        """Give up what waits and join the workers; False when one is still busy after `timeout` [s]."""
        with self._lock:
            self._closed = True  # nothing is added any more
        with contextlib.suppress(queue.Empty):
            while True:
                self._end(self._jobs.get_nowait(), self._give_up)
        for _ in self._threads:
            self._jobs.put(None)
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            self._end(job, self._give_up if self._closed else self._serve)

    def _end(self, job: Job | None, way: Callable[[Job], None]) -> None:
        if job is None:  # of an earlier `close`
            return
        try:
            way(job)
        finally:
            with self._lock:
                self._n_open -= 1
