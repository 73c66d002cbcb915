"""Prepared mixtures have the densities and scores of the model. Truncated mixtures give bounds with a known error."""

import pytest
import torch
from learning.models.random_models import (
    generator_of,
    normal,
    random_mixture_of_experts,
    random_neural_mixture_of_experts,
    truncated_log_prob,
)

from eim_ros.learning.models import LinearExperts, MixtureOfExperts
from eim_ros.learning.models.evaluator import FEW_COMPONENTS, PreparedMixture
from eim_ros.learning.models.quadratic_form import products_of_coordinates, products_of_samples

MANY = FEW_COMPONENTS + 10


def problem(n_context: int, n_components: int = MANY, narrow: float = 1.0):
    """Return a model, contexts with duplicates, a sample for each context, and the components that drew the samples."""
    model, generator = random_mixture_of_experts(0, n_components, 3, n_context), generator_of(1)
    shrink = torch.where(torch.arange(n_components) % 3 == 0, narrow, 1.0)[:, None, None]
    experts = LinearExperts(model.experts.weights, model.experts.biases, shrink * model.experts.scale_trils)
    model = MixtureOfExperts(model.gating, experts)
    context = normal(generator, 200, n_context)[torch.randint(200, (300,), generator=generator)]
    return model, context, *model.sample_with_components(context, generator)


@pytest.mark.parametrize("n_context", [0, 2])
@pytest.mark.parametrize("narrow", [1.0, 1e-6])
def test_density_and_score_are_the_models_own(n_context, narrow):
    model, context, sample, _ = problem(n_context, narrow=narrow)
    prepared = PreparedMixture(model, context, sample)
    # an expert 1e-6 wide is resolved to 1e-10 of its width
    tolerance = 1e-11 if narrow == 1.0 else 1e-8
    expected = model.log_prob(context, sample)
    torch.testing.assert_close(prepared.log_prob(context, sample), expected, rtol=tolerance, atol=tolerance)
    score = model.score(context, sample)
    torch.testing.assert_close(prepared.score(context, sample), score, rtol=100.0 * tolerance, atol=tolerance)


@pytest.mark.parametrize("n_context", [0, 2])
@pytest.mark.parametrize("n_states", [1, 4, 16])
@pytest.mark.parametrize("narrow", [1.0, 1e-6])
def test_truncated_density_is_that_of_the_nearest_components_and_a_lower_bound(n_context, n_states, narrow):
    model, context, sample, component = problem(n_context, narrow=narrow)
    tolerance = 1e-11 if narrow == 1.0 else 1e-8  # an expert 1e-6 wide is resolved to 1e-10 of its width
    prepared = PreparedMixture(model, context, sample, n_states)
    found = prepared.log_prob(context, sample, component)
    expected = truncated_log_prob(model, context, sample, prepared.states[component])
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    exact = prepared.log_prob(context, sample)
    assert (found <= exact + 10.0 * tolerance).all()
    error = prepared.truncation_error(context, sample, component)
    assert error == pytest.approx(float((exact - found).mean()), abs=1e-12)
    assert error > 0.0


@pytest.mark.parametrize("n_context", [0, 2])
def test_truncated_score_is_the_gradient_of_the_truncated_density(n_context):
    model, context, sample, component = problem(n_context)
    prepared = PreparedMixture(model, context, sample, 4)
    found = prepared.score(context, sample, component)
    index, log_gate = prepared.states[component], model.gating(context)
    among_all = torch.full_like(log_gate, -torch.inf).scatter(1, index, log_gate.gather(1, index))
    expected = model.experts.score(context, sample, among_all)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    for axis in range(3):
        step = 1e-6 * torch.eye(3, dtype=torch.float64)[axis]
        ends = [prepared.log_prob(context, sample + sign * step, component) for sign in (1.0, -1.0)]
        torch.testing.assert_close(found[:, axis], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-5)


def test_error_falls_with_the_number_of_states_and_vanishes_with_all():
    model, context, sample, component = problem(2)
    errors = [
        PreparedMixture(model, context, sample, n_states).truncation_error(context, sample, component)
        for n_states in (1, 2, 4, 8, 16, 32, MANY - 1)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3 * errors[0]
    assert PreparedMixture(model, context, sample, MANY).truncation_error(context, sample, component) == 0.0


@pytest.mark.parametrize("n_context", [0, 2])
def test_lists_begin_with_their_component_and_hold_none_twice(n_context):
    model, context, sample, _ = problem(n_context)
    states = PreparedMixture(model, context, sample, 8).states
    assert torch.equal(states[:, 0], torch.arange(MANY))
    ordered = states.sort(-1).values
    assert (ordered[:, 1:] > ordered[:, :-1]).all()


@pytest.mark.parametrize("n_context", [0, 2])
def test_mean_products_of_an_experts_samples_are_those_of_samples(n_context):
    model, generator = random_mixture_of_experts(2, 3, 2, n_context), generator_of(3)
    context = normal(generator, 40, n_context)
    share = torch.softmax(model.gating(context).T, -1)
    for component in range(3):
        rows = torch.multinomial(share[component], 200_000, replacement=True, generator=generator)
        sample = model.experts.select(torch.full((200_000,), component), context[rows]).sample(generator=generator)
        drawn = products_of_coordinates(torch.cat([sample, context[rows]], -1))
        error = drawn.std(0) / 200_000**0.5
        assert ((products_of_samples(model, context)[component] - drawn.mean(0)).abs() <= 5.0 * error + 1e-12).all()


def test_component_without_any_probability_has_finite_moments():
    model = random_mixture_of_experts(4, 3, 2, 1)
    biases = torch.tensor([0.0, 0.0, -1e4], dtype=torch.float64)
    rare = MixtureOfExperts(type(model.gating)(model.gating.weights, biases), model.experts)
    assert torch.isfinite(products_of_samples(rare, normal(generator_of(5), 30, 1))).all()


@pytest.mark.parametrize(
    "model",
    [random_mixture_of_experts(6, FEW_COMPONENTS - 1, 3, 2), random_neural_mixture_of_experts(7, 60, 3, 2)],
    ids=["few components", "neural"],
)
def test_what_gains_nothing_is_left_to_the_model(model):
    generator = generator_of(8)
    context = normal(generator, 20, 2)
    sample, component = model.sample_with_components(context, generator)
    prepared = PreparedMixture(model, context, sample)
    assert torch.equal(prepared.log_prob(context, sample, component), model.log_prob(context, sample))
    assert torch.equal(prepared.score(context, sample, component), model.score(context, sample))
    assert prepared.truncation_error(context, sample, component) == 0.0
