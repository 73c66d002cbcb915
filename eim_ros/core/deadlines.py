"""Deadlines of calls: work that cannot be interrupted is estimated first, and ends in `OutOfTime` if it is too long.

A deadline is a time of `perf_counter` [s]; infinite means none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from eim_ros.core.errors import EimError

NEVER = math.inf
GRACE = 0.02  # [s] that preparations may take, however short the timeout is: small scenes are ready by then
DOUBT = 1.25  # estimates are multiplied by it

clock: Callable[[], float] = time.perf_counter


class OutOfTime(EimError):
    """A call could not finish within its timeout."""


def is_past(deadline: float) -> bool:
    """Whether a deadline is over."""
    return deadline != NEVER and clock() >= deadline


def with_grace(deadline: float) -> float:
    """The deadline of preparations: `deadline`, but at least GRACE from now."""
    return deadline if deadline == NEVER else max(deadline, clock() + GRACE)


def check_time(deadline: float, what: str, seconds: float = 0.0) -> None:
    """Raise `OutOfTime` if a deadline is over, or would be after `seconds` more, naming what there is no time for."""
    if deadline == NEVER:
        return
    left = deadline - clock()
    if left <= seconds:
        takes = f", which takes about {seconds:.2g} s" if seconds > 0.0 else ""
        raise OutOfTime(
            f"no time was left to {what}{takes}: give a longer timeout once, what is prepared is kept; or simplify the "
            "scene",
            max(left, 0.0),
        )


class Effort:
    """Estimates how long work of a size takes, by how long it took before.

    Parameters
    ----------
    seconds : float
        Initial guess for one unit of work [s].
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def seconds(self, size: float) -> float:
        """Estimated duration of work of a size [s], on the safe side."""
        return DOUBT * self._seconds * size * math.log2(size + 2.0)

    def took(self, size: float, seconds: float) -> None:
        """Update the estimate with the duration of finished work; work below 1 ms is too short to measure."""
        if seconds > 1e-3:
            self._seconds = 0.5 * (self._seconds + seconds / (size * math.log2(size + 2.0)))
