"""Errors of the package.

Each message names the cause and the remedy, and each error contains the invalid value. Bad input raises a subclass of
`EimError`. A numerical outcome (not converged, stalled, non-finite) is not an exception, but part of the result, see
`eim_ros.learning.run`.
"""

from __future__ import annotations

import difflib
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from eim_ros.core.synonyms import by_form, plain, synonyms

EXTRAS = {
    "torch": "learning",
    "cuda": "cuda",
    "mcap": "bags",
    "rosbags": "bags",
    "matplotlib": "viz",
    "distributed": "experiments",
    "joblib": "experiments",
    "sklearn": "experiments",
    "trimesh": "view",
    "viser": "view",
}  # optional packages, and the extras that install them
LONGEST_MESSAGE, LONGEST_WORD = 2000, 300  # maximum numbers of characters, enough for a path or a list of 30 joints
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
_options: ContextVar[Mapping[str, str]] = ContextVar("options", default=MappingProxyType({}))


def shortened(text: str) -> str:
    """Return the text of a message or log line. If the text or a word is too long, its middle is removed.

    Messages quote values of requests and files, which may have millions of characters. The beginning and the end are
    kept, because they name the cause and the remedy.

    Examples
    --------
    >>> from eim_ros.core.errors import shortened
    >>> len(shortened(f"the frame is {10_000_000 * 'a'}, expected the base link"))
    639
    """
    if len(text) <= LONGEST_WORD:
        return text
    text = _without_middle(text, LONGEST_MESSAGE)
    return _LONG_WORD.sub(lambda word: _without_middle(word.group(), LONGEST_WORD), text)


def _without_middle(text: str, most: int) -> str:
    half = (most - 5) // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


class EimError(Exception):
    """Base class of all errors raised on bad input.

    `value` is the invalid value. The message is shortened, see `shortened`.

    Examples
    --------
    >>> from eim_ros import EimError, Robot
    >>> try:
    ...     Robot("pandaa")
    ... except EimError as error:
    ...     type(error).__name__, error.value
    ('RobotError', 'pandaa')
    """

    def __init__(self, message: str, value: Any = None) -> None:
        super().__init__(shortened(message))
        self.value = value


class ConfigurationError(EimError):
    """Error for a setting that is unknown, has the wrong type, or is out of bounds."""


class KeywordError(ConfigurationError, TypeError):
    """Error for a call with an unknown keyword."""


class ConstraintError(EimError):
    """Error for constraints that are malformed, contradict each other, or name an unknown part of the robot."""


class DataError(EimError):
    """Error for a data set that is empty, has the wrong shape, is not finite, or belongs to another robot."""


class DistributionError(EimError):
    """Error for parameters that do not describe a distribution (shapes, finiteness, positive definiteness)."""


class ModelFileError(EimError):
    """Error for a model file that is missing or truncated, has another schema or format, or is for another robot."""


class RobotError(EimError):
    """Error for a robot description that cannot be read, or has no serial chain between base and tip."""


class MeshError(RobotError):
    """Error for a mesh of a robot or an obstacle that is missing or cannot be read."""


class MissingFileError(EimError, FileNotFoundError):
    """Error for a file of this package that is not installed."""


class NotBuiltError(EimError, ImportError):
    """Error for a compiled module that is missing, or is older than the Python code that uses it."""


class MissingPackageError(EimError, ModuleNotFoundError):
    """Error for an optional package that is needed but not installed."""

    def __init__(self, what: str, package: str) -> None:
        remedy = f"run pip install '.[{EXTRAS[package]}]' in the clone of eim_ros"
        super().__init__(f"{what} needs {package}, which is not installed: {remedy}", package)
        self.name = package


class PathError(EimError):
    """Error for a path that leaves the data directory, is not a regular file, or must not be replaced."""


class PoseError(EimError):
    """Error for a pose that is not finite, is not rigid, or has a quaternion without unit length."""


class JointStateError(EimError):
    """Error for a joint state that lacks joints of the robot, names unknown joints, or is not finite."""


class ServiceError(EimError):
    """Error for a service that cannot be reached, does not answer in time, or answers with an error."""


class RobotWarning(UserWarning):
    """Warning about a robot description that can be read, but probably contains a mistake."""


class ResumeWarning(UserWarning):
    """Warning that a resumed run may differ from an uninterrupted run, because its checkpoint is incomplete."""


@contextmanager
def options_named(**names: str) -> Iterator[None]:
    """Replace names of options in messages, such as the keyword of a function by the flag that the user knows.

    Examples
    --------
    >>> from eim_ros.core.errors import option_name, options_named
    >>> with options_named(package_paths="--package-path"):
    ...     option_name("package_paths")
    '--package-path'
    """
    token = _options.set({**_options.get(), **names})
    try:
        yield
    finally:
        _options.reset(token)


def option_name(keyword: str) -> str:
    """Return the name of an option for a message: the keyword itself, unless `options_named` replaces it."""
    return _options.get().get(keyword, keyword)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning that points to the line of the caller's code, outside of this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "eim_ros":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def did_you_mean(words: str | Iterable[str], known: Iterable[str]) -> str:
    """Return the end of an error message that suggests known words for one or several unknown words.

    Case, leading dashes, and the difference between "_" and "-" are ignored. A word may be only the last part or the
    group of a dotted name, such as "patience" or "ratio" in "ratio.patience". Names of other libraries are known, see
    `synonyms`. The result is empty if no known word is similar.
    """
    choices = list(known)
    near = dict.fromkeys(n for word in ([words] if isinstance(words, str) else words) for n in similar(word, choices))
    return f"; did you mean {' or '.join(near)}?" if near else ""


class Hinting:
    """Base class of objects whose error for an unknown attribute names the right one.

    Names of other libraries are known, see `synonyms`.

    Examples
    --------
    >>> from eim_ros.kinematics import Robot
    >>> Robot("panda").forward([0.0] * 7)
    Traceback (most recent call last):
        ...
    AttributeError: 'Robot' object has no attribute 'forward'; use fk(q)
    """

    __slots__ = ()
    _ELSEWHERE: ClassVar[Mapping[str, str]] = MappingProxyType({})

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            if name in self._ELSEWHERE:
                kind, here = type(self).__name__, self._ELSEWHERE[name]
                raise AttributeError(f"{kind!r} object has no attribute {name!r}; use {here}")
            return object.__getattribute__(self, name)  # raises the usual error


def similar(word: str, known: list[str]) -> list[str]:
    """Return up to two known words that have the same meaning as an unknown word, or a similar spelling."""
    wanted, forms = plain(word), by_form(known)
    if wanted in forms:
        return [forms[wanted]]
    if same := synonyms(word, known):
        return same[:2]
    near = [form for form in forms if form.rpartition(".")[2] == wanted][:2]  # a setting inside a group
    near = near or [form for form in forms if form.startswith(f"{wanted}.")][:2]  # a group
    near = near or difflib.get_close_matches(wanted, forms, n=2, cutoff=0.65)
    if not near:
        by_last = {form.rpartition(".")[2]: form for form in reversed(forms)}
        near = [by_last[last] for last in difflib.get_close_matches(wanted, by_last, n=2, cutoff=0.65)]
    if not near:  # the word may be a part of a longer name
        near = [form for form in forms if len(wanted) > 2 and wanted in form][:2]
    return [forms[form] for form in near]
