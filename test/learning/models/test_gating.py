"""Linear and neural gating: probabilities sum to one, survive large logits, and do not depend on a common shift."""

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_network

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import NeuralGating, SoftmaxGating


def test_probabilities_sum_to_one_for_logits_beyond_the_range_of_exp():
    gating = SoftmaxGating(torch.tensor([[1e4], [-1e4]]).double(), torch.zeros(2).double())
    log_probs = gating(torch.tensor([[1.0], [-1.0]]).double())
    assert torch.isfinite(log_probs).all()
    torch.testing.assert_close(log_probs.exp(), torch.eye(2).double(), rtol=0.0, atol=0.0)


@pytest.mark.parametrize(
    ("weights", "biases", "reason"),
    [
        (torch.zeros(2, 3), torch.zeros(3), "must have equal"),
        (torch.zeros(2), torch.zeros(2), "must have equal"),
        (torch.full((2, 1), torch.nan), torch.zeros(2), "finite"),
        (torch.zeros(2, 1), torch.tensor([0.0, -torch.inf]), "finite"),
    ],
)
def test_parameters_of_no_gating_are_refused(weights, biases, reason):
    with pytest.raises(DistributionError, match=reason):
        SoftmaxGating(weights, biases)


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
    with pytest.raises(DistributionError, match="a single network"):
        NeuralGating(random_network(7, 2, 1, 3))
