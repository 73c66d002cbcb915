"""The log posterior of joints given a pose is the sum of its terms, respects limits, and has the correct gradient."""

import math

import numpy as np
import pytest
import scipy.stats
import torch
from scipy.spatial.transform import Rotation
from studies.targets.examples import normals

from eim_ros.core.errors import DistributionError, PoseError
from eim_ros.kinematics import Robot
from experiments.targets import pose_posterior


@pytest.fixture(scope="module")
def robot() -> Robot:
    return Robot("iiwa14")


@pytest.fixture(scope="module")
def pose(robot) -> np.ndarray:
    return robot.fk([0.3, 0.5, -0.2, -1.2, 0.4, 0.9, 0.1])


def test_log_density_is_likelihood_plus_prior(robot, pose):
    scales = {"prior_scale": 0.7, "position_scale": 0.2, "orientation_scale": 0.3, "limit_scale": 0.0}
    target = pose_posterior(robot, pose, prior_mean=0.1, **scales)
    x = 0.4 * normals(5, 7)
    reached = robot.fk(x.numpy())
    likelihood = scipy.stats.norm(pose[:3, 3], 0.2).logpdf(reached[:, :3, 3]).sum(-1)
    angle = (Rotation.from_matrix(pose[:3, :3]).inv() * Rotation.from_matrix(reached[:, :3, :3])).magnitude()
    turn = -(1.0 - np.cos(angle)) / 0.3**2
    prior = scipy.stats.norm(0.1, 0.7).logpdf(x.numpy()).sum(-1)
    np.testing.assert_allclose(target.log_prob(x).numpy(), likelihood + turn + prior, rtol=1e-10)


def test_start_is_as_wide_as_the_prior(robot, pose):
    start = pose_posterior(robot, pose, prior_mean=0.2, prior_scale=0.4).start
    torch.testing.assert_close(start.mean_scale, torch.full((7,), 0.4).double())
    torch.testing.assert_close(start.variance, torch.full((7,), 0.01).double())
    torch.testing.assert_close(start.mixture(n_components=1).means, torch.full((1, 7), 0.2).double())


@pytest.mark.parametrize(("orientation_scale", "limit_scale"), [(0.3, 0.0), (math.inf, 0.0), (0.3, 0.1)])
def test_score_is_the_derivative(robot, pose, orientation_scale, limit_scale):
    target = pose_posterior(
        robot, pose, position_scale=0.2, orientation_scale=orientation_scale, limit_scale=limit_scale
    )
    x, step = 0.5 * normals(4, 7), 1e-6
    log_prob, score = target.log_prob_and_score(x)
    torch.testing.assert_close(log_prob, target.log_prob(x))
    for joint in range(7):
        shift = torch.zeros(7).double()
        shift[joint] = step
        slope = (target.log_prob(x + shift) - target.log_prob(x - shift)) / (2.0 * step)
        torch.testing.assert_close(score[:, joint], slope, rtol=1e-6, atol=1e-5)


def test_density_is_zero_outside_of_hard_limits_and_small_outside_of_soft_ones(robot, pose):
    outside = torch.from_numpy(np.vstack([robot.upper + 0.01, robot.lower + 0.01]))
    hard, soft = (pose_posterior(robot, pose, limit_scale=scale) for scale in (0.0, 0.05))
    log_prob, score = hard.log_prob_and_score(outside)
    assert torch.isneginf(log_prob).tolist() == [True, False]
    assert bool(torch.isnan(score[0]).all() and torch.isfinite(score[1]).all())
    assert bool(torch.isfinite(soft.log_prob(outside)).all() and torch.isfinite(soft.score(outside)).all())


def test_continuous_joints_have_no_limits():
    urdf = """<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="continuous"><parent link="a"/>
    <child link="b"/><origin xyz="0 0 1"/><axis xyz="0 1 0"/></joint></robot>"""
    robot = Robot(urdf)
    target = pose_posterior(robot, robot.fk([0.0]), limit_scale=0.0)
    assert bool(torch.isfinite(target.log_prob(torch.tensor([[5.0]]).double())).all())


def test_bad_numbers_are_refused(robot, pose):
    with pytest.raises(DistributionError, match="each of 7 joints"):
        pose_posterior(robot, pose, prior_mean=[0.0, 1.0])
    for scales in ({"prior_scale": 0.0}, {"position_scale": -1.0}, {"limit_scale": -1.0}, {"orientation_scale": 0.0}):
        with pytest.raises(DistributionError, match="scales must be above 0"):
            pose_posterior(robot, pose, **scales)
    with pytest.raises(PoseError):
        pose_posterior(robot, np.zeros((4, 4)))
