"""Arguments of a public call, checked where it begins: what is of a wrong kind is refused by its name, with an error of
the package, and not by whatever it does not have, somewhere deep inside.

Arguments of a call, checked: what is refused raises an error of the package that carries it.

Cheap, for they stand before each call of the solver.

Types of whole numbers on the command line, whose refusals say what was expected.

Checks of keywords in public calls: the error for a wrong keyword names the intended one.

A table lists names that other libraries use, with ours; difflib recognises misspellings. The error is also a
`TypeError`, which Python raises for a wrong keyword.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Iterable, Mapping
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from eim_ros.core.errors import ConfigurationError, EimError, KeywordError, RobotError, did_you_mean

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


MAX_COUNT = 1_000_000  # of counts: beyond, somebody gave a wrong number, and memory would run out


def is_number(value: object) -> bool:
    """Whether a value is a real number that a float can hold; it may be infinite, or not a number (NaN)."""
    return isinstance(value, float) or (isinstance(value, Real) and not math.isnan(as_number(value)))


def whole_number(value: object, least: int, name: str, most: int = MAX_COUNT) -> int:
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


ClassT = TypeVar("ClassT", bound=type)

LIMITS = "constraints=Constraints(limits={joint: (lower, upper)})"
OTHER_WORDS: dict[str, tuple[str, ...]] = {
    "near": ("q0", "q_init", "x0", "start", "start_state", "initial", "initial_guess", "init", "current", "seed_state"),
    "seeds": ("q0", "q_init", "x0", "start", "initial_guess", "solutions"),
    "random_seed": ("seed", "rng", "random_state", "generator"),
    "rng": ("seed", "random_seed", "random_state", "generator"),
    "n": ("num_samples", "n_samples", "num", "count", "size", "num_solutions", "n_solutions", "samples"),
    "lower": ("limits", "joint_limits", "q_limits", "bounds", "qlim"),
    "upper": ("limits", "joint_limits", "q_limits", "bounds", "qlim"),
    "limits": ("joint_limits", "q_limits", "bounds", "qlim"),
    "position_tolerance": ("tol", "tolerance", "eps", "pos_tol"),
    "orientation_tolerance": ("tol", "tolerance", "eps", "rot_tol"),
    "timeout": ("time_limit", "max_time", "time", "deadline", "duration", "timeout_s"),
    "pose": ("target", "goal", "target_pose", "goal_pose", "transform", "poses"),
    "poses": ("targets", "goals", "path", "waypoints", "pose"),
    "order": ("sort", "sort_by", "order_by", "ranking"),
    "posture": ("rest", "rest_pose", "nullspace", "null_space", "preferred"),
    "n_threads": ("threads", "num_threads", "n_jobs", "workers"),
    "largest_step": ("max_step", "step", "jump_threshold"),
    "centre": ("position", "origin"),
}  # by our keyword: what else people call it
STARTS = "nothing: Robot.refine(seeds, pose) starts from given configurations"
HINTS: dict[str, dict[str, str]] = {
    "constraints": {
        **dict.fromkeys(("limits", "joint_limits", "q_limits", "bounds", "qlim", "lower", "upper"), LIMITS),
        **dict.fromkeys(("fixed", "locked"), "constraints=Constraints(fixed={joint: value})"),
        **dict.fromkeys(("obstacles", "world", "scene"), "constraints=Constraints(obstacles=[...])"),
        **dict.fromkeys(("self_collision", "collision"), "constraints=Constraints(self_collision=True)"),
        "tolerances": "constraints=Constraints(tolerances=[x, y, z, about_x, about_y, about_z])",
    },
    "max_restarts": dict.fromkeys(("q0", "q_init", "x0", "start", "initial_guess", "seed_state", "near"), STARTS),
    "pose": dict.fromkeys(("rpy", "euler"), "an orientation within the pose, pose_from(position, rpy=...)")
    | dict.fromkeys(("quaternion", "quat", "orientation"), "the orientation within the pose, (position, quaternion)"),
}  # by a keyword that the call has: how a thing is given that is no keyword itself
HINTS["poses"] = HINTS["pose"]


def check_keywords(given: Mapping[str, Any], known: Mapping[str, Any], call: str, named: Iterable[str] = ()) -> None:
    """`KeywordError` for a keyword that a call does not have.

    Parameters
    ----------
    given : mapping
        Keywords, by `**`.
    known : mapping
        Allowed keywords.
    call : str
        What was called.
    named : iterable of str
        Other parameters of the call.
    """
    if given.keys() <= known.keys():
        return
    wrong = next(name for name in given if name not in known)
    keywords = [*named, *known]
    meant = _meant(wrong, keywords) or f"; it has {', '.join(keywords)}"
    raise KeywordError(f"{call} has no keyword {wrong!r}{meant}", wrong)


def names_wrong_keywords(cls: ClassT) -> ClassT:
    """Make a dataclass raise what `check_keywords` raises: a decorator, before `@dataclass`."""
    made, known = vars(cls)["__init__"], {entry.name: entry for entry in dataclasses.fields(cls) if entry.init}

    @functools.wraps(made)
    def checked(self: Any, *args: Any, **keywords: Any) -> None:
        check_keywords(keywords, known, cls.__name__)
        made(self, *args, **keywords)

    type.__setattr__(cls, "__init__", checked)
    return cls


def _meant(word: str, keywords: list[str]) -> str:
    for keyword in keywords:
        if word in HINTS.get(keyword, {}):
            return f"; give {HINTS[keyword][word]}"
    if meant := [keyword for keyword in keywords if word.lower() in OTHER_WORDS.get(keyword, ())]:
        return f"; did you mean {' and '.join(meant)}?"
    return did_you_mean(word, keywords)
