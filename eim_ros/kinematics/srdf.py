"""Search for the MoveIt planning groups that correspond to the chain of a robot, and for the tip link of each group.

Groups are given in a text such as "arm, manipulator=tool0", or are read from an SRDF. A group of the SRDF corresponds
to the chain if it has the same moving joints and its tip is fixed to the chain's tip.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from xml.etree.ElementTree import Element

from eim_ros.core.errors import RobotError
from eim_ros.kinematics.links import fixed_links
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.urdf import UrdfTree, parse_urdf


def listed_groups(robot: Robot, text: str) -> dict[str, str]:
    """Return the tip link of each group in a list separated by commas.

    A group `NAME` has the tip of the robot. A group `NAME=LINK` has the given link as its tip, which must be fixed to
    the robot's tip.

    Raises
    ------
    RobotError
        If a name is missing or repeated, or if a link is not fixed to the robot's tip.
    """
    groups: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, link = (word.strip() for word in entry.partition("="))
        if not name or (equals and not link) or name in groups:
            raise RobotError(
                f"groups has the entry {entry!r}; expected NAME or NAME=LINK separated by commas, each name once", text
            )
        groups[name] = link or robot.tip_link
        if groups[name] not in (known := fixed_links(robot, robot.tip_link)):
            raise RobotError(
                f"the tip {link!r} of group {name!r} is not fixed to the robot's tip link {robot.tip_link!r}; expected "
                f"one of {', '.join(known)}",
                link,
            )
    return groups


def srdf_groups(robot: Robot, srdf: str) -> dict[str, str]:
    """Return the tip link of each SRDF group that corresponds to the robot's chain. An empty text has no groups.

    Raises
    ------
    RobotError
        If the text is not well-formed XML, or if a group contains itself or a group or link that does not exist.
    """
    if not srdf.strip():
        return {}
    try:
        root = ElementTree.fromstring(srdf.strip())
    except (ElementTree.ParseError, ValueError) as error:
        raise RobotError(f"robot_description_semantic is not well-formed XML: {error}", srdf[:200]) from error
    elements = {group.get("name", ""): group for group in root.findall("group")}
    reader = _Groups(parse_urdf(robot.urdf), elements)
    moving, attached = set(robot.joint_names), fixed_links(robot, robot.tip_link)
    found = {}
    for name in elements:
        joints, tip = reader.joints(name), reader.tip(name) or robot.tip_link
        if joints == moving and tip in attached:
            found[name] = tip
    return found


class _Groups:
    """Reader for the groups of an SRDF, which may contain other groups."""

    def __init__(self, tree: UrdfTree, elements: Mapping[str, Element]) -> None:
        self._tree, self._elements = tree, elements
        self._moving = {joint.name for joint in tree.joints if joint.moves and joint.mimic is None}
        self._of_link = {joint.child: joint.name for joint in tree.joints}

    def joints(self, name: str, outer: tuple[str, ...] = ()) -> set[str]:
        """Return the independent moving joints of a group."""
        if name in outer:
            raise RobotError(f"group {name!r} in robot_description_semantic contains itself: correct the SRDF", name)
        if name not in self._elements:
            raise RobotError(f"group {name!r} in robot_description_semantic does not exist: correct the SRDF", name)
        group = self._elements[name]
        found = {joint.get("name", "") for joint in group.findall("joint")}
        found |= {self._of_link.get(link.get("name", ""), "") for link in group.findall("link")}
        for chain in group.findall("chain"):
            found |= {joint.name for joint in self._tree.chain(chain.get("base_link"), chain.get("tip_link"))[2]}
        for part in group.findall("group"):
            found |= self.joints(part.get("name", ""), (*outer, name))
        return found & self._moving

    def tip(self, name: str) -> str:
        """Return the tip of a group with exactly one chain; empty for any other group."""
        chains = self._elements[name].findall("chain")
        return chains[0].get("tip_link", "") if len(chains) == 1 else ""
