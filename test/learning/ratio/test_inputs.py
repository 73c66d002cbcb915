"""Inputs of the density ratio are standardised. Features do not change the ratio, but make it easier to learn."""

import pytest
import torch
from learning.models.random_models import generator_of, normal
from learning.ratios import MODEL, config, drawn_at, exact, samples
from torch import Tensor

from eim_ros.core.errors import ConfigurationError
from eim_ros.learning import EIM, Pairs, RatioConfig
from eim_ros.learning.models import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.learning.ratio import (
    FeatureInputs,
    NetworkRatio,
    QuadraticInputs,
    RatioInputs,
    StandardisedInputs,
    WhitenedInputs,
)
from eim_ros.learning.ratio.inputs import LEAST_EIGENVALUE, default_inputs


def test_inputs_are_standardised_columns_of_sample_and_context():
    context, sample = 5.0 + 3.0 * normal(generator_of(7), 500, 2), normal(generator_of(8), 500, 3) - 2.0
    inputs = StandardisedInputs.from_data(context, sample)
    columns = inputs(context, sample, 0)
    assert columns.shape == (500, inputs.n_inputs)
    assert columns.mean(0).abs().max() < 1e-12
    torch.testing.assert_close(columns.std(0, correction=0), torch.ones(5).double(), rtol=1e-12, atol=0.0)
    expected = (sample - sample.mean(0)) / sample.std(0, correction=0)
    torch.testing.assert_close(columns[:, :3], expected, rtol=1e-12, atol=1e-12)


def test_constant_column_is_centred_and_not_divided():
    inputs = StandardisedInputs.from_data(torch.full((5, 1), 2.0).double(), torch.ones(5, 1).double())
    assert (inputs(torch.full((1, 1), 3.0).double(), torch.ones(1, 1).double(), 0) == torch.tensor([[0.0, 1.0]])).all()


def radius(context: Tensor, sample: Tensor) -> Tensor:
    return sample.norm(dim=-1, keepdim=True)


def test_features_are_standardised_and_differentiable():
    context, sample = normal(generator_of(0), 300, 1), normal(generator_of(1), 300, 3)
    inputs = FeatureInputs.from_data(context, sample, radius)
    columns = inputs(context, sample, 0)
    assert inputs.n_inputs == 5
    torch.testing.assert_close(columns[:, :4], StandardisedInputs.from_data(context, sample)(context, sample, 0))
    torch.testing.assert_close(columns.mean(0), torch.zeros(5).double(), rtol=0.0, atol=1e-12)
    assert torch.autograd.gradcheck(lambda x: inputs(context[:5], x, 0), sample[:5].clone().requires_grad_(True))


def test_ratio_itself_is_unchanged_by_features():
    """The features theta(x) are functions of x, so p(x, theta)/q(x, theta) = p(x)/q(x) (thesis 4.3.1)."""
    data = samples(4000)
    inputs = FeatureInputs.from_data(data.context, data.sample, lambda y, x: torch.cat([x.sin(), x * y], -1))
    ratio = NetworkRatio(
        config(initial_epochs=30, batch_size=250, learning_rate=3e-3), inputs, generator_of(3), torch.device("cpu")
    )
    ratio.fit(data, MODEL, 0, generator_of(4))
    for pairs, tolerance in ((data, 0.17), (drawn_at(data), 0.45)):  # the tolerances of tests without features
        found, expected = ratio.log_ratio(pairs.context, pairs.sample), exact(pairs.context, pairs.sample)
        assert float((found - expected).square().mean().sqrt()) < tolerance
    leaf = data.sample[:50].clone().requires_grad_(True)
    step = 1e-2
    difference = ratio.log_ratio(data.context[:50], leaf.detach() + step)
    difference = (difference - ratio.log_ratio(data.context[:50], leaf.detach() - step)) / (2.0 * step)
    torch.testing.assert_close(ratio.gradient(data.context[:50], leaf)[:, 0], difference, rtol=2e-2, atol=2e-3)


def test_smoothing_anneals_from_deviations_of_the_contexts_to_its_floor():
    context, sample = normal(generator_of(5), 400, 2) * torch.tensor([1.0, 10.0]), normal(generator_of(6), 400, 1)
    inputs = FeatureInputs.from_data(context, sample, radius, smoothing=0.5, decay=0.5, floor=0.1)
    deviation = context.std(0, correction=0)
    for iteration, share in ((0, 0.5), (1, 0.25), (2, 0.125), (4, 0.05), (100, 0.05)):
        torch.testing.assert_close(inputs.smoothing(iteration), share * deviation, rtol=1e-12, atol=0.0)
    assert FeatureInputs.from_data(context, sample, radius).smoothing(0) is None


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"smoothing": -0.1}, "smoothing must be between 0 and inf, got -0.1"),
        ({"decay": 1.5}, "decay must be between 0 and 1.0, got 1.5"),
        ({"floor": float("nan")}, "floor must be between 0 and 1.0, got nan"),
    ],
)
def test_bad_settings_are_refused(settings, reason):
    context, sample = normal(generator_of(5), 10, 1), normal(generator_of(6), 10, 2)
    with pytest.raises(ConfigurationError, match=reason):
        FeatureInputs.from_data(context, sample, radius, **settings)


def test_features_of_a_wrong_shape_are_refused():
    context, sample = normal(generator_of(5), 10, 1), normal(generator_of(6), 10, 2)
    with pytest.raises(
        ConfigurationError,
        match=r"must return an array of shape \(n_samples, n_features\), got shape \(10,\) for 10 samples",
    ):
        FeatureInputs.from_data(context, sample, lambda y, x: x.norm(dim=-1))


BLANK = SoftmaxGating(torch.zeros(1, 1).double(), torch.zeros(1).double())


def follower(deviation: float) -> MixtureOfExperts:
    """Return the model x1, x2 ~ N(y, deviation^2) of two positions near the context y."""
    weights, biases = torch.ones(1, 2, 1).double(), torch.zeros(1, 2).double()
    return MixtureOfExperts(BLANK, LinearExperts(weights, biases, deviation * torch.eye(2).double()[None]))


def track(n: int, deviation: float = 0.3, spread: float = 50.0) -> tuple[Tensor, Tensor]:
    context = spread * normal(generator_of(0), n, 1)
    return context, follower(deviation).sample(context, generator_of(1))


def test_whitened_columns_are_uncorrelated_and_of_variance_one():
    context, sample = track(500)
    columns = WhitenedInputs.from_data(context, sample)(context, sample, 0)
    # the smallest eigenvalue of the correlation matrix, 3.4e-5, is raised, so one column has a smaller variance
    expected = torch.ones(3).double()
    spread = columns.mT @ columns / 500
    assert columns.mean(0).abs().max() < 1e-12
    # rounding in float64 with eigenvalues that differ by 1e5
    assert (spread - torch.diag(torch.diagonal(spread))).abs().max() < 1e-8
    assert (torch.diagonal(spread) <= expected + 1e-9).all()
    torch.testing.assert_close(torch.diagonal(spread)[-1:], expected[-1:], rtol=1e-9, atol=0.0)
    wider, its_sample = track(500, deviation=3.0)
    columns = WhitenedInputs.from_data(wider, its_sample)(wider, its_sample, 0)
    torch.testing.assert_close(columns.mT @ columns / 500, torch.eye(3).double(), rtol=0.0, atol=1e-9)


def test_whitened_inputs_are_the_same_in_all_linear_coordinates_up_to_a_rotation():
    context, sample = track(300, deviation=3.0)
    change = torch.eye(2).double() + 0.5 * normal(generator_of(3), 2, 2)
    distances = []
    for rows in (sample, sample @ change + 7.0):
        columns = WhitenedInputs.from_data(context, rows)(context, rows, 0)
        distances.append(torch.cdist(columns, columns))
    torch.testing.assert_close(*distances, rtol=1e-7, atol=1e-6)  # rounding with eigenvalues that differ by 1e3


def test_constant_columns_are_centred_and_not_divided():
    context, sample = torch.full((5, 1), 2.0).double(), torch.ones(5, 2).double()
    columns = WhitenedInputs.from_data(context, sample)(context + 1.0, sample, 0)
    assert float(columns[0].norm()) == 1.0


def test_a_relation_that_the_data_obey_exactly_is_not_blown_up_without_bound():
    context = normal(generator_of(4), 200, 1)
    inputs = WhitenedInputs.from_data(context, context.clone())
    off = inputs(context, context + 1e-3, 0) - inputs(context, context, 0)
    assert torch.isfinite(off).all()
    # eigenvalues below LEAST_EIGENVALUE are raised to it
    assert float(off.norm(dim=-1).max()) <= 1e-3 / float(context.std()) / LEAST_EIGENVALUE**0.5


def test_only_columns_that_nearly_repeat_each_other_are_whitened():
    context, sample = normal(generator_of(5), 400, 2), normal(generator_of(6), 400, 3)
    assert isinstance(default_inputs(context, sample), StandardisedInputs)
    assert isinstance(default_inputs(context, sample + 2.0 * context[:, :1]), StandardisedInputs)
    assert isinstance(default_inputs(*track(400)), WhitenedInputs)


def loss_with(inputs: RatioInputs, data: Pairs, model: MixtureOfExperts) -> float:
    ratio = NetworkRatio(config(), inputs, generator_of(3), torch.device("cpu"))
    return ratio.fit(data, model, 0, generator_of(4)).loss


def test_a_network_sees_small_deviations_along_a_long_road():
    """On a road of 100 m, vehicles deviate by 0.3 m from a position, and vehicles of the model by 0.9 m."""
    data, model = Pairs(*track(3000)), follower(0.9)
    standardised = loss_with(StandardisedInputs.from_data(data.context, data.sample), data, model)
    whitened = loss_with(WhitenedInputs.from_data(data.context, data.sample), data, model)
    assert standardised > 0.67  # a loss of log 2 = 0.693 means that nothing is learnt
    assert whitened < 0.5


def test_quadratic_inputs_are_the_products_of_whitened_columns_and_have_variance_one():
    context, sample = track(400, deviation=3.0)
    inputs = QuadraticInputs.from_data(context, sample)
    columns = inputs(context, sample, 0)
    assert columns.shape == (400, inputs.n_inputs) == (400, 9)
    torch.testing.assert_close(columns.mean(0), torch.zeros(9).double(), rtol=0.0, atol=1e-9)
    torch.testing.assert_close(columns.std(0, correction=0), torch.ones(9).double(), rtol=0.0, atol=1e-9)
    whitened = WhitenedInputs.from_data(context, sample)(context, sample, 0)
    products = torch.stack([whitened[:, i] * whitened[:, j] for i in range(3) for j in range(i, 3)], -1)
    extended = torch.cat([columns, torch.ones(400, 1).double()], -1)
    explained = extended @ torch.linalg.lstsq(extended, products).solution
    torch.testing.assert_close(explained, products, rtol=0.0, atol=1e-9)


def test_eim_shows_its_network_products_if_asked():
    sample = normal(generator_of(6), 200, 2)
    ratio = RatioConfig(estimator="network", hidden_layers=(4,), validation_share=0.0)
    state = {
        quadratic: EIM(n_components=1, n_iterations=1, ratio=ratio.replace(quadratic=quadratic), seed=0).fit(sample)
        for quadratic in (False, True)
    }
    assert not torch.equal(state[True].covariances, state[False].covariances)
