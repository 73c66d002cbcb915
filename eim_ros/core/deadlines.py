"""Deadlines of calls.

If work cannot be interrupted, its duration is estimated before it begins, and `OutOfTime` is raised if the time left is
too short. A deadline is a time of `perf_counter` [s]; infinity means that there is no deadline.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from eim_ros.core.errors import EimError

NEVER = math.inf
GRACE = 0.02  # [s] time that preparations may take even after the deadline; it is enough for small scenes
DOUBT = 1.25  # safety factor of estimates

clock: Callable[[], float] = time.perf_counter


class OutOfTime(EimError):
    """A call could not finish within its timeout."""


def is_past(deadline: float) -> bool:
    """Return whether a deadline has passed."""
    return deadline != NEVER and clock() >= deadline


def with_grace(deadline: float) -> float:
    """Return the deadline of preparations: `deadline`, but at least `GRACE` from now."""
    return deadline if deadline == NEVER else max(deadline, clock() + GRACE)


def check_time(deadline: float, what: str, seconds: float = 0.0) -> None:
    """Raise `OutOfTime` if a deadline leaves no time for some work.

    The deadline is a time of `perf_counter` [s]. The error message names the work with the infinitive `what`. The
    estimated duration of the work is `seconds`, and 0 checks only the deadline.
    """
    if deadline == NEVER:
        return
    left = deadline - clock()
    if left <= seconds:
        takes = f", which takes about {seconds:.2g} s" if seconds > 0.0 else ""
        raise OutOfTime(
            f"no time was left to {what}{takes}: give one call a longer timeout (later calls "
            "reuse its preparations), or simplify the scene",
            max(left, 0.0),
        )


class Effort:
    """Estimate of how long work takes, learned from the work done so far.

    The cost of work of size n is assumed to grow as n log n. `seconds` is the initial guess of the factor of n log2(n +
    2) [s].
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def seconds(self, size: float) -> float:
        """Return the estimated duration of work of a size [s], including the safety factor."""
        return self.factor * size * math.log2(size + 2.0)

    @property
    def factor(self) -> float:
        """Factor of n log2(n + 2) in the estimate for work of size n [s]."""
        return DOUBT * self._seconds

    def took(self, size: float, seconds: float) -> None:
        """Update the estimate with the duration of finished work [s]; ignore work below 1 ms or of size 0."""
        if seconds > 1e-3 and size > 0.0:
            self._seconds = 0.5 * (self._seconds + seconds / (size * math.log2(size + 2.0)))
