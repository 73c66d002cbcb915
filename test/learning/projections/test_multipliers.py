"""Multipliers of each projection satisfy the KKT conditions, and updates report KL and entropy of their result."""

import itertools
import math
from functools import partial

import pytest
import torch
from learning.models.random_models import generator_of, normal
from learning.projections.problems import bounds_of, random_problem, sampled_ratios

from eim_ros.learning.projections import project_categorical, project_experts, weigh_samples

INDEFINITE = [bounds_of(seed) for seed in range(5)]
BOUNDED = [*INDEFINITE, (math.inf, 0.1), (math.inf, math.inf)]  # categorical distributions need no bound on the KL


def experts(bounds, n_components=40, n_dims=4, n_context=2):
    """Project experts with random indefinite curvatures, and recompute KL and entropy from sums over contexts."""
    problem = random_problem(INDEFINITE.index(bounds), n_components, n_dims, n_context)
    update = project_experts(problem.experts, problem.surrogate, *bounds)
    return update.multipliers, *problem.primal(update)[1:]


def probabilities(bounds, seed=0):
    """Project even to extreme probabilities at one to seven contexts, with rewards of 0.01 to 100 nat."""
    generator, shape = generator_of(seed), (1 + seed % 7, 2 + seed % 11)
    old = torch.log_softmax(10.0 ** (seed % 3 - 1) * normal(generator, *shape), -1)
    reward = 10.0 ** (seed % 5 - 2) * normal(generator, *shape)
    update = project_categorical(old, reward, *bounds)
    new, s = update.log_probs, update.eta + 1.0 + update.omega
    torch.testing.assert_close(new.exp().sum(-1), torch.ones(len(new)).double(), rtol=1e-14, atol=0.0)
    stationary = torch.log_softmax(((update.eta + 1.0) * old + reward) / s, -1)
    torch.testing.assert_close(new, stationary, rtol=0.0, atol=1e-9)
    kl, change = (new.exp() * (new - old)).sum(-1), (old.exp() * old).sum(-1) - (new.exp() * new).sum(-1)
    return update, kl.mean(), change.mean()


def samples(bounds):
    """Weigh samples, and compute KL and entropy from their definitions."""
    phi, old = sampled_ratios(2)
    update = weigh_samples(phi, old, *bounds)
    weights = update.weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 8).double(), rtol=1e-12, atol=0.0)
    log_ratio = (weights.shape[-1] * weights).log()
    change = -(weights * (old + log_ratio)).sum(-1) + old.mean(-1)
    return update, (weights * log_ratio).sum(-1).mean(-1), change.mean(-1)


# Tolerances of active bounds: relative to the bound for the KL, and in nat for the entropy.
PROJECTIONS = {
    # the bracket of eta has a relative width of 1e-9, so the KL has a similar precision
    "experts": ([experts], INDEFINITE, 1e-6, 1e-9),
    "experts in one dimension": ([partial(experts, n_components=20, n_dims=1, n_context=1)], INDEFINITE, 1e-6, 1e-9),
    # the bracket of a multiplier has a relative width of 1e-4
    "probabilities": ([partial(probabilities, seed=seed) for seed in range(40)], BOUNDED, 2e-3, 2e-4),
    "weights of samples": ([samples], BOUNDED, 1e-3, 1e-3),  # TOLERANCE of the root
}


@pytest.mark.parametrize(("problems", "bounds", "of_kl", "of_entropy"), PROJECTIONS.values(), ids=PROJECTIONS)
def test_bounds_are_obeyed_and_multipliers_complementary(problems, bounds, of_kl, of_entropy):
    cases = set()
    for project, (kl_bound, loss_bound) in itertools.product(problems, bounds):
        update, kl, change = project((kl_bound, loss_bound))
        eta, omega, reported_kl, reported_change = (
            torch.as_tensor(getattr(update, name), dtype=torch.float64).reshape(-1)
            for name in ("eta", "omega", "kl", "entropy_change")
        )
        assert torch.as_tensor(update.feasible).all()
        torch.testing.assert_close(reported_kl, kl.reshape(-1), rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(reported_change, change.reshape(-1), rtol=1e-8, atol=1e-10)
        # the recomputed values may exceed a bound only by rounding
        assert (kl <= kl_bound * (1.0 + 1e-9)).all()
        assert (change >= -loss_bound - 1e-9).all()
        assert (eta >= 0.0).all()
        assert (omega >= 0.0).all()
        assert ((eta == 0.0) | (reported_kl >= kl_bound * (1.0 - of_kl))).all()
        assert ((omega == 0.0) | (reported_change <= -loss_bound + of_entropy)).all()
        cases |= set(zip((eta > 0.0).tolist(), (omega > 0.0).tolist(), strict=True))
    assert cases == {(False, False), (False, True), (True, False), (True, True)}
