"""Comparison of two arms with the same kinematics, and search for a known arm in another description.

Names of joints, links and frames do not matter. Each joint is compared by its screw axis at zero in the base frame: the
axis about which it turns or along which it slides. If all screws agree up to one rigid motion B, then

    T_robot(q) = B T_model(q) X

for every configuration, with a constant X at the tip (product of exponentials, Brockett 1984). Two arms therefore match
even if their joint frames differ, if their bases differ (B), or if one of them has a tool (X).

Many descriptions contain a known arm once or twice under prefixed names, such as `left_panda_link0`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import expect
from eim_ros.core.errors import RobotError
from eim_ros.kinematics.catalogue import read_urdf_source, robot_path
from eim_ros.kinematics.links import poses_at_zero
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.urdf import (
    MULTIPLIER,
    OFFSET,
    PRISMATIC,
    SOURCE,
    UrdfTree,
    listed,
    parse_urdf,
)

LENGTH_TOLERANCE = 5e-3  # between axes, because robots of the same type differ in their calibration [m]
ANGLE_TOLERANCE = 1e-2  # between axes [rad]
FOLLOWER_TOLERANCE = 1e-6  # maximum difference between multipliers, and between offsets
SAME = 1e-9  # smaller differences [m] or [1] are rounding errors


@dataclass(frozen=True, eq=False)
class Offset:
    """Offsets between the bases and between the tips of two arms with the same kinematics."""

    base: FloatArray  # B (4, 4), the pose of the other arm's base in the base frame of this arm
    tool: FloatArray  # X (4, 4), the pose of this arm's tip in the tip frame of the other arm

    @classmethod
    def none(cls) -> Offset:
        """Return the offsets of two identical arms: identity transforms."""
        return cls(np.eye(4), np.eye(4))

    @functools.cached_property
    def is_none(self) -> bool:
        """Whether both arms have the same tip pose in every configuration."""
        return all(bool((np.abs(pose - np.eye(4)) <= SAME).all()) for pose in (self.base, self.tool))

    @functools.cached_property
    def is_off_tip(self) -> bool:
        """Whether the tips have different positions. The other tip's position then depends on the orientation."""
        return bool((np.abs(self.tool[:3, 3]) > SAME).any())

    def poses_of_other(self, poses: FloatArray) -> FloatArray:
        """Convert tip poses (n, 4, 4) of this arm to tip poses of the other arm, each in the base frame of its arm."""
        return np.asarray(np.linalg.inv(self.base) @ poses @ np.linalg.inv(self.tool))

    def with_tool(self, tool: FloatArray) -> Offset:
        """Return the offsets for this arm with a further tool, whose pose (4, 4) is in the frame of the tip."""
        return Offset(self.base, self.tool @ tool)


def kinematics_check(robot: Robot, other: Robot) -> Offset:
    """Return the offsets between `robot` and `other` after a check that their kinematics agree.

    Joints are compared in the order of the chains. Axes must agree within 0.005 m and 0.01 rad, which is enough for the
    calibration of single robots. Limits may differ, but the ranges of each pair of joints must overlap.

    Raises
    ------
    RobotError
        If the kinematics differ. The message names the first joint that differs, and its deviation.
    """
    ours, theirs = robot.links[:-1], other.links[:-1]
    if robot.dof != other.dof or len(ours) != len(theirs):
        counts = (f"{arm.dof} joints and {len(arm.links) - 1 - arm.dof} mimic joints" for arm in (robot, other))
        raise RobotError(f"the robot has {' instead of '.join(counts)}", robot.dof)
    for problem in (_other_joint(robot, other), _apart(robot, other)):
        if problem:
            raise RobotError(problem, robot.joint_names)
    (*first, tip), (*other_first, other_tip) = (poses_at_zero(arm)[1:] for arm in (robot, other))
    found: list[tuple[int, str]] = []
    for base in (np.eye(4), first[0] @ np.linalg.inv(other_first[0])):
        index, problem = _first_difference(robot, other, first, base @ np.array(other_first))
        if not problem:
            tool = np.linalg.inv(base @ other_tip) @ tip
            return Offset(np.asarray(base, dtype=np.float64), np.asarray(tool, dtype=np.float64))
        found.append((index, problem))
    raise RobotError(max(found, key=lambda each: each[0])[1], robot.joint_names)


def _first_difference(robot: Robot, other: Robot, ours: Sequence[FloatArray], theirs: FloatArray) -> tuple[int, str]:
    """Return the index of the first moving joint with a different axis, and a description (empty if none differs)."""
    for index, (frame, wanted) in enumerate(zip(ours, theirs, strict=True)):
        axis, expected, apart = frame[:3, 2], wanted[:3, 2], wanted[:3, 3] - frame[:3, 3]
        angle = math.atan2(float(np.linalg.norm(np.cross(axis, expected))), float(axis @ expected))
        distance = 0.0 if robot.links[index, PRISMATIC] else float(np.linalg.norm(apart - axis * (axis @ apart)))
        if angle <= ANGLE_TOLERANCE and distance <= LENGTH_TOLERANCE:
            continue
        told = []
        if angle > ANGLE_TOLERANCE:
            opposite = angle >= math.pi - ANGLE_TOLERANCE
            told.append("points in the opposite direction" if opposite else f"is rotated by {angle:.4g} rad")
        if distance > LENGTH_TOLERANCE:
            told.append(f"is off by {distance:.4g} m")
        return index, (
            f"with all joints at zero, the axis of {_named(robot, index)} {' and '.join(told)} compared with the axis "
            f"of {_named(other, index)} of the model; the tolerances are {LENGTH_TOLERANCE} m and {ANGLE_TOLERANCE} rad"
        )
    return len(ours), ""


def _other_joint(robot: Robot, other: Robot) -> str:
    """Describe the first joint that has another type or another mimic source; empty if all joints agree."""
    for index, (ours, theirs) in enumerate(zip(robot.links[:-1], other.links[:-1], strict=True)):
        kinds = ["slides" if row[PRISMATIC] else "turns" for row in (ours, theirs)]
        if kinds[0] != kinds[1]:
            return f"{_named(robot, index)} {kinds[0]}, but {_named(other, index)} of the model {kinds[1]}"
        columns = [SOURCE, MULTIPLIER, OFFSET]
        if (np.abs(ours[columns] - theirs[columns]) > FOLLOWER_TOLERANCE).any():
            told = [
                f"follows {_named(arm, index)} by {row[MULTIPLIER]:g} q + {row[OFFSET]:g}"
                for arm, row in ((robot, ours), (other, theirs))
            ]
            return f"joint {index + 1} (mimic joints included) {told[0]}, but in the model it {told[1]}"
    return ""


def _apart(robot: Robot, other: Robot) -> str:
    """Describe the first joint whose range does not overlap with the other arm's; empty if all ranges overlap."""
    for j, name in enumerate(robot.joint_names):
        if robot.lower[j] > other.upper[j] or robot.upper[j] < other.lower[j]:
            return (
                f"the limits of joint {j + 1} {name!r}, {robot.lower[j]:.6g} to {robot.upper[j]:.6g}, do not overlap "
                f"with the limits in the model, {other.lower[j]:.6g} to {other.upper[j]:.6g}"
            )
    return ""


def _named(arm: Robot, index: int) -> str:
    """Return the number and name of a moving joint, or of the joint that it follows."""
    source = int(arm.links[index, SOURCE])
    return f"joint {source + 1} {arm.joint_names[source]!r}"


def matched_urdf(
    known: Robot,
    source: str | Path,
    base: str | None = None,
    tip: str | None = None,
    package_paths: Sequence[str | Path] = (),
) -> Robot:
    """Load the arm of a description that corresponds to a known robot.

    The source is the name of an included robot, or the path or text of a URDF. The base and tip links have the names of
    the known robot's links, possibly with a common prefix. If only one of them is given, it defines the prefix of the
    other. If the description has no such links, the arm runs from its root to its default tip. `Robot` describes
    `package_paths`.

    Raises
    ------
    RobotError
        If the description cannot be read, or if the links are missing or ambiguous.
    """
    for link in (base, tip):
        if link is not None:
            expect(link, str, "the name of a link", RobotError)
    is_text = isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<")
    found = source if is_text else robot_path(source, package_paths)
    if not (base and tip):
        base, tip = _ends(known, parse_urdf(read_urdf_source(found, package_paths)), base, tip)
    return Robot(found, tip, base=base, package_paths=package_paths)


def _ends(known: Robot, tree: UrdfTree, base: str | None, tip: str | None) -> tuple[str | None, str | None]:
    """Return the base and tip links; None selects the default."""
    wanted = (base or known.base_link, tip or known.tip_link)
    if all(link in tree.links for link in wanted):
        return wanted
    prefixes = _prefixes(known.base_link, [base] if base else tree.links)
    prefixes |= _prefixes(known.tip_link, [tip] if tip else tree.links)
    pairs = [(base or prefix + known.base_link, tip or prefix + known.tip_link) for prefix in sorted(prefixes)]
    pairs = [pair for pair in pairs if _is_chain(tree, *pair)]
    if len(pairs) > 1:
        told = ", ".join(f"{first!r} to {last!r}" for first, last in pairs)
        raise RobotError(
            f"robot {tree.name!r} has several arms with these links, {told}: give the base and the tip link", pairs
        )
    if not pairs and (base or tip) in tree.links:
        other, role = (known.tip_link, "tip") if base else (known.base_link, "base")
        raise RobotError(
            f"robot {tree.name!r} has no link {other!r}, with or without a prefix; give its {role} link as one of "
            f"{listed(tree.links)}",
            other,
        )
    return pairs[0] if pairs else (base, tip)


def _is_chain(tree: UrdfTree, base: str, tip: str) -> bool:
    try:
        tree.chain(base, tip)
    except RobotError:
        return False
    return True


def _prefixes(name: str, links: Iterable[str]) -> set[str]:
    """Return the prefixes of all links that end with a name."""
    return {link.removesuffix(name) for link in links if link.endswith(name)}
