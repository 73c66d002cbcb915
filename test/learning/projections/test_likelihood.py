"""Maximum likelihood equals least squares for experts and softmax regression for the gating, and is always finite."""

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal, random_gating

from eim_ros.learning.models import LinearExperts, SoftmaxGating
from eim_ros.learning.projections import fit_experts, fit_gating
from eim_ros.learning.projections.likelihood import fit_gating_to_moments, improve_experts

ONES = torch.ones(200, 1, dtype=torch.float64)


def pairs(seed: int, n: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    generator = generator_of(seed)
    context = normal(generator, n, 2) + 3.0
    return context, context @ normal(generator, 2, 3) + normal(generator, n, 3) @ normal(generator, 3, 3) - 1.0


def parameters_of(experts: LinearExperts) -> tuple[torch.Tensor, ...]:
    return experts.weights, experts.biases, experts.scale_trils


def test_equal_weights_give_least_squares():
    context, sample = pairs(0)
    experts = fit_experts(context, sample, torch.ones(200, 1).double(), ridge=0.0)
    design = np.column_stack([context.numpy(), np.ones(200)])
    solution, *_ = np.linalg.lstsq(design, sample.numpy(), rcond=None)
    residual = sample.numpy() - design @ solution
    np.testing.assert_allclose(experts.weights[0].numpy(), solution[:2].T, atol=1e-11)
    np.testing.assert_allclose(experts.biases[0].numpy(), solution[2], atol=1e-11)
    factor = experts.scale_trils[0].numpy()
    np.testing.assert_allclose(factor @ factor.T, residual.T @ residual / 200, atol=1e-11)


def test_estimate_maximises_the_weighted_likelihood():
    context, sample = pairs(1)
    weights = torch.rand(200, 2, generator=generator_of(2), dtype=torch.float64)
    experts = fit_experts(context, sample, weights, ridge=0.0)
    leaves = [value.clone().requires_grad_(True) for value in parameters_of(experts)]
    likelihood = (weights * LinearExperts(leaves[0], leaves[1], leaves[2].tril()).log_prob(context, sample)).sum()
    for gradient in torch.autograd.grad(likelihood, leaves):
        assert gradient.abs().max() < 1e-8  # rounding error of a sum of 200 terms of order 1


def test_points_far_from_zero_keep_their_covariance():
    context, sample = pairs(8)
    plain = fit_experts(context, sample, torch.ones(200, 1).double())
    moved = fit_experts(context + 1e6, sample - 1e6, torch.ones(200, 1).double())
    # the offset of 1e6 costs six digits
    torch.testing.assert_close(moved.scale_trils, plain.scale_trils, rtol=0.0, atol=1e-8)
    torch.testing.assert_close(moved.weights, plain.weights, rtol=0.0, atol=1e-8)


def covariance_of(experts: LinearExperts) -> torch.Tensor:
    return experts.scale_trils[0] @ experts.scale_trils[0].T


def test_floor_raises_small_eigenvalues_only():
    generator = generator_of(9)
    rotation = torch.linalg.qr(normal(generator, 3, 3))[0]
    sample = normal(generator, 400, 3) * torch.tensor([1.0, 0.7, 0.05]).double() @ rotation
    context, ones = torch.zeros(400, 0).double(), torch.ones(400, 1).double()
    plain = covariance_of(fit_experts(context, sample, ones))
    floored = covariance_of(fit_experts(context, sample, ones, covariance_floor=1e-2))
    unit = plain.diagonal().sqrt()  # the floor is relative to the variances of samples
    values, vectors = torch.linalg.eigh(plain / unit / unit.unsqueeze(-1))
    assert values[0] < 1e-2 < values[1]
    values[0] = 1e-2
    expected = (vectors * values) @ vectors.T * unit * unit.unsqueeze(-1)
    torch.testing.assert_close(floored, expected, rtol=0.0, atol=1e-12)


def test_expert_without_weight_gets_the_regression_of_all_samples():
    context, sample = pairs(10)
    weights = torch.stack([torch.ones(200), torch.zeros(200)], -1).double()
    experts = fit_experts(context, sample, weights)
    for value in parameters_of(experts):
        torch.testing.assert_close(value[1], value[0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_fewer_points_than_coefficients_give_a_finite_expert_through_them(n):
    context, sample = pairs(11, n)
    experts = fit_experts(context, sample, torch.ones(n, 1).double(), covariance_floor=1e-6)
    assert all(torch.isfinite(value).all() for value in parameters_of(experts))
    spread = (sample - sample.mean(0)).norm(dim=-1).max()
    distance = (experts.means(context)[:, 0] - sample).norm(dim=-1).max()
    # a ridge with the weight of 1e-3 observations keeps the expert slightly away from the points
    assert distance <= 0.05 * spread + 1e-9


def test_duplicated_points_have_the_floor_for_covariance():
    context, sample = (part.expand(50, -1) for part in pairs(12, 1))
    experts = fit_experts(context, sample, torch.ones(50, 1).double(), covariance_floor=1e-6)
    # the columns are constant, so their magnitude is their unit
    expected = 1e-3 * torch.diag(sample[0].abs())
    torch.testing.assert_close(experts.scale_trils[0], expected, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(experts.means(context)[:, 0], sample, rtol=1e-12, atol=1e-12)


def test_constant_context_column_has_no_slope():
    context, sample = pairs(13)
    context = context.clone()
    context[:, 1] = 0.1
    experts = fit_experts(context, sample, torch.ones(200, 1).double())
    without = fit_experts(context[:, :1], sample, torch.ones(200, 1).double())
    assert experts.weights[0, :, 1].abs().max() < 1e-6
    torch.testing.assert_close(experts.weights[..., :1], without.weights, rtol=0.0, atol=1e-6)


def test_without_context_an_expert_is_a_weighted_gaussian():
    _, sample = pairs(14)
    weights = torch.rand(200, 2, generator=generator_of(15), dtype=torch.float64)
    experts = fit_experts(torch.zeros(200, 0).double(), sample, weights)
    for index in range(2):
        share = weights[:, index].numpy()
        np.testing.assert_allclose(experts.biases[index].numpy(), np.average(sample, axis=0, weights=share), atol=1e-12)
        expected = np.cov(sample.numpy().T, aweights=share, ddof=0)
        factor = experts.scale_trils[index].numpy()
        np.testing.assert_allclose(factor @ factor.T, expected, atol=1e-11)


def moments_of(context: torch.Tensor, sample: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    extended = torch.cat([sample, context, torch.ones(len(sample), 1)], -1)
    return torch.einsum("nk,na,nb->kab", weights, extended, extended)


def weighted_likelihood(experts: LinearExperts, context: torch.Tensor, sample: torch.Tensor, weights: torch.Tensor):
    return (weights * experts.log_prob(context, sample)).sum(0)


@pytest.mark.parametrize("floor", [0.0, 0.3])
@pytest.mark.parametrize("n_context", [0, 2])
def test_improved_experts_are_never_worse(floor, n_context):
    for seed in range(10):
        generator = generator_of(seed)
        context, sample = normal(generator, 12, n_context), normal(generator, 12, 3)
        # with few points per expert, the ridge matters and covariances are at their floor
        weights = torch.softmax(3.0 * normal(generator, 12, 4), -1)
        covariance = 0.3 * torch.eye(3).double() + 0.1
        previous = LinearExperts(
            normal(generator, 4, 3, n_context),
            normal(generator, 4, 3),
            torch.linalg.cholesky(covariance).repeat(4, 1, 1),
        )
        for _ in range(3):
            experts = improve_experts(previous, moments_of(context, sample, weights), floor, ridge=1.0)
            before, after = (weighted_likelihood(e, context, sample, weights) for e in (previous, experts))
            assert (after >= before - 1e-10).all()
            previous = experts


def test_expert_below_the_floor_is_raised_to_it_though_that_is_worse():
    context, sample = pairs(18)
    weights, identity = torch.ones(200, 1).double(), torch.eye(3).double().unsqueeze(0)
    fitted = fit_experts(context, sample, weights)
    raised = improve_experts(
        LinearExperts(fitted.weights, fitted.biases, fitted.scale_trils), moments_of(context, sample, weights), 100.0
    )
    torch.testing.assert_close(raised.scale_trils, 10.0 * identity, rtol=0.0, atol=1e-9)


def test_expert_without_weight_or_with_a_singular_covariance_keeps_its_parameters():
    context, sample = pairs(19)
    weights = torch.zeros(200, 3).double()
    weights[:, 0] = 1.0
    weights[7, 1] = 1.0
    previous = LinearExperts(
        *(value.expand(3, *value.shape[1:]) for value in parameters_of(fit_experts(*pairs(20), ONES)))
    )
    experts = improve_experts(previous, moments_of(context, sample, weights))
    for old, new in zip(parameters_of(previous), parameters_of(experts), strict=True):
        assert torch.equal(old[1:], new[1:])
        assert not torch.equal(old[0], new[0])


def flat(n_components: int, n_context: int) -> SoftmaxGating:
    return SoftmaxGating(torch.zeros(n_components, n_context).double(), torch.zeros(n_components).double())


def cross_entropy(gating: SoftmaxGating, context: torch.Tensor, targets: torch.Tensor) -> float:
    return -float((targets * gating(context)).sum(-1).mean())


@pytest.mark.parametrize(("n_components", "n_context"), [(2, 1), (4, 3), (3, 0)])
def test_gating_behind_the_targets_is_recovered(n_components, n_context):
    true, context = random_gating(0, n_components, n_context), normal(generator_of(1), 400, n_context)
    fitted = fit_gating(flat(n_components, n_context), context, true(context).exp(), max_iterations=200)
    # L-BFGS stops at a gradient of 1e-5
    torch.testing.assert_close(fitted(context), true(context), rtol=0.0, atol=2e-3)


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
    # without standardised coordinates, a third of the gap would remain
    assert cross_entropy(fitted, context, targets) - cross_entropy(true, context, targets) < 0.03 * gap


def test_without_contexts_the_weights_are_the_mean_targets_and_zero_stays_finite():
    targets = torch.softmax(normal(generator_of(30), 50, 3), -1)
    targets = torch.cat([targets, torch.zeros(50, 1)], -1)
    fitted = fit_gating(flat(4, 0), torch.zeros(50, 0).double(), targets)
    probabilities = fitted(torch.zeros(1, 0).double())[0].exp()
    torch.testing.assert_close(probabilities, targets.mean(0), rtol=1e-13, atol=1e-15)
    assert torch.isfinite(fitted.biases).all()
