"""Deadlines of calls.

If work cannot be interrupted, its duration is estimated before it begins. `OutOfTime` is raised if the remaining time
is too short. A deadline is a time of `perf_counter` [s]; infinity means that there is no deadline.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from eim_ros.core.errors import EimError

NEVER = math.inf
GRACE = 0.02  # time that preparations may take even after the deadline, which is enough for small scenes [s]
DOUBT = 1.25  # safety factor of estimates

clock: Callable[[], float] = time.perf_counter


class OutOfTime(EimError):
    """Error for a call that cannot finish within its timeout."""


def is_past(deadline: float) -> bool:
    """Return whether a deadline has passed."""
    return deadline != NEVER and clock() >= deadline


def with_grace(deadline: float) -> float:
    """Return the deadline of preparations: `deadline`, but at least `GRACE` from now."""
    return deadline if deadline == NEVER else max(deadline, clock() + GRACE)


def check_time(deadline: float, what: str, seconds: float = 0.0) -> None:
    """Raise `OutOfTime` if there is not enough time for some work before a deadline.

    The deadline is a time of `perf_counter` [s]. `what` is an infinitive that names the work in the error message.
    `seconds` is the estimated duration of the work; with 0, only the deadline is checked.
    """
    if deadline == NEVER:
        return
    left = deadline - clock()
    if left <= seconds:
        takes = f", which takes about {seconds:.2g} s" if seconds > 0.0 else ""
        raise OutOfTime(
            f"no time was left to {what}{takes}: give one call a longer timeout, because later calls reuse its "
            "preparations, or simplify the scene",
            max(left, 0.0),
        )


class Effort:
    """Estimate of the duration of work, updated with the durations of finished work.

    The duration of work of size n is assumed to be proportional to n log2(n + 2). `seconds` is the initial factor [s].
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def seconds(self, size: float) -> float:
        """Return the estimated duration of work of this size [s], including the safety factor."""
        return self.factor * size * math.log2(size + 2.0)

    @property
    def factor(self) -> float:
        """Estimated duration of work of size n, divided by n log2(n + 2) [s]."""
        return DOUBT * self._seconds

    def took(self, size: float, seconds: float) -> None:
        """Update the estimate with the duration of finished work [s]. Work below 1 ms or of size 0 is ignored."""
        if seconds > 1e-3 and size > 0.0:
            self._seconds = 0.5 * (self._seconds + seconds / (size * math.log2(size + 2.0)))
