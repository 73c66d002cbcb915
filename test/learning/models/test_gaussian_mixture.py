"""Weights of a Gaussian mixture are normalised, its components may be reordered, and Bayes' rule holds."""

import pytest
import torch
from learning.models.random_models import (
    generator_of,
    normal,
    random_mixture,
    random_mixture_of_experts,
    random_scale_trils,
)

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import GaussianMixture, gaussian_mixture


def test_weights_are_normalised_on_construction():
    model = random_mixture(1, 4, 2)
    shifted = GaussianMixture(model.log_weights + 700.0, model.means, model.scale_trils)
    torch.testing.assert_close(shifted.log_weights, model.log_weights, rtol=0.0, atol=1e-12)
    assert float(shifted.log_weights.exp().sum()) == pytest.approx(1.0, abs=1e-14)


def test_responsibilities_are_the_joint_over_the_density():
    model, sample = random_mixture(4, 3, 2), 3.0 * normal(generator_of(5), 20, 2)
    expected = model.log_joint(sample) - model.log_prob(sample).unsqueeze(-1)
    torch.testing.assert_close(model.log_responsibilities(sample), expected, rtol=0.0, atol=1e-12)
    assert (model.log_responsibilities(sample).exp().sum(-1) - 1.0).abs().max() < 1e-13


def test_absent_component_is_never_drawn_and_has_no_responsibility():
    model = random_mixture(6, 3, 2)
    absent = GaussianMixture(torch.tensor([0.0, -torch.inf, 0.0]).double(), model.means, model.scale_trils)
    sample, component = absent.sample_with_components(1000, generator_of(7))
    assert set(component.tolist()) == {0, 2}
    assert (absent.log_responsibilities(sample)[:, 1] == -torch.inf).all()


def batch_of_mixtures() -> GaussianMixture:
    """Return five mixtures of 3 components in 2 dimensions. They share factors, like a model at several contexts."""
    generator = generator_of(10)
    return GaussianMixture(normal(generator, 5, 3), normal(generator, 5, 3, 2), random_scale_trils(generator, 3, 2))


def test_samples_of_a_batch_come_from_their_own_mixture():
    batch = batch_of_mixtures()
    sample, component = batch.sample_with_components(4000, generator_of(12))
    assert sample.shape == (4000, 5, 2)
    assert component.shape == (4000, 5)
    mean = torch.einsum("nk,nki->ni", batch.log_weights.exp(), batch.means)
    assert ((sample.mean(0) - mean).abs() < 5.0 * sample.std(0) / 4000**0.5).all()  # five standard errors


@pytest.mark.parametrize(
    ("log_weights", "means", "reason"),
    [
        (torch.zeros(2), torch.zeros(3, 1), "must have equal"),
        (torch.zeros(1), torch.zeros(1), "must have equal"),
        (torch.full((2,), -torch.inf), torch.zeros(2, 1), "positive and finite sum"),
        (torch.tensor([0.0, torch.nan]), torch.zeros(2, 1), "positive and finite sum"),
        (torch.zeros(2), torch.tensor([[0.0], [torch.inf]]), "finite"),
    ],
)
def test_parameters_of_no_mixture_are_refused(log_weights, means, reason):
    with pytest.raises(DistributionError, match=reason):
        GaussianMixture(log_weights, means, torch.ones(means.shape[0], 1, 1))


def test_samples_take_any_shape_and_come_alone():
    batch = random_mixture_of_experts(14, 3, 2, 1)(normal(generator_of(15), 5, 1))
    assert batch.sample().shape == (5, 2)
    assert batch.sample(4).shape == (4, 5, 2)
    assert batch.sample((4, 3)).shape == (4, 3, 5, 2)
    assert batch.sample(0).shape == (0, 5, 2)
    sample, component = batch.sample_with_components((4, 3), generator_of(0))
    assert component.shape == (4, 3, 5)
    assert torch.equal(batch.sample((4, 3), generator_of(0)), sample)
    assert torch.equal(batch.sample(12, generator_of(0)).reshape(4, 3, 5, 2), sample)


def test_samples_in_chunks_equal_samples_at_once(monkeypatch):
    for model in (random_mixture(20, 4, 3), batch_of_mixtures()):
        at_once, component = model.sample_with_components(50, generator_of(21))
        monkeypatch.setattr(gaussian_mixture, "CHUNK_ELEMENTS", 7 * len(model.weights) * model.n_dims**2)
        sample, again = model.sample_with_components(50, generator_of(21))
        assert torch.equal(component, again)
        torch.testing.assert_close(sample, at_once, rtol=0.0, atol=1e-13)  # rounding error of the products
        monkeypatch.undo()


def test_figures_of_the_components_have_the_names_of_the_field():
    model = random_mixture(16, 4, 3)
    assert (model.n_components, model.n_dims, model.batch_shape, model.event_shape) == (4, 3, (), (3,))
    assert float(model.weights.sum()) == pytest.approx(1.0, abs=1e-15)
    expected = torch.distributions.MultivariateNormal(model.means, scale_tril=model.scale_trils)
    torch.testing.assert_close(model.covariances, expected.covariance_matrix, rtol=1e-14, atol=1e-14)
    between = torch.distributions.MixtureSameFamily(torch.distributions.Categorical(model.weights), expected)
    torch.testing.assert_close(model.mean, between.mean, rtol=1e-13, atol=1e-13)
    assert not model.has_rsample


def test_batch_takes_another_shape():
    batch = random_mixture_of_experts(17, 3, 2, 1)(normal(generator_of(18), 6, 1))
    sample = normal(generator_of(19), 6, 2)
    found = batch.reshape((2, 3)).log_prob(sample.reshape(2, 3, 2))
    torch.testing.assert_close(found.reshape(6), batch.log_prob(sample), rtol=0.0, atol=1e-14)


def test_weights_and_covariances_make_a_mixture():
    model = random_mixture(20, 3, 2)
    again = GaussianMixture.from_covariances(2.0 * model.weights, model.means, model.covariances)
    torch.testing.assert_close(again.log_weights, model.log_weights, rtol=0.0, atol=1e-14)
    torch.testing.assert_close(again.scale_trils, model.scale_trils, rtol=1e-12, atol=1e-12)
    lists = (model.weights.tolist(), model.means.tolist(), model.covariances.tolist())
    torch.testing.assert_close(GaussianMixture.from_covariances(*lists).covariances, model.covariances)


@pytest.mark.parametrize(
    "covariance", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.0, 1.0]], [[1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]
)
def test_covariances_that_are_none_are_refused(covariance):
    with pytest.raises(DistributionError, match="covariances must be"):
        GaussianMixture.from_covariances([1.0], [[0.0, 0.0]], [covariance])


def test_negative_weights_are_refused():
    with pytest.raises(DistributionError, match="negative"):
        GaussianMixture.from_covariances([1.5, -0.5], [[0.0], [1.0]], [[[1.0]], [[1.0]]])


def test_arrays_and_lists_of_numbers_are_parameters_and_text_is_not():
    model = random_mixture(21, 3, 2)
    from_lists = GaussianMixture(*(value.tolist() for value in model.tensors().values()))
    torch.testing.assert_close(from_lists.covariances, model.covariances)
    with pytest.raises(DistributionError, match="log_weights must be a tensor"):
        GaussianMixture("equal", model.means, model.scale_trils)
    with pytest.raises(DistributionError, match="means must be a tensor"):
        GaussianMixture(model.log_weights, "zero", model.scale_trils)
    with pytest.raises(DistributionError, match="weights must be a tensor"):
        GaussianMixture.from_covariances("equal", model.means, model.covariances)
