"""Step sizes of the components and of the weights: fixed, decaying, or adaptive (paper, section 3.5).

The paper's modules for components and for weights have the same three options: they are the same classes here, for
tensors of any size. What a step size is depends on the update: a factor beta, or the bound of a trust region [nat].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["AdaptiveStepSize", "DecayingStepSize", "FixedStepSize", "StepSize"]


class StepSize(Protocol):
    """A rule for step sizes."""

    @property
    def first(self) -> float:
        """Step size of the first update."""
        ...

    def __call__(self, step: Tensor, n_updates: Tensor, gain: Tensor) -> Tensor:
        """Next step sizes (n,).

        Parameters
        ----------
        step : Tensor (n,)
            Of the last update.
        n_updates : Tensor (n,)
            Updates so far.
        gain : Tensor (n,)
            By how much the objective of each has risen since the last update [nat]; NaN if that is not known.
        """
        ...


@dataclass(frozen=True)
class FixedStepSize:
    """Always the first one (F, X)."""

    first: float

    def __call__(self, step: Tensor, n_updates: Tensor, gain: Tensor) -> Tensor:
        return step


@dataclass(frozen=True)
class DecayingStepSize:
    """first/(1 + n_updates^exponent) (D, G)."""

    first: float
    exponent: float

    def __call__(self, step: Tensor, n_updates: Tensor, gain: Tensor) -> Tensor:
        return self.first / (1.0 + n_updates.to(step) ** self.exponent)


@dataclass(frozen=True)
class AdaptiveStepSize:
    """Grows after an update that was a gain, else shrinks, within bounds (R, N)."""

    first: float
    smallest: float
    largest: float
    growth: float = 1.15
    shrinkage: float = 0.85

    def __call__(self, step: Tensor, n_updates: Tensor, gain: Tensor) -> Tensor:
        grown = (self.growth * step).clamp_max(self.largest)
        shrunk = (self.shrinkage * step).clamp_min(self.smallest)
        return torch.where(gain.isnan(), step, torch.where(gain > 0.0, grown, shrunk))
