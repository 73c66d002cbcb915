"""Closed-form facts, by the projections that the learners are made of."""

import math

import pytest
import torch

from eim_ros.learning.models import Gaussian, LinearExperts
from eim_ros.learning.projections import QuadraticSurrogate, project_categorical, project_experts

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
