"""The settings determine the estimator and the density that it needs."""

import pytest
import torch
from learning.models.random_models import generator_of
from learning.toys import KnownInputs, bimodal_pairs, small_eim_config

from eim_ros.learning.data import checked_data
from eim_ros.learning.ratio import FeatureInputs, NetworkRatio, PlugInRatio, StandardisedInputs
from eim_ros.learning.ratio.choice import data_density, density_ratio, smoothed
from eim_ros.learning.ratio.plug_in import InputsFactor, ReferenceFactor

DATA = checked_data(bimodal_pairs(300))
PLAIN = StandardisedInputs.from_data(DATA.context, DATA.sample)
KNOWN = KnownInputs(
    data_density(small_eim_config(**{"ratio.estimator": "plug-in"}).ratio, 2, PLAIN, DATA, generator_of(0))
)


def chosen(name, inputs=PLAIN):
    config = small_eim_config(**{"ratio.estimator": name}).ratio
    reference = data_density(config, 2, inputs, DATA, generator_of(1))
    return density_ratio(config, inputs, reference, DATA, generator_of(2)), reference


@pytest.mark.parametrize("inputs", [PLAIN, KNOWN], ids=["fitted", "known"])
@pytest.mark.parametrize("name", ["plug-in", "residual", "network"])
def test_estimator_has_the_network_and_the_density_of_its_name(name, inputs):
    ratio, reference = chosen(name, inputs)
    assert isinstance(ratio, PlugInRatio if name == "plug-in" else NetworkRatio)
    base = ratio if name == "plug-in" else ratio.base
    assert (reference is None) == (name == "network" or inputs is KNOWN)
    if name == "network":
        assert base is None
    elif inputs is KNOWN:
        assert base.known == InputsFactor(KNOWN)
    else:
        assert isinstance(base.known, ReferenceFactor)
        assert base.known.model is reference


def test_plug_in_takes_in_the_held_out_data_and_residual_does_not():
    changed = DATA.sample.clone()
    changed[270:] += 0.01  # this change is too small to select another fit
    other = type(DATA)(DATA.context, changed, DATA.conditional)
    for name, same in (("plug-in", False), ("residual", True)):
        config = small_eim_config(**{"ratio.estimator": name, "ratio.validation_share": 0.1}).ratio
        first, second = (data_density(config, 2, PLAIN, data, generator_of(3)) for data in (DATA, other))
        assert torch.equal(first.experts.biases, second.experts.biases) is same


def test_reference_is_fitted_to_blurred_contexts():
    inputs = FeatureInputs.from_data(DATA.context, DATA.sample, lambda y, x: x - y, smoothing=3.0)
    sharp, blurred = (
        data_density(small_eim_config(**{"ratio.estimator": "residual"}).ratio, 2, i, DATA, generator_of(4))
        for i in (PLAIN, inputs)
    )
    assert sharp.experts.weights.mean() == pytest.approx(0.5, abs=0.1)
    assert blurred.experts.weights.mean() < 0.15  # noise in contexts reduces the slope to 0.5/(1 + 3^2)


def test_noise_is_on_the_contexts_alone_and_as_wide_as_asked_for():
    inputs = FeatureInputs.from_data(DATA.context, DATA.sample, lambda y, x: x, smoothing=0.5)
    blurred = smoothed(inputs, DATA, 0, generator_of(5))
    assert blurred.sample is DATA.sample
    noise = (blurred.context - DATA.context) / DATA.context.std(correction=0)
    assert float(noise.std()) == pytest.approx(0.5, rel=4.5 * (2.0 * 300) ** -0.5)  # 4.5 standard errors
    assert smoothed(PLAIN, DATA, 0, generator_of(5)) is DATA
