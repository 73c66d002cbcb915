"""Kinds of gating and experts, which the settings select for fits without an initial model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.core.settings import Settings, option
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.neural import NeuralExperts, NeuralGating
from eim_ros.learning.projections.neural import FitSettings, fit_neural_gating

START_ITERATIONS = 50  # L-BFGS iterations that fit a neural gating to the probabilities of a linear one


@dataclass(frozen=True)
class NetworkConfig(Settings):
    """Settings of neural experts and gatings, and of their fits."""

    layers: tuple[int, ...] = option((50, 50), "widths of the hidden layers", minimum=1)
    iterations: int = option(20, "L-BFGS iterations of the networks per update", minimum=1)
    l2: float = option(1e-3, "weight of the sum of squared network weights", minimum=0.0)

    @property
    def fit_settings(self) -> FitSettings:
        return FitSettings(self.iterations, self.l2)


@dataclass(frozen=True)
class FamilyConfig(Settings):
    """Settings that select the kinds of experts and gating."""

    expert_kind: str = option(
        "linear", "experts: linear in the context, or networks of it (thesis 4.2.3)", choices=("linear", "neural")
    )
    gating_kind: str = option(
        "linear", "gating: softmax of linear functions, or of the outputs of a network", choices=("linear", "neural")
    )
    networks: NetworkConfig = NetworkConfig()

    @property
    def is_linear(self) -> bool:
        return self.expert_kind == "linear" and self.gating_kind == "linear"


def with_networks(
    model: MixtureOfExperts, config: FamilyConfig, context: Tensor, generator: torch.Generator
) -> MixtureOfExperts:
    """Convert a linear model to the kinds of experts and gating in the settings.

    Neural experts equal the linear ones exactly; a neural gating approximates the linear one. Contexts of the data
    (n_samples, n_context) standardise the networks' inputs, and a neural gating is fitted at them.
    """
    gating, experts = model.gating, model.experts
    if config.expert_kind == "neural" and isinstance(experts, LinearExperts):
        experts = NeuralExperts.around(experts, context, config.networks.layers, generator)
    if config.gating_kind == "neural" and isinstance(gating, SoftmaxGating):
        fresh = NeuralGating.uniform(context, model.n_components, config.networks.layers, generator)
        gating = fit_neural_gating(fresh, context, gating(context).exp(), FitSettings(START_ITERATIONS, 1e-6))
    return MixtureOfExperts(gating, experts)
