"""GMM-d and STM-d: random mixtures of normal and of Student's t densities in many dimensions (seed 003, appendix J).

Equal weights; means uniform in [-b, b]^d. With a square A of entries N(0, (.1 d)^2), the covariance of a normal
component is A'A + I (Arenz et al. 2020), the scale matrix of a Student component (A'A + I)^-1 (Lin et al. 2020).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from eim_ros.errors import DistributionError
from eim_ros.targets.elliptical_mixture import EllipticalMixture
from eim_ros.targets.start import MixtureStart

__all__ = ["random_gaussian_mixture", "random_student_mixture"]


def random_gaussian_mixture(n_dims: int, generator: torch.Generator, n_components: int = 10) -> EllipticalMixture:
    """GMM-d: the paper's have 20 and 100 dimensions and 10 components with means in [-50, 50]."""
    means, scatter = _drawn(n_dims, n_components, 50.0, generator)
    start = MixtureStart.isotropic(n_dims, 1, 1000.0**0.5, 1000.0)
    return EllipticalMixture(_equal(n_components), means, torch.linalg.cholesky(scatter), start)


def random_student_mixture(
    n_dims: int, generator: torch.Generator, n_components: int | None = None, degrees_of_freedom: float = 2.0
) -> EllipticalMixture:
    """STM-d: the paper's have 20 dimensions, 10 components and means in [-20, 20], or 300, 20 and [-25, 25].

    Parameters
    ----------
    n_dims : int
        Above 20 the bound is 25, and the default of n_components 20.
    generator : torch.Generator
    n_components : int, optional
    degrees_of_freedom : float
    """
    large = n_dims > 20
    n = (20 if large else 10) if n_components is None else n_components
    means, precisions = _drawn(n_dims, n, 25.0 if large else 20.0, generator)
    start = MixtureStart.isotropic(n_dims, 20, 100.0, 300.0)
    return EllipticalMixture(_equal(n), means, _factor_of_inverse(precisions), start, degrees_of_freedom)


def _drawn(n_dims: int, n_components: int, bound: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Means (n_components, n_dims) and A'A + I."""
    if n_dims < 1 or n_components < 1:
        raise DistributionError(f"a mixture needs a dimension and a component, got {n_dims}, {n_components}", n_dims)
    means = bound * (2.0 * torch.rand(n_components, n_dims, generator=generator, dtype=torch.float64) - 1.0)
    factors = torch.randn(n_components, n_dims, n_dims, generator=generator, dtype=torch.float64) * (0.1 * n_dims)
    return means, factors.mT @ factors + torch.eye(n_dims, dtype=torch.float64)


def _equal(n_components: int) -> Tensor:
    return torch.full((n_components,), -math.log(n_components), dtype=torch.float64)


def _factor_of_inverse(precisions: Tensor) -> Tensor:
    """Lower Cholesky factors L of P^-1: with the order of the dimensions reversed, chol(P) is the transpose of L^-1."""
    reversed_factor = torch.linalg.cholesky(precisions.flip(-2, -1)).flip(-2, -1)  # upper U with U U' = P
    identity = torch.eye(precisions.shape[-1], dtype=precisions.dtype).expand_as(precisions)
    factor: Tensor = torch.linalg.solve_triangular(reversed_factor.mT, identity, upper=False)
    return factor
