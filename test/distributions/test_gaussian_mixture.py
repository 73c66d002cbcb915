"""Gaussian mixture: weights are normalised, components are interchangeable, responsibilities are Bayes' rule."""

import pytest
import torch
from distributions.random_models import generator_of, normal, random_mixture, random_scale_trils

from eim_ros.distributions import GaussianMixture
from eim_ros.errors import DistributionError


def test_log_prob_equals_torchs():
    model, sample = random_mixture(0, 4, 3), normal(generator_of(1), 50, 3)
    components = torch.distributions.MultivariateNormal(model.means, scale_tril=model.scale_trils)
    weights = torch.distributions.Categorical(logits=model.log_weights)
    expected = torch.distributions.MixtureSameFamily(weights, components).log_prob(sample)
    torch.testing.assert_close(model.log_prob(sample), expected, rtol=1e-12, atol=1e-12)


def test_weights_are_normalised_on_construction():
    model = random_mixture(1, 4, 2)
    shifted = GaussianMixture(model.log_weights + 700.0, model.means, model.scale_trils)
    torch.testing.assert_close(shifted.log_weights, model.log_weights, rtol=0.0, atol=1e-12)
    assert float(shifted.log_weights.exp().sum()) == pytest.approx(1.0, abs=1e-14)


def test_order_of_components_does_not_matter():
    model, sample, order = random_mixture(2, 4, 3), normal(generator_of(3), 20, 3), torch.tensor([2, 0, 3, 1])
    permuted = GaussianMixture(model.log_weights[order], model.means[order], model.scale_trils[order])
    torch.testing.assert_close(permuted.log_prob(sample), model.log_prob(sample), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(
        permuted.log_responsibilities(sample), model.log_responsibilities(sample)[:, order], rtol=0.0, atol=1e-12
    )


def test_responsibilities_are_the_joint_over_the_density():
    model, sample = random_mixture(4, 3, 2), 3.0 * normal(generator_of(5), 20, 2)
    expected = model.log_joint(sample) - model.log_prob(sample).unsqueeze(-1)
    torch.testing.assert_close(model.log_responsibilities(sample), expected, rtol=0.0, atol=1e-12)
    assert (model.log_responsibilities(sample).exp().sum(-1) - 1.0).abs().max() < 1e-13


def test_absent_component_is_never_drawn_and_has_no_responsibility():
    model = random_mixture(6, 3, 2)
    absent = GaussianMixture(torch.tensor([0.0, -torch.inf, 0.0]).double(), model.means, model.scale_trils)
    sample, component = absent.sample(generator_of(7), 1000)
    assert set(component.tolist()) == {0, 2}
    assert (absent.log_responsibilities(sample)[:, 1] == -torch.inf).all()


def test_components_are_drawn_as_often_as_they_weigh():
    model = random_mixture(8, 4, 2)
    _, component = model.sample(generator_of(9), 20_000)
    share = torch.bincount(component, minlength=4) / 20_000
    weights = model.log_weights.exp()
    assert ((share - weights).abs() < 4.0 * (weights * (1.0 - weights) / 20_000).sqrt()).all()  # standard errors


def batch_of_mixtures() -> GaussianMixture:
    """Mixtures (5,) of 3 components in 2 dimensions that share their factors, as a conditioned model gives."""
    generator = generator_of(10)
    return GaussianMixture(normal(generator, 5, 3), normal(generator, 5, 3, 2), random_scale_trils(generator, 3, 2))


def test_batch_equals_a_loop():
    batch, sample = batch_of_mixtures(), normal(generator_of(11), 5, 2)
    for index in range(5):
        one = GaussianMixture(batch.log_weights[index], batch.means[index], batch.scale_trils)
        torch.testing.assert_close(batch.log_prob(sample)[index], one.log_prob(sample[index]), rtol=1e-13, atol=1e-13)


def test_samples_of_a_batch_come_from_their_own_mixture():
    batch = batch_of_mixtures()
    sample, component = batch.sample(generator_of(12), 4000)
    assert sample.shape == (4000, 5, 2)
    assert component.shape == (4000, 5)
    mean = torch.einsum("nk,nki->ni", batch.log_weights.exp(), batch.means)
    assert ((sample.mean(0) - mean).abs() < 5.0 * sample.std(0) / 4000**0.5).all()  # standard errors


@pytest.mark.parametrize(
    ("log_weights", "means", "reason"),
    [
        (torch.zeros(2), torch.zeros(3, 1), "disagree"),
        (torch.zeros(1), torch.zeros(1), "disagree"),
        (torch.full((2,), -torch.inf), torch.zeros(2, 1), "positive, finite sum"),
        (torch.tensor([0.0, torch.nan]), torch.zeros(2, 1), "positive, finite sum"),
        (torch.zeros(2), torch.tensor([[0.0], [torch.inf]]), "finite"),
    ],
)
def test_parameters_of_no_mixture_are_refused(log_weights, means, reason):
    with pytest.raises(DistributionError, match=reason):
        GaussianMixture(log_weights, means, torch.ones(means.shape[0], 1, 1))
