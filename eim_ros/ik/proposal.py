"""The mixture of experts for one pose: one evaluation of the model serves any number of samples and densities.

NumPy on the CPU, because a request is small and an operation of a deep learning library costs more than its arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.distributions import LinearExperts, MixtureOfExperts
from eim_ros.errors import DistributionError

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
        experts = mixture.to(device="cpu").experts
        if not isinstance(experts, LinearExperts):
            raise DistributionError(
                f"requests are served from linear experts only, not {type(experts).__name__}", type(experts).__name__
            )
        parameters = {name: value.detach().cpu().double().numpy() for name, value in mixture.tensors().items()}
        self._gating_weights, self._gating_biases = parameters["gating.weights"], parameters["gating.biases"]
        self._weights, self._biases = parameters["experts.weights"], parameters["experts.biases"]
        self._scale_trils = parameters["experts.scale_trils"]
        self.n_experts, self.n_dims, self.n_context = self._weights.shape
        whitening = experts.whitening().double().numpy()
        self._inverse_scale = np.ascontiguousarray(whitening[:, : self.n_dims])
        diagonal = np.diagonal(self._scale_trils, axis1=1, axis2=2)
        self._log_normalisers = -np.log(diagonal).sum(axis=1) - 0.5 * self.n_dims * np.log(2.0 * np.pi)

    def condition(self, contexts: FloatArray) -> ConditionalMixture:
        """The mixture for contexts (n_contexts, n_context), averaged over them with equal weights."""
        logits = contexts @ self._gating_weights.T + self._gating_biases
        log_gate = logits - _logsumexp(logits)[:, None] - np.log(len(contexts))
        means = np.einsum("kij,nj->nki", self._weights, contexts) + self._biases
        repeats = len(contexts)
        experts = np.arange(self.n_experts, dtype=np.uint32)
        return ConditionalMixture(
            log_weights=log_gate.reshape(-1),
            means=means.reshape(-1, self.n_dims),
            scale_trils=np.tile(self._scale_trils, (repeats, 1, 1)),
            inverse_scale=np.tile(self._inverse_scale, (repeats, 1)),
            log_normalisers=np.tile(self._log_normalisers, repeats),
            experts=np.tile(experts, repeats),
        )


def _logsumexp(values: FloatArray) -> FloatArray:
    """Over the last axis of a matrix of finite values; SciPy's takes longer than all the rest of a request."""
    largest = values.max(axis=1)
    return np.asarray(largest + np.log(np.exp(values - largest[:, None]).sum(axis=1)))
