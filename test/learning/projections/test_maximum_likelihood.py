"""Weighted maximum likelihood of experts: least squares when all weights are one, finite whatever the data."""

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal

from eim_ros.learning.models import LinearExperts
from eim_ros.learning.projections import fit_experts
from eim_ros.learning.projections.likelihood import improve_experts

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
        assert gradient.abs().max() < 1e-8  # a sum of 200 terms of order 1


def test_points_far_from_zero_keep_their_covariance():
    context, sample = pairs(8)
    plain = fit_experts(context, sample, torch.ones(200, 1).double())
    moved = fit_experts(context + 1e6, sample - 1e6, torch.ones(200, 1).double())
    torch.testing.assert_close(moved.scale_trils, plain.scale_trils, rtol=0.0, atol=1e-8)  # 1e6 costs six digits
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
    unit = plain.diagonal().sqrt()  # the floor is relative to the samples' variances
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
    assert distance <= 0.05 * spread + 1e-9  # a ridge of 1e-3 observations holds it back a little


def test_duplicated_points_have_the_floor_for_covariance():
    context, sample = (part.expand(50, -1) for part in pairs(12, 1))
    experts = fit_experts(context, sample, torch.ones(50, 1).double(), covariance_floor=1e-6)
    # the columns are constant, and their unit is their magnitude
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
        # few points per expert: the ridge matters, and covariances are at their floor
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
