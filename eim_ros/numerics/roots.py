"""Batched bracketing of the root of decreasing functions, with a guarantee on which end is returned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["RootBracket", "decreasing_root"]


@dataclass(frozen=True)
class RootBracket:
    """Bracket of the crossing of a decreasing function with zero.

    Attributes
    ----------
    lower : Tensor (...)
        Largest tried argument whose value is positive (or the given lower end).
    upper : Tensor (...)
        Smallest tried argument whose value is at most zero: the feasible end. Where the function is at most zero
        at the given lower end already, `upper` equals it.
    found : Tensor (...) of bool
        Whether a feasible argument was met at all.
    """

    lower: Tensor
    upper: Tensor
    found: Tensor


def decreasing_root(
    function: Callable[[Tensor], Tensor], start: Tensor, *, relative_tolerance: float = 1e-10, max_iterations: int = 100
) -> RootBracket:
    """Smallest t >= 0 with `function(start + t) <= 0`, for each entry of a batch, by doubling and bisection.

    Bisection is geometric (in log t), because trust-region multipliers span many orders of magnitude; the excess t
    over `start` is tracked on its own, so a root close to `start` loses no digits.

    Parameters
    ----------
    function : callable
        Maps arguments (...) to values (...), decreasing in each entry; values may be infinite or NaN at the start
        (a pole), which counts as positive.
    start : Tensor (...)
        Lower end.
    relative_tolerance : float
        Width of the final bracket relative to its upper end's excess.
    max_iterations : int
        Bound on doublings, and on bisections.

    Returns
    -------
    RootBracket
    """

    def feasible(excess: Tensor) -> Tensor:
        return function(start + excess) <= 0.0

    zero = torch.zeros_like(start)
    at_start = feasible(zero)
    smallest = torch.finfo(start.dtype).eps * start.abs().clamp_min(1.0)
    low = zero
    high = torch.where(at_start, zero, torch.ones_like(start))
    done = at_start
    for _ in range(max_iterations):
        done = done | feasible(high)
        if bool(done.all()):
            break
        low = torch.where(done, low, high)
        high = torch.where(done, high, 4.0 * high)
    for _ in range(max_iterations):
        active = done & ~at_start & (high - low > relative_tolerance * high + smallest)
        if not bool(active.any()):
            break
        middle = torch.where(low > 0.0, torch.sqrt(low * high), high / 64.0)
        middle = torch.where(high < 2.0 * low, 0.5 * (low + high), middle)
        inside = feasible(middle)
        high = torch.where(active & inside, middle, high)
        low = torch.where(active & ~inside, middle, low)
    return RootBracket(start + low, start + high, done)
