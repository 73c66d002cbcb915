"""Weights of samples: gradients of the thesis' dual, bounds, invariances, and the closed form of linear experts."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal
from learning.projections.problems import Problem, sampled_ratios

from eim_ros.learning.projections import WeightedSamples, project_experts, weigh_samples


def thesis_dual(
    eta: torch.Tensor, omega: torch.Tensor, phi: torch.Tensor, old: torch.Tensor, kl_bound: float, least_entropy: float
) -> torch.Tensor:
    """Thesis A.4.3 with its missing log and one expert."""
    s = eta + 1.0 + omega
    inner = torch.logsumexp((phi - omega * old) / s, -1) - math.log(phi.shape[-1])
    return eta * kl_bound - omega * least_entropy + s * inner.mean()


@pytest.mark.parametrize(("kl_bound", "entropy_loss_bound"), [(0.05, 0.02), (0.05, 1.0), (5.0, 0.02), (0.3, 0.1)])
def test_dual_is_least_at_the_multipliers(kl_bound, entropy_loss_bound):
    phi, old = sampled_ratios(0)
    update = weigh_samples(phi, old, kl_bound, entropy_loss_bound)
    for index in range(3):
        least = float(-old[index].mean()) - entropy_loss_bound
        eta, omega = (value[index].clone().requires_grad_(True) for value in (update.eta, update.omega))
        dual = thesis_dual(eta, omega, phi[index], old[index], kl_bound, least)
        slopes = torch.autograd.grad(dual, (eta, omega))
        # the gradient is the slack of each constraint: zero where its multiplier is positive (TOLERANCE of the root)
        for slope, multiplier in zip(slopes, (eta, omega), strict=True):
            assert float(slope) >= -1e-12
            assert float(multiplier.detach()) == 0.0 or float(slope) < 1e-3
        step = 1e-4 * (1.0 + float((eta + omega).detach()))
        for change in ((step, 0.0), (0.0, step)):
            moved = thesis_dual(eta + change[0], omega + change[1], phi[index], old[index], kl_bound, least)
            assert float(moved.detach()) >= float(dual.detach()) - 1e-9


def test_ratio_of_one_leaves_the_weights_equal():
    phi, old = sampled_ratios(6)
    update = weigh_samples(torch.zeros_like(phi), old, 0.05, 0.02)
    torch.testing.assert_close(update.weights, torch.full_like(phi, 1.0 / 40.0), rtol=1e-13, atol=0.0)
    assert (update.kl.abs() < 1e-14).all()


def test_shift_within_a_context_does_not_move_weight_between_contexts():
    """phi + f(y): every context keeps its total weight, as p(y) is not the model's to change."""
    phi, old = sampled_ratios(7)
    offset = 5.0 * normal(generator_of(8), 3, 8, 1)
    plain, shifted = weigh_samples(phi, old, 0.05, 0.02), weigh_samples(phi + offset, old, 0.05, 0.02)
    torch.testing.assert_close(shifted.weights, plain.weights, rtol=1e-9, atol=1e-12)


def standard_normal_quantiles(n: int) -> torch.Tensor:
    levels = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    return math.sqrt(2.0) * torch.erfinv(2.0 * levels - 1.0)


@pytest.mark.parametrize(("kl_bound", "entropy_loss_bound"), [(0.05, 0.02), (0.3, 0.5), (math.inf, math.inf)])
def test_quadratic_ratio_gives_the_closed_form_of_linear_experts(kl_bound, entropy_loss_bound):
    """Moments of many weighted samples are those of the spectral update, for phi = -1/2 e'Re + e'(A y + b)."""
    n_samples = 4000
    context = torch.linspace(-1.0, 1.0, 15, dtype=torch.float64).reshape(1, 15, 1)
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    problem = Problem.of(0.5 * one, one[0], 0.7 * one, 1.5 * one, torch.tensor([[[0.8, -0.5]]]).double(), context)
    closed = project_experts(problem.experts, problem.surrogate, kl_bound, entropy_loss_bound)

    residual = standard_normal_quantiles(n_samples).expand(1, 15, n_samples)
    slope = 0.8 * context - 0.5
    phi = -0.5 * 1.5 * residual.square() + residual * slope
    old = -0.5 * residual.square() - math.log(0.7) - 0.5 * math.log(2.0 * math.pi)
    update = weigh_samples(phi, old, kl_bound, entropy_loss_bound)

    sample = 0.5 * context + 1.0 + 0.7 * residual
    mean = (update.weights * sample).sum(-1)
    variance = (update.weights * (sample - mean.unsqueeze(-1)).square()).sum(-1)
    # quantiles lack the tails beyond 1/(2 n_samples), and the multipliers have TOLERANCE
    torch.testing.assert_close(mean[0], closed.experts.means(context[0])[:, 0, 0], rtol=0.0, atol=2e-3)
    torch.testing.assert_close(variance, closed.experts.scale_trils.square()[..., 0].expand(1, 15), rtol=5e-3, atol=0.0)
    torch.testing.assert_close(update.eta, closed.multipliers.eta, rtol=5e-3, atol=1e-9)
    torch.testing.assert_close(update.omega, closed.multipliers.omega, rtol=2e-2, atol=5e-3)


def assert_unchanged(update: WeightedSamples, index: int) -> None:
    assert not update.feasible[index]
    assert torch.equal(update.weights[index], torch.full((8, 40), 1.0 / 40.0, dtype=torch.float64))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_expert_with_a_ratio_that_is_no_number_is_left_alone(value):
    phi, old = sampled_ratios(10)
    plain = weigh_samples(phi, old, 0.05, 0.02)
    phi[1, 0, 0] = value
    update = weigh_samples(phi, old, 0.05, 0.02)
    assert_unchanged(update, 1)
    assert update.feasible[[0, 2]].all()
    torch.testing.assert_close(update.weights[[0, 2]], plain.weights[[0, 2]], rtol=1e-9, atol=1e-15)


def test_context_whose_samples_are_all_ruled_out_is_infeasible():
    phi, old = sampled_ratios(11)
    phi[2, 3] = -math.inf
    assert_unchanged(weigh_samples(phi, old, 0.05, 0.02), 2)


def test_sample_ruled_out_gets_no_weight():
    phi, old = sampled_ratios(12)
    phi[0, 0, 5] = -math.inf
    update = weigh_samples(phi, old, 0.1, math.inf)
    assert update.feasible.all()
    assert float(update.weights[0, 0, 5]) == 0.0


def test_one_sample_per_context_has_nothing_to_choose():
    update = weigh_samples(
        torch.randn(2, 5, 1, generator=generator_of(13)).double(), torch.zeros(2, 5, 1).double(), 0.1, 0.1
    )
    assert torch.equal(update.weights, torch.ones(2, 5, 1).double())


def test_without_the_kl_term_a_finite_bound_still_holds():
    phi, old = sampled_ratios(14)
    update = weigh_samples(phi, old, 0.05, math.inf, kl_weight=0.0)
    assert update.feasible.all()
    assert (update.kl <= 0.05).all()
    assert (update.eta > 0.0).all()
