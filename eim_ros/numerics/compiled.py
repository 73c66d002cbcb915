"""Decorators for compiled kernels: numba, without the interpreter lock, cached on disk where a disk can be written.

`fastmath` is limited to flags that keep NaN and infinity: a product may be fused or reordered, never assumed finite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

__all__ = ["compiled", "compiled_exactly"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def compiled(function: FunctionT) -> FunctionT:
    """Compile on first call; the machine code is reused by later processes.

    The cache lies beside the source, else in the user's cache folder, or where `NUMBA_CACHE_DIR` says. Where none of
    them can be written the function still works and is compiled once per process.
    """
    return _compiled(function, {"contract", "reassoc", "arcp", "nsz"})


def compiled_exactly(function: FunctionT) -> FunctionT:
    """As `compiled`, but sums and products keep the order in which they are written."""
    return _compiled(function, {"contract"})


def _compiled(function: FunctionT, fastmath: set[str]) -> FunctionT:
    options: dict[str, Any] = {"nogil": True, "fastmath": fastmath, "error_model": "numpy"}
    try:
        kernel = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba: "no locator available": no folder is writable
        kernel = numba.njit(**options)(function)
    return cast(FunctionT, kernel)
