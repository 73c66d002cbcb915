"""When the next answer may be sent, so that a client which asks for much at once can keep up with reading.

A client keeps the last 10 answers it has not read, unless it is told otherwise, and DDS drops older ones silently. Who
sends many requests in one go reads nothing meanwhile, and about one answer each millisecond afterwards. So once more
requests are open than such a client can lose, answers are held until the number of open requests has stopped growing,
and then sent with a gap. The gap is left out after a request that came in between: clients that ask again have read
their answers. When all is answered the burst is over. With few requests open nothing is delayed.

A request that was received before an answer to another one was sent counts as if that one were still open: its client
has not asked because of that answer. So a server that answers as fast as it reads recognises a burst, too.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

__all__ = ["Pacing"]

_FEW = 8  # open requests of which no answer can be lost: fewer than the 10 answers that a client keeps
_QUIET = 0.03  # [s] without growth after which a burst is taken to be complete; a sender may have to wait for a core
_LONGEST_HOLD = 0.3  # [s] from the begin of a burst on
_GAP = 0.004  # [s] between two answers; 10 of them are how long a client may be kept from reading
_MANY = 1000  # open requests beyond which nothing is delayed: no client waits for all of them


class Pacing:
    """Counts open requests and tells how long the next answer must wait; not safe to be used by threads at once.

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
        self._asked_again = False  # the last request came for an answer, and not on top of all others

    def arrived(self, received: float = math.inf) -> None:
        """Count a request, `received` [s] at that time of the clock; infinite: after all answers so far."""
        self._n_open += 1
        n_open = self._n_open + sum(sent > received for sent in self._sent)
        if n_open > self._peak:
            self._grown = self._clock()
            if self._peak == _FEW:
                self._began = self._grown
            self._peak = n_open
            self._asked_again = False
        else:
            self._asked_again = True

    def delay(self, deadline: float = math.inf) -> float:
        """Time [s] which the next answer must wait; it is not held beyond `deadline` [s], of the clock."""
        if self._peak == _FEW or self._n_open > _MANY:
            return 0.0
        held_until = min(self._grown + _QUIET, self._began + _LONGEST_HOLD, deadline)
        gap_until = -math.inf if self._asked_again else self._sent[-1] + _GAP
        return max(0.0, max(held_until, gap_until) - self._clock())

    def sent(self) -> None:
        """Count an answer."""
        self._n_open -= 1
        self._asked_again = False
        self._sent.append(self._clock())
        if self._n_open == 0:
            self._peak = _FEW
