"""Nonlinear experts, q(x | z_i, y) = N(psi_mu,i(y), psi_Sigma,i(y)): networks give mean and covariance (thesis 4.2.3).

Each network works in the whitened residuals of a linear expert, which is kept beside it: with its outputs m and t,

    mean = W y + w + C m(y),    Cholesky factor = C T(y),    T lower triangular, diagonal exp(t_jj), below it t_jl,

so a fresh network, whose outputs are zero, is exactly the linear expert, and its outputs are numbers of order one in
any units of the samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions.batched_network import BatchedNetwork
from eim_ros.distributions.gaussian import Gaussian
from eim_ros.distributions.linear_experts import LinearExperts
from eim_ros.errors import DistributionError

__all__ = ["NeuralExperts", "triangular", "n_outputs_of"]

CHUNK_ELEMENTS = 4_194_304  # largest layer of log_prob and score, in numbers: bounds memory at many experts


@dataclass(frozen=True)
class NeuralExperts:
    """All experts of a mixture as one batch.

    Attributes
    ----------
    base : LinearExperts
        W, w, C.
    network : BatchedNetwork
        One network per expert; outputs are m (n_dims) and t (n_dims (n_dims + 1)/2: diagonal, then the rest by rows).
    """

    base: LinearExperts
    network: BatchedNetwork

    def __post_init__(self) -> None:
        found = (self.network.n_networks, self.network.n_inputs, self.network.n_outputs)
        expected = (self.base.n_components, self.base.n_context, n_outputs_of(self.base.n_dims))
        if found != expected:
            raise DistributionError(
                f"networks (count, inputs, outputs) {found} do not fit their linear experts, which need {expected}",
                found,
            )

    @classmethod
    def around(
        cls, base: LinearExperts, context: Tensor, hidden_layers: Sequence[int], generator: torch.Generator
    ) -> NeuralExperts:
        """Fresh experts, equal to the linear ones.

        Parameters
        ----------
        base : LinearExperts
        context : Tensor (n_samples, n_context)
            Data, by which inputs are standardised.
        hidden_layers : sequence of int
        generator : torch.Generator
        """
        n_outputs = n_outputs_of(base.n_dims)
        return cls(base, BatchedNetwork.random(context, base.n_components, hidden_layers, n_outputs, generator))

    @property
    def n_components(self) -> int:
        return self.base.n_components

    @property
    def n_dims(self) -> int:
        return self.base.n_dims

    @property
    def n_context(self) -> int:
        return self.base.n_context

    def local(self, context: Tensor) -> Gaussian:
        """The experts at contexts of their own (n_components, n_samples, n_context), batch likewise."""
        shift, factor = triangular(self.network(context), self.n_dims)
        scale = self.base.scale_trils.unsqueeze(1)
        mean = context @ self.base.weights.mT + self.base.biases.unsqueeze(1)
        return Gaussian(mean + (scale @ shift.unsqueeze(-1)).squeeze(-1), scale @ factor)

    def __call__(self, context: Tensor) -> Gaussian:
        """The experts' distributions for contexts (n_samples, n_context), batch (n_samples, n_components)."""
        local = self.local(context.expand(self.n_components, *context.shape))
        return Gaussian(local.mean.transpose(0, 1), local.scale_tril.transpose(0, 1))

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        """Log density [nat] of samples (n_samples, n_dims) under every expert, (n_samples, n_components)."""
        parts = [self(context[rows]).log_prob(sample[rows].unsqueeze(1)) for rows in self._chunks(len(context))]
        return torch.cat(parts)

    def select(self, component: Tensor, context: Tensor) -> Gaussian:
        """Distribution of one expert (n_samples,) of int64 per context (n_samples, n_context).

        Contexts are sorted into one padded row per expert, so that each is evaluated by about its own network alone.
        """
        order = torch.argsort(component, stable=True)
        count = torch.bincount(component, minlength=self.n_components)
        first = count.cumsum(0) - count
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device) - first[component[order]]
        padded = context.new_zeros(self.n_components, int(count.max()), self.n_context)
        padded[component, rank] = context
        local = self.local(padded)
        return Gaussian(local.mean[component, rank], local.scale_tril[component, rank])

    def sample(self, component: Tensor, context: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw from one expert (n_samples,) of int64 per context (n_samples, n_context): (n_samples, n_dims)."""
        return self.select(component, context).sample(generator=generator)

    def take(self, index: Tensor) -> NeuralExperts:
        """Some of the experts, by their numbers (n,) of int64, in that order."""
        return NeuralExperts(self.base.take(index), self.network.take(index))

    def score(self, context: Tensor, sample: Tensor, log_gate: Tensor) -> Tensor:
        """Gradient of log sum_k exp(log_gate_k) N_k(sample) with respect to the sample, (n_samples, n_dims)."""
        parts = []
        for rows in self._chunks(len(context)):
            experts, repeated = self(context[rows]), sample[rows].unsqueeze(1)
            weights = torch.softmax(log_gate[rows] + experts.log_prob(repeated), -1)
            parts.append((weights.unsqueeze(-1) * experts.score(repeated)).sum(1))
        return torch.cat(parts)

    def tensors(self) -> dict[str, Tensor]:
        base = {f"base.{name}": value for name, value in self.base.tensors().items()}
        return base | self.network.tensors()

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> NeuralExperts:
        """Inverse of `tensors`; `DistributionError` names what is missing."""
        names = ("base.weights", "base.biases", "base.scale_trils")
        missing = [name for name in names if name not in tensors]
        if missing:
            raise DistributionError(f"neural experts lack {', '.join(missing)}", sorted(tensors))
        return cls(LinearExperts(*(tensors[name] for name in names)), BatchedNetwork.from_tensors(tensors))

    def _chunks(self, n_samples: int) -> Iterator[slice]:
        """Rows, a bounded number at a time; one empty chunk where there are none."""
        step = max(1, CHUNK_ELEMENTS // (self.n_components * max(self.network.width, self.n_dims**2)))
        for start in range(0, max(n_samples, 1), step):
            yield slice(start, start + step)


def n_outputs_of(n_dims: int) -> int:
    """Numbers that describe a mean and a Cholesky factor."""
    return n_dims + n_dims * (n_dims + 1) // 2


def triangular(outputs: Tensor, n_dims: int) -> tuple[Tensor, Tensor]:
    """Outputs (..., n_outputs) of a network as m (..., n_dims) and T (..., n_dims, n_dims)."""
    shift, log_diagonal, rest = outputs.split([n_dims, n_dims, n_dims * (n_dims - 1) // 2], -1)
    factor = torch.diag_embed(log_diagonal.exp())
    if n_dims > 1:
        row, column = torch.tril_indices(n_dims, n_dims, -1, device=outputs.device)
        lower = torch.zeros_like(factor)
        lower[..., row, column] = rest
        factor = factor + lower
    return shift, factor
