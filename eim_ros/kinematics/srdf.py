"""Planning groups of MoveIt that are a robot's chain, and the link of each that reaches poses: its tip.

Groups are listed in a text, "arm, manipulator=tool0", or come from an SRDF. A group of the SRDF is the chain's where it
has the same moving joints and its tip is fixed to the chain's.
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
    """Tip of each group of a list.

    Parameters
    ----------
    robot : Robot
    text : str
        Groups, separated by commas: `NAME`, whose tip is the robot's, or `NAME=LINK`, a link that is fixed to it.

    Raises
    ------
    RobotError
        If a name is missing or there twice, or a link does not move with the tip.
    """
    groups: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, link = (word.strip() for word in entry.partition("="))
        if not name or (equals and not link) or name in groups:
            raise RobotError(
                f"groups has the entry {entry!r}; expected NAME or NAME=LINK, each name once, separated by commas", text
            )
        groups[name] = link or robot.tip_link
        if groups[name] not in (known := fixed_links(robot, robot.tip_link)):
            raise RobotError(
                f"the tip {link!r} of group {name!r} is not fixed to the tip link {robot.tip_link!r}; expected one of "
                f"{', '.join(known)}",
                link,
            )
    return groups


def srdf_groups(robot: Robot, srdf: str) -> dict[str, str]:
    """Tip of each group of an SRDF that is the robot's chain; an empty text has none.

    Raises
    ------
    RobotError
        If it is no SRDF, or a group names a link or another group that there is not, or itself.
    """
    if not srdf.strip():
        return {}
    try:
        root = ElementTree.fromstring(srdf.strip())
    except (ElementTree.ParseError, ValueError) as error:
        raise RobotError(f"robot_description_semantic is no well-formed XML: {error}", srdf[:200]) from error
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
    """Reads the groups of an SRDF, of which some are made of others."""

    def __init__(self, tree: UrdfTree, elements: Mapping[str, Element]) -> None:
        self._tree, self._elements = tree, elements
        self._moving = {joint.name for joint in tree.joints if joint.moves and joint.mimic is None}
        self._of_link = {joint.child: joint.name for joint in tree.joints}

    def joints(self, name: str, outer: tuple[str, ...] = ()) -> set[str]:
        """Independent joints that move."""
        if name in outer or name not in self._elements:
            raise RobotError(f"robot_description_semantic: group {name!r} does not exist, or contains itself", name)
        group = self._elements[name]
        found = {joint.get("name", "") for joint in group.findall("joint")}
        found |= {self._of_link.get(link.get("name", ""), "") for link in group.findall("link")}
        for chain in group.findall("chain"):
            found |= {joint.name for joint in self._tree.chain(chain.get("base_link"), chain.get("tip_link"))[2]}
        for part in group.findall("group"):
            found |= self.joints(part.get("name", ""), (*outer, name))
        return found & self._moving

    def tip(self, name: str) -> str:
        """Tip of the only chain of a group; empty where there is none, or several."""
        chains = self._elements[name].findall("chain")
        return chains[0].get("tip_link", "") if len(chains) == 1 else ""
