"""Both methods draw from the mixture, and each changes the weights in the right direction."""

import math

import pytest
import torch
from learning.models.random_models import generator_of

from eim_ros.learning.models import GaussianMixture
from experiments.baselines import GumbelSoftmax, MutualInformation
from experiments.baselines.networks import MixtureParameters
from experiments.baselines.others import mutual_information

WAYS = [GumbelSoftmax(0.5), MutualInformation(1.0, 1000)]


def two_modes(weight=0.3, distance=20.0) -> MixtureParameters:
    means = torch.tensor([[0.0], [distance]])
    return MixtureParameters(
        GaussianMixture(torch.tensor([weight, 1.0 - weight]).log(), means, torch.ones(2, 1, 1)).to(dtype=torch.float64)
    )


@pytest.mark.parametrize("way", WAYS)
def test_samples_are_those_of_the_mixture(way):
    sample = way.draw(two_modes(), 20_000, generator_of(0)).detach()
    on_first = (sample[:, 0] < 10.0).double()
    assert float(on_first.mean()) == pytest.approx(0.3, abs=4.0 * (0.21 / 20_000) ** 0.5)
    assert float(sample[sample < 10.0].std()) == pytest.approx(1.0, abs=0.05)


def test_gumbel_gradient_moves_weight_to_the_better_component():
    model = two_modes()
    GumbelSoftmax(0.5).draw(model, 5000, generator_of(1)).mean().backward()  # the first mode has a lower loss
    assert float(model.logits.grad[0]) < 0.0 < float(model.logits.grad[1])


def test_mutual_information_is_the_entropy_of_modes_that_are_told_apart():
    entropy = -0.3 * math.log(0.3) - 0.7 * math.log(0.7)
    assert float(mutual_information(two_modes(), 1000, generator_of(2)).detach()) == pytest.approx(entropy, abs=1e-5)


def test_mutual_information_evens_weights_out():
    model = two_modes()
    MutualInformation(1.0, 1000).loss(model, generator_of(3)).backward()
    assert float(model.logits.grad[0]) < 0.0 < float(model.logits.grad[1])
