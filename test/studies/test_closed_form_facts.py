"""Closed-form facts, by the projections that the learners are made of."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_scale_trils

from eim_ros.learning.models import Gaussian, LinearExperts
from eim_ros.learning.projections import QuadraticSurrogate, fit_to_gradients, project_categorical, project_experts

FREE = (math.inf, math.inf)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def kl(first: torch.Tensor, second: torch.Tensor) -> float:
    return float((first.exp() * (first - second)).sum())


def standard_expert(n_dims: int = 1) -> LinearExperts:
    """N(0, I) without contexts."""
    factor = torch.eye(n_dims, dtype=torch.float64).unsqueeze(0)
    return LinearExperts(factor.new_zeros(1, n_dims, 0), factor.new_zeros(1, n_dims), factor)


def surrogate(curvature: torch.Tensor, linear: torch.Tensor) -> QuadraticSurrogate:
    """-1/2 e'Re + b'e of one expert."""
    return QuadraticSurrogate(curvature.unsqueeze(0), linear[None, :, None], torch.ones(1, 1, 1, dtype=torch.float64))


def test_generalised_inference_of_a_categorical_is_its_tilt():
    """max E_q r - KL(q || p) = log E_p e^r at q* = p e^r/Z, and every other q falls short by KL(q || q*)."""
    p, r = tensor(0.5, 0.3, 0.2).log(), tensor(1.0, 0.0, -1.0)
    best = project_categorical(p[None], r[None], *FREE).log_probs[0]
    torch.testing.assert_close(best.exp(), tensor(0.784398760, 0.173138510, 0.042462730), rtol=0.0, atol=1e-8)
    value = float((best.exp() * r).sum()) - kl(best, p)
    assert value == pytest.approx(0.549690583, abs=1e-9)
    assert value == pytest.approx(float(torch.logsumexp(p + r, 0)), abs=1e-14)
    for q in (p, tensor(0.2, 0.3, 0.5).log(), tensor(0.9, 0.05, 0.05).log()):
        assert value - (float((q.exp() * r).sum()) - kl(q, p)) == pytest.approx(kl(q, best), abs=1e-14)


def test_generalised_inference_of_a_normal_is_its_tilt():
    """N(0, 1) with r = -(x - 2)^2/(2 x 0.5), whose quadratic part is -x^2 + 4 x: N(4/3, 1/3)."""
    update = project_experts(standard_expert(), surrogate(tensor(2.0)[None], tensor(4.0)), *FREE)
    new = Gaussian(update.experts.biases[0], update.experts.scale_trils[0])
    assert float(new.mean) == pytest.approx(4.0 / 3.0, abs=1e-14)
    assert float(new.covariance) == pytest.approx(1.0 / 3.0, abs=1e-14)
    prior = Gaussian(torch.zeros(1).double(), torch.eye(1).double())
    expected_reward = -((4.0 / 3.0 - 2.0) ** 2 + 1.0 / 3.0)
    assert expected_reward - float(new.kl(prior)) == pytest.approx(-1.882639478, abs=1e-9)


@pytest.mark.parametrize("c", [-2.0, 0.5, 0.99, 1.0, 2.0])
def test_reward_that_outgrows_the_prior_has_no_tilt_and_no_step(c):
    """r = c x^2/2: variance 1/(1 - c); from c = 1 on there is no maximum: infeasible, the expert stays."""
    update = project_experts(standard_expert(), surrogate(tensor(-c)[None], torch.zeros(1).double()), *FREE)
    assert bool(update.multipliers.feasible) is (c < 1.0)
    expected = 1.0 / (1.0 - c) if c < 1.0 else 1.0
    assert float(update.experts.scale_trils.square()) == pytest.approx(expected, rel=1e-12)


def test_chain_rule_of_the_kl():
    """q uniform on 2 x 2: KL of the joint = KL of the first variable + mean KL of the second given the first."""
    joint = tensor(0.1, 0.2, 0.3, 0.4).reshape(2, 2)
    marginal, conditional = joint.sum(1), joint / joint.sum(1, keepdim=True)

    def to_uniform(old):
        """KL(uniform || old), as the projection reports it for the step that leads there."""
        uniform = torch.full_like(old, 1.0 / old.shape[-1])
        update = project_categorical(old.log(), uniform.log() - old.log(), *FREE)
        torch.testing.assert_close(update.log_probs.exp(), uniform, rtol=0.0, atol=1e-14)
        return update.kl

    whole, first, second = to_uniform(joint.reshape(1, 4)), to_uniform(marginal[None]), to_uniform(conditional)
    assert whole == pytest.approx(0.121777274, abs=1e-9)
    assert first == pytest.approx(0.087176694, abs=1e-9)
    assert second == pytest.approx(0.034600581, abs=1e-9)
    assert whole == pytest.approx(first + second, abs=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_spectral_trust_region_equals_the_cholesky_of_the_new_precision(seed):
    """P' = P + G/eta and P' m' = P m + (G m + g)/eta with the KL from one eigendecomposition: no KL term, no omega."""
    n_dims, generator = 5, generator_of(seed)
    factor, mean = random_scale_trils(generator, 1, n_dims)[0], normal(generator, n_dims)
    root = normal(generator, n_dims, n_dims)
    curvature, slope = 0.5 * (root + root.T), normal(generator, n_dims)
    experts = LinearExperts(torch.zeros(1, n_dims, 0).double(), mean[None], factor[None])
    whitened = surrogate(factor.T @ curvature @ factor, factor.T @ slope)
    update = project_experts(experts, whitened, 0.3, math.inf, kl_weight=0.0)
    eta = float(update.multipliers.eta)
    precision = torch.cholesky_inverse(factor)
    new_precision = precision + curvature / eta
    new_factor = torch.linalg.cholesky(torch.linalg.inv(new_precision))
    new_mean = mean + torch.cholesky_solve(slope[:, None] / eta, torch.linalg.cholesky(new_precision))[:, 0]
    plain = float(Gaussian(new_mean, new_factor).kl(Gaussian(mean, factor)))
    assert float(update.multipliers.kl) == pytest.approx(plain, abs=1e-10)
    assert plain == pytest.approx(0.3, abs=1e-8)  # the bracket of eta, 1e-9 of itself
    torch.testing.assert_close(update.experts.biases[0], new_mean, rtol=0.0, atol=1e-10)
    torch.testing.assert_close(update.experts.scale_trils[0], new_factor, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_temperature_multiplies_the_covariance(temperature):
    """phi = log N(x; 0, I) - T log q_old with a KL of weight T: one step without bounds reaches N(0, T I)."""
    generator = generator_of(0)
    factor, mean = random_scale_trils(generator, 1, 3), normal(generator, 1, 3)
    experts = LinearExperts(torch.zeros(1, 3, 0).double(), mean, factor)
    residual = normal(generator, 1, 100, 3)
    sample = mean.unsqueeze(1) + residual @ factor.mT
    gradient = -sample @ factor + temperature * residual  # in whitened coordinates log q_old has the gradient -e
    fitted = fit_to_gradients(residual, torch.zeros(1, 100, 0).double(), gradient)
    update = project_experts(experts, fitted, *FREE, kl_weight=temperature)
    covariance = update.experts.scale_trils[0] @ update.experts.scale_trils[0].T
    torch.testing.assert_close(covariance, temperature * torch.eye(3).double(), rtol=0.0, atol=1e-8)
    torch.testing.assert_close(update.experts.biases, torch.zeros(1, 3).double(), rtol=0.0, atol=1e-8)
