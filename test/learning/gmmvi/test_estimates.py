"""Importance weights and natural gradients agree with loops over components and samples, and with closed forms."""

import math

import pytest
import torch
from learning.gmmvi.problems import components_of, quadratic, ratio_at
from learning.models.random_models import generator_of, normal
from torch.distributions import MultivariateNormal

from eim_ros.learning.gmmvi import More, Regression, Stein
from eim_ros.learning.gmmvi.components import NaturalGradient
from eim_ros.learning.gmmvi.gradients import log_ratio
from eim_ros.learning.gmmvi.samples import Selection

KINDS = ("full", "diagonal")
RIDGE = torch.full((3,), 1e-12).double()


def normals(components):
    return [MultivariateNormal(m, scale_tril=L) for m, L in zip(components.means, components.scale_trils, strict=True)]


def log_weights_of(n_components):
    return torch.log_softmax(normal(generator_of(2), n_components), -1)


def in_own_coordinates(components, hessian, gradient, number):
    """Return -L'HL and L'g of one component. If covariances are diagonal, return only the diagonal of -L'HL."""
    factor = components.scale_trils[number]
    curvature = -factor.T @ hessian @ factor
    is_diagonal = hasattr(components, "scales")
    return (curvature.diagonal() if is_diagonal else curvature), factor.T @ gradient


@pytest.mark.parametrize(("kind", "n_components"), [("full", 3), ("full", 9), ("diagonal", 3)])
def test_densities_and_their_scores_are_those_of_the_normals(kind, n_components):
    """Densities of three components are computed from residuals, and those of nine from quadratic forms."""
    components = components_of(kind, n_components, 4)
    sample, share = normal(generator_of(1), 7, 4), normal(generator_of(4), 7, n_components).abs()
    densities = components.densities()
    expected = torch.stack([one.log_prob(sample) for one in normals(components)], -1)
    torch.testing.assert_close(densities.log_prob(sample), expected, rtol=1e-12, atol=1e-10)
    leaf = sample.clone().requires_grad_(True)
    mixed = (share * torch.stack([one.log_prob(leaf) for one in normals(components)], -1)).sum()
    torch.testing.assert_close(
        densities.mean_score(sample, share), torch.autograd.grad(mixed, leaf)[0], rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("self_normalised", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_stein_estimate_is_that_of_a_loop(kind, self_normalised):
    """The reference is g = sum w grad R and H = sym(P sum w (x - mu) grad R').

    The weights are w = N(x|o)/z(x) with the background z = sum (n_c/N) N(x|c).
    """
    components, log_weights = components_of(kind, 3, 2), log_weights_of(3)
    ratio, selection = ratio_at(components, log_weights, 20, *quadratic(2), self_normalised=self_normalised)
    found = Stein()(components, ratio, RIDGE)
    sample = selection.sample.clone().requires_grad_(True)
    parts = normals(components)
    log_model = torch.logsumexp(
        torch.stack([w + p.log_prob(sample) for w, p in zip(log_weights, parts, strict=True)]), 0
    )
    gradient = selection.gradient - torch.autograd.grad(log_model.sum(), sample)[0]
    sample = sample.detach()
    for number, part in enumerate(parts):
        slope, hessian, total = torch.zeros(2).double(), torch.zeros(2, 2).double(), 0.0
        for x, g in zip(sample, gradient, strict=True):
            background = sum(float(other.log_prob(x).exp()) / 3.0 for other in parts)
            weight = float(part.log_prob(x).exp()) / background
            total += weight
            slope += weight * g
            hessian += weight * part.precision_matrix @ torch.outer(x - part.mean, g)
        total = total if self_normalised else float(len(sample))
        hessian = 0.5 * (hessian + hessian.T) / total
        curvature, own_slope = in_own_coordinates(components, hessian, slope / total, number)
        torch.testing.assert_close(found.curvature[number], curvature, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(found.slope[number, :, 0], own_slope, rtol=1e-8, atol=1e-8)
    expected = torch.stack(
        [(ratio.weights.values[:, k] * ratio.value).sum() / ratio.weights.total[k] for k in range(3)]
    )
    torch.testing.assert_close(ratio.reward(components), expected.unsqueeze(-1))


@pytest.mark.parametrize("kind", KINDS)
def test_zero_order_estimate_is_that_of_a_loop(kind):
    """The reference is a weighted ridge regression on [y_i y_j, y, 1] per component; the constant has no ridge."""
    components, log_weights, ridge = components_of(kind, 3, 2), log_weights_of(3), 0.01
    ratio, _ = ratio_at(components, log_weights, 20, *quadratic(2))
    found = More()(components, ratio, torch.full((3,), ridge).double())
    for number in range(3):
        whitened = components.take(torch.tensor([number])).whiten(ratio.sample.unsqueeze(0))[0]
        pairs = [(0, 0), (1, 1)] if kind == "diagonal" else [(0, 0), (0, 1), (1, 1)]
        columns = [whitened[:, i] * whitened[:, j] for i, j in pairs]
        features = torch.stack([*columns, *whitened.T, torch.ones(len(whitened)).double()], -1)
        weights = ratio.weights.values[:, number] / ratio.weights.values[:, number].sum()
        penalty = ridge * torch.eye(features.shape[1]).double()
        penalty[-1, -1] = 0.0
        solution = torch.linalg.solve(
            features.T @ (weights[:, None] * features) + penalty, features.T @ (weights * ratio.value)
        )
        quadratic_part = torch.zeros(2, 2).double()
        for coefficient, (i, j) in zip(solution, pairs, strict=False):
            quadratic_part[i, j] = coefficient
        curvature = -(quadratic_part + quadratic_part.T)
        curvature = curvature.diagonal() if kind == "diagonal" else curvature
        torch.testing.assert_close(found.curvature[number], curvature, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(found.slope[number, :, 0], solution[len(pairs) : -1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_regression_on_gradients_is_that_of_a_loop(kind):
    """The reference fits L' grad R to [y, 1] by weighted least squares, per coordinate if covariances are diagonal."""
    components, log_weights = components_of(kind, 3, 2), log_weights_of(3)
    ratio, _ = ratio_at(components, log_weights, 20, *quadratic(2))
    found = Regression()(components, ratio, RIDGE)
    for number in range(3):
        whitened = components.take(torch.tensor([number])).whiten(ratio.sample.unsqueeze(0))[0]
        root = (ratio.weights.values[:, number] / ratio.weights.values[:, number].sum()).sqrt().unsqueeze(-1)
        gradient = root * (ratio.gradient @ components.scale_trils[number])
        one = torch.ones(len(whitened), 1).double()
        if kind == "full":
            solution = torch.linalg.lstsq(root * torch.cat([whitened, one], -1), gradient).solution
            curvature, slope = -0.5 * (solution[:2] + solution[:2].T), solution[2]
        else:
            each = [
                torch.linalg.lstsq(root * torch.cat([whitened[:, j : j + 1], one], -1), gradient[:, j : j + 1]).solution
                for j in range(2)
            ]
            curvature, slope = -torch.cat([part[0] for part in each]), torch.cat([part[1] for part in each])
        torch.testing.assert_close(found.curvature[number], curvature, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(found.slope[number, :, 0], slope, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("estimator", "tolerance"), [(Stein(), 0.05), (More(), 1e-6), (Regression(), 1e-10)])
def test_all_estimates_agree_with_the_closed_form_of_a_quadratic_target(estimator, tolerance):
    """For one component, R = log p~ - log q is quadratic, E[hessian] = P - A, and E[gradient] = b - A mu.

    The regressions are exact except for a ridge. Stein's estimate has the noise of 30000 samples.
    """
    components, (matrix, vector) = components_of("full", 1, 3), quadratic(3)
    ratio, _ = ratio_at(components, torch.zeros(1).double(), 30_000, matrix, vector)
    found = estimator(components, ratio, RIDGE[:1])
    factor, mean = components.scale_trils[0], components.means[0]
    expected = NaturalGradient(
        (factor.T @ matrix @ factor - torch.eye(3).double()).unsqueeze(0),
        (factor.T @ (vector - matrix @ mean)).unsqueeze(0),
    )
    atol = tolerance * float(expected.curvature.abs().max())
    torch.testing.assert_close(found.curvature, expected.curvature, rtol=0.0, atol=atol)
    torch.testing.assert_close(found.slope, expected.slope.unsqueeze(-1), rtol=0.0, atol=atol)


def test_own_samples_have_weight_one_and_others_none():
    components, log_weights = components_of("full", 3, 2), log_weights_of(3)
    ratio, selection = ratio_at(components, log_weights, 20, *quadratic(2), own_samples=True)
    mine = torch.nn.functional.one_hot(selection.component, 3).double()
    assert torch.equal(ratio.weights.values, mine)
    assert torch.equal(ratio.weights.effective_samples(), torch.full((3,), 20.0).double())


def test_component_far_from_all_samples_is_weighed_in_logs():
    """All weights of the component are below the smallest representable number, but their ratios remain correct."""
    components = components_of("full", 3, 2)
    components.means[2] += 60.0 * components.scale_trils[2].diagonal().sum()
    counts = torch.tensor([15, 15, 0])
    sample, component = components.sample(counts, generator_of(3))
    selection = Selection(sample, torch.zeros(30).double(), None, counts.double(), component, None)
    ratio = log_ratio(components, log_weights_of(3), selection, 1.0, 20.0)
    log_prob = torch.stack([one.log_prob(sample) for one in normals(components)], -1)
    log_background = torch.logsumexp(log_prob[:, :2] - math.log(2.0), -1)
    expected = torch.softmax(log_prob - log_background.unsqueeze(-1), 0)
    assert float((log_prob[:, 2] - log_background).max()) < -745.0
    torch.testing.assert_close(ratio.weights.values / ratio.weights.total, expected, rtol=1e-9, atol=1e-12)
