"""The projection of categorical distributions agrees with a numerical search, and handles limiting cases."""

import math

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal
from scipy.optimize import minimize

from eim_ros.learning.projections import project_categorical
from eim_ros.learning.projections.categorical import decreasing_root

BOUNDS = [(0.01, 0.005), (0.1, 0.01), (1.0, 0.0), (0.05, math.inf), (math.inf, 0.1), (10.0, 1.0)]


def problem(seed: int, n_contexts: int, n_components: int, size: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return old log probabilities and rewards of about this size [nat]."""
    generator = generator_of(seed)
    old = torch.log_softmax(normal(generator, n_contexts, n_components), -1)
    return old, size * normal(generator, n_contexts, n_components)


def entropy(log_probs: torch.Tensor) -> float:
    return float(-(log_probs.exp() * log_probs).sum(-1).mean())


def kl(new: torch.Tensor, old: torch.Tensor) -> float:
    return float((new.exp() * (new - old)).sum(-1).mean())


def objective(new: torch.Tensor, old: torch.Tensor, reward: torch.Tensor) -> float:
    return float((new.exp() * reward).sum(-1).mean()) - kl(new, old)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_optimum_equals_a_search_over_the_probabilities(bounds):
    """The reference is SciPy's constrained optimiser on the primal problem with 2 contexts and 3 components."""
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
    # limited by the width of the brackets
    assert objective(update.log_probs, old, reward) == pytest.approx(-search.fun, abs=3e-4)
    torch.testing.assert_close(update.log_probs.exp(), log_probs(search.x).exp(), rtol=0.0, atol=3e-3)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_uniform_reward_leaves_probabilities_unchanged(bounds):
    old, _ = problem(6, 30, 5)
    update = project_categorical(old, torch.full_like(old, 3.0), *bounds)
    torch.testing.assert_close(update.log_probs, old, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("kl_weight", [0.1, 2.0, 30.0])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_weight_of_the_kl_is_the_unit_of_the_reward(bounds, kl_weight):
    """E[r] - tau KL = tau (E[r/tau] - KL), so the step is the same."""
    old, reward = problem(16, 30, 5)
    found = project_categorical(old, reward, *bounds, kl_weight=kl_weight)
    expected = project_categorical(old, reward / kl_weight, *bounds)
    # the multiplier is only known up to TOLERANCE
    torch.testing.assert_close(found.log_probs.exp(), expected.log_probs.exp(), rtol=0.0, atol=1e-3)
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
    # the KL keeps a minimum weight of 1e-12, which limits rounding errors
    torch.testing.assert_close(update.log_probs, old, rtol=0.0, atol=1e-3)


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
        # the multiplier is only known up to TOLERANCE
        assert float((other.exp() * reward).sum(-1).mean()) <= best + 1e-3


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
    # H = log k - |p - 1/k|^2 k/2 + ..., so p may deviate by the square root of rounding
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


def start_of(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.float64)


def test_roots_of_fifty_orders_of_magnitude_are_found():
    roots = torch.logspace(-10, 40, 101, dtype=torch.float64)  # distance of the roots from the start
    bracket = decreasing_root(lambda a: roots - (a - 1.0), start_of(101))
    # near the start at 1, the argument has the rounding error of 1
    torch.testing.assert_close(bracket.upper - 1.0, roots, rtol=1e-9, atol=3e-16)
    assert bracket.found.all()


def test_upper_end_is_feasible_and_lower_end_is_not():
    bounds = torch.linspace(0.01, 3.0, 50, dtype=torch.float64)

    def function(a):
        return 1.0 / a - bounds

    bracket = decreasing_root(function, torch.full((50,), 0.1, dtype=torch.float64))
    assert (function(bracket.upper) <= 0.0).all()
    assert (function(bracket.lower) > 0.0).all()
    torch.testing.assert_close(bracket.upper, 1.0 / bounds, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize(
    ("function", "excess"),  # distance of the root from the start at 1; None without a root
    [
        (lambda a: -a, 0.0),
        (lambda a: 1.0 - a, 0.0),
        (lambda a: 1.0 / (a - 1.0) - 1e6, 1e-6),  # a pole at the start counts as positive
        (lambda a: torch.where(a > 1.0, 2.0 - a, torch.nan), 1.0),
        (lambda a: torch.exp(-a) + 1.0, None),
        (lambda a: a * torch.nan, None),
    ],
)
def test_special_starts_and_missing_roots(function, excess):
    bracket = decreasing_root(function, start_of())
    assert bool(bracket.found) == (excess is not None)
    assert excess is None or float(bracket.upper - 1.0) == pytest.approx(excess, rel=1e-8, abs=0.0)


def test_entries_of_a_batch_do_not_interact():
    offset = torch.tensor([-1.0, 5.0, torch.nan, 1e20], dtype=torch.float64)
    together = decreasing_root(lambda a: offset - a, start_of(4))
    for index, single in enumerate(offset):
        alone = decreasing_root(lambda a, value=single: value - a, start_of())
        assert together.found[index] == alone.found
        if alone.found:
            torch.testing.assert_close(together.upper[index], alone.upper, rtol=1e-9, atol=0.0)
