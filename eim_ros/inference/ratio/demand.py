"""Where a component is missing if the target is known by samples alone: log p from a density ratio, at the data.

phi = log p/q_old gives log p = phi + log q_old anywhere, and the data, where p is, are the candidates. Three things
limit what a ratio can be trusted with:

- It may have learnt the data that it was trained with: the candidates are those held out.
- n samples of each class tell ratios up to about n: beyond, a classifier says how far away a place is, or no more than
  that the model is not there. phi is bounded by log n, and all places beyond are equal. The first of them in random
  order is taken, that is, one drawn from the part of p that the model does not cover; the greatest phi would be the
  farthest outlier's.
- Where a factor of p is known up to a constant, so is phi. E_p[q_old/p] = 1 tells the constant.

Where the model has (nearly) no density log q_old cannot be made up for by a bounded phi: it counts as no smaller than
`DELTA` below its greatest value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference.eim.m_step import LogRatio
from eim_ros.inference.training_data import Pairs

__all__ = ["DELTA", "RatioDemand"]

DELTA = 50.0  # [nat]


@dataclass(frozen=True)
class RatioDemand:
    """log p(x|y) at the data, as far as a density ratio tells.

    Attributes
    ----------
    ratio : LogRatio
        Of the data to `model`.
    model : MixtureOfExperts
        q_old.
    n_samples : int
        Samples of each class that the ratio was learnt from.
    """

    ratio: LogRatio
    model: MixtureOfExperts
    n_samples: int

    def __call__(self, places: Pairs) -> Tensor:
        """log p(x|y) [nat] at places that are samples of p, (n,)."""
        phi = self.ratio.log_ratio(places.context, places.sample)
        phi = phi + torch.logsumexp(-phi, 0) - math.log(len(phi))
        log_model = self.model.log_prob(places.context, places.sample)
        return phi.clamp_max(math.log(self.n_samples)) + torch.maximum(log_model, log_model.max() - DELTA)
