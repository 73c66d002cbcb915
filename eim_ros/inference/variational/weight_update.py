"""Updates of the weights along their natural gradient (paper, section 3.4): log w' = log w + beta E_o[R] + constant.

Weights that depend on contexts follow the same rules: with rewards that are linear in the context a softmax gating
moves by them exactly, and the KL is its mean over the contexts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.inference.variational.least_multiplier import least_multiplier

__all__ = ["LEAST_LOG_WEIGHT", "DirectWeights", "TrustRegionWeights", "WeightStep", "WeightUpdate", "normalised"]

LEAST_LOG_WEIGHT = -69.07  # a weight of 1e-30 is the least there is: a component can come back from it


@dataclass(frozen=True)
class WeightStep:
    """A step log w' = old log w + reward R + constant.

    Attributes
    ----------
    reward : Tensor ()
        Factor of the rewards.
    old : float
        Factor of the old log weights.
    """

    reward: Tensor
    old: float = 1.0

    def followed(self, log_weights: Tensor, reward: Tensor) -> Tensor:
        """New log weights from old ones and rewards, both (..., n_components)."""
        return normalised(self.old * log_weights + self.reward * reward)


class WeightUpdate(Protocol):
    """A rule for the weights."""

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> WeightStep:
        """The step from old log weights and rewards, both (n_contexts, n_components), and a step size ()."""
        ...


@dataclass(frozen=True)
class DirectWeights:
    """The step size is beta (U)."""

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> WeightStep:
        return WeightStep(step)


@dataclass(frozen=True)
class TrustRegionWeights:
    """The step size is the bound on KL(new, old) [nat]; beta is the largest one up to 1 that keeps it (O)."""

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> WeightStep:
        def kl(multiplier: Tensor) -> Tensor:
            new = WeightStep(1.0 / multiplier[0]).followed(log_weights, reward)
            return (new.exp() * (new - log_weights)).sum(-1).mean(0, keepdim=True)

        multiplier, found = least_multiplier(kl, reward.new_ones(1), step.reshape(1))
        return WeightStep(torch.where(found, 1.0 / multiplier, 0.0)[0])


def normalised(log_weights: Tensor) -> Tensor:
    """Log weights that sum to one, none below the least one (but for rounding)."""
    log_weights = torch.log_softmax(log_weights, -1).clamp_min(LEAST_LOG_WEIGHT)
    return torch.log_softmax(log_weights, -1)
