"""The projection of experts equals the update of the thesis, and reports missing solutions."""

import math

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal, random_experts
from learning.projections.problems import bounds_of, random_problem
from scipy.optimize import minimize

from eim_ros.learning.models import LinearExperts
from eim_ros.learning.projections import QuadraticSurrogate, project_experts, restrict_covariances, solve_multipliers

every_problem = pytest.mark.parametrize("seed", range(5))  # 5 x 40 random indefinite curvatures


def solved(seed, n_context=2):
    problem = random_problem(seed, 40, 4, n_context)
    return problem, project_experts(problem.experts, problem.surrogate, *bounds_of(seed))


@every_problem
@pytest.mark.parametrize("n_context", [0, 2])
def test_update_equals_the_natural_parameter_form_of_the_thesis(seed, n_context):
    problem, update = solved(seed, n_context)
    experts, solution = update.experts, update.multipliers
    for index in range(0, 40, 2):
        eta, omega = float(solution.eta[index]), float(solution.omega[index])
        precision, slope, intercept = problem.expert(index).updated(eta, omega)
        factor = experts.scale_trils[index].numpy()
        covariance = np.linalg.inv(precision)
        # the inverse multiplies rounding, relative to the largest entry, by condition numbers up to 1e5
        for found, expected in (
            (factor @ factor.T, covariance),
            (experts.weights[index].numpy(), covariance @ slope),
            (experts.biases[index].numpy(), covariance @ intercept),
        ):
            np.testing.assert_allclose(
                found, expected, rtol=0.0, atol=1e-10 * max(1.0, np.abs(expected).max(initial=0.0))
            )


def test_non_finite_surrogate_leaves_its_expert_alone_and_the_others_as_without_it():
    problem = random_problem(10, 6, 3, 2)
    expected = project_experts(problem.experts, problem.surrogate, 0.1, 0.1)
    problem.surrogate.curvature[1, 0, 2] = torch.nan
    problem.surrogate.linear[4, 1, 0] = torch.inf
    update = project_experts(problem.experts, problem.surrogate, 0.1, 0.1)
    assert update.multipliers.feasible.tolist() == [True, False, True, True, False, True]
    for name in ("weights", "biases", "scale_trils"):
        assert torch.equal(getattr(update.experts, name)[[1, 4]], getattr(problem.experts, name)[[1, 4]])
        torch.testing.assert_close(
            getattr(update.experts, name)[[0, 2, 3, 5]],
            getattr(expected.experts, name)[[0, 2, 3, 5]],
            rtol=1e-7,
            atol=1e-9,
        )


def test_zero_kl_bound_admits_no_step():
    problem = random_problem(11, 4, 3, 2)
    update = project_experts(problem.experts, problem.surrogate, 0.0, 0.1)
    for name in ("weights", "biases", "scale_trils"):
        torch.testing.assert_close(getattr(update.experts, name), getattr(problem.experts, name), rtol=1e-6, atol=1e-6)


def test_without_a_kl_bound_a_concave_problem_only_is_solved():
    """With eigenvalues of -1 or less, the objective grows without bound and has no maximum."""
    rho = torch.tensor([[0.5, -0.9], [0.5, -1.0], [0.5, -3.0]], dtype=torch.float64)
    solution = solve_multipliers(rho, torch.ones_like(rho), math.inf, 0.1)
    assert solution.feasible.tolist() == [True, False, False]
    assert solution.eta[0] == 0.0


@pytest.mark.parametrize("kl_weight", [0.1, 30.0])
@every_problem
def test_weight_of_the_kl_is_the_unit_of_phi(seed, kl_weight):
    """E[phi] - tau KL = tau (E[phi/tau] - KL), so the step is the same and the multipliers are tau times as large."""
    problem = random_problem(seed, 10, 3, 2)
    surrogate = problem.surrogate
    scaled = QuadraticSurrogate(surrogate.curvature / kl_weight, surrogate.linear / kl_weight, surrogate.context_moment)
    found = project_experts(problem.experts, surrogate, *bounds_of(seed), kl_weight=kl_weight)
    expected = project_experts(problem.experts, scaled, *bounds_of(seed))
    for name in ("weights", "biases", "scale_trils"):
        # multipliers are bracketed with a relative width of 1e-9
        torch.testing.assert_close(
            getattr(found.experts, name),
            getattr(expected.experts, name),
            rtol=1e-6,
            atol=1e-7 * (1.0 + 1.0 / kl_weight),
        )
    torch.testing.assert_close(found.multipliers.eta, kl_weight * expected.multipliers.eta, rtol=1e-6, atol=1e-7)


@every_problem
def test_without_the_kl_term_the_step_is_the_limit_of_small_weights(seed):
    problem = random_problem(seed, 10, 3, 2)
    found = project_experts(problem.experts, problem.surrogate, *bounds_of(seed), kl_weight=0.0)
    limit = project_experts(problem.experts, problem.surrogate, *bounds_of(seed), kl_weight=1e-10)
    assert found.multipliers.feasible.all()
    for name in ("weights", "biases", "scale_trils"):
        torch.testing.assert_close(getattr(found.experts, name), getattr(limit.experts, name), rtol=1e-5, atol=1e-6)
    value, kl, _ = problem.primal(found)
    reward = value + kl  # the objective is E[phi], so no other weight of the KL gives a greater E[phi]
    for weight in (0.1, 1.0, 10.0):
        other, cost, _ = problem.primal(
            project_experts(problem.experts, problem.surrogate, *bounds_of(seed), kl_weight=weight)
        )
        assert (other + cost <= reward + 1e-6 * (1.0 + reward.abs())).all()


def test_without_the_kl_term_and_its_bound_only_the_entropy_bound_holds_an_expert():
    rho = torch.tensor([[0.5, 0.1], [0.5, 0.0], [0.5, -0.1]], dtype=torch.float64)
    held = solve_multipliers(rho, torch.ones_like(rho), math.inf, 0.1, kl_weight=0.0)
    assert held.feasible.tolist() == [True, False, False]
    assert float(held.entropy_change[0]) == pytest.approx(-0.1, abs=1e-12)
    free = solve_multipliers(rho, torch.ones_like(rho), math.inf, math.inf, kl_weight=0.0)
    assert free.feasible.tolist() == [False, False, False]  # the optimum is a point mass
    warm = solve_multipliers(rho - 1.0, torch.ones_like(rho), math.inf, math.inf, kl_weight=1.05)
    assert warm.feasible.tolist() == [True, True, False]


def test_constant_phi_changes_nothing_without_the_kl_term_either():
    problem = random_problem(15, 5, 3, 2)
    zero = torch.zeros_like(problem.surrogate.curvature), torch.zeros_like(problem.surrogate.linear)
    flat = QuadraticSurrogate(*zero, problem.surrogate.context_moment)
    for bounds in ((0.1, 0.1), (math.inf, 0.1), (math.inf, math.inf)):
        update = project_experts(problem.experts, flat, *bounds, kl_weight=0.0)
        torch.testing.assert_close(update.experts.scale_trils, problem.experts.scale_trils, rtol=1e-12, atol=1e-13)
        assert torch.equal(update.experts.biases, problem.experts.biases)


def test_extreme_curvatures_give_a_feasible_step():
    rho = torch.tensor([[1e-12, -1e-12], [1e12, -1e12], [1e12, 1e-12], [-1e-3, -1e12]], dtype=torch.float64)
    for size in (0.0, 1.0, 1e12):
        solution = solve_multipliers(rho, torch.full_like(rho, size), 0.01, 0.01)
        assert solution.feasible.all()
        assert (solution.kl <= 0.01).all()
        assert (solution.entropy_change >= -0.01 - 1e-9).all()


WEIGHTS = torch.tensor([0.7, 0.3]).double()
FAMILIES = pytest.mark.parametrize("covariance", ["diagonal", "tied"])
BOUNDS = pytest.mark.parametrize("bounds", [(0.05, 1.0), (0.05, 0.01), (math.inf, 0.02), (1.0, math.inf)])


def problem(seed: int, covariance: str, shift: float = 0.0):
    """Return two experts with contexts. The curvatures are indefinite unless `shift` makes them definite."""
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
    """Return E[phi], KL and the KL of the mean, each (2,), from sums over contexts in whitened coordinates."""
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
    """Return slope (2, 2, 2) and factor (2, 2, 2) of the update in whitened coordinates of the old experts."""
    inverse = torch.linalg.inv(experts.scale_trils)
    step = torch.cat([update.weights - experts.weights, (update.biases - experts.biases).unsqueeze(-1)], -1)
    return inverse @ step, inverse @ update.scale_trils


def best_of_solver(surrogate, extended, covariance, bounds):
    """Return the largest objective that SLSQP finds from four starts. Objectives of diagonal experts are added."""
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
    # SLSQP may exceed a bound by 1e-8, which causes errors of 1e-6 with multipliers up to about 100
    assert float(share @ (phi - kl)) == pytest.approx(best, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("covariance", ["diagonal", "tied"])
def test_single_expert_in_one_dimension_has_no_other_update_than_a_full_covariance(covariance):
    experts = random_experts(0, 1, 1, 1)
    surrogate = QuadraticSurrogate(
        torch.full((1, 1, 1), -0.5).double(), torch.ones(1, 1, 2).double(), torch.eye(2).double()[None]
    )
    full, restricted = (project_experts(experts, surrogate, 0.1, 0.05, covariance=c) for c in ("full", covariance))
    for name in ("weights", "biases", "scale_trils"):
        # for tied covariances, the common bound of the means is not active here
        torch.testing.assert_close(getattr(restricted.experts, name), getattr(full.experts, name), rtol=1e-8, atol=0.0)


def test_component_of_small_weight_moves_no_further_than_its_bound():
    experts, surrogate, _ = problem(0, "tied")
    steep = QuadraticSurrogate(surrogate.curvature, 1e3 * surrogate.linear, surrogate.context_moment)
    weights = torch.tensor([1.0 - 1e-9, 1e-9]).double()
    update = project_experts(experts, steep, 0.05, 1.0, covariance="tied", weights=weights)
    assert update.multipliers.feasible.all()
    assert float(update.multipliers.kl[1]) <= 0.1  # at most 0.05 each for the mean and the common covariance


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
    """Nearby members of the family are farther from the given experts than the restriction."""
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
