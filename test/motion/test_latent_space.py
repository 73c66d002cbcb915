"""The latent space consists of probabilistic principal components of the weights."""

from __future__ import annotations

import pytest
import torch

from eim_ros.learning.models import GaussianMixture, MixtureOfExperts
from eim_ros.motion.representation import LatentSpace

N_WEIGHTS = 6


@pytest.fixture
def weights() -> torch.Tensor:
    """Return weights that are nearly in a plane."""
    generator = torch.Generator().manual_seed(0)
    plane = torch.randn(300, 2, generator=generator, dtype=torch.float64) * torch.tensor([2.0, 1.0])
    frame = torch.linalg.qr(torch.randn(N_WEIGHTS, N_WEIGHTS, generator=generator, dtype=torch.float64)).Q
    noise = 0.01 * torch.randn(300, N_WEIGHTS, generator=generator, dtype=torch.float64)
    return plane @ frame[:, :2].mT + noise + 3.0


def mixture(n_latent: int) -> GaussianMixture:
    generator = torch.Generator().manual_seed(1)
    means = torch.randn(3, n_latent, generator=generator, dtype=torch.float64)
    factors = 0.5 * torch.eye(n_latent, dtype=torch.float64).expand(3, -1, -1)
    return GaussianMixture(torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64).log(), means, factors)


def test_coordinates_are_as_many_as_explain_the_share_and_white(weights: torch.Tensor) -> None:
    latent = LatentSpace.from_weights(weights, 0.99, most=6, floor=1e-6)
    assert latent.n_latent == 2
    coordinates = latent.coordinates(weights)
    torch.testing.assert_close(coordinates.mean(0), torch.zeros(N_WEIGHTS, dtype=torch.float64), atol=1e-9, rtol=0.0)
    covariance = coordinates[:, :2].mT @ coordinates[:, :2] / len(weights)
    torch.testing.assert_close(covariance, torch.eye(2, dtype=torch.float64), atol=1e-9, rtol=0.0)
    # estimates of the noise of 0.01 from 300 samples have errors of 4 %, and the axes are sorted by estimates
    assert torch.allclose(latent.scales[2:], torch.tensor(0.01, dtype=torch.float64), rtol=0.2)


@pytest.mark.parametrize(("share", "most", "expected"), [(1.0, 6, 6), (0.99, 1, 1), (0.0, 6, 1)])
def test_number_of_coordinates_is_bounded(weights: torch.Tensor, share: float, most: int, expected: int) -> None:
    assert LatentSpace.from_weights(weights, share, most, 1e-6).n_latent == expected


@pytest.mark.parametrize("share", [0.99, 1.0])
def test_log_density_is_that_of_the_lifted_mixture(weights: torch.Tensor, share: float) -> None:
    latent = LatentSpace.from_weights(weights, share, most=6, floor=1e-6)
    of_z = mixture(latent.n_latent)
    model = MixtureOfExperts.from_mixture(of_z)
    context = torch.zeros(len(weights), 0, dtype=torch.float64)
    torch.testing.assert_close(latent.log_prob(model, context, weights), latent.lifted(of_z).log_prob(weights))


def test_fewer_motions_than_weights_leave_a_floor(weights: torch.Tensor) -> None:
    latent = LatentSpace.from_weights(weights[:3], 1.0, most=2, floor=1e-3)
    assert latent.n_latent == 2
    assert bool((latent.scales[2:] == 1e-3).all())


def test_noise_of_the_other_axes_is_unbiased_for_few_motions(weights: torch.Tensor) -> None:
    few = (weights[first : first + 12] for first in range(0, 300, 12))
    rest = torch.stack([LatentSpace.from_weights(each, 0.99, most=2, floor=1e-6).scales[2:] for each in few])
    # the mean of 25 x 9 x 4 squares has a standard error of 5 %; without the correction, it would be 25 % too small
    assert float(rest.square().mean()) == pytest.approx(1e-4, rel=0.15)
