"""An E-step in chunks has the same sums as an E-step with all responsibilities, and its memory is limited."""

import itertools
import math

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_mixture_of_experts

from eim_ros.learning.em import em
from eim_ros.learning.em.em import expect
from eim_ros.learning.models import MixtureOfExperts

SIZES = [(4, 2, 1), (6, 3, 0), (1, 1, 1)]


def problem(size: tuple[int, int, int], n: int = 150) -> tuple[MixtureOfExperts, torch.Tensor]:
    return random_mixture_of_experts(0, *size), normal(generator_of(1), n, size[1] + size[2])


def joints(model: MixtureOfExperts, points: torch.Tensor) -> torch.Tensor:
    """Return log q(x, z|y) + A(y), where A(y) is the log normaliser of the gating."""
    context = points[:, model.n_dims :]
    normaliser = torch.logsumexp(context @ model.gating.weights.T + model.gating.biases, -1, keepdim=True)
    return model.log_joint(context, points[:, : model.n_dims]) + normaliser


def moments(points: torch.Tensor, responsibilities: torch.Tensor) -> torch.Tensor:
    extended = torch.cat([points, torch.ones(len(points), 1)], -1)
    return torch.einsum("nk,na,nb->kab", responsibilities, extended, extended)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chunk", [1, 64, 10**6])
def test_sums_are_those_of_all_responsibilities(size, chunk, monkeypatch):
    monkeypatch.setattr(em, "CHUNK_ELEMENTS", chunk)
    model, points = problem(size)
    found = expect(model, points)
    log_joint = joints(model, points)
    torch.testing.assert_close(found.moments, moments(points, torch.softmax(log_joint, -1)), rtol=1e-11, atol=1e-10)
    assert found.log_likelihood == found.free_energy == pytest.approx(float(log_joint.logsumexp(-1).mean()), abs=1e-12)
    assert found.states.shape == (150, 0)


@pytest.mark.parametrize("n_states", [1, 2, 3])
def test_most_probable_states_are_the_best_of_all_subsets(n_states):
    model, points = problem((5, 2, 1), 40)
    found = expect(model, points, n_states)
    log_joint = joints(model, points)
    subsets = torch.tensor(list(itertools.combinations(range(5), n_states)))
    values = log_joint[:, subsets].logsumexp(-1)
    best = found.states
    assert all(len(set(states)) == n_states for states in best.tolist())
    # values are compared, because states that add less than the rounding error are interchangeable
    torch.testing.assert_close(log_joint.gather(1, best).logsumexp(-1), values.amax(-1), rtol=0.0, atol=1e-14)
    assert found.free_energy == pytest.approx(float(values.amax(-1).mean()), abs=1e-12)
    assert found.log_likelihood == pytest.approx(float(log_joint.logsumexp(-1).mean()), abs=1e-12)
    shares = torch.zeros_like(log_joint).scatter(1, best, torch.softmax(log_joint.gather(1, best), -1))
    torch.testing.assert_close(found.moments, moments(points, shares), rtol=1e-11, atol=1e-11)


def test_log_likelihood_of_a_truncated_step_is_left_out_on_request():
    model, points = problem((5, 2, 1))
    assert math.isnan(expect(model, points, 2, log_likelihood=False).log_likelihood)


def test_responsibilities_that_underflow_leave_the_sums_finite():
    model, points = problem((4, 2, 0))
    found = expect(model, 1e6 * points)
    assert torch.isfinite(found.products).all()
    assert math.isfinite(found.log_likelihood)
