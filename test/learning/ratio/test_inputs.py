"""Inputs of the density ratio: standardised columns; features leave the ratio as it is and make it easier to learn."""

import pytest
import torch
from learning.models.random_models import generator_of, normal
from learning.ratios import MODEL, config, drawn_at, exact, samples
from torch import Tensor

from eim_ros.core.errors import ConfigurationError
from eim_ros.learning.ratio import FeatureInputs, NetworkRatio, StandardisedInputs


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
    """theta(x) is a function of x: p(x, theta)/q(x, theta) = p(x)/q(x) (thesis 4.3.1)."""
    data = samples(4000)
    inputs = FeatureInputs.from_data(data.context, data.sample, lambda y, x: torch.cat([x.sin(), x * y], -1))
    ratio = NetworkRatio(
        config(initial_epochs=30, batch_size=250, learning_rate=3e-3), inputs, generator_of(3), torch.device("cpu")
    )
    ratio.fit(data, MODEL, 0, generator_of(4))
    for pairs, tolerance in ((data, 0.17), (drawn_at(data), 0.45)):  # as without features
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
        ({"smoothing": -0.1}, "smoothing must be from 0 to inf, got -0.1"),
        ({"decay": 1.5}, "decay must be from 0 to 1.0, got 1.5"),
        ({"floor": float("nan")}, "floor must be from 0 to 1.0, got nan"),
    ],
)
def test_bad_settings_are_refused(settings, reason):
    context, sample = normal(generator_of(5), 10, 1), normal(generator_of(6), 10, 2)
    with pytest.raises(ConfigurationError, match=reason):
        FeatureInputs.from_data(context, sample, radius, **settings)


def test_features_of_a_wrong_shape_are_refused():
    context, sample = normal(generator_of(5), 10, 1), normal(generator_of(6), 10, 2)
    with pytest.raises(ConfigurationError, match=r"must return \(n_samples, n_features\), got \(10,\) for 10 samples"):
        FeatureInputs.from_data(context, sample, lambda y, x: x.norm(dim=-1))
