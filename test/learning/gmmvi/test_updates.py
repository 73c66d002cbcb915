"""The rules for components, weights and step sizes agree with their formulas for a single component."""

import math

import pytest
import torch
from learning.gmmvi.problems import components_of
from learning.models.random_models import generator_of, normal
from torch.distributions import MultivariateNormal, kl_divergence

from eim_ros.learning.gmmvi import (
    AdaptiveStepSize,
    DecayingStepSize,
    DirectUpdate,
    DirectWeights,
    EntropyBoundedUpdate,
    EntropyBoundedWeights,
    FixedStepSize,
    ImprovedBayesianUpdate,
    TrustRegionUpdate,
    TrustRegionWeights,
)
from eim_ros.learning.gmmvi.components import NaturalGradient
from eim_ros.learning.models import LinearExperts
from eim_ros.learning.projections import QuadraticSurrogate, project_categorical, project_experts

KINDS = ("full", "diagonal")
N = 4


def steps(size):
    return torch.full((N,), size, dtype=torch.float64)


def natural_gradient(components, kind, strength=1.0, seed=9):
    """Return random gradients in whitened coordinates, and these gradients as G = -E[hessian] and g = E[gradient]."""
    generator = generator_of(seed)
    matrix = strength * normal(generator, N, 3, 3)
    curvature, slope = 0.5 * (matrix + matrix.mT), strength * normal(generator, N, 3)
    if kind == "diagonal":
        curvature = curvature.diagonal(dim1=-2, dim2=-1)
    inverse = torch.linalg.inv(components.scale_trils)
    whole = torch.diag_embed(curvature) if kind == "diagonal" else curvature
    return (
        NaturalGradient(curvature, slope.unsqueeze(-1)),
        inverse.mT @ whole @ inverse,
        (inverse.mT @ slope.unsqueeze(-1)).squeeze(-1),
    )


def applied(components, update, gradient, step):
    spectrum = components.spectrum(gradient)
    done = update(spectrum, step)
    return components.moved(spectrum, done.precision, done.shift, done.accepted)


def weights_after(rule, log_weights, reward, step):
    change = rule(log_weights.unsqueeze(0), reward.unsqueeze(0), torch.tensor(step).double())
    return change.followed(log_weights, reward)


def direct(mean, covariance, curvature, gradient, beta):
    """Return mu' and P' of the update P' = P + beta G, P'mu' = P mu + beta (G mu + g)."""
    precision = torch.linalg.inv(covariance)
    new = precision + beta * curvature
    return torch.linalg.solve(new, precision @ mean + beta * (curvature @ mean + gradient)), new


def assert_component(components, number, mean, precision):
    factor = components.scale_trils[number]
    torch.testing.assert_close(components.means[number], mean, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(torch.linalg.inv(factor @ factor.T), precision, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("kind", "strength"), [("full", 2.0), ("diagonal", 4.0)])
def test_direct_update_is_the_natural_gradient_and_is_undone_where_it_is_not_positive(kind, strength):
    components = components_of(kind, N, 3)
    gradient, curvature, slope = natural_gradient(components, kind, strength)
    moved, accepted = applied(components, DirectUpdate(), gradient, steps(0.4))
    covariance = components.scale_trils @ components.scale_trils.mT
    for number in range(N):
        mean, precision = direct(components.means[number], covariance[number], curvature[number], slope[number], 0.4)
        is_positive = bool((torch.linalg.eigvalsh(precision) > 0.0).all())
        assert bool(accepted[number]) == is_positive
        if is_positive:
            assert_component(moved, number, mean, precision)
        else:
            assert torch.equal(moved.means[number], components.means[number])
            assert torch.equal(moved.scale_trils[number], components.scale_trils[number])
    assert 0 < int(accepted.sum()) < N


@pytest.mark.parametrize("kind", KINDS)
def test_improved_bayesian_update_is_its_formula_and_always_positive(kind):
    """Compare with P' = P + beta (G + beta/2 G Sigma G) and mu' = mu + beta Sigma g."""
    components, beta = components_of(kind, N, 3), 0.8
    gradient, curvature, slope = natural_gradient(components, kind, 4.0)
    moved, accepted = applied(components, ImprovedBayesianUpdate(), gradient, steps(beta))
    assert bool(accepted.all())
    for number in range(N):
        covariance = components.scale_trils[number] @ components.scale_trils[number].T
        change = curvature[number]
        precision = torch.linalg.inv(covariance) + beta * (change + 0.5 * beta * change @ covariance @ change)
        mean = components.means[number] + beta * covariance @ slope[number]
        assert_component(moved, number, mean, precision)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bound", [1e-3, 0.1, 1.0])
def test_trust_region_update_uses_its_bound_and_is_a_natural_gradient_step(kind, bound):
    """The KL from the eigenvalues equals the KL from the Cholesky factors to 1e-10."""
    components = components_of(kind, N, 3)
    gradient, curvature, slope = natural_gradient(components, kind, 3.0)
    spectrum = components.spectrum(gradient)
    step = TrustRegionUpdate()(spectrum, steps(bound))
    moved, accepted = components.moved(spectrum, step.precision, step.shift, step.accepted)
    assert bool(accepted.all())
    for number in range(N):
        old = MultivariateNormal(components.means[number], scale_tril=components.scale_trils[number])
        new = MultivariateNormal(moved.means[number], scale_tril=moved.scale_trils[number])
        kl = float(kl_divergence(new, old))
        assert float(step.kl()[number]) == pytest.approx(kl, abs=1e-10)
        assert 0.9 * bound <= kl <= bound * (1.0 + 1e-9)
        change = new.precision_matrix - old.precision_matrix
        beta = float((change * curvature[number]).sum() / curvature[number].square().sum())
        assert 0.0 < beta <= 1.0
        mean, precision = direct(old.mean, old.covariance_matrix, curvature[number], slope[number], beta)
        assert_component(moved, number, mean, precision)


def test_trust_region_goes_to_the_maximum_and_no_further_where_the_bound_allows_for_it():
    """For a quadratic target, one step reaches N(m, S). A larger bound has no effect, because eta is at least 1."""
    components = components_of("full", N, 3)
    target = components_of("full", 1, 3, seed=8)
    factor, mean = target.scale_trils[0], target.means[0]
    precision = torch.linalg.inv(factor @ factor.T)
    own = components.scale_trils
    gradient = NaturalGradient(
        own.mT @ precision @ own - torch.eye(3).double(),
        (own.mT @ (precision @ (mean - components.means).unsqueeze(-1))),
    )
    moved, _ = applied(components, TrustRegionUpdate(), gradient, steps(1e6))
    for number in range(N):
        assert_component(moved, number, mean, precision)


def test_trust_region_holds_a_component_whose_target_has_no_maximum_and_skips_what_is_not_finite():
    components = components_of("full", N, 3)
    gradient, _, _ = natural_gradient(components, "full")
    curvature = -50.0 * torch.eye(3).double().expand(N, 3, 3).clone()
    curvature[0] = torch.nan
    moved, accepted = applied(
        components,
        TrustRegionUpdate(),
        NaturalGradient(curvature, gradient.slope),
        steps(0.2),
    )
    assert accepted.tolist() == [False, True, True, True]
    assert torch.equal(moved.means[0], components.means[0])
    assert bool((moved.entropy()[1:] > components.entropy()[1:]).all())


def test_direct_weights_follow_the_reward():
    log_weights, reward = torch.log_softmax(normal(generator_of(0), 5), -1), normal(generator_of(1), 5)
    found = weights_after(DirectWeights(), log_weights, reward, 0.3)
    raw = [math.exp(float(w) + 0.3 * float(r)) for w, r in zip(log_weights, reward, strict=True)]
    torch.testing.assert_close(found.exp(), torch.tensor([value / sum(raw) for value in raw]).double())


@pytest.mark.parametrize("bound", [1e-3, 0.1, 50.0])
def test_weights_within_a_trust_region_take_the_longest_step_that_keeps_it(bound):
    """The step is log w' = log w + beta R with the greatest beta <= 1. A large bound gives the full step."""
    log_weights, reward = torch.log_softmax(normal(generator_of(0), 5), -1), 3.0 * normal(generator_of(1), 5)
    found = weights_after(TrustRegionWeights(), log_weights, reward, bound)
    kl = float((found.exp() * (found - log_weights)).sum())
    assert kl <= bound
    change = found - log_weights
    beta = (change - change.mean()) / (reward - reward.mean())
    torch.testing.assert_close(beta, beta[:1].expand(5), rtol=1e-8, atol=0.0)
    assert kl >= 0.9 * bound or float(beta[0]) == pytest.approx(1.0, abs=1e-12)


def test_weight_that_has_vanished_comes_back():
    found = torch.tensor([0.0, -400.0]).double()
    for _ in range(6):
        found = weights_after(TrustRegionWeights(), found, torch.tensor([0.0, 60.0]).double(), 4.0)
    assert float(found[1].exp()) > 0.5


def test_step_sizes_follow_their_rules():
    step, n_updates = torch.tensor([0.1, 0.9, 0.0011]).double(), torch.tensor([0.0, 1.0, 32.0]).double()
    gain = torch.tensor([0.0, 2.0, -1.0]).double()
    assert torch.equal(FixedStepSize(0.5)(step, n_updates, gain), step)
    decayed = DecayingStepSize(0.5, 0.6)(step, n_updates, gain)
    torch.testing.assert_close(decayed, torch.tensor([0.5, 0.25, 0.5 / (1.0 + 32.0**0.6)]).double())
    adapted = AdaptiveStepSize(0.1, 0.001, 1.0)(step, n_updates, gain)
    torch.testing.assert_close(adapted, torch.tensor([0.085, 1.0, 0.001]).double())
    unknown = AdaptiveStepSize(0.1, 0.001, 1.0)(step, n_updates, torch.full((3,), torch.nan).double())
    assert torch.equal(unknown, step)


@pytest.mark.parametrize("bounds", [(0.1, 0.05), (0.1, 10.0), (1e6, 0.02), (1e-3, 1e-4)])
def test_entropy_bounded_update_is_the_projection_of_experts(bounds):
    components = components_of("full", N, 3)
    gradient, _, _ = natural_gradient(components, "full", 2.0)
    moved, accepted = applied(components, EntropyBoundedUpdate(bounds[1]), gradient, steps(bounds[0]))
    experts = LinearExperts(torch.zeros(N, 3, 0).double(), components.means, components.scale_trils)
    surrogate = QuadraticSurrogate(gradient.curvature, gradient.slope, torch.ones(N, 1, 1).double())
    expected = project_experts(experts, surrogate, *bounds)
    assert bool(accepted.all())
    torch.testing.assert_close(moved.means, expected.experts.biases, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(moved.scale_trils, expected.experts.scale_trils, rtol=1e-9, atol=1e-9)
    assert bool((moved.entropy() >= components.entropy() - bounds[1] - 1e-9).all())


def test_entropy_bounded_update_leaves_what_is_not_finite():
    components = components_of("full", N, 3)
    gradient, _, _ = natural_gradient(components, "full")
    gradient.curvature[0], gradient.slope[1] = torch.nan, torch.nan
    moved, accepted = applied(components, EntropyBoundedUpdate(0.05), gradient, steps(0.1))
    assert accepted.tolist() == [False, False, True, True]
    assert torch.equal(moved.means[:2], components.means[:2])


@pytest.mark.parametrize("bounds", [(0.05, 0.01), (0.05, 10.0), (50.0, 0.02)])
def test_entropy_bounded_weights_are_the_projection_of_probabilities(bounds):
    log_weights = torch.log_softmax(normal(generator_of(0), 7, 5), -1)
    reward = 3.0 * normal(generator_of(1), 7, 5)
    step = EntropyBoundedWeights(bounds[1])(log_weights, reward, torch.tensor(bounds[0], dtype=torch.float64))
    expected = project_categorical(log_weights, reward, *bounds)
    torch.testing.assert_close(step.followed(log_weights, reward), expected.log_probs, rtol=1e-9, atol=1e-9)
