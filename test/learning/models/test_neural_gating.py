"""Neural gating: probabilities for every context; a fresh one prefers nobody."""

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_network

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import NeuralGating


def test_fresh_gating_prefers_nobody():
    context = normal(generator_of(2), 7, 2)
    gating = NeuralGating.uniform(context, 4, (6, 6), generator_of(3))
    torch.testing.assert_close(gating(context).exp(), torch.full((7, 4), 0.25).double(), rtol=1e-14, atol=0.0)


def test_units_of_the_context_do_not_matter():
    context, generator = normal(generator_of(5), 30, 2), generator_of
    metres = NeuralGating.uniform(context, 3, (6,), generator(6)).network
    millimetres = NeuralGating.uniform(1000.0 * context, 3, (6,), generator(6)).network
    torch.testing.assert_close(metres.scale * 1000.0, millimetres.scale, rtol=1e-12, atol=0.0)
    assert torch.equal(metres.weights[0], millimetres.weights[0])


def test_two_networks_are_no_gating():
    with pytest.raises(DistributionError, match="one network"):
        NeuralGating(random_network(7, 2, 1, 3))
