"""Small learning problems: samples of known models, the exact density ratio, distances between models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from learning.models.random_models import generator_of, normal
from torch import Tensor

from eim_ros.learning import EIMConfig, History
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts

__all__ = [
    "MODES",
    "DEGENERATE",
    "KnownInputs",
    "bimodal_pairs",
    "kl_between",
    "known_ratio_config",
    "modes",
    "normal_mixture",
    "pairs_from",
    "small_eim_config",
    "without_times",
]


def pairs_from(model: MixtureOfExperts, n_samples: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return standard normal contexts, and one sample of the model for each context."""
    generator = generator_of(seed)
    context = normal(generator, n_samples, model.n_context)
    return context, model.sample(context, generator)


def bimodal_pairs(n_samples: int, distance: float = 2.0, deviation: float = 0.3) -> tuple[Tensor, Tensor]:
    """Return pairs x = +- distance + 0.5 y. One expert can cover one branch or average over both branches."""
    generator = generator_of(0)
    context = normal(generator, n_samples, 1)
    sign = 2.0 * torch.randint(2, (n_samples, 1), generator=generator).double() - 1.0
    return context, distance * sign + 0.5 * context + deviation * normal(generator, n_samples, 1)


def normal_mixture(mean: list[float], variance: float = 1.0) -> GaussianMixture:
    """Return a mixture of one component with this mean and the covariance `variance` I."""
    means = torch.tensor([mean]).double()
    return GaussianMixture(torch.zeros(1).double(), means, variance**0.5 * torch.eye(len(mean)).double().unsqueeze(0))


MODES = torch.tensor([[0.0, 0.0], [20.0, 5.0], [-15.0, 18.0], [3.0, -25.0]]).double()


def modes(n_modes: int = 4) -> GaussianMixture:
    """Return distant modes in the plane, with unequal weights."""
    weights = torch.log_softmax(torch.tensor([0.0, 0.5, -0.5, 0.2]).double()[:n_modes], -1)
    return GaussianMixture(weights, MODES[:n_modes], torch.eye(2).double().expand(n_modes, 2, 2))


_CONTEXT, _SAMPLE = normal(generator_of(8), 40, 2), normal(generator_of(9), 40, 3)
DEGENERATE = {
    "one point": (_CONTEXT[:1], _SAMPLE[:1]),
    "two points": (_CONTEXT[:2], _SAMPLE[:2]),
    "duplicated points": (_CONTEXT[:2].repeat(20, 1), _SAMPLE[:2].repeat(20, 1)),
    "all the same": (_CONTEXT[:1].repeat(20, 1), _SAMPLE[:1].repeat(20, 1)),
    "constant context": (torch.full_like(_CONTEXT, 0.1), _SAMPLE),
    "constant sample": (_CONTEXT, _SAMPLE.index_fill(1, torch.tensor([1]), 0.1)),
    "no context": (_CONTEXT[:, :0], _SAMPLE),
    "exact line": (_CONTEXT, _CONTEXT @ normal(generator_of(10), 2, 3)),
    "large units": (1e6 * _CONTEXT + 1e8, 1e6 * _SAMPLE - 1e8),
    "small units": (1e-6 * _CONTEXT, 1e-6 * _SAMPLE),
}


def kl_between(model: MixtureOfExperts, target: MixtureOfExperts, n_samples: int = 5000) -> float:
    """Estimate E_p(y) KL(model || target) [nat] from samples. It has no bias, and is exactly zero for equal models."""
    context, sample = pairs_from(model, n_samples, seed=99)
    return float((model.log_prob(context, sample) - target.log_prob(context, sample)).mean())


@dataclass(frozen=True)
class KnownInputs:
    """Inputs that know the density of the target, so phi is exact without a network."""

    target: MixtureOfExperts

    @property
    def n_inputs(self) -> int:
        return self.target.n_dims + self.target.n_context

    def smoothing(self, iteration: int) -> Tensor | None:
        return None

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor | None:
        return self.target.log_prob(context, sample)

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return torch.cat([sample, context], -1)


def known_ratio_config(**settings: Any) -> EIMConfig:
    """Return settings of an EIM without a network."""
    return EIMConfig.from_mapping({"ratio.estimator": "plug-in", **settings})


def small_eim_config(**settings: Any) -> EIMConfig:
    """Return settings of a fit that takes about a second. Each setting can be overridden."""
    defaults = {
        "ratio.hidden_layers": (16, 16),
        "ratio.dropout": 0.0,
        "ratio.learning_rate": 3e-3,
        "ratio.batch_size": 200,
        "ratio.initial_epochs": 5,
        "ratio.n_epochs": 2,
        "ratio.validation_share": 0.1,
        "n_components": 2,
        "n_iterations": 5,
        "plateau_window": 0,
        "start.em_iterations": 3,
        "start.n_starts": 1,
        "ratio.estimator": "network",
        "ratio.reference.factors": (2.0,),
        "ratio.reference.starts": 1,
        "ratio.reference.iterations": 10,
        "m_step.kl_bound": 0.05,
        "m_step.entropy_loss_bound": 0.05,
        "m_step.gating.kl_bound": 0.02,
        "m_step.gating.entropy_loss_bound": 0.05,
        "m_step.gating.n_contexts": 100,
        "m_step.gating.n_samples": 1,
        "m_step.n_samples": 50,
        "m_step.surrogate": "gradient",
    }
    return EIMConfig.from_mapping({**defaults, **settings})


def without_times(history: History) -> list[dict[str, float]]:
    """Return the records of a run without the CPU time of each iteration."""
    return [{name: value for name, value in record.items() if name != "cpu_seconds"} for record in history.records]
