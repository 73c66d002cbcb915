"""Standardisation changes densities only by the volume, can be inverted exactly, and works for unusual data."""

import pytest
import torch
from learning.models.random_models import (
    generator_of,
    normal,
    random_mixture_of_experts,
    random_neural_mixture_of_experts,
)

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import MixtureOfExperts
from eim_ros.learning.models.standardisation import Standardisation

SIZES = [(4, 3, 2), (1, 1, 1), (3, 2, 0)]


def problem(size: tuple[int, int, int]) -> tuple[MixtureOfExperts, torch.Tensor, torch.Tensor]:
    model, generator = random_mixture_of_experts(0, *size), generator_of(1)
    context = 3.0 * normal(generator, 100, size[2]) + 2.0
    return model, context, model.sample(context, generator) @ normal(generator, size[1], size[1]) - 5.0


@pytest.mark.parametrize("size", SIZES)
def test_columns_get_mean_zero_and_variance_one(size):
    _, context, sample = problem(size)
    joint = Standardisation.from_data(context, sample).joint(context, sample)
    torch.testing.assert_close(joint.mean(0), torch.zeros(joint.shape[1]).double(), rtol=0.0, atol=1e-13)
    torch.testing.assert_close(joint.var(0, correction=0), torch.ones(joint.shape[1]).double(), rtol=0.0, atol=1e-13)


@pytest.mark.parametrize("size", SIZES)
def test_log_joint_changes_by_the_log_volume_alone(size):
    model, context, sample = problem(size)
    units = Standardisation.from_data(context, sample)
    joint = units.joint(context, sample)
    found = units.standard(model).log_joint(joint[:, size[1] :], joint[:, : size[1]]) - units.log_volume()
    torch.testing.assert_close(found, model.log_joint(context, sample), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_there_and_back_is_the_same_model(size):
    model, context, sample = problem(size)
    units = Standardisation.from_data(context, sample)
    for name, value in units.original(units.standard(model)).tensors().items():
        if name == "gating.biases":  # biases are only defined up to a constant
            value, other = value - value.mean(), model.tensors()[name] - model.tensors()[name].mean()
            torch.testing.assert_close(value, other, rtol=0.0, atol=1e-13)
        else:
            torch.testing.assert_close(value, model.tensors()[name], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-100, 1e100, 1e200, 1e307])
def test_extreme_magnitudes_neither_overflow_nor_underflow(scale):
    sample = scale * normal(generator_of(2), 50, 2).clamp(-1.0, 1.0)
    units = Standardisation.from_data(sample[:, :0], sample)
    joint = units.joint(sample[:, :0], sample)
    assert torch.isfinite(joint).all()
    assert torch.isfinite(1.0 / units.sample_scale).all()
    if scale > 1e-150:
        torch.testing.assert_close(joint.var(0, correction=0), torch.ones(2).double(), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e20, 1e-320])
def test_constant_column_is_exactly_zero_afterwards(value):
    sample = torch.full((7, 1), value, dtype=torch.float64)
    units = Standardisation.from_data(sample[:, :0], sample)
    assert (units.joint(sample[:, :0], sample).abs() <= 2e-16).all()
    assert float(units.sample_scale) == (abs(value) if abs(value) > 1e-150 else 1.0)


def test_model_that_is_not_linear_is_refused():
    units = Standardisation.from_data(normal(generator_of(3), 9, 1), normal(generator_of(4), 9, 2))
    with pytest.raises(
        DistributionError, match="expected a model with LinearExperts and a SoftmaxGating, got NeuralExperts"
    ):
        units.standard(random_neural_mixture_of_experts(5, 2, 2, 1))


def units_with_and_without_outliers(column: torch.Tensor) -> tuple[Standardisation, Standardisation]:
    sample = torch.stack([column, torch.linspace(-1.0, 1.0, len(column), dtype=torch.float64)], 1)
    return Standardisation.resistant(sample[:, :0], sample), Standardisation.from_data(sample[:, :0], sample)


def test_scale_ignores_the_outliers_of_a_column():
    column = normal(generator_of(5), 400, 1)[:, 0]
    spread = float(column.std(correction=0))
    for glitches in ([1e3], [1e6, -1e6], [1e50]):
        column[: len(glitches)] = torch.tensor(glitches, dtype=torch.float64)
        units, plain = units_with_and_without_outliers(column)
        assert 0.8 * spread < float(units.sample_scale[0]) < spread  # the scale ignores two rows at each end
        assert abs(float(units.sample_center[0])) < spread
        assert float(units.sample_scale[1]) == float(plain.sample_scale[1])


@pytest.mark.parametrize("name", ["normal", "clusters", "tails", "rare event", "counts", "constant", "few rows"])
def test_scale_of_data_without_outliers_is_the_standard_deviation(name):
    noise, n = normal(generator_of(6), 1000, 1)[:, 0], torch.arange(1000)
    column = {
        "normal": noise,
        "clusters": torch.where(n < 20, 50.0, 0.01 * noise),  # 2 % of the rows are a cluster, not outliers
        "tails": noise.sign() * noise.abs() ** 3,
        "rare event": torch.where(n < 3, 1.0, 0.0).double(),  # most of the column is constant
        "counts": noise.abs().floor(),
        "constant": torch.full_like(noise, 3.0),
        "few rows": torch.where(n < 1, 1e9, noise)[:15],
    }[name]
    units, plain = units_with_and_without_outliers(column)
    assert torch.equal(units.sample_scale, plain.sample_scale)
    assert torch.equal(units.sample_center, plain.sample_center)
