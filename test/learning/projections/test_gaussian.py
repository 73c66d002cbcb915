"""Projection of experts: it solves the thesis' dual, obeys both bounds, and says where no solution exists."""

import math

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal
from learning.projections.problems import Problem, bounds_of, random_problem
from scipy.optimize import minimize_scalar

from eim_ros.learning.projections import QuadraticSurrogate, project_experts, solve_multipliers

every_problem = pytest.mark.parametrize("seed", range(5))  # 5 x 40 = 200 random indefinite curvatures


def solved(seed, n_components=40, n_dims=4, n_context=2):
    problem = random_problem(seed, n_components, n_dims, n_context)
    return problem, project_experts(problem.experts, problem.surrogate, *bounds_of(seed))


@every_problem
def test_every_indefinite_surrogate_is_solved_within_both_bounds(seed):
    problem, update = solved(seed)
    _, kl, entropy_change = problem.primal(update)
    kl_bound, entropy_loss_bound = bounds_of(seed)
    assert update.multipliers.feasible.all()
    # both recomputed from the parameters: only rounding of the Cholesky factors is allowed for
    assert (kl <= kl_bound * (1.0 + 1e-9)).all()
    assert (entropy_change >= -entropy_loss_bound - 1e-9).all()


@every_problem
def test_reported_kl_and_entropy_are_those_of_the_parameters(seed):
    problem, update = solved(seed)
    _, kl, entropy_change = problem.primal(update)
    torch.testing.assert_close(update.multipliers.kl, kl, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(update.multipliers.entropy_change, entropy_change, rtol=1e-8, atol=1e-10)


@every_problem
def test_multipliers_are_complementary_to_the_bounds(seed):
    _, update = solved(seed)
    kl_bound, entropy_loss_bound = bounds_of(seed)
    solution = update.multipliers
    assert (solution.eta >= 0.0).all()
    assert (solution.omega >= 0.0).all()
    # the bracket of eta is closed to 1e-9 of itself, the KL then to about as much
    assert torch.where(solution.eta > 0.0, (kl_bound - solution.kl) / kl_bound, 0.0).abs().max() < 1e-6
    if math.isfinite(entropy_loss_bound):
        slack = solution.entropy_change + entropy_loss_bound
        assert torch.where(solution.omega > 0.0, slack, 0.0).abs().max() < 1e-9
    else:
        assert (solution.omega == 0.0).all()


def test_both_bounds_are_active_for_some_and_slack_for_other_problems():
    """The problems above do exercise all four cases."""
    cases = set()
    for seed in range(5):
        solution = solved(seed)[1].multipliers
        cases |= {(bool(eta > 0.0), bool(omega > 0.0)) for eta, omega in zip(solution.eta, solution.omega, strict=True)}
    assert cases == {(False, False), (False, True), (True, False), (True, True)}


@every_problem
def test_duality_gap_is_zero(seed):
    """Feasible, and equal to a value of the dual: a certificate of optimality."""
    problem, update = solved(seed)
    value, _, _ = problem.primal(update)
    for index in range(0, 40, 4):
        eta, omega = float(update.multipliers.eta[index]), float(update.multipliers.omega[index])
        kl_bound, entropy_loss_bound = bounds_of(seed)
        entropy_loss_bound = entropy_loss_bound if math.isfinite(entropy_loss_bound) else 0.0  # omega is 0 there
        dual = problem.expert(index).dual(eta, omega, kl_bound, entropy_loss_bound)
        assert dual == pytest.approx(float(value[index]), rel=1e-6, abs=1e-8)


@every_problem
def test_gradient_of_the_dual_is_the_slack_of_the_bounds(seed):
    """Equation A.17 by central differences of A.16; their error is about 1e-9 of the dual's size."""
    problem, update = solved(seed)
    solution = update.multipliers
    kl_bound, entropy_loss_bound = 0.3, 0.2
    for index in range(0, 40, 8):
        expert = problem.expert(index)
        eta, omega = float(solution.eta[index]) + 0.1, float(solution.omega[index]) + 0.1
        rho = torch.linalg.eigvalsh(problem.surrogate.curvature[index])
        precision = (eta + 1.0 + rho) / (eta + 1.0 + omega)
        assert (precision > 0.0).all()
        new = expert.updated(eta, omega)
        kl, entropy = kl_and_entropy(expert, *new)
        step = 1e-5 * (1.0 + eta)
        by_eta = difference(lambda t: expert.dual(eta + t, omega, kl_bound, entropy_loss_bound), step)  # noqa: B023
        by_omega = difference(lambda t: expert.dual(eta, omega + t, kl_bound, entropy_loss_bound), step)  # noqa: B023
        assert by_eta == pytest.approx(kl_bound - kl, rel=1e-5, abs=1e-5)
        assert by_omega == pytest.approx(entropy - expert.old_entropy() + entropy_loss_bound, rel=1e-5, abs=1e-5)


def difference(function, step):
    return (function(step) - function(-step)) / (2.0 * step)


def kl_and_entropy(expert, precision, slope, intercept):
    """Expected KL to the old expert and entropy of an expert in natural parameters."""
    covariance = np.linalg.inv(precision)
    whitening = np.linalg.inv(expert.factor)
    inner = whitening @ covariance @ whitening.T
    mean = (expert.context @ slope.T + intercept) @ covariance
    step = (mean - expert.context @ expert.weights.T - expert.bias) @ whitening.T
    log_det = np.linalg.slogdet(inner)[1]
    kl = 0.5 * (np.trace(inner) - len(inner) - log_det + (step**2).sum(1).mean())
    return kl, expert.old_entropy() + 0.5 * log_det


@pytest.mark.parametrize("seed", [0, 1, 2, 4])
def test_optimum_equals_a_search_over_both_multipliers(seed):
    problem, update = solved(seed, n_components=3, n_dims=3, n_context=1)
    for index in range(3):
        expert = problem.expert(index)
        least = max(0.0, -1.0 - float(np.linalg.eigvalsh(expert.curvature)[0])) + 1e-12

        def dual(log_eta, log_omega, expert=expert, least=least):
            return expert.dual(least + 10.0**log_eta, 10.0**log_omega, *bounds_of(seed))

        def best_omega(log_eta, dual=dual):
            return minimize_scalar(
                lambda t: dual(log_eta, t), bounds=(-9.0, 5.0), method="bounded", options={"xatol": 1e-7}
            )

        search = minimize_scalar(
            lambda t, best_omega=best_omega: best_omega(t).fun,
            bounds=(-9.0, 5.0),
            method="bounded",
            options={"xatol": 1e-7},
        )
        eta, omega = least + 10.0**search.x, 10.0 ** best_omega(search.x).x
        solution = update.multipliers
        found = expert.dual(float(solution.eta[index]), float(solution.omega[index]), *bounds_of(seed))
        assert found == pytest.approx(search.fun, rel=1e-7, abs=1e-7)  # the search stops 1e-9 short of a bound of 0
        # a minimum is flat: half of the digits of its value are those of its place
        assert float(solution.eta[index]) == pytest.approx(eta, rel=1e-3, abs=1e-3)
        assert float(solution.omega[index]) == pytest.approx(omega, rel=1e-3, abs=1e-3)


@every_problem
def test_update_equals_the_natural_parameter_form_of_the_thesis(seed):
    problem, update = solved(seed)
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
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-10 * max(1.0, np.abs(expected).max()))


def test_batch_equals_a_loop():
    problem, together = solved(1)
    for index in range(0, 40, 5):
        single = problem.single(index)
        alone = project_experts(single.experts, single.surrogate, *bounds_of(1))
        for name in ("weights", "biases", "scale_trils"):
            torch.testing.assert_close(
                getattr(together.experts, name)[index], getattr(alone.experts, name)[0], rtol=1e-7, atol=1e-9
            )


def test_expert_without_context_is_a_mixture_component():
    """dim(y) = 0 gives what a context that is constantly zero gives."""
    problem = random_problem(6, 10, 3, 0)
    update = project_experts(problem.experts, problem.surrogate, 0.1, 0.05)
    experts = problem.experts
    padded = Problem.of(
        torch.zeros(10, 3, 1).double(),
        experts.biases,
        experts.scale_trils,
        problem.surrogate.curvature,
        torch.cat([normal(generator_of(7), 10, 3, 1), problem.surrogate.linear], -1),
        torch.zeros(10, 20, 1).double(),
    )
    same = project_experts(padded.experts, padded.surrogate, 0.1, 0.05)
    torch.testing.assert_close(update.experts.biases, same.experts.biases, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(update.experts.scale_trils, same.experts.scale_trils, rtol=1e-9, atol=1e-9)
    assert update.experts.weights.shape == (10, 3, 0)


def test_kl_bound_is_active_when_step_is_cut():
    problem = random_problem(8, 20, 3, 1)
    free = project_experts(problem.experts, problem.surrogate, 1e6, math.inf).multipliers
    bound = 0.5 * float(free.kl.min())
    cut = project_experts(problem.experts, problem.surrogate, bound, math.inf).multipliers
    torch.testing.assert_close(cut.kl, torch.full_like(cut.kl, bound), rtol=1e-6, atol=0.0)


def test_zero_surrogate_leaves_experts_unchanged():
    problem = random_problem(9, 5, 3, 2)
    zero = torch.zeros_like(problem.surrogate.curvature), torch.zeros_like(problem.surrogate.linear)
    flat = Problem.of(
        *(getattr(problem.experts, n) for n in ("weights", "biases", "scale_trils")), *zero, problem.context
    )
    update = project_experts(flat.experts, flat.surrogate, 0.1, 0.1)
    assert torch.equal(update.experts.weights, problem.experts.weights)
    assert torch.equal(update.experts.biases, problem.experts.biases)
    torch.testing.assert_close(update.experts.scale_trils, problem.experts.scale_trils, rtol=1e-14, atol=1e-15)
    assert (update.multipliers.kl == 0.0).all()


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


@pytest.mark.parametrize("kl_weight", [0.1, 1.0, 2.0, 30.0])
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


def test_single_precision_obeys_the_bounds_to_its_rounding():
    problem = random_problem(12, 50, 4, 2)
    experts = type(problem.experts)(
        *(getattr(problem.experts, n).float() for n in ("weights", "biases", "scale_trils"))
    )
    surrogate = type(problem.surrogate)(
        *(getattr(problem.surrogate, n).float() for n in ("curvature", "linear", "context_moment"))
    )
    update = project_experts(experts, surrogate, 0.02, 0.05)
    assert update.experts.biases.dtype == torch.float32
    assert update.multipliers.feasible.all()
    assert (update.multipliers.kl <= 0.02).all()


def test_one_dimension_is_solved():
    problem = random_problem(13, 20, 1, 1)
    update = project_experts(problem.experts, problem.surrogate, 0.05, 0.05)
    assert update.multipliers.feasible.all()
