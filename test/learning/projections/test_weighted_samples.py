"""Weights of samples: gradients of the thesis' dual, bounds, invariances, and the closed form of linear experts."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal
from learning.projections.problems import Problem

from eim_ros.learning.projections import WeightedSamples, project_experts, weigh_samples


def random_problem(
    seed: int, k: int = 3, n_contexts: int = 8, n_samples: int = 40
) -> tuple[torch.Tensor, torch.Tensor]:
    """phi and log q_old of samples of standard normal experts of different scales."""
    generator = generator_of(seed)
    residual, shift = normal(generator, k, n_contexts, n_samples), normal(generator, k, n_contexts, 1)
    scale = torch.tensor([0.5, 1.0, 2.0])[:k, None, None].double()
    return 2.0 * torch.sin(2.0 * residual + shift) - residual, -0.5 * residual.square() - scale.log()


def divergences(weights: torch.Tensor, old_log_prob: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean KL and mean change of the entropy, from their definitions."""
    m = weights.shape[-1]
    log_new = old_log_prob + (m * weights).log()
    kl = (weights * (log_new - old_log_prob)).sum(-1).mean(-1)
    return kl, (-(weights * log_new).sum(-1) + old_log_prob.mean(-1)).mean(-1)


def thesis_dual(
    eta: torch.Tensor, omega: torch.Tensor, phi: torch.Tensor, old: torch.Tensor, kl_bound: float, least_entropy: float
) -> torch.Tensor:
    """Thesis A.4.3 with its missing log and one expert."""
    s = eta + 1.0 + omega
    inner = torch.logsumexp((phi - omega * old) / s, -1) - math.log(phi.shape[-1])
    return eta * kl_bound - omega * least_entropy + s * inner.mean()


@pytest.mark.parametrize(("kl_bound", "entropy_loss_bound"), [(0.05, 0.02), (0.05, 1.0), (5.0, 0.02), (0.3, 0.1)])
def test_dual_is_least_at_the_multipliers(kl_bound, entropy_loss_bound):
    phi, old = random_problem(0)
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


def test_slack_of_the_constraints_is_the_finite_difference_of_the_dual():
    phi, old = random_problem(1)
    update = weigh_samples(phi, old, 0.05, 0.02)
    kl, change = divergences(update.weights, old)
    for index in range(3):
        least = float(-old[index].mean()) - 0.02

        def dual(eta: float, omega: float, index: int = index, least: float = least) -> float:
            multipliers = torch.tensor([eta, omega], dtype=torch.float64)
            return float(thesis_dual(*multipliers, phi[index], old[index], 0.05, least))

        eta, omega, step = float(update.eta[index]), float(update.omega[index]), 1e-4
        slope_eta = (dual(eta + step, omega) - dual(eta - step, omega)) / (2.0 * step)
        slope_omega = (dual(eta, omega + step) - dual(eta, omega - step)) / (2.0 * step)
        assert slope_eta == pytest.approx(0.05 - float(kl[index]), abs=1e-7)  # error of the central difference
        assert slope_omega == pytest.approx(float(change[index]) + 0.02, abs=1e-7)


@pytest.mark.parametrize("kl_bound", [1e-4, 0.01, 0.5, math.inf])
@pytest.mark.parametrize("entropy_loss_bound", [0.0, 0.05, math.inf])
def test_bounds_are_obeyed_and_reported(kl_bound, entropy_loss_bound):
    phi, old = random_problem(2)
    update = weigh_samples(phi, old, kl_bound, entropy_loss_bound)
    kl, change = divergences(update.weights, old)
    torch.testing.assert_close(update.weights.sum(-1), torch.ones(3, 8).double(), rtol=1e-12, atol=0.0)
    torch.testing.assert_close(update.kl, kl, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(update.entropy_change, change, rtol=1e-9, atol=1e-12)
    assert update.feasible.all()
    assert (kl <= kl_bound + 1e-12).all()
    assert (change >= -entropy_loss_bound - 1e-12).all()


def test_kl_bound_is_active_where_the_step_is_cut():
    phi, old = random_problem(3)
    update = weigh_samples(phi, old, 0.01, math.inf)
    assert (update.eta > 0.0).all()
    assert (update.omega == 0.0).all()
    torch.testing.assert_close(update.kl, torch.full((3,), 0.01).double(), rtol=1e-3, atol=0.0)  # width of the bracket


def test_objective_cannot_be_raised_within_the_bounds():
    """Weights of other multipliers that obey the bounds have a smaller E[phi] - KL."""
    phi, old = random_problem(4, k=1)
    update = weigh_samples(phi, old, 0.1, 0.05)

    def objective(weights: torch.Tensor) -> float:
        return float((weights * phi).sum(-1).mean() - divergences(weights, old)[0])

    best, tried = objective(update.weights), 0
    for a in torch.logspace(0.0, 2.0, 60).double():
        for omega in torch.cat([torch.zeros(1), torch.logspace(-2.0, 2.0, 60)]).double():
            weights = torch.softmax((phi - omega * old) / (a + omega), -1)
            kl, change = divergences(weights, old)
            if float(kl) <= 0.1 and float(change) >= -0.05:
                tried += 1
                assert objective(weights) <= best + 1e-4
    assert tried > 100


def test_constant_added_to_the_ratio_changes_nothing():
    phi, old = random_problem(5)
    plain, shifted = weigh_samples(phi, old, 0.05, 0.02), weigh_samples(phi + 300.0, old, 0.05, 0.02)
    torch.testing.assert_close(shifted.weights, plain.weights, rtol=1e-9, atol=1e-12)


def test_ratio_of_one_leaves_the_weights_equal():
    phi, old = random_problem(6)
    update = weigh_samples(torch.zeros_like(phi), old, 0.05, 0.02)
    torch.testing.assert_close(update.weights, torch.full_like(phi, 1.0 / 40.0), rtol=1e-13, atol=0.0)
    assert (update.kl.abs() < 1e-14).all()


def test_shift_within_a_context_does_not_move_weight_between_contexts():
    """phi + f(y): every context keeps its total weight, as p(y) is not the model's to change."""
    phi, old = random_problem(7)
    offset = 5.0 * normal(generator_of(8), 3, 8, 1)
    plain, shifted = weigh_samples(phi, old, 0.05, 0.02), weigh_samples(phi + offset, old, 0.05, 0.02)
    torch.testing.assert_close(shifted.weights, plain.weights, rtol=1e-9, atol=1e-12)


def test_batch_equals_a_loop():
    phi, old = random_problem(9)
    together = weigh_samples(phi, old, 0.05, 0.02)
    for index in range(3):
        rows = slice(index, index + 1)
        alone = weigh_samples(phi[rows], old[rows], 0.05, 0.02)
        torch.testing.assert_close(together.weights[rows], alone.weights, rtol=1e-12, atol=1e-15)
        torch.testing.assert_close(together.eta[rows], alone.eta, rtol=1e-12, atol=1e-15)


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
    phi, old = random_problem(10)
    plain = weigh_samples(phi, old, 0.05, 0.02)
    phi[1, 0, 0] = value
    update = weigh_samples(phi, old, 0.05, 0.02)
    assert_unchanged(update, 1)
    assert update.feasible[[0, 2]].all()
    torch.testing.assert_close(update.weights[[0, 2]], plain.weights[[0, 2]], rtol=1e-9, atol=1e-15)


def test_context_whose_samples_are_all_ruled_out_is_infeasible():
    phi, old = random_problem(11)
    phi[2, 3] = -math.inf
    assert_unchanged(weigh_samples(phi, old, 0.05, 0.02), 2)


def test_sample_ruled_out_gets_no_weight():
    phi, old = random_problem(12)
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
    phi, old = random_problem(14)
    update = weigh_samples(phi, old, 0.05, math.inf, kl_weight=0.0)
    assert update.feasible.all()
    assert (update.kl <= 0.05).all()
    assert (update.eta > 0.0).all()
