"""Arms with equal kinematics but other names are recognised. Arms with other kinematics are distinguished."""

from __future__ import annotations

import numpy as np
import pytest
from ik.arms import ARMS, arm_of
from kinematics.described import mounted

from eim_ros.core.errors import RobotError
from eim_ros.kinematics import Robot, pose_from
from eim_ros.kinematics.matching import LENGTH_TOLERANCE, kinematics_check

SECOND = '<origin xyz="0 0 0.1"/><axis xyz="0 1 0"/>'
TURN = (0.1, -0.5, 0.3, 0.8062257748298549)  # a quaternion of unit length


@pytest.mark.parametrize("name", [*ARMS, "panda", "ur5"])
def test_place_and_tool_are_found_such_that_forward_kinematics_agree(name: str) -> None:
    arm = arm_of(name)
    tool = pose_from([0.05, -0.1, 0.2], TURN)
    robot = arm.with_tool(tool)
    if name in ARMS:
        robot = Robot(mounted(ARMS[name], "l0", "1 2 0.5", "0.3 -0.2 2"), base="room").with_tool(tool)
    offset = kinematics_check(robot, arm)
    q = arm.random(20, np.random.default_rng(0))
    # rounding of products of a dozen rotations
    np.testing.assert_allclose(offset.base @ arm.fk(q) @ offset.tool, robot.fk(q), atol=1e-9)
    np.testing.assert_allclose(offset.poses_of_other(robot.fk(q)), arm.fk(q), atol=1e-9)
    assert offset.is_off_tip


def test_joints_whose_frames_are_chosen_differently_are_the_same() -> None:
    """In the second URDF, the frame of joint 2 is rotated and shifted along its axis."""
    here = ARMS["six_joints"]
    there = here.replace(
        '<origin xyz="0 0 0.1"/><axis xyz="0 1 0"/>',
        '<origin xyz="0 0.3 0.1" rpy="0 0 1.5707963267948966"/><axis xyz="1 0 0"/>',
        1,
    ).replace(
        '<origin xyz="0 0 0.4"/><axis xyz="0 1 0"/>',
        '<origin xyz="-0.3 0 0.4" rpy="0 0 -1.5707963267948966"/><axis xyz="0 1 0"/>',
        1,
    )
    assert here != there
    assert kinematics_check(Robot(there), arm_of("six_joints")).is_none


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('<origin xyz="0 0 0.4"/>', '<origin xyz="0 0 0.45"/>', "joint 3 'j2' is off by 0.05 m .* of the model"),
        (SECOND, SECOND.replace('"0 1 0"', '"0 1 0.1"'), "joint 2 'j1' is rotated by 0.09967 rad"),
        (SECOND, SECOND.replace('"0 1 0"', '"0 -1 0"'), "joint 2 'j1' points in the opposite direction"),
        ('lower="-2.5" upper="2.5"', 'lower="2.6" upper="3"', "limits of joint 1 'j0', 2.6 to 3, do not overlap"),
        ('name="j3" type="revolute"', 'name="j3" type="prismatic"', "4 'j3' slides, but joint 4 'j3' of the model"),
        ('name="j3" type="revolute"', 'name="j3" type="fixed"', "robot has 5 joints and 0 mimic joints instead of 6"),
    ],
)  # fmt: skip
def test_what_differs_is_named_with_its_amount(old: str, new: str, told: str) -> None:
    urdf = ARMS["six_joints"]
    assert old in urdf
    with pytest.raises(RobotError, match=told):
        kinematics_check(Robot(urdf.replace(old, new, 1)), arm_of("six_joints"))


def test_other_follower_is_another_robot() -> None:
    urdf = ARMS["followers"]
    changed = urdf.replace('multiplier="-0.5"', 'multiplier="0.5"', 1)
    told = r"joint 2 .* follows joint 1 'lead' by 0.5 q \+ 0.3, but in the model it follows joint 1 'lead' by -0.5 q"
    with pytest.raises(RobotError, match=told):
        kinematics_check(Robot(changed), arm_of("followers"))


@pytest.mark.parametrize(("share", "agrees"), [(0.9, True), (1.1, False)])
def test_axes_may_differ_by_their_calibration(share: float, agrees: bool) -> None:
    urdf = ARMS["six_joints"].replace('xyz="0 0 0.4"', f'xyz="0 0 {0.4 + share * LENGTH_TOLERANCE}"', 1)
    if agrees:
        offset = kinematics_check(Robot(urdf), arm_of("six_joints"))
        assert np.abs(offset.tool[:3, 3]).max() <= share * LENGTH_TOLERANCE + 1e-12
    else:
        with pytest.raises(RobotError, match="off by 0.0055 m"):
            kinematics_check(Robot(urdf), arm_of("six_joints"))


def test_each_pair_of_shipped_robots_differs() -> None:
    names = ("iiwa14", "panda", "ur5", "planar3", "planar5")
    for one in names:
        for other in names:
            if one == other:
                assert kinematics_check(arm_of(one), arm_of(other)).is_none
            else:
                with pytest.raises(RobotError):
                    kinematics_check(arm_of(one), arm_of(other))
