"""Table 2.1: each f, its conjugate and its output belong together."""

import pytest
import torch

from experiments.baselines import DIVERGENCES

LOG_T = torch.linspace(-2.0, 2.0, 41, dtype=torch.float64)
NAMED = pytest.mark.parametrize("divergence", DIVERGENCES.values(), ids=DIVERGENCES.keys())
FORMULAS = {
    "m-projection": lambda t: t * t.log(),
    "i-projection": lambda t: -t.log(),
    "jensen": lambda t: -(t + 1.0) * ((1.0 + t) / 2.0).log() + t * t.log(),
    "pearson": lambda t: (t - 1.0) ** 2,
}


@pytest.mark.parametrize("name", DIVERGENCES)
def test_value_and_derivative_are_those_of_the_thesis(name):
    t = LOG_T.exp().requires_grad_(True)
    value = FORMULAS[name](t)
    (slope,) = torch.autograd.grad(value.sum(), t)
    torch.testing.assert_close(DIVERGENCES[name].value(LOG_T), value.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(DIVERGENCES[name].derivative(LOG_T), slope, rtol=1e-12, atol=1e-12)


@NAMED
def test_conjugate_is_the_supremum_and_is_reached_at_the_derivative(divergence):
    """f*(t) = sup_u u t - f(u), at t = f'(u)."""
    t = divergence.derivative(LOG_T)
    at = LOG_T.exp() * t - divergence.value(LOG_T)
    torch.testing.assert_close(divergence.conjugate(t), at, rtol=1e-10, atol=1e-12)
    others = torch.linspace(-4.0, 4.0, 201, dtype=torch.float64)
    reached = others.exp() * t.unsqueeze(-1) - divergence.value(others)
    assert bool((reached <= at.unsqueeze(-1) + 1e-9).all())


@NAMED
def test_penalty_is_the_conjugate_of_the_output(divergence):
    v = LOG_T[LOG_T.abs() < 1.9]
    torch.testing.assert_close(
        divergence.penalty(v), divergence.conjugate(divergence.output(v)), rtol=1e-10, atol=1e-12
    )
