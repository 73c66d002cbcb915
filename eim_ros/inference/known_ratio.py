"""The log ratio of a known density and a model, phi = log p(x|y)/T - log q_old(x|y), exact (thesis 5.5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions.prepared_mixture import PreparedMixture
from eim_ros.inference.target_density import TargetDensity

__all__ = ["KnownRatio"]


@dataclass
class KnownRatio:
    """Exact log ratio of a target and a model; counts what it is asked.

    The value of a sample at which the target is not finite counts as the least finite one of its batch; its gradient
    stays non-finite, and the surrogate leaves it out. A target with hard bounds, outside of which it is zero, therefore
    wants a surrogate fitted to values, which notices them. How many there were is counted.

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
        value = self.target.log_prob(context, sample) / self.temperature - model
        good = torch.isfinite(value)
        self._count(good)
        least = value[good].min() if bool(good.any()) else value.new_zeros(())
        return torch.where(good, value, least)

    def gradient(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        model = self.model.score(context, sample, component)
        gradient = self.target.gradient(context, sample) / self.temperature - model
        self._count(torch.isfinite(gradient).all(-1))
        return gradient

    def _count(self, good: Tensor) -> None:
        self.evaluations += len(good)
        self.non_finite += len(good) - int(good.sum())
