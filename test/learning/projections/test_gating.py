"""Gating by softmax regression: it recovers a gating, in any units of the contexts."""

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_gating

from eim_ros.learning.models import SoftmaxGating
from eim_ros.learning.projections import fit_gating
from eim_ros.learning.projections.likelihood import fit_gating_to_moments


def flat(n_components: int, n_context: int) -> SoftmaxGating:
    return SoftmaxGating(torch.zeros(n_components, n_context).double(), torch.zeros(n_components).double())


def cross_entropy(gating: SoftmaxGating, context: torch.Tensor, targets: torch.Tensor) -> float:
    return -float((targets * gating(context)).sum(-1).mean())


@pytest.mark.parametrize(("n_components", "n_context"), [(2, 1), (4, 3), (3, 0)])
def test_gating_behind_the_targets_is_recovered(n_components, n_context):
    true, context = random_gating(0, n_components, n_context), normal(generator_of(1), 400, n_context)
    fitted = fit_gating(flat(n_components, n_context), context, true(context).exp(), max_iterations=200)
    torch.testing.assert_close(fitted(context), true(context), rtol=0.0, atol=2e-3)  # L-BFGS' default gradient of 1e-5


def test_fit_to_hard_labels_equals_a_minimum_of_the_cross_entropy():
    true, context = random_gating(2, 3, 2), normal(generator_of(3), 500, 2)
    labels = torch.multinomial(true(context).exp(), 1, generator=generator_of(4)).squeeze(-1)
    targets = torch.nn.functional.one_hot(labels, 3).double()
    fitted = fit_gating(flat(3, 2), context, targets, max_iterations=200)
    best = cross_entropy(fitted, context, targets)
    assert best <= cross_entropy(true, context, targets)
    for seed in range(20):
        step = 0.02 * normal(generator_of(seed), 3, 2)
        assert best <= cross_entropy(SoftmaxGating(fitted.weights + step, fitted.biases), context, targets)
        assert best <= cross_entropy(SoftmaxGating(fitted.weights, fitted.biases + step[:, 0]), context, targets)


@pytest.mark.parametrize(("scale", "offset"), [(1e-6, 0.0), (1e6, 0.0), (1.0, 1e4)])
def test_units_of_the_contexts_do_not_matter(scale, offset):
    true, context = random_gating(5, 3, 2), normal(generator_of(6), 300, 2)
    targets = true(context).exp()
    plain = fit_gating(flat(3, 2), context, targets, max_iterations=20)
    other = fit_gating(flat(3, 2), scale * context + offset, targets, max_iterations=20)
    torch.testing.assert_close(other(scale * context + offset), plain(context), rtol=0.0, atol=1e-6)


def test_separable_targets_give_finite_parameters():
    context = torch.linspace(-1.0, 1.0, 50).double().unsqueeze(-1)
    targets = torch.nn.functional.one_hot((context[:, 0] > 0.0).long(), 2).double()
    fitted = fit_gating(flat(2, 1), context, targets, max_iterations=500)
    assert torch.isfinite(fitted.weights).all()
    assert ((fitted(context)[:, 1] > fitted(context)[:, 0]) == (context[:, 0] > 0.0)).all()


@pytest.mark.parametrize(
    "context", [torch.full((20, 2), 0.1), torch.tensor([[0.3, -2.0]])], ids=["constant columns", "one point"]
)
def test_contexts_without_variance_give_the_mean_of_the_targets(context):
    targets = torch.softmax(normal(generator_of(11), len(context), 3), -1)
    fitted = fit_gating(flat(3, 2), context.double(), targets, max_iterations=200)
    expected = targets.mean(0).expand(len(context), -1)
    torch.testing.assert_close(fitted(context.double()).exp(), expected, rtol=0.0, atol=1e-4)


@pytest.mark.parametrize("max_iterations", [1, 2, 20])
def test_fit_is_never_worse_than_its_start_whatever_the_penalty(max_iterations):
    context = normal(generator_of(23), 200, 2)
    for seed in range(5):
        targets = torch.softmax(3.0 * normal(generator_of(seed), 200, 4), -1)
        start = fit_gating(flat(4, 2), context, targets, max_iterations=100, l2=0.0)
        fitted = fit_gating(start, context, targets, max_iterations=max_iterations, l2=1.0)
        assert cross_entropy(fitted, context, targets) <= cross_entropy(start, context, targets) + 1e-13


def test_moments_of_the_targets_are_all_that_counts():
    context = normal(generator_of(24), 300, 2)
    context = (context - context.mean(0)) / context.std(0, correction=0)
    targets = torch.softmax(normal(generator_of(25), 300, 3), -1)
    extended = torch.cat([context, torch.ones(300, 1)], -1)
    moments = torch.einsum("nk,na,nb->kab", targets, extended, extended)
    start = random_gating(26, 3, 2)
    by_moments, log_normaliser = fit_gating_to_moments(start, context, moments)
    torch.testing.assert_close(by_moments(context), fit_gating(start, context, targets)(context), rtol=0.0, atol=1e-9)
    normaliser = torch.logsumexp(context @ start.weights.T + start.biases, -1).mean()
    assert log_normaliser == pytest.approx(float(normaliser), abs=1e-12)


def test_few_iterations_suffice_for_many_components_of_unequal_weight():
    true = random_gating(27, 100, 2)
    true = SoftmaxGating(true.weights, 2.0 * true.biases)
    context = normal(generator_of(28), 2000, 2)
    targets = true(context).exp()
    start = SoftmaxGating(true.weights + 0.5, true.biases + 0.5 * normal(generator_of(29), 100))
    gap = cross_entropy(start, context, targets) - cross_entropy(true, context, targets)
    fitted = fit_gating(start, context, targets, max_iterations=5)
    # steps in plain coordinates leave a third of the gap
    assert cross_entropy(fitted, context, targets) - cross_entropy(true, context, targets) < 0.03 * gap


def test_without_contexts_the_weights_are_the_mean_targets_and_zero_stays_finite():
    targets = torch.softmax(normal(generator_of(30), 50, 3), -1)
    targets = torch.cat([targets, torch.zeros(50, 1)], -1)
    fitted = fit_gating(flat(4, 0), torch.zeros(50, 0).double(), targets)
    probabilities = fitted(torch.zeros(1, 0).double())[0].exp()
    torch.testing.assert_close(probabilities, targets.mean(0), rtol=1e-13, atol=1e-15)
    assert torch.isfinite(fitted.biases).all()
