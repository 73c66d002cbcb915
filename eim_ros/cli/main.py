"""`eim`: one program with a verb for each task.

A user error is reported in one line, with an exit code for its kind. Only the module of the requested verb is imported.
Flags are read before torch or ROS is imported.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Protocol

from eim_ros import __version__
from eim_ros.cli.hints import hint_for_verb
from eim_ros.core.errors import (
    EXTRAS,
    ConfigurationError,
    DataError,
    EimError,
    MeshError,
    ModelFileError,
    RobotError,
    RobotWarning,
    ServiceError,
    did_you_mean,
    options_named,
)

FILES = (DataError, MeshError, ModelFileError, RobotError, OSError)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM)
GROUPS = {
    "Solutions of a pose": {
        "solve": ("sample", "one configuration that reaches a pose"),
        "sample": ("sample", "many different configurations that reach a pose"),
        "solve-all": ("sample", "all configurations that reach a pose"),
        "solve-nearest-pose": ("sample", "the configuration nearest to a pose, even out of reach"),
        "draw": ("sample", "independent random draws from all solutions of a pose"),
        "follow": ("sample", "a joint path without jumps for a path of poses"),
    },
    "An arm and its reach": {
        "view": ("view", "show the solutions of a target that you drag in the browser"),
        "picture": ("sample", "draw an arm in several solutions of a pose"),
        "map": ("map", "map the poses that an arm reaches, and how well"),
        "place": ("place", "find positions of the base from which an arm reaches poses"),
        "list": ("map", "list the included robots and models"),
    },
    "Models": {
        "collect": ("data", "sample configurations of a robot and the poses that they reach"),
        "import": ("data", "convert recorded bags to a data set, or repair them"),
        "train": ("train", "learn a model of solutions or motions, or of any arrays"),
        "evaluate": ("data", "evaluate the errors, entropies and likelihood of a model"),
        "motion": ("motion", "draw motions from a learned motion prior, or score motions"),
    },
    "Demo and checks": {
        "demo": ("demo", "collect data, train a model, serve it and draw solutions"),
        "doctor": ("doctor", "check this machine and name a remedy for each fault"),
    },
}
OTHERS = {
    "propose": ("sample", "raw draws of a model, which may miss the pose"),
    "export": ("data", "write motions as a LeRobot data set"),
    "completion": ("completion", "print a script that completes verbs and flags in a shell"),
}
VERBS = {name: entry for group in (*GROUPS.values(), OTHERS) for name, entry in group.items()}
"""Module and summary of each verb. The module has a dataclass of the verb's name, such as SolveAll for "solve-all"."""


class ExitCode(IntEnum):
    """Exit codes, one for each kind of failure, for use in scripts."""

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
    ExitCode.NO_RESULT: "no result: no valid configuration was found, or the learned model is not finite",
    ExitCode.USAGE: "a flag, a setting, a pose or a constraint is wrong",
    ExitCode.FILE: "a file, robot, model or data set is missing, damaged or unsuitable",
    ExitCode.SERVICE: "a service is missing or does not answer",
    ExitCode.NOT_INSTALLED: "a package is not installed",
    ExitCode.RESOURCES: "memory or disk is full",
    ExitCode.OWN_ERROR: "a bug in eim_ros, with a traceback",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.CLOSED_PIPE: "the program that reads the output has closed it, as `| head` does",
}


def code_of(error: BaseException) -> ExitCode:
    """Return the exit code for an error that the user can fix."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in FULL):
        return ExitCode.RESOURCES
    if isinstance(error, ImportError):
        return ExitCode.NOT_INSTALLED
    if isinstance(error, ServiceError):
        return ExitCode.SERVICE
    return ExitCode.FILE if isinstance(error, FILES) else ExitCode.USAGE


class Verb(Protocol):
    """A verb with its flags."""

    def run(self) -> int: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return one of the exit codes in `ExitCode`."""
    return run_program("eim", read_verb, sys.argv[1:] if arguments is None else arguments)


def run_program(program: str, read: Callable[[list[str]], Verb], arguments: Sequence[str]) -> int:
    """Read the arguments of a program, run its verb, and return the exit code. Errors are printed in one line."""
    words = list(arguments)
    command = " ".join([program, *words[:1]])
    try:
        with _warnings_in_lines(command), options_named(package_paths="--package-path"):
            code = int(read(words).run())
        sys.stdout.flush()  # flush now, because a closed pipe can still be reported
        return code
    except BrokenPipeError:
        # The reader has closed the output. Discard the remaining output, because the interpreter would report an error
        # at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.CLOSED_PIPE
    except MemoryError as error:
        return _fail(f"{command}: there is not enough memory: {error}", code_of(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in EXTRAS:
            remedy = f"{package} is not installed: run pip install '.[{EXTRAS[package]}]' in the clone of eim_ros"
            return _fail(f"{command}: {remedy}", code_of(error))
        return _own_error()
    except (EimError, OSError) as error:
        return _fail(f"{command}: {error}", code_of(error))
    except AttributeError as error:
        from eim_ros.core.native import stale_module

        stale = stale_module(error)
        return _fail(f"{command}: {stale}", ExitCode.NOT_INSTALLED) if stale else _own_error()
    except KeyboardInterrupt:
        return _fail(f"{command}: interrupted", ExitCode.INTERRUPTED)
    except Exception:
        return _own_error()


@contextmanager
def _warnings_in_lines(command: str) -> Iterator[None]:
    """Print each warning about a robot description once and in one line. Print other warnings as usual."""
    shown = set[str]()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **options: Any) -> None:
            if not issubclass(category, RobotWarning):
                usual(message, category, *rest, **options)
            elif str(message) not in shown:
                shown.add(str(message))
                print(f"{command}: warning: {message}", file=sys.stderr)

        warnings.showwarning = show
        warnings.simplefilter("always", RobotWarning)
        yield


def verb_type(name: str) -> Any:
    """Import the module of a verb. Return its dataclass, or a dictionary of its inner verbs and their dataclasses."""
    module = importlib.import_module(f"eim_ros.cli.{VERBS[name][0]}")
    return getattr(module, name.title().replace("-", ""))


def read_verb(words: Sequence[str]) -> Verb:
    """Return the verb of a command line with its flags."""
    name, *rest = [*words[1:], "--help"] if words[:1] == ["help"] else list(words) or ["--help"]
    if name in ("-h", "--help", "--help-all", "--version"):
        print(f"eim_ros {__version__}" if name == "--version" else _help(shows_all=name == "--help-all"))
        raise SystemExit(0)
    if name not in VERBS:
        if name.startswith("-"):
            meant = did_you_mean(name, ["--version", "--help"])
            raise ConfigurationError(
                f"the verb must come before the flag {name}, as in `eim sample --robot panda`{meant} (see eim --help)"
            )
        raise ConfigurationError(f"there is no verb {name!r}{hint_for_verb(name, VERBS)} (see eim --help)")
    kind = verb_type(name)
    if isinstance(kind, dict):
        inner, *rest = rest or [""]
        if inner not in kind:
            listed = ", ".join(kind)
            if inner in ("-h", "--help", "--help-all", ""):
                print(f"usage: eim {name} {{{listed.replace(', ', ',')}}} [FLAGS]\n")
                print("\n".join(f"  {each:<18} {kind[each].__doc__.splitlines()[0]}" for each in kind))
                raise SystemExit(0)
            raise ConfigurationError(f"expected one of {listed}, got {inner!r} (see eim {name} --help)")
        kind, name = kind[inner], f"{name} {inner}"
    from eim_ros.cli.flags import parse

    read = getattr(kind, "read", None)  # a verb that lists its settings has its own parser
    verb: Verb = read(rest) if read else parse(kind, f"eim {name}", rest)
    return verb


def _help(shows_all: bool = False) -> str:
    groups = {**GROUPS, "Others": OTHERS} if shows_all else GROUPS
    lines = [
        "usage: eim VERB [FLAGS]\n",
        "Find the configurations with which an arm reaches a pose, and learn models of them.",
        "Example: `eim solve panda --pose 0.4 0.1 0.5 1 0 0 0`. `eim VERB --help` explains a verb.",
    ]
    for title, verbs in groups.items():
        lines += [f"\n{title}:", *(f"  {name:<18} {summary}" for name, (_, summary) in verbs.items())]
    if shows_all:
        return "\n".join([*lines, "\nExit codes:", *(f"  {code:<4d} {meaning}" for code, meaning in EXPLAINED.items())])
    return "\n".join([*lines, f"\n--help-all adds {', '.join(OTHERS)} and the exit codes."])


def _fail(reason: str, code: int) -> int:
    print(" ".join(reason.split()), file=sys.stderr)
    return code


def _own_error() -> int:
    traceback.print_exc()
    print("eim: this is a bug in eim_ros; please report it with the traceback above", file=sys.stderr)
    return ExitCode.OWN_ERROR


if __name__ == "__main__":
    sys.exit(main())
