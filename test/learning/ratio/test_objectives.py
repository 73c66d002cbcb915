"""Objectives of the Bregman family: each is eq. 2.2 of the thesis for its f, with the true log ratio as its minimum."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal

from eim_ros.learning.ratio.density_ratio import OBJECTIVES

every_objective = pytest.mark.parametrize("name", OBJECTIVES)

F = {  # f(t) of the Bregman divergence, and a constant that the objective leaves out of (2.2)
    "logistic": (lambda t: t * t.log() - (1.0 + t) * (1.0 + t).log(), 0.0),
    "lsif": (lambda t: 0.5 * (t - 1.0).square(), 0.5),
    "kliep": (lambda t: t * t.log() - t, 0.0),
}


def mean_loss(name: str, phi_p: torch.Tensor, phi_q: torch.Tensor) -> torch.Tensor:
    loss_p, loss_q = OBJECTIVES[name](phi_p, phi_q)
    return loss_p.mean() + loss_q.mean()


@every_objective
def test_objective_is_the_bregman_divergence_of_its_f(name):
    """E_q[f'(r) r - f(r)] - E_p[f'(r)], eq. 2.2; f' by automatic differentiation."""
    f, constant = F[name]
    phi_p, phi_q = normal(generator_of(0), 20), normal(generator_of(1), 30)
    r_p, r_q = (phi.exp().requires_grad_(True) for phi in (phi_p, phi_q))
    (slope_p,) = torch.autograd.grad(f(r_p).sum(), r_p)
    (slope_q,) = torch.autograd.grad(f(r_q).sum(), r_q)
    expected = (slope_q * r_q - f(r_q)).mean() - slope_p.mean()
    # lsif: f'(r) r - f(r) = (r^2 - 1)/2 and f'(r) = r - 1
    torch.testing.assert_close(mean_loss(name, phi_p, phi_q) + constant, expected.detach(), rtol=1e-12, atol=1e-12)


@every_objective
def test_minimiser_over_a_constant_per_bin_is_the_log_ratio(name):
    """Counts (30, 10) and (12, 60) of 42 and 70 samples: r = (30/42)/(10/70) and (12/42)/(60/70), from any start."""
    bins_p = torch.tensor([0] * 30 + [1] * 12)
    bins_q = torch.tensor([0] * 10 + [1] * 60)
    phi = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [phi], max_iter=200, line_search_fn="strong_wolfe", tolerance_grad=1e-12, tolerance_change=0.0
    )

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = mean_loss(name, phi[bins_p], phi[bins_q])
        loss.backward()
        return loss

    optimiser.step(closure)
    expected = torch.tensor([math.log((30 / 42) / (10 / 70)), math.log((12 / 42) / (60 / 70))]).double()
    torch.testing.assert_close(phi.detach(), expected, rtol=0.0, atol=1e-6)


def test_only_the_logistic_loss_survives_a_large_ratio_in_single_precision():
    large = torch.tensor([60.0, -60.0])
    assert all(torch.isfinite(part).all() for part in OBJECTIVES["logistic"](large, large))
    assert torch.isinf(OBJECTIVES["lsif"](large, large)[1]).any()
    assert torch.isinf(OBJECTIVES["kliep"](2.0 * large, 2.0 * large)[1]).any()
    leaf = torch.tensor([-60.0], requires_grad=True)
    OBJECTIVES["logistic"](leaf, torch.zeros(1))[0].sum().backward()
    assert float(leaf.grad) == -1.0  # log(sigmoid(phi) + 1e-12) would have lost it
