"""Independent Poisson counts: p(x) = prod_d lambda_d^x_d exp(-lambda_d) / x_d!"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.errors import DataError

__all__ = ["PoissonFamily"]


@dataclass(frozen=True)
class PoissonFamily:
    """Samples are counts; their mean statistics are the rates. An `ExponentialFamily`."""

    def statistics(self, sample: Tensor) -> Tensor:
        wrong = ((sample < 0.0) | (sample != sample.round())).any(-1).nonzero().flatten()
        if len(wrong):
            raise DataError(
                f"counts are 0, 1, 2, ...; row {int(wrong[0])} holds others, which need another family", int(wrong[0])
            )
        return sample

    def log_base(self, sample: Tensor) -> Tensor:
        return -torch.lgamma(sample + 1.0).sum(-1)

    def natural(self, mean: Tensor) -> Tensor:
        return mean.log()

    def log_normaliser(self, natural: Tensor) -> Tensor:
        return natural.exp().sum(-1)

    def sample(self, natural: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return torch.poisson(natural.exp(), generator)
