"""Both bounds of a gating's update at once, beside SciPy's SLSQP on the same primal problem."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal
from scipy.optimize import minimize

from eim_ros.learning.models import NeuralGating, SoftmaxGating
from eim_ros.learning.projections import GatingUpdate, project_categorical, project_gating

LEAST_SHARE = 0.99  # of the gain that SLSQP finds


@dataclasses.dataclass(frozen=True)
class GatingProblem:
    """Old parameters (k, dy + 1), inputs [y, 1] (n, dy + 1), rewards (n, k) and bounds; all in NumPy."""

    old: np.ndarray
    inputs: np.ndarray
    reward: np.ndarray
    kl_bound: float
    entropy_loss_bound: float
    kl_weight: float = 1.0

    @classmethod
    def random(cls, seed: int, kl_weight: float = 1.0) -> GatingProblem:
        """One context without coordinates, or many of up to three; rewards from .1 to 10 nat, partly noise."""
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
        """E_q of a function of the log probabilities, whose derivative by log q has mean zero, and its gradient."""
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
