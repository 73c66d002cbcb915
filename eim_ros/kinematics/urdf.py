"""A URDF read as a tree of links and joints, reduced to kinematics and collision shapes.

Visuals, inertias, transmissions and simulator tags are dropped. Of collision meshes the names of the files are kept,
and the files read when collisions are asked for, so any user's file loads without them.
Serial chains are cut out of the tree in `link_tree.py`; placements and axes are computed by pinocchio in `chain.py`.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from xml.etree.ElementTree import Element

from eim_ros.errors import RobotError
from eim_ros.kinematics.link_tree import Mimic, UrdfJoint, UrdfTree, listed
from eim_ros.kinematics.xacro_file import expanded_xacro
from eim_ros.numerics.arguments import checked_path

__all__ = ["MOST_LINKS", "SHAPES", "parse_urdf", "read_urdf_source", "urdf_folder"]

SHAPES = ("box", "cylinder", "sphere", "capsule", "mesh")
MOST_LINKS = (
    2000  # of a description, and joints; humanoids with two hands have about 100. Parsers below recurse over links.
)
DEPTH_OF_SHAPES = 3  # of elements below a collision element


def read_urdf_source(source: str | Path) -> str | bytes:
    """XML: the source itself when it starts with '<', else the content of the file it names, in whatever encoding.

    A file that ends in .xacro is expanded.
    """
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
        return source.lstrip("\ufeff \t\r\n")
    path = checked_path(source, RobotError).expanduser()
    if path.suffix == ".xacro":
        return expanded_xacro(path)
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RobotError(f"cannot read robot description {str(path)[:200]!r}: {cause}", str(path)) from error


def urdf_folder(source: str | Path) -> Path | None:
    """Folder of the file that a source names; None for XML text."""
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
        return None
    return checked_path(source, RobotError).expanduser().absolute().parent


def parse_urdf(text: str | bytes) -> UrdfTree:
    """Tree of a URDF; every joint's numbers are checked, whatever chain is used later."""
    try:
        robot = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise RobotError(f"robot description is no well-formed XML: {error}", text[:200]) from error
    if any("xacro" in element.tag or "${" in "".join(element.attrib.values()) for element in robot.iter()):
        raise RobotError("robot description holds xacro macros; expand it first: xacro FILE > robot.urdf", text[:200])
    if robot.tag != "robot":
        raise RobotError(f"robot description must start with <robot>, found <{robot.tag}>", robot.tag)
    for kind in ("link", "joint"):
        if (n := len(robot.findall(kind))) > MOST_LINKS:
            raise RobotError(
                f"robot description has {n} {kind}s, at most {MOST_LINKS} are supported: cut out the part that holds "
                "the arm",
                n,
            )
    links = tuple(_attribute(link, "name", "a link") for link in robot.findall("link"))
    joints = tuple(_joint(element) for element in robot.findall("joint"))
    _check_tree(links, joints)
    name = robot.get("name") or "robot"
    return UrdfTree(name, links, joints, _stripped(robot, name))


def _joint(element: Element) -> UrdfJoint:
    name = _attribute(element, "name", "a joint")
    kind = _attribute(element, "type", f"joint {name!r}")
    ends = []
    for role in ("parent", "child"):
        end = element.find(role)
        if end is None:
            raise RobotError(f"joint {name!r} has no <{role}>", name)
        ends.append(_attribute(end, "link", f"<{role}> of joint {name!r}"))
    origin, axis, limit, follows = (element.find(tag) for tag in ("origin", "axis", "limit", "mimic"))
    lower, upper = -math.inf, math.inf
    if kind in ("revolute", "prismatic"):
        if limit is None:
            raise RobotError(f"{kind} joint {name!r} has no <limit>", name)
        lower = _numbers(limit, "lower", "0", name)[0]
        upper = _numbers(limit, "upper", "0", name)[0]
        if lower > upper:
            raise RobotError(f"joint {name!r} has lower limit {lower} above its upper limit {upper}", (lower, upper))
    mimic = None
    if follows is not None:
        mimic = Mimic(
            _attribute(follows, "joint", f"<mimic> of joint {name!r}"),
            _numbers(follows, "multiplier", "1", name)[0],
            _numbers(follows, "offset", "0", name)[0],
        )
    return UrdfJoint(
        name=name,
        kind=kind,
        parent=ends[0],
        child=ends[1],
        origin_xyz=_numbers(origin, "xyz", "0 0 0", name),
        origin_rpy=_numbers(origin, "rpy", "0 0 0", name),
        axis=_numbers(axis, "xyz", "1 0 0", name),
        lower=lower,
        upper=upper,
        mimic=mimic,
    )


def _attribute(element: Element, name: str, owner: str) -> str:
    value = element.get(name)
    if not value:
        raise RobotError(f"{owner} of the robot description has no attribute {name!r}", owner)
    return value


def _numbers(element: Element | None, attribute: str, default: str, joint: str) -> tuple[float, ...]:
    """As many finite numbers as the default holds."""
    text = default if element is None else element.get(attribute, default)
    try:
        values = tuple(float(word) for word in text.split())
    except ValueError:
        values = ()
    expected = len(default.split())
    if len(values) != expected or not all(math.isfinite(value) for value in values):
        raise RobotError(f"joint {joint!r}: {attribute}={text!r} is not {expected} finite number(s)", text)
    return values


def _check_tree(links: tuple[str, ...], joints: tuple[UrdfJoint, ...]) -> None:
    if not links:
        raise RobotError("robot description has no links")
    joint_names = [joint.name for joint in joints]
    for kind, names in (("link", list(links)), ("joint", joint_names)):
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        if repeated:
            raise RobotError(f"{kind} name {listed(repeated)} is used more than once", repeated)
    children: set[str] = set()
    known = set(links)
    for joint in joints:
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in known:
                raise RobotError(f"{role} link {link!r} of joint {joint.name!r} does not exist", link)
        if joint.child in children:
            raise RobotError(f"link {joint.child!r} is the child of more than one joint: no tree", joint.child)
        children.add(joint.child)


def _stripped(robot: Element, name: str) -> str:
    """URDF text with links, joints and collision shapes only."""
    copy = ElementTree.Element("robot", name=name)
    for link in robot.findall("link"):
        kept = ElementTree.SubElement(copy, "link", name=link.get("name", ""))
        for collision in link.findall("collision"):
            if any(collision.find(f"geometry/{shape}") is not None for shape in SHAPES):
                kept.append(_copy(collision, ("origin", "geometry", *SHAPES)))
    for joint in robot.findall("joint"):
        copy.append(_copy(joint, ("parent", "child", "origin", "axis", "limit", "mimic")))
    ElementTree.indent(copy)
    return ElementTree.tostring(copy, encoding="unicode") + "\n"


def _copy(element: Element, kept: tuple[str, ...], depth: int = DEPTH_OF_SHAPES) -> Element:
    """An element with the kept children, down to a depth: nothing that is read lies deeper."""
    copy = ElementTree.Element(element.tag, dict(element.attrib))
    if depth > 0:
        copy.extend(_copy(child, kept, depth - 1) for child in element if child.tag in kept)
    return copy
