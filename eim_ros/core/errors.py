"""Errors of the package.

Each message names the cause and the remedy, and each error carries the offending value. Bad input raises a subclass of
`EimError`. A numerical outcome (not converged, stalled, non-finite) is never an exception. It is data, see
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
}  # packages that are not needed to solve poses or serve a model, and the extras that install them
LONGEST_MESSAGE, LONGEST_WORD = 2000, 300  # largest numbers of characters; a path or a list of 30 joints still fits
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
_options: ContextVar[Mapping[str, str]] = ContextVar("options", default=MappingProxyType({}))


def shortened(text: str) -> str:
    """Return the text of a message or log line. If the text or a word is too long, its middle is left out.

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

    `value` is the offending value. The message is `shortened`.

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
    """A setting is unknown, has the wrong type, or is out of bounds."""


class KeywordError(ConfigurationError, TypeError):
    """A call was given a keyword that it does not have."""


class ConstraintError(EimError):
    """Constraints of a request are malformed, contradict each other, or name a part that the robot does not have."""


class DataError(EimError):
    """A data set is empty, has the wrong shape, is not finite, or belongs to another robot."""


class DistributionError(EimError):
    """Parameters do not describe a distribution (shapes, finiteness, positive definiteness)."""


class ModelFileError(EimError):
    """A model file is missing or truncated, has another schema or format, or belongs to another robot."""


class RobotError(EimError):
    """A robot description cannot be read, or has no serial chain between base and tip."""


class MeshError(RobotError):
    """A mesh of a robot description or of an obstacle is missing or cannot be read."""


class MissingFileError(EimError, FileNotFoundError):
    """A file that belongs to the package is not installed."""


class NotBuiltError(EimError, ImportError):
    """A compiled module is missing, or is older than the Python code that uses it."""


class MissingPackageError(EimError, ModuleNotFoundError):
    """A package that some parts of eim_ros need is not installed."""

    def __init__(self, what: str, package: str) -> None:
        remedy = f"run pip install '.[{EXTRAS[package]}]' in the clone of eim_ros"
        super().__init__(f"{what} needs {package}, which is not installed: {remedy}", package)
        self.name = package


class PathError(EimError):
    """A path in a request leaves the data directory, is not a regular file, or may not be replaced."""


class PoseError(EimError):
    """A requested pose is not finite, or its quaternion does not have unit length."""


class JointStateError(EimError):
    """A joint state lacks joints of the robot, names unknown joints, or is not finite."""


class ServiceError(EimError):
    """A running service could not be reached, did not answer in time, or answered with an error."""


class RobotWarning(UserWarning):
    """A robot description can be read, but something in it is probably a mistake."""


class ResumeWarning(UserWarning):
    """A resumed run may differ from an uninterrupted run, because its checkpoint lacks a part of the state."""


@contextmanager
def options_named(**names: str) -> Iterator[None]:
    """Make messages name options as the user knows them, such as a flag instead of the keyword of a function.

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
    """Return the name of an option for a message: the keyword itself, unless `options_named` gives another name."""
    return _options.get().get(keyword, keyword)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning that points to the line of the caller's code, outside of this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "eim_ros":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def did_you_mean(words: str | Iterable[str], known: Iterable[str]) -> str:
    """Return the end of an error message that suggests known words for one or several unknown words.

    Case, "_" versus "-" and the leading dashes of a flag are ignored. A word may be only the last part or the group of
    a dotted name, such as "patience" or "ratio" in "ratio.patience". Names of other libraries are known, see
    `synonyms`. The result is empty if no known word is similar.
    """
    choices = list(known)
    near = dict.fromkeys(n for word in ([words] if isinstance(words, str) else words) for n in similar(word, choices))
    return f"; did you mean {' or '.join(near)}?" if near else ""


class Hinting:
    """Base class of objects that know names of other libraries, and name their own in the error message.

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
    """Return up to two known words that mean the same as an unknown word, or are similar to it."""
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
