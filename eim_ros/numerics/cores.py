"""How many threads may work at once."""

from __future__ import annotations

import os

from eim_ros.errors import ConfigurationError

__all__ = ["checked_threads", "usable_cores"]

MOST_THREADS = 1024


def usable_cores() -> int:
    """Cores that this process may run on, which a container or `taskset` makes fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def checked_threads(n_threads: int | None) -> int:
    """A number of threads, 1 to 1024; all cores if None. `ConfigurationError` otherwise."""
    if n_threads is None:
        return usable_cores()
    if isinstance(n_threads, bool) or not isinstance(n_threads, int) or not 1 <= n_threads <= MOST_THREADS:
        raise ConfigurationError(
            f"n_threads must be a whole number from 1 to {MOST_THREADS}, got {n_threads!r}", n_threads
        )
    return n_threads
