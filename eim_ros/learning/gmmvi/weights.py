"""Weights of samples for every component: importance weights, or equal weights of a component's own samples.

If there are many components, the importance weights of a sample are non-zero only for components near the sample.
Samples are sorted by the component that drew them, so consecutive samples are near the same components. Therefore, the
weights are stored in blocks of a few rows, and each block contains only columns that are not zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

CHUNK_VALUES = 1_048_576  # number of values per block of a weighted sum
LEAST_WEIGHT = 1e-17  # relative to the greatest weight of a component; smaller weights do not change a regression
CHUNK_SAMPLES = 4096  # number of samples per block of a sum


class SampleWeights(Protocol):
    """Weights of samples for every component."""

    @property
    def total(self) -> Tensor:
        """Divisor that turns a weighted sum into a mean, (n_components,)."""

    @property
    def values(self) -> Tensor:
        """All weights, (n_samples, n_components), each column up to a factor."""

    def means(self, function: Callable[[slice], Tensor], n_values: int) -> Tensor:
        """Return the mean of a function under every component, (n_components, n_values).

        The function maps a slice of n rows to values (n, n_values).
        """

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of values (n_samples, n_values) under every component, (n_components, n_values)."""

    def share(self, log_weights: Tensor) -> Tensor:
        """Return the weights of the samples for the mixture, (n_samples,). The weights sum to about one."""

    def effective_samples(self) -> Tensor:
        """Return the effective sample size of every component, (sum w)^2 / sum w^2, (n_components,)."""

    def relevant(self) -> tuple[Tensor, Tensor]:
        """Return the normalised weights of the relevant samples, and their indices, (n_components, n_relevant).

        Samples that are not relevant are omitted or have zero weight.
        """


@dataclass(frozen=True)
class WeightBlock:
    """Weights of some samples for some components."""

    rows: slice  # rows of the samples
    columns: Tensor | None  # (n_columns,) of int64, indices of the components, or None for all components
    values: Tensor  # (n_rows, n_columns)

    def add_to(self, sums: Tensor, part: Tensor) -> None:
        """Add a part for each column, (n_columns, ...), to sums of all components, (n_components, ...)."""
        if self.columns is None:
            sums += part
        else:
            sums.index_add_(0, self.columns, part)


@dataclass(frozen=True)
class ImportanceWeights:
    """Importance weights N(x|o)/z(x) of all samples, each column up to a factor."""

    blocks: tuple[WeightBlock, ...]  # weights that are not in a block are zero
    n_samples: int
    # (n_components,), divisors that turn weighted sums into means: the sums of the columns, or the number of samples
    total: Tensor

    @property
    def values(self) -> Tensor:
        values = self.total.new_zeros(self.n_samples, len(self.total))
        for block in self.blocks:
            values[block.rows, slice(None) if block.columns is None else block.columns] = block.values
        return values

    def means(self, function: Callable[[slice], Tensor], n_values: int) -> Tensor:
        sums, step = self.total.new_zeros(len(self.total), n_values), max(1, CHUNK_VALUES // n_values)
        for block in self.blocks:
            starts = range(block.rows.start, block.rows.stop, step)
            for start, values in zip(starts, block.values.split(step), strict=True):
                part = function(slice(start, start + len(values)))
                if block.columns is None:
                    sums.addmm_(values.T, part)
                else:
                    sums.index_add_(0, block.columns, values.T @ part)
        return sums / self.total.unsqueeze(-1)

    def mean(self, values: Tensor) -> Tensor:
        return self.means(lambda rows: values[rows], values.shape[-1])

    def share(self, log_weights: Tensor) -> Tensor:
        scaled = log_weights.exp() / self.total
        share = self.total.new_zeros(self.n_samples)
        for block in self.blocks:
            share[block.rows] += block.values @ (scaled if block.columns is None else scaled[block.columns])
        return share

    def effective_samples(self) -> Tensor:
        return column_sums(self.blocks, self.total).square() / column_sums(self.blocks, self.total, 2)

    def relevant(self) -> tuple[Tensor, Tensor]:
        weights = self.values.T
        n_relevant = max(1, int((weights > LEAST_WEIGHT * weights.amax(-1, keepdim=True)).sum(-1).max()))
        weights, index = weights.topk(n_relevant, dim=-1, sorted=False)
        return weights / self.total.unsqueeze(-1), index


def column_sums(blocks: tuple[WeightBlock, ...], like: Tensor, power: int = 1) -> Tensor:
    """Return the sums of the weights, or of their powers, of every component, (n_components,).

    The result has the dtype and device of `like` (n_components,).
    """
    sums = torch.zeros_like(like)
    for block in blocks:
        block.add_to(sums, block.values.pow(power).sum(0))
    return sums


@dataclass(frozen=True)
class OwnWeights:
    """Weights that are one for a component's own new samples, and zero for all other samples."""

    # (n_components,) of int64, number of new samples of each component. The new samples come last, in the order of the
    # components.
    counts: Tensor
    n_samples: int  # number of all samples
    like: Tensor  # tensor with the dtype and device of the results

    @property
    def values(self) -> Tensor:
        values = self.like.new_zeros(self.n_samples, len(self.counts))
        component = self._component()
        values[torch.arange(self._first, self.n_samples, device=values.device), component] = 1.0
        return values

    @property
    def total(self) -> Tensor:
        return self.counts.to(self.like)

    def means(self, function: Callable[[slice], Tensor], n_values: int) -> Tensor:
        sums, component = self.like.new_zeros(len(self.counts), n_values), self._component()
        for start in range(self._first, self.n_samples, CHUNK_SAMPLES):
            rows = slice(start, min(start + CHUNK_SAMPLES, self.n_samples))
            sums.index_add_(0, component[rows.start - self._first : rows.stop - self._first], function(rows))
        return sums / self.total.unsqueeze(-1)

    def mean(self, values: Tensor) -> Tensor:
        return self.means(lambda rows: values[rows], values.shape[-1])

    def share(self, log_weights: Tensor) -> Tensor:
        share = self.like.new_zeros(self.n_samples)
        share[self._first :] = (log_weights.exp() / self.total)[self._component()]
        return share

    def effective_samples(self) -> Tensor:
        return self.total

    def relevant(self) -> tuple[Tensor, Tensor]:
        place = torch.arange(int(self.counts.max()), device=self.counts.device)
        ends = self.counts.cumsum(0) + self._first
        index = ((ends - self.counts).unsqueeze(-1) + place).clamp_max(self.n_samples - 1)
        return (place < self.counts.unsqueeze(-1)).to(self.like) / self.total.unsqueeze(-1), index

    @property
    def _first(self) -> int:
        return self.n_samples - int(self.counts.sum())

    def _component(self) -> Tensor:
        return torch.arange(len(self.counts), device=self.counts.device).repeat_interleave(self.counts)
