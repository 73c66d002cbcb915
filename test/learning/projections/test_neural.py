"""Weights of samples, fits of networks to weighted samples, and shortened steps reach known optima within bounds."""

import math

import pytest
import torch
from learning.models.random_models import (
    generator_of,
    normal,
    random_experts,
    random_network,
    random_neural_experts,
    random_neural_gating,
)
from learning.projections.problems import Problem, sampled_ratios

from eim_ros.learning.models import Gaussian, LinearExperts, NeuralExperts, NeuralGating
from eim_ros.learning.projections import (
    FitSettings,
    WeightedSamples,
    fit_neural_experts,
    fit_neural_gating,
    project_experts,
    shorten_step,
    weigh_samples,
)

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
    """Return the regularised loss of each expert, computed by its definition from the densities of samples."""
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
    # for 4000 samples and about 30 free coefficients, errors of mean and log deviation are about 10 % of a deviation
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
    """At the result of the fit from moments, the gradient of the loss by its definition vanishes."""
    experts, data = problem(7, k=1, j=10)
    fitted = fit_neural_experts(experts, *data, FitSettings(3000, 1e-2))
    leaves = {name: value.clone().requires_grad_(True) for name, value in fitted.tensors().items()}
    loss = losses(NeuralExperts.from_tensors(leaves), *data, 1e-2).sum()
    names = [name for name in leaves if name.startswith("layers.")]
    gradients = torch.autograd.grad(loss, [leaves[name] for name in names])
    # the gradient is about 1 at the start, and the fit uses single precision
    assert max(float(gradient.abs().max()) for gradient in gradients) < 1e-3


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
    )  # rounding of single precision in 5 steps


def test_variance_does_not_fall_below_its_floor():
    """The fit matches the only sample of each context exactly, so its deviation ends at the floor instead of zero."""
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
    """One component has an interval in the middle. A linear gating cannot represent this."""
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


def long_step() -> tuple[NeuralExperts, NeuralExperts, torch.Tensor]:
    old = random_neural_experts(0, 3, 2, 1)
    other = random_network(7, 3, 1, 5)
    moved = NeuralExperts(old.base, type(other)(old.network.center, old.network.scale, other.weights, other.biases))
    return old, moved, normal(generator_of(1), 3, 25, 1)


def divergences(new: NeuralExperts, old: NeuralExperts, context: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = new.local(context), old.local(context)
    return first.kl(second).mean(-1), (first.entropy() - second.entropy()).mean(-1)


@pytest.mark.parametrize(("kl_bound", "entropy_loss_bound"), [(0.01, 10.0), (10.0, 0.01), (1e-6, 1e-6), (0.05, 0.05)])
def test_bounds_hold_for_the_new_parameters(kl_bound, entropy_loss_bound):
    old, new, context = long_step()
    step = shorten_step(old, new, context, kl_bound, entropy_loss_bound)
    kl, change = divergences(step.experts, old, context)
    torch.testing.assert_close(step.kl, kl, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(step.entropy_change, change, rtol=1e-9, atol=1e-12)
    assert (kl <= kl_bound).all()
    assert (change >= -entropy_loss_bound).all()
    assert (step.fraction > 0.0).all()


def test_most_of_the_kl_bound_is_used():
    step = shorten_step(*long_step(), 0.01, math.inf)
    assert (step.fraction < 1.0).all()
    assert (step.kl > 0.003).all()


def test_step_within_the_bounds_is_taken_as_it_is():
    old, new, context = long_step()
    step = shorten_step(old, new, context, math.inf, math.inf)
    assert (step.fraction == 1.0).all()
    assert all(torch.equal(value, new.tensors()[name]) for name, value in step.experts.tensors().items())


def test_each_expert_has_a_fraction_of_its_own():
    old, new, context = long_step()
    together = shorten_step(old, new, context, 0.01, 0.05)
    assert len(set(together.fraction.tolist())) == 3
    weights = [torch.cat([old.network.weights[i][:1], new.network.weights[i][1:]]) for i in range(3)]
    biases = [torch.cat([old.network.biases[i][:1], new.network.biases[i][1:]]) for i in range(3)]
    network = type(new.network)(new.network.center, new.network.scale, tuple(weights), tuple(biases))
    step = shorten_step(old, NeuralExperts(old.base, network), context, 0.01, 0.05)
    torch.testing.assert_close(step.fraction[1:], together.fraction[1:], rtol=1e-12, atol=0.0)
    assert float(step.fraction[0]) == 1.0  # an expert that does not move needs no shorter step


def test_step_to_absurd_parameters_is_refused():
    """Deviations of exp(1e4) are not finite, so this expert does not change. The other experts move."""
    old, new, context = long_step()
    biases = [value.clone() for value in new.network.biases]
    biases[-1][1] = 1e6
    network = type(new.network)(new.network.center, new.network.scale, new.network.weights, tuple(biases))
    step = shorten_step(old, NeuralExperts(old.base, network), context, 0.01, 0.05, max_cuts=3)
    assert float(step.fraction[1]) == 0.0
    assert abs(float(step.kl[1])) < 1e-14  # rounding
    for name, value in old.network.tensors().items():
        if name.startswith("layers."):
            assert torch.equal(step.experts.network.tensors()[name][1], value[1])
    assert all(bool(torch.isfinite(value).all()) for value in step.experts.tensors().values())


def thesis_dual(
    eta: torch.Tensor, omega: torch.Tensor, phi: torch.Tensor, old: torch.Tensor, kl_bound: float, least_entropy: float
) -> torch.Tensor:
    """Return the dual of thesis A.4.3 for one expert, with the log that the thesis omits."""
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
        # the gradient is the slack of each constraint, which is zero up to TOLERANCE if the multiplier is positive
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
    """If f(y) is added to phi, the total weight of every context stays, because the model cannot change p(y)."""
    phi, old = sampled_ratios(7)
    offset = 5.0 * normal(generator_of(8), 3, 8, 1)
    plain, shifted = weigh_samples(phi, old, 0.05, 0.02), weigh_samples(phi + offset, old, 0.05, 0.02)
    torch.testing.assert_close(shifted.weights, plain.weights, rtol=1e-9, atol=1e-12)


def standard_normal_quantiles(n: int) -> torch.Tensor:
    levels = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    return math.sqrt(2.0) * torch.erfinv(2.0 * levels - 1.0)


@pytest.mark.parametrize(("kl_bound", "entropy_loss_bound"), [(0.05, 0.02), (0.3, 0.5), (math.inf, math.inf)])
def test_quadratic_ratio_gives_the_closed_form_of_linear_experts(kl_bound, entropy_loss_bound):
    """For phi = -1/2 e'Re + e'(A y + b), many weighted samples have the moments of the update in closed form."""
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
    # quantiles lack tails beyond 1/(2 n_samples), and multipliers have an error of TOLERANCE
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
