"""Projection of experts: it is the thesis' update, and says where no solution exists."""

import math

import numpy as np
import pytest
import torch
from learning.projections.problems import bounds_of, random_problem

from eim_ros.learning.projections import QuadraticSurrogate, project_experts, solve_multipliers

every_problem = pytest.mark.parametrize("seed", range(5))  # 5 x 40 = 200 random indefinite curvatures


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
        # relative to the largest entry; the inverse loses its condition number, up to 1e5 here
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
    """With eigenvalues of -1 or less the objective grows without end: there is no maximum to step to."""
    rho = torch.tensor([[0.5, -0.9], [0.5, -1.0], [0.5, -3.0]], dtype=torch.float64)
    solution = solve_multipliers(rho, torch.ones_like(rho), math.inf, 0.1)
    assert solution.feasible.tolist() == [True, False, False]
    assert solution.eta[0] == 0.0


@pytest.mark.parametrize("kl_weight", [0.1, 30.0])
@every_problem
def test_weight_of_the_kl_is_the_unit_of_phi(seed, kl_weight):
    """E[phi] - tau KL = tau (E[phi/tau] - KL): the same step, with multipliers of tau times the size."""
    problem = random_problem(seed, 10, 3, 2)
    surrogate = problem.surrogate
    scaled = QuadraticSurrogate(surrogate.curvature / kl_weight, surrogate.linear / kl_weight, surrogate.context_moment)
    found = project_experts(problem.experts, surrogate, *bounds_of(seed), kl_weight=kl_weight)
    expected = project_experts(problem.experts, scaled, *bounds_of(seed))
    for name in ("weights", "biases", "scale_trils"):
        # the bracket of a multiplier is closed to 1e-9 of itself
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
    reward = value + kl  # E[phi] is all there is to maximise, so no other weight reaches more of it
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
    assert free.feasible.tolist() == [False, False, False]  # the best distribution is a point
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
