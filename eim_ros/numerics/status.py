"""Outcome of an iterative computation, as data."""

from __future__ import annotations

from enum import Enum

__all__ = ["Status"]


class Status(str, Enum):
    """How an iteration ended. A status is returned, never raised."""

    CONVERGED = "converged"
    MAX_ITERATIONS = "max_iterations"
    STALLED = "stalled"
    NON_FINITE = "non_finite"
    INTERRUPTED = "interrupted"
