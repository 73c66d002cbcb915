"""M-step by reparameterised gradients, and the ablations of EIM that use it (thesis 6.1)."""

import math
from dataclasses import dataclass

import pytest
import torch
from learning.models.random_models import (
    generator_of,
    normal,
    random_mixture_of_experts,
    random_neural_mixture_of_experts,
)
from learning.toys import kl_between
from torch import Tensor

from eim_ros.learning.configs import GradientStepsConfig
from eim_ros.learning.eim.m_step import update_by_gradients
from eim_ros.learning.models import MixtureOfExperts


@dataclass(frozen=True)
class ExactRatio:
    """phi = log target - log old, both known."""

    target: MixtureOfExperts
    old: MixtureOfExperts

    def log_ratio(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        return self.target.log_prob(context, sample) - self.old.log_prob(context, sample)

    def gradient(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        return self.target.score(context, sample) - self.old.score(context, sample)


def context_of(model: MixtureOfExperts) -> Tensor:
    return normal(generator_of(3), 300, model.n_context)


@pytest.mark.parametrize("kl_weight", [0.0, 1.0])
@pytest.mark.parametrize("make", [random_mixture_of_experts, random_neural_mixture_of_experts])
@pytest.mark.parametrize("n_context", [0, 1])
def test_iterations_come_closer_to_the_target(make, n_context, kl_weight):
    if n_context == 0 and make is random_neural_mixture_of_experts:
        pytest.skip("networks need contexts")
    target, model = random_mixture_of_experts(1, 2, 2, n_context), make(2, 2, 2, n_context)
    before = kl_between(model, target)
    for iteration in range(15):
        ratio = ExactRatio(target, model)
        config = GradientStepsConfig(step_size=0.02 if make is random_mixture_of_experts else 0.005)
        model, record = update_by_gradients(
            config, model, ratio, context_of(target), generator_of(iteration), kl_weight
        )
        assert record["updated"] == 1.0
    assert kl_between(model, target) < 0.6 * before


def test_kl_term_keeps_the_model_near_the_old_one():
    target, model = random_mixture_of_experts(1, 2, 2, 1), random_mixture_of_experts(2, 2, 2, 1)
    config = GradientStepsConfig(n_steps=100, step_size=0.02)
    moved = [
        update_by_gradients(config, model, ExactRatio(target, model), context_of(target), generator_of(4), weight)[0]
        for weight in (0.0, 1.0, 100.0)
    ]
    distances = [kl_between(new, model) for new in moved]
    assert distances[2] < 0.1 * distances[1]
    assert distances[1] < distances[0]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_ratio_that_is_not_finite_leaves_the_model_as_it_is(value):
    class Broken:
        def log_ratio(self, context, sample, component=None):
            return torch.full_like(sample[:, 0], value)

        def gradient(self, context, sample, component=None):
            return torch.full_like(sample, value)

    model = random_mixture_of_experts(2, 2, 2, 1)
    new, record = update_by_gradients(GradientStepsConfig(), model, Broken(), context_of(model), generator_of(0))
    assert record["updated"] == 0.0
    assert new is model
