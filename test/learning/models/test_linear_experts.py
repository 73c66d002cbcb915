"""Each linear expert is the Gaussian of its regression, also in chunks and without contexts."""

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_experts

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import Gaussian, LinearExperts
from eim_ros.learning.models import linear as module


def test_result_does_not_depend_on_the_size_of_the_chunks(monkeypatch):
    experts, context, sample = (
        random_experts(6, 5, 3, 2),
        normal(generator_of(7), 11, 2),
        normal(generator_of(8), 11, 3),
    )
    whole = experts.log_prob(context, sample)
    for elements in (1, 5 * 3 * 2, 5 * 3 * 4):
        monkeypatch.setattr(module, "CHUNK_ELEMENTS", elements)
        torch.testing.assert_close(experts.log_prob(context, sample), whole, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("n_context", [0, 2])
def test_samples_drawn_expert_by_expert_are_those_drawn_one_by_one(n_context):
    experts = random_experts(0, 3, 2, n_context)
    # no sample comes from the third expert
    context, component = normal(generator_of(1), 200, n_context), torch.arange(200) % 2
    drawn = experts.sample(component, context, generator_of(4))
    one_by_one = experts.select(component, context).sample(generator=generator_of(4))
    assert torch.allclose(drawn, one_by_one, rtol=0.0, atol=1e-13)


def test_far_contexts_do_not_cost_the_residual_its_digits():
    """If x - W y - w is small and W y is large, only the rounding errors of the terms remain."""
    experts = random_experts(13, 3, 2, 2)
    context = 1e4 * normal(generator_of(14), 5, 2)
    sample = experts.means(context)[:, 1] + 0.1
    expected = Gaussian(experts.means(context)[:, 1], experts.scale_trils[1]).log_prob(sample)
    torch.testing.assert_close(experts.log_prob(context, sample)[:, 1], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("weights", "biases", "scale_trils", "reason"),
    [
        ((2, 3), (2, 3), (2, 3, 3), "must have equal"),
        ((2, 3, 1), (2, 2), (2, 3, 3), "must have equal"),
        ((2, 3, 1), (2, 3), (2, 2, 2), "must have the shape"),
        ((2, 3, 1), (2, 3), (3, 3), "experts need . scale_trils"),
        ((2, 3, 1), (2, 3), (1, 3, 3), "experts need . scale_trils"),
    ],
)
def test_mismatched_shapes_are_refused(weights, biases, scale_trils, reason):
    factors = torch.eye(scale_trils[-1]).expand(scale_trils)
    with pytest.raises(DistributionError, match=reason):
        LinearExperts(torch.zeros(weights), torch.zeros(biases), factors)


def test_non_finite_parameters_are_refused():
    with pytest.raises(DistributionError, match="finite"):
        LinearExperts(torch.full((1, 1, 1), torch.nan), torch.zeros(1, 1), torch.ones(1, 1, 1))
