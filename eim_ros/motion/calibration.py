"""What scores mean: those of demonstrations that the prior was not fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Calibration"]

RESIDUAL_MARGIN = 2.0  # by which a residual may exceed the largest of the held-out demonstrations


@dataclass(frozen=True, eq=False)
class Calibration:
    """Scores of held-out demonstrations.

    Attributes
    ----------
    log_prob : Tensor (n,)
        Log densities [nat], ascending.
    residual : Tensor (n,)
        Root mean square differences to what the basis can represent [rad or m], ascending.
    """

    log_prob: Tensor
    residual: Tensor

    @classmethod
    def from_scores(cls, log_prob: Tensor, residual: Tensor) -> Calibration:
        """From scores in any order."""
        return cls(log_prob.sort().values, residual.sort().values)

    def __len__(self) -> int:
        return len(self.log_prob)

    def quantile(self, log_prob: Tensor, residual: Tensor) -> Tensor:
        """Share (n,) of the held-out demonstrations that are less likely than motions with these scores (n,).

        0 for a motion that the basis cannot represent as it can all demonstrations: its weights then say little of it.
        """
        share = torch.searchsorted(self.log_prob, log_prob.contiguous()).to(log_prob) / len(self)
        foreign = residual > RESIDUAL_MARGIN * self.residual[-1] + torch.finfo(residual.dtype).eps
        return torch.where(foreign | ~torch.isfinite(log_prob), torch.zeros_like(share), share)
