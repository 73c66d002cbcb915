"""The mixture of experts for one pose: one evaluation of the model serves any number of samples and densities.

NumPy on the CPU, because a request is small and an operation of a deep learning library costs more than its arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from eim_ros.distributions import LinearExperts, MixtureOfExperts, SoftmaxGating

__all__ = ["ConditionalMixture", "Proposal"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConditionalMixture:
    """q(x | y) averaged over the given contexts, a Gaussian mixture.

    Attributes
    ----------
    log_weights : (n_components,)
    means : (n_components, n_dims)
    scale_trils : (n_components, n_dims, n_dims)
    inverse_scale : (n_components n_dims, n_dims)
        Rows of the inverse Cholesky factors, for whitening by one matrix product.
    log_normalisers : (n_components,)
    experts : (n_components,) of uint32
        Expert each component belongs to.
    """

    log_weights: FloatArray
    means: FloatArray
    scale_trils: FloatArray
    inverse_scale: FloatArray
    log_normalisers: FloatArray
    experts: npt.NDArray[np.uint32]

    def sample(self, n_samples: int, rng: np.random.Generator) -> tuple[FloatArray, npt.NDArray[np.uint32]]:
        """Samples (n_samples, n_dims) and the expert (n_samples,) each came from."""
        cumulative = np.cumsum(np.exp(self.log_weights))
        component = np.searchsorted(cumulative, rng.random(n_samples) * cumulative[-1], side="right")
        component = np.minimum(component, len(cumulative) - 1)
        noise = rng.standard_normal((n_samples, self.means.shape[1], 1))
        positions = self.means[component] + (self.scale_trils[component] @ noise)[..., 0]
        return positions, self.experts[component]

    def log_prob(self, samples: FloatArray) -> FloatArray:
        """Log density (n_samples,) [nat]."""
        n_components, n_dims = self.means.shape
        shift = np.einsum("kij,kj->ki", self.inverse_scale.reshape(n_components, n_dims, n_dims), self.means)
        residual = (samples @ self.inverse_scale.T).reshape(len(samples), n_components, n_dims) - shift
        exponent = -0.5 * np.einsum("nki,nki->nk", residual, residual)
        return _logsumexp(exponent + (self.log_weights + self.log_normalisers))


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
        log_gate, means, scale_trils, inverse_scale = self._prepared(contexts)
        diagonal = np.diagonal(scale_trils, axis1=1, axis2=2)
        return ConditionalMixture(
            log_weights=(log_gate - np.log(len(contexts))).reshape(-1),
            means=means.reshape(-1, self.n_dims),
            scale_trils=scale_trils,
            inverse_scale=inverse_scale,
            log_normalisers=-np.log(diagonal).sum(axis=1) - 0.5 * self.n_dims * np.log(2.0 * np.pi),
            experts=np.tile(np.arange(self.n_experts, dtype=np.uint32), len(contexts)),
        )


Parts = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


class _LinearParts:
    """Log gate (n, k), means (n, k, d), factors (n k, d, d) and their inverses' rows (n k d, d) of linear parts."""

    def __init__(self, mixture: MixtureOfExperts) -> None:
        parameters = {name: value.numpy() for name, value in mixture.tensors().items()}
        self._gating_weights, self._gating_biases = parameters["gating.weights"], parameters["gating.biases"]
        self._weights, self._biases = parameters["experts.weights"], parameters["experts.biases"]
        self._scale_trils = parameters["experts.scale_trils"]
        self._inverse_scale = _inverse_rows(torch.from_numpy(self._scale_trils))

    def __call__(self, contexts: FloatArray) -> Parts:
        logits = contexts @ self._gating_weights.T + self._gating_biases
        means = np.einsum("kij,nj->nki", self._weights, contexts) + self._biases
        repeats = len(contexts)
        factors = np.tile(self._scale_trils, (repeats, 1, 1))
        return logits - _logsumexp(logits)[:, None], means, factors, np.tile(self._inverse_scale, (repeats, 1))


class _AnyParts:
    """The same of any gating and experts, by their own calls."""

    def __init__(self, mixture: MixtureOfExperts) -> None:
        self._mixture = mixture

    def __call__(self, contexts: FloatArray) -> Parts:
        context = torch.from_numpy(np.ascontiguousarray(contexts, dtype=np.float64))
        with torch.no_grad():
            log_gate, experts = self._mixture.gating(context), self._mixture.experts(context)
            factors = experts.scale_tril.expand(*experts.mean.shape, experts.n_dims).flatten(0, 1).contiguous()
        return log_gate.numpy(), experts.mean.numpy(), factors.numpy(), _inverse_rows(factors)


def _inverse_rows(factors: torch.Tensor) -> FloatArray:
    """Rows of the inverse Cholesky factors (m d, d): whitening is one product with a sample, no system is solved."""
    identity = torch.eye(factors.shape[-1], dtype=factors.dtype).expand_as(factors)
    inverse = torch.linalg.solve_triangular(factors, identity, upper=False)
    return np.ascontiguousarray(inverse.reshape(-1, factors.shape[-1]).numpy())


def _logsumexp(values: FloatArray) -> FloatArray:
    """Over the last axis of a matrix of finite values; SciPy's takes longer than all the rest of a request."""
    largest = values.max(axis=1)
    return np.asarray(largest + np.log(np.exp(values - largest[:, None]).sum(axis=1)))
