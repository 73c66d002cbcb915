"""Trust-region I-projections of a gating keep its family and satisfy both bounds."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal
from scipy.optimize import minimize

from eim_ros.learning.models import NeuralGating, SoftmaxGating
from eim_ros.learning.projections import GatingUpdate, project_categorical, project_gating

WIDE = 1e6  # a bound that is never active


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
    assert kl == pytest.approx(update.kl, abs=1e-9)  # up to rounding of standardised parameters
    assert entropy_change == pytest.approx(update.entropy_change, abs=1e-9)
    assert 0.0 < kl <= 0.02 * (1.0 + 1e-9)
    assert entropy_change >= -0.03 - 1e-9
    # 0 is the objective of the old gating, because rewards are centred
    assert objective(update.gating, gating, context, reward) > 0.0


@pytest.mark.parametrize("refit", [False, True])
def test_linear_rewards_without_bounds_give_the_closed_form(refit):
    """If phi is linear in y, the maximiser log q_old + phi is itself a softmax gating."""
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
    """If phi is linear in y, the table of probabilities is a softmax gating for all multipliers."""
    context, gating, change = contexts(), linear_gating(), linear_gating(seed=3)
    reward = 3.0 * (context @ change.weights.T + change.biases)
    direct, refitted = (
        project_gating(gating, context, reward, *bounds, update="refit" if refit else "plain", max_iterations=500)
        for refit in (False, True)
    )
    assert refitted.kl <= bounds[0]
    assert refitted.entropy_change >= -bounds[1]
    assert refitted.kl == pytest.approx(direct.kl, rel=0.05)  # L-BFGS ends slightly outside of the bound
    torch.testing.assert_close(refitted.gating(context).exp(), direct.gating(context).exp(), rtol=0.0, atol=2e-3)


def test_component_that_has_lost_its_weight_comes_back_where_its_reward_is_best():
    """The plain gradient vanishes with the weight, so the component would not recover with it."""
    context, old = contexts(), linear_gating()
    gating = SoftmaxGating(old.weights, old.biases - 20.0 * torch.tensor([1.0, 0.0, 0.0, 0.0]).double())
    noise = generator_of(3)
    for _ in range(60):
        reward = normal(noise, len(context), 4) - gating(context)
        reward[:, 0] += 2.0
        update = project_gating(gating, context, reward, 0.05, WIDE, update="natural")
        assert update.kl <= 0.05
        gating = update.gating
    expected = torch.softmax(torch.tensor([2.0, 0.0, 0.0, 0.0]).double(), -1)  # the maximum of E[r] + H
    torch.testing.assert_close(gating(context).exp().mean(0), expected, rtol=0.0, atol=0.05)


def test_component_without_weight_does_not_run_away_where_entropy_is_bounded():
    """Rewards do not move a component without weight, because its gradient is zero.

    The entropy bound flattens all logits, including those of this component.
    """
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
    """Noise gives a component a high reward at one context. The component must not take over at unmeasured contexts."""
    many = contexts(5000, 9)
    gating = linear_gating(n_components=300, n_context=9)
    gating = SoftmaxGating(gating.weights, gating.biases - 25.0 * (torch.arange(300) == 0).double())
    reward = normal(generator_of(3), 200, 300)
    reward[7, 0] = 60.0
    update = project_gating(gating, many[:200], reward, 0.05, WIDE, update="natural")
    assert float(update.gating(many)[:, 0].exp().max()) < 1e-3


def test_noise_of_the_rewards_averages_out():
    """Single noisy rewards with a deviation of 20 move the gating in the same way as their means."""
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
    """With an entropy bound of 0, L-BFGS extrapolates to weights that are not finite."""
    context = normal(generator_of(81), 30, 1)
    old = NeuralGating.uniform(context, 2, (5,), generator_of(0))  # this gating already has the greatest entropy
    update = project_gating(old, context, 3.0 * normal(generator_of(90), 30, 2), kl_bound=0.1, entropy_loss_bound=0.0)
    assert not update.feasible
    assert torch.equal(update.gating(context), old(context))


LEAST_SHARE = 0.99  # minimum share of SLSQP's gain


@dataclasses.dataclass(frozen=True)
class GatingProblem:
    """Old parameters (k, dy + 1), inputs [y, 1] (n, dy + 1), rewards (n, k) and bounds, in NumPy."""

    old: np.ndarray
    inputs: np.ndarray
    reward: np.ndarray
    kl_bound: float
    entropy_loss_bound: float
    kl_weight: float = 1.0

    @classmethod
    def random(cls, seed: int, kl_weight: float = 1.0) -> GatingProblem:
        """Return a random problem with one context or many.

        A single context has no coordinates, and many contexts have up to three. The rewards are 0.1 to 10 nat, partly
        noise.
        """
        rng = np.random.default_rng(seed)
        k, d = int(rng.integers(2, 9)), int(rng.integers(0, 4))
        n = 1 if d == 0 else int(rng.integers(20, 200))
        context = 2.0 * rng.normal(size=(n, d)) + 1.0
        size = np.exp(1.5 * rng.normal())
        reward = size * (rng.normal(size=(n, k)) + context @ rng.normal(size=(d, k)) + rng.normal(size=k))
        old = np.c_[0.5 * rng.normal(size=(k, d)), rng.normal(size=k)]
        bounds = float(10.0 ** rng.uniform(-2.5, -0.5)), float(10.0 ** rng.uniform(-3.0, -1.0))
        loss_bound = bounds[1] if rng.random() < 0.7 else 10.0
        return cls(old, np.c_[context, np.ones(n)], reward, bounds[0], loss_bound, kl_weight)

    def log_probs(self, parameters: np.ndarray) -> np.ndarray:
        logits = self.inputs @ parameters.reshape(self.old.shape).T
        logits -= logits.max(1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(1, keepdims=True))

    def mean(self, parameters: np.ndarray, slope) -> tuple[float, np.ndarray]:
        """Return the expectation under q of a function of log q, and its gradient.

        The derivative of the function with respect to log q must have mean zero.
        """
        log_probs = self.log_probs(parameters)
        probabilities, value = np.exp(log_probs), slope(log_probs)
        mean = (probabilities * value).sum(1, keepdims=True)
        gradient = (probabilities * (value - mean)).T @ self.inputs / len(self.inputs)
        return float(mean.mean()), gradient.reshape(-1)

    def gain(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        old = self.log_probs(self.old)
        centred = self.reward - (np.exp(old) * self.reward).sum(1, keepdims=True)
        return self.mean(parameters, lambda new: centred - self.kl_weight * (new - old))

    def kl(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        old = self.log_probs(self.old)
        return self.mean(parameters, lambda new: new - old)

    def entropy_loss(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        before, _ = self.mean(self.old, lambda new: new)
        after, gradient = self.mean(parameters, lambda new: new)
        return after - before, gradient

    def greatest_gain(self) -> float:
        constraints = [
            {
                "type": "ineq",
                "fun": lambda flat, m=measure, b=bound: b - m(flat)[0],
                "jac": lambda flat, m=measure: -m(flat)[1],
            }
            for measure, bound in ((self.kl, self.kl_bound), (self.entropy_loss, self.entropy_loss_bound))
        ]
        found = minimize(
            lambda flat: -self.gain(flat)[0],
            self.old.reshape(-1),
            jac=lambda flat: -self.gain(flat)[1],
            method="SLSQP",
            constraints=constraints,
            options={"maxiter": 500, "ftol": 1e-10},
        )
        return -float(found.fun) if found.success else 0.0

    def projected(self) -> tuple[GatingUpdate, np.ndarray]:
        tensors = [torch.from_numpy(v) for v in (self.old[:, :-1], self.old[:, -1], self.inputs[:, :-1], self.reward)]
        gating = SoftmaxGating(*tensors[:2])
        bounds = self.kl_bound, self.entropy_loss_bound
        update = project_gating(gating, *tensors[2:], *bounds, kl_weight=self.kl_weight)
        return update, np.c_[update.gating.weights.numpy(), update.gating.biases.numpy()]


@pytest.mark.parametrize(("kl_weight", "n_problems"), [(1.0, 100), (0.0, 30)])
def test_gain_is_that_of_a_generic_solver_and_multipliers_are_complementary(kl_weight, n_problems):
    active, oracle_failed = set(), 0
    for seed in range(n_problems):
        problem = GatingProblem.random(seed, kl_weight)
        update, parameters = problem.projected()
        greatest = problem.greatest_gain()
        oracle_failed += greatest <= 0.0
        assert problem.gain(parameters)[0] >= LEAST_SHARE * greatest, seed
        assert problem.kl(parameters)[0] <= problem.kl_bound * (1.0 + 1e-9), seed
        assert problem.entropy_loss(parameters)[0] <= problem.entropy_loss_bound + 1e-9, seed
        assert min(update.eta, update.omega) >= 0.0
        if update.eta > 0.0:
            assert update.kl == pytest.approx(problem.kl_bound, rel=1e-4), seed
        if update.omega > 0.0:
            assert -update.entropy_change == pytest.approx(problem.entropy_loss_bound, rel=1e-4), seed
        active.add((update.eta > 0.0, update.omega > 0.0))
    assert oracle_failed <= n_problems // 20
    some_bound = {(False, True), (True, False), (True, True)}
    assert active == (some_bound | {(False, False)} if kl_weight > 0.0 else some_bound)


def test_one_context_is_the_categorical_projection_with_both_bounds_active():
    rng = np.random.default_rng(1)
    old = torch.log_softmax(torch.from_numpy(rng.normal(size=(1, 4))), -1)
    reward = torch.from_numpy(3.0 * rng.normal(size=(1, 4)))
    expected = project_categorical(old, reward, 0.1, 0.005)
    assert min(expected.eta, expected.omega) > 0.0
    gating = SoftmaxGating(torch.zeros(4, 0).double(), old[0])
    update = project_gating(gating, torch.zeros(1, 0).double(), reward, 0.1, 0.005)
    assert update.kl == pytest.approx(expected.kl, rel=1e-4)
    assert (update.eta, update.omega) == pytest.approx((expected.eta, expected.omega), rel=1e-2)
    torch.testing.assert_close(update.gating(torch.zeros(1, 0).double()), expected.log_probs, rtol=0.0, atol=1e-3)


def test_neural_gating_uses_both_bounds_where_both_are_active():
    context = 3.0 + 2.0 * normal(generator_of(0), 300, 2)
    gating = NeuralGating.uniform(context, 4, (8,), generator_of(1))
    first = normal(generator_of(2), 300, 4)
    first[:, 0] += 2.0 * context[:, 0]
    gating = project_gating(gating, context, first, 0.3, 10.0).gating
    reward = torch.zeros(300, 4).double()
    reward[:, 0], reward[:, 1] = 10.0 * context[:, 0], 10.0 * context[:, 1]
    update = project_gating(gating, context, reward, 0.05, 0.01)
    assert min(update.eta, update.omega) > 0.0
    assert 0.9 * 0.05 <= update.kl <= 0.05
    assert 0.8 * 0.01 <= -update.entropy_change <= 0.01
