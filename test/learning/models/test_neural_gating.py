"""Neural gating: probabilities for every context; a fresh one prefers nobody."""

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_network, random_neural_gating

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import NeuralGating


def test_probabilities_sum_to_one():
    log_probs = random_neural_gating(0, 5, 2)(normal(generator_of(1), 7, 2))
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(7).double(), rtol=1e-14, atol=0.0)


def test_fresh_gating_prefers_nobody():
    context = normal(generator_of(2), 7, 2)
    gating = NeuralGating.uniform(context, 4, (6, 6), generator_of(3))
    torch.testing.assert_close(gating(context).exp(), torch.full((7, 4), 0.25).double(), rtol=1e-14, atol=0.0)


def test_far_contexts_give_finite_log_probabilities():
    assert torch.isfinite(random_neural_gating(4, 5, 2)(torch.full((1, 2), 1e9).double())).all()


def test_units_of_the_context_do_not_matter():
    context, generator = normal(generator_of(5), 30, 2), generator_of
    metres = NeuralGating.uniform(context, 3, (6,), generator(6)).network
    millimetres = NeuralGating.uniform(1000.0 * context, 3, (6,), generator(6)).network
    torch.testing.assert_close(metres.scale * 1000.0, millimetres.scale, rtol=1e-12, atol=0.0)
    assert torch.equal(metres.weights[0], millimetres.weights[0])


def test_two_networks_are_no_gating():
    with pytest.raises(DistributionError, match="one network"):
        NeuralGating(random_network(7, 2, 1, 3))
