"""Planning groups from a list or an SRDF get a tip if they match the chain. Errors name mistakes."""

from __future__ import annotations

import pytest
from ik.arms import arm_of
from kinematics.test_attachments import BRANCHED

from eim_ros.core.errors import RobotError
from eim_ros.kinematics import Robot
from eim_ros.kinematics.srdf import listed_groups, srdf_groups

SRDF = """<?xml version="1.0"?>
<robot name="branched">
  <group name="arm"><chain base_link="base" tip_link="flange"/></group>
  <group name="with_tool"><chain base_link="world" tip_link="tool"/></group>
  <group name="by_joints"><joint name="mount"/><joint name="j1"/><joint name="j2"/><joint name="j3"/></group>
  <group name="by_links"><link name="upper"/><link name="fore"/><link name="flange"/><link name="right_finger"/></group>
  <group name="of_groups"><group name="arm"/></group>
  <group name="forearm"><chain base_link="upper" tip_link="flange"/></group>
  <group name="hand"><joint name="finger"/></group>
  <group name="all"><group name="arm"/><group name="hand"/></group>
  <end_effector name="hand" parent_link="flange" group="hand"/>
</robot>"""


@pytest.fixture(scope="module")
def robot() -> Robot:
    return Robot(BRANCHED, "flange", base="base")


def test_groups_of_an_srdf_that_are_the_chain_are_served_by_their_tips(robot: Robot) -> None:
    """A group must have exactly the joints of the chain. Mimic joints and fixed joints do not count."""
    assert srdf_groups(robot, SRDF) == {
        "arm": "flange",
        "with_tool": "tool",
        "by_joints": "flange",
        "by_links": "flange",
        "of_groups": "flange",
    }


def test_listed_groups_have_the_tip_that_is_named_or_the_robots(robot: Robot) -> None:
    assert listed_groups(robot, " arm , manipulator = tool,") == {"arm": "flange", "manipulator": "tool"}
    assert listed_groups(robot, "") == srdf_groups(robot, " ") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("arm, arm", "each name once"),
        ("=tool", "expected NAME or NAME=LINK"),
        ("arm=", "expected NAME or NAME=LINK"),
        (
            "arm=fore",
            "'fore' of group 'arm' is not fixed to the robot's tip link 'flange'; expected one of flange, tool",
        ),
    ],
)
def test_wrong_lists_are_refused(robot: Robot, text: str, reason: str) -> None:
    with pytest.raises(RobotError, match=reason):
        listed_groups(robot, text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("arm", "not well-formed XML"),
        ('<robot><group name="a"><group name="b"/></group><group name="b"><group name="a"/></group></robot>', "itself"),
        (
            '<robot><group name="a"><group name="b"/></group></robot>',
            "'b' in robot_description_semantic does not exist",
        ),
        ('<robot><group name="a"><chain base_link="base" tip_link="nose"/></group></robot>', "no tip link 'nose'"),
    ],
)
def test_wrong_srdfs_are_refused(robot: Robot, text: str, reason: str) -> None:
    with pytest.raises(RobotError, match=reason):
        srdf_groups(robot, text)


def test_shipped_arm_is_a_group_by_its_own_links() -> None:
    panda = arm_of("panda")
    chain = f'<chain base_link="{panda.base_link}" tip_link="{panda.tip_link}"/>'
    assert srdf_groups(panda, f'<robot name="panda"><group name="panda_arm">{chain}</group></robot>') == {
        "panda_arm": panda.tip_link
    }
