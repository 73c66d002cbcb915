"""Mixtures of any exponential family: sum_k w_k exp(eta_k' T(x) - A(eta_k) + B(x)).

A family of one's own satisfies the Protocol below, in about twenty lines (see `PoissonFamily`), and is learnt by
`ExponentialEM`, which averages statistics: mean statistics E[T(x)] = A'(eta) determine eta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from eim_ros.distributions.gaussian import sample_shape
from eim_ros.distributions.parameters import tensor_fields
from eim_ros.errors import DistributionError

__all__ = ["ExponentialFamily", "ExponentialMixture"]


@runtime_checkable
class ExponentialFamily(Protocol):
    """Densities exp(eta' T(x) - A(eta) + B(x)), batched."""

    def statistics(self, sample: Tensor) -> Tensor:
        """T of samples (n, n_dims), (n, n_statistics); `DataError` for samples outside the support."""
        ...

    def log_base(self, sample: Tensor) -> Tensor:
        """B of samples (n, n_dims) [nat], (n,)."""
        ...

    def natural(self, mean: Tensor) -> Tensor:
        """eta of mean statistics (..., n_statistics), of the same shape: the inverse of A'."""
        ...

    def log_normaliser(self, natural: Tensor) -> Tensor:
        """A of natural parameters (..., n_statistics) [nat], (...)."""
        ...

    def sample(self, natural: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One sample of each of natural parameters (n, n_statistics), (n, n_dims)."""
        ...


@dataclass(frozen=True)
class ExponentialMixture:
    """Mixture of one exponential family.

    Attributes
    ----------
    family : ExponentialFamily
    log_weights : Tensor (n_components,)
        Log of the mixture weights; normalised on construction.
    natural : Tensor (n_components, n_statistics)
        eta of the components.
    """

    family: ExponentialFamily
    log_weights: Tensor
    natural: Tensor

    def __post_init__(self) -> None:
        tensor_fields(self, "log_weights", "natural")
        if self.natural.dim() != 2 or self.log_weights.shape != self.natural.shape[:1] or not len(self.natural):
            raise DistributionError(
                "log_weights (k,) and natural parameters (k, n_statistics) of one component at least disagree: "
                f"{tuple(self.log_weights.shape)} and {tuple(self.natural.shape)}",
                tuple(self.natural.shape),
            )
        object.__setattr__(self, "log_weights", torch.log_softmax(self.log_weights, 0))

    @classmethod
    def from_means(cls, family: ExponentialFamily, log_weights: Tensor, means: Tensor) -> ExponentialMixture:
        """Components of given mean statistics (n_components, n_statistics): rates, probabilities, moments."""
        return cls(family, log_weights, family.natural(means))

    @property
    def n_components(self) -> int:
        return len(self.natural)

    def log_joint(self, sample: Tensor) -> Tensor:
        """log w_k p(x | k) [nat] of samples (n, n_dims), (n, n_components)."""
        if sample.dim() != 2:
            raise DistributionError(f"samples must be a matrix (n, d), got {tuple(sample.shape)}", tuple(sample.shape))
        statistics = self.family.statistics(sample)
        if statistics.shape[1] != self.natural.shape[1]:
            sizes = (self.natural.shape[1], statistics.shape[1])
            raise DistributionError(f"the mixture has {sizes[0]} statistics, but the samples have {sizes[1]}", sizes)
        return self.log_joint_of(statistics, self.family.log_base(sample))

    def log_joint_of(self, statistics: Tensor, log_base: Tensor) -> Tensor:
        """The same of T (n, n_statistics) and B (n,) of samples: one product of matrices."""
        offsets = self.log_weights - self.family.log_normaliser(self.natural)
        return torch.addmm(offsets, statistics, self.natural.T) + log_base.unsqueeze(-1)

    def log_prob(self, sample: Tensor) -> Tensor:
        """log p(x) [nat], (n,)."""
        return self.log_joint(sample).logsumexp(-1)

    def responsibilities(self, sample: Tensor) -> Tensor:
        """p(k | x), (n, n_components)."""
        return torch.softmax(self.log_joint(sample), -1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Samples (n, n_dims)."""
        return self.sample_with_components(n, generator)[0]

    def sample_with_components(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """As `sample`; also which component each sample is of, (n,) of int64."""
        sample_shape(n)
        component = torch.multinomial(self.log_weights.exp(), max(n, 1), replacement=True, generator=generator)[:n]
        return self.family.sample(self.natural[component], generator), component

    def tensors(self) -> dict[str, Tensor]:
        """Parameters by name."""
        return {"log_weights": self.log_weights, "natural": self.natural}
