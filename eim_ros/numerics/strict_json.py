"""JSON as its standard has it (RFC 8259), which knows neither NaN nor infinity: what is not finite becomes null.

Python's own writer prints NaN and Infinity, which other readers refuse. All JSON of the package is written here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["finite", "to_json"]

NULL = np.array(None, dtype=object)


def to_json(value: Any, *, sort_keys: bool = False) -> str:
    """One line of JSON of mappings, lists, tuples, text, numbers and None, and of numbers and arrays of NumPy."""
    try:
        return json.dumps(value, sort_keys=sort_keys, allow_nan=False)
    except (ValueError, TypeError):
        return json.dumps(finite(value), sort_keys=sort_keys, allow_nan=False)


def finite(value: Any) -> Any:
    """As JSON knows it: lists for tuples and arrays, None for what is not finite."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        is_float = np.issubdtype(value.dtype, np.floating)
        return (np.where(np.isfinite(value), value, NULL) if is_float else value).tolist()
    if isinstance(value, Mapping):
        return {name: finite(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
