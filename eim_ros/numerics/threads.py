"""Number of threads of torch while our loops run: one, for the same numbers on every machine and less work.

The matrices are small: several threads wait for each other most of the time, which costs up to five times as much CPU,
and more where the machine does something else too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

import torch

from eim_ros.numerics.arguments import checked_whole

__all__ = ["default_threads", "torch_threads", "use_torch_threads"]

_chosen: ContextVar[int | None] = ContextVar("threads of torch", default=None)


@contextlib.contextmanager
def torch_threads(n: int | None = None) -> Iterator[None]:
    """Run a block, or as `@torch_threads()` a function, with n threads of torch; afterwards it has as many as before.

    Every fit is such a function, without a number of its own: `with torch_threads(4): EIM(config).fit(data)` decides.

    Parameters
    ----------
    n : int, optional
        >= 1. If missing: the number of the enclosing block or of `use_torch_threads`, else `default_threads`.
    """
    number = _chosen.get() or default_threads() if n is None else checked_whole(n, 1, "the number of threads")
    before, token = torch.get_num_threads(), _chosen.set(number)
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _chosen.reset(token)


def use_torch_threads(n: int) -> None:
    """Let everything that follows use n >= 1 threads of torch, fits included."""
    _chosen.set(checked_whole(n, 1, "the number of threads"))
    torch.set_num_threads(n)


def default_threads() -> int:
    """What the environment variable OMP_NUM_THREADS says, else one."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return max(1, int(first)) if first.isdecimal() else 1
