"""When the next answer may be sent, so that its client, and those that receive it beside, can keep up with reading.

Answers are held back so that none pushes out another that is unread, see `UnreadAnswers`. And a client that sends many
requests in one go reads nothing meanwhile: once more requests are open than a client can lose, answers are held until
the number of open requests has stopped growing. When all is answered the burst is over.

A request that was received before an answer to another one was sent counts as if that one were still open: its client
has not asked because of that answer. So a server that answers as fast as it reads recognises a burst, too.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

from eim_ros.nodes.common.unread_answers import UnreadAnswers

__all__ = ["Pacing"]

_FEW = 8  # open requests of which no answer can be lost: fewer than the 10 answers that a client keeps
_QUIET = 0.03  # [s] without growth after which a burst is taken to be complete; a sender may have to wait for a core
_LONGEST_HOLD = 0.3  # [s] from the begin of a burst on
_MANY = 1000  # open requests beyond which nothing is delayed: no client waits for all of them


class Pacing:
    """Counts the open requests of one service and tells how long the next answer must wait; not for several threads.

    Parameters
    ----------
    clock : callable
        Returns the time [s].
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._n_open = 0
        self._peak = _FEW  # largest number of open requests in this burst
        self._began = self._grown = -math.inf  # [s] begin and last growth of the burst
        self._sent = deque([-math.inf], maxlen=_FEW)  # [s] times of the last answers
        self._unread = UnreadAnswers()

    def arrived(self, number: int, received: float = math.inf) -> None:
        """Count a request, the how many-th of its client, `received` [s] at that time of the clock.

        Infinite: after all answers so far.
        """
        now = self._clock()
        self._unread.asked(number, min(received, now), now)
        self._n_open += 1
        n_open = self._n_open + sum(sent > received for sent in self._sent)
        if n_open > self._peak:
            self._grown = now
            if self._peak == _FEW:
                self._began = self._grown
            self._peak = n_open

    def delay(self, deadline: float = math.inf) -> float:
        """Time [s] which the next answer must wait; a burst is not held beyond `deadline` [s], of the clock."""
        if self._n_open > _MANY:
            return 0.0
        now = self._clock()
        held_until = min(self._grown + _QUIET, self._began + _LONGEST_HOLD, deadline)
        return max(0.0, self._unread.free_at(now) - now, (held_until - now) if self._peak > _FEW else 0.0)

    def sent(self, number: int) -> None:
        """Count an answer to a request, the how many-th of its client."""
        now = self._clock()
        self._unread.sent(number, now)
        self._n_open -= 1
        self._sent.append(now)
        if self._n_open == 0:
            self._peak = _FEW
