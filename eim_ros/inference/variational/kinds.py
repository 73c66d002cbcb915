"""Which kind of components a model has: of a start, and of what a checkpoint holds."""

from __future__ import annotations

from torch import Tensor

from eim_ros.distributions import LinearExperts, MixtureOfExperts
from eim_ros.distributions.standardisation import linear_parts
from eim_ros.errors import ConfigurationError
from eim_ros.inference.variational.component_densities import Snapshot
from eim_ros.inference.variational.components import Components
from eim_ros.inference.variational.context_gate import ContextGate
from eim_ros.inference.variational.diagonal_components import DiagonalComponents
from eim_ros.inference.variational.expert_components import ExpertComponents
from eim_ros.inference.variational.expert_densities import PastExperts
from eim_ros.inference.variational.full_components import FullComponents

__all__ = ["components_of", "restored"]


def components_of(model: MixtureOfExperts, context: Tensor, covariance: str) -> tuple[Tensor, Components]:
    """Log weights and components of a linear model.

    Parameters
    ----------
    model : MixtureOfExperts
    context : Tensor (n_contexts, n_context)
        Of no columns for a mixture.
    covariance : str
        "full", or "diagonal" for components without contexts that keep only the variances.
    """
    gating, experts = linear_parts(model)
    if model.n_context > 0:
        if covariance == "diagonal":
            raise ConfigurationError("diagonal covariances are for mixtures without contexts; choose full", covariance)
        components = ExpertComponents(experts, ContextGate(gating.weights, gating.biases, context))
        return components.gate.log_mass, components
    log_weights = gating(context[:1])[0]
    if covariance == "diagonal":
        return log_weights, DiagonalComponents(experts.biases, experts.scale_trils.square().sum(-1).sqrt())
    return log_weights, FullComponents(experts.biases, experts.scale_trils)


def restored(components: dict[str, Tensor], earlier: dict[str, Tensor], context: Tensor) -> tuple[Components, Snapshot]:
    """Components and their past from tensors by name."""
    if "gate_biases" in components:
        gate = ContextGate(components.pop("gate_weights"), components.pop("gate_biases"), context)
        return ExpertComponents(LinearExperts(**components), gate), PastExperts.from_tensors(earlier)
    kind = DiagonalComponents if "scales" in components else FullComponents
    return kind(**components), kind(**earlier)
