"""The mixture of experts for one pose: one evaluation of the model serves any number of samples and densities.

NumPy and compiled loops on the CPU: a request is small, and an operation of a deep learning library costs more than its
arithmetic.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from eim_ros.distributions import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.ik.proposal_kernels import draw, log_densities, log_gate

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
    def of(cls, weights: FloatArray, biases: FloatArray, scale_trils: torch.Tensor, n_reported: int) -> Experts:
        identity = torch.eye(scale_trils.shape[-1], dtype=scale_trils.dtype).expand_as(scale_trils)
        inverse = torch.linalg.solve_triangular(scale_trils, identity, upper=False)
        diagonal = scale_trils.diagonal(dim1=-2, dim2=-1)
        log_normalisers = -diagonal.log().sum(-1) - 0.5 * scale_trils.shape[-1] * math.log(2.0 * math.pi)
        return cls(
            np.ascontiguousarray(weights),
            np.ascontiguousarray(biases),
            np.ascontiguousarray(scale_trils.numpy()),
            np.ascontiguousarray(inverse.numpy()),
            np.ascontiguousarray(log_normalisers.numpy()),
            n_reported,
        )


class Proposal:
    """A mixture of experts prepared for requests.

    Parameters
    ----------
    mixture : MixtureOfExperts
    """

    def __init__(self, mixture: MixtureOfExperts) -> None:
        mixture = mixture.to(device="cpu", dtype=torch.float64)
        self.n_experts, self.n_dims, self.n_context = mixture.n_components, mixture.n_dims, mixture.n_context
        linear = isinstance(mixture.experts, LinearExperts) and isinstance(mixture.gating, SoftmaxGating)
        self.condition: Callable[[FloatArray], ConditionalMixture] = _linear(mixture) if linear else _any(mixture)
        """The mixture for contexts (n_contexts, n_context), averaged over them with equal weights."""


def _linear(mixture: MixtureOfExperts) -> Callable[[FloatArray], ConditionalMixture]:
    """Of linear parts: only the gate has to be evaluated, experts where they are drawn."""
    tensors = mixture.tensors()
    gating_weights = np.ascontiguousarray(tensors["gating.weights"].numpy().T)
    gating_biases = tensors["gating.biases"].numpy()
    experts = Experts.of(
        tensors["experts.weights"].numpy(),
        tensors["experts.biases"].numpy(),
        tensors["experts.scale_trils"],
        mixture.n_components,
    )

    def condition(contexts: FloatArray) -> ConditionalMixture:
        log_weights = np.empty((len(contexts), len(gating_biases)))
        log_gate(contexts, gating_weights, gating_biases, log_weights)
        return ConditionalMixture(log_weights.reshape(-1), contexts, experts)

    return condition


def _any(mixture: MixtureOfExperts) -> Callable[[FloatArray], ConditionalMixture]:
    """Of any gating and experts, by their own calls: an expert for each context, of which it is independent."""

    def condition(contexts: FloatArray) -> ConditionalMixture:
        context = torch.from_numpy(np.ascontiguousarray(contexts, dtype=np.float64))
        with torch.no_grad():
            gate, gaussians = mixture.gating(context), mixture.experts(context)
            factors = gaussians.scale_tril.expand(*gaussians.mean.shape, gaussians.n_dims).flatten(0, 1)
        means = gaussians.mean.flatten(0, 1).numpy()
        experts = Experts.of(np.empty((*means.shape, 0)), means, factors, mixture.n_components)
        log_weights = gate.numpy() - math.log(len(contexts))
        return ConditionalMixture(log_weights.reshape(-1), np.empty((1, 0)), experts)

    return condition
