"""Matrices in messages: one flat row-major array with `array.frombytes`; a list per row would cost milliseconds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["float64_bytes", "uint32_bytes"]


def float64_bytes(values: npt.ArrayLike) -> bytes:
    """For a field of type float64[]."""
    return np.ascontiguousarray(values, dtype=np.float64).tobytes()


def uint32_bytes(values: npt.ArrayLike) -> bytes:
    """For a field of type uint32[]."""
    return np.ascontiguousarray(values, dtype=np.uint32).tobytes()
