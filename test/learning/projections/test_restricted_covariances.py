"""Projection of experts with diagonal or tied covariances: optimal for a general solver, within all bounds."""

import math

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal, random_experts
from scipy.optimize import minimize

from eim_ros.learning.models import LinearExperts
from eim_ros.learning.projections import QuadraticSurrogate, project_experts, restrict_covariances

WEIGHTS = torch.tensor([0.7, 0.3]).double()
FAMILIES = pytest.mark.parametrize("covariance", ["diagonal", "tied"])
BOUNDS = pytest.mark.parametrize("bounds", [(0.05, 1.0), (0.05, 0.01), (math.inf, 0.02), (1.0, math.inf)])


def problem(seed: int, covariance: str, shift: float = 0.0):
    """Two experts with contexts; the curvatures are indefinite unless they are shifted."""
    generator = generator_of(seed)
    experts = restrict_covariances(random_experts(seed, 2, 2, 1), covariance, WEIGHTS)
    root = normal(generator, 2, 2, 2)
    context = normal(generator, 2, 20, 1) + 0.5
    extended = torch.cat([context, torch.ones_like(context)], -1)
    surrogate = QuadraticSurrogate(
        0.5 * (root + root.mT) + shift * torch.eye(2).double(),
        normal(generator, 2, 2, 2),
        extended.mT @ extended / 20,
    )
    return experts, surrogate, extended


def value_and_bounds(slope, factor, surrogate, extended):
    """E[phi], KL and its part due to the mean, (2,) each, of updates in whitened coordinates, context by context."""
    mean = extended @ slope.mT
    second = mean.unsqueeze(-1) * mean.unsqueeze(-2) + (factor @ factor.mT).unsqueeze(1)
    phi = -0.5 * (second * surrogate.curvature.unsqueeze(1)).sum((-2, -1))
    phi = phi + (mean * (extended @ surrogate.linear.mT)).sum(-1)
    new = torch.distributions.MultivariateNormal(mean, scale_tril=factor.unsqueeze(1))
    still = torch.distributions.MultivariateNormal(torch.zeros_like(mean), scale_tril=factor.unsqueeze(1))
    old = torch.distributions.MultivariateNormal(torch.zeros_like(mean), torch.eye(2).double())
    kl, of_spread = (torch.distributions.kl_divergence(one, old).mean(1) for one in (new, still))
    return phi.mean(1), kl, kl - of_spread


def whitened(experts: LinearExperts, update: LinearExperts):
    """The update as slope (2, 2, 2) and factor (2, 2, 2) in the whitened coordinates of the old experts."""
    inverse = torch.linalg.inv(experts.scale_trils)
    step = torch.cat([update.weights - experts.weights, (update.biases - experts.biases).unsqueeze(-1)], -1)
    return inverse @ step, inverse @ update.scale_trils


def best_of_solver(surrogate, extended, covariance, bounds):
    """Largest objective that SLSQP finds from four starts. Diagonal experts are separate, so they are added up."""
    kl_bound, loss_bound = bounds
    n_shape = 4 if covariance == "diagonal" else 3
    share = torch.ones(2).double() if covariance == "diagonal" else WEIGHTS

    def parts(flat):
        flat = torch.as_tensor(flat)
        slope, shape = flat[:8].reshape(2, 2, 2), flat[8:]
        if covariance == "diagonal":
            factor = torch.diag_embed(shape.reshape(2, 2).exp())
        else:
            factor = torch.diag_embed(shape[:2].exp()).expand(2, 2, 2).clone()
            factor[:, 1, 0] = shape[2]
        phi, kl, of_mean = value_and_bounds(slope, factor, surrogate, extended)
        loss = -torch.diagonal(factor, dim1=-2, dim2=-1).log().sum(-1)
        rows = []
        if math.isfinite(kl_bound):
            rows += [kl_bound - kl] if covariance == "diagonal" else [kl_bound - of_mean, (kl_bound - share @ kl)[None]]
        if math.isfinite(loss_bound):
            rows += [loss_bound - loss]
        return -(share @ (phi - kl)), torch.cat(rows)

    def with_gradient(index):
        def function(flat):
            leaf = torch.tensor(flat, requires_grad=True)
            return torch.autograd.functional.jacobian(lambda x: parts(x)[index], leaf).numpy()

        return lambda flat: parts(flat)[index].numpy(), function

    (loss, gradient), (slack, jacobian) = with_gradient(0), with_gradient(1)
    generator, best = np.random.default_rng(0), -math.inf
    for _ in range(4):
        found = minimize(
            loss,
            0.1 * generator.standard_normal(8 + n_shape),
            jac=gradient,
            method="SLSQP",
            constraints={"type": "ineq", "fun": slack, "jac": jacobian},
            options={"ftol": 1e-12, "maxiter": 300},
        )
        if slack(found.x).min() > -1e-8:
            best = max(best, -found.fun)
    return best


@FAMILIES
@BOUNDS
@pytest.mark.parametrize("seed", range(2))
def test_update_is_the_optimum_of_a_general_solver(covariance, bounds, seed):
    shift = 0.0 if math.isfinite(bounds[0]) else 3.0  # without a bound, only a concave objective has a maximum
    experts, surrogate, extended = problem(seed, covariance, shift)
    update = project_experts(experts, surrogate, *bounds, covariance=covariance, weights=WEIGHTS)
    assert update.multipliers.feasible.all()
    slope, factor = whitened(experts, update.experts)
    phi, kl, of_mean = value_and_bounds(slope, factor, surrogate, extended)
    share = torch.ones(2).double() if covariance == "diagonal" else WEIGHTS
    torch.testing.assert_close(kl, update.multipliers.kl, rtol=1e-8, atol=1e-10)
    if covariance == "diagonal":
        assert (kl <= bounds[0] * (1.0 + 1e-9)).all()
        assert (torch.diag_embed(torch.diagonal(factor, dim1=-2, dim2=-1)) == factor).all()
    else:
        assert float(WEIGHTS @ kl) <= bounds[0] * (1.0 + 1e-9)
        assert (of_mean <= bounds[0] * (1.0 + 1e-9)).all()
        torch.testing.assert_close(update.experts.scale_trils[0], update.experts.scale_trils[1], rtol=0.0, atol=0.0)
    change = torch.diagonal(factor, dim1=-2, dim2=-1).log().sum(-1)
    assert (change >= -bounds[1] - 1e-9).all()
    best = best_of_solver(surrogate, extended, covariance, bounds)
    # SLSQP may exceed a bound by 1e-8, at a multiplier of up to about 100
    assert float(share @ (phi - kl)) == pytest.approx(best, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("covariance", ["diagonal", "tied"])
def test_single_expert_in_one_dimension_has_no_other_update_than_a_full_covariance(covariance):
    experts = random_experts(0, 1, 1, 1)
    surrogate = QuadraticSurrogate(
        torch.full((1, 1, 1), -0.5).double(), torch.ones(1, 1, 2).double(), torch.eye(2).double()[None]
    )
    full, restricted = (project_experts(experts, surrogate, 0.1, 0.05, covariance=c) for c in ("full", covariance))
    for name in ("weights", "biases", "scale_trils"):
        # both means have the same bound in the tied case, which is not active here
        torch.testing.assert_close(getattr(restricted.experts, name), getattr(full.experts, name), rtol=1e-8, atol=0.0)


def test_component_of_small_weight_moves_no_further_than_its_bound():
    experts, surrogate, _ = problem(0, "tied")
    steep = QuadraticSurrogate(surrogate.curvature, 1e3 * surrogate.linear, surrogate.context_moment)
    weights = torch.tensor([1.0 - 1e-9, 1e-9]).double()
    update = project_experts(experts, steep, 0.05, 1.0, covariance="tied", weights=weights)
    assert update.multipliers.feasible.all()
    assert float(update.multipliers.kl[1]) <= 0.1  # the mean and the common covariance use 0.05 each at most


def test_surrogate_that_is_not_finite_leaves_only_the_mean_of_its_tied_expert():
    experts, surrogate, _ = problem(0, "tied")
    surrogate.curvature[1] = math.nan
    update = project_experts(experts, surrogate, 0.05, 1.0, covariance="tied", weights=WEIGHTS)
    assert torch.equal(update.experts.weights[1], experts.weights[1])
    assert torch.equal(update.experts.scale_trils[0], update.experts.scale_trils[1])
    assert float((update.experts.scale_trils - experts.scale_trils).abs().max()) > 1e-3
    assert float((update.experts.weights[0] - experts.weights[0]).abs().max()) > 1e-3


@FAMILIES
def test_restriction_has_the_least_kl_of_its_family(covariance):
    """Other members of the family, near the restriction, are farther from the given experts."""
    given = random_experts(3, 2, 2, 0)
    best = restrict_covariances(given, covariance, WEIGHTS)

    def divergence(factors):
        old, new = (
            torch.distributions.MultivariateNormal(given.biases, scale_tril=f) for f in (given.scale_trils, factors)
        )
        return float(WEIGHTS @ torch.distributions.kl_divergence(old, new))

    generator = generator_of(0)
    for _ in range(20):
        change = 0.05 * normal(generator, 2, 2).exp()
        moved = best.scale_trils + (torch.diag_embed(change) if covariance == "diagonal" else change.tril())
        assert divergence(moved) > divergence(best.scale_trils)
