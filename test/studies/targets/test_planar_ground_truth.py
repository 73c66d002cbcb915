"""The ground truth of planar robots agrees with known figures, with quadrature, and between seeds."""

import math

import pytest
import torch
from studies.targets.examples import seeded

from eim_ros.core.errors import DistributionError
from experiments.targets import PlanarRobot, planar_robot, planar_truth


def test_planar_robot_has_its_known_normaliser_entropy_and_masses():
    """The known values are independent estimates. The known log normaliser has a standard error of 0.0015."""
    target = planar_robot()
    truth = planar_truth(target, 15_000, seeded(1))
    assert truth.log_normaliser.standard_error < 0.03
    assert truth.log_normaliser.value == pytest.approx(-10.6145, abs=4.0 * truth.log_normaliser.standard_error)
    assert truth.entropy == pytest.approx(-9.79, abs=0.09)
    known = torch.tensor([0.344, 0.086, 0.282, 0.288]).double()
    torch.testing.assert_close(truth.goal_shares, known, rtol=0.0, atol=0.016)
    assert truth.effective_sample_size > 5000.0
    torch.testing.assert_close(target.goal_shares(truth.samples).double(), truth.goal_shares, rtol=0.0, atol=1e-3)
    distance = (target.tip(truth.samples) - target.goals[target.nearest_goal(truth.samples)]).norm(dim=-1)
    assert float((distance < 0.03).double().mean()) == pytest.approx(1.0 - math.exp(-4.5), abs=0.005)


def test_three_joints_agree_with_quadrature():
    """The tolerance of the goal is wide, so a grid over all angles resolves the density."""
    target = PlanarRobot(torch.tensor([[2.0, 0.5]]).double(), torch.tensor([1.0, 0.7, 0.5]).double(), 0.15)
    axes = [torch.linspace(-4.5 * s, 4.5 * s, 121, dtype=torch.float64) for s in (1.0, 0.7, 0.5)]
    cell = math.prod(float(axis[1] - axis[0]) for axis in axes)
    log_prob = target.log_prob(torch.cartesian_prod(*axes))
    normaliser = float(log_prob.exp().sum()) * cell
    entropy = math.log(normaliser) - float((log_prob.exp() * log_prob).sum()) * cell / normaliser
    truth = planar_truth(target, 15_000, seeded(2))
    error = truth.log_normaliser.standard_error
    assert error < 0.03
    assert truth.log_normaliser.value == pytest.approx(math.log(normaliser), abs=4.0 * error)
    assert truth.entropy == pytest.approx(entropy, abs=0.08)


def test_too_little_is_refused():
    with pytest.raises(DistributionError, match="at least two draws and three joints"):
        planar_truth(planar_robot(), 1)
    with pytest.raises(DistributionError, match="at least two draws and three joints"):
        planar_truth(planar_robot(1, 2), 10)
