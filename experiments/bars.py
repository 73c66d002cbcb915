"""Bars test (Foeldiak 1990): check whether a learner finds the bars in images.

Each image shows a random subset of vertical and horizontal bars. In binary sparse coding, crossing bars add up, and
each pixel has Gaussian noise. In a noisy-OR, bars occlude each other.
"""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from eim_ros.learning.discrete.causes import BinarySparseCoding, NoisyOr

FOUND = 0.5  # largest distance between a bar and a matching learnt cause, relative to the norm of the bar


def bars(size: int) -> Tensor:
    """Return the images of all bars of a square, (size^2, 2 size), with pixels 0 and 1. Horizontal bars come first."""
    level = torch.eye(size, dtype=torch.float64).repeat_interleave(size, 0)
    return torch.cat([level, torch.eye(size, dtype=torch.float64).repeat(size, 1)], 1)


def additive_bars(size: int = 5, height: float = 10.0, noise: float = 2.0, active: float = 2.0) -> BinarySparseCoding:
    """Return a model of bars that add up.

    Parameters
    ----------
    size : int
        Length of a bar in pixels. The square has 2 `size` bars.
    height, noise : float
        Pixel value of a bar, and standard deviation of each pixel.
    active : float
        Expected number of bars in an image.
    """
    weights = height * bars(size)
    probability = weights.new_full((2 * size,), active / (2 * size))
    return BinarySparseCoding(weights, weights.new_tensor(noise), probability, weights.new_tensor(1e-6))


def noisy_or_bars(size: int = 5, weight: float = 0.9, leak: float = 0.02, active: float = 2.0) -> NoisyOr:
    """Return a model of bars that occlude each other.

    Parameters
    ----------
    size : int
        Length of a bar in pixels.
    weight : float
        Probability that a pixel of an active bar is on.
    leak : float
        Probability that a pixel is on without any bar.
    active : float
        Expected number of bars in an image.
    """
    weights = (weight * bars(size)).clamp_min(1e-6)
    probability = weights.new_full((2 * size,), active / (2 * size))
    return NoisyOr(weights, weights.new_full((size * size,), leak), probability)


def n_bars_found(weights: Tensor, true_weights: Tensor) -> int:
    """Return the number of true causes that were found. Each true cause is matched to a different learnt cause.

    Parameters
    ----------
    weights : Tensor (n_dims, n_causes)
        Learnt weights.
    true_weights : Tensor (n_dims, n_bars)
    """
    difference = torch.cdist(weights.T, true_weights.T) / true_weights.norm(dim=0)
    rows, columns = linear_sum_assignment(difference.numpy())
    return int((difference[rows, columns] < FOUND).sum())
