"""Trust-region I-projection of a gating within its own family."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal

from eim_ros.learning.models import NeuralGating, SoftmaxGating
from eim_ros.learning.projections import project_gating

WIDE = 1e6  # a bound that never binds


def contexts(n_samples: int = 400, n_context: int = 2) -> torch.Tensor:
    return 3.0 + 2.0 * normal(generator_of(0), n_samples, n_context)


def linear_gating(seed: int = 1, n_components: int = 4, n_context: int = 2) -> SoftmaxGating:
    generator = generator_of(seed)
    return SoftmaxGating(0.3 * normal(generator, n_components, n_context), 0.3 * normal(generator, n_components))


def neural_gating(seed: int = 1, n_components: int = 4, n_context: int = 2) -> NeuralGating:
    return NeuralGating.uniform(contexts(n_context=n_context), n_components, (8,), generator_of(seed))


def objective(new, old, context, reward) -> float:
    log_new, log_old = new(context), old(context)
    return float((log_new.exp() * (reward - log_new + log_old)).sum(-1).mean())


GATINGS = pytest.mark.parametrize("gating", [linear_gating(), neural_gating()], ids=["linear", "neural"])


@GATINGS
@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("scale", [0.1, 10.0])
def test_bounds_hold_for_the_gating_that_is_returned(gating, scale, refit):
    context = contexts()
    reward = scale * normal(generator_of(2), len(context), 4)
    reward[:, 0] += scale * context[:, 0]
    update = project_gating(gating, context, reward, 0.02, 0.03, update="refit" if refit else "plain")
    log_new, log_old = update.gating(context), gating(context)
    kl = float((log_new.exp() * (log_new - log_old)).sum(-1).mean())
    entropy_change = float((log_old.exp() * log_old - log_new.exp() * log_new).sum(-1).mean())
    assert update.feasible
    assert kl == pytest.approx(update.kl, abs=1e-9)  # raw and standardised parameters differ by rounding
    assert entropy_change == pytest.approx(update.entropy_change, abs=1e-9)
    assert 0.0 < kl <= 0.02 * (1.0 + 1e-9)
    assert entropy_change >= -0.03 - 1e-9
    assert objective(update.gating, gating, context, reward) > 0.0  # that of the old gating, rewards centred, is 0


@pytest.mark.parametrize("refit", [False, True])
def test_linear_rewards_without_bounds_give_the_closed_form(refit):
    """With phi linear in y the maximiser log q_old + phi is a softmax gating itself."""
    context, gating, change = contexts(), linear_gating(), linear_gating(seed=3)
    reward = context @ change.weights.T + change.biases
    update = project_gating(
        gating, context, reward, WIDE, WIDE, update="refit" if refit else "plain", max_iterations=500
    )
    expected = SoftmaxGating(gating.weights + change.weights, gating.biases + change.biases)
    torch.testing.assert_close(update.gating(context).exp(), expected(context).exp(), rtol=0.0, atol=1e-4)
    assert (update.eta, update.omega) == (0.0, 0.0)


@pytest.mark.parametrize("bounds", [(0.01, WIDE), (0.01, 0.002), (WIDE, 0.01)])
def test_refit_equals_direct_update_for_a_gating_that_represents_the_table(bounds):
    """With phi linear in y, the table is a softmax gating for all multipliers."""
    context, gating, change = contexts(), linear_gating(), linear_gating(seed=3)
    reward = 3.0 * (context @ change.weights.T + change.biases)
    direct, refitted = (
        project_gating(gating, context, reward, *bounds, update="refit" if refit else "plain", max_iterations=500)
        for refit in (False, True)
    )
    assert refitted.kl <= bounds[0]
    assert refitted.entropy_change >= -bounds[1]
    assert refitted.kl == pytest.approx(direct.kl, rel=0.05)  # L-BFGS ends a little outside, so the step is shortened
    torch.testing.assert_close(refitted.gating(context).exp(), direct.gating(context).exp(), rtol=0.0, atol=2e-3)


def test_component_that_has_lost_its_weight_comes_back_where_its_reward_is_best():
    """The plain gradient, which vanishes with the weight, leaves it where it is."""
    context, old = contexts(), linear_gating()
    gating = SoftmaxGating(old.weights, old.biases - 20.0 * torch.tensor([1.0, 0.0, 0.0, 0.0]).double())
    noise = generator_of(3)
    for _ in range(60):
        reward = normal(noise, len(context), 4) - gating(context)
        reward[:, 0] += 2.0
        update = project_gating(gating, context, reward, 0.05, WIDE, update="natural")
        assert update.kl <= 0.05
        gating = update.gating
    expected = torch.softmax(torch.tensor([2.0, 0.0, 0.0, 0.0]).double(), -1)  # maximises E[r] + H
    torch.testing.assert_close(gating(context).exp().mean(0), expected, rtol=0.0, atol=0.05)


def test_component_without_weight_does_not_run_away_where_entropy_is_bounded():
    """Its gradient is zero, so rewards do not move it; the bound on the entropy flattens all logits, its own too."""
    context, noise = contexts(), generator_of(3)
    gating = SoftmaxGating(linear_gating().weights, torch.tensor([-60.0, 0.0, 0.0, 0.0]).double())
    for _ in range(30):
        reward = normal(noise, len(context), 4)
        reward[:, 1] += 2.0 * context[:, 0]
        update = project_gating(gating, context, reward, 0.05, 0.005)
        assert update.omega > 0.0
        gating = update.gating
    assert -15.0 < float(gating(context)[:, 0].min()) < -5.0


def test_few_contexts_give_a_weightless_component_no_large_step():
    """Its reward is high by noise at one context; elsewhere, where it was not measured, it must not take over."""
    many = contexts(5000, 9)
    gating = linear_gating(n_components=300, n_context=9)
    gating = SoftmaxGating(gating.weights, gating.biases - 25.0 * (torch.arange(300) == 0).double())
    reward = normal(generator_of(3), 200, 300)
    reward[7, 0] = 60.0
    update = project_gating(gating, many[:200], reward, 0.05, WIDE, update="natural")
    assert float(update.gating(many)[:, 0].exp().max()) < 1e-3


def test_noise_of_the_rewards_averages_out():
    """Rewards of one noisy sample each, deviation 20, move the gating as their means do: the point of this form."""
    context, gating = contexts(4000), linear_gating()
    mean = context @ torch.tensor([[2.0, -2.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]]).double()
    noisy = mean + 20.0 * normal(generator_of(5), *mean.shape)
    clean = project_gating(gating, context, mean, 0.05, WIDE).gating
    moved = project_gating(gating, context, noisy, 0.05, WIDE).gating
    gain = [float(((g(context).exp() - gating(context).exp()) * mean).sum(-1).mean()) for g in (clean, moved)]
    assert gain[1] > 0.7 * gain[0]


@GATINGS
@pytest.mark.parametrize("constant", [0.0, 1e3])
def test_equal_rewards_change_nothing(gating, constant):
    context = contexts()
    update = project_gating(gating, context, torch.full((len(context), 4), constant).double(), 0.1, 0.1)
    torch.testing.assert_close(update.gating(context), gating(context), rtol=0.0, atol=1e-9)


@GATINGS
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_rewards_that_are_not_finite_leave_the_gating_as_it_is(gating, value):
    context = contexts(10)
    reward = torch.zeros(10, 4).double()
    reward[3, 2] = value
    update = project_gating(gating, context, reward, 0.1, 0.1)
    assert update.gating is gating
    assert not update.feasible


def test_bound_of_zero_changes_nothing():
    context, gating = contexts(), linear_gating()
    update = project_gating(gating, context, normal(generator_of(6), len(context), 4), 0.0, 0.1)
    torch.testing.assert_close(update.gating(context), gating(context), rtol=0.0, atol=1e-12)


def test_neural_gating_that_may_lose_no_entropy_stays_as_it_is():
    """L-BFGS then extrapolates beyond all bounds, to weights that are not finite."""
    context = normal(generator_of(81), 30, 1)
    old = NeuralGating.uniform(context, 2, (5,), generator_of(0))  # has the most entropy already
    update = project_gating(old, context, 3.0 * normal(generator_of(90), 30, 2), kl_bound=0.1, entropy_loss_bound=0.0)
    assert not update.feasible
    assert torch.equal(update.gating(context), old(context))
