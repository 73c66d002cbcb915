"""The log ratio of a known density and a model, phi = log p(x|y)/T - log q_old(x|y), exact (thesis 5.5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions.prepared_mixture import PreparedMixture
from eim_ros.inference.target_density import TargetDensity, with_floor

__all__ = ["KnownRatio"]


@dataclass
class KnownRatio:
    """Exact log ratio of a target and a model; counts what it is asked.

    Where the target is not finite, such as outside of hard bounds, it counts as `with_floor` says, and has no gradient:
    an expert that reaches there follows values (`update_experts`). How many such samples there were is counted.

    Attributes
    ----------
    target : TargetDensity
    model : PreparedMixture
        q_old.
    temperature : float
    evaluations, non_finite : int
        Samples at which the target was evaluated so far, and those of them where it was not finite.
    """

    target: TargetDensity
    model: PreparedMixture
    temperature: float = 1.0
    evaluations: int = 0
    non_finite: int = 0

    def log_ratio(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        model = self.model.log_prob(context, sample, component)
        log_target = self.target.log_prob(context, sample)
        self._count(torch.isfinite(log_target))
        return with_floor(log_target) / self.temperature - model

    def gradient(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        model = self.model.score(context, sample, component)
        gradient = self.target.gradient(context, sample) / self.temperature - model
        self._count(torch.isfinite(gradient).all(-1))
        return gradient

    def _count(self, good: Tensor) -> None:
        self.evaluations += len(good)
        self.non_finite += len(good) - int(good.sum())
