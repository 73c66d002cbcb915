"""Fits of networks: known functions are found, weights act as copies, nothing gets worse, experts do not disturb."""

import math

import pytest
import torch
from learning.models.random_models import (
    generator_of,
    normal,
    random_experts,
    random_neural_experts,
    random_neural_gating,
)

from eim_ros.learning.models import Gaussian, LinearExperts, NeuralExperts, NeuralGating
from eim_ros.learning.projections import FitSettings, fit_neural_experts, fit_neural_gating

LAYERS = (16, 16)


def uniform(seed: int, *shape: int) -> torch.Tensor:
    return 2.0 * torch.rand(shape, generator=generator_of(seed), dtype=torch.float64) - 1.0


def standard_normal(n_components: int, n_dims: int, n_context: int) -> LinearExperts:
    return LinearExperts(
        torch.zeros(n_components, n_dims, n_context).double(),
        torch.zeros(n_components, n_dims).double(),
        torch.eye(n_dims).double().expand(n_components, -1, -1),
    )


def losses(
    experts: NeuralExperts, context: torch.Tensor, sample: torch.Tensor, weights: torch.Tensor, l2: float
) -> torch.Tensor:
    """Regularised loss of each expert from its definition, by the densities of the samples."""
    local = experts.local(context)
    batch = Gaussian(local.mean.unsqueeze(2), local.scale_tril.unsqueeze(2))
    likelihood = (weights * batch.log_prob(sample)).sum((1, 2)) / weights.sum((1, 2))
    return l2 * sum(weight.square().sum((1, 2)) for weight in experts.network.weights) - likelihood


def test_mean_and_deviation_that_depend_on_the_context_are_found():
    n = 4000
    context = uniform(0, 1, n, 1)
    deviation = 0.1 + 0.4 * (context + 1.0) ** 2
    sample = torch.sin(3.0 * context) + deviation * normal(generator_of(1), 1, n, 1)
    fresh = NeuralExperts.around(standard_normal(1, 1, 1), context[0], LAYERS, generator_of(2))
    weights = torch.ones(1, n, 1).double()
    fitted = fit_neural_experts(fresh, context, sample.unsqueeze(2), weights, FitSettings(200, 1e-6))
    grid = torch.linspace(-0.95, 0.95, 20, dtype=torch.float64).unsqueeze(-1)
    found = fitted(grid)
    expected = 0.1 + 0.4 * (grid[:, 0] + 1.0) ** 2
    # about 30 free coefficients share 4000 samples: mean and log deviation err by some 10 % of a deviation
    assert ((found.mean[:, 0, 0] - torch.sin(3.0 * grid[:, 0])).abs() / expected).max() < 0.3
    assert (found.scale_tril[:, 0, 0, 0] / expected).log().abs().max() < 0.25


def problem(
    seed: int, k: int = 3, j: int = 30, m: int = 4, d: int = 2
) -> tuple[NeuralExperts, tuple[torch.Tensor, ...]]:
    generator = generator_of(seed)
    experts, d = random_neural_experts(seed, k, 2, 1), 2
    weights = torch.rand(k, j, m, generator=generator, dtype=torch.float64)
    return experts, (normal(generator, k, j, 1), normal(generator, k, j, m, d), weights)


@pytest.mark.parametrize("m", [1, 2, 7])
def test_loss_falls_for_every_expert(m):
    experts, data = problem(6, m=m)
    fitted = fit_neural_experts(experts, *data, FitSettings(10, 1e-3))
    assert (losses(fitted, *data, 1e-3) < losses(experts, *data, 1e-3) - 1e-3).all()


def test_result_is_a_stationary_point_of_the_loss():
    """The definition's gradient vanishes where the fit of moments ends: both are the same function."""
    experts, data = problem(7, k=1, j=10)
    fitted = fit_neural_experts(experts, *data, FitSettings(3000, 1e-2))
    leaves = {name: value.clone().requires_grad_(True) for name, value in fitted.tensors().items()}
    loss = losses(NeuralExperts.from_tensors(leaves), *data, 1e-2).sum()
    names = [name for name in leaves if name.startswith("layers.")]
    gradients = torch.autograd.grad(loss, [leaves[name] for name in names])
    assert (
        max(float(gradient.abs().max()) for gradient in gradients) < 1e-3
    )  # of order one at the start; single precision


def test_integer_weights_are_copies():
    experts, (context, sample, _) = problem(8, k=1, j=10, m=2)
    weights = torch.tensor([1.0, 3.0]).double().expand(1, 10, 2)
    copies = torch.cat([sample, sample[:, :, 1:], sample[:, :, 1:]], 2)
    settings = FitSettings(5, 1e-3)
    weighted = fit_neural_experts(experts, context, sample, weights, settings)
    copied = fit_neural_experts(experts, context, copies, torch.ones(1, 10, 4).double(), settings)
    grid = torch.linspace(-2.0, 2.0, 9, dtype=torch.float64).unsqueeze(-1)
    torch.testing.assert_close(
        weighted(grid).mean, copied(grid).mean, rtol=1e-4, atol=1e-5
    )  # single precision, 5 steps on


def test_variance_does_not_fall_below_its_floor():
    """One sample per context, hit exactly: the deviation ends at the floor instead of zero."""
    context = uniform(11, 1, 20, 1)
    base = random_experts(12, 1, 2, 1)
    fresh = NeuralExperts.around(base, context[0], LAYERS, generator_of(13))
    sample = torch.zeros(1, 20, 1, 2).double()
    floor = torch.tensor([0.01, 0.04]).double()
    weights = torch.ones(1, 20, 1).double()
    fitted = fit_neural_experts(fresh, context, sample, weights, FitSettings(500, 0.0), variance_floor=floor)
    covariance = fitted(context[0]).covariance[:, 0]
    torch.testing.assert_close(covariance, torch.diag(floor).expand(20, 2, 2), rtol=0.05, atol=1e-3)


def test_expert_without_weight_and_one_with_a_sample_that_is_no_number_are_left_alone():
    experts, (context, sample, weights) = problem(14)
    weights[0] = 0.0
    sample[2, 3, 1, 0] = math.nan
    fitted = fit_neural_experts(experts, context, sample, weights, FitSettings(5, 1e-3))
    for name, value in experts.network.tensors().items():
        if name.startswith("layers."):
            assert torch.equal(fitted.network.tensors()[name][0], value[0])
            assert torch.equal(fitted.network.tensors()[name][2], value[2])
    assert not torch.equal(fitted.network.weights[0][1], experts.network.weights[0][1])


def test_gating_finds_the_classes():
    """An interval in the middle belongs to one component: no linear gating could say so."""
    context = uniform(16, 1000, 1)
    targets = torch.nn.functional.one_hot((context[:, 0].abs() < 0.4).long(), 2).double()
    gating = NeuralGating.uniform(context, 2, LAYERS, generator_of(17))
    fitted = fit_neural_gating(gating, context, targets, FitSettings(100, 1e-5))
    right = (fitted(context).argmax(-1) == targets.argmax(-1)).double().mean()
    assert float(right) > 0.98


def test_gating_is_unchanged_by_targets_that_are_no_numbers():
    gating, context = random_neural_gating(20, 3, 2), normal(generator_of(21), 5, 2)
    targets = torch.full((5, 3), math.nan).double()
    assert torch.equal(fit_neural_gating(gating, context, targets, FitSettings(5, 0.0))(context), gating(context))
