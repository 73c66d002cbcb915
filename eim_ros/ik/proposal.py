"""The mixture of experts for one pose: one evaluation of the model serves any number of samples and densities.

NumPy and compiled loops on the CPU: a request is small, and an operation of a deep learning library costs more than its
arithmetic. Networks are evaluated by torch, see `network_proposal.py`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eim_ros.distributions import LinearParameters
from eim_ros.ik.proposal_kernels import draw, log_densities, log_gate

if TYPE_CHECKING:
    from eim_ros.distributions import MixtureOfExperts

__all__ = ["ConditionalMixture", "Experts", "Proposal"]

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
        experts = self.experts
        uniform, noise = rng.random(n_samples), rng.standard_normal((n_samples, experts.biases.shape[1]))
        positions, components = np.empty_like(noise), np.empty(n_samples, dtype=np.int64)
        draw(
            self.log_weights, 1.0, self.contexts, experts.weights, experts.biases, experts.scale_trils, uniform,
            noise, positions, components,
        )  # fmt: skip
        return positions, (components % experts.n_reported).astype(np.uint32)

    @functools.cached_property
    def means(self) -> FloatArray:
        """Of the components (n_contexts * n_experts, n_dims)."""
        experts = self.experts
        k, d, dy = experts.weights.shape
        means = self.contexts @ experts.weights.reshape(k * d, dy).T + experts.biases.reshape(k * d)
        return np.asarray(means.reshape(-1, d))

    def log_prob(self, samples: FloatArray) -> FloatArray:
        """Log density (n_samples,) [nat]."""
        n_contexts = len(self.contexts)
        height = self.log_weights.reshape(n_contexts, -1) + self.experts.log_normalisers
        result = np.empty(len(samples))
        columns = np.ascontiguousarray(samples.T, dtype=np.float64)
        means = self.means.reshape(*height.shape, -1)
        log_densities(np.argsort(-height.max(axis=0)), height, means, self.experts.inverse_scale, columns, result)
        return result


@dataclass(frozen=True, eq=False)
class Experts:
    """Linear Gaussian experts, prepared: mean weights y + bias.

    Attributes
    ----------
    weights, biases : (k, d, dy), (k, d)
    scale_trils, inverse_scale : (k, d, d)
        Cholesky factors and their inverses.
    log_normalisers : (k,)
    n_reported : int
        Expert c is reported as number c modulo n_reported.
    """

    weights: FloatArray
    biases: FloatArray
    scale_trils: FloatArray
    inverse_scale: FloatArray
    log_normalisers: FloatArray
    n_reported: int

    @classmethod
    def of(cls, weights: FloatArray, biases: FloatArray, scale_trils: FloatArray, n_reported: int) -> Experts:
        diagonal = np.diagonal(scale_trils, axis1=-2, axis2=-1)
        log_normalisers = -np.log(diagonal).sum(axis=-1) - 0.5 * scale_trils.shape[-1] * math.log(2.0 * math.pi)
        return cls(
            np.ascontiguousarray(weights),
            np.ascontiguousarray(biases),
            np.ascontiguousarray(scale_trils),
            inverse_of_lower(scale_trils),
            log_normalisers,
            n_reported,
        )


def inverse_of_lower(factors: FloatArray) -> FloatArray:
    """Inverses of lower triangular matrices (k, d, d), row by row: forward substitution; what is above is not read."""
    inverse = np.zeros(factors.shape)
    for i in range(factors.shape[-1]):
        inverse[:, i, i] = 1.0
        inverse[:, i, :i] = -(factors[:, i, None, :i] @ inverse[:, :i, :i])[:, 0]
        inverse[:, i] /= factors[:, i, i, None]
    return inverse


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


def _linear(model: LinearParameters) -> Callable[[FloatArray], ConditionalMixture]:
    """Of linear parts: only the gate has to be evaluated, experts where they are drawn."""
    gating_weights = np.ascontiguousarray(model.gating_weights.T, dtype=np.float64)
    gating_biases = np.ascontiguousarray(model.gating_biases, dtype=np.float64)
    weights, biases, scale_trils = (
        values.astype(np.float64) for values in (model.weights, model.biases, model.scale_trils)
    )
    experts = Experts.of(weights, biases, scale_trils, model.n_components)

    def condition(contexts: FloatArray) -> ConditionalMixture:
        log_weights = np.empty((len(contexts), len(gating_biases)))
        log_gate(contexts, gating_weights, gating_biases, log_weights)
        return ConditionalMixture(log_weights.reshape(-1), contexts, experts)

    return condition
