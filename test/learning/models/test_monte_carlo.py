"""Monte Carlo estimates are correct within their standard errors for every kind of model, and reproducible."""

import pytest
import torch
from learning.models.random_models import (
    generator_of,
    normal,
    random_mixture,
    random_mixture_of_experts,
    random_neural_mixture_of_experts,
)

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import Gaussian, MixtureOfExperts, entropy, kl_divergence


def test_entropy_of_a_gaussian():
    gaussian = random_mixture(0, 1, 3).components
    gaussian = Gaussian(gaussian.mean[0], gaussian.scale_tril[0])
    estimate = entropy(gaussian, 20_000, generator_of(1))
    assert abs(estimate.value - float(gaussian.entropy())) < 4.0 * estimate.standard_error


@pytest.mark.parametrize("kind", [random_mixture_of_experts, random_neural_mixture_of_experts])
def test_divergence_of_one_conditional_gaussian_is_the_mean_over_contexts(kind):
    model, other = kind(2, 1, 2, 1), kind(5, 1, 2, 1)
    context = normal(generator_of(3), 50, 1)
    estimate = kl_divergence(model, other, 50_000, generator_of(4), context)
    expected = float(model.experts(context).kl(other.experts(context)).mean())
    assert abs(estimate.value - expected) < 4.0 * estimate.standard_error
    expected = float(model.experts(context).entropy().expand(50, 1).mean())
    estimate = entropy(model, 50_000, generator_of(5), context)
    assert abs(estimate.value - expected) < 4.0 * estimate.standard_error


def test_divergence_to_itself_is_zero_without_error():
    for model in (random_mixture(6, 3, 2), MixtureOfExperts.from_mixture(random_mixture(7, 3, 2))):
        estimate = kl_divergence(model, model, 100, generator_of(8))
        assert (estimate.value, estimate.standard_error) == (0.0, 0.0)


def test_spread_of_repeated_estimates_is_the_standard_error():
    mixture, other, generator = random_mixture(16, 3, 2), random_mixture(17, 2, 2), generator_of(18)
    estimates = [kl_divergence(mixture, other, 500, generator) for _ in range(200)]
    spread = float(torch.tensor([estimate.value for estimate in estimates]).std())
    claimed = sum(estimate.standard_error for estimate in estimates) / 200
    # four standard errors of a standard deviation that is estimated from 200 values
    assert spread / claimed == pytest.approx(1.0, abs=0.2)


def test_conditional_model_without_contexts_and_a_batch_are_refused():
    model = random_mixture_of_experts(19, 2, 2, 1)
    with pytest.raises(DistributionError, match="give contexts"):
        entropy(model, 10, generator_of(20))
    with pytest.raises(DistributionError, match=r"got a batch of shape \(4,\)"):
        entropy(model(torch.zeros(4, 1).double()), 10, generator_of(21))
