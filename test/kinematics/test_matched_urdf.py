"""The links of a known robot are found in a URDF with other names. Ambiguous links are refused."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from ik.arms import ARMS, arm_of
from kinematics.described import prefixed

from eim_ros.core.errors import RobotError
from eim_ros.kinematics import Robot
from eim_ros.kinematics.matching import matched_urdf

PANDA = arm_of("panda")


def two_arms() -> str:
    root = ElementTree.Element("robot", name="two")
    ElementTree.SubElement(root, "link", name="room")
    for prefix in ("left_", "right_"):
        root.extend(ElementTree.fromstring(prefixed(PANDA.urdf, prefix)))
        joint = ElementTree.SubElement(root, "joint", name=f"{prefix}stand", type="fixed")
        ElementTree.SubElement(joint, "parent", link="room")
        ElementTree.SubElement(joint, "child", link=f"{prefix}panda_link0")
    return ElementTree.tostring(root, encoding="unicode")


def links(robot: Robot) -> tuple[str, str]:
    return robot.base_link, robot.tip_link


def test_links_are_found_by_their_names_with_or_without_a_prefix(tmp_path) -> None:
    (tmp_path / "arm.urdf").write_text(prefixed(PANDA.urdf, "left_"))
    left = ("left_panda_link0", "left_panda_link8")
    assert links(matched_urdf(PANDA, "panda")) == ("panda_link0", "panda_link8")
    assert links(matched_urdf(PANDA, tmp_path / "arm.urdf")) == left
    assert links(matched_urdf(PANDA, prefixed(PANDA.urdf, "left_"), tip=left[1])) == left
    assert links(matched_urdf(PANDA, prefixed(PANDA.urdf, "left_"), base="left_panda_link1")) == (
        "left_panda_link1",
        left[1],
    )
    assert links(matched_urdf(PANDA, ARMS["six_joints"])) == ("l0", "l7")  # root and only leaf


def test_of_two_arms_one_must_be_named() -> None:
    assert links(matched_urdf(PANDA, two_arms(), tip="right_panda_link8")) == ("right_panda_link0", "right_panda_link8")
    with pytest.raises(
        RobotError, match=r"several arms with these links, 'left_panda_link0' to 'left_panda_link8', 'right_panda"
    ):
        matched_urdf(PANDA, two_arms())


@pytest.mark.parametrize(
    ("source", "given", "reason"),
    [
        ("panda", {"tip": "flange"}, "no tip link 'flange'"),
        (ARMS["six_joints"], {"tip": "l6"}, "no link 'panda_link0', with or without a prefix; give its base link"),
        ("nobody", {}, "no included robot 'nobody'"),
        ("<robot", {}, "not well-formed XML"),
    ],
)
def test_what_is_not_there_is_refused(source: str, given: dict[str, str], reason: str) -> None:
    with pytest.raises(RobotError, match=reason):
        matched_urdf(PANDA, source, **given)
