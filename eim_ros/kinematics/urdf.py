"""URDF files: parsing, extraction of a serial chain, and its constants for the compiled solver.

Only kinematics and collision shapes are kept. Mesh files are not opened until a collision check needs them.

Every joint turns about, or slides along, the z axis of its frame. The pose of the tip is

    T(q) = P_0 Z(v_0) P_1 Z(v_1) ... P_{m-1} Z(v_{m-1}) P_m,    v_i = multiplier_i q[source_i] + offset_i,

where Z is a rotation about z or a translation along z. The matrices P_i = A_{i-1}^T (placement of joint i) A_i are
constant, and the rotation A_i takes z to the axis of joint i.

Row i of `links` (m + 1, 16) contains the rotation of P_i row by row (9) and its translation [m] (3). The next entries
are 1 if joint i is prismatic (otherwise 0), and its source, multiplier and offset. The source is the index of the
independent joint that drives joint i, usually joint i itself. The last row only contains P_m.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from xml.etree.ElementTree import Element
from xml.parsers import expat

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray, length, product, transformed
from eim_ros.core.errors import RobotError, did_you_mean
from eim_ros.solver import atan2, cos, sin

MOVING_TYPES = ("revolute", "continuous", "prismatic")
FREE_TYPES = ("floating", "planar")
FINGER_TRAVEL = 0.1  # maximum travel of a finger; fingers of common parallel grippers travel 0.02 to 0.08 [m]
# Patterns of names: links and joints that do not belong to an arm, joints of an arm, links without a tool, and tips
# (the most common first). Yaw, pitch and roll joints of a gripper belong to the arm, because they turn the gripper.
_FINGER = re.compile("finger|thumb|knuckle|jaw|claw")
_ACCESSORY = re.compile(f"{_FINGER.pattern}|wheel|caster|rotor")
_OPENS = re.compile(f"{_ACCESSORY.pattern}|(gripper|hand)(?!_?(yaw|pitch|roll))")
_ARM = re.compile("wrist|elbow|shoulder")
_PALM = re.compile("hand|palm|thumb|gripper")  # with at least three moving joints, such a link is a hand
_SENSOR = re.compile("imu|camera|optical|laser|lidar|sensor|sonar|gyro|accelerometer|skin|inertia|(^|_)ft(_|$)")
_TOOLS = [
    re.compile(pattern)
    for pattern in (
        "(^|_)tool0$",
        "tcp",
        "tool|grasp|gripper_frame",
        "(^|[_/])ee_gripper",
        "(^|[_/])(ee|eef)($|_)|end_?eff",
        "(^|_)gripper$",
        "hand|gripper|palm",
    )
]
WIDEST = 1e5  # larger limits mean "no limit", because Gazebo writes 1e16 and other programs write 999999 [rad]
# limits farther apart are probably in degrees; the widest limits seen in a URDF are 40 rad apart [rad]
MOST_TURNS = 16.0 * math.pi
MOST_MOVABLE = 64  # maximum number of moving joints in a chain, including mimic joints
XACRO_DEFINITIONS = ("xacro:property", "xacro:arg", "xacro:macro")
SHAPES = ("box", "cylinder", "sphere", "capsule", "mesh")
MOST_LINKS = 2000  # maximum number of links and of joints, because parsers recurse over links; humanoids have about 100
DEPTH_OF_SHAPES = 3  # maximum depth of elements that are kept below a collision element
TRANSLATION = slice(9, 12)
PRISMATIC, SOURCE, MULTIPLIER, OFFSET = 12, 13, 14, 15  # columns of `links`


@dataclass(frozen=True)
class Mimic:
    """Rule of a mimic joint: value = multiplier * source value + offset."""

    joint: str
    multiplier: float
    offset: float


@dataclass(frozen=True)
class UrdfJoint:
    """Joint of a URDF.

    The limits `lower` and `upper` are in [rad] or [m], and `velocity` is in [rad/s] or [m/s]. Missing limits are
    infinite.
    """

    name: str
    kind: str
    parent: str
    child: str
    origin_xyz: tuple[float, ...]
    origin_rpy: tuple[float, ...]
    axis: tuple[float, ...]
    lower: float
    upper: float
    velocity: float
    mimic: Mimic | None

    @property
    def moves(self) -> bool:
        """Whether the joint can move, independently or as a mimic joint."""
        return self.kind in MOVING_TYPES


@dataclass(frozen=True)
class UrdfTree:
    """Links and joints of a URDF, and its text reduced to kinematics and collision shapes.

    The joints `in_loops` are parts of closed loops, which a URDF cannot express. The default tip is never below such a
    joint.
    """

    name: str
    links: tuple[str, ...]
    joints: tuple[UrdfJoint, ...]
    text: str
    in_loops: frozenset[str] = frozenset()

    @functools.cached_property
    def _above(self) -> dict[str, UrdfJoint]:
        """Joint above each link by the name of the link. The root has no such joint."""
        return {joint.child: joint for joint in self.joints}

    def _upwards(self, link: str) -> Iterator[str]:
        """Iterate over a link and all links above it up to a root. In a loop, each link occurs once."""
        found = set[str]()
        while link not in found:
            yield link
            found.add(link)
            link = self._above[link].parent if link in self._above else link

    def root(self) -> str:
        """Return the only link without a parent."""
        roots = [link for link in self.links if link not in self._above]
        if len(roots) != 1:
            described = f"this one has {len(roots)}: {listed(roots)}" if roots else "but its joints form a loop"
            raise RobotError(f"a URDF must have one root link, {described}", roots)
        return roots[0]

    def leaves(self) -> list[str]:
        """Return the links without a child."""
        parents = {joint.parent for joint in self.joints}
        return [link for link in self.links if link not in parents]

    def default_tip(self, base: str) -> str:
        """Return the link that most users would call the tip.

        The tip is at the end of the longest chain of moving joints below the base. Joints of grippers, wheels and
        rotors do not count. If several links are fixed to this end, links with names of tools are preferred (`tool0`,
        `tcp`, tool, end effector, hand). Otherwise the last link is chosen.
        """
        return self._default_tip(base, self.finger_slides())

    def _default_tip(self, base: str, fingers: frozenset[str]) -> str:
        """Return the default tip. The joints `fingers` and joints with names of accessories do not count."""
        depths = self._depths(base, fingers | self.in_loops, without_accessories=True)
        is_hand = not any(depths.values())
        if is_hand:
            depths = self._depths(base, frozenset(), without_accessories=False)
        if not any(depths.values()):
            raise RobotError(
                f"robot {self.name!r} has no movable joint below link {base!r}; choose another base link", base
            )
        most = max(depths.values())
        ends = [link for link in self.links if depths.get(link) == most]
        carriers = [link for link in ends if not _SENSOR.search(link.lower())]
        if not is_hand:
            carriers = [link for link in carriers if not _FINGER.search(link.lower())] or carriers
        named = [link for pattern in _TOOLS for link in carriers if pattern.search(link.lower())]
        if named:
            return named[0]
        below = ends[:1]
        while len(below) == 1:
            link = below[0]
            below = [joint.child for joint in self.joints if joint.parent == link and joint.child in carriers]
            if len(below) > 1:  # skip parts of a link, such as link7_sc of link7
                below = [child for child in below if not child.startswith(link)]
        return link

    def _depths(self, base: str, fingers: frozenset[str], without_accessories: bool) -> dict[str, int]:
        """Return the number of moving joints between the base and each link below it that may be a tip.

        A link cannot be a tip if its chain contains a mimic joint but not the joint that the mimic joint follows.
        """
        children: dict[str, list[UrdfJoint]] = {}
        for joint in self.joints:
            children.setdefault(joint.parent, []).append(joint)
        sources = {joint.name for joint in self.joints if joint.moves and joint.mimic is None}
        depths, visited = {base: 0}, {base}
        open_links = [(base, 0, frozenset[str](), frozenset[str]())]
        while open_links:
            # names of the joints above the link, and sources of mimic joints that are not among these
            link, depth, above, missing = open_links.pop()
            below = children.get(link, ())
            is_palm = sum(joint.moves for joint in below) > 2 and _PALM.search(link.lower())
            frames = [joint.child.lower() for joint in below if not joint.moves]
            has_tool = any(pattern.search(frame) for pattern in _TOOLS[:-1] for frame in frames)
            for joint in below:
                name, child = joint.name.lower(), joint.child.lower()
                named = _OPENS.search(name) or (_ACCESSORY.search(child) and not _ARM.search(name))
                named = named or (has_tool and _PALM.search(child))  # a palm next to the frame of a tool is a gripper
                is_accessory = joint.name in fingers or (joint.moves and (is_palm or named))
                if joint.child in visited or (is_accessory and without_accessories):
                    continue
                visited.add(joint.child)
                names = above | {joint.name}
                needed = missing
                if joint.moves and joint.mimic is not None:
                    needed |= {joint.mimic.joint} & sources  # `chain` raises an error for other mimic joints
                needed -= names
                if not needed:
                    depths[joint.child] = depth + joint.moves
                open_links.append((joint.child, depth + joint.moves, names, needed))
        return depths

    def finger_slides(self) -> frozenset[str]:
        """Return the names of the sliding joints that seem to be the fingers of a gripper, regardless of their names.

        These joints slide by at most FINGER_TRAVEL and move no other joint. At least two of them start at the same
        body, or one follows another.
        """
        by_name = {joint.name: joint for joint in self.joints}
        moving = set[str]()  # links with a moving joint below them
        for joint in self.joints:
            if joint.moves:
                moving.update(itertools.takewhile(lambda link: link not in moving, self._upwards(joint.parent)))
        groups: dict[str, list[str]] = {}
        for joint in self.joints:
            driver = by_name.get(joint.mimic.joint, joint) if joint.mimic is not None else joint
            factor = abs(joint.mimic.multiplier) if joint.mimic is not None else 1.0
            travel = min(joint.upper - joint.lower, factor * (driver.upper - driver.lower))
            if joint.kind != "prismatic" or not travel <= FINGER_TRAVEL or joint.child in moving:
                continue
            links = self._upwards(joint.parent)
            body = next((link for link in links if link not in self._above or self._above[link].moves), joint.parent)
            for group in {f"at {body}", f"with {driver.name}"}:
                groups.setdefault(group, []).append(joint.name)
        return frozenset(name for names in groups.values() if len(names) > 1 for name in names)

    def tip_remark(self, base: str) -> str:
        """Return a warning about sliding joints that `default_tip` treats as fingers; empty without such joints."""
        fingers, tip = self.finger_slides(), self.default_tip(base)
        if not fingers or tip == self._default_tip(base, frozenset()):
            return ""
        return (
            f"the tip of robot {self.name!r} is link {tip!r}, because the sliding joints {listed(sorted(fingers))} "
            "behind it seem to be a gripper; give tip to select another link"
        )

    def chain(self, base: str | None = None, tip: str | None = None) -> tuple[str, str, tuple[UrdfJoint, ...]]:
        """Return the base, the tip, and the joints between them in order, including fixed ones.

        The default tip is `default_tip`. The default base is the root. If the first joint is floating, such as the
        joint between the world and a humanoid, the default base is the link below this joint.
        """
        base = self._default_base(tip) if base is None else base
        self._check_link("base", base)
        tip = self.default_tip(base) if tip is None else tip
        self._check_link("tip", tip)
        if base == tip:
            raise RobotError(
                f"base and tip are the same link {base!r}, with no joint between them; choose different links", base
            )
        joints = self._path_up(tip, base)
        _check_chain(joints, base, tip)
        return base, tip, joints

    def _default_base(self, tip: str | None) -> str:
        base = self.root()
        if tip is not None and (not isinstance(tip, str) or tip not in self.links):
            return base  # `chain` raises the error
        for joint in self._path_up(self.default_tip(base) if tip is None else tip, base):
            if joint.moves:
                break
            if joint.kind in FREE_TYPES:
                base = joint.child
        return base

    def between(self, base: str | None, tip: str | None) -> UrdfTree:
        """Return a tree in which `tip` is below `base`.

        If both links are on different branches, the tree gets another root. The chain then leads from the base up to
        the last common link and down to the tip, so a pose is the relative pose of two arms.
        """
        if not isinstance(base, str) or not isinstance(tip, str) or not {base, tip} <= set(self.links) or base == tip:
            return self  # `chain` raises the error
        if base in self._upwards(tip) or tip in self._upwards(base):
            return self
        return parse_urdf(_rooted_at(self, base))

    def _check_link(self, role: str, link: str) -> None:
        if not isinstance(link, str) or link not in self.links:
            known = listed(self.links) + did_you_mean(str(link), self.links)
            raise RobotError(f"robot {self.name!r} has no {role} link {link!r}; its links are {known}", link)

    def _path_up(self, tip: str, base: str) -> tuple[UrdfJoint, ...]:
        path: list[UrdfJoint] = []
        link = tip
        while link != base:
            joint = self._above.get(link)
            if joint is None:
                if tip in self._upwards(base):
                    hint = f"the chain runs from {tip!r} to {base!r}, so exchange them"
                else:
                    hint = "they are on different branches"
                raise RobotError(
                    f"no serial chain from {base!r} to {tip!r}: {base!r} is not an ancestor of {tip!r}; {hint}",
                    (base, tip),
                )
            if len(path) > len(self.joints):
                raise RobotError(f"the joints above link {tip!r} form a loop, but they must form a tree", tip)
            path.append(joint)
            link = joint.parent
        return tuple(reversed(path))


def listed(names: Iterable[str]) -> str:
    """Format the first twelve names for a message, and the number of further names."""
    names = list(names)
    shown = ", ".join(repr(name) for name in names[:12])
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown


def _check_chain(joints: tuple[UrdfJoint, ...], base: str, tip: str) -> None:
    """Check the number, types, axes and mimic sources of the joints in a chain."""
    if (n_movable := sum(joint.moves for joint in joints)) > MOST_MOVABLE:
        raise RobotError(
            f"the chain from {base!r} to {tip!r} has {n_movable} movable joints, but at most {MOST_MOVABLE} are "
            "supported: choose a base or tip link with a shorter chain",
            n_movable,
        )
    sources = {joint.name for joint in joints if joint.moves and joint.mimic is None}
    for joint in joints:
        if joint.kind not in (*MOVING_TYPES, "fixed"):
            below = f": choose a base link below it, such as {joint.child!r} (base=, --base or the parameter base_link)"
            raise RobotError(
                f"joint {joint.name!r} between {base!r} and {tip!r} is of type {joint.kind!r}; the supported types are "
                f"{', '.join(MOVING_TYPES)} and fixed{below if joint.kind in FREE_TYPES else ''}",
                joint.name,
            )
        if joint.moves and math.hypot(*joint.axis) < 1e-9:
            raise RobotError(
                f"the axis of joint {joint.name!r} is the zero vector; give the direction of the axis in <axis xyz>",
                joint.axis,
            )
        if joint.moves and joint.mimic is not None and joint.mimic.joint not in sources:
            raise RobotError(
                f"joint {joint.name!r} mimics {joint.mimic.joint!r}, which is not an independent joint of the chain "
                f"from {base!r} to {tip!r}: correct <mimic>, or choose another base or tip link",
                joint.mimic.joint,
            )
    if not sources:
        raise RobotError(
            f"there is no movable joint between {base!r} and {tip!r}; choose another base or tip link", (base, tip)
        )


def _rooted_at(tree: UrdfTree, root: str) -> str:
    """Return the URDF with another root. The joints between the two roots are reversed and keep their values.

    In the reversed order, the motion of a joint precedes the fixed placement of its former parent. A new link without
    shapes connects both.
    """
    robot = ElementTree.fromstring(tree.text)
    elements = {element.get("name"): element for element in robot.findall("joint")}
    for joint in tree._path_up(root, tree.root()):
        element = elements[joint.name]
        for tag in ("parent", "child", "origin", "axis"):
            for old in element.findall(tag):
                element.remove(old)
        between = f"{joint.parent} before {joint.name}" if joint.moves else joint.parent
        ElementTree.SubElement(element, "parent", link=joint.child)
        ElementTree.SubElement(element, "child", link=between)
        placement = element
        if joint.moves:
            ElementTree.SubElement(element, "axis", xyz=" ".join(repr(-value) for value in joint.axis))
            ElementTree.SubElement(robot, "link", name=between)
            placement = ElementTree.SubElement(robot, "joint", name=f"{joint.name} reversed", type="fixed")
            ElementTree.SubElement(placement, "parent", link=between)
            ElementTree.SubElement(placement, "child", link=joint.parent)
        xyz, rpy = _inverse_placement(joint.origin_xyz, joint.origin_rpy)
        ElementTree.SubElement(placement, "origin", xyz=" ".join(map(repr, xyz.tolist())), rpy=" ".join(map(repr, rpy)))
    return ElementTree.tostring(robot, encoding="unicode")


def _inverse_placement(xyz: Sequence[float], rpy: Sequence[float]) -> tuple[FloatArray, tuple[float, float, float]]:
    """Return the translation and the angles of the inverse of a placement."""
    turn = rotation_from_rpy(rpy).T
    return -transformed(turn, np.array(xyz)), rpy_from_rotation(turn)


def rpy_from_rotation(rotation: FloatArray) -> tuple[float, float, float]:
    """Return the angles roll, pitch and yaw [rad] of a rotation (3, 3), see `rotation_from_rpy`.

    The yaw is computed first. Pitch and roll are computed from the remaining rotation. The three angles together are
    therefore exact even at a pitch of 90 degrees, where the yaw is undefined.
    """
    yaw = float(atan2(rotation[1, 0], rotation[0, 0]))
    rest = product(rotation_from_rpy((0.0, 0.0, yaw)).T, rotation)
    return float(atan2(-rest[1, 2], rest[1, 1])), float(atan2(-rest[2, 0], rest[0, 0])), yaw


def xml_root(text: str | bytes) -> Element:
    """Return the root element of a URDF. As in urdfdom, a prefix such as `drake:` need not be declared."""
    builder, parser = ElementTree.TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    try:
        parser.Parse(text, True)
        return builder.close()
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise RobotError(f"the robot description is not well-formed XML: {error}", text[:200]) from error


def needs_xacro(robot: Element) -> bool:
    """Return whether xacro would change the robot that a description describes.

    Definitions, such as properties, have no effect unless an expression or a call uses them. Unused definitions are
    ignored, as in urdfdom.
    """
    open_elements = [robot]
    while open_elements:
        element = open_elements.pop()
        if element.tag in XACRO_DEFINITIONS:
            continue
        if "xacro" in element.tag or any(
            part in value for value in element.attrib.values() for part in ("${", "$(arg")
        ):
            return True
        open_elements.extend(element)
    return False


def parse_urdf(text: str | bytes) -> UrdfTree:
    """Parse a URDF, and check the numbers of all joints, including joints outside the chain of the robot."""
    robot = xml_root(text)
    if needs_xacro(robot):
        raise RobotError(
            "the robot description contains xacro macros: expand it with xacro FILE > robot.urdf, or give a file "
            "whose name ends in .xacro",
            text[:200],
        )
    if robot.tag != "robot":
        other = "; MJCF cannot be given as a text: give the path of its file" if robot.tag.startswith("mujoco") else ""
        raise RobotError(
            f"the robot description must start with <robot>, but it starts with <{robot.tag}>{other}", robot.tag
        )
    for kind in ("link", "joint"):
        if (n := len(robot.findall(kind))) > MOST_LINKS:
            raise RobotError(
                f"the robot description has {n} {kind}s, but at most {MOST_LINKS} are supported: keep only the links "
                "and joints of the arm",
                n,
            )
    links = tuple(_attribute(link, "name", "a link") for link in robot.findall("link"))
    joints = tuple(_joint(element) for element in robot.findall("joint"))
    _check_tree(links, joints)
    name = robot.get("name") or "robot"
    return UrdfTree(name, links, _with_independent_sources(joints), _stripped(robot, name))


def joint_limits(text: str | bytes) -> dict[str, tuple[float, float]]:
    """Return the limits [rad] or [m] of all moving joints of a URDF by name. Continuous joints have infinite limits.

    Raises
    ------
    RobotError
        If the text is not a valid URDF.

    Examples
    --------
    >>> from eim_ros import Robot
    >>> from eim_ros.kinematics import joint_limits
    >>> joint_limits(Robot("panda").urdf)["panda_joint4"]
    (-3.0718, -0.0698)
    """
    return {joint.name: (joint.lower, joint.upper) for joint in parse_urdf(text).joints if joint.moves}


def _with_independent_sources(joints: tuple[UrdfJoint, ...]) -> tuple[UrdfJoint, ...]:
    """Change joints that mimic a mimic joint, so that they follow its source directly."""
    rules = {joint.name: joint.mimic for joint in joints if joint.mimic is not None}
    resolved = []
    for joint in joints:
        rule, seen = joint.mimic, {joint.name}
        while rule is not None and (source := rules.get(rule.joint)) is not None and rule.joint not in seen:
            seen.add(rule.joint)
            factor, offset = rule.multiplier * source.multiplier, rule.multiplier * source.offset + rule.offset
            if not (math.isfinite(factor) and math.isfinite(offset)):
                raise RobotError(
                    f"the multiplier or the offset of mimic joint {joint.name!r} is too large: give smaller numbers",
                    factor,
                )
            rule = Mimic(source.joint, factor, offset)
        resolved.append(joint if rule is joint.mimic else replace(joint, mimic=rule))
    return tuple(resolved)


def _joint(element: Element) -> UrdfJoint:
    name = _attribute(element, "name", "a joint")
    kind = _attribute(element, "type", f"joint {name!r}")
    ends = []
    for role in ("parent", "child"):
        end = element.find(role)
        if end is None:
            raise RobotError(f"joint {name!r} needs a <{role}>", name)
        ends.append(_attribute(end, "link", f"<{role}> of joint {name!r}"))
    origin, axis, limit, follows = (element.find(tag) for tag in ("origin", "axis", "limit", "mimic"))
    lower, upper = -math.inf, math.inf
    if kind in ("revolute", "prismatic"):
        if limit is None:
            raise RobotError(f"{kind} joint {name!r} needs a <limit> with lower and upper", name)
        lower, upper = (_numbers(limit, key, "0", name)[0] for key in ("lower", "upper"))
        if lower > upper:
            raise RobotError(f"joint {name!r} has lower limit {lower} above its upper limit {upper}", (lower, upper))
        if kind == "revolute" and lower < -WIDEST and upper > WIDEST:
            kind, lower, upper = "continuous", -math.inf, math.inf
    mimic = None
    if follows is not None:
        numbers = (_numbers(follows, key, one, name)[0] for key, one in (("multiplier", "1"), ("offset", "0")))
        mimic = Mimic(_attribute(follows, "joint", f"<mimic> of joint {name!r}"), *numbers)
    xyz, rpy = (_numbers(origin, key, "0 0 0", name) for key in ("xyz", "rpy"))
    limits = lower, upper, _velocity_limit(limit)
    return UrdfJoint(name, kind, ends[0], ends[1], xyz, rpy, _numbers(axis, "xyz", "1 0 0", name), *limits, mimic)


def _velocity_limit(limit: Element | None) -> float:
    """Return the maximum velocity [rad/s] or [m/s]. It is infinite if it is missing or 0, as in incomplete files."""
    try:
        velocity = float("inf" if limit is None else limit.get("velocity", "inf"))
    except ValueError:
        return math.inf
    return velocity if velocity > 0.0 else math.inf


def _attribute(element: Element, name: str, owner: str) -> str:
    value = element.get(name)
    if not value:
        raise RobotError(f"{owner} in the robot description has no attribute {name!r}", owner)
    return value


def _numbers(element: Element | None, attribute: str, default: str, joint: str) -> tuple[float, ...]:
    """Parse finite numbers separated by spaces or commas. Their number must be the same as in the default."""
    text = default if element is None else element.get(attribute, default)
    try:
        values = tuple(float(word) for word in text.replace(",", " ").split())
    except ValueError:
        values = ()
    expected = len(default.split())
    if len(values) != expected or not all(math.isfinite(value) for value in values):
        raise RobotError(f"joint {joint!r}: {attribute}={text!r} is not {expected} finite number(s)", text)
    return values


def _check_tree(links: tuple[str, ...], joints: tuple[UrdfJoint, ...]) -> None:
    if not links:
        raise RobotError(
            "the robot description has no links; if it comes from a xacro file, call the macro of the robot in this "
            "file"
        )
    joint_names = [joint.name for joint in joints]
    for kind, names in (("link", list(links)), ("joint", joint_names)):
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        if repeated:
            raise RobotError(f"{kind} name {listed(repeated)} is used more than once: rename all but one", repeated)
    children: set[str] = set()
    known = set(links)
    for joint in joints:
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in known:
                raise RobotError(f"{role} link {link!r} of joint {joint.name!r} does not exist", link)
        if joint.child in children:
            raise RobotError(
                f"link {joint.child!r} is the child of more than one joint, so the links are not a tree: keep one of "
                "these joints",
                joint.child,
            )
        children.add(joint.child)


def _stripped(robot: Element, name: str) -> str:
    """Return the URDF text with only links, joints and collision shapes."""
    copy = ElementTree.Element("robot", name=name)
    for link in robot.findall("link"):
        kept = ElementTree.SubElement(copy, "link", name=link.get("name", ""))
        for collision in link.findall("collision"):
            if has_shape(collision):
                kept.append(_copy(collision, ("origin", "geometry", *SHAPES)))
    for joint in robot.findall("joint"):
        copy.append(_copy(joint, ("parent", "child", "origin", "axis", "limit", "mimic")))
    ElementTree.indent(copy)
    return ElementTree.tostring(copy, encoding="unicode") + "\n"


def has_shape(element: Element) -> bool:
    """Return whether a collision or visual element has a shape of a supported type."""
    return any(element.find(f"geometry/{shape}") is not None for shape in SHAPES)


def _copy(element: Element, kept: tuple[str, ...], depth: int = DEPTH_OF_SHAPES) -> Element:
    """Copy an element and its descendants with the tags `kept`, down to a depth. Deeper elements are never read.

    Attributes with a prefix are removed, because the prefix may be undeclared.
    """
    copy = ElementTree.Element(element.tag, {key: value for key, value in element.attrib.items() if ":" not in key})
    if depth > 0:
        copy.extend(_copy(child, kept, depth - 1) for child in element if child.tag in kept)
    return copy


def limit_remarks(joints: Iterable[UrdfJoint]) -> list[str]:
    """Return warnings about joints that cannot move, and about joints whose limits seem to be in degrees."""
    free = [joint for joint in joints if joint.moves and joint.mimic is None]
    stuck = [joint.name for joint in free if joint.lower == joint.upper == 0.0]  # other equal limits are intended
    wide = [joint for joint in free if joint.kind == "revolute" and joint.upper - joint.lower > MOST_TURNS]
    remarks = []
    if stuck:
        remarks.append(
            f"{_joints(stuck)} cannot move, because both limits are 0, the default of <limit>: give limits [rad or m], "
            'or change the type to "continuous" or "fixed"'
        )
    if wide:
        first = f"{wide[0].lower:g} to {wide[0].upper:g} rad"
        remarks.append(
            f"{_joints([joint.name for joint in wide])} may turn more than {MOST_TURNS / (2.0 * math.pi):.0f} times "
            f"({first}): if the limits are in degrees, convert them to radians; if there are none, use type "
            '"continuous"'
        )
    return remarks


def _joints(names: Sequence[str]) -> str:
    return f"joint{'s' if len(names) > 1 else ''} {listed(names)}"


@dataclass(frozen=True, eq=False)
class ChainModel:
    """Arrays that describe a chain, and the names and limits of its independent joints."""

    links: FloatArray
    joint_names: tuple[str, ...]
    lower: FloatArray
    upper: FloatArray
    velocity_limits: FloatArray
    continuous: npt.NDArray[np.bool_]
    fingerprint: str


def build_chain(joints: tuple[UrdfJoint, ...]) -> ChainModel:
    """Return the arrays that describe a chain of joints. Fixed joints are merged into their neighbours.

    A continuous joint gets the limits -pi and pi and is marked as continuous. The exception is a joint with a prismatic
    mimic joint, or with a mimic joint that has a non-integer multiplier. A full revolution of such a joint changes the
    pose, so it counts as a revolute joint with the limits -pi and pi.
    """
    rotations, translations, axes = _placements(joints)
    moving = [joint for joint in joints if joint.moves]
    independent = [joint for joint in moving if joint.mimic is None]
    index = {joint.name: i for i, joint in enumerate(independent)}
    source = np.array([index[joint.mimic.joint if joint.mimic else joint.name] for joint in moving], dtype=np.int64)
    multiplier = np.array([joint.mimic.multiplier if joint.mimic else 1.0 for joint in moving])
    offset = np.array([joint.mimic.offset if joint.mimic else 0.0 for joint in moving])
    prismatic = np.array([joint.kind == "prismatic" for joint in moving])
    lower, upper, continuous = _limits(moving, independent, index)

    names = tuple(joint.name for joint in independent)
    arrays = (rotations, translations, axes, prismatic, source, multiplier, offset, lower, upper, continuous)
    described = json.dumps([list(names), *(_rounded(array) for array in arrays)])
    fingerprint = hashlib.sha256(described.encode()).hexdigest()

    for i, axis in enumerate(axes):
        turn = _rotation_from_z(axis)
        rotations[i] = product(rotations[i], turn)
        rotations[i + 1] = product(turn.T, rotations[i + 1])
        translations[i + 1] = transformed(turn.T, translations[i + 1])
    links = np.zeros((len(moving) + 1, 16))
    links[:, :9] = rotations.reshape(-1, 9)
    links[:, TRANSLATION] = translations
    for column, values in ((PRISMATIC, prismatic), (SOURCE, source), (MULTIPLIER, multiplier), (OFFSET, offset)):
        links[:-1, column] = values
    velocity_limits = np.array([joint.velocity for joint in independent])
    for joint in moving:
        if joint.mimic is not None and joint.mimic.multiplier != 0.0:
            i = index[joint.mimic.joint]
            velocity_limits[i] = min(velocity_limits[i], joint.velocity / abs(joint.mimic.multiplier))
    for array in (links, lower, upper, velocity_limits, continuous):
        array.flags.writeable = False
    return ChainModel(links, names, lower, upper, velocity_limits, continuous, fingerprint)


def _placements(joints: tuple[UrdfJoint, ...]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rotations (m + 1, 3, 3) and translations (m + 1, 3), tip last, and unit axes (m, 3) of moving joints.

    Each placement is relative to the previous moving joint. Placements are not computed by another library, because
    the sine of the C library has other rounding errors on other computers, which would change all solutions.
    """
    rotations, translations, axes = [], [], []
    rotation, translation = np.eye(3), np.zeros(3)
    for joint in joints:
        translation = translation + transformed(rotation, np.array(joint.origin_xyz, dtype=np.float64))
        rotation = product(rotation, rotation_from_rpy(joint.origin_rpy))
        if joint.moves:
            rotations.append(rotation)
            translations.append(translation)
            axis = np.array(joint.axis, dtype=np.float64)
            axes.append(axis / length(axis))
            rotation, translation = np.eye(3), np.zeros(3)
    return np.array([*rotations, rotation]), np.array([*translations, translation]), np.array(axes)


def rotation_from_rpy(rpy: Sequence[float]) -> FloatArray:
    """Return the rotation Rz(yaw) Ry(pitch) Rx(roll) (3, 3) of the angles roll, pitch and yaw [rad]."""
    (cr, cp, cy), (sr, sp, sy) = cos(rpy), sin(rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def _limits(
    moving: list[UrdfJoint], independent: list[UrdfJoint], index: dict[str, int]
) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Return the limits of the independent joints. They are narrowed so that mimic joints also stay within limits."""
    continuous = np.array([joint.kind == "continuous" for joint in independent])
    lower = np.array([-math.pi if joint.kind == "continuous" else joint.lower for joint in independent])
    upper = np.array([math.pi if joint.kind == "continuous" else joint.upper for joint in independent])
    for joint in moving:
        if joint.mimic is None:
            continue
        i = index[joint.mimic.joint]
        if joint.kind == "prismatic" or joint.mimic.multiplier != round(joint.mimic.multiplier):
            continuous[i] = False
        if joint.kind == "continuous" or joint.mimic.multiplier == 0.0:
            continue
        ends = sorted((limit - joint.mimic.offset) / joint.mimic.multiplier for limit in (joint.lower, joint.upper))
        if ends[0] > lower[i] or ends[1] < upper[i]:
            continuous[i] = False
        lower[i], upper[i] = max(lower[i], ends[0]), min(upper[i], ends[1])
        if lower[i] > upper[i]:
            raise RobotError(
                f"no value of joint {joint.mimic.joint!r} is within both its limits and those of its mimic joint "
                f"{joint.name!r}: widen one of them",
                ends,
            )
    return lower, upper, continuous


def _rotation_from_z(axis: FloatArray) -> FloatArray:
    """Return a rotation whose third column is the axis. For a coordinate axis, it is a permutation with signs."""
    first: FloatArray = np.zeros(3)
    first[(int(np.argmax(np.abs(axis))) + 1) % 3] = 1.0
    first = first - axis * np.add.reduce(axis * first)
    first = first / length(first)
    return np.column_stack([first, np.cross(axis, first), axis])


def _rounded(array: npt.NDArray[Any]) -> Any:
    """Return nested lists, rounded to 1e-9 and without -0, so that fingerprints are equal on all platforms."""
    return (np.round(np.asarray(array, dtype=np.float64), 9) + 0.0).tolist()
