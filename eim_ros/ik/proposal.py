"""The mixture of experts for one pose: one evaluation of the model serves any number of samples and densities.

NumPy and compiled loops on the CPU: a request is small, and an operation of a deep learning library costs more than its
arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from eim_ros.distributions import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.ik.proposal_kernels import draw, log_densities

__all__ = ["ConditionalMixture", "Proposal"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConditionalMixture:
    """q(x | y) averaged over the given contexts, a Gaussian mixture with a component for each context and expert.

    Attributes
    ----------
    log_weights : (n_components,)
    means : (n_components, n_dims)
    parts : Factors
        Shared by all contexts, or of each component.
    n_experts : int
        Component c is of expert c modulo n_experts.
    """

    log_weights: FloatArray
    means: FloatArray
    parts: Factors
    n_experts: int

    def sample(self, n_samples: int, rng: np.random.Generator) -> tuple[FloatArray, npt.NDArray[np.uint32]]:
        """Samples (n_samples, n_dims) and the expert (n_samples,) each came from."""
        cumulative = np.cumsum(np.exp(self.log_weights))
        uniform, noise = rng.random(n_samples), rng.standard_normal((n_samples, self.means.shape[1]))
        positions, components = np.empty_like(noise), np.empty(n_samples, dtype=np.int64)
        draw(cumulative, self.means, self.parts.scale_trils, uniform, noise, positions, components)
        return positions, (components % self.n_experts).astype(np.uint32)

    def log_prob(self, samples: FloatArray) -> FloatArray:
        """Log density (n_samples,) [nat]."""
        repeats = len(self.means) // len(self.parts.log_normalisers)
        height = self.log_weights + np.tile(self.parts.log_normalisers, repeats)
        result = np.empty(len(samples))
        columns = np.ascontiguousarray(samples.T, dtype=np.float64)
        log_densities(np.argsort(-height), height, self.means, self.parts.inverse_scale, columns, result)
        return result


@dataclass(frozen=True, eq=False)
class Factors:
    """Cholesky factors (m, d, d), their inverses (m, d, d), and log normalisers (m,) of m Gaussians."""

    scale_trils: FloatArray
    inverse_scale: FloatArray
    log_normalisers: FloatArray

    @classmethod
    def of(cls, scale_trils: torch.Tensor) -> Factors:
        identity = torch.eye(scale_trils.shape[-1], dtype=scale_trils.dtype).expand_as(scale_trils)
        inverse = torch.linalg.solve_triangular(scale_trils, identity, upper=False)
        diagonal = scale_trils.diagonal(dim1=-2, dim2=-1)
        log_normalisers = -diagonal.log().sum(-1) - 0.5 * scale_trils.shape[-1] * math.log(2.0 * math.pi)
        arrays = (scale_trils, inverse, log_normalisers)
        return cls(*(np.ascontiguousarray(array.numpy()) for array in arrays))


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
        self._prepared = _LinearParts(mixture) if linear else _AnyParts(mixture)

    def condition(self, contexts: FloatArray) -> ConditionalMixture:
        """The mixture for contexts (n_contexts, n_context), averaged over them with equal weights."""
        log_gate, means, factors = self._prepared(contexts)
        log_weights = (log_gate - np.log(len(contexts))).reshape(-1)
        return ConditionalMixture(log_weights, means.reshape(-1, self.n_dims), factors, self.n_experts)


class _LinearParts:
    """Log gate (n, k), means (n, k, d) and factors of linear parts at contexts (n, dy)."""

    def __init__(self, mixture: MixtureOfExperts) -> None:
        tensors = mixture.tensors()
        parameters = {name: value.numpy() for name, value in tensors.items()}
        self._gating_weights, self._gating_biases = parameters["gating.weights"], parameters["gating.biases"]
        weights, self._biases = parameters["experts.weights"], parameters["experts.biases"]
        self._weights = np.ascontiguousarray(weights.reshape(-1, weights.shape[-1]).T)
        self._factors = Factors.of(tensors["experts.scale_trils"])

    def __call__(self, contexts: FloatArray) -> tuple[FloatArray, FloatArray, Factors]:
        logits = contexts @ self._gating_weights.T + self._gating_biases
        means = (contexts @ self._weights).reshape(-1, *self._biases.shape) + self._biases
        return logits - _logsumexp(logits)[:, None], means, self._factors


class _AnyParts:
    """The same of any gating and experts, by their own calls."""

    def __init__(self, mixture: MixtureOfExperts) -> None:
        self._mixture = mixture

    def __call__(self, contexts: FloatArray) -> tuple[FloatArray, FloatArray, Factors]:
        context = torch.from_numpy(np.ascontiguousarray(contexts, dtype=np.float64))
        with torch.no_grad():
            log_gate, experts = self._mixture.gating(context), self._mixture.experts(context)
            factors = experts.scale_tril.expand(*experts.mean.shape, experts.n_dims).flatten(0, 1).contiguous()
        return log_gate.numpy(), experts.mean.numpy(), Factors.of(factors)


def _logsumexp(values: FloatArray) -> FloatArray:
    """Over the last axis of a matrix of finite values; SciPy's takes longer than all the rest of a request."""
    largest = values.max(axis=1)
    return np.asarray(largest + np.log(np.exp(values - largest[:, None]).sum(axis=1)))
