"""Random values for calls: typical mistakes, damaged copies of valid values, and unusual valid values."""

from __future__ import annotations

import datetime
import decimal
import fractions
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["damaged", "malformed", "varied"]

# Integers from 10**4 to 10**9 are left out, because a call with such a valid count would take minutes.
WHOLES = (
    0,
    1,
    2,
    3,
    4,
    6,
    7,
    -1,
    -7,
    255,
    2**31 - 1,
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
    10**30,
    10**400,
)
NUMBERS = (0.0, -0.0, 0.5, 1.0, -1.0, 3.2, 1e-300, 5e-324, 1e-12, 1e8, 1e100, 1e200, -1e308, 1.7e308)
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))
TEXTS = (
    "",
    "abc",
    "panda_joint1",
    "density",
    "uniform",
    "model",
    "1.5",
    "nan",
    "<robot/>",
    "a\0b",
    "\ud800",
    "x" * 5000,
)
SHAPES = (
    (),
    (0,),
    (1,),
    (3,),
    (4,),
    (6,),
    (7,),
    (16,),
    (0, 3),
    (1, 3),
    (3, 3),
    (2, 7),
    (3, 4),
    (0, 4, 4),
    (2, 4, 4),
    (1, 1, 4, 4),
)
TYPES = ("f8", "f4", "f2", "i8", "i1", "u8", "?", "c16", "O", "S3", "U3", "M8[s]", "m8[s]", "g", ">f8", "V8")


class Whole:
    """Object that only `operator.index` can convert to a number."""

    def __index__(self) -> int:
        return 3


class Deceptive:
    """Object whose conversion to an array fails."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("this array is on a device")


class Frame(dict):
    """Imitation of a pandas table with named columns, an index, and conversion to an array."""

    def __init__(self, values: Any) -> None:
        super().__init__(a=values)
        self.values_given, self.index, self.columns = values, [0], ["a"]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.values_given, dtype=dtype)


def malformed(rng: np.random.Generator, depth: int = 0) -> Any:
    """Return a value of a random kind."""
    makers: list[Callable[[], Any]] = [
        lambda: None,
        lambda: bool(rng.integers(2)),
        lambda: _any(rng, WHOLES),
        lambda: _any(rng, NUMBERS),
        lambda: _any(rng, NOT_FINITE),
        lambda: _any(rng, TEXTS),
        lambda: _any(rng, TEXTS[:6]).encode(),
        lambda: complex(_any(rng, NUMBERS), 1.0),
        lambda: array(rng),
        lambda: array(rng),
        lambda: _any(rng, (np.float64, np.float32, np.int64, np.uint8, np.bool_, np.complex128))(rng.integers(3)),
        lambda: np.array(_any(rng, (*NUMBERS, *NOT_FINITE))),
        lambda: _any(rng, (object, object(), int, len, SimpleNamespace(), Ellipsis, NotImplemented, Path("none"))),
        lambda: _any(
            rng, (fractions.Fraction(1, 3), decimal.Decimal("0.5"), decimal.Decimal("NaN"), datetime.timedelta(1))
        ),
        lambda: _any(rng, (Whole(), Deceptive(), range(3), slice(3), {1, 2}, frozenset(), memoryview(b"abc"))),
    ]
    if depth < 3:
        makers += [
            lambda: [malformed(rng, depth + 1) for _ in range(rng.integers(8))],
            lambda: [malformed(rng, depth + 1) for _ in range(rng.integers(8))],
            lambda: tuple(malformed(rng, depth + 1) for _ in range(rng.integers(4))),
            lambda: [[0.0] * int(rng.integers(4)) for _ in range(rng.integers(1, 8))],
            lambda: {_any(rng, TEXTS): malformed(rng, depth + 1) for _ in range(rng.integers(3))},
            lambda: OrderedDict([(malformed_key(rng), malformed(rng, depth + 1))]),
            lambda: (malformed(rng, depth + 1) for _ in range(2)),
            lambda: iter([malformed(rng, depth + 1)]),
            lambda: Frame(malformed(rng, depth + 1)),
            lambda: lambda *args, **kwargs: malformed(rng, depth + 1),
            lambda: pose_like(rng, depth + 1),
            lambda: pose_like(rng, depth + 1),
        ]
    return _any(rng, makers)()


def malformed_key(rng: np.random.Generator) -> Any:
    """Return a mapping key of a random hashable kind."""
    return _any(rng, (None, 1, 0.5, True, ("a",), b"a", *TEXTS))


def array(rng: np.random.Generator) -> Any:
    """Return an array of random shape and type; object arrays can contain anything."""
    shape, kind = _any(rng, SHAPES), _any(rng, TYPES)
    if kind == "O":
        values = np.empty(shape, dtype=object)
        for place in np.ndindex(shape):
            values[place] = malformed(rng, 3)
        return values
    if kind in ("f8", "f4", "g", ">f8"):
        values = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4)
        if values.size and rng.integers(2):
            values = np.array(values)
            values.flat[rng.integers(values.size)] = _any(rng, (*NUMBERS, *NOT_FINITE))
        with np.errstate(all="ignore"):
            values = np.asarray(values, dtype=kind)
        return values[..., ::-1] if values.ndim and rng.integers(3) == 0 else values
    return np.zeros(shape, dtype=kind)


def pose_like(rng: np.random.Generator, depth: int) -> Any:
    """Return an object with the attributes of another library's pose; some attributes have a wrong type."""

    def vector(names: str) -> Any:
        return SimpleNamespace(**{name: 0.5 if rng.integers(3) else malformed(rng, depth + 1) for name in names})

    return _any(
        rng,
        (
            lambda: SimpleNamespace(position=vector("xyz"), orientation=vector("xyzw")),
            lambda: SimpleNamespace(translation=vector("xyz"), rotation=vector("xyzw")),
            lambda: SimpleNamespace(position=malformed(rng, depth), orientation=malformed(rng, depth)),
            lambda: SimpleNamespace(header=None, pose=None),
            lambda: SimpleNamespace(homogeneous=array(rng)),
            lambda: SimpleNamespace(A=malformed(rng, depth)),
            lambda: SimpleNamespace(as_matrix=lambda: malformed(rng, depth)),
            lambda: SimpleNamespace(as_matrix=lambda needed: needed),
            lambda: vector("xyz"),
            lambda: (malformed(rng, depth), malformed(rng, depth)),
            lambda: ([0.1, 0.2, 0.3], malformed(rng, depth)),
            lambda: [malformed(rng, 3) if not rng.integers(4) else 0.1 for _ in range(_any(rng, (3, 4, 6, 7)))],
        ),
    )()


def varied(value: Any, rng: np.random.Generator) -> Any:
    """Return a possibly valid value of the same kind, with a different size, type or memory layout."""
    if isinstance(value, bool) or value is None:
        return value if rng.integers(2) else not value if isinstance(value, bool) else None
    if isinstance(value, float):
        return _any(rng, (value * 10.0 ** float(rng.uniform(-9.0, 3.0)), np.float64(value), np.float32(value), 0.0, 1))
    if isinstance(value, int):
        return _any(rng, (int(rng.integers(10)), np.int64(value), np.uint8(value), value))
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return _any(
            rng,
            (
                value.tolist(),
                value.astype("f4"),
                value.astype(">f8"),
                value.astype("O"),
                np.asfortranarray(value),
                value + rng.normal(size=value.shape) * 10.0 ** float(rng.uniform(-12.0, 0.0)),
                np.repeat(value[None], int(rng.integers(4)), axis=0),
                value * float(rng.uniform(0.0, 2.0)),
            ),
        )
    if isinstance(value, (list, tuple)) and len(value) > 1:
        kind = _any(rng, (list, tuple))
        return kind(varied(entry, rng) if not rng.integers(3) else entry for entry in value)
    return value


def damaged(value: Any, rng: np.random.Generator, depth: int = 0) -> Any:
    """Return a copy of a value with one error inside. A value without parts is replaced by any malformed value."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        return _damaged_array(value, rng)
    if isinstance(value, dict) and value and depth < 4:
        key = _any(rng, tuple(value))
        changed = {**value, key: damaged(value[key], rng, depth + 1)}
        return {malformed_key(rng): value[key]} if not rng.integers(4) else changed
    if isinstance(value, (list, tuple)) and value and depth < 4:
        entries = list(value)
        place = int(rng.integers(len(entries)))
        way = rng.integers(4)
        if way == 0:
            del entries[place]
        elif way == 1:
            entries.insert(place, malformed(rng, 2))
        else:
            entries[place] = damaged(entries[place], rng, depth + 1)
        return tuple(entries) if isinstance(value, tuple) and rng.integers(2) else entries
    if isinstance(value, str) and rng.integers(2):
        place = int(rng.integers(len(value) + 1))
        return (
            value[:place]
            + _any(rng, ("", "<", "\0", "é", " ", '"', "-", "1e999"))
            + value[place + int(rng.integers(4)) :]
        )
    if isinstance(value, float) and rng.integers(2):
        with np.errstate(all="ignore"):
            narrow = np.float32(value)
        return _any(rng, (-value, value * 1e200, narrow, np.float64(value), np.array(value), [value], str(value)))
    return malformed(rng)


def _damaged_array(value: Any, rng: np.random.Generator) -> Any:
    ways: tuple[Callable[[], Any], ...] = (
        lambda: value.astype(_any(rng, ("f4", "f2", "O", "U8", "c16", "g", ">f8"))),
        lambda: value.tolist(),
        lambda: value[None],
        lambda: value[..., None],
        lambda: np.atleast_1d(value)[:0],
        lambda: np.atleast_1d(value)[..., :-1],
        lambda: value.ravel(),
        lambda: value.T,
        lambda: np.atleast_1d(value)[::-1],
        lambda: np.asfortranarray(value),
        lambda: np.concatenate([value.ravel(), [0.0]]),
        lambda: damaged(value.tolist(), rng, 1),
        lambda: damaged(value.tolist(), rng, 1),
        lambda: _spoiled(value, rng),
        lambda: _spoiled(value, rng),
        lambda: value * _any(rng, (0.0, -1.0, 1e-5 + 1.0, 1e200)),
    )
    with np.errstate(all="ignore"):
        return _any(rng, ways)()


def _spoiled(value: Any, rng: np.random.Generator) -> Any:
    changed = np.array(value, dtype=np.float64)
    if changed.size:
        changed.flat[rng.integers(changed.size)] = _any(rng, (*NUMBERS, *NOT_FINITE))
    return changed


def _any(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]
