"""Flags that ask for configurations of a pose, the same for a model file and for the running service."""

from __future__ import annotations

import argparse

from eim_ros.cli.whole_numbers import count
from eim_ros.errors import PoseError

__all__ = ["add_query_flags", "add_tool_flag", "check_pose_length", "wants_position_only"]

DISTRIBUTIONS = ("uniform", "model", "posture")  # of `ik.request`, whose import takes numpy


def add_query_flags(parser: argparse.ArgumentParser) -> None:
    """Add --pose, -n, --position-only, --refine, --distinct, --explore, --until, --separation, --distribution,
    --temperature and --json.
    """
    add = parser.add_argument
    add(
        "--pose",
        nargs="+",
        type=float,
        required=True,
        metavar="VALUE",
        help="X Y Z [m], optionally followed by the quaternion QX QY QZ QW, of the tip in the frame of the base link",
    )
    add("-n", "--samples", type=count, default=100, metavar="N", help="configurations wanted (default %(default)s)")
    add(
        "--position-only",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="accept every orientation (default: if and only if --pose has no quaternion)",
    )
    add("--refine", action=argparse.BooleanOptionalAction, default=True, help="refine and keep the valid (default)")
    add(
        "--distinct",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="drop near-duplicates (default: where configurations are refined)",
    )
    add(
        "--explore",
        type=float,
        metavar="SHARE",
        help="how much all solutions matter, not those alone that the model prefers, 0 to 1 (default: the model's)",
    )
    add(
        "--until",
        nargs=2,
        type=float,
        metavar=("CONFIDENCE", "SHARE"),
        help="search until it is so sure that at most this share of restarts leads to families not found: 0.99 0.002",
    )
    add(
        "--separation",
        type=float,
        metavar="RAD",
        help="in place of -n: as many as it takes to be at most so far apart along curves",
    )
    add(
        "--distribution",
        choices=DISTRIBUTIONS,
        help="random draws from all solutions: of equal density, of that of the model, or by the cost of the posture",
    )
    add("--temperature", type=float, default=1.0, help="of --distribution posture (default %(default)s)")
    add("--json", action="store_true", help="print one JSON object")


def add_tool_flag(parser: argparse.ArgumentParser) -> None:
    """Add --tool."""
    parser.add_argument(
        "--tool",
        nargs="+",
        type=float,
        metavar="VALUE",
        help="tip of a tool that is to reach the pose, in the frame of the tip link: X Y Z [m], optionally QX QY QZ QW",
    )


def check_pose_length(args: argparse.Namespace) -> None:
    """`PoseError` unless --pose is a position, or a position and a quaternion."""
    if len(args.pose) not in (3, 7):
        raise PoseError(f"--pose needs 3 or 7 numbers (X Y Z [QX QY QZ QW]), got {len(args.pose)}", args.pose)


def wants_position_only(args: argparse.Namespace) -> bool:
    """What --position-only says, or else whether --pose is without a quaternion."""
    return len(args.pose) == 3 if args.position_only is None else bool(args.position_only)
