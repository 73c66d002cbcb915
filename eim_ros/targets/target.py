"""What a target of variational inference is: an unnormalised log density, where to start, and what is known of it.

Beyond this protocol a target may have

- `score(x)`, the gradient of `log_prob`, (n_samples, n_dims), and `log_prob_and_score(x)`, both at less cost;
- `log_normaliser`, log of the integral of exp(log_prob) [nat], where it is known;
- `sample(n, generator)`, independent samples (n, n_dims), where they can be drawn;
- `modes`, their places (n_modes, n_dims), and `mode_radius`, within which a component's mean counts as one;
- `minibatch(generator)`, a target of the same kind by a random part of its data, one for each iteration.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from eim_ros.errors import DistributionError
from eim_ros.targets.start import MixtureStart

__all__ = ["Target", "checked_samples"]


@runtime_checkable
class Target(Protocol):
    """An unnormalised density on R^n_dims.

    Attributes
    ----------
    n_dims : int
    start : MixtureStart
        The first model of the published experiments.
    """

    @property
    def n_dims(self) -> int: ...

    @property
    def start(self) -> MixtureStart: ...

    def log_prob(self, x: Tensor) -> Tensor:
        """Unnormalised log density [nat], (n_samples,) in float64, of samples (n_samples, n_dims); -inf outside."""
        ...


def checked_samples(x: Tensor, n_dims: int) -> Tensor:
    """Samples (n_samples, n_dims) in float64; `DistributionError` for another shape."""
    if x.dim() != 2 or x.shape[1] != n_dims:
        raise DistributionError(f"samples must have shape (n_samples, {n_dims}), got {tuple(x.shape)}", tuple(x.shape))
    return x.to(torch.float64)
