"""Links that are fixed to other links, mimic joints, and forward kinematics of any link of the chain."""

from __future__ import annotations

import numpy as np
import pytest
from kinematics.descriptions import joint
from kinematics.oracle import Oracle

from eim_ros.core.errors import RobotError
from eim_ros.kinematics import Robot
from eim_ros.kinematics.links import fixed_links, following_joints, link_poses

HINGE = '<axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="1" velocity="1"/>'
LINKS = ("world", "base", "upper", "camera", "fore", "flange", "tool", "left_finger", "right_finger")
JOINTS = (
    joint("mount", "fixed", "world", "base", '<origin xyz="1 2 3" rpy="0.3 -0.2 0.5"/>'),
    joint("j1", "revolute", "base", "upper", f'<origin xyz="0 0 0.4" rpy="0 0 0.7"/>{HINGE}'),
    joint("camera_mount", "fixed", "upper", "camera", '<origin xyz="0.1 0 0" rpy="1 0 0"/>'),
    joint("j2", "revolute", "upper", "fore", f'<origin xyz="0.5 0 0.1"/>{HINGE}'),
    joint("j3", "revolute", "fore", "flange", f'<origin xyz="0.4 0 0"/>{HINGE}'),
    joint("tool_mount", "fixed", "flange", "tool", '<origin xyz="0 0 0.2" rpy="0 0.4 0"/>'),
    joint("finger", "prismatic", "tool", "left_finger", HINGE),
    joint("other", "prismatic", "tool", "right_finger", f'<mimic joint="j3" multiplier="-2" offset="0.1"/>{HINGE}'),
)
BRANCHED = '<robot name="branched">' + "".join([*(f'<link name="{link}"/>' for link in LINKS), *JOINTS]) + "</robot>"


@pytest.fixture(scope="module")
def robot() -> Robot:
    return Robot(BRANCHED, "flange", base="base")


def test_links_on_either_side_of_fixed_joints_are_fixed(robot: Robot) -> None:
    assert set(fixed_links(robot, "base")) == {"base", "world"}
    assert set(fixed_links(robot, "flange")) == {"flange", "tool"}
    assert set(fixed_links(robot, "camera")) == {"camera", "upper"}
    assert list(fixed_links(robot, "world"))[0] == "world"


def test_poses_of_fixed_links_are_each_others_inverse(robot: Robot) -> None:
    there, back = fixed_links(robot, "base")["world"], fixed_links(robot, "world")["base"]
    np.testing.assert_allclose(there @ back, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(back[:3, 3], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("link", ["world", "base", "camera", "upper", "fore", "flange", "tool"])
def test_pose_of_each_link_is_that_of_pinocchio(robot: Robot, link: str) -> None:
    q = robot.random(5, np.random.default_rng(0))
    for row, pose in zip(q, link_poses(robot, link)(q), strict=True):
        np.testing.assert_allclose(pose, Oracle(BRANCHED, robot).link_pose(row, link), atol=1e-12)


def test_links_that_other_joints_move_or_that_there_are_not_are_refused(robot: Robot) -> None:
    with pytest.raises(RobotError, match="link 'left_finger' is moved by joint 'finger'"):
        link_poses(robot, "left_finger")
    for ask in (fixed_links, link_poses):
        with pytest.raises(RobotError, match="no .*link 'nose'"):
            ask(robot, "nose")


def test_followers_of_the_chain_are_found_outside_of_it(robot: Robot) -> None:
    followers = following_joints(robot)
    assert set(followers) == {"other"}
    assert (followers["other"].joint, followers["other"].multiplier, followers["other"].offset) == ("j3", -2.0, 0.1)
