"""Updates of the gating from rewards of a random part of the experts at each context."""

from __future__ import annotations

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_mixture_of_experts

from eim_ros.learning.configs import MStepConfig
from eim_ros.learning.eim.m_step import update_gating
from eim_ros.learning.models import MixtureOfExperts

N_EXPERTS, N_CONTEXTS, BAD = 20, 500, 3
UNLIMITED = MStepConfig().replace(**{"gating.n_contexts": N_CONTEXTS, "gating.kl_bound": 0.1})


class LinearReward:
    """Log ratio that depends on the context and the expert only, with one expert that is bad everywhere."""

    def __init__(self) -> None:
        generator = generator_of(1)
        self.slopes, self.offsets = normal(generator, N_EXPERTS, 2), normal(generator, N_EXPERTS)
        self.offsets[BAD] = -1000.0
        self.evaluations = 0

    def log_ratio(self, context, sample, component=None):
        self.evaluations += len(context)
        return (self.slopes[component] * context).sum(-1) + self.offsets[component]


def updated(config: MStepConfig, n_updates: int, seed: int, n_context: int = 2) -> tuple[MixtureOfExperts, int]:
    """Return the model after some updates, and the number of evaluations."""
    model, ratio, generator = random_mixture_of_experts(0, N_EXPERTS, 2, n_context), LinearReward(), generator_of(seed)
    if n_context == 0:
        ratio.slopes = ratio.slopes[:, :0]
    context = normal(generator_of(2), 2000, n_context)
    for _ in range(n_updates):
        model, _, _ = update_gating(config, model, ratio, context, generator)
    return model, ratio.evaluations


@pytest.mark.parametrize("n_context", [0, 2])
def test_sampled_rewards_lead_to_the_gating_of_all_rewards(n_context):
    sampled = UNLIMITED.replace(**{"gating.n_experts": 8})
    context = normal(generator_of(3), 2000, n_context)
    expected = updated(UNLIMITED, 10, 0, n_context)[0].gating(context).exp()
    distances = []
    for seed in range(10):
        model, evaluations = updated(sampled, 10, seed, n_context)
        probabilities = model.gating(context).exp()
        assert evaluations < 10 * 8 * N_CONTEXTS
        assert probabilities[:, BAD].mean() < 0.1 / N_EXPERTS
        distances.append(0.5 * (probabilities - expected).abs().sum(-1).mean())
    # Total variation. The old gating is farther than 0.15. One run is 0.03 away on average, with a standard deviation
    # of 0.013 (30 seeds), so the mean of ten is at 0.055 only if it is six of its standard deviations too large.
    assert torch.stack(distances).mean() < 0.055


@pytest.mark.parametrize(
    "settings", [{"gating.n_experts": N_EXPERTS}, {"gating.gradient": "natural"}, {"gating.update": "refit"}]
)
def test_high_limits_refits_and_natural_gradients_evaluate_all_experts(settings):
    limited = UNLIMITED.replace(**{"gating.n_experts": 8, **settings})
    model, evaluations = updated(limited, 1, 0)
    expected, _ = updated(limited.replace(**{"gating.n_experts": 0}), 1, 0)
    assert evaluations == N_EXPERTS * N_CONTEXTS
    torch.testing.assert_close(model.gating.weights, expected.gating.weights, rtol=0.0, atol=0.0)
