"""`eim`: one entry point, a verb for each job. Bad input ends with one line and a code for its kind of failure.

The parser of all verbs: bad usage in one line that says what was meant, and help of two lengths.

`--help` explains the basic settings and names the others; `--help-all` explains all.

Exit codes of `eim`: one for each kind of failure, so that a script knows what to do about it.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, NoReturn

from eim_ros import __version__
from eim_ros.core.errors import DataError, EimError, MeshError, ModelFileError, RobotError, ServiceError, did_you_mean


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


NEGATIVE_NUMBER = re.compile(r"-(\d+\.?\d*|\.\d+|inf)([eE][+-]?\d+)?$")  # argparse takes -1e-05 for an option
LIKE_A_FLAG = re.compile(r"--?[A-Za-z][\w.-]+$")


class _HelpAll(argparse.Action):
    """Prints the help with every setting."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        assert isinstance(parser, Parser)
        parser._shows_all = True
        parser.print_help()
        parser.exit()


class Parser(argparse.ArgumentParser):
    """Reports bad usage in one line with what was meant, and takes negative numbers in any notation for numbers."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._negative_number_matcher = NEGATIVE_NUMBER
        self._expert_group: argparse._ArgumentGroup | None = None
        self._shows_all = False

    def add_expert_group(self, title: str, description: str) -> argparse._ArgumentGroup:
        """A group whose flags `--help` names and `--help-all` explains."""
        if "--help-all" not in self._option_string_actions:
            self.add_argument("--help-all", action=_HelpAll, nargs=0, help="explain the expert settings, too, and exit")
        self._expert_group = self.add_argument_group(title, description)
        return self._expert_group

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.USAGE, f"{self.prog}: {' '.join(message.split())} (see {self.prog} --help)\n")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse, but what a parser does not know is told by that parser, before what it misses."""
        words = [] if args is None else list(args)
        if not self._has_verbs:
            self._refuse_unknown(word for word in words[: words.index("--") if "--" in words else None])
        known, rest = super().parse_known_args(words, namespace)
        if rest and not self._has_verbs:
            self.error(f"there is no place for {' '.join(rest)}{self._meant(rest)}")
        return known, rest

    def format_usage(self) -> str:
        formatter = self._get_formatter()
        self._add_usage(formatter)
        return formatter.format_help()

    def format_help(self) -> str:
        if self._expert_group is None or self._shows_all:
            return super().format_help()
        formatter = self._get_formatter()
        self._add_usage(formatter)
        formatter.add_text(self.description)
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            if group is self._expert_group:
                names = ", ".join(action.option_strings[0] for action in group._group_actions)
                formatter._add_item(_unbroken, [f"{names}: see --help-all", formatter._width])
            else:
                formatter.add_arguments(group._group_actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    @property
    def _has_verbs(self) -> bool:
        return self._subparsers is not None

    def _add_usage(self, formatter: argparse.HelpFormatter) -> None:
        """Without expert settings unless all are shown."""
        hidden = [] if self._expert_group is None or self._shows_all else self._expert_group._group_actions
        shown = [action for action in self._actions if action not in hidden]
        formatter.add_usage(self.usage, shown, self._mutually_exclusive_groups)

    def _refuse_unknown(self, words: Iterable[str]) -> None:
        """Flags that there are not; argparse also takes a beginning that only one flag has."""
        known = list(self._option_string_actions)
        for word in words:
            name = word.partition("=")[0]
            is_flag = (
                LIKE_A_FLAG.match(name) and name != "-inf" and name[:2] not in known
            )  # else a short flag with its value, as -n50
            if is_flag and not any(flag.startswith(name) for flag in known):
                self.error(f"there is no flag {name}{self._meant([name])}")
            of_group = [flag for flag in known if flag.startswith(f"{name}.")]
            if is_flag and of_group and name not in known:
                self.error(f"{name} is a group of flags, such as {of_group[0]}")

    def _meant(self, words: Sequence[str]) -> str:
        first = words[0].partition("=")[0]
        is_flag = first.startswith("-") and not NEGATIVE_NUMBER.match(first)
        return did_you_mean(f"--{first.lstrip('-')}", self._option_string_actions) if is_flag else ""

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type not in (int, float):
                raise
            kind = "a whole number" if action.type is int else "a number"
            listed = "; several are separated by spaces" if set(arg_string) & set(",;[]()") else ""
            raise argparse.ArgumentError(action, f"expected {kind}, got {arg_string!r}{listed}") from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            meant = did_you_mean(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(action, f"{error.message}{meant}") from None


def _unbroken(text: str, width: int) -> str:
    """A paragraph whose flags stay whole."""
    indent = "  "
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False) + "\n"


# The modules are imported when their verb is used: `eim --help` needs neither torch nor ROS.
VERBS = {
    "collect": "sample configurations of a robot and what they reach",
    "import": "turn recorded bags into a data set of motions or of poses and configurations",
    "recover": "make bags whole that were cut off",
    "export": "write motions for other programs: LeRobot",
    "train": "learn an inverse kinematics model or a motion prior from a data set",
    "evaluate": "errors, limits, entropies and likelihood of a model's raw samples",
    "sample": "configurations for a pose, of a model or of a robot",
    "draw": "a picture of an arm in the configurations for a pose",
    "view": "a page in the browser: drag the target, see all solutions",
    "map": "what an arm can do where: a capability map",
    "motion": "motions from a motion prior, and how likely motions are",
    "request": "configurations for a pose, from the running service",
    "list": "shipped robots and models",
    "completion": "a script that completes verbs and flags in a shell",
    "doctor": "what is broken or missing on this machine, and its cure",
    "demo": "the whole circle: collect, train, serve, request, draw",
    "demo-planar": "a planar robot: demonstrate, record, train, sample, execute",
}
EXTRAS = {
    "torch": "learning",
    "rosbags": "bags",
    "matplotlib": "viz",
    "distributed": "experiments",
    "joblib": "experiments",
    "sklearn": "experiments",
    "trimesh": "view",
    "viser": "view",
}  # what serving a model does not need


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code, see `ExitCode`."""
    return run_program("eim", _parsed, sys.argv[1:] if arguments is None else arguments)


def run_program(program: str, parse: Callable[[list[str]], argparse.Namespace], arguments: Sequence[str]) -> int:
    """Parse the arguments of a program and run its verb; report an error in one line. Returns the exit code."""
    words = list(arguments)
    command = " ".join([program, *words[:1]])
    try:
        args = parse(words)
        code = int(args.run(args))
        sys.stdout.flush()  # here, where it can still be told that who reads it has gone
        return code
    except BrokenPipeError:
        _close_output()
        return ExitCode.CLOSED_PIPE
    except MemoryError as error:
        return _fail(f"{command}: not enough memory: {error}", code_of(error))
    except (EimError, OSError) as error:  # of the latter: a full disk, a folder without permission
        return _fail(f"{command}: {error}", code_of(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in EXTRAS:
            cure = f"needs {package}, which is not installed; eim_ros[{EXTRAS[package]}] brings it"
            return _fail(f"{command}: {cure}", code_of(error))
        return _own_error()
    except AttributeError as error:
        from eim_ros.core.native import stale_module

        stale = stale_module(error)
        return _fail(f"{command}: {stale}", ExitCode.NOT_INSTALLED) if stale else _own_error()
    except KeyboardInterrupt:
        return _fail(f"{command}: interrupted", ExitCode.INTERRUPTED)
    except Exception:
        return _own_error()


def parser_of(verbs: Sequence[str]) -> Parser:
    """The parser of the whole command line, with the flags of these verbs, whose modules are imported."""
    codes = "; ".join(f"{code:d}: {meaning}" for code, meaning in EXPLAINED.items())
    parser = Parser(
        prog="eim",
        description="Learn ways in which an arm can reach a pose, and sample them. Each verb has --help and --json.",
        epilog=f"Exit codes: {codes}.",
    )
    parser.add_argument("--version", action="version", version=f"eim_ros {__version__}")
    subparsers = parser.add_subparsers(metavar="VERB", required=True)
    for name, summary in VERBS.items():
        if name in verbs:
            importlib.import_module(f"eim_ros.cli.{name.replace('-', '_')}").add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    return parser


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    if words[:1] == ["help"]:  # of the verb that follows, where one does
        words = [*words[1:], "--help"]
    parser = parser_of(words[:1])
    if words and words[0].startswith("-") and words[0] not in parser._option_string_actions:
        meant = did_you_mean(words[0], ["--version", "--help"])
        parser.error(f"there is no flag {words[0]} before a verb, as in `eim sample --robot panda`{meant}")
    return parser.parse_args(words)


def _fail(reason: str, code: int) -> int:
    print(" ".join(reason.split()), file=sys.stderr)
    return code


def _own_error() -> int:
    traceback.print_exc()
    print("eim: this is an error of eim_ros itself: please report it", file=sys.stderr)
    return ExitCode.OWN_ERROR


def _close_output() -> None:
    """Nobody reads it any more: what is still to be written goes nowhere, without a complaint of the interpreter."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
