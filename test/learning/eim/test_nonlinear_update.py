"""M-step of neural experts: bounds hold for the parameters, exact ratios are followed, bad ones change nothing."""

import math

import pytest
import torch
from learning.models.random_models import (
    generator_of,
    random_experts,
    random_gating,
    random_neural_experts,
    random_neural_mixture_of_experts,
)

from eim_ros.core.errors import DistributionError
from eim_ros.learning.configs import MStepConfig, NetworkConfig
from eim_ros.learning.eim.m_step import balanced_noise, update_experts, update_nonlinear_experts
from eim_ros.learning.models import Experts, LinearExperts, MixtureOfExperts, NeuralExperts, SoftmaxGating

SMALL = MStepConfig(n_contexts=200, n_context_samples=8)


def networks(l2: float = 1e-3) -> NetworkConfig:
    return NetworkConfig(iterations=10, l2=l2)


def single(experts: Experts) -> MixtureOfExperts:
    zero = torch.zeros(1, experts.n_context).double()
    return MixtureOfExperts(SoftmaxGating(zero, zero.new_zeros(1)), experts)


class Exact:
    """log p - log q_old of two known models, plus a constant."""

    def __init__(self, target: MixtureOfExperts, model: MixtureOfExperts, constant: float = 0.0) -> None:
        self.target, self.model, self.constant = target, model, constant

    def log_ratio(self, context: torch.Tensor, sample: torch.Tensor) -> torch.Tensor:
        return self.target.log_prob(context, sample) - self.model.log_prob(context, sample) + self.constant

    def gradient(self, context: torch.Tensor, sample: torch.Tensor) -> torch.Tensor:
        raise AssertionError("nonlinear experts need no gradient")


class Constant:
    def __init__(self, value: float) -> None:
        self.value = value

    def log_ratio(self, context: torch.Tensor, sample: torch.Tensor) -> torch.Tensor:
        return torch.full_like(sample[:, 0], self.value)


def uniform_contexts(seed: int, n: int = 1000) -> torch.Tensor:
    return 4.0 * torch.rand(n, 1, generator=generator_of(seed), dtype=torch.float64) - 2.0


@pytest.mark.parametrize(("kl_bound", "entropy_loss_bound"), [(0.01, 0.5), (0.5, 0.01), (0.02, 0.02)])
def test_bounds_hold_for_the_new_parameters(kl_bound, entropy_loss_bound):
    model, target = random_neural_mixture_of_experts(0, 3, 2, 1), random_neural_mixture_of_experts(10, 3, 2, 1)
    context = uniform_contexts(1)
    config = SMALL.replace(kl_bound=kl_bound, entropy_loss_bound=entropy_loss_bound)
    updated, record = update_experts(config, model, Exact(target, model), context, generator_of(2), networks=networks())
    assert updated.gating is model.gating
    assert isinstance(updated.experts, NeuralExperts)
    old, new = model.experts(context), updated.experts(context)
    weights = model.gating(context).exp()
    kl = (weights * new.kl(old)).sum(0) / weights.sum(0)
    loss = (weights * (old.entropy() - new.entropy())).sum(0) / weights.sum(0)
    # the bounds hold at the 200 contexts drawn; these are all 1000, weighted
    assert (kl < 1.3 * kl_bound).all()
    assert (loss < entropy_loss_bound + 0.3 * max(entropy_loss_bound, 0.02)).all()
    assert 0.0 < record["expert_kl"] <= kl_bound
    assert record["updated"] == 1.0


def test_exact_ratio_leads_to_a_nonlinear_target():
    """sin(3 y) with a deviation that grows: a straight line cannot follow, the KL to it falls to nearly nothing."""
    context = uniform_contexts(3)
    target = single(random_neural_experts(4, 1, 1, 1))
    start = LinearExperts(torch.zeros(1, 1, 1).double(), torch.zeros(1, 1).double(), torch.ones(1, 1, 1).double())
    model = single(NeuralExperts.around(start, context, (16, 16), generator_of(5)))
    config = SMALL.replace(kl_bound=0.3, entropy_loss_bound=0.5)
    generator = generator_of(6)

    def divergence(model: MixtureOfExperts) -> float:
        return float(model.experts(context).kl(target.experts(context)).mean())

    first = divergence(model)
    for _ in range(15):
        model, _ = update_experts(config, model, Exact(target, model), context, generator, networks=networks(1e-5))
    assert first > 0.3
    assert divergence(model) < 0.01


def test_ratio_of_one_changes_nothing():
    """The samples' moments are exactly the experts' own, so the refit starts at its optimum."""
    model, context = random_neural_mixture_of_experts(7, 2, 2, 1), uniform_contexts(8)
    updated, _ = update_experts(SMALL, model, Constant(0.0), context, generator_of(9), networks=networks(0.0))
    before, after = model.experts(context), updated.experts(context)
    assert float(after.kl(before).max()) < 1e-10


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_ratio_that_is_no_number_changes_nothing(value):
    model, context = random_neural_mixture_of_experts(13, 2, 2, 1), uniform_contexts(14)
    updated, record = update_experts(SMALL, model, Constant(value), context, generator_of(15), networks=networks())
    assert record["updated"] == 0.0
    for name, parameter in model.tensors().items():
        assert torch.equal(updated.tensors()[name], parameter)


def test_other_experts_are_refused():
    model = MixtureOfExperts(random_gating(21, 2, 1), random_experts(22, 2, 2, 1))
    with pytest.raises(DistributionError, match="LinearExperts"):
        update_nonlinear_experts(MStepConfig(), model, Constant(0.0), uniform_contexts(23), generator_of(24))


@pytest.mark.parametrize(("n_samples", "n_dims"), [(2, 1), (10, 1), (9, 2), (2, 3)])
def test_noise_has_the_moments_of_the_standard_normal_at_every_context(n_samples, n_dims):
    noise = balanced_noise(torch.zeros(2, 5, 3).double(), n_samples, n_dims, generator_of(25))
    n = noise.shape[2]
    assert n >= max(n_samples, 2 * (n_dims + 1))
    torch.testing.assert_close(noise.mean(2), torch.zeros(2, 5, n_dims).double(), rtol=0.0, atol=1e-13)
    moment = noise.mT @ noise / n
    torch.testing.assert_close(moment, torch.eye(n_dims).double().expand_as(moment), rtol=0.0, atol=1e-10)
