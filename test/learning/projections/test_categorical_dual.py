"""Newton's method finds what two nested root-finds find."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal

from eim_ros.learning.projections.categorical import CategoricalDual

KL_BOUNDS = (1e-4, 0.01, 0.3, 3.0, math.inf)
LOSS_BOUNDS = (1e-4, 0.01, 0.3, math.inf)


def dual(seed: int, kl_bound: float, loss_bound: float, kl_weight: float = 1.0) -> CategoricalDual:
    generator = generator_of(seed)
    n_contexts, n_components = 1 + seed % 7, 2 + seed % 11
    old = torch.log_softmax(10.0 ** (seed % 3 - 1) * normal(generator, n_contexts, n_components), -1)
    reward = 10.0 ** (seed % 5 - 2) * normal(generator, n_contexts, n_components)
    return CategoricalDual(old, reward, kl_bound, loss_bound, kl_weight)


@pytest.mark.parametrize("kl_bound", KL_BOUNDS)
@pytest.mark.parametrize("loss_bound", LOSS_BOUNDS)
def test_newton_and_the_root_finds_agree(kl_bound, loss_bound):
    n_found = 0
    for seed in range(40):
        problem = dual(seed, kl_bound, loss_bound)
        found, expected = problem._by_newton((problem._small_step(), 0.0)), problem._by_root_finds()
        if found is None:
            continue
        n_found += 1
        assert problem.feasible(problem.log_probs(*found))
        torch.testing.assert_close(
            problem.log_probs(*found).exp(), problem.log_probs(*expected).exp(), rtol=0.0, atol=2e-3
        )
    assert n_found >= 38  # the rest is what the root-finds are for


def test_hessian_is_the_slope_of_the_gradient():
    problem, step = dual(3, 0.1, 0.01), 1e-5
    point = problem._at(0.7, 0.4)
    in_eta, in_omega = (
        [(after - before) / (2.0 * step) for before, after in zip(low.gradient, high.gradient, strict=True)]
        for low, high in (
            (problem._at(0.7 - step, 0.4), problem._at(0.7 + step, 0.4)),
            (problem._at(0.7, 0.4 - step), problem._at(0.7, 0.4 + step)),
        )
    )
    ee, eo, oo = point.hessian
    assert in_eta == pytest.approx([ee, eo], rel=1e-6)
    assert in_omega == pytest.approx([eo, oo], rel=1e-6)


@pytest.mark.parametrize("start", [(0.0, 0.0), (1e6, 0.0), (0.0, 1e6), (1e-6, 1e-6), (1e6, 1e6)])
def test_any_guess_leads_to_the_same_multipliers(start):
    problem = dual(5, 0.02, 0.01)
    assert problem.multipliers(start) == pytest.approx(problem.multipliers(), rel=1e-3, abs=1e-6)


def test_distribution_that_may_lose_no_entropy_is_left_to_the_root_finds():
    old = torch.full((2, 3), -math.log(3.0), dtype=torch.float64)
    problem = CategoricalDual(old, normal(generator_of(0), 2, 3), 0.1, 0.0, 1.0)
    assert problem.multipliers() is not None
    assert problem.feasible(problem.log_probs(*problem.multipliers()))
