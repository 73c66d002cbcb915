"""Arguments of a public call, checked where it begins: what is of a wrong kind is refused by its name, with an error of
the package, and not by whatever it does not have, somewhere deep inside.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConfigurationError, EimError

__all__ = [
    "LARGEST",
    "as_number",
    "as_numbers",
    "checked_flag",
    "checked_path",
    "checked_whole",
    "expect",
    "expect_mapping",
    "numbers_of",
]

Value = TypeVar("Value")

LONGEST_NAME = 255  # [byte] of a file or folder
LARGEST = 1e100  # squares must not overflow


def expect(value: Any, kind: type[Value], name: str, error: type[EimError] = ConfigurationError) -> Value:
    """The value, if it is of a kind."""
    if not isinstance(value, kind):
        raise error(f"{name} must be a {kind.__name__}, got {_told(value)}", value)
    return value


def expect_mapping(value: Any, name: str, error: type[EimError] = ConfigurationError) -> Mapping[str, Any]:
    """The value, if it maps names to something."""
    if not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        raise error(f"{name} must map names to values, got {_told(value)}", value)
    return value


def checked_path(value: str | os.PathLike[str], error: type[EimError]) -> Path:
    """The value as a path, if a file can have that name."""
    if not isinstance(value, (str, os.PathLike)):
        raise error(f"expected the path of a file, got {_told(value)}", value)
    try:
        name = os.fsencode(value)
        if b"\0" not in name and all(len(part) <= LONGEST_NAME for part in name.split(os.fsencode(os.sep))):
            return Path(value)
    except (TypeError, UnicodeError):
        pass  # __fspath__ gives no text, or text that no file name can hold
    raise error(f"no file can have the name {_told(value)}: it has a null byte, is too long, or no Unicode", value)


def checked_flag(value: Any, name: str, error: type[EimError] = ConfigurationError) -> bool:
    """True or False, also as 0 or 1, and not whatever has a truth value: "no" would be true."""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, Integral) and int(value) in (0, 1)):
        return bool(value)
    raise error(f"{name} must be True or False, got {_told(value)}", value)


def checked_whole(value: Any, least: int, name: str, error: type[EimError] = ConfigurationError) -> int:
    """A whole number from `least` on."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) < 2**63:
        raise error(f"{name} must be a whole number of at least {least}, got {_told(value)}", value)
    return int(value)


def as_number(value: object) -> float:
    """The value as a float; NaN if it is no real number, or beyond the range of floats.

    Comparisons with NaN are false, so `least <= as_number(value) <= most` is all that a check needs. Numbers of narrow
    types overflow when they are compared themselves.
    """
    if not isinstance(value, (float, int, Real)):
        return math.nan
    try:
        return float(value)
    except (OverflowError, ValueError):
        return math.nan


def as_numbers(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Contiguous float64 array of real numbers, the one given where it is that; `TypeError` or `ValueError` if not.

    Text, times and complex numbers are refused: numpy would read the first, and drop half of the last.
    """
    try:
        given = np.asarray(values)
        if given.dtype == np.float64:
            return np.asarray(given, dtype=np.float64, order="C")
        with np.errstate(all="ignore"):  # a number that float64 cannot hold becomes infinite, which callers refuse
            return _converted(given)
    except (TypeError, ValueError):
        raise
    except Exception as error:  # from the array interface of a foreign object, such as a tensor on a GPU
        raise ValueError(f"it cannot be converted to numbers: {error}") from error


def numbers_of(
    values: npt.ArrayLike,
    shape: tuple[int | None, ...],
    name: str,
    error: type[EimError] = ConfigurationError,
    *,
    least: float = -LARGEST,
    most: float = LARGEST,
) -> npt.NDArray[np.float64]:
    """Real numbers of a shape, None for any size along an axis, each from `least` to `most`; else the error.

    The default bounds refuse infinity and keep squares of the numbers from overflowing.
    """
    expected = f"{name} must be numbers of shape {str(shape).replace('None', 'n')}"
    try:
        numbers = as_numbers(values)
    except (TypeError, ValueError) as cause:
        raise error(f"{expected}, got {_told(values)}", values) from cause
    if len(shape) != numbers.ndim or any(size not in (None, n) for size, n in zip(shape, numbers.shape, strict=True)):
        raise error(f"{expected}, got shape {numbers.shape}", values)
    if not ((numbers >= least) & (numbers <= most)).all():
        known = {(-LARGEST, LARGEST): "finite", (-math.inf, math.inf): "numbers, not NaN"}
        bounds = known.get((least, most), f"from {least:g} to {most:g}")
        raise error(f"{name} must be {bounds}, got {_told(values)}", values)
    return numbers


def _converted(given: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    if given.dtype.kind not in "fiubO":
        raise TypeError(f"expected real numbers, got an array of {given.dtype}")
    if given.dtype.kind == "O" and not all(isinstance(value, (Real, Decimal)) for value in given.flat):
        raise TypeError("expected real numbers, got an array of other objects")
    return np.asarray(given, dtype=np.float64, order="C")


def _told(value: Any) -> str:
    """In one short line."""
    kind = type(value).__name__
    if isinstance(value, (list, tuple, set, dict)) and len(value) > 20:
        return f"a {kind} of length {len(value)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 and not text.startswith("<") else f"a {kind}"
