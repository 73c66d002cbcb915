"""Checks of the arguments of public calls.

Each check returns the value in its final type, or raises an error of the package that names the argument and contains
the value. Without checks, a wrong value would cause an unrelated error in inner code. The checks are cheap, because
they run before each call of the solver.

Python itself rejects unknown keywords, but its message does not list the known ones. `with_hints` adds this list, and
`check_keywords` checks calls with `**changes`.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from eim_ros.core.errors import ConfigurationError, EimError, KeywordError, RobotError, similar
from eim_ros.core.synonyms import synonyms

Value = TypeVar("Value")
Called = TypeVar("Called", bound=Callable[..., Any])

ELSEWHERE: Mapping[str, str] = MappingProxyType({})

LONGEST_NAME = 255  # [byte], longest file name of common file systems
LARGEST = 1e100  # squares of larger numbers could overflow
MAX_COUNT = 1_000_000  # larger counts are probably mistakes and would exhaust memory


def expect(value: Any, kind: type[Value], name: str, error: type[EimError] = ConfigurationError) -> Value:
    """Return the value if it is an instance of `kind`, or raise the error."""
    if not isinstance(value, kind):
        raise error(f"{name} must be of type {kind.__name__}, got {_told(value)}", value)
    return value


def expect_mapping(value: Any, name: str, error: type[EimError] = ConfigurationError) -> Mapping[str, Any]:
    """Return the value if it is a mapping whose keys are strings, or raise the error."""
    if not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        raise error(f"{name} must map names to values, got {_told(value)}", value)
    return value


def check_keywords(
    given: Iterable[str], known: Iterable[str], call: str, elsewhere: Mapping[str, str] = ELSEWHERE
) -> None:
    """Raise `KeywordError`, which is also a `TypeError`, if a keyword of a call is unknown.

    `elsewhere` maps keywords to the call that accepts them, such as "limits" to "with_constraints(limits=...)".
    """
    names = list(known)
    for wrong in given:
        if wrong not in names:
            same = [wrong] if wrong in elsewhere else synonyms(wrong, names)
            same = same or similar(wrong, [*names, *elsewhere])
            near = [name if name in names else elsewhere[name] for name in same]
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise KeywordError(f"{call} has no keyword {wrong!r}, only {', '.join(names)}{hint}", wrong)


def with_hints(called: Called) -> Called:
    """Decorate a class or a function, so that an unknown keyword raises a `KeywordError` that lists the known ones.

    The attribute `_KEYWORDS` of a class is the `elsewhere` of `check_keywords`. In a class, the constructor and the
    public methods with optional arguments are decorated, which adds 0.1 to 0.2 us to each call. Other methods are not
    decorated, because they include the fastest calls, such as `Robot.fk(q)`.

    Examples
    --------
    >>> from eim_ros.core.checks import with_hints
    >>> @with_hints
    ... def sample(n=100, seed=None): ...
    >>> sample(num_samples=5)
    Traceback (most recent call last):
        ...
    eim_ros.core.errors.KeywordError: sample has no keyword 'num_samples', only n, seed; did you mean n?
    """
    if not isinstance(called, type):
        return _hinting(called)
    for name, member in list(vars(called).items()):
        function = member.__func__ if isinstance(member, classmethod) else member
        inner = inspect.unwrap(function) if isinstance(function, FunctionType) else None
        if not isinstance(inner, FunctionType) or inner.__code__.co_flags & inspect.CO_VARKEYWORDS:
            continue  # not a method, or a method that calls `check_keywords`
        if name == "__init__" or (name[0] != "_" and (inner.__defaults__ or inner.__kwdefaults__)):
            hinting: Any = _hinting(function, called)
            setattr(called, name, classmethod(hinting) if isinstance(member, classmethod) else hinting)
    return called


def _hinting(function: Called, owner: type | None = None) -> Called:
    """Return a function that explains unknown keywords, with the same visible signature."""

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except TypeError:
            known = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
            name = function.__qualname__.removesuffix(".__init__")
            try:
                check_keywords(keywords, known, name, getattr(owner, "_KEYWORDS", ELSEWHERE))
            except KeywordError as explained:
                raise explained from None
            raise

    return call  # type: ignore[return-value]


def checked_path(value: str | os.PathLike[str], error: type[EimError]) -> Path:
    """Return the value as a path, or raise the error if no file can have this name."""
    if not isinstance(value, (str, os.PathLike)):
        raise error(f"expected the path of a file, got {_told(value)}", value)
    try:
        name = os.fsencode(value)
        if b"\0" not in name and all(len(part) <= LONGEST_NAME for part in name.split(os.fsencode(os.sep))):
            return Path(value)
    except (TypeError, UnicodeError):
        pass  # __fspath__ returns no text, or text that cannot be encoded
    raise error(
        f"no file can have the name {_told(value)}: it contains a null byte, is too long, or is not Unicode", value
    )


def checked_flag(value: Any, name: str, error: type[EimError] = ConfigurationError) -> bool:
    """Return a flag, given as True, False, 0 or 1.

    Other values are rejected, because the text "no" would otherwise count as true.
    """
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, Integral) and int(value) in (0, 1)):
        return bool(value)
    raise error(f"{name} must be True or False, got {_told(value)}", value)


def checked_whole(value: Any, least: int, name: str, error: type[EimError] = ConfigurationError) -> int:
    """Return a whole number that is at least `least`, or raise the error."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) < 2**63:
        raise error(f"{name} must be a whole number of at least {least}, got {_told(value)}", value)
    return int(value)


def as_number(value: object) -> float:
    """Return the value as a float, or NaN if it is not a real number or exceeds the range of floats.

    Comparisons with NaN are false, so `least <= as_number(value) <= most` is a complete check. The conversion comes
    first because numbers of narrow types can overflow in a comparison.
    """
    if not isinstance(value, (float, int, Real)):
        return math.nan
    try:
        return float(value)
    except (OverflowError, ValueError):
        return math.nan


def as_numbers(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return real numbers as a contiguous float64 array. Such an array is returned without a copy.

    Text, times and complex numbers are rejected, because NumPy would parse text and discard imaginary parts. Raise
    `TypeError` or `ValueError` if the values are not real numbers.
    """
    try:
        given = np.asarray(values)
        if given.dtype == np.float64:
            return np.asarray(given, dtype=np.float64, order="C")
        with np.errstate(all="ignore"):  # numbers that are too large become infinite, and callers reject these
            return _converted(given)
    except (TypeError, ValueError):
        raise
    except Exception as error:  # raised by a foreign object, such as a tensor on a GPU
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
    """Return real numbers of a given shape, each from `least` to `most`, or raise the error.

    None in `shape` allows any size of an axis. The default bounds reject infinity, and numbers whose squares would
    overflow.
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
    """Return a short description of a value in one line."""
    kind = type(value).__name__
    if isinstance(value, (list, tuple, set, dict)) and len(value) > 20:
        return f"a {kind} of length {len(value)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 and not text.startswith("<") else f"a {kind}"


def is_number(value: object) -> bool:
    """Return whether a value is a real number in the range of floats. Infinity and the float NaN are accepted."""
    return isinstance(value, float) or (isinstance(value, Real) and not math.isnan(as_number(value)))


def whole_number(value: object, least: int, name: str, most: int = MAX_COUNT) -> int:
    """Return a whole number from `least` to `most`; raise `RobotError` for other values."""
    if isinstance(value, bool) or not isinstance(value, (int, Integral)):
        raise RobotError(f"{name} must be a whole number, got {value!r}", value)
    if not least <= int(value) <= most:
        raise RobotError(f"{name} must be at least {least} and at most {most}, got {value}", value)
    return int(value)


def positive_number(value: object, name: str) -> float:
    """Return a number above 0, possibly infinite; raise `RobotError` for other values."""
    number = number_from_zero(value, name)
    if number == 0.0:
        raise RobotError(f"{name} must be positive, got {value!r}", value)
    return number


def number_from_zero(value: object, name: str) -> float:
    """Return a number of at least 0, possibly infinite; raise `RobotError` for other values."""
    number = as_number(value)
    if not number >= 0.0:
        raise RobotError(f"{name} must be a number of at least 0, got {value!r}", value)
    return number


def checked_generator(seed: int | np.integer | np.random.Generator | None) -> np.random.Generator:
    """Return a random generator for a seed of at least 0, or for a new seed if it is None.

    A generator is returned unchanged. Raise `RobotError` for other values.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
        raise RobotError(f"seed must be a whole number of at least 0, or a numpy Generator, got {seed!r}", seed)
    return np.random.default_rng(None if seed is None else int(seed))
