"""Checks of the arguments of public calls.

Each check returns the value in its final type, or raises an error of the package that names the argument and carries
the value. Without them a wrong value would fail somewhere deep inside, with an unrelated message. The checks are cheap
because they run before each call of the solver.

`check_keywords` raises an error that suggests the intended keyword. A table maps names of other libraries to ours,
and difflib recognises misspellings. The error is also a `TypeError`, the error that Python raises for a wrong keyword.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from eim_ros.core.errors import ConfigurationError, EimError, KeywordError, RobotError, did_you_mean

Value = TypeVar("Value")

LONGEST_NAME = 255  # [byte], limit of file systems for a name
LARGEST = 1e100  # squares of larger numbers could overflow


def expect(value: Any, kind: type[Value], name: str, error: type[EimError] = ConfigurationError) -> Value:
    """Return the value if it is an instance of `kind`; else raise the error."""
    if not isinstance(value, kind):
        raise error(f"{name} must be a {kind.__name__}, got {_told(value)}", value)
    return value


def expect_mapping(value: Any, name: str, error: type[EimError] = ConfigurationError) -> Mapping[str, Any]:
    """Return the value if it is a mapping whose keys are strings; else raise the error."""
    if not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        raise error(f"{name} must map names to values, got {_told(value)}", value)
    return value


def checked_path(value: str | os.PathLike[str], error: type[EimError]) -> Path:
    """Return the value as a path if a file can have that name; else raise the error."""
    if not isinstance(value, (str, os.PathLike)):
        raise error(f"expected the path of a file, got {_told(value)}", value)
    try:
        name = os.fsencode(value)
        if b"\0" not in name and all(len(part) <= LONGEST_NAME for part in name.split(os.fsencode(os.sep))):
            return Path(value)
    except (TypeError, UnicodeError):
        pass  # __fspath__ gives no text, or text that cannot be encoded
    raise error(f"no file can have the name {_told(value)}: it has a null byte, is too long, or no Unicode", value)


def checked_flag(value: Any, name: str, error: type[EimError] = ConfigurationError) -> bool:
    """Return a flag, given as True, False, 0 or 1.

    Other values with a truth value are rejected: "no" would be true.
    """
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, Integral) and int(value) in (0, 1)):
        return bool(value)
    raise error(f"{name} must be True or False, got {_told(value)}", value)


def checked_whole(value: Any, least: int, name: str, error: type[EimError] = ConfigurationError) -> int:
    """Return a whole number that is at least `least`; else raise the error."""
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
    """Return real numbers as a contiguous float64 array; such an array is returned without a copy.

    Text, times and complex numbers are rejected. NumPy would parse text and drop imaginary parts. Raise `TypeError` or
    `ValueError` if the values are not real numbers.
    """
    try:
        given = np.asarray(values)
        if given.dtype == np.float64:
            return np.asarray(given, dtype=np.float64, order="C")
        with np.errstate(all="ignore"):  # too large numbers become infinite, which callers reject
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
    """Return real numbers of a given shape, each from `least` to `most`; else raise the error.

    None in `shape` allows any size of that axis. The default bounds reject infinity, and numbers whose squares would
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
    """Return a short description of a value, in one line."""
    kind = type(value).__name__
    if isinstance(value, (list, tuple, set, dict)) and len(value) > 20:
        return f"a {kind} of length {len(value)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 and not text.startswith("<") else f"a {kind}"


MAX_COUNT = 1_000_000  # larger counts are mistakes and would exhaust memory


def is_number(value: object) -> bool:
    """Return whether a value is a real number within the range of floats; infinity and the float NaN are accepted."""
    return isinstance(value, float) or (isinstance(value, Real) and not math.isnan(as_number(value)))


def missing_attribute(owner: object, name: str, instead: Mapping[str, str]) -> AttributeError:
    """Return the error for an unknown attribute, with what to use for names of other libraries, or a similar name."""
    public = (each for each in dir(type(owner)) if not each.startswith("_"))
    hint = f"; {instead[name]}" if name in instead else "" if name.startswith("_") else did_you_mean(name, public)
    return AttributeError(f"a {type(owner).__name__} has no attribute {name!r}{hint}", name=name, obj=owner)


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
        raise RobotError(f"{name} must be a positive number, got {value!r}", value)
    return number


def checked_generator(seed: int | np.integer | np.random.Generator | None) -> np.random.Generator:
    """Return a generator from a seed of at least 0; a generator is returned as it is, and None gives a fresh one.

    Raise `RobotError` if it is none of these.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
        raise RobotError(f"seed must be a whole number from 0 on, or a numpy Generator, got {seed!r}", seed)
    return np.random.default_rng(None if seed is None else int(seed))


MadeT = TypeVar("MadeT", bound=Callable[..., Any])

LIMITS = "sampler.with_constraints(limits={joint: (lower, upper)})"
CONSTRAINED = "it to sampler.with_constraints(...)"
OTHER_WORDS: dict[str, tuple[str, ...]] = {
    "near": ("q0", "q_init", "x0", "start", "start_state", "initial", "initial_guess", "init", "current", "seed_state"),
    "seeds": ("q0", "q_init", "x0", "start", "initial_guess", "solutions"),
    "seed": ("random_seed", "rng", "random_state", "generator"),
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
    "max_step": ("largest_step", "step", "jump_threshold"),
    "diversity": ("explore", "spread"),
    "max_spacing": ("separation", "spacing", "resolution"),
    "guarantee": ("until", "certified", "completeness"),
    "density": ("distribution",),
    "centre": ("center", "position", "origin"),
    "tip": ("tip_link", "ee_link", "end_effector", "ee", "end_link"),
    "base": ("base_link", "root", "root_link"),
    "sample_weight": ("sample_weights", "weights", "weight"),
    "validation_data": ("validation", "validation_set", "x_val", "eval_set", "held_out"),
}  # maps our keyword to its names in other libraries
SYNONYMS = ("near", "seed", "n", "timeout", "n_threads", "max_step", "limits", "centre", "tip", "base")
"""Keywords whose names in other libraries are accepted, because the values mean the same."""
STARTS = "start configurations to Robot.refine(seeds, pose), or near=q to Sampler.solve(pose)"
TO_LEARNER = "it to the learner, as in EM(n_components=10, seed=3)"
HINTS: dict[str, dict[str, str]] = {
    "near": {
        **dict.fromkeys(("limits", "joint_limits", "q_limits", "bounds", "qlim", "lower", "upper"), LIMITS),
        **dict.fromkeys(("fixed", "locked"), "sampler.with_constraints(fixed={joint: value})"),
        **dict.fromkeys(("obstacles", "world", "scene"), "sampler.with_obstacles([...])"),
        **dict.fromkeys(("self_collision", "collision"), "sampler.with_constraints(self_collision=True)"),
        **dict.fromkeys(
            ("position_only", "position_tolerance", "orientation_tolerance", "clearance", "constraints"), CONSTRAINED
        ),
        "tolerances": "sampler.with_constraints(tolerances=[x, y, z, about_x, about_y, about_z])",
    },
    "max_restarts": dict.fromkeys(("q0", "q_init", "x0", "start", "initial_guess", "seed_state", "near"), STARTS),
    "pose": dict.fromkeys(("rpy", "euler"), "an orientation within the pose, pose_from(position, rpy=...)")
    | dict.fromkeys(("position", "quaternion", "quat", "orientation"), "one pose: (position, quaternion)")
    | dict.fromkeys(("degrees", "deg"), "angles in radians, as np.radians(values)"),
    "robot": {"tool": "it to sampler.with_tool(pose)", "obstacles": "them to sampler.with_obstacles([...])"},
    "run": {
        **dict.fromkeys(("callback", "callbacks"), "run=RunOptions(callbacks=[...])"),
        **{word: f"run=RunOptions({word}=...)" for word in ("verbose", "checkpoint", "checkpoint_every", "resume")},
        **dict.fromkeys(("seed", "random_state", "n_components", "n_iterations", "max_iter"), TO_LEARNER),
        **dict.fromkeys(("y", "Y", "context", "contexts"), "contexts and samples as one pair, fit((context, sample))"),
    },
}  # maps a keyword of the call to settings that are given through it
HINTS["poses"] = HINTS["pose"]


def check_keywords(given: Mapping[str, Any], known: Mapping[str, Any], call: str, named: Iterable[str] = ()) -> None:
    """Raise an error if a call was given a keyword that it does not have.

    `given` are the keywords that the call received, and `named` are other parameters of it, for suggestions. Raise
    `KeywordError` if a given keyword is not allowed. The message suggests the intended one.
    """
    if given.keys() <= known.keys():
        return
    wrong = next(name for name in given if name not in known)
    keywords = [*named, *known]
    meant = _meant(wrong, keywords) or f"; it has {', '.join(keywords)}"
    raise KeywordError(f"{call} has no keyword {wrong!r}{meant}", wrong)


def _translated(given: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Replace names from other libraries by ours, where only one of ours is meant and absent."""
    if given.keys() <= known.keys():
        return given
    translated = {}
    for name, value in given.items():
        meant = [ours for ours in SYNONYMS if ours in known and name.lower() in OTHER_WORDS[ours]]
        is_ours = name in known or len(meant) != 1 or meant[0] in given or meant[0] in translated
        translated[name if is_ours else meant[0]] = value
    return translated


def names_wrong_keywords(made: MadeT) -> MadeT:
    """Make a function, or a dataclass before `@dataclass`, translate keywords of other libraries: a decorator.

    It raises what `check_keywords` raises for the others.
    """
    if isinstance(made, type):
        init, known = vars(made)["__init__"], {entry.name: entry for entry in dataclasses.fields(made) if entry.init}

        @functools.wraps(init)
        def checked_init(self: Any, *args: Any, **keywords: Any) -> None:
            keywords = _translated(keywords, known)
            check_keywords(keywords, known, made.__name__)
            init(self, *args, **keywords)

        type.__setattr__(made, "__init__", checked_init)
        return made
    names = dict.fromkeys(list(inspect.signature(made).parameters)[1:])

    @functools.wraps(made)
    def checked(*args: Any, **keywords: Any) -> Any:
        if keywords and not keywords.keys() <= names.keys():
            keywords = _translated(keywords, names)
            check_keywords(keywords, names, made.__qualname__)
        return made(*args, **keywords)

    return checked  # type: ignore[return-value]


def _meant(word: str, keywords: list[str]) -> str:
    for keyword in keywords:
        if word in HINTS.get(keyword, {}):
            return f"; give {HINTS[keyword][word]}"
    if meant := [keyword for keyword in keywords if word.lower() in OTHER_WORDS.get(keyword, ())]:
        return f"; did you mean {' and '.join(meant)}?"
    return did_you_mean(word, keywords)
