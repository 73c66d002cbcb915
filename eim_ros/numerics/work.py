"""How far a long computation is, told to whoever listens: a progress bar, or nobody.

What is computed deep below need not know of it: it tells how much of its work is done, in units of about equal cost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeAlias

__all__ = ["Listener", "listening", "tell"]

Listener: TypeAlias = Callable[[str, float, float], None]
"""Takes a name of the work, how much of it is done, and how much there is at most."""

_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let it hear what is told meanwhile, in this thread."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def tell(work: str, done: float, total: float) -> None:
    """Say that so much of a work is done, of at most `total`."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(work, done, total)
