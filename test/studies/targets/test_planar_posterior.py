"""The planar robot follows the published definition, and agrees with the planar arm of the package."""

import math

import pytest
import scipy.stats
import torch
from studies.targets.examples import normals

from eim_ros.core.errors import DistributionError
from eim_ros.planar import PlanarArm
from experiments.targets import PlanarRobot, planar_robot


def test_log_density_is_prior_plus_the_likelihood_of_the_best_goal():
    target = planar_robot()
    x = 0.5 * normals(6, 10)
    tips = PlanarArm().tip(x)
    torch.testing.assert_close(target.tip(x), tips)
    prior = scipy.stats.norm(0.0, [1.0, *[0.2] * 9]).logpdf(x.numpy()).sum(-1)
    likelihoods = [
        scipy.stats.norm(goal, 0.01).logpdf(tips.numpy()).sum(-1)
        for goal in ([7.0, 0.0], [-7.0, 0.0], [0.0, 7.0], [0.0, -7.0])
    ]
    expected = torch.from_numpy(prior + max_of(likelihoods))
    torch.testing.assert_close(target.log_prob(x), expected, rtol=1e-12, atol=1e-9)


def max_of(values):
    return torch.stack([torch.from_numpy(value) for value in values]).amax(0).numpy()


def test_turning_the_first_joint_a_quarter_leads_to_another_goal():
    target = planar_robot()
    x = 0.1 * normals(50, 10)
    turned = x.clone()
    turned[:, 0] += math.pi / 2
    before, after = target.nearest_goal(x), target.nearest_goal(turned)
    assert torch.equal(after, torch.tensor([2, 3, 1, 0])[before])
    torch.testing.assert_close(target.goal_shares(x).sum(), torch.tensor(1.0))


def test_bad_numbers_are_refused():
    for n_goals, n_joints in ((0, 10), (5, 10), (4, 1)):
        with pytest.raises(DistributionError, match="1 to 4 goals"):
            planar_robot(n_goals, n_joints)
    with pytest.raises(DistributionError, match="above 0"):
        PlanarRobot(torch.zeros(1, 2), torch.ones(3), tolerance=0.0)
    with pytest.raises(DistributionError, match="goals must have shape"):
        PlanarRobot(torch.zeros(2), torch.ones(3))
