"""Truncated densities: free energies of four joints by hand; EIM's bound with them; the gating's exact normaliser."""

import itertools

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal, random_mixture_of_experts

from eim_ros.learning.models import Gaussian, GaussianMixture, MixtureOfExperts
from eim_ros.learning.models.evaluator import truncated_log_prob

JOINTS = torch.tensor([0.10, 0.02, 0.05, 0.03], dtype=torch.float64)


@pytest.mark.parametrize(
    ("states", "free_energy", "gap"),
    [
        ([0], -2.302585093, 0.693147181),
        ([0, 1], -2.120263536, 0.510825624),
        ([0, 2], -1.897119985, 0.287682072),
        ([0, 2, 3], -1.714798428, 0.105360516),
        ([0, 1, 2, 3], -1.609437912, 0.0),
    ],
)
def test_free_energies_of_four_joints(states, free_energy, gap):
    # four equal components whose density at 0 is the sum of the joints: the joints are the weights times that
    width = 1.0 / (float(JOINTS.sum()) * np.sqrt(2.0 * np.pi))
    factors = torch.full((4, 1, 1), width, dtype=torch.float64)
    mixture = GaussianMixture(JOINTS.log(), torch.zeros(4, 1).double(), factors)
    point = torch.zeros(1, 1).double()
    found = truncated_log_prob(MixtureOfExperts.from_mixture(mixture), point[:, :0], point, torch.tensor([states]))
    assert float(found) == pytest.approx(free_energy, abs=5e-10)
    assert float(mixture.log_prob(point) - found) == pytest.approx(gap, abs=6e-10)


def problem() -> tuple[MixtureOfExperts, torch.Tensor, torch.Tensor]:
    model, generator = random_mixture_of_experts(0, 5, 2, 1), generator_of(1)
    context = normal(generator, 60, 1)
    return model, context, model.sample(context, generator)


@pytest.mark.parametrize("n_states", [1, 2, 4])
def test_gap_to_the_log_density_is_minus_the_log_of_the_posterior_mass(n_states):
    model, context, sample = problem()
    posterior = model.log_responsibilities(context, sample)
    for states in itertools.islice(itertools.combinations(range(5), n_states), 4):
        index = torch.tensor([states]).expand(60, -1)
        gap = model.log_prob(context, sample) - truncated_log_prob(model, context, sample, index)
        torch.testing.assert_close(gap, -posterior.gather(1, index).logsumexp(-1), rtol=1e-10, atol=1e-12)
        assert (gap >= -1e-12).all()  # rounding


def test_all_components_give_the_log_density():
    model, context, sample = problem()
    index = torch.arange(5).expand(60, -1)
    found = truncated_log_prob(model, context, sample, index)
    torch.testing.assert_close(found, model.log_prob(context, sample), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("n_states", "bound", "error"),
    [(1, 0.196987026, 0.093398222), (2, 0.290215710, 0.000169538), (4, 0.290385248, 0.0)],
)
def test_bound_of_eim_with_a_truncated_auxiliary_distribution(n_states, bound, error):
    """With q~ = q(x, z)/q_K(x), K the most probable states, the bound is E_q[log q_K - log p] = KL(q||p) - delta."""
    mixture = GaussianMixture(
        torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64).log(),
        torch.tensor([-3.0, -1.0, 1.5, 4.0], dtype=torch.float64).unsqueeze(-1),
        torch.tensor([0.6, 0.8, 0.7, 0.5], dtype=torch.float64)[:, None, None],
    )
    step = 2e-4
    grid = torch.arange(-12.0, 12.0, step, dtype=torch.float64).unsqueeze(-1)
    target = Gaussian(torch.zeros(1).double(), torch.full((1, 1), 3.0, dtype=torch.float64))
    log_model, log_target = mixture.log_prob(grid), target.log_prob(grid)
    states = mixture.log_joint(grid).topk(n_states, -1).indices
    truncated = truncated_log_prob(MixtureOfExperts.from_mixture(mixture), grid[:, :0], grid, states)
    weights = step * log_model.exp()
    assert float((weights * (truncated - log_target)).sum()) == pytest.approx(bound, abs=2e-9)
    assert float((weights * (log_model - truncated)).sum()) == pytest.approx(error, abs=2e-9)
