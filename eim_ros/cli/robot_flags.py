"""Flags that name a robot: a shipped one, or any URDF with base and tip."""

from __future__ import annotations

import argparse
from pathlib import Path

from eim_ros.errors import ConfigurationError
from eim_ros.kinematics import SHIPPED_ROBOTS, Robot, robot_path

__all__ = ["add_robot_flags", "given_robot", "robot_file", "robot_from"]


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
    return Robot.load(args.robot, args.base, args.tip)


def given_robot(args: argparse.Namespace) -> Robot | None:
    """The robot that the flags name, where they need not."""
    if args.robot:
        return robot_from(args)
    if args.base or args.tip:
        raise ConfigurationError("--base and --tip are links of --robot: give it too", args.base or args.tip)
    return None
