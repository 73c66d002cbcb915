"""Updates of the weights along their natural gradient (paper, section 3.4): log w' = log w + beta E_o[R] + constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.inference.variational.least_multiplier import least_multiplier

__all__ = ["LEAST_LOG_WEIGHT", "DirectWeights", "TrustRegionWeights", "WeightUpdate", "normalised"]

LEAST_LOG_WEIGHT = -69.07  # a weight of 1e-30 is the least there is: a component can come back from it


class WeightUpdate(Protocol):
    """A rule for the weights."""

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> Tensor:
        """New log weights (n_components,) from old ones, rewards E_o[R] (n_components,) and a step size ()."""
        ...


@dataclass(frozen=True)
class DirectWeights:
    """The step size is beta (U)."""

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> Tensor:
        return normalised(log_weights + step * reward)


@dataclass(frozen=True)
class TrustRegionWeights:
    """The step size is the bound on KL(new, old) [nat]; beta is the largest one up to 1 that keeps it (O)."""

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> Tensor:
        def kl(multiplier: Tensor) -> Tensor:
            new = normalised(log_weights + reward / multiplier)
            return (new.exp() * (new - log_weights)).sum(-1, keepdim=True)

        multiplier, found = least_multiplier(kl, reward.new_ones(1), step.reshape(1))
        return torch.where(found, normalised(log_weights + reward / multiplier), log_weights)


def normalised(log_weights: Tensor) -> Tensor:
    """Log weights that sum to one, none below the least one (but for rounding)."""
    log_weights = torch.log_softmax(log_weights, -1).clamp_min(LEAST_LOG_WEIGHT)
    return torch.log_softmax(log_weights, -1)
