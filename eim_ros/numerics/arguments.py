"""Arguments of a public call, checked where it begins: what is of a wrong kind is refused by its name, with an error of
the package, and not by whatever it does not have, somewhere deep inside.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConfigurationError, EimError

__all__ = ["as_numbers", "checked_flag", "checked_path", "checked_whole", "expect", "expect_mapping"]

Value = TypeVar("Value")


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
    """The value as a path, if it can be one."""
    if not isinstance(value, (str, os.PathLike)):
        raise error(f"expected the path of a file, got {_told(value)}", value)
    return Path(value)


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


def as_numbers(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Contiguous float64 array of real numbers, the one given where it is that; `TypeError` or `ValueError` if not.

    Text, times and complex numbers are refused: numpy would read the first, and drop half of the last.
    """
    given = np.asarray(values)
    if given.dtype.kind not in "fiubO":
        raise TypeError(f"expected real numbers, got an array of {given.dtype}")
    try:
        return np.asarray(given, dtype=np.float64, order="C")
    except OverflowError as error:
        raise ValueError("a number is out of range") from error


def _told(value: Any) -> str:
    """In one short line."""
    text = " ".join(repr(value).split())
    kind = type(value).__name__
    return text if len(text) <= 60 and not text.startswith("<") else f"a {kind}"
