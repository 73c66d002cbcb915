"""Answers that a client may not have read yet, and when the next one may be sent without pushing one of them out.

Each client of a service receives the answers to all of its clients, and keeps the last 10 that it has not looked at
unless it is told otherwise: whose answer it is, it finds out when it looks. So an answer that is followed by 10 others
before its client looks is lost. Here no answer is followed by more than 9 until it is known to be read, or its client
has had the time to: some times as long as this process needed to read a request, for a computer that keeps one process
waiting keeps the others waiting, too.

A client that asks again has read: a request with number k of its client, received after the answer to a request with
number k - 1 was sent, tells that such an answer was read. Clients are told apart by these numbers alone (rclpy does not
tell more), so of several answers with the same number the last is taken to be read: the others hold the server back
until their clients ask, too. Where request k - 1 is still open, its client has several under way, and k - 2 counts.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

__all__ = ["UnreadAnswers"]

MOST_AFTER = 9  # answers that may follow one which is unread; with it they are the 10 that a client keeps
LEAST_TIME, MOST_TIME = 0.05, 1.0  # [s] that a client has to read
FIRST_TIME = 0.25  # [s] after its first request: it has just started, and may never ask again
SLOWNESS = 4.0  # a client has this many times as long as the server itself took to read a request
N_TIMES = 64  # of the last requests, of which the longest time counts
MOST_UNDER_WAY = 8  # requests of a client, beyond which it is not followed
MOST_FOLLOWED = 1000  # answers


@dataclass(eq=False)
class _Answer:
    """Of a request with a number; `sent` [s] is infinite until it is."""

    number: int
    sent: float
    index: int


class UnreadAnswers:
    """Counts answers; not safe to be used by threads at once. Times [s] are of one clock."""

    def __init__(self) -> None:
        self._n_sent = 0
        self._unread: deque[_Answer] = deque(maxlen=MOST_FOLLOWED)  # in the order of sending
        self._late: Counter[int] = Counter()  # how many of each number there are whose clients had the time to read
        self._open: Counter[int] = Counter()  # how many requests of each number are not answered
        self._times: deque[float] = deque(maxlen=N_TIMES)  # [s] in which requests were read

    def asked(self, number: int, received: float, now: float) -> None:
        """Count a request with a number of its client, received by the middleware at a time and read now."""
        self._times.append(now - received)
        for earlier in range(number - 1, max(0, number - 1 - MOST_UNDER_WAY), -1):
            if self._late[earlier]:
                self._late[earlier] -= 1
                break
            last = next((answer for answer in reversed(self._unread) if answer.number == earlier), None)
            if last is not None and last.sent < received:
                self._unread.remove(last)
                break
            if last is None and not self._open[earlier]:
                break
        self._open[number] += 1

    def sent(self, number: int, now: float) -> None:
        """Count an answer to a request with a number."""
        self._open[number] -= 1
        if not self._open[number]:
            del self._open[number]
        self._unread.append(_Answer(number, now, self._n_sent))
        self._n_sent += 1

    def free_at(self, now: float) -> float:
        """When the next answer may be sent: a time [s], in the past where it need not wait."""
        while self._unread and self._late_at(self._unread[0]) <= now:
            self._late[self._unread.popleft().number] += 1
            if len(self._late) > MOST_FOLLOWED:  # of clients that never came back, mostly
                self._late.clear()
        if self._unread and self._n_sent - self._unread[0].index > MOST_AFTER:
            return self._late_at(self._unread[0])
        return now

    def _late_at(self, answer: _Answer) -> float:
        """When the client of an answer has had the time to read."""
        given = min(max(SLOWNESS * max(self._times, default=0.0), LEAST_TIME), MOST_TIME)
        return answer.sent + (max(given, FIRST_TIME) if answer.number == 1 else given)
