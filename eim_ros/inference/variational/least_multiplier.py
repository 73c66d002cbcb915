"""The multiplier of a trust region: the least one whose KL is within the bound, for many regions at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["least_multiplier"]

LARGEST_LOG = 80.0
CLOSE = 0.9  # of its bound at least, where the bound is what holds the step
AIM = 0.95
MAX_ITERATIONS = 100
EVERY = 3  # steps, one halves the bracket whatever the others do


def least_multiplier(kl: Callable[[Tensor], Tensor], least: Tensor, kl_bound: Tensor) -> tuple[Tensor, Tensor]:
    """Least multiplier >= least, up to a tenth of the bound, with kl(multiplier) <= kl_bound, by bisection of its log.

    For large multipliers the KL falls with their square: a step that assumes so is tried before the middle of the
    bracket is.

    Parameters
    ----------
    kl : callable
        Maps multipliers (n,) to KLs (n,) [nat], decreasing; infinite or NaN where there is none.
    least : Tensor (n,)
        > 0.
    kl_bound : Tensor (n,)
        > 0 [nat].

    Returns
    -------
    multiplier : Tensor (n,)
        Its KL is within the bound exactly.
    found : Tensor (n,) of bool
        False where none up to e^80 is.
    """
    done = kl(least) <= kl_bound
    high = torch.where(done, least.log(), LARGEST_LOG)
    low, found = least.log(), done
    trial = torch.maximum(low + 1.0, torch.zeros_like(low))
    for number in range(MAX_ITERATIONS):
        if bool(done.all()):
            break
        value = kl(trial.exp())
        within = value <= kl_bound
        high = torch.where(within & ~done, trial, high)
        low = torch.where(within | done, low, trial)
        found = found | within
        done = done | (within & (value >= CLOSE * kl_bound)) | (high - low < 1e-9)
        middle = 0.5 * (low + high)
        guess = trial + 0.5 * (value / (AIM * kl_bound)).log()
        inside = (guess > low) & (guess < high) if number % EVERY < EVERY - 1 else torch.zeros_like(done)
        trial = torch.where(inside, guess, middle)
    return high.exp(), found
