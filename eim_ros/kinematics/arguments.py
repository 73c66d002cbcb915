"""Arguments of a call, checked: what is refused raises an error of the package that carries it.

Cheap, for they stand before each call of the solver.
"""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np

from eim_ros.errors import RobotError
from eim_ros.numerics.arguments import as_number

__all__ = ["checked_generator", "is_number", "number_from_zero", "positive_number", "whole_number"]

LARGEST = 1_000_000  # of counts: beyond, somebody gave a wrong number, and memory would run out


def is_number(value: object) -> bool:
    """Whether a value is a real number that a float can hold; it may be infinite, or not a number (NaN)."""
    return isinstance(value, float) or (isinstance(value, Real) and not math.isnan(as_number(value)))


def whole_number(value: object, least: int, name: str, most: int = LARGEST) -> int:
    """A count from `least` to `most`; `RobotError` if it is no whole number, or out of these bounds."""
    if isinstance(value, bool) or not isinstance(value, (int, Integral)):
        raise RobotError(f"{name} must be a whole number, got {value!r}", value)
    if not least <= int(value) <= most:
        raise RobotError(f"{name} must be at least {least} and at most {most}, got {value}", value)
    return int(value)


def positive_number(value: object, name: str) -> float:
    """A number above 0, which may be infinite; `RobotError` if it is none."""
    number = number_from_zero(value, name)
    if number == 0.0:
        raise RobotError(f"{name} must be positive, got {value!r}", value)
    return number


def number_from_zero(value: object, name: str) -> float:
    """A number of at least 0, which may be infinite; `RobotError` if it is none."""
    number = as_number(value)
    if not number >= 0.0:
        raise RobotError(f"{name} must be a positive number, got {value!r}", value)
    return number


def checked_generator(rng: np.random.Generator | None) -> np.random.Generator:
    """The generator, a fresh one for None; `RobotError` if it is none."""
    if rng is None:
        return np.random.default_rng()
    if not isinstance(rng, np.random.Generator):
        raise RobotError(f"rng must be a numpy Generator, as numpy.random.default_rng() makes it, got {rng!r}", rng)
    return rng
