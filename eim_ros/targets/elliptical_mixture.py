"""Mixtures of normal or of Student's t densities, sum_k w_k f(|W_k'(x - mu_k)|^2) |det W_k|.

With r^2 = |W'(x - mu)|^2 and nu degrees of freedom in d dimensions

    log f(r^2) = -d/2 log 2 pi - r^2 / 2                                                              (normal)
    log f(r^2) = log G((nu+d)/2) - log G(nu/2) - d/2 log(nu pi) - (nu+d)/2 log(1 + r^2/nu)             (Student)

The whitened residuals of all components are one matrix product, and so is the sum of their gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from eim_ros.errors import DistributionError
from eim_ros.targets.start import MixtureStart
from eim_ros.targets.target import checked_samples

__all__ = ["EllipticalMixture"]


@dataclass(frozen=True)
class EllipticalMixture:
    """A normalised target whose modes are known.

    Attributes
    ----------
    log_weights : Tensor (n_components,)
        Normalised by whoever makes it.
    means : Tensor (n_components, n_dims)
    scale_trils : Tensor (n_components, n_dims, n_dims)
        Lower Cholesky factors of the scale matrices, which are the covariances of normal components.
    start : MixtureStart
    degrees_of_freedom : float
        nu of Student's t; infinite for normal components.
    """

    log_weights: Tensor
    means: Tensor
    scale_trils: Tensor
    start: MixtureStart
    degrees_of_freedom: float = math.inf

    def __post_init__(self) -> None:
        n, d = self.means.shape
        if self.log_weights.shape != (n,) or self.scale_trils.shape != (n, d, d):
            raise DistributionError(
                "expected log_weights (k,), means (k, d) and scale_trils (k, d, d), got "
                f"{tuple(self.log_weights.shape)}, {(n, d)} and {tuple(self.scale_trils.shape)}",
                self.scale_trils.shape,
            )
        if not self.degrees_of_freedom > 0.0:
            raise DistributionError("degrees of freedom must be above 0", self.degrees_of_freedom)

    @property
    def n_dims(self) -> int:
        return self.means.shape[1]

    @property
    def log_normaliser(self) -> float:
        """0: the density is normalised."""
        return 0.0

    @property
    def modes(self) -> Tensor:
        """Means of the components, (n_components, n_dims)."""
        return self.means

    @property
    def mode_radius(self) -> float:
        """6 sqrt(n_dims): a mode counts as found if a component's mean is nearer (as in seed 003's code)."""
        return 6.0 * math.sqrt(self.n_dims)

    def log_prob(self, x: Tensor) -> Tensor:
        """Log density [nat], (n_samples,)."""
        _, squared = self._whitened(checked_samples(x, self.n_dims))
        return torch.logsumexp(self._constants + self._profile(squared), -1)

    def score(self, x: Tensor) -> Tensor:
        """Gradient of the log density, (n_samples, n_dims)."""
        return self.log_prob_and_score(x)[1]

    def log_prob_and_score(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both, with the residuals computed once."""
        whitened, squared = self._whitened(checked_samples(x, self.n_dims))
        log_joint = self._constants + self._profile(squared)
        log_prob = torch.logsumexp(log_joint, -1)
        pull = (log_joint - log_prob.unsqueeze(-1)).exp()
        if math.isfinite(self.degrees_of_freedom):
            nu = self.degrees_of_freedom
            pull = pull * ((nu + self.n_dims) / (nu + squared))
        return log_prob, -(pull.unsqueeze(-1) * whitened).flatten(1) @ self._columns.T

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Independent samples (n, n_dims)."""
        index = torch.multinomial(self.log_weights.exp(), n, replacement=True, generator=generator)
        sample = torch.empty(n, self.n_dims, dtype=self.means.dtype)
        noise = torch.randn(n, self.n_dims, generator=generator, dtype=self.means.dtype)
        if math.isfinite(self.degrees_of_freedom):
            noise = noise * self._stretch(n, generator).unsqueeze(-1)
        for k in range(len(self.means)):  # a factor each: gathered ones would take n d^2 numbers
            own = index == k
            sample[own] = self.means[k] + noise[own] @ self.scale_trils[k].T
        return sample

    @cached_property
    def _columns(self) -> Tensor:
        """W of all components side by side, (n_dims, n_components n_dims); W = L'^-1."""
        identity = torch.eye(self.n_dims, dtype=self.means.dtype).expand_as(self.scale_trils)
        inverse: Tensor = torch.linalg.solve_triangular(self.scale_trils, identity, upper=False)
        return inverse.permute(2, 0, 1).flatten(1).contiguous()

    @cached_property
    def _shift(self) -> Tensor:
        """W'mu of all components, (n_components, n_dims)."""
        shift: Tensor = torch.linalg.solve_triangular(self.scale_trils, self.means.unsqueeze(-1), upper=False)
        return shift.squeeze(-1)

    @cached_property
    def _constants(self) -> Tensor:
        """Log weight and what log f does not take from r^2, (n_components,)."""
        d, nu = self.n_dims, self.degrees_of_freedom
        constant = -0.5 * d * math.log(2.0 * math.pi)
        if math.isfinite(nu):
            constant = math.lgamma(0.5 * (nu + d)) - math.lgamma(0.5 * nu) - 0.5 * d * math.log(nu * math.pi)
        return self.log_weights + constant - self.scale_trils.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def _whitened(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Residuals (n_samples, n_components, n_dims) and their squares (n_samples, n_components)."""
        whitened = (x @ self._columns).unflatten(1, self._shift.shape) - self._shift
        return whitened, whitened.square().sum(-1)

    def _profile(self, squared: Tensor) -> Tensor:
        nu = self.degrees_of_freedom
        if math.isfinite(nu):
            return -0.5 * (nu + self.n_dims) * torch.log1p(squared / nu)
        return -0.5 * squared

    def _stretch(self, n: int, generator: torch.Generator | None) -> Tensor:
        """sqrt(nu / chi^2_nu), (n,)."""
        shape = torch.full((n,), 0.5 * self.degrees_of_freedom, dtype=self.means.dtype)
        chi_squared = 2.0 * torch._standard_gamma(shape, generator=generator)
        return (self.degrees_of_freedom / chi_squared).sqrt()
