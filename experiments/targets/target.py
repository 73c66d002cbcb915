"""What a target of variational inference is: an unnormalised log density, where to start, and what is known of it.

Beyond this protocol a target may have

- `score(x)`, the gradient of `log_prob`, (n_samples, n_dims), and `log_prob_and_score(x)`, both at less cost;
- `log_normaliser`, log of the integral of exp(log_prob) [nat], where it is known;
- `sample(n, generator)`, independent samples (n, n_dims), where they can be drawn;
- `modes`, their places (n_modes, n_dims), and `mode_radius`, within which a component's mean counts as one;
- `minibatch(generator)`, a target of the same kind by a random part of its data, one for each iteration.

The first model of variational inference: equal components of one covariance, means drawn from a normal density.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import GaussianMixture


@dataclass(frozen=True)
class MixtureStart:
    """Means of N(centre, diag(mean_scale^2)), covariances diag(variance); a single component is at the centre.

    Attributes
    ----------
    n_components : int
        As in the published experiment.
    mean_scale : Tensor (n_dims,)
        Standard deviations of the means.
    variance : Tensor (n_dims,)
        Diagonal of each covariance.
    centre : Tensor (n_dims,), optional
        0 by default.
    """

    n_components: int
    mean_scale: Tensor
    variance: Tensor
    centre: Tensor | None = None

    def __post_init__(self) -> None:
        if self.mean_scale.shape != self.variance.shape or self.variance.dim() != 1:
            raise DistributionError(
                f"mean_scale and variance must have one number per dimension, got {tuple(self.mean_scale.shape)} and "
                f"{tuple(self.variance.shape)}",
                self.variance.shape,
            )
        if self.n_components < 1 or not bool((self.variance > 0.0).all() and (self.mean_scale >= 0.0).all()):
            raise DistributionError("a start needs a component, variances above 0 and scales of at least 0", self)

    @classmethod
    def isotropic(cls, n_dims: int, n_components: int, mean_scale: float, variance: float) -> MixtureStart:
        """The same in all dimensions."""
        ones = torch.ones(n_dims, dtype=torch.float64)
        return cls(n_components, mean_scale * ones, variance * ones)

    def means(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Means (n, n_dims)."""
        noise = torch.randn(n, len(self.mean_scale), generator=generator, dtype=torch.float64)
        return self._centre + self.mean_scale * noise

    def mixture(self, generator: torch.Generator | None = None, n_components: int | None = None) -> GaussianMixture:
        """The model, with another number of components if one is given."""
        n = self.n_components if n_components is None else n_components
        means = self.means(n, generator) if n > 1 else self._centre[None]
        factors = torch.diag(self.variance.sqrt()).expand(n, -1, -1)
        return GaussianMixture(means.new_zeros(n), means, factors)

    @property
    def _centre(self) -> Tensor:
        return torch.zeros_like(self.mean_scale) if self.centre is None else self.centre


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
