"""Changes of a URDF that keep the kinematics: names with a prefix, other limits, and a new root link."""

from __future__ import annotations

from xml.etree import ElementTree

__all__ = ["mounted", "prefixed", "with_limits"]


def prefixed(urdf: str, prefix: str) -> str:
    """Return a URDF with a prefix before the names of all links and joints."""
    root = ElementTree.fromstring(urdf)
    for element in root.iter():
        key = "link" if element.tag in ("parent", "child") else "joint" if element.tag == "mimic" else "name"
        if element.tag in ("link", "joint", "parent", "child", "mimic"):
            element.set(key, prefix + element.get(key, ""))
    return ElementTree.tostring(root, encoding="unicode")


def with_limits(urdf: str, share: float) -> str:
    """Return a URDF in which each range is scaled by `share` about its centre."""
    root = ElementTree.fromstring(urdf)
    for limit in root.iter("limit"):
        lower, upper = float(limit.get("lower", "")), float(limit.get("upper", ""))
        middle, half = 0.5 * (lower + upper), 0.5 * share * (upper - lower)
        limit.set("lower", repr(middle - half))
        limit.set("upper", repr(middle + half))
    return ElementTree.tostring(root, encoding="unicode")


def mounted(urdf: str, link: str, xyz: str, rpy: str) -> str:
    """Return the URDF with a new root link `room`, to which the root `link` of the arm is fixed."""
    stand = (
        f'<link name="room"/><joint name="stand" type="fixed"><parent link="room"/><child link="{link}"/>'
        f'<origin xyz="{xyz}" rpy="{rpy}"/></joint></robot>'
    )
    return urdf.replace("</robot>", stand)
