"""Limits that give way: sum_j log Phi((upper_j - q_j) / s) + log Phi((q_j - lower_j) / s) (Pignat et al. 2020)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["soft_limits"]

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def soft_limits(value: Tensor, lower: Tensor | float, upper: Tensor | float, scale: float) -> tuple[Tensor, Tensor]:
    """Log probability of being within limits, by normal noise of deviation `scale` on both.

    Parameters
    ----------
    value : Tensor (n_samples, n)
    lower, upper : Tensor (n,) or float
        Infinite where there is none.
    scale : float
        Unit of `value`.

    Returns
    -------
    log_prob : Tensor (n_samples,)
        [nat].
    slope : Tensor (n_samples, n)
        Its gradient; phi / Phi stays finite far outside, where it grows like the distance.
    """
    above, below = (upper - value) / scale, (value - lower) / scale
    log_above, log_below = torch.special.log_ndtr(above), torch.special.log_ndtr(below)
    slope = _hazard(below, log_below) - _hazard(above, log_above)
    return (log_above + log_below).sum(-1), slope / scale


def _hazard(z: Tensor, log_cdf: Tensor) -> Tensor:
    """phi(z) / Phi(z)."""
    return (-0.5 * z.square() - HALF_LOG_TWO_PI - log_cdf).exp()
