"""Importance weights of samples for every component, and the means that they give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

__all__ = ["ImportanceWeights", "SampleWeights"]

CHUNK_VALUES = 1_048_576  # numbers of which means are taken at a time
LEAST_WEIGHT = 1e-17  # of a sample, relative to a component's greatest one: less does not change a regression


class SampleWeights(Protocol):
    """What samples count for every component."""

    @property
    def total(self) -> Tensor:
        """What a weighted sum is divided by to be a mean, (n_components,)."""
        ...

    @property
    def values(self) -> Tensor:
        """All weights, (n_samples, n_components), each column up to a factor."""
        ...

    def means(self, function: Callable[[slice], Tensor], n_values: int) -> Tensor:
        """Means under every component, (n_components, n_values), of what a function says of some rows (n, n_values)."""
        ...

    def mean(self, values: Tensor) -> Tensor:
        """Means of values (n_samples, n_values) under every component, (n_components, n_values)."""
        ...

    def share(self, log_weights: Tensor) -> Tensor:
        """Weights of the samples for the mixture, (n_samples,); their sum is about one."""
        ...

    def effective_samples(self) -> Tensor:
        """Effective number of samples of every component, (n_components,), (sum w)^2 / sum w^2."""
        ...

    def relevant(self) -> tuple[Tensor, Tensor]:
        """Weights of each component, as they count in a mean, and the samples' numbers, (n_components, n_relevant).

        Samples that do not matter are left out, or have the weight zero.
        """
        ...


@dataclass(frozen=True)
class ImportanceWeights:
    """Weights of all samples for every component; see `SampleWeights`.

    Attributes
    ----------
    values : Tensor (n_samples, n_components)
        N(x|o)/z(x), each column up to a factor.
    total : Tensor (n_components,)
        What a weighted sum is divided by to be a mean: the columns' sums, or what stands for the number of samples.
    """

    values: Tensor
    total: Tensor

    def means(self, function: Callable[[slice], Tensor], n_values: int) -> Tensor:
        sums, step = self.total.new_zeros(len(self.total), n_values), max(1, CHUNK_VALUES // n_values)
        for start in range(0, len(self.values), step):
            rows = slice(start, start + step)
            sums.addmm_(self.values[rows].T, function(rows))
        return sums / self.total.unsqueeze(-1)

    def mean(self, values: Tensor) -> Tensor:
        return self.values.T @ values / self.total.unsqueeze(-1)

    def share(self, log_weights: Tensor) -> Tensor:
        return self.values @ (log_weights.exp() / self.total)

    def effective_samples(self) -> Tensor:
        return self.values.sum(0).square() / self.values.square().sum(0)

    def relevant(self) -> tuple[Tensor, Tensor]:
        weights = self.values.T
        n_relevant = max(1, int((weights > LEAST_WEIGHT * weights.amax(-1, keepdim=True)).sum(-1).max()))
        weights, index = weights.topk(n_relevant, dim=-1, sorted=False)
        return weights / self.total.unsqueeze(-1), index
