"""Flags that name a robot: a shipped one, or any URDF with base and tip."""

from __future__ import annotations

import argparse

from eim_ros.kinematics import SHIPPED_ROBOTS, Robot

__all__ = ["add_robot_flags", "robot_from"]


def add_robot_flags(parser: argparse.ArgumentParser) -> None:
    """Add --robot, --base and --tip."""
    shipped = ", ".join(SHIPPED_ROBOTS)
    parser.add_argument("--robot", required=True, metavar="NAME|URDF", help=f"{shipped}, or the path of a URDF")
    parser.add_argument("--base", metavar="LINK", help="base link (default: the root)")
    parser.add_argument("--tip", metavar="LINK", help="tip link (default: the only leaf)")


def robot_from(args: argparse.Namespace) -> Robot:
    """The robot that the flags name."""
    return Robot.load(args.robot, args.base, args.tip)
