"""`eim`: one entry point, a verb for each job. Bad input ends with exit code 2 and one line, never with a traceback."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from eim_ros import __version__
from eim_ros.errors import EimError

__all__ = ["main"]

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
    "report": "result tables of experiments beside what the thesis says",
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
NEGATIVE_NUMBER = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")  # argparse takes -1e-05 for an option


class _Parser(argparse.ArgumentParser):
    """Reports bad usage in one line, and takes negative numbers in any notation for numbers."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._negative_number_matcher = NEGATIVE_NUMBER

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = " ".join(["eim", *words[:1]])
    try:
        args = _parsed(words)
        return int(args.run(args))
    except EimError as error:
        return _fail(f"{command}: {error}", 2)
    except MemoryError as error:
        return _fail(f"{command}: not enough memory: {error}", 2)
    except OSError as error:  # a full disk, a folder without permission: the user's to mend
        return _fail(f"{command}: {error}", 2)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        return _fail(f"{command}: needs {package}, which is not installed; eim_ros[{EXTRAS[package]}] brings it", 2)
    except KeyboardInterrupt:
        return _fail(f"{command}: interrupted", 130)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="eim", description="Learn ways in which an arm can reach a pose, and sample them.")
    parser.add_argument("--version", action="version", version=f"eim_ros {__version__}")
    subparsers = parser.add_subparsers(metavar="VERB", required=True)
    verb = words[0] if words else None
    for name, summary in VERBS.items():
        if name == verb:
            importlib.import_module(f"eim_ros.cli.{name.replace('-', '_')}").add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    return parser.parse_args(words)


def _fail(reason: str, code: int) -> int:
    print(" ".join(reason.split()), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
