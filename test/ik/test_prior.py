"""The mixture that is prepared for requests agrees with its torch original."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from learning.models.random_models import random_mixture_of_experts, random_neural_mixture_of_experts
from scipy import stats

from eim_ros.ik.prior import MixtureEvaluator
from eim_ros.learning.models import LinearParameters, MixtureOfExperts
from eim_ros.solver import Experts


def model_and_contexts(n_components: int = 5, n_contexts: int = 4) -> tuple[MixtureOfExperts, torch.Tensor]:
    model = random_mixture_of_experts(0, n_components, 3, 2)
    return model, torch.randn(n_contexts, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("n_components", [1, 5, 60])
@pytest.mark.parametrize("n_contexts", [1, 4])
def test_density_is_the_mean_over_the_contexts(n_components: int, n_contexts: int) -> None:
    model, contexts = model_and_contexts(n_components, n_contexts)
    samples = torch.randn(50, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    each = torch.stack([model.log_prob(context.expand(50, -1), samples) for context in contexts])
    expected = torch.logsumexp(each, 0) - math.log(n_contexts)
    ours = MixtureEvaluator(model).condition(contexts.numpy()).log_prob(samples.numpy())
    assert np.allclose(ours, expected.numpy(), rtol=1e-10, atol=1e-10)


def test_arrays_of_a_model_give_the_same_mixture() -> None:
    model, contexts = model_and_contexts()
    by_model, by_arrays = (
        MixtureEvaluator(source).condition(contexts.numpy()) for source in (model, LinearParameters.of(model))
    )
    np.testing.assert_array_equal(by_model.log_weights, by_arrays.log_weights)
    samples, _ = by_model.sample(20, np.random.default_rng(0))
    np.testing.assert_array_equal(by_model.log_prob(samples), by_arrays.log_prob(samples))


@pytest.mark.parametrize("n_dims", [1, 2, 6, 7, 64])
def test_density_of_an_expert_is_scipys_whatever_is_above_the_diagonal(n_dims: int) -> None:
    rng = np.random.default_rng(0)
    full = rng.normal(size=(5, n_dims, n_dims)) / n_dims + np.eye(n_dims)
    full[:, range(n_dims), range(n_dims)] = 0.3 + np.abs(rng.normal(size=(5, n_dims)))
    lower, biases, samples = np.tril(full), rng.normal(size=(5, n_dims)), rng.normal(size=(20, n_dims))
    for factor in (lower, full):
        experts = Experts(np.zeros((5, n_dims, 1)), biases, factor, 5)
        for k in range(5):
            log_weights = np.where(np.arange(5) == k, 0.0, -np.inf)
            expected = stats.multivariate_normal(biases[k], lower[k] @ lower[k].T).logpdf(samples)
            ours = experts.log_density(log_weights, np.zeros((1, 1)), samples)
            np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-8)  # rtol: scipy squares the condition number


def test_neural_experts_are_served_too() -> None:
    _, contexts = model_and_contexts(n_contexts=3)
    model = random_neural_mixture_of_experts(0, 4, 3, 2)
    conditional = MixtureEvaluator(model).condition(contexts.numpy())
    drawn, experts = conditional.sample(200, np.random.default_rng(0))
    each = torch.stack([model.log_prob(context.expand(200, -1), torch.from_numpy(drawn)) for context in contexts])
    expected = torch.logsumexp(each, 0) - math.log(3)
    assert np.allclose(conditional.log_prob(drawn), expected.numpy(), rtol=1e-10, atol=1e-10)
    assert set(experts) <= set(range(4))


def test_normal_numbers_are_normal_and_unrelated() -> None:
    standard = Experts(np.zeros((1, 3, 1)), np.zeros((1, 3)), np.eye(3)[None], 1)

    def drawn(seed: float) -> np.ndarray:
        return standard.draw(np.zeros(1), np.zeros((1, 1)), 20001, seed)[0]

    values = drawn(0.25)
    np.testing.assert_array_equal(values, drawn(0.25))
    assert np.abs(values - drawn(0.5)).min() > 0.0
    assert stats.kstest(values.ravel(), "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(values.T) - np.eye(3)).max() < 0.03
    flat = values.ravel()
    assert abs(np.corrcoef(flat[:-1], flat[1:])[0, 1]) < 0.02


def test_far_away_samples_have_a_finite_density() -> None:
    model, contexts = model_and_contexts()
    ours = MixtureEvaluator(model).condition(contexts.numpy()).log_prob(np.full((1, 3), 1e6))
    assert np.isfinite(ours).all()


def test_samples_have_the_moments_of_the_mixture() -> None:
    model, contexts = model_and_contexts()
    conditional = MixtureEvaluator(model).condition(contexts.numpy())
    n = 40000
    samples, experts = conditional.sample(n, np.random.default_rng(0))
    repeated = contexts.repeat(10000, 1)
    drawn, components = model.sample_with_components(repeated, torch.Generator().manual_seed(0))
    deviation = drawn.std(0).numpy()
    # five standard errors of the difference between two independent estimates of a mean
    assert np.allclose(samples.mean(0), drawn.mean(0).numpy(), rtol=0, atol=5.0 * math.sqrt(2.0 / n) * deviation.max())
    assert np.allclose(np.cov(samples.T), np.cov(drawn.numpy().T), rtol=0, atol=0.05 * deviation.max() ** 2)
    shares = np.bincount(experts, minlength=5) / n
    assert np.allclose(shares, np.bincount(components.numpy(), minlength=5) / n, rtol=0, atol=0.02)


def test_samples_of_an_expert_are_around_its_mean() -> None:
    model, contexts = model_and_contexts(n_contexts=1)
    samples, experts = MixtureEvaluator(model).condition(contexts.numpy()).sample(20000, np.random.default_rng(0))
    for expert in range(5):
        own = samples[experts == expert]
        mean = model.experts.means(contexts)[0, expert].numpy()
        assert np.allclose(own.mean(0), mean, rtol=0, atol=5.0 * own.std(0).max() / math.sqrt(len(own)))
        covariance = (model.experts.scale_trils[expert] @ model.experts.scale_trils[expert].T).numpy()
        assert np.allclose(np.cov(own.T), covariance, rtol=0, atol=0.2 * covariance.max())


def test_no_samples_can_be_drawn_and_measured() -> None:
    model, contexts = model_and_contexts()
    conditional = MixtureEvaluator(model).condition(contexts.numpy())
    samples, experts = conditional.sample(0, np.random.default_rng(0))
    assert samples.shape == (0, 3)
    assert experts.shape == (0,)
    assert conditional.log_prob(samples).shape == (0,)


def test_single_precision_model_is_served_in_double() -> None:
    model, contexts = model_and_contexts()
    conditional = MixtureEvaluator(model.to(dtype=torch.float32)).condition(contexts.numpy())
    samples, _ = conditional.sample(3, np.random.default_rng(0))
    assert samples.dtype == np.float64
    expected = model.to(dtype=torch.float32).to(dtype=torch.float64)
    ours, exact = (
        conditional.log_prob(samples),
        MixtureEvaluator(expected).condition(contexts.numpy()).log_prob(samples),
    )
    assert np.allclose(ours, exact, rtol=0, atol=1e-12)
