"""Projection of categorical distributions: it solves the thesis' dual (A.6, A.16 with sums) and obeys both bounds."""

import itertools
import math

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal
from scipy.optimize import minimize

from eim_ros.learning.projections import project_categorical

BOUNDS = [(0.01, 0.005), (0.1, 0.01), (1.0, 0.0), (0.05, math.inf), (math.inf, 0.1), (10.0, 1.0)]
CASES = [*itertools.product((1.0, 10.0), BOUNDS)]
every_case = pytest.mark.parametrize(("size", "bounds"), CASES)


def problem(seed: int, n_contexts: int, n_components: int, size: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Old log probabilities and rewards of the given size [nat]."""
    generator = generator_of(seed)
    old = torch.log_softmax(normal(generator, n_contexts, n_components), -1)
    return old, size * normal(generator, n_contexts, n_components)


def entropy(log_probs: torch.Tensor) -> float:
    return float(-(log_probs.exp() * log_probs).sum(-1).mean())


def kl(new: torch.Tensor, old: torch.Tensor) -> float:
    return float((new.exp() * (new - old)).sum(-1).mean())


def objective(new: torch.Tensor, old: torch.Tensor, reward: torch.Tensor) -> float:
    return float((new.exp() * reward).sum(-1).mean()) - kl(new, old)


def dual(old, reward, eta, omega, kl_bound, entropy_loss_bound) -> float:
    least_entropy = entropy(old) - entropy_loss_bound
    s = eta + 1.0 + omega
    exponent = ((eta + 1.0) * old + reward) / s
    terms = (eta * kl_bound if eta else 0.0) - (omega * least_entropy if omega else 0.0)
    return terms + s * float(torch.logsumexp(exponent, -1).mean())


@every_case
def test_new_probabilities_obey_both_bounds(size, bounds):
    old, reward = problem(0, 30, 5, size)
    update = project_categorical(old, reward, *bounds)
    assert update.feasible
    torch.testing.assert_close(update.log_probs.exp().sum(-1), torch.ones(30).double(), rtol=1e-14, atol=0.0)
    assert kl(update.log_probs, old) <= bounds[0] + 1e-12
    assert entropy(update.log_probs) - entropy(old) >= -bounds[1] - 1e-12


@every_case
def test_reported_figures_are_those_of_the_probabilities(size, bounds):
    old, reward = problem(1, 30, 5, size)
    update = project_categorical(old, reward, *bounds)
    assert update.kl == pytest.approx(kl(update.log_probs, old), abs=1e-13)
    assert update.entropy_change == pytest.approx(entropy(update.log_probs) - entropy(old), abs=1e-13)
    s = update.eta + 1.0 + update.omega
    expected = torch.log_softmax(((update.eta + 1.0) * old + reward) / s, -1)
    torch.testing.assert_close(update.log_probs, expected, rtol=0.0, atol=1e-9)


@every_case
def test_multipliers_are_complementary_to_the_bounds(size, bounds):
    """A multiplier is bracketed to 1e-4 of itself, so an active bound is met to about that (of a few nats)."""
    old, reward = problem(2, 30, 5, size)
    update = project_categorical(old, reward, *bounds)
    assert min(update.eta, update.omega) >= 0.0
    if update.eta > 0.0:
        assert update.kl == pytest.approx(bounds[0], rel=2e-3)
    if update.omega > 0.0:
        assert update.entropy_change == pytest.approx(-bounds[1], abs=2e-4)


@every_case
def test_duality_gap_is_zero(size, bounds):
    """Feasible, and equal to a value of the dual: a certificate of optimality."""
    old, reward = problem(3, 30, 5, size)
    update = project_categorical(old, reward, *bounds)
    gap = dual(old, reward, update.eta, update.omega, *bounds) - objective(update.log_probs, old, reward)
    assert -1e-9 <= gap <= 1e-3 * size * min(bounds[0], 1.0) + 1e-9  # the brackets' width times the slope of the reward


def test_both_bounds_are_active_for_some_and_slack_for_other_problems():
    updates = [project_categorical(*problem(2, 30, 5, size), *bounds) for size, bounds in CASES]
    cases = {(update.eta > 0.0, update.omega > 0.0) for update in updates}
    assert cases == {(False, False), (False, True), (True, False), (True, True)}


@pytest.mark.parametrize("bounds", BOUNDS)
def test_optimum_equals_a_search_over_the_probabilities(bounds):
    """Against SciPy's constrained optimiser on the primal problem: 2 contexts, 3 components."""
    old, reward = problem(4, 2, 3, 3.0)
    update = project_categorical(old, reward, *bounds)

    def log_probs(flat):
        return torch.as_tensor(flat).reshape(2, 3)

    constraints = [{"type": "eq", "fun": lambda flat: np.exp(flat).reshape(2, 3).sum(1) - 1.0}]
    if math.isfinite(bounds[0]):
        constraints.append({"type": "ineq", "fun": lambda flat: bounds[0] - kl(log_probs(flat), old)})
    if math.isfinite(bounds[1]):
        constraints.append({"type": "ineq", "fun": lambda flat: entropy(log_probs(flat)) - entropy(old) + bounds[1]})
    search = minimize(
        lambda flat: -objective(log_probs(flat), old, reward),
        old.numpy().reshape(-1),
        method="SLSQP",
        constraints=constraints,
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert search.success
    assert objective(update.log_probs, old, reward) == pytest.approx(-search.fun, abs=3e-4)  # see the brackets' width
    torch.testing.assert_close(update.log_probs.exp(), log_probs(search.x).exp(), rtol=0.0, atol=3e-3)


def test_without_bounds_the_reward_is_added_to_the_logits():
    old, reward = problem(5, 30, 5)
    update = project_categorical(old, reward, math.inf, math.inf)
    assert (update.eta, update.omega) == (0.0, 0.0)
    torch.testing.assert_close(update.log_probs, torch.log_softmax(old + reward, -1), rtol=0.0, atol=1e-14)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_uniform_reward_leaves_probabilities_unchanged(bounds):
    old, _ = problem(6, 30, 5)
    update = project_categorical(old, torch.full_like(old, 3.0), *bounds)
    torch.testing.assert_close(update.log_probs, old, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("kl_weight", [0.1, 2.0, 30.0])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_weight_of_the_kl_is_the_unit_of_the_reward(bounds, kl_weight):
    """E[r] - tau KL = tau (E[r/tau] - KL): the same step."""
    old, reward = problem(16, 30, 5)
    found = project_categorical(old, reward, *bounds, kl_weight=kl_weight)
    expected = project_categorical(old, reward / kl_weight, *bounds)
    torch.testing.assert_close(found.log_probs.exp(), expected.log_probs.exp(), rtol=0.0, atol=1e-3)  # see TOLERANCE
    assert found.eta == pytest.approx(kl_weight * expected.eta, rel=1e-2, abs=1e-3)


def test_without_the_kl_term_and_bounds_the_best_component_takes_all():
    old, reward = problem(17, 30, 5)
    update = project_categorical(old, reward, math.inf, math.inf, kl_weight=0.0)
    assert update.feasible
    expected = torch.nn.functional.one_hot(reward.argmax(-1), 5).double()
    torch.testing.assert_close(update.log_probs.exp(), expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("bounds", [*BOUNDS, (math.inf, math.inf)])
def test_components_of_equal_reward_keep_their_proportions_without_the_kl_term(bounds):
    old, _ = problem(18, 30, 5)
    update = project_categorical(old, torch.full_like(old, 3.0), *bounds, kl_weight=0.0)
    torch.testing.assert_close(update.log_probs, old, rtol=0.0, atol=1e-3)  # 1e-12 of the weight holds the rounding


@pytest.mark.parametrize("bounds", BOUNDS)
def test_without_the_kl_term_no_other_weight_reaches_more_reward(bounds):
    old, reward = problem(19, 30, 5)
    found = project_categorical(old, reward, *bounds, kl_weight=0.0)
    assert found.feasible
    assert found.kl <= bounds[0] + 1e-12
    assert found.entropy_change >= -bounds[1] - 1e-12
    best = float((found.log_probs.exp() * reward).sum(-1).mean())
    for weight in (0.1, 1.0, 10.0):
        other = project_categorical(old, reward, *bounds, kl_weight=weight).log_probs
        assert float((other.exp() * reward).sum(-1).mean()) <= best + 1e-3  # see TOLERANCE


def test_shift_of_the_reward_of_a_context_changes_nothing():
    old, reward = problem(7, 30, 5)
    first = project_categorical(old, reward, 0.05, 0.01)
    second = project_categorical(old, reward + 10.0 * normal(generator_of(8), 30, 1), 0.05, 0.01)
    torch.testing.assert_close(second.log_probs, first.log_probs, rtol=0.0, atol=1e-9)


def test_order_of_components_does_not_matter():
    old, reward = problem(9, 30, 5)
    order = torch.tensor([3, 1, 4, 0, 2])
    first = project_categorical(old, reward, 0.05, 0.01)
    second = project_categorical(old[:, order], reward[:, order], 0.05, 0.01)
    torch.testing.assert_close(second.log_probs, first.log_probs[:, order], rtol=0.0, atol=1e-9)


def test_component_that_is_out_stays_out():
    old, reward = problem(10, 4, 3)
    old[:, 1] = -torch.inf
    old = torch.log_softmax(old, -1)
    update = project_categorical(old, reward, 0.05, 0.01)
    assert update.feasible
    assert (update.log_probs[:, 1] == -torch.inf).all()
    without = project_categorical(old[:, [0, 2]], reward[:, [0, 2]], 0.05, 0.01)
    torch.testing.assert_close(update.log_probs[:, [0, 2]], without.log_probs, rtol=0.0, atol=1e-9)


def test_uniform_distribution_that_may_lose_no_entropy_stays():
    old = torch.full((4, 3), -math.log(3.0), dtype=torch.float64)
    update = project_categorical(old, problem(11, 4, 3)[1], 0.1, 0.0)
    # H = log k - |p - 1/k|^2 k/2 + ...: no loss beyond rounding allows deviations of its square root only
    torch.testing.assert_close(update.log_probs, old, rtol=0.0, atol=1e-7)


def test_one_component_has_nothing_to_decide():
    update = project_categorical(torch.zeros(4, 1).double(), problem(12, 4, 1)[1], 0.1, 0.1)
    assert (update.log_probs == 0.0).all()
    assert update.kl == 0.0


@pytest.mark.parametrize("size", [1e-12, 1e6, 1e12])
def test_rewards_of_any_size_give_a_feasible_step(size):
    old, reward = problem(13, 30, 5, size)
    update = project_categorical(old, reward, 0.01, 0.05)
    assert update.feasible
    assert kl(update.log_probs, old) <= 0.01
    assert entropy(update.log_probs) - entropy(old) >= -0.05 - 1e-12


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_non_finite_reward_leaves_probabilities_unchanged_and_says_so(value):
    old, reward = problem(14, 4, 3)
    reward[2, 1] = value
    update = project_categorical(old, reward, 0.1, 0.1)
    assert not update.feasible
    assert torch.equal(update.log_probs, old)


def test_reward_of_minus_infinity_rules_a_component_out():
    old, reward = problem(15, 4, 3)
    reward[:, 1] = -torch.inf
    update = project_categorical(old, reward, 10.0, 10.0)
    assert update.feasible
    assert (update.log_probs[:, 1] == -torch.inf).all()
    assert update.kl <= 10.0


def test_half_step_with_exact_rewards_never_increases_the_kl_to_the_target():
    """Mixture weights with fixed components: rewards E_q(x|z) log p/q_old by quadrature (thesis 4.1.1)."""
    axis = torch.linspace(-15.0, 15.0, 3001).double()
    width = float(axis[1] - axis[0])

    def mixture(log_weights, means):
        return torch.logsumexp(log_weights - 0.5 * (axis[:, None] - means) ** 2 - 0.5 * math.log(2.0 * math.pi), -1)

    means = torch.tensor([-3.0, 0.0, 2.5]).double()
    log_target = mixture(torch.tensor([0.2, 0.1, 0.7]).double().log(), means + 0.3)
    log_weights = torch.tensor([[0.6, 0.3, 0.1]]).double().log()
    components = (-0.5 * (axis[:, None] - means) ** 2 - 0.5 * math.log(2.0 * math.pi)).exp()
    distances = []
    for _ in range(25):
        log_model = mixture(log_weights[0], means)
        distances.append(float((log_model.exp() * (log_model - log_target)).sum()) * width)
        reward = ((log_target - log_model)[:, None] * components).sum(0, keepdim=True) * width
        log_weights = project_categorical(log_weights, reward, 0.02, 0.05).log_probs
    assert all(after <= before + 1e-12 for before, after in zip(distances, distances[1:], strict=False))
    assert distances[-1] < 0.2 * distances[0]
