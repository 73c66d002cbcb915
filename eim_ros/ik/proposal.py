"""The mixture of experts for one pose: one evaluation of the model serves any number of samples and densities.

Compiled, on the CPU: a request is small, and an operation of a deep learning library costs more than its arithmetic.
Networks are evaluated by torch, see `network_proposal.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eim_ros.distributions import LinearParameters
from eim_ros.solver import Experts, log_gate

if TYPE_CHECKING:
    from eim_ros.distributions import MixtureOfExperts

__all__ = ["ConditionalMixture", "Proposal"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConditionalMixture:
    """q(x | y) averaged over the given contexts, a Gaussian mixture with a component for each context and expert.

    Attributes
    ----------
    log_weights : (n_contexts * n_experts,)
    contexts : (n_contexts, n_context)
    experts : Experts
    """

    log_weights: FloatArray
    contexts: FloatArray
    experts: Experts

    def sample(self, n_samples: int, rng: np.random.Generator) -> tuple[FloatArray, npt.NDArray[np.uint32]]:
        """Samples (n_samples, n_dims) and the expert (n_samples,) each came from."""
        return self.experts.draw(self.log_weights, self.contexts, n_samples, rng.random())

    def log_prob(self, samples: FloatArray) -> FloatArray:
        """Log density (n_samples,) [nat]; NaN where there are no components."""
        if not len(self.log_weights):
            return np.full(len(samples), np.nan)
        return self.experts.log_density(self.log_weights, self.contexts, samples)


class Proposal:
    """A mixture of experts prepared for requests.

    Parameters
    ----------
    model : LinearParameters or MixtureOfExperts
    """

    def __init__(self, model: LinearParameters | MixtureOfExperts) -> None:
        self.n_experts, self.n_dims, self.n_context = model.n_components, model.n_dims, model.n_context
        self.condition: Callable[[FloatArray], ConditionalMixture]
        """The mixture for contexts (n_contexts, n_context), averaged over them with equal weights."""
        if not isinstance(model, LinearParameters):
            if not LinearParameters.fits(model.tensors()):
                from eim_ros.ik.network_proposal import by_networks  # here: it needs torch

                self.condition = by_networks(model)
                return
            model = LinearParameters.of(model)
        self.condition = _linear(model)

    @classmethod
    def none(cls, n_dims: int) -> Proposal:
        """Without any expert: it proposes nothing, and says NaN of densities."""
        proposal = cls.__new__(cls)
        proposal.n_experts, proposal.n_dims, proposal.n_context = 0, n_dims, 0
        experts = Experts(np.empty((0, n_dims, 0)), np.empty((0, n_dims)), np.empty((0, n_dims, n_dims)), 1)
        nothing = ConditionalMixture(np.empty(0), np.empty((1, 0)), experts)
        proposal.condition = lambda contexts: nothing
        return proposal


def _linear(model: LinearParameters) -> Callable[[FloatArray], ConditionalMixture]:
    """Of linear parts: only the gate has to be evaluated, experts where they are drawn."""
    gating_weights = np.ascontiguousarray(model.gating_weights.T, dtype=np.float64)
    gating_biases = np.ascontiguousarray(model.gating_biases, dtype=np.float64)
    experts = Experts(model.weights, model.biases, model.scale_trils, model.n_components)

    def condition(contexts: FloatArray) -> ConditionalMixture:
        log_weights = log_gate(contexts, gating_weights, gating_biases)
        return ConditionalMixture(log_weights.reshape(-1), contexts, experts)

    return condition
