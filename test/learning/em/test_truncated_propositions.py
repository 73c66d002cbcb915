"""Propositions 1 to 5 of Luecke (2016), the misprint in equation 39, and the data-processing inequality of the KL."""

import itertools

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, random_mixture

from eim_ros.learning.em.em import expect
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts

N_COMPONENTS = 5


def joint_of(seed: int) -> tuple[MixtureOfExperts, torch.Tensor, torch.Tensor]:
    """A mixture, 30 points, and log p(s, y_n) (30, 5)."""
    sample = random_mixture(0, N_COMPONENTS, 2).sample(30, generator_of(0))
    model = MixtureOfExperts.from_mixture(random_mixture(seed, N_COMPONENTS, 2))
    return model, sample, model.log_joint(sample[:, :0], sample)


def random_subsets(seed: int) -> torch.Tensor:
    """Non-empty sets K(n) of different sizes, (30, 5) of bool."""
    kept = torch.rand(30, N_COMPONENTS, generator=generator_of(seed)) < 0.5
    kept[torch.arange(30), torch.randint(N_COMPONENTS, (30,), generator=generator_of(seed))] = True
    return kept


def truncated(log_joint: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """q_n(s), equation 3."""
    return torch.softmax(log_joint.masked_fill(~kept, -torch.inf), -1)


def free_energy(q: torch.Tensor, log_joint: torch.Tensor) -> torch.Tensor:
    """F(q, Theta) of equation 13 for each point, with 0 log 0 = 0."""
    return (q * log_joint).sum(-1) + torch.special.entr(q).sum(-1)


def divergence(q: torch.Tensor, log_joint: torch.Tensor) -> torch.Tensor:
    """KL(q_n || p(s|y_n)) of each point."""
    log_posterior = log_joint.log_softmax(-1)
    return (torch.xlogy(q, q) - q * log_posterior).sum(-1)


@pytest.mark.parametrize("seed", range(3))
def test_proposition_1_free_energy_with_zeros_is_the_limit_of_positive_distributions(seed):
    _, _, log_joint = joint_of(seed)
    kept = random_subsets(seed)
    q = truncated(log_joint, kept)
    errors = []
    for small in (1e-4, 1e-6, 1e-8):
        positive = torch.where(kept, q, small)
        positive = positive / positive.sum(-1, keepdim=True)
        errors.append(float((free_energy(positive, log_joint) - free_energy(q, log_joint)).abs().max()))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-5  # small times log(small) and the log joints, up to about 100


@pytest.mark.parametrize("seed", range(3))
def test_proposition_2_gap_to_the_likelihood_is_the_kl_for_any_distribution_with_zeros(seed):
    _, _, log_joint = joint_of(seed)
    q = torch.rand(30, N_COMPONENTS, generator=generator_of(seed)).double() * random_subsets(seed)
    q = q / q.sum(-1, keepdim=True)
    gap = log_joint.logsumexp(-1) - free_energy(q, log_joint)
    torch.testing.assert_close(gap, divergence(q, log_joint), rtol=1e-10, atol=1e-10)
    assert (gap >= 0.0).all()


@pytest.mark.parametrize("n_states", [1, 2, 4, N_COMPONENTS])
def test_proposition_3_free_energy_is_the_log_of_the_sum_over_the_states(n_states):
    model, sample, log_joint = joint_of(1)
    found = expect(model, sample, n_states)
    kept = torch.zeros_like(log_joint, dtype=torch.bool)
    kept.scatter_(1, log_joint.topk(n_states, -1).indices, True)
    expected = free_energy(truncated(log_joint, kept), log_joint)
    assert found.free_energy == pytest.approx(float(expected.mean()), abs=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_propositions_4_and_5_states_under_other_parameters_lower_the_free_energy(seed):
    """L(Theta) >= F(K, Theta) >= F(K, Theta', Theta), and Theta' = Theta maximises the last one."""
    _, _, log_joint = joint_of(seed)
    kept = random_subsets(seed)
    simple = log_joint.masked_fill(~kept, -torch.inf).logsumexp(-1)
    assert (log_joint.logsumexp(-1) >= simple).all()
    torch.testing.assert_close(free_energy(truncated(log_joint, kept), log_joint), simple, rtol=1e-10, atol=1e-10)
    for other in range(10, 20):
        frozen = free_energy(truncated(joint_of(other)[2], kept), log_joint)
        assert (frozen <= simple + 1e-10).all()
        assert float(frozen.sum()) < float(simple.sum())


def test_equation_39_needs_the_log_of_the_sum():
    """The printed sum of logs prefers a set of smaller free energy; exchanging one state, both agree."""
    joint = np.array([0.9, 0.001, 0.3, 0.3])
    sets = list(itertools.combinations(range(4), 2))
    log_of_sum = {states: np.log(joint[list(states)].sum()) for states in sets}
    sum_of_logs = {states: np.log(joint[list(states)]).sum() for states in sets}
    assert log_of_sum[0, 1] > log_of_sum[2, 3]
    assert sum_of_logs[0, 1] < sum_of_logs[2, 3]
    for one, other in itertools.permutations(sets, 2):
        if len(set(one) & set(other)) == 1:
            assert np.sign(log_of_sum[one] - log_of_sum[other]) == np.sign(sum_of_logs[one] - sum_of_logs[other])


def line_mixture(seed: int) -> GaussianMixture:
    return random_mixture(seed, 3, 1)


def log_joint_on(grid: torch.Tensor, model: GaussianMixture) -> torch.Tensor:
    return MixtureOfExperts.from_mixture(model).log_joint(grid[:, None][:, :0], grid[:, None])


@pytest.mark.parametrize("seed", range(3))
def test_data_processing_inequality_follows_from_the_chain_rule(seed):
    """KL(q(x, z) || p(x, z)) = KL(q(x) || p(x)) + E_q(x) KL(q(z|x) || p(z|x)) >= KL(q(x) || p(x)), by quadrature."""
    grid = torch.linspace(-60.0, 60.0, 60_001, dtype=torch.float64)
    log_q, log_p = log_joint_on(grid, line_mixture(seed)), log_joint_on(grid, line_mixture(seed + 10))
    width = float(grid[1] - grid[0])
    marginal_q, marginal_p = log_q.logsumexp(-1), log_p.logsumexp(-1)
    joint = float((log_q.exp() * (log_q - log_p)).sum()) * width
    marginal = float((marginal_q.exp() * (marginal_q - marginal_p)).sum()) * width
    posterior = (log_q.log_softmax(-1) - log_p.log_softmax(-1)) * log_q.exp()
    assert float(log_q.exp().sum()) * width == pytest.approx(1.0, abs=1e-9)
    assert joint == pytest.approx(marginal + float(posterior.sum()) * width, rel=1e-9)
    assert joint > marginal > 0.0


def test_data_processing_inequality_is_tight_for_equal_posteriors():
    """p(x, z) = p(x) q(z|x) for another marginal p(x)."""
    grid = torch.linspace(-60.0, 60.0, 60_001, dtype=torch.float64)
    log_q = log_joint_on(grid, line_mixture(0))
    other = log_joint_on(grid, line_mixture(1)).logsumexp(-1)
    log_p = other.unsqueeze(-1) + log_q.log_softmax(-1)
    marginal_q = log_q.logsumexp(-1)
    joint = float((log_q.exp() * (log_q - log_p)).sum())
    assert joint == pytest.approx(float((marginal_q.exp() * (marginal_q - other)).sum()), rel=1e-9)
