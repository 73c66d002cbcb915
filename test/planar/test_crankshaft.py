"""Moves that keep the tip reach the requested position, and their determinant is that of their derivative."""

import torch

from eim_ros.planar import PlanarArm
from eim_ros.planar.expert import closed_loop, determinant, pair_log_prior, prior_step, turned_to

ARM = PlanarArm(n_links=5)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_closed_loop_puts_the_tip_where_it_shall_be_by_two_joints_alone():
    q = 0.6 * torch.randn(200, 5, generator=generator(), dtype=torch.float64)
    tip = ARM.tip(q) + 0.01
    first, second = torch.full((200,), 1), torch.full((200,), 3)
    for elbow in (1.0, -1.0):
        closed, after = closed_loop(ARM, q, first, second, tip, torch.full((200,), elbow).double())
        reached = torch.isfinite(closed).all(-1)
        assert reached.sum() > 150
        torch.testing.assert_close(ARM.tip(closed)[reached], tip[reached], rtol=0.0, atol=1e-12)
        assert torch.equal(closed[reached][:, [0, 2, 4]], q[reached][:, [0, 2, 4]])
        again = determinant(ARM.points(closed), first, second)
        torch.testing.assert_close(again[reached], after[reached], rtol=0.0, atol=1e-10)


def test_determinant_is_that_of_the_derivative_of_the_tip():
    q = torch.randn(4, 5, generator=generator(), dtype=torch.float64)
    first, second = torch.tensor([0, 1, 0, 3]), torch.tensor([1, 4, 4, 4])
    found = determinant(ARM.points(q), first, second)
    for row in range(4):
        jacobian = torch.autograd.functional.jacobian(ARM.tip, q[row])
        expected = torch.linalg.det(jacobian[:, [int(first[row]), int(second[row])]]).abs()
        torch.testing.assert_close(found[row], expected, rtol=1e-10, atol=1e-12)


def test_prior_step_keeps_the_prior():
    factor = torch.tensor([[2.0, 0.0], [0.3, 0.4]], dtype=torch.float64)
    rng = generator()
    q = torch.randn(100_000, 2, generator=rng, dtype=torch.float64) @ factor.mT
    moved = prior_step(q, factor, torch.full((100_000,), 0.7).double(), rng)
    # in units of the prior, standard errors are 1/316 for a mean and 1/224 for a variance
    white = torch.linalg.solve_triangular(factor, torch.cat([q, moved], -1).reshape(-1, 2, 2).mT, upper=False)
    before, after = white.unbind(-1)
    torch.testing.assert_close(after.mean(0), torch.zeros(2).double(), rtol=0.0, atol=0.015)
    torch.testing.assert_close(after.T.cov(), torch.eye(2).double(), rtol=0.0, atol=0.02)
    mixed = (after.T @ before) / len(q)
    torch.testing.assert_close(mixed, (1.0 - 0.49) ** 0.5 * torch.eye(2).double(), rtol=0.0, atol=0.02)


def test_log_prior_of_a_pair_is_conditional():
    factor = torch.randn(4, 4, generator=generator(), dtype=torch.float64)
    covariance = factor @ factor.mT + torch.eye(4).double()
    q = torch.randn(3, 4, generator=generator(), dtype=torch.float64)
    first, second = torch.tensor([1, 1, 1]), torch.tensor([3, 3, 3])
    whole = torch.distributions.MultivariateNormal(torch.zeros(4).double(), covariance)
    rest = torch.distributions.MultivariateNormal(torch.zeros(2).double(), covariance[[0, 2]][:, [0, 2]])
    expected = whole.log_prob(q) - rest.log_prob(q[:, [0, 2]])
    found = pair_log_prior(q, torch.linalg.inv(covariance), first, second)
    torch.testing.assert_close(found - found[0], expected - expected[0], rtol=0.0, atol=1e-12)


def test_first_joint_turns_the_tip_to_a_coordinate():
    q = 0.4 * torch.randn(100, 5, generator=generator(), dtype=torch.float64)
    normal = torch.tensor([0.6, -0.8], dtype=torch.float64)
    height = torch.full((100,), 2.5).double()
    for branch in (1.0, -1.0):
        turned, slope = turned_to(ARM, q, normal, height, torch.full((100,), branch).double())
        reached = torch.isfinite(turned).all(-1)
        assert reached.sum() > 50
        assert torch.equal(turned[reached][:, 1:], q[reached][:, 1:])
        torch.testing.assert_close((ARM.tip(turned) @ normal)[reached], height[reached], rtol=0.0, atol=1e-12)
        row = int(reached.nonzero()[0])
        jacobian = torch.autograd.functional.jacobian(lambda x: ARM.tip(x) @ normal, turned[row])
        torch.testing.assert_close(slope[row], jacobian[0].abs(), rtol=1e-10, atol=1e-12)
