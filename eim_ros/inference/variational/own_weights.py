"""Weights of samples that count for the component alone that has drawn them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["OwnWeights"]

CHUNK_SAMPLES = 4096


@dataclass(frozen=True)
class OwnWeights:
    """Weight one for a component's own new samples and zero for all others; the interface of `ImportanceWeights`.

    Attributes
    ----------
    counts : Tensor (n_components,) of int64
        New samples of each component. They stand last, in the order of the components.
    n_samples : int
        All samples.
    like : Tensor
        Of the dtype and device of the results.
    """

    counts: Tensor
    n_samples: int
    like: Tensor

    @property
    def values(self) -> Tensor:
        """As a matrix, (n_samples, n_components)."""
        values = self.like.new_zeros(self.n_samples, len(self.counts))
        component = self._component()
        values[torch.arange(self._first, self.n_samples, device=values.device), component] = 1.0
        return values

    @property
    def total(self) -> Tensor:
        """Number of samples of each component, (n_components,)."""
        return self.counts.to(self.like)

    def means(self, function: Callable[[slice], Tensor], n_values: int) -> Tensor:
        """Means under every component, (n_components, n_values), of what a function says of some rows."""
        sums, component = self.like.new_zeros(len(self.counts), n_values), self._component()
        for start in range(self._first, self.n_samples, CHUNK_SAMPLES):
            rows = slice(start, min(start + CHUNK_SAMPLES, self.n_samples))
            sums.index_add_(0, component[rows.start - self._first : rows.stop - self._first], function(rows))
        return sums / self.total.unsqueeze(-1)

    def mean(self, values: Tensor) -> Tensor:
        """Means of values (n_samples, n_values) under every component, (n_components, n_values)."""
        return self.means(lambda rows: values[rows], values.shape[-1])

    def share(self, log_weights: Tensor) -> Tensor:
        """Weights of the samples for the mixture, (n_samples,); their sum is one."""
        share = self.like.new_zeros(self.n_samples)
        share[self._first :] = (log_weights.exp() / self.total)[self._component()]
        return share

    def effective_samples(self) -> Tensor:
        """Number of samples of every component, (n_components,)."""
        return self.total

    def relevant(self) -> tuple[Tensor, Tensor]:
        """Weights, as shares of their sum, and numbers of each component's samples, (n_components, largest count)."""
        place = torch.arange(int(self.counts.max()), device=self.counts.device)
        ends = self.counts.cumsum(0) + self._first
        index = ((ends - self.counts).unsqueeze(-1) + place).clamp_max(self.n_samples - 1)
        return (place < self.counts.unsqueeze(-1)).to(self.like) / self.total.unsqueeze(-1), index

    @property
    def _first(self) -> int:
        return self.n_samples - int(self.counts.sum())

    def _component(self) -> Tensor:
        return torch.arange(len(self.counts), device=self.counts.device).repeat_interleave(self.counts)
