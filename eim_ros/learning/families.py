"""Which kind of gating and of experts a learner fits, where it is not given a start."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.core.settings import Settings, option
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.neural import NeuralExperts, NeuralGating
from eim_ros.learning.projections.neural import FitSettings, fit_neural_gating

START_ITERATIONS = 50  # of L-BFGS, by which a neural gating takes over the probabilities of a linear one


@dataclass(frozen=True)
class NetworkFitConfig(Settings):
    """Settings of the fits of neural experts and gatings."""

    parameter_iterations: int = option(20, "L-BFGS iterations of the networks of a neural model per update", minimum=1)
    parameter_l2: float = option(1e-3, "weight of the sum of squared weights of these networks", minimum=0.0)

    @property
    def fit_settings(self) -> FitSettings:
        return FitSettings(self.parameter_iterations, self.parameter_l2)


@dataclass(frozen=True)
class FamilyConfig(NetworkFitConfig):
    """Settings that name the family of models."""

    components: str = option(
        "linear", "experts: linear in the context, or networks of it (thesis 4.2.3)", choices=("linear", "neural")
    )
    gating: str = option("linear", "gating: softmax of linear functions, or of a network", choices=("linear", "neural"))
    parameter_layers: tuple[int, ...] = option((50, 50), "widths of the networks' hidden layers", minimum=1)

    @property
    def is_linear(self) -> bool:
        return self.components == "linear" and self.gating == "linear"


def is_linear(model: MixtureOfExperts) -> bool:
    """Whether both parts are linear."""
    return isinstance(model.gating, SoftmaxGating) and isinstance(model.experts, LinearExperts)


def with_networks(
    model: MixtureOfExperts, config: FamilyConfig, context: Tensor, generator: torch.Generator
) -> MixtureOfExperts:
    """The same model in another family.

    Parameters
    ----------
    model : MixtureOfExperts
        Linear.
    config : FamilyConfig
    context : Tensor (n_samples, n_context)
        Contexts of the data: inputs are standardised by them, and a neural gating is fitted at them.
    generator : torch.Generator
        Hidden weights of the networks.

    Returns
    -------
    MixtureOfExperts
        Neural experts are exactly the linear ones; a neural gating is about the linear one.
    """
    gating, experts = model.gating, model.experts
    if config.components == "neural" and isinstance(experts, LinearExperts):
        experts = NeuralExperts.around(experts, context, config.parameter_layers, generator)
    if config.gating == "neural" and isinstance(gating, SoftmaxGating):
        fresh = NeuralGating.uniform(context, model.n_components, config.parameter_layers, generator)
        gating = fit_neural_gating(fresh, context, gating(context).exp(), FitSettings(START_ITERATIONS, 1e-6))
    return MixtureOfExperts(gating, experts)
