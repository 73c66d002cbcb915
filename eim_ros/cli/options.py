"""Flags that ask for configurations of a pose, the same for a model file and for the running service.

Flags for what a request asks of every configuration beside the pose, for a posture, and for the answer's order.

Flags that name a robot: a shipped one, or any URDF with base and tip.

Configurations as a table on the terminal.

Command-line flags derived from settings: one flag per field, with its description, unit and bounds.

Basic settings, and the expert ones that `--help` only names, are groups of their own.

The flag --threads: how many threads the linear algebra has, see `eim_ros.core.parallel`.
"""

from __future__ import annotations

import argparse
import os
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from eim_ros.cli.main import Parser
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import Setting
from eim_ros.ik import ErrorCode, Samples
from eim_ros.kinematics import SHIPPED_ROBOTS, Robot, robot_path

if TYPE_CHECKING:
    pass


def add_robot_flags(parser: argparse.ArgumentParser, *, default: str | None = None) -> None:
    """Add --robot, --base and --tip; --robot may be left out where a default is told."""
    shipped = ", ".join(SHIPPED_ROBOTS)
    otherwise = f" (default: {default})" if default else ""
    parser.add_argument(
        "--robot", required=default is None, metavar="NAME|URDF", help=f"{shipped}, or the path of a URDF{otherwise}"
    )
    parser.add_argument("--base", metavar="LINK", help="base link (default: the root)")
    parser.add_argument("--tip", metavar="LINK", help="tip link (default: the only leaf)")


def robot_file(args: argparse.Namespace) -> Path | None:
    """The file of the robot that the flags name, where they name one."""
    return robot_path(args.robot) if args.robot else None


def robot_from(args: argparse.Namespace) -> Robot:
    """The robot that the flags name."""
    return Robot(args.robot, args.tip, base=args.base)


def given_robot(args: argparse.Namespace) -> Robot | None:
    """The robot that the flags name, where they need not."""
    if args.robot:
        return robot_from(args)
    if args.base or args.tip:
        raise ConfigurationError("--base and --tip are links of --robot: give it too", args.base or args.tip)
    return None


ROWS_SHOWN = 10


def print_configurations(samples: Samples, n_wanted: int) -> None:
    """Print a summary and the first rows of an answer, and why there are fewer than requested.

    Without a solution, print the best attempt, and say that it is none.
    """
    n = len(samples)
    print(f"{samples.valid.sum()} valid of {n} configurations in {1e3 * samples.elapsed:.2f} ms")
    if n < n_wanted and samples.error_code == ErrorCode.SUCCESS:
        print(samples.message)
    if samples.completeness is not None and samples.n_all is None:
        print(samples.completeness)
    names = [f"{name:>8}" for name in _short(samples.joint_names)]
    if not n:
        if samples.best_attempt is not None:
            print("no solution; the best attempt, which must not be executed:")
            print("  ".join(names))
            print(_values(names, samples.best_attempt))
        return
    print("  ".join([*names, "error [m]", "error [rad]", "valid"]))
    for row in range(min(n, ROWS_SHOWN)):
        errors = [f"{samples.position_error[row]:9.1e}", f"{samples.orientation_error[row]:11.1e}"]
        print("  ".join([_values(names, samples.positions[row]), *errors, "  yes" if samples.valid[row] else "   no"]))
    if n > ROWS_SHOWN:
        print(f"... and {n - ROWS_SHOWN} more; --json prints all")


def _values(names: Sequence[str], q: npt.NDArray[np.float64]) -> str:
    """One configuration below the names of its joints."""
    return "  ".join(f"{value:{len(name)}.4f}" for name, value in zip(names, q, strict=True))


def _short(names: Sequence[str]) -> list[str]:
    """Names without the words that all of them begin and end with."""
    if len(names) < 2:
        return list(names)
    begin = os.path.commonprefix(list(names)).rpartition("_")
    end = os.path.commonprefix([name[::-1] for name in names])[::-1].partition("_")
    first, last = len(begin[0] + begin[1]), len(end[1] + end[2])
    short = [name[first : len(name) - last] for name in names]
    return short if all(name and not name.isdigit() for name in short) else list(names)


def add_settings_flags(
    parser: argparse.ArgumentParser,
    choices: Mapping[str, Mapping[str, Setting]],
    aliases: Mapping[str, str],
    basic: Sequence[str] = (),
) -> None:
    """Add a flag for each setting of several alternatives, with the default that each of them has.

    Parameters
    ----------
    parser : ArgumentParser
    choices : mapping
        Settings of each alternative, as `described` returns them, by its name. A flag of a setting that the chosen
        alternative lacks is refused when the settings are built.
    aliases : mapping
        Short flag, such as "--experts", for a setting, by its dotted name.
    basic : sequence of str
        Settings that most users need: `--help` explains these first, and names the others. Empty: all.
    """
    title = f"of {', '.join(choices)}" if len(choices) > 1 else None
    owners: dict[str, dict[str, Setting]] = {}
    for choice, settings in choices.items():
        for name, setting in settings.items():
            owners.setdefault(name, {})[choice] = setting
    first = parser.add_argument_group("basic settings" if basic else "settings", title)
    others = parser.add_expert_group("expert settings", title or "") if basic and isinstance(parser, Parser) else first
    for name in sorted(owners, key=lambda name: basic.index(name) if name in basic else len(basic)):
        flags = [aliases[name]] if name in aliases else []
        flags.append("--" + name.replace("_", "-"))
        group = first if name in basic else others
        group.add_argument(*flags, dest=f"setting_{name}", default=None, **_options(owners[name]))


def given_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Settings whose flags were given."""
    prefix = "setting_"
    return {
        name.removeprefix(prefix): value
        for name, value in vars(args).items()
        if name.startswith(prefix) and value is not None
    }


def _options(owners: Mapping[str, Setting]) -> dict[str, Any]:
    field, annotation, default = next(iter(owners.values()))
    defaults = {choice: setting.default for choice, setting in owners.items()}
    shown = f"{default}"
    if len(set(defaults.values())) > 1:
        shown = ", ".join(f"{value} of {choice}" for choice, value in defaults.items())
    unit = f" [{field.metadata['unit']}]" if field.metadata["unit"] else ""
    options: dict[str, Any] = {"help": f"{field.metadata['description']}{unit} (default {shown})"}
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):  # of a type and None, which no flag means
        annotation = next(kind for kind in typing.get_args(annotation) if kind is not type(None))
    if annotation is bool:
        return {**options, "action": argparse.BooleanOptionalAction}
    if typing.get_origin(annotation) is tuple:
        return {**options, "nargs": "+", "type": typing.get_args(annotation)[0], "metavar": "VALUE"}
    if field.metadata["choices"]:
        return {**options, "choices": field.metadata["choices"]}
    return {**options, "type": annotation, "metavar": "VALUE"}


def add_threads_flag(parser: argparse.ArgumentParser) -> None:
    """Add --threads."""
    meaning = "threads of torch (default: what OMP_NUM_THREADS says, else 1)"
    parser.add_argument("--threads", type=int, metavar="N", help=meaning)


def use_threads(args: argparse.Namespace) -> None:
    """Apply --threads to this process."""
    if args.threads is not None and args.threads < 1:
        raise ConfigurationError(f"--threads must be at least 1, got {args.threads}", args.threads)
    from eim_ros.core.parallel import (
        default_threads,
        use_torch_threads,  # here: it needs torch
    )

    use_torch_threads(args.threads or default_threads())
