"""Which links of a description are meant where only those of another robot of the same kind are known.

`left_panda_link0` is `panda_link0` with a prefix; many descriptions hold one arm so, or two of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from eim_ros.errors import RobotError
from eim_ros.kinematics.link_tree import UrdfTree, listed
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.shipped import robot_path
from eim_ros.kinematics.urdf import parse_urdf, read_urdf_source
from eim_ros.numerics.arguments import expect

__all__ = ["namesake"]


def namesake(known: Robot, source: str | Path, base: str | None = None, tip: str | None = None) -> Robot:
    """The arm of a description between the links of a known robot, under their names or with one prefix for both.

    Where the description has neither, between its root and its only leaf.

    Parameters
    ----------
    known : Robot
    source : str or Path
        A shipped robot's name, or the path or the text of a URDF.
    base, tip : str, optional
        Links that are given; one alone tells the prefix of the other.

    Raises
    ------
    RobotError
        If the description cannot be read, or it is not clear which links are meant.
    """
    for link in (base, tip):
        if link is not None:
            expect(link, str, "the name of a link", RobotError)
    is_text = isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<")
    found = source if is_text else robot_path(source)
    if not (base and tip):
        base, tip = _ends(known, parse_urdf(read_urdf_source(found)), base, tip)
    return Robot.from_urdf(found, base, tip)


def _ends(known: Robot, tree: UrdfTree, base: str | None, tip: str | None) -> tuple[str | None, str | None]:
    """Base and tip link; None for the root or the only leaf."""
    wanted = (base or known.base_link, tip or known.tip_link)
    if all(link in tree.links for link in wanted):
        return wanted
    prefixes = _prefixes(known.base_link, [base] if base else tree.links)
    prefixes |= _prefixes(known.tip_link, [tip] if tip else tree.links)
    pairs = [(base or prefix + known.base_link, tip or prefix + known.tip_link) for prefix in sorted(prefixes)]
    pairs = [pair for pair in pairs if _is_chain(tree, *pair)]
    if len(pairs) > 1:
        told = ", ".join(f"{first!r} to {last!r}" for first, last in pairs)
        raise RobotError(f"robot {tree.name!r} has several such arms, {told}: give base and tip link", pairs)
    if not pairs and (base or tip) in tree.links:
        other, role = (known.tip_link, "tip") if base else (known.base_link, "base")
        raise RobotError(
            f"robot {tree.name!r} has no link {other!r}, with or without a prefix; give its {role} link, one of "
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
    """What stands before a name in those links that end with it."""
    return {link.removesuffix(name) for link in links if link.endswith(name)}
