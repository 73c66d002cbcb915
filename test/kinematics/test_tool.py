"""A robot with a tool reaches poses with the tip of the tool, and works like any other robot."""

from __future__ import annotations

import numpy as np
import pytest
from ik.arms import ARMS, arm_of

from eim_ros.core.errors import PoseError
from eim_ros.kinematics import CollisionOptions, Robot, pose_from
from eim_ros.kinematics.poses import rotations_from
from eim_ros.kinematics.robot import tool_from


@pytest.mark.parametrize("name", [*ARMS, "panda"])
def test_forward_kinematics_go_on_to_the_tip_of_the_tool(name: str) -> None:
    robot, rng = arm_of(name), np.random.default_rng(0)
    q = robot.random(5, rng)
    turns = [
        *rotations_from(rng.normal(size=(20, 3))),
        *rotations_from(0.5 * np.pi * np.array([[0, 1, 0], [0, -1, 0]])),
    ]
    for turn in turns:
        tool = np.eye(4)
        tool[:3, :3], tool[:3, 3] = turn, rng.normal(size=3)
        # a tool is stored as roll, pitch and yaw with 17 digits; near a right angle, the pitch loses half of them
        np.testing.assert_allclose(robot.with_tool(tool).fk(q), robot.fk(q) @ tool, atol=1e-7)


def test_robot_with_a_tool_can_be_rebuilt_and_given_another() -> None:
    tool = pose_from([0.0, 0.0, 0.1])
    robot = arm_of("panda").with_tool(tool)
    again = Robot(robot.urdf, robot.tip_link, base=robot.base_link)
    assert (robot.tip_link, again.fingerprint) == ("panda_link8_tool", robot.fingerprint)
    longer = robot.with_tool(tool)
    q = np.zeros(7)
    np.testing.assert_allclose(longer.fk(q), arm_of("panda").fk(q) @ tool @ tool, atol=1e-12)


def test_robot_with_a_tool_finds_its_meshes_as_before() -> None:
    options = CollisionOptions(package_paths=("packages",))
    robot = Robot("panda", collision=options)
    with_tool = robot.with_tool(pose_from([0.0, 0.0, 0.1]))
    assert robot.folder is not None
    assert (with_tool.collision, with_tool.folder) == (options, robot.folder)


def test_numbers_of_a_tool_are_a_position_with_or_without_a_quaternion() -> None:
    assert np.array_equal(tool_from([0.1, 0.2, 0.3]), pose_from([0.1, 0.2, 0.3]))
    assert np.array_equal(tool_from([0, 0, 1, 1, 0, 0, 0]), pose_from([0, 0, 1], [1, 0, 0, 0]))
    for numbers, reason in (
        ([0.1], "needs 3 or 7 numbers"),
        ([0.1, np.nan, 0.0], "must be finite"),
        ([0, 0, 0, 0, 0, 0, 2], "length 2"),
    ):
        with pytest.raises(PoseError, match=reason):
            tool_from(numbers)
