"""Flags of a request for configurations: the pose, the constraints, whole numbers. Parsing them needs no numpy."""

from __future__ import annotations

import argparse
import math
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from eim_ros.core.errors import (
    ConstraintError,
    PoseError,
)

if TYPE_CHECKING:
    from eim_ros.ik import Constraints, Posture
    from eim_ros.kinematics import Box, Mesh
LARGEST_COUNT = 2**32 - 1  # what the service's messages can carry
LARGEST_SEED = 2**63 - 1
LARGEST_PORT = 2**16 - 1


def count(text: str) -> int:
    """How many: 1 or more."""
    return _within(text, 1, LARGEST_COUNT)


def port(text: str) -> int:
    """Of a network: 0, for any that is free, to 65535."""
    return _within(text, 0, LARGEST_PORT)


def count_or_none(text: str) -> int:
    """How many: 0 or more."""
    return _within(text, 0, LARGEST_COUNT)


def random_seed(text: str) -> int:
    """Random seed: 0 or more."""
    return _within(text, 0, LARGEST_SEED)


def random_seed_or_fresh(text: str) -> int | None:
    """Random seed; None, for a fresh one, if negative."""
    value = _within(text, -LARGEST_SEED, LARGEST_SEED)
    return value if value >= 0 else None


def _within(text: str, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError as error:
        raise ArgumentTypeError(f"expected a whole number, got {text!r}") from error
    if not least <= value <= most:
        raise ArgumentTypeError(f"must be between {least} and {most}, got {value}")
    return value


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


T = TypeVar("T")


def add_constraint_flags(parser: argparse.ArgumentParser) -> None:
    """Add flags for joints, tolerances, obstacles, --posture and --order."""
    add = parser.add_argument
    add(
        "--limit",
        action="append",
        default=[],
        metavar="JOINT=LOWER:UPPER",
        help="narrower limits of a joint [rad or m], an end left out: its own; may be repeated",
    )
    add("--fix", action="append", default=[], metavar="JOINT=VALUE", help="joint that must not move; may be repeated")
    add(
        "--tolerance",
        nargs=6,
        type=float,
        metavar=("X", "Y", "Z", "RX", "RY", "RZ"),
        help="how far the tip may be off along [m] and turned about [rad] the axes of the wanted frame; inf: free",
    )
    add("--self-collision", action="store_true", help="drop configurations in which the robot collides with itself")
    add(
        "--box",
        nargs="+",
        action="append",
        default=[],
        type=float,
        metavar="VALUE",
        help="obstacle: centre X Y Z, edges SX SY SZ [m], optionally QX QY QZ QW; may be repeated",
    )
    add(
        "--sphere",
        nargs=4,
        action="append",
        default=[],
        type=float,
        metavar=("X", "Y", "Z", "RADIUS"),
        help="obstacle [m]; may be repeated",
    )
    add(
        "--mesh",
        nargs="+",
        action="append",
        default=[],
        metavar=("FILE", "VALUE"),
        help="solid obstacle of a file (STL, OBJ, DAE), optionally moved to X Y Z [m] and turned by QX QY QZ QW; "
        "may be repeated",
    )
    add("--clearance", type=float, default=0.0, metavar="DISTANCE", help="kept from what must not be hit [m]")
    add(
        "--posture",
        nargs="+",
        metavar="JOINT=VALUE[:WEIGHT]",
        help="preferred values of joints [rad or m], to which solutions are moved as near as the pose allows",
    )
    add(
        "--order",
        nargs="+",
        metavar="NAME[=WEIGHT]",
        help="best first by density, distance (to --near), posture, manipulability, limits, several weighted, or none",
    )


def constraints_from(args: argparse.Namespace) -> Constraints | None:
    """What the flags ask for, None for nothing; `ConstraintError` or `PoseError` if one is malformed."""
    obstacles = [*args.box, *args.sphere, *args.mesh]
    if args.clearance and not (obstacles or args.self_collision):
        raise ConstraintError(
            f"--clearance {args.clearance:g} is kept from nothing: give --box, --sphere, --mesh or --self-collision",
            args.clearance,
        )
    if not (args.limit or args.fix or args.tolerance or args.self_collision or obstacles):
        return None
    from eim_ros.ik import Constraints  # here: a plain request need not wait for it
    from eim_ros.kinematics import Sphere

    return Constraints(
        limits=_named("--limit", args.limit, "JOINT=LOWER:UPPER", _ends),
        fixed=_named("--fix", args.fix, "JOINT=VALUE", float),
        self_collision=args.self_collision,
        obstacles=(
            *map(_box, args.box),
            *(Sphere(values[:3], values[3]) for values in args.sphere),
            *map(_mesh, args.mesh),
        ),
        tolerances=args.tolerance,
        clearance=args.clearance,
    )


def order_from(args: argparse.Namespace) -> dict[str, float] | None:
    """Criteria of --order and their weights; None where it is not given."""
    if args.order is None:
        return None
    words = [word if "=" in word else f"{word}=1" for word in args.order]
    return _named("--order", words, "NAME or NAME=WEIGHT", float)


def posture_from(args: argparse.Namespace) -> Posture | None:
    """What --posture prefers; None where it is not given."""
    if args.posture is None:
        return None
    from eim_ros.ik import Posture  # here as above

    preferred = _named("--posture", args.posture, "JOINT=VALUE[:WEIGHT]", _weighted)
    values, weights = ({name: pair[which] for name, pair in preferred.items()} for which in (0, 1))
    return Posture(values, weights)


def _named(flag: str, words: Sequence[str], form: str, read: Callable[[str], T]) -> dict[str, T]:
    """Values by name, each name once."""
    values: dict[str, T] = {}
    for word in words:
        name, separator, value = word.partition("=")
        wrong = ConstraintError(f"{flag} needs {form}, each name once, got {word!r}", word)
        if not name or not separator or name in values:
            raise wrong
        try:
            values[name] = read(value)
        except ValueError as error:
            raise wrong from error
    return values


def _ends(text: str) -> tuple[float, float]:
    lower, upper = text.split(":")
    return float(lower or -math.inf), float(upper or math.inf)


def _weighted(text: str) -> tuple[float, float]:
    value, separator, weight = text.partition(":")
    return float(value), float(weight) if separator else 1.0


def _box(values: Sequence[float]) -> Box:
    from eim_ros.kinematics import Box, pose_from

    if len(values) not in (6, 10):
        raise ConstraintError(f"--box needs 6 or 10 numbers (X Y Z SX SY SZ [QX QY QZ QW]), got {len(values)}", values)
    return Box(pose_from(values[:3], values[6:] or None), values[3:6])


def _mesh(words: Sequence[str]) -> Mesh:
    from eim_ros.kinematics import Mesh, pose_from

    path, *numbers = words
    expected = "--mesh needs a file, and 0, 3 or 7 numbers (X Y Z [QX QY QZ QW])"
    try:
        values = [float(number) for number in numbers]
    except ValueError as error:
        raise ConstraintError(f"{expected}: {error}", words) from error
    if len(values) not in (0, 3, 7):
        raise ConstraintError(f"{expected}, got {len(values)}", words)
    return Mesh.load(path, pose_from(values[:3], values[3:] or None) if values else None)
