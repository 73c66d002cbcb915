"""Poses of a chain's bodies agree with pinocchio, and shapes move with their bodies."""

import numpy as np
import pytest
from kinematics.robots import every_robot, robot_and_oracle

from eim_ros.kinematics import Capsule, Robot
from eim_ros.kinematics.links import body_poses, body_shapes, link_shapes, tip_poses
from eim_ros.kinematics.urdf import PRISMATIC

ROUNDING = 1e-12  # rounding error of a few dozen sums and products of numbers of size 1


@every_robot
def test_the_last_body_carries_the_tip(name):
    robot, oracle = robot_and_oracle(name)
    q = robot.random(5, np.random.default_rng(0))
    poses = body_poses(robot, q)
    assert poses.shape == (5, len(robot.links), 4, 4)
    np.testing.assert_array_equal(poses[:, 0], np.tile(np.eye(4), (5, 1, 1)))
    expected = np.array([oracle.forward(row) for row in q])
    np.testing.assert_allclose(tip_poses(robot, q), expected, rtol=0, atol=1e-10)
    turns = robot.links[:-1, PRISMATIC] == 0.0  # a sliding body moves away from the origin of its joint
    origins = poses[:, 1:, :3, 3]
    np.testing.assert_allclose(origins[:, turns], robot.skeleton(q)[:, 1:-1][:, turns], rtol=0, atol=ROUNDING)


def test_shapes_of_a_link_move_with_its_body():
    """A ball on the last link does not move relative to the tip."""
    robot = Robot("panda")
    shapes = body_shapes(robot, link_shapes(robot.urdf))
    assert any(isinstance(placed.shape, Capsule) for placed in shapes)
    last = [placed for placed in shapes if placed.body == len(robot.links) - 1]
    q = robot.random(4, np.random.default_rng(1))
    seen = [np.linalg.inv(robot.fk(q)) @ body_poses(robot, q)[:, placed.body] @ placed.pose for placed in last]
    assert last
    for poses in seen:
        np.testing.assert_allclose(poses, np.broadcast_to(poses[0], poses.shape), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("of", "n"), [("collision", 1), ("visual", 2)])
def test_visuals_are_read_apart_from_collision_shapes(of, n):
    visual = '<visual><geometry><box size="1 2 3"/></geometry></visual>'
    collision = '<collision><geometry><sphere radius="0.1"/></geometry></collision>'
    urdf = f'<robot name="r"><link name="base">{visual}{visual}{collision}</link></robot>'
    assert len(link_shapes(urdf, of)["base"]) == n
