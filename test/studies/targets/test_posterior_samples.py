"""Hamiltonian Monte Carlo agrees with moments from quadrature, and refuses a target without a maximum."""

import pytest
import torch
from studies.targets.examples import seeded

from eim_ros.core.errors import DistributionError
from experiments.targets import LogisticRegression
from experiments.targets.posterior_samples import posterior_samples


def skewed() -> LogisticRegression:
    """Return a posterior of few labels and a wide prior. It is far from normal."""
    features = torch.tensor([[1.0, 0.5], [1.0, -0.3], [1.0, 1.5], [1.0, 2.0]]).double()
    return LogisticRegression(features, torch.tensor([0.0, 0.0, 1.0, 1.0]).double(), prior_scale=3.0)


def test_moments_are_those_of_quadrature():
    target = skewed()
    axis = torch.linspace(-15.0, 15.0, 601, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    weight = torch.softmax(target.log_prob(grid), 0)
    mean = weight @ grid
    deviation = (weight @ (grid - mean).square()).sqrt()
    found = posterior_samples(target, 10_000, seeded(0))
    assert found.samples.shape == (10_000, 2)
    assert found.acceptance > 0.8
    # independent samples would have a standard error of 0.01 deviations, but states of a chain are correlated
    torch.testing.assert_close((found.samples.mean(0) - mean) / deviation, torch.zeros(2).double(), rtol=0.0, atol=0.05)
    torch.testing.assert_close(found.samples.std(0) / deviation, torch.ones(2).double(), rtol=0.0, atol=0.05)


class Saddle:
    """Density without a maximum, because it grows in one direction."""

    n_dims = 2
    start = None

    def log_prob(self, x):
        return x[:, 0].square() - x[:, 1].square()


def test_target_without_a_maximum_is_refused():
    with pytest.raises(DistributionError, match="did not find a maximum"):
        posterior_samples(Saddle(), 10)
