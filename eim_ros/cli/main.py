"""`eim`: one entry point, a verb for each job. Bad input ends with one line and a code for its kind of failure."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Sequence

from eim_ros import __version__
from eim_ros.cli.exit_codes import EXPLAINED, ExitCode, code_of
from eim_ros.cli.parser import Parser
from eim_ros.errors import EimError, did_you_mean

__all__ = ["EXTRAS", "VERBS", "main", "parser_of"]

# The modules are imported when their verb is used: `eim --help` needs neither torch nor ROS.
VERBS = {
    "collect": "sample configurations of a robot and what they reach",
    "import": "turn recorded bags into a data set of motions or of poses and configurations",
    "recover": "make bags whole that were cut off",
    "export": "write motions for other programs: LeRobot",
    "train": "learn an inverse kinematics model or a motion prior from a data set",
    "vi": "fit a Gaussian mixture to a target density: variational inference",
    "evaluate": "errors, limits, entropies and likelihood of a model's raw samples",
    "sample": "configurations for a pose, of a model or of a robot",
    "draw": "a picture of an arm in the configurations for a pose",
    "view": "a page in the browser: drag the target, see all solutions",
    "map": "what an arm can do where: a capability map",
    "motion": "motions from a motion prior, and how likely motions are",
    "request": "configurations for a pose, from the running service",
    "experiment": "run an experiment, print its table, draw its figures",
    "list": "shipped robots and models",
    "completion": "a script that completes verbs and flags in a shell",
    "report": "result tables of experiments beside what the thesis says",
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
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = " ".join(["eim", *words[:1]])
    try:
        args = _parsed(words)
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
        from eim_ros.numerics.native import stale_module

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
