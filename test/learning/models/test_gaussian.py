"""Gaussian: entropy and KL equal torch's and the definition; parameters that describe no density are refused."""

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_scale_trils

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import Gaussian


def random_gaussian(seed: int, *batch: int, n_dims: int = 3) -> Gaussian:
    generator = generator_of(seed)
    return Gaussian(normal(generator, *batch, n_dims), random_scale_trils(generator, *batch, n_dims))


def torchs(gaussian: Gaussian) -> torch.distributions.MultivariateNormal:
    return torch.distributions.MultivariateNormal(gaussian.mean, scale_tril=gaussian.scale_tril)


def test_entropy_equals_torchs():
    gaussian = random_gaussian(0, 5)
    torch.testing.assert_close(gaussian.entropy(), torchs(gaussian).entropy(), rtol=1e-12, atol=1e-12)


def test_kl_equals_torchs():
    first, second = random_gaussian(1, 5), random_gaussian(2, 5)
    expected = torch.distributions.kl_divergence(torchs(first), torchs(second))
    torch.testing.assert_close(first.kl(second), expected, rtol=1e-12, atol=1e-12)


def test_log_prob_of_a_batch_equals_a_loop():
    gaussian, sample = random_gaussian(7, 4, 3), normal(generator_of(8), 4, 3, 3)
    expected = torchs(gaussian).log_prob(sample)
    torch.testing.assert_close(gaussian.log_prob(sample), expected, rtol=1e-12, atol=1e-12)


def test_upper_triangle_of_the_factor_is_not_looked_at_by_log_prob():
    gaussian = random_gaussian(11)
    noisy = Gaussian(gaussian.mean, gaussian.scale_tril + torch.ones(3, 3).triu(1))
    sample = normal(generator_of(12), 5, 3)
    assert torch.equal(noisy.log_prob(sample), gaussian.log_prob(sample))


@pytest.mark.parametrize(
    ("scale_tril", "reason"),
    [
        (torch.eye(3), r"must end in \(2, 2\)"),
        (torch.ones(2), r"must end in \(2, 2\)"),
        (torch.zeros(2, 2), "positive diagonal"),
        (-torch.eye(2), "positive diagonal"),
        (torch.tensor([[1.0, 0.0], [torch.nan, 1.0]]), "finite"),
        (torch.tensor([[torch.inf, 0.0], [0.0, 1.0]]), "finite"),
    ],
)
def test_factor_of_no_covariance_is_refused(scale_tril, reason):
    with pytest.raises(DistributionError, match=reason):
        Gaussian(torch.zeros(2), scale_tril)


def test_samples_take_a_shape_and_the_generator_of_torch_is_the_default():
    gaussian = random_gaussian(11, 4)
    assert gaussian.sample((2, 5)).shape == (2, 5, 4, 3)
    assert (gaussian.batch_shape, gaussian.event_shape) == ((4,), (3,))
    torch.manual_seed(3)
    first = gaussian.sample(2)
    torch.manual_seed(3)
    assert torch.equal(gaussian.sample((2,)), first)


def test_only_rsample_is_differentiable():
    mean = torch.zeros(2).double().requires_grad_(True)
    gaussian = Gaussian(mean, torch.eye(2).double())
    assert not gaussian.sample(3).requires_grad
    assert torch.equal(gaussian.rsample(3, generator_of(0)), gaussian.sample(3, generator_of(0)))
    gaussian.rsample(3).sum().backward()
    assert torch.equal(mean.grad, torch.full((2,), 3.0).double())


@pytest.mark.parametrize("n", [-1, 2.5, "3", None, (2, -1), torch.Generator()])
def test_number_of_samples_that_is_none_is_refused(n):
    with pytest.raises(DistributionError, match="number of samples"):
        random_gaussian(11, 4).sample(n)
