"""Multivariate normal distributions, any batch shape, parameterised by the Cholesky factor of the covariance.

log N(x; mu, L L') = -1/2 |L^-1 (x - mu)|^2 - sum log diag L - d/2 log 2 pi
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.errors import DistributionError

__all__ = ["Gaussian", "check_scale_tril", "log_normaliser"]

LOG_TWO_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Gaussian:
    """Batch of multivariate normal distributions.

    Attributes
    ----------
    mean : Tensor (..., n_dims)
    scale_tril : Tensor (..., n_dims, n_dims)
        Lower Cholesky factor of the covariance, with a positive diagonal. Its batch shape may be broadcast.
    """

    mean: Tensor
    scale_tril: Tensor

    def __post_init__(self) -> None:
        check_scale_tril(self.scale_tril, self.mean.shape[-1])

    @property
    def n_dims(self) -> int:
        return self.mean.shape[-1]

    def log_prob(self, sample: Tensor) -> Tensor:
        """Log density [nat], (...), of samples (..., n_dims)."""
        log_prob: Tensor = -0.5 * self.whiten(sample).square().sum(-1) + log_normaliser(self.scale_tril)
        return log_prob

    def whiten(self, sample: Tensor) -> Tensor:
        """L^-1 (sample - mean), (..., n_dims)."""
        residual = (sample - self.mean).unsqueeze(-1)
        factor = self.scale_tril.expand(*residual.shape[:-2], *self.scale_tril.shape[-2:])
        whitened: Tensor = torch.linalg.solve_triangular(factor, residual, upper=False)
        return whitened.squeeze(-1)

    def score(self, sample: Tensor) -> Tensor:
        """Gradient of the log density with respect to samples (..., n_dims), -Sigma^-1 (sample - mean)."""
        whitened = self.whiten(sample).unsqueeze(-1)
        factor = self.scale_tril.expand(*whitened.shape[:-2], *self.scale_tril.shape[-2:])
        score: Tensor = -torch.linalg.solve_triangular(factor.mT, whitened, upper=True)
        return score.squeeze(-1)

    def sample(self, generator: torch.Generator, n_samples: int | None = None) -> Tensor:
        """Draw one sample per distribution (..., n_dims), or n_samples of each, (n_samples, ..., n_dims)."""
        shape = self.mean.shape if n_samples is None else (n_samples, *self.mean.shape)
        noise = torch.randn(shape, generator=generator, dtype=self.mean.dtype, device=self.mean.device)
        return self.mean + (self.scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Differential entropy [nat], the batch shape of scale_tril."""
        entropy: Tensor = 0.5 * self.n_dims - log_normaliser(self.scale_tril)
        return entropy

    def kl(self, other: Gaussian) -> Tensor:
        """KL(self || other) [nat], (...)."""
        factor: Tensor = torch.linalg.solve_triangular(other.scale_tril, self.scale_tril, upper=False)
        trace = factor.square().sum((-2, -1))
        log_det = log_normaliser(self.scale_tril) - log_normaliser(other.scale_tril)
        return 0.5 * (trace + other.whiten(self.mean).square().sum(-1) - self.n_dims) + log_det


def log_normaliser(scale_tril: Tensor) -> Tensor:
    """Log density at the mean, -sum log diag L - d/2 log 2 pi, (...)."""
    diagonal = torch.diagonal(scale_tril, dim1=-2, dim2=-1)
    return -diagonal.log().sum(-1) - 0.5 * diagonal.shape[-1] * LOG_TWO_PI


def check_scale_tril(scale_tril: Tensor, n_dims: int) -> None:
    """Raise `DistributionError` unless the factors are square, of size n_dims, finite, with positive diagonals."""
    if scale_tril.dim() < 2 or scale_tril.shape[-2:] != (n_dims, n_dims):
        raise DistributionError(
            f"scale_tril must end in ({n_dims}, {n_dims}), got {tuple(scale_tril.shape)}", scale_tril.shape
        )
    diagonal = torch.diagonal(scale_tril, dim1=-2, dim2=-1)
    if not bool(torch.isfinite(scale_tril).all() and (diagonal > 0.0).all()):
        raise DistributionError("scale_tril must be finite with a positive diagonal", scale_tril)
