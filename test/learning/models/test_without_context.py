"""A Gaussian mixture is a mixture of experts without contexts, there and back."""

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_mixture, random_mixture_of_experts

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts


def no_context(n: int) -> torch.Tensor:
    return torch.zeros(n, 0, dtype=torch.float64)


def test_mixture_and_its_mixture_of_experts_have_one_density():
    mixture, sample = random_mixture(0, 4, 3), normal(generator_of(1), 9, 3)
    model = MixtureOfExperts.from_mixture(mixture)
    assert (model.n_components, model.n_dims, model.n_context) == (4, 3, 0)
    torch.testing.assert_close(model.log_prob(no_context(9), sample), mixture.log_prob(sample), rtol=1e-12, atol=1e-12)


def test_shared_factor_is_given_to_each_expert():
    mixture = random_mixture(3, 3, 2)
    shared = GaussianMixture(mixture.log_weights, mixture.means, mixture.scale_trils[0])
    sample = normal(generator_of(4), 5, 2)
    model = MixtureOfExperts.from_mixture(shared)
    torch.testing.assert_close(model.log_prob(no_context(5), sample), shared.log_prob(sample), rtol=1e-12, atol=1e-12)


def test_weight_of_zero_becomes_a_finite_floor():
    mixture = random_mixture(5, 2, 2)
    absent = GaussianMixture(torch.tensor([0.0, -torch.inf]).double(), mixture.means, mixture.scale_trils)
    model = MixtureOfExperts.from_mixture(absent)
    assert all(bool(torch.isfinite(value).all()) for value in model.tensors().values())
    assert 0.0 < float(model.gating(no_context(1)).exp()[0, 1]) < 1e-300


def test_batch_of_mixtures_is_refused():
    mixture = random_mixture_of_experts(6, 3, 2, 1)(normal(generator_of(7), 4, 1))
    with pytest.raises(DistributionError, match=r"not a batch \(4,\)"):
        MixtureOfExperts.from_mixture(mixture)


def test_model_with_contexts_is_no_mixture():
    with pytest.raises(DistributionError, match="with 2 contexts"):
        random_mixture_of_experts(8, 3, 2, 2).as_mixture()
