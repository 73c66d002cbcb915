"""Exit codes of `eim`: one for each kind of failure, so that a script knows what to do about it."""

from __future__ import annotations

import errno
from enum import IntEnum

from eim_ros.errors import DataError, MeshError, ModelFileError, RobotError, ServiceError

__all__ = ["EXPLAINED", "ExitCode", "code_of"]


class ExitCode(IntEnum):
    """What the end of a process tells."""

    DONE = 0
    NO_RESULT = 1
    USAGE = 2
    FILE = 3
    SERVICE = 4
    NOT_INSTALLED = 5
    RESOURCES = 6
    OWN_ERROR = 70  # EX_SOFTWARE of sysexits.h
    INTERRUPTED = 130  # 128 + SIGINT
    CLOSED_PIPE = 141  # 128 + SIGPIPE


EXPLAINED = {
    ExitCode.DONE: "done",
    ExitCode.NO_RESULT: "no result: no valid configuration was found, or nothing finite was learnt",
    ExitCode.USAGE: "what was asked for is wrong: a flag, a setting, a pose, a constraint",
    ExitCode.FILE: "a file, robot, model or data set is missing, damaged, or does not fit",
    ExitCode.SERVICE: "a service is not there, or does not answer",
    ExitCode.NOT_INSTALLED: "a package is not installed",
    ExitCode.RESOURCES: "memory or disk is full",
    ExitCode.OWN_ERROR: "an error of eim_ros itself, with a traceback",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.CLOSED_PIPE: "who read the output has gone, as with `| head`",
}

FILES = (DataError, MeshError, ModelFileError, RobotError, OSError)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM)


def code_of(error: BaseException) -> ExitCode:
    """The code for an error that a user can mend."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in FULL):
        return ExitCode.RESOURCES
    if isinstance(error, ImportError):
        return ExitCode.NOT_INSTALLED
    if isinstance(error, ServiceError):
        return ExitCode.SERVICE
    return ExitCode.FILE if isinstance(error, FILES) else ExitCode.USAGE
