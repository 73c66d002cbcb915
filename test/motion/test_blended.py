"""Blended motions change smoothly from one distribution to another."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eim_ros.core.errors import DataError, DistributionError, EimError
from eim_ros.learning.models import GaussianMixture
from eim_ros.motion import Basis, MotionDistribution, MotionPrior, Representation, ViaPoint, blended

REPRESENTATION = Representation(Basis("gaussian", 12), ("a", "b"), 50)


def distribution(*levels: float, representation: Representation = REPRESENTATION) -> MotionDistribution:
    """Return a mixture of motions at rest. In each motion, all joints are at one of these positions [rad]."""
    means = torch.tensor(levels, dtype=torch.float64)[:, None].expand(-1, representation.n_weights)
    factors = 0.01 * torch.eye(representation.n_weights, dtype=torch.float64).expand(len(levels), -1, -1)
    n_joints, log_weights = representation.n_joints, torch.zeros(len(levels), dtype=torch.float64)
    mixture = GaussianMixture(log_weights, means, factors)
    return MotionDistribution(representation, mixture, np.full(n_joints, -9.0), np.full(n_joints, 9.0))


def test_blend_is_the_first_before_and_the_second_after(prior: MotionPrior) -> None:
    first, second = prior.condition([0.6]), prior.condition([1.4])
    blend = blended(first, second, (0.3, 0.7))
    assert blend.n_components == first.n_components * second.n_components
    for phase, expected in ((0.05, first), (0.95, second)):
        # the tolerance allows for the error of the basis
        torch.testing.assert_close(moments(blend, phase), moments(expected, phase), atol=1e-2, rtol=0.0)


def test_change_is_monotonic_and_complete() -> None:
    mean = blended(distribution(0.0), distribution(1.0)).component_motions()[1][0, :, 0]
    assert np.diff(mean).min() > -2e-3  # the basis represents the change with an error of 1e-3
    np.testing.assert_allclose(mean[[0, 24, -1]], [0.0, 0.46, 1.0], atol=5e-3)  # point 24 is before the middle


def moments(distribution: MotionDistribution, phase: float) -> torch.Tensor:
    """Return mean and standard deviations of the joints at a phase."""
    marginal = distribution.marginal(phase)
    mean = marginal.weights @ marginal.means
    variance = marginal.weights @ (marginal.covariances.diagonal(dim1=-2, dim2=-1) + (marginal.means - mean).square())
    return torch.stack([mean, variance.sqrt()])


def test_agreement_joins_near_ways() -> None:
    two = distribution(-1.0, 1.0)
    blend = blended(two, two, agreement=0.05)
    log_weights, means, _ = blend.component_motions()
    likely = np.exp(log_weights) > 1e-6
    assert likely.sum() == 2
    np.testing.assert_allclose(means[likely][:, 0], means[likely][:, -1], atol=1e-3)
    assert np.exp(blended(two, two).mixture.log_weights.numpy()) == pytest.approx(0.25)


def test_blend_is_conditioned_like_any_distribution() -> None:
    blend = blended(distribution(0.0), distribution(1.0))
    given = blend.condition([ViaPoint(1.0, ("a",), (1.02,), (1e-4,))])
    drawn = given.sample(20, torch.Generator().manual_seed(0)).positions
    np.testing.assert_allclose(drawn[:, -1, 0], 1.02, atol=1e-3)
    assert given.log_evidence != 0.0
    with pytest.raises(EimError, match="the limits are -9 and 9"):
        blend.condition([ViaPoint(1.0, ("a",), (10.0,))])


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ({"phases": (0.6, 0.4)}, DataError, "ascend"),
        ({"phases": (0.5, 1.5)}, DataError, "ascend"),
        ({"agreement": 0.0}, DataError, "agreement"),
        ({"second": Representation(Basis("gaussian", 9), ("a", "b"), 50)}, DistributionError, "same basis"),
        ({"second": Representation(Basis("gaussian", 12), ("a", "c"), 50)}, DistributionError, "same basis"),
    ],
)
def test_bad_blend_is_refused(arguments: dict, error: type[Exception], reason: str) -> None:
    second = distribution(1.0, representation=arguments.pop("second", REPRESENTATION))
    with pytest.raises(error, match=reason):
        blended(distribution(0.0), second, **arguments)
    many = distribution(*np.linspace(0.0, 1.0, 40))
    with pytest.raises(DistributionError, match="1600"):
        blended(many, many)
