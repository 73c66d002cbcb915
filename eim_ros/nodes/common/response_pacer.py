"""Answers of a service on their way out: sent at once by whoever brings them, or by a thread when `Pacing` says so."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from eim_ros.nodes.common.deferred_service import Exchange
from eim_ros.nodes.common.pacing import Pacing

__all__ = ["ResponsePacer"]


class ResponsePacer:
    """Every exchange is to be announced by `expect` when it arrives and handed over by `post` when it is answered.

    Parameters
    ----------
    send : callable
        Sends the answer of one exchange, on the thread that posts or on that of the pacer; must not raise.
    """

    def __init__(self, send: Callable[[Exchange], None]) -> None:
        self._send = send
        self._pacing = Pacing()
        self._waiting: deque[Exchange] = deque()
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="response-pacer", daemon=True)
        self._thread.start()

    def expect(self, exchange: Exchange) -> None:
        """Count a request."""
        with self._changed:
            self._pacing.arrived(exchange.number, exchange.received)

    def post(self, exchange: Exchange) -> None:
        """Send the answer now if it need not wait, else soon. Never blocks."""
        with self._changed:
            if self._waiting or (not self._closed and self._pacing.delay(exchange.deadline) > 0.0):
                self._waiting.append(exchange)
                self._changed.notify()
                return
            self._pacing.sent(exchange.number)
        self._send(exchange)

    def close(self) -> None:
        """Send all that waits, without gaps."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while (exchange := self._next()) is not None:
            self._send(exchange)

    def _next(self) -> Exchange | None:
        """The next exchange when its time has come; None when closed and empty."""
        with self._changed:
            while not (self._waiting and self._closed):
                if self._closed:
                    return None
                delay = self._pacing.delay(self._waiting[0].deadline) if self._waiting else None
                if delay == 0.0:
                    break
                self._changed.wait(delay)
            exchange = self._waiting.popleft()
            self._pacing.sent(exchange.number)
            return exchange
