"""Draws of the expert agree with rejection sampling and with quadrature of the posterior, and cover every side."""

import math

import pytest
import torch

from eim_ros.core.errors import ConfigurationError
from eim_ros.planar import Expert, ExpertConfig, PlanarArm, elbow_side, line_task, passing_side, point_task


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rejection(expert: Expert, n_draws: int, seed: int) -> torch.Tensor:
    """Draw from the prior, accept each draw with a probability equal to its likelihood, and return accepted draws."""
    generator = rng(seed)
    shape = (n_draws, expert.arm.n_links)
    q = torch.randn(shape, generator=generator, dtype=torch.float64) @ expert.scale_tril.mT
    probability = expert.log_likelihood(q).exp() * expert.arm.within_limits(q)
    return q[torch.rand(n_draws, generator=generator, dtype=torch.float64) < probability]


@pytest.mark.parametrize("correlation_length", [0.0, 2.0])
@pytest.mark.parametrize("task", [line_task((3.0, -2.0), (3.0, 2.5)), point_task((2.8, 1.2), (1.5, 0.0, 0.3))])
def test_draws_agree_with_rejection_sampling(task, correlation_length):
    config = ExpertConfig(deviation=0.7, goal_deviation=0.15, correlation_length=correlation_length, roughness=0.3)
    expert = Expert(PlanarArm(n_links=4), task, config)
    exact = rejection(expert, 500_000, 1)
    assert len(exact) > 1000
    drawn = expert.draw(5000, rng())
    center = task.obstacles[0, :2] if len(task.obstacles) else torch.tensor([1.0, 0.0]).double()
    statistics = (
        torch.sin,
        torch.cos,
        torch.abs,
        lambda q: task.along(expert.arm.tip(q)).unsqueeze(-1),
        lambda q: passing_side(expert.arm.points(q), center).double().unsqueeze(-1),
    )
    for statistic in statistics:
        a, b = statistic(exact), statistic(drawn)
        error = (a.var(0) / len(a) + b.var(0) / len(b)).sqrt()
        # If the effective sample size is half the number of draws, 6 > 4 sqrt(2) means four standard errors. For
        # goals that are points, the coordinate along the goal is always 0, so the error needs the constant.
        assert ((a.mean(0) - b.mean(0)).abs() <= 6.0 * error + 1e-12).all()


def test_two_links_agree_with_quadrature():
    task = line_task((1.2, -1.0), (1.2, 1.0))
    expert = Expert(PlanarArm(n_links=2), task, ExpertConfig(deviation=1.0, goal_deviation=0.05))
    axis = torch.linspace(-math.pi, math.pi, 601, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    mass = torch.softmax(expert.log_prob(grid), 0)
    drawn = expert.draw(5000, rng())
    for statistic in (lambda q: (q[:, 1] > 0.0).double(), lambda q: q[:, 0].abs(), lambda q: q[:, 1].abs()):
        values = statistic(grid)
        mean = (mass * values).sum()
        error = ((mass * (values - mean).square()).sum() / 5000) ** 0.5
        assert abs(statistic(drawn).mean() - mean) < 6.0 * error  # at least four standard errors


def test_all_ways_are_drawn_in_their_proportions():
    """By symmetry, both sides of the obstacle and of the elbow are equally likely."""
    task = point_task((7.0, 0.0), (3.5, 0.0, 1.0))
    expert = Expert(PlanarArm(), task, ExpertConfig(correlation_length=0.0))
    points = expert.arm.points(expert.draw(2000, rng()))
    for side in (passing_side(points, task.obstacles[0, :2]), elbow_side(points)):
        assert abs(float((side > 0).double().mean()) - 0.5) < 0.06  # > 5 standard errors
    assert task.clearance(points).min() > 0.0
    assert task.distance(points[:, -1]).max() < 6.0 * expert.config.goal_deviation


def test_draws_differ_and_are_repeatable():
    expert = Expert(PlanarArm(n_links=3), line_task((2.0, -1.0), (2.0, 1.0)), ExpertConfig(final_moves=20))
    first, again, other = expert.draw(100, rng()), expert.draw(100, rng()), expert.draw(100, rng(1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len(first.unique(dim=0)) == 100
    assert expert.arm.within_limits(first).all()


def test_tight_joint_limits_are_kept():
    expert = Expert(
        PlanarArm(n_links=4, joint_limit=0.5), line_task((3.0, -2.0), (3.0, 2.0)), ExpertConfig(final_moves=20)
    )
    assert expert.draw(500, rng()).abs().max() <= 0.5


def test_one_link_reaches_what_it_can():
    expert = Expert(PlanarArm(n_links=1), point_task((0.0, 1.0)))
    q = expert.draw(200, rng())
    assert (q - 0.5 * math.pi).abs().max() < 0.06  # six standard deviations of the goal


def test_goal_out_of_reach_is_refused():
    with pytest.raises(ConfigurationError, match="cannot reach the goal"):
        Expert(PlanarArm(n_links=2), point_task((5.0, 0.0))).draw(10, rng())
