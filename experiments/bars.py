"""The bars test (Foeldiak 1990): images of upright and level bars, each there or not; does a learner find the bars?

The bars of binary sparse coding add up where they cross, under normal noise; those of a noisy-OR cover one another.
"""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from eim_ros.learning.discrete.causes import BinarySparseCoding, NoisyOr

FOUND = 0.5  # a bar is found if its pixels differ by less, on average, than this share of its height


def bars(size: int) -> Tensor:
    """Images of all bars of a square, (size^2, 2 size): pixels of 0 and 1, level bars first."""
    level = torch.eye(size, dtype=torch.float64).repeat_interleave(size, 0)
    return torch.cat([level, torch.eye(size, dtype=torch.float64).repeat(size, 1)], 1)


def additive_bars(size: int = 5, height: float = 10.0, noise: float = 2.0, active: float = 2.0) -> BinarySparseCoding:
    """Model of bars that add up.

    Parameters
    ----------
    size : int
        Pixels of a bar; the square has twice as many bars.
    height, noise : float
        Value of a bar's pixels, and standard deviation of each pixel.
    active : float
        Bars of an image on average.
    """
    weights = height * bars(size)
    probability = weights.new_full((2 * size,), active / (2 * size))
    return BinarySparseCoding(weights, weights.new_tensor(noise), probability, weights.new_tensor(1e-6))


def noisy_or_bars(size: int = 5, weight: float = 0.9, leak: float = 0.02, active: float = 2.0) -> NoisyOr:
    """Model of bars that cover one another: a pixel of a bar is on with probability weight, any other with leak."""
    weights = (weight * bars(size)).clamp_min(1e-6)
    probability = weights.new_full((2 * size,), active / (2 * size))
    return NoisyOr(weights, weights.new_full((size * size,), leak), probability)


def n_bars_found(weights: Tensor, true_weights: Tensor) -> int:
    """How many true causes are found, each by a learnt cause of its own.

    Parameters
    ----------
    weights : Tensor (n_dims, n_causes)
        Learnt.
    true_weights : Tensor (n_dims, n_bars)
    """
    difference = torch.cdist(weights.T, true_weights.T) / true_weights.norm(dim=0)
    rows, columns = linear_sum_assignment(difference.numpy())
    return int((difference[rows, columns] < FOUND).sum())
