"""Errors of the package: each names the cause and the cure, and carries the offending value.

Bad input raises a subclass of `EimError`. A numerical outcome (not converged, stalled, non-finite) is
never an exception: it is data, see `eim_ros.learning.run`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class EimError(Exception):
    """Base of all errors raised on bad input.

    Parameters
    ----------
    message : str
        What was wrong and what was expected.
    value : object, optional
        The offending value.
    """

    def __init__(self, message: str, value: Any = None) -> None:
        super().__init__(message)
        self.value = value


class ConfigurationError(EimError):
    """A setting is unknown, of a wrong type, or out of its bounds."""


class KeywordError(ConfigurationError, TypeError):
    """A call has no keyword of that name."""


class ConstraintError(EimError):
    """Constraints of a request name what the robot has not, are malformed, or contradict each other."""


class DataError(EimError):
    """A data set is empty, of a wrong shape, not finite, or belongs to another robot."""


class DistributionError(EimError):
    """Parameters of a distribution do not describe one (shapes, finiteness, positive definiteness)."""


class ModelFileError(EimError):
    """A model file is missing, truncated, of another schema or format, or belongs to another robot."""


class RobotError(EimError):
    """A robot description cannot be read, or is no serial chain between base and tip."""


class MeshError(RobotError):
    """A mesh of a robot's description, or of an obstacle, is not there or cannot be read."""


class MissingFileError(EimError, FileNotFoundError):
    """A file that comes with the package is not installed."""


class NotBuiltError(EimError, ImportError):
    """A compiled module is missing, or older than the Python that uses it."""


class PathError(EimError):
    """A path of a request leads out of the data directory, to no regular file, or to a file that is not replaced."""


class PoseError(EimError):
    """A requested pose is not finite, or its quaternion is not of unit length."""


class JointStateError(EimError):
    """A joint state lacks joints of the robot, names unknown ones, or is not finite."""


class ServiceError(EimError):
    """A running service could not be reached, did not answer in time, or answered with an error."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What a message says of a word that is not known: "; did you mean ...?", or nothing where none is like it.

    Parameters
    ----------
    word : str
        Compared without regard to case, to "_" and "-", and to the dashes of a flag.
    known : iterable of str
        What there is.
    """
    by_form = {_plain(name): name for name in known}
    if _plain(word) in by_form:
        return f"; did you mean {by_form[_plain(word)]}?"
    near = difflib.get_close_matches(_plain(word), by_form, n=2, cutoff=0.65)
    if not near:  # a part of a longer name, or the other way round
        near = [form for form in by_form if len(_plain(word)) > 2 and _plain(word) in form][:2]
    return f"; did you mean {' or '.join(by_form[form] for form in near)}?" if near else ""


def _plain(word: str) -> str:
    return word.lower().replace("_", "-").lstrip("-")
