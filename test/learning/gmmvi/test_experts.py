"""Variational inference with mixtures of experts extends the rules for mixtures to contexts."""

import itertools
import math

import pytest
import torch
from learning.gmmvi.problems import three_modes, wide_start, words
from learning.models.random_models import generator_of, normal, random_mixture_of_experts
from learning.toys import kl_between
from torch.distributions import MultivariateNormal

from eim_ros.core.errors import ConfigurationError, DataError, DistributionError
from eim_ros.learning.gmmvi import (
    GMMVI,
    DirectWeights,
    GMMVIConfig,
    More,
    Regression,
    Stein,
)
from eim_ros.learning.gmmvi.experts import ExpertComponents
from eim_ros.learning.gmmvi.gate import ContextGate, with_common_rest
from eim_ros.learning.gmmvi.gradients import log_ratio
from eim_ros.learning.gmmvi.samples import Selection
from eim_ros.learning.gmmvi.weights import OwnWeights
from eim_ros.learning.models import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.learning.run import Status

CONTEXT = normal(generator_of(1), 60, 1)


def components_at(n_components, n_dims=2, n_context=2, n_contexts=40, seed=0):
    model = random_mixture_of_experts(seed, n_components, n_dims, n_context)
    gate = ContextGate(model.gating.weights, model.gating.biases, normal(generator_of(seed + 1), n_contexts, n_context))
    return ExpertComponents(model.experts, gate)


def quadratic_ratio(components, n_samples, seed=3):
    """Return R = -1/2 x'Ax + x'(By + b) - log q at samples of the components, A, and [B b]."""
    n_dims, n_context = components.n_dims, components.n_context
    matrix = normal(generator_of(seed), n_dims, n_dims)
    matrix = matrix @ matrix.T + 0.5 * torch.eye(n_dims).double()
    slope = normal(generator_of(seed + 1), n_dims, n_context + 1)
    counts = torch.full((components.n_components,), n_samples)
    rows, component = components.sample(counts, generator_of(11))
    x, y = rows[:, :n_dims], torch.cat([rows[:, n_dims:], torch.ones(len(rows), 1).double()], -1)
    gradient = y @ slope.T - x @ matrix
    value = (x * (y @ slope.T - 0.5 * x @ matrix)).sum(-1)
    selection = Selection(rows, value, gradient, counts.double(), component, None)
    return log_ratio(components, components.gate.log_mass, selection, 1.0, 20.0), matrix, slope


def test_without_dependence_on_contexts_it_is_the_inference_of_a_mixture():
    """With one context, each combination draws the same samples as for a mixture and gives the same model."""
    target, place = three_modes(), torch.tensor([[0.7, -2.0]]).double()
    for number, word in enumerate(["SAMTRON", "LAMTRUX", "ZAMTROG", "SEPIFUX", "ZEMYDON", "SAPYRUN", "ZEPTDOX"]):
        settings = {
            "n_iterations": 10,
            "n_samples": 20,
            "adaptation.add_every": 4,
            "adaptation.delete_after": 6,
            "adaptation.n_candidates": 100,
            "adaptation.n_climbing": 10,
        }
        config = GMMVIConfig.named(word, reuse_ratio=float(number % 2), **settings)
        plain = GMMVI(target, config).fit(start=wide_start(3), generator=generator_of(0))
        experts = GMMVI(lambda y, x: target.log_prob(x), config).fit(place, wide_start(3), generator=generator_of(0))
        elbo, same = (result.history.column("elbo") for result in (plain, experts))
        assert elbo == pytest.approx(same, rel=1e-6, abs=1e-6), word
        one, other = plain.state.mixture, experts.state.mixture
        for name in ("means", "scale_trils"):
            found, expected = getattr(other.components, name), getattr(one.components, name)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5, msg=word)
        torch.testing.assert_close(other.log_weights, one.log_weights, rtol=1e-5, atol=1e-5, msg=word)


@pytest.mark.parametrize("first", ["SE", "SA", "ZE", "ZA"])
def test_combinations_run_six_iterations_with_contexts(first):
    target = random_mixture_of_experts(2, 2, 2, 1)
    for number, word in enumerate(word for word in words(0) if word.startswith(first)):
        config = GMMVIConfig.named(
            word,
            n_iterations=6,
            n_samples=12,
            reuse_ratio=float(number % 2),
            n_contexts=(0, 30)[number // 2 % 2],
            **{
                "adaptation.add_every": 3,
                "adaptation.delete_after": 30,
                "adaptation.n_candidates": 200,
                "adaptation.n_climbing": 10,
            },
        )
        result = GMMVI(target, config).fit(CONTEXT, wide_start(3), generator=generator_of(number))
        assert result.status is Status.MAX_ITERATIONS, word
        assert all(bool(torch.isfinite(value).all()) for value in result.model.tensors().values()), word
        elbo = result.history.column("elbo")
        assert len(elbo) == 6, word
        assert all(math.isfinite(value) for value in elbo), word
        assert (result.model.n_components > 3) == (first[1] == "A"), word


@pytest.mark.parametrize("word", ["SEMTRUX", "LEMTRUX", "ZEMTRUX", "SEMYRUX", "SEMIRUX"])
def test_one_expert_finds_a_quadratic_target(word):
    """For log p(x|y) = -1/2 x'Ax + x'(By + b), the expert has the mean A^-1 (By + b) and the covariance A^-1."""
    target = random_mixture_of_experts(4, 1, 2, 2)
    factor, experts = target.experts.scale_trils[0], target.experts
    precision = torch.cholesky_inverse(factor)

    def log_density(y, x):
        slope = (y @ experts.weights[0].T + experts.biases[0]) @ precision
        return (x * (slope - 0.5 * x @ precision)).sum(-1)

    first = {} if word[3] == "T" else {"component_step.first": 0.1}
    config = GMMVIConfig.named(word, n_iterations=150, n_samples=200, **first)
    context = normal(generator_of(1), 100, 2)
    model = GMMVI(log_density, config).fit(context, wide_start(1), generator=generator_of(0)).model
    # 0.02 allows for the noise of Stein's estimate with 200 samples
    assert kl_between(model, target) < (1e-9 if word[0] in "LZ" else 0.02)


@pytest.mark.parametrize("n_components", [3, 9])
def test_densities_and_scores_are_those_of_the_joint_relative_to_the_contexts(n_components):
    """The reference is log q(o|y)/q(o) + log N(x|o, y).

    Densities of three experts are computed from residuals, and those of nine from quadratic forms.
    """
    components = components_at(n_components)
    model, rows = components.model(components.gate.log_mass), normal(generator_of(2), 6, 4)
    share = normal(generator_of(4), 6, n_components).abs()

    def expected(rows):
        x, y = rows[:, :2], rows[:, 2:]
        mean, factor = model.experts.means(y), model.experts.scale_trils
        parts = [MultivariateNormal(mean[:, k], scale_tril=factor[k]).log_prob(x) for k in range(n_components)]
        return torch.stack(parts, -1) + model.gating(y) - components.gate.log_mass

    for densities in (components.densities(), components.snapshot().densities()):
        torch.testing.assert_close(densities.log_prob(rows), expected(rows), rtol=1e-10, atol=1e-10)
    some = torch.tensor([0, 2])
    for taken in (components.take(some), components.snapshot().take(some)):
        torch.testing.assert_close(taken.densities().log_prob(rows), expected(rows)[:, some], rtol=1e-10, atol=1e-10)
    leaf = rows.clone().requires_grad_(True)
    mixed = torch.autograd.grad((share * expected(leaf)).sum(), leaf)[0][:, :2]
    torch.testing.assert_close(components.densities().mean_score(rows, share), mixed, rtol=1e-8, atol=1e-8)


def test_gate_weighs_its_contexts_and_whitens_their_features():
    gate = components_at(3).gate
    probabilities = torch.softmax(gate.context @ gate.weights.T + gate.biases, -1)
    torch.testing.assert_close(gate.log_mass.exp(), probabilities.mean(0))
    for number in range(3):
        share = probabilities[:, number] / probabilities[:, number].sum()
        features = gate.features(gate.context.expand(3, -1, -1))[number]
        extended = torch.cat([torch.ones(40, 1).double(), features], -1)
        moment = extended.T @ (share.unsqueeze(-1) * extended)
        torch.testing.assert_close(moment, torch.eye(3).double(), rtol=0.0, atol=1e-4)  # the ridge of 1e-6
        coefficients = normal(generator_of(8), 3, 3)
        torch.testing.assert_close(gate.values(coefficients)[:, number], extended @ coefficients[number])
    drawn = gate.sample(20_000, generator_of(5))
    torch.testing.assert_close(drawn.mean(1), gate.center, rtol=0.0, atol=0.04)  # 4 standard errors


@pytest.mark.parametrize(("estimator", "tolerance"), [(Stein(), 0.06), (More(), 1e-6), (Regression(), 1e-7)])
def test_estimates_agree_with_the_closed_form_of_a_quadratic_target(estimator, tolerance):
    """For one expert, G = A - P and E[grad R|y] = (B - A W + ...) y, because its score is zero at the mean."""
    components = components_at(1, n_contexts=4000)
    ratio, matrix, slope = quadratic_ratio(components, 30_000)
    found = estimator(components, ratio, torch.full((1,), 1e-12).double())
    factor, experts = components.scale_trils[0], components.experts
    curvature = factor.T @ matrix @ factor - torch.eye(2).double()
    on_context = factor.T @ (slope[:, :2] - matrix @ experts.weights[0])
    at_center = factor.T @ (slope[:, 2] - matrix @ experts.biases[0]) + on_context @ components.gate.center[0]
    on_features = torch.cat([at_center.unsqueeze(-1), on_context @ components.gate.scale_tril[0]], -1)
    scale = float(torch.cat([curvature.abs().flatten(), on_features.abs().flatten()]).max())
    torch.testing.assert_close(found.curvature[0], curvature, rtol=0.0, atol=tolerance * scale)
    torch.testing.assert_close(found.slope[0], on_features, rtol=0.0, atol=tolerance * scale)


def test_estimates_of_weighted_samples_are_those_of_a_loop():
    """The references are loops over components.

    Loops average v grad'L and f grad'L for Stein's estimate, and fit L'grad R to [v, u, 1] for the regression.
    """
    components = components_at(3)
    ratio, _, _ = quadratic_ratio(components, 60)
    ridge = torch.full((3,), 1e-12).double()
    stein, regression = Stein()(components, ratio, ridge), Regression()(components, ratio, ridge)
    own = components.whiten(ratio.sample.expand(3, -1, -1))
    for number in range(3):
        weights = ratio.weights.values[:, number] / ratio.weights.values[:, number].sum()
        gradient = ratio.gradient @ components.scale_trils[number]
        v, features = own[number, :, :2], torch.cat([torch.ones(180, 1).double(), own[number, :, 2:]], -1)
        hessian = v.T @ (weights.unsqueeze(-1) * gradient)
        torch.testing.assert_close(stein.curvature[number], -0.5 * (hessian + hessian.T), rtol=1e-9, atol=1e-9)
        on_features = gradient.T @ (weights.unsqueeze(-1) * features)
        torch.testing.assert_close(stein.slope[number], on_features, rtol=1e-9, atol=1e-9)
        root = weights.sqrt().unsqueeze(-1)
        solution = torch.linalg.lstsq(root * torch.cat([v, features], -1), root * gradient).solution
        curvature = -0.5 * (solution[:2] + solution[:2].T)
        torch.testing.assert_close(regression.curvature[number], curvature, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(regression.slope[number], solution[2:].T, rtol=1e-6, atol=1e-6)


def test_rest_that_is_common_to_all_components_is_no_merit_of_one():
    """The reference solves (F + damping) d = E_o[n f_o] by loops over components, contexts and features.

    If all components have the same reward, the gating moves less than a twentieth as far as with the linear fits.
    """
    gate = components_at(3).gate
    context, probabilities = gate.context, gate.log_probs.exp()
    features = torch.cat([torch.ones(3, 40, 1).double(), gate.features(context.expand(3, -1, -1))], -1)
    common = (context @ normal(generator_of(5), 2, 1)).square().expand(-1, 3)
    for own in (torch.zeros(40, 3).double(), (context @ normal(generator_of(6), 2, 3)).square()):
        rewards = common + own
        fits = []
        for k in range(3):
            root = gate.shares[:, k : k + 1].sqrt()
            fits.append(torch.linalg.lstsq(root * features[k], root * rewards[:, k : k + 1]).solution[:, 0])
        fitted = torch.stack(fits)
        rest = (probabilities * (rewards - torch.einsum("kni,ki->nk", features, fitted))).sum(-1)
        rest = rest - rest.mean()
        damping = 0.01 + 3.0 / torch.tensor([1e3, 3e2, 1e5]).double()
        matrix, right = torch.diag(damping.repeat_interleave(3)), torch.zeros(9).double()
        for k, n, i in itertools.product(range(3), range(40), range(3)):
            factor = float(probabilities[n, k] * features[k, n, i] / gate.log_mass[k].exp()) / 40
            right[3 * k + i] += factor * rest[n]
            for other, j in itertools.product(range(3), range(3)):
                matrix[3 * k + i, 3 * other + j] += (
                    factor * (float(k == other) - probabilities[n, other]) * features[other, n, j]
                )
        expected = fitted - torch.linalg.solve(matrix, right).reshape(3, 3)
        pairs = (
            context.repeat_interleave(3, 0),
            rewards.flatten(),
            probabilities.flatten() / 40,
            3.0 / (damping - 0.01),
        )
        found = with_common_rest(gate, fitted, *pairs, n_steps=40)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
        if not bool(own.any()):
            spread = [float((gate.values(part) - gate.values(part).mean(-1, keepdim=True)).std()) for part in
                      (fitted, with_common_rest(gate, fitted, *pairs))]  # fmt: skip
            assert spread[1] < 0.05 * spread[0]


def test_gating_follows_linear_rewards_by_its_natural_gradient():
    """For R_o = rho_o [y, 1] and the Fisher matrix F of all logits, F rho is the gradient of E sum_o q(o|y) R_o(y)."""
    components = components_at(3)
    gate = components.gate
    rows, component = components.sample(torch.full((3,), 500), generator_of(0))
    linear = normal(generator_of(6), 3, 3)
    design = torch.cat([gate.context, torch.ones(40, 1).double()], -1)
    parameters = torch.cat([gate.weights, gate.biases.unsqueeze(-1)], -1).requires_grad_(True)
    objective = (torch.softmax(design @ parameters.T, -1) * (design @ linear.T)).sum(-1).mean()
    gradient = torch.autograd.grad(objective, parameters)[0].flatten()
    jacobian = torch.autograd.functional.jacobian(
        lambda flat: torch.log_softmax(design @ flat.reshape(3, 3).T, -1), parameters.detach().flatten()
    )
    probabilities = gate.log_probs.exp()
    fisher = torch.einsum("nk,nki,nkj->ij", probabilities, jacobian, jacobian) / 40
    torch.testing.assert_close(fisher @ linear.flatten(), gradient, rtol=1e-10, atol=1e-12)
    own = torch.nn.functional.one_hot(component, 3).double()
    value = ((torch.cat([rows[:, 2:], torch.ones(1500, 1).double()], -1) @ linear.T) * own).sum(-1)
    weights = OwnWeights(torch.full((3,), 500), 1500, rows)
    found = components.reward_at_contexts(components.reward(rows, value, weights))
    lead, expected = (values - (probabilities * values).sum(-1, keepdim=True) for values in (found, design @ linear.T))
    assert float((lead - expected).std()) < 0.1 * float(expected.std())  # ridge 0.018, damping 0.016


def test_deleted_and_added_components_leave_the_odds_of_the_others():
    components = components_at(3)
    log_weights, left = components.without(components.gate.log_mass, torch.tensor([0, 2]))
    expected = torch.softmax(components.gate.log_probs[:, [0, 2]], -1)
    torch.testing.assert_close(left.gate.log_probs.exp(), expected)
    torch.testing.assert_close(log_weights.exp(), expected.mean(0))
    place = torch.tensor([0.3, -0.4, 0.5, 0.6]).double()
    log_weights, grown = components.with_addition(
        components.gate.log_mass, place, torch.tensor(0.25).double(), math.log(0.01)
    )
    assert grown.n_components == 4
    near = int((components.gate.gating(place[2:].unsqueeze(0))).argmax())
    share = components.gate.log_probs[:, near].exp() * 0.01 / float(components.gate.log_mass[near].exp())
    torch.testing.assert_close(grown.gate.log_probs[:, 3].exp(), share / (1.0 + share))
    torch.testing.assert_close(grown.experts.means(place[2:].unsqueeze(0))[0, 3], place[:2])
    torch.testing.assert_close(grown.scale_trils[3], 0.5 * torch.eye(2).double())


def test_no_component_falls_below_the_least_weight():
    components = components_at(2)
    lowered = torch.tensor([[0.0, 0.0, 0.0], [-1000.0, 0.0, 0.0]]).double()
    log_weights, moved = components.reweighted(
        components.gate.log_mass, lowered, DirectWeights()(None, None, torch.tensor(1.0).double())
    )
    assert log_weights.tolist() == pytest.approx([0.0, -69.07], abs=1e-9)
    assert torch.equal(moved.gate.log_mass, log_weights)


@pytest.mark.parametrize("word", ["LEMTRUX", "LAPTRUX"])
def test_mixture_of_experts_is_found_to_rounding(word):
    """The first fit starts from a mixture, and the second fit continues from the experts of the first."""
    experts = LinearExperts(
        torch.tensor([[[1.0], [0.5]], [[-0.5], [0.3]]]).double(),
        torch.tensor([[2.0, 0.0], [-2.0, 1.0]]).double(),
        torch.diag_embed(torch.tensor([[0.4, 0.8], [0.6, 0.5]]).double()),
    )
    gating = SoftmaxGating(torch.tensor([[0.7], [-0.7]]).double(), torch.tensor([0.2, -0.2]).double())
    target = MixtureOfExperts(gating, experts)
    config = GMMVIConfig.named(word, n_iterations=120, n_samples=200, **{"adaptation.add_every": 0})
    context = normal(generator_of(1), 500, 1)
    model = GMMVI(target, config).fit(context, wide_start(2), generator=generator_of(0)).model
    assert kl_between(model, target) < 1e-9
    again = GMMVI(target, config, n_iterations=1).fit(context, model, generator=generator_of(0))
    assert again.history.column("elbo")[0] == pytest.approx(0.0, abs=1e-6)


def test_constant_column_of_contexts_has_no_slope():
    target = random_mixture_of_experts(2, 2, 2, 1)
    context = torch.cat([CONTEXT, torch.full((60, 1), 3.0).double()], -1)
    result = GMMVI(lambda y, x: target.log_prob(y[:, :1], x), GMMVIConfig.named("SEMTRON", n_iterations=30)).fit(
        context, wide_start(3), generator=generator_of(0)
    )
    assert float(result.model.experts.weights[..., 1].abs().max()) < 1e-6
    assert result.history.column("elbo")[-1] > -0.3


@pytest.mark.parametrize(
    ("context", "start", "settings", "error", "reason"),
    [
        (torch.zeros(5), wide_start(2), {}, DataError, "must be a matrix"),
        (torch.full((5, 1), math.nan), wide_start(2), {}, DataError, "NaN"),
        (torch.zeros(0, 1), wide_start(2), {}, DataError, "empty"),
        (torch.zeros(5, 3), random_mixture_of_experts(0, 2, 2, 1), {}, DataError, "contexts with 1 columns, got 3"),
        (None, random_mixture_of_experts(0, 2, 2, 1), {}, DataError, "contexts with 1 columns, got 0"),
        (CONTEXT, wide_start(2), {"covariance": "diagonal"}, ConfigurationError, "need full covariances"),
        (CONTEXT, None, {}, DistributionError, "the dimension of the target is not known"),
    ],
)
def test_bad_contexts_are_refused_with_the_reason(context, start, settings, error, reason):
    with pytest.raises(error, match=reason):
        GMMVI(lambda y, x: -x.square().sum(-1), GMMVIConfig.from_mapping(settings)).fit(context, start)
