"""Models of binary causes have the joint density of their formula, optimal M-steps, and samples that match it."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from learning.discrete.enumeration import all_states
from learning.models.random_models import generator_of, normal
from scipy import optimize, stats

from eim_ros.core.errors import DataError, DistributionError
from eim_ros.learning.discrete.causes import BinarySparseCoding, NoisyOr, SigmoidBeliefNetwork, sparsest_states


def sparse_coding(n_dims: int = 4, n_causes: int = 3, shared_prior: bool = False) -> BinarySparseCoding:
    generator = generator_of(0)
    prior = 0.2 + 0.5 * torch.rand(n_causes, generator=generator, dtype=torch.float64)
    scale = torch.tensor(0.7, dtype=torch.float64)
    return BinarySparseCoding(normal(generator, n_dims, n_causes), scale, prior, 1e-6 * scale, shared_prior)


def noisy_or(n_dims: int = 4, n_causes: int = 3, n_updates: int = 5) -> NoisyOr:
    def uniform(*shape: int) -> torch.Tensor:
        return 0.1 + 0.8 * torch.rand(shape, generator=generator, dtype=torch.float64)

    generator = generator_of(1)
    return NoisyOr(uniform(n_dims, n_causes), 0.3 * uniform(n_dims), uniform(n_causes), n_updates)


def belief_network(n_dims: int = 4, n_causes: int = 3, n_updates: int = 5) -> SigmoidBeliefNetwork:
    generator = generator_of(7)
    prior = 0.2 + 0.5 * torch.rand(n_causes, generator=generator, dtype=torch.float64)
    return SigmoidBeliefNetwork(normal(generator, n_dims, n_causes), normal(generator, n_dims), prior, n_updates)


MODELS = pytest.mark.parametrize(
    "model",
    [sparse_coding(), noisy_or(), belief_network()],
    ids=["sparse coding", "noisy-OR", "sigmoid belief network"],
)


def expected_log_joint(model, sample, states, shares) -> float:
    return float((shares * model.log_joint(sample, states)).sum())


def posterior_problem(model, n: int = 60, n_states: int = 5):
    """Return samples, some states for each sample, and weights of these states that differ from the posterior."""
    generator = generator_of(2)
    sample = model.sample(n, generator)
    states = all_states(len(model.prior))[torch.stack([torch.randperm(8, generator=generator) for _ in range(n)])]
    shares = torch.rand(n, n_states, generator=generator, dtype=torch.float64)
    return sample, states[:, :n_states], shares / shares.sum(-1, keepdim=True)


def test_joint_of_sparse_coding_is_prior_times_normal():
    model = sparse_coding()
    sample = normal(generator_of(3), 6, 4)
    states = all_states(3).expand(6, -1, -1)
    found = model.log_joint(sample, states)
    for n, s in itertools.product(range(6), range(8)):
        on = states[n, s].double()
        prior = float((on * model.prior.log() + (1 - on) * (1 - model.prior).log()).sum())
        likelihood = stats.multivariate_normal((model.weights @ on).numpy(), 0.49 * np.eye(4)).logpdf(sample[n].numpy())
        assert float(found[n, s]) == pytest.approx(prior + likelihood, abs=1e-12)


def test_joint_of_noisy_or_is_prior_times_the_product_of_what_fails():
    model = noisy_or()
    sample = all_states(4).double()
    states = all_states(3).expand(16, -1, -1)
    found = model.log_joint(sample, states)
    for n, s in itertools.product(range(16), range(8)):
        on = states[n, s].double()
        off = (1 - model.leak) * (1 - model.weights * on).prod(-1)
        expected = (
            torch.where(sample[n] == 1, 1 - off, off).prod() * torch.where(on == 1, model.prior, 1 - model.prior).prod()
        )
        assert float(found[n, s].exp()) == pytest.approx(float(expected), rel=1e-12)


def test_joint_of_a_belief_network_is_prior_times_logistic_probabilities():
    model = belief_network()
    sample, states = all_states(4).double(), all_states(3).double()
    on = 1.0 / (1.0 + np.exp(-(states @ model.weights.T + model.bias).numpy()))
    prior = np.where(states == 1, model.prior, 1 - model.prior).prod(-1)
    expected = prior * np.where(sample[:, None] == 1, on, 1 - on).prod(-1)
    found = model.log_joint(sample, all_states(3).expand(16, -1, -1)).exp()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@MODELS
def test_samples_have_the_moments_of_the_model(model):
    sample, states = model.sample_with_states(20000, generator_of(4))
    # five standard errors of a mean of bits, which have standard deviations of at most 0.5
    error = 5 * 0.5 / math.sqrt(20000)
    torch.testing.assert_close(states.double().mean(0), model.prior, rtol=0.0, atol=error)
    combinations = all_states(3).double()
    weight = torch.where(combinations == 1, model.prior, 1 - model.prior).prod(-1)
    if isinstance(model, NoisyOr):
        mean = 1 - (1 - model.leak) * (1 - model.weights * combinations.unsqueeze(1)).prod(-1)
    elif isinstance(model, SigmoidBeliefNetwork):
        mean = torch.sigmoid(combinations @ model.weights.T + model.bias)
    else:
        mean = combinations @ model.weights.T
    torch.testing.assert_close(sample.mean(0), weight @ mean, rtol=0.0, atol=4 * error)


@pytest.mark.parametrize("shared_prior", [False, True])
def test_m_step_of_sparse_coding_is_a_stationary_point(shared_prior):
    model = sparse_coding(shared_prior=shared_prior)
    sample, states, shares = posterior_problem(model)
    improved = model.improved(sample, states, shares)
    weights = improved.weights.clone().requires_grad_(True)
    deviation = improved.deviation.clone().requires_grad_(True)
    odds = torch.logit(improved.prior)[: 1 if shared_prior else None].clone().requires_grad_(True)
    tied = torch.sigmoid(odds).expand(3) if shared_prior else torch.sigmoid(odds)
    moved = BinarySparseCoding(weights, deviation, tied, improved.least_deviation)
    (shares * moved.log_joint(sample, states)).sum().backward()
    for gradient in (weights.grad, deviation.grad, odds.grad):
        assert float(gradient.abs().max()) < 1e-9  # rounding error of sums of 300 terms


def test_m_step_of_noisy_or_climbs_to_what_an_optimiser_finds():
    model = noisy_or(n_updates=3000)
    sample, states, shares = posterior_problem(model)
    improved = model.improved(sample, states, shares)
    start = torch.logit(torch.cat([model.weights.flatten(), model.leak])).numpy()

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        leaf = torch.tensor(values, requires_grad=True)
        parts = torch.sigmoid(leaf).clamp(1e-6, 1 - 1e-6)
        moved = NoisyOr(parts[:12].reshape(4, 3), parts[12:], improved.prior)
        value = -(shares * moved.log_joint(sample, states)).sum()
        value.backward()
        return float(value.detach()), leaf.grad.numpy()

    best = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).fun
    assert -expected_log_joint(improved, sample, states, shares) == pytest.approx(best, abs=1e-3)


def test_m_step_of_a_belief_network_climbs_to_a_stationary_point():
    """The objective is concave, so a stationary point is its maximum."""
    model = belief_network(n_updates=2000)
    sample, states, shares = posterior_problem(model)
    improved = model.improved(sample, states, shares)
    leaves = [value.clone().requires_grad_(True) for value in (improved.weights, improved.bias, improved.prior)]
    (shares * SigmoidBeliefNetwork(*leaves).log_joint(sample, states)).sum().backward()
    assert max(float(leaf.grad.abs().max()) for leaf in leaves) < 1e-8  # rounding error of sums of 300 terms


@pytest.mark.parametrize("n_updates", [1, 5])
@pytest.mark.parametrize("kind", [noisy_or, belief_network])
def test_no_update_of_binary_outputs_lowers_the_expected_joint(kind, n_updates):
    model = kind(n_updates=n_updates)
    sample, states, shares = posterior_problem(model)
    values = [expected_log_joint(model, sample, states, shares)]
    for _ in range(30):
        model = model.improved(sample, states, shares)
        values.append(expected_log_joint(model, sample, states, shares))
    assert np.diff(values).min() > -1e-10
    assert values[1] > values[0] + 1.0


@MODELS
def test_cause_that_never_occurs_leaves_the_m_step_finite(model):
    sample, states, shares = posterior_problem(model)
    states = states.clone()
    states[..., 1] = False
    improved = model.improved(sample, states, shares)
    assert all(bool(torch.isfinite(value).all()) for value in improved.tensors().values())
    torch.testing.assert_close(improved.weights[:, 1], model.weights[:, 1])  # no data about this cause
    assert expected_log_joint(improved, sample, states, shares) > expected_log_joint(model, sample, states, shares)


@pytest.mark.parametrize("n_states", [1, 4, 11, 15, 16])
def test_sparsest_states_differ_and_have_few_causes(n_states):
    states = sparsest_states(4, n_states)
    assert len({tuple(state.tolist()) for state in states}) == n_states == len(states)
    expected = sorted(int(state.sum()) for state in all_states(4))[:n_states]
    assert [int(state.sum()) for state in states] == expected


@pytest.mark.parametrize(
    ("good", "wrong", "words"),
    [
        (sparse_coding(), lambda good: {"prior": good.prior[:2]}, "must have equal"),
        (sparse_coding(), lambda good: {"prior": torch.ones(3).double()}, "between 0 and 1"),
        (sparse_coding(), lambda good: {"weights": math.nan * good.weights}, "weights of the causes must be finite"),
        (sparse_coding(), lambda good: {"deviation": 0.0 * good.deviation}, "noise must be positive"),
        (noisy_or(), lambda good: {"weights": 2.0 * good.weights}, "weights must lie between"),
        (noisy_or(), lambda good: {"leak": good.leak[:2]}, "must have equal"),
    ],
)
def test_parameters_that_are_none_are_refused(good, wrong, words):
    with pytest.raises(DistributionError, match=words):
        dataclasses.replace(good, **wrong(good))


@pytest.mark.parametrize("kind", [BinarySparseCoding, NoisyOr])
@pytest.mark.parametrize(
    ("sample", "n_causes", "words"),
    [
        (torch.eye(4), 0, "the number of causes must be a whole number of at least 1, got 0"),
        (torch.eye(4), 5, "5 causes need at least 5 samples, got 4"),
        (torch.eye(4), 2.5, "the number of causes must be a whole number of at least 1, got 2.5"),
        (torch.ones(4), 2, r"samples \(n, d\) .*shape \(4,\)"),
        ("images", 2, "numbers"),
        ([[1.0, 0.0], [math.nan, 1.0]], 2, "NaN or infinite entries in 1 rows, the first of which is row 1"),
    ],
)
def test_start_says_what_is_wrong_with_its_samples(kind, sample, n_causes, words):
    with pytest.raises(DataError, match=words):
        kind.start(sample, n_causes, generator_of(0))


def test_start_of_noisy_or_needs_zeros_and_ones():
    with pytest.raises(DataError, match="row 0 has other values; compare the samples with a threshold"):
        NoisyOr.start(3.0 * torch.eye(4), 2, generator_of(0))


@MODELS
def test_number_of_samples_is_a_count(model):
    assert model.sample(0, generator_of(0)).shape == (0, model.n_dims)
    with pytest.raises(DistributionError, match="must be the number of samples"):
        model.sample(-1, generator_of(0))


def test_start_of_sparse_coding_needs_samples_that_differ():
    with pytest.raises(DataError, match="no differences that causes can explain"):
        BinarySparseCoding.start(torch.ones(9, 4).double(), 2, generator_of(0))
