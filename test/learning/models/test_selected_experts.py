"""Densities and scores at selected experts: those of all experts, picked; compiled and plain version agree."""

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_experts

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import LinearExperts
from eim_ros.learning.models.evaluator import SelectedExperts, selected_log_prob, selected_score

SIZES = [(3, 2), (2, 0), (1, 1), (7, 3)]


def problem(
    n_dims: int, n_context: int, narrow: float = 1.0
) -> tuple[LinearExperts, torch.Tensor, torch.Tensor, torch.Tensor]:
    experts, generator = random_experts(0, 20, n_dims, n_context), generator_of(1)
    shrink = torch.where(torch.arange(20) % 3 == 0, narrow, 1.0)[:, None, None]
    experts = LinearExperts(experts.weights, experts.biases, shrink * experts.scale_trils)
    context = normal(generator, 200, n_context)
    component = torch.randint(20, (200,), generator=generator)
    index = torch.stack([torch.randperm(20, generator=generator)[:6] for _ in range(200)])
    return experts, context, experts.select(component, context).sample(generator=generator), index


def gate_of(index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Log weights of the selected components, and the same among all of them."""
    selected = normal(generator_of(2), *index.shape)
    return selected, torch.full((len(index), 20), -torch.inf).double().scatter(1, index, selected)


@pytest.mark.parametrize("size", SIZES)
def test_log_densities_are_those_of_all_experts_picked(size):
    experts, context, sample, index = problem(*size)
    expected = experts.log_prob(context, sample).gather(1, index)
    torch.testing.assert_close(selected_log_prob(experts, context, sample, index), expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("size", SIZES)
def test_score_is_that_of_the_selected_components_alone(size):
    experts, context, sample, index = problem(*size)
    selected, among_all = gate_of(index)
    found = selected_score(experts, context, sample, index, selected)
    torch.testing.assert_close(found, experts.score(context, sample, among_all), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("narrow", [1.0, 1e-6])
def test_compiled_and_plain_version_agree(narrow):
    experts, context, sample, index = problem(3, 2, narrow)
    compiled, plain = (SelectedExperts(experts, context, sample, index) for _ in range(2))
    plain._compiled = False
    # samples of an expert 1e-6 wide keep 1e-10 of its width
    torch.testing.assert_close(compiled.log_prob(), plain.log_prob(), rtol=1e-9, atol=1e-8)
    shares = torch.softmax(plain.log_prob(), -1)
    torch.testing.assert_close(compiled.score(shares), plain.score(shares), rtol=1e-6, atol=1e-8)


def test_component_left_out_by_its_gate_has_no_influence():
    experts, context, sample, index = problem(3, 2)
    selected, _ = gate_of(index)
    twice = torch.cat([index, index[:, :1]], -1)
    out = torch.cat([selected, torch.full((200, 1), -torch.inf).double()], -1)
    torch.testing.assert_close(
        selected_score(experts, context, sample, twice, out),
        selected_score(experts, context, sample, index, selected),
        rtol=1e-13,
        atol=1e-13,
    )


def test_no_samples_give_nothing():
    experts, context, sample, index = problem(3, 2)
    assert selected_log_prob(experts, context[:0], sample[:0], index[:0]).shape == (0, 6)


@pytest.mark.parametrize("bad", [-1, 20])
def test_component_that_does_not_exist_is_refused(bad):
    experts, context, sample, index = problem(3, 2)
    with pytest.raises(DistributionError, match="of 20 components"):
        selected_log_prob(experts, context, sample, index.index_fill(1, torch.tensor([2]), bad))
