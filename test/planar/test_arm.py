"""The points of the planar arm agree with the kinematics of its URDF, and left and right are as seen from above."""

import math

import numpy as np
import pytest
import torch

from eim_ros.core.errors import ConfigurationError
from eim_ros.kinematics import Robot
from eim_ros.planar import PlanarArm, elbow_side, passing_side


def test_tip_is_that_of_the_shipped_description():
    arm, robot = PlanarArm(), Robot("planar10")
    q = np.random.default_rng(0).uniform(-math.pi, math.pi, (20, 10))
    poses = robot.fk(q)
    tips = arm.tip(torch.from_numpy(q)).numpy()
    np.testing.assert_allclose(tips, poses[:, :2, 3], atol=1e-12)
    np.testing.assert_allclose(np.cos(q.sum(axis=1)), poses[:, 0, 0], atol=1e-12)
    assert arm.joint_names == tuple(robot.joint_names)
    assert arm.joint_limit == robot.upper.max()


def test_points_begin_at_the_base_end_at_the_tip_and_are_a_link_apart():
    arm = PlanarArm(n_links=4, link_length=0.3)
    q = torch.randn(7, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    points = arm.points(q)
    assert points.shape == (7, 5, 2)
    assert torch.equal(points[:, 0], torch.zeros(7, 2).double())
    torch.testing.assert_close(points[:, -1], arm.tip(q), rtol=0.0, atol=1e-14)
    lengths = points.diff(dim=-2).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.full_like(lengths, 0.3), rtol=0.0, atol=1e-14)


def test_elbow_is_left_of_the_way_to_the_tip_where_the_arm_bends_right():
    arm = PlanarArm(n_links=2)
    q = torch.tensor([[0.5, -1.0], [-0.5, 1.0]]).double()
    assert elbow_side(arm.points(q)).tolist() == [1, -1]


def test_disc_is_passed_above_and_below_whatever_its_place():
    arm = PlanarArm(n_links=2)
    above, below = torch.tensor([[1.0, -2.0], [-1.0, 2.0]]).double()
    for x in (0.3, 0.5, 0.8):
        center = torch.tensor([x, 0.0]).double()
        assert int(passing_side(arm.points(above), center)) == 1
        assert int(passing_side(arm.points(below), center)) == -1


def test_limits_are_those_of_every_joint():
    arm = PlanarArm(n_links=2, joint_limit=1.0)
    q = torch.tensor([[1.0, -1.0], [1.001, 0.0], [0.0, -1.001]]).double()
    assert arm.within_limits(q).tolist() == [True, False, False]


def test_bad_arm_is_refused():
    with pytest.raises(ConfigurationError, match="n_links must be at least 1"):
        PlanarArm(n_links=0)
