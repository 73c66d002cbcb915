"""Protocol of a target of variational inference: an unnormalised log density and the initial model.

A target may also have these members:

- `score(x)`: gradient of `log_prob`, (n_samples, n_dims); `log_prob_and_score(x)`: both, at a lower cost;
- `log_normaliser`: log of the integral of exp(log_prob) [nat], if it is known;
- `sample(n, generator)`: independent samples (n, n_dims), if they can be drawn;
- `modes`, (n_modes, n_dims), and `mode_radius`: a mode is found if a component's mean is within this distance;
- `minibatch(generator)`: a target of the same kind on a random part of its data, drawn for each iteration.
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
    """Initial model of variational inference: components with equal weights and covariances, and random means.

    Means are drawn from N(centre, diag(mean_scale^2)), and covariances are diag(variance). A single component is at the
    centre.

    Attributes
    ----------
    n_components : int
        Number of components in the published experiment.
    mean_scale : Tensor (n_dims,)
        Standard deviations of the means.
    variance : Tensor (n_dims,)
        Diagonal of each covariance.
    centre : Tensor (n_dims,), optional
        By default, 0.
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
            raise DistributionError(
                "a start needs at least one component, variances above 0, and scales of at least 0", self
            )

    @classmethod
    def isotropic(cls, n_dims: int, n_components: int, mean_scale: float, variance: float) -> MixtureStart:
        """Create a start with the same scale and variance in all dimensions."""
        ones = torch.ones(n_dims, dtype=torch.float64)
        return cls(n_components, mean_scale * ones, variance * ones)

    def means(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw means (n, n_dims)."""
        noise = torch.randn(n, len(self.mean_scale), generator=generator, dtype=torch.float64)
        return self._centre + self.mean_scale * noise

    def mixture(self, generator: torch.Generator | None = None, n_components: int | None = None) -> GaussianMixture:
        """Draw the initial model. `n_components` overrides the published number."""
        n = self.n_components if n_components is None else n_components
        means = self.means(n, generator) if n > 1 else self._centre[None]
        factors = torch.diag(self.variance.sqrt()).expand(n, -1, -1)
        return GaussianMixture(means.new_zeros(n), means, factors)

    @property
    def _centre(self) -> Tensor:
        return torch.zeros_like(self.mean_scale) if self.centre is None else self.centre


@runtime_checkable
class Target(Protocol):
    """Unnormalised density on R^n_dims.

    Attributes
    ----------
    n_dims : int
    start : MixtureStart
        Initial model of the published experiments.
    """

    @property
    def n_dims(self) -> int: ...

    @property
    def start(self) -> MixtureStart: ...

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the unnormalised log density [nat] of samples (n_samples, n_dims), as (n_samples,) in float64.

        The log density is -inf outside the support.
        """
        ...


def checked_samples(x: Tensor, n_dims: int) -> Tensor:
    """Return samples (n_samples, n_dims) in float64, or raise `DistributionError` if they have another shape."""
    if x.dim() != 2 or x.shape[1] != n_dims:
        raise DistributionError(f"samples must have shape (n_samples, {n_dims}), got {tuple(x.shape)}", tuple(x.shape))
    return x.to(torch.float64)
