"""Linear parts of a mixture of experts: linear-Gaussian experts and a softmax gating.

Experts: q(x | z_i, y) = N(W_i y + w_i, C_i C_i') (thesis 4.2.2).
Gating: log q(z|y) = log softmax(V y + v) (thesis 4.2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models.gaussian import Gaussian, all_finite, check_scale_tril, log_normaliser, tensor_fields

CHUNK_ELEMENTS = 131_072  # elements of the largest temporary array of log_prob; the array fits into the cache
SAMPLES_PER_EXPERT = 20  # with at least this many samples, one product per expert is faster than one per sample


@dataclass(frozen=True)
class LinearExperts:
    """All experts of a mixture as one batch.

    Attributes
    ----------
    weights : Tensor (n_components, n_dims, n_context)
        W. Without contexts (n_context = 0), an expert is a Gaussian component.
    biases : Tensor (n_components, n_dims)
        w.
    scale_trils : Tensor (n_components, n_dims, n_dims)
        C, the lower Cholesky factors of the covariances.

    Examples
    --------
    Create two experts with one context, x = y and x = -y + 1:

    >>> import torch
    >>> from eim_ros.learning.models import LinearExperts
    >>> slopes, offsets = torch.tensor([[[1.0]], [[-1.0]]]), torch.tensor([[0.0], [1.0]])
    >>> experts = LinearExperts(slopes, offsets, 0.1 * torch.ones(2, 1, 1))
    >>> experts.means(torch.tensor([[0.25]])).tolist()
    [[[0.25], [0.75]]]
    """

    weights: Tensor
    biases: Tensor
    scale_trils: Tensor

    def __post_init__(self) -> None:
        tensor_fields(self, "weights", "biases", "scale_trils")
        if self.weights.dim() != 3 or self.biases.shape != self.weights.shape[:2]:
            raise DistributionError(
                "expert weights (k, dx, dy) and biases (k, dx) must have equal k and dx, got shapes "
                f"{tuple(self.weights.shape)} and {tuple(self.biases.shape)}",
                self.weights.shape,
            )
        check_scale_tril(self.scale_trils, self.n_dims)
        if self.scale_trils.shape[:-2] != self.weights.shape[:1]:
            raise DistributionError(
                f"{self.n_components} experts need {self.n_components} scale_trils, got shape "
                f"{tuple(self.scale_trils.shape)}",
                self.scale_trils.shape,
            )
        if not (all_finite(self.weights) and all_finite(self.biases)):
            raise DistributionError("the weights and biases of experts must be finite", self.weights)

    @property
    def n_components(self) -> int:
        return self.weights.shape[0]

    @property
    def n_dims(self) -> int:
        return self.weights.shape[1]

    @property
    def n_context(self) -> int:
        return self.weights.shape[2]

    def means(self, context: Tensor) -> Tensor:
        """Return the means (n_samples, n_components, n_dims) for contexts (n_samples, n_context)."""
        flat = context @ self.weights.flatten(0, 1).T
        return flat.reshape(-1, self.n_components, self.n_dims) + self.biases

    def __call__(self, context: Tensor) -> Gaussian:
        """Return the distributions (n_samples, n_components) of all experts at contexts (n_samples, n_context)."""
        return Gaussian(self.means(context), self.scale_trils)

    def select(self, component: Tensor, context: Tensor) -> Gaussian:
        """Return the distributions of the given experts, one per context.

        `component` (n_samples,) of int64 contains the indices of the experts for contexts (n_samples, n_context).
        """
        product = (self.weights[component] @ context.unsqueeze(-1)).squeeze(-1)
        return Gaussian(product + self.biases[component], self.scale_trils[component])

    def sample(self, component: Tensor, context: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one sample per context (n_samples, n_context) from the given experts (n_samples,) of int64.

        If there are many samples per expert, they are drawn expert by expert. This order avoids a copy of a factor for
        each sample.
        """
        if len(component) < SAMPLES_PER_EXPERT * self.n_components:
            return self.select(component, context).sample(generator=generator)
        shape = (len(component), self.n_dims)
        noise = torch.randn(shape, generator=generator, dtype=self.biases.dtype, device=self.biases.device)
        order = torch.argsort(component, stable=True)
        counts = torch.bincount(component, minlength=self.n_components).tolist()
        parts = zip(context[order].split(counts), noise[order].split(counts), strict=True)
        drawn = [rows @ self.weights[k].T + e @ self.scale_trils[k].T for k, (rows, e) in enumerate(parts)]
        sample = torch.empty_like(noise)
        sample[order] = torch.cat(drawn)
        return sample + self.biases[component]

    def take(self, index: Tensor) -> LinearExperts:
        """Return the experts with the indices (n,) of int64, in this order."""
        return LinearExperts(self.weights[index], self.biases[index], self.scale_trils[index])

    def joined(self, other: LinearExperts) -> LinearExperts:
        """Return the experts of `self`, followed by the experts of `other`."""
        theirs = other.tensors()
        return LinearExperts(**{name: torch.cat([value, theirs[name]]) for name, value in self.tensors().items()})

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return the log density [nat] under every expert, (n_samples, n_components).

        The whitened residual C^-1 (x - W y - w) is linear in [x, y, 1]. Therefore, one matrix product is sufficient for
        all pairs.
        """
        parts = [residual.square().sum(-1) for _, residual in self.residuals(context, sample, self.whitening())]
        squared = torch.cat(parts) if parts else sample.new_zeros((0, self.n_components))
        log_prob: Tensor = -0.5 * squared + log_normaliser(self.scale_trils)
        return log_prob

    def score(self, context: Tensor, sample: Tensor, log_gate: Tensor) -> Tensor:
        """Return the gradient of log sum_k exp(log_gate_k) N_k(x) with respect to the sample x, (n_samples, n_dims)."""
        whitening = self.whitening()
        normaliser = log_gate + log_normaliser(self.scale_trils)
        parts = []
        for rows, residual in self.residuals(context, sample, whitening):
            weights = torch.softmax(normaliser[rows] - 0.5 * residual.square().sum(-1), -1)
            parts.append(-(weights.unsqueeze(-1) * residual).flatten(1) @ whitening[:, : self.n_dims])
        return torch.cat(parts) if parts else torch.zeros_like(sample)

    def residuals(self, context: Tensor, sample: Tensor, whitening: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yield blocks of rows of limited size, with their whitened residuals (n_rows, n_components, n_dims)."""
        inputs = torch.cat([sample, context, torch.ones_like(sample[:, :1])], -1)
        step = max(1, CHUNK_ELEMENTS // (self.n_components * self.n_dims))
        for start in range(0, len(inputs), step):
            rows = slice(start, start + step)
            yield rows, (inputs[rows] @ whitening.T).reshape(-1, self.n_components, self.n_dims)

    def whitening(self) -> Tensor:
        """Return the rows C^-1 [I, -W, -w] of all experts, (n_components n_dims, n_dims + n_context + 1)."""
        identity = torch.eye(self.n_dims, dtype=self.biases.dtype, device=self.biases.device)
        blocks = [identity.expand_as(self.scale_trils), -self.weights, -self.biases.unsqueeze(-1)]
        solved: Tensor = torch.linalg.solve_triangular(self.scale_trils, torch.cat(blocks, -1), upper=False)
        return solved.reshape(-1, solved.shape[-1])

    def tensors(self) -> dict[str, Tensor]:
        return {"weights": self.weights, "biases": self.biases, "scale_trils": self.scale_trils}


@dataclass(frozen=True)
class SoftmaxGating:
    """Linear softmax gating.

    Attributes
    ----------
    weights : Tensor (n_components, n_context)
        V.
    biases : Tensor (n_components,)
        v.

    Examples
    --------
    Make the first of two experts more probable for positive contexts:

    >>> import torch
    >>> from eim_ros.learning.models import SoftmaxGating
    >>> gating = SoftmaxGating(torch.tensor([[1.0], [0.0]]), torch.zeros(2))
    >>> [[round(p, 2) for p in row] for row in gating(torch.tensor([[0.0], [2.0]])).exp().tolist()]
    [[0.5, 0.5], [0.88, 0.12]]
    """

    weights: Tensor
    biases: Tensor

    def __post_init__(self) -> None:
        tensor_fields(self, "weights", "biases")
        if self.weights.dim() != 2 or self.biases.shape != self.weights.shape[:1]:
            raise DistributionError(
                f"gating weights (k, dy) and biases (k,) must have equal k, got shapes {tuple(self.weights.shape)} "
                f"and {tuple(self.biases.shape)}",
                self.weights.shape,
            )
        if not (all_finite(self.weights) and all_finite(self.biases)):
            raise DistributionError("the weights and biases of a gating must be finite", self.weights)

    @property
    def n_components(self) -> int:
        return self.weights.shape[0]

    @property
    def n_context(self) -> int:
        return self.weights.shape[1]

    def __call__(self, context: Tensor) -> Tensor:
        """Return the log probabilities (n_samples, n_components) for contexts (n_samples, n_context)."""
        return torch.log_softmax(torch.addmm(self.biases, context, self.weights.T), -1)

    def tensors(self) -> dict[str, Tensor]:
        return {"weights": self.weights, "biases": self.biases}
