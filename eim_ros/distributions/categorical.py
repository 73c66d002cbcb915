"""Independent categorical variables: p(x) = prod_d theta_{d, x_d}, each with its own number of levels."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.errors import DataError, DistributionError

__all__ = ["CategoricalFamily"]


@dataclass(frozen=True)
class CategoricalFamily:
    """Samples are levels 0, 1, ... of each variable; mean statistics are the probabilities. An `ExponentialFamily`.

    Attributes
    ----------
    n_levels : tuple of int
        Of each variable. Statistics are one indicator per level, those of the first variable first.
    """

    n_levels: tuple[int, ...]

    def __post_init__(self) -> None:
        try:
            levels = tuple(operator.index(n) for n in self.n_levels)
        except TypeError as error:
            raise DistributionError(
                f"give the number of levels of each variable, as in CategoricalFamily((2, 3)), got {self.n_levels!r}",
                self.n_levels,
            ) from error
        if not levels or min(levels) < 1:
            raise DistributionError(f"each variable needs a level at least, got {self.n_levels}", self.n_levels)
        object.__setattr__(self, "n_levels", levels)

    def statistics(self, sample: Tensor) -> Tensor:
        if sample.shape[-1] != len(self.n_levels):
            raise DataError(f"expected {len(self.n_levels)} variables, got {sample.shape[-1]}", sample.shape[-1])
        levels = sample.new_tensor(self.n_levels)
        wrong = ((sample < 0.0) | (sample >= levels) | (sample != sample.round())).any(-1).nonzero().flatten()
        if len(wrong):
            raise DataError(
                f"levels are whole numbers from 0 to below {self.n_levels}; row {int(wrong[0])} holds others",
                int(wrong[0]),
            )
        columns = [
            torch.nn.functional.one_hot(column, n)
            for column, n in zip(sample.to(torch.int64).unbind(-1), self.n_levels, strict=True)
        ]
        return torch.cat(columns, -1).to(sample)

    def log_base(self, sample: Tensor) -> Tensor:
        return torch.zeros_like(sample[..., 0])

    def natural(self, mean: Tensor) -> Tensor:
        return mean.log()

    def log_normaliser(self, natural: Tensor) -> Tensor:
        return torch.stack([part.logsumexp(-1) for part in natural.split(self.n_levels, -1)]).sum(0)

    def sample(self, natural: Tensor, generator: torch.Generator | None = None) -> Tensor:
        parts = [torch.softmax(part, -1) for part in natural.split(self.n_levels, -1)]
        return torch.cat([torch.multinomial(part, 1, generator=generator) for part in parts], -1).to(natural)
