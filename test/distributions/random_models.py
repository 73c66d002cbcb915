"""Random models of any size, in float64, each from its seed."""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, LinearExperts, MixtureOfExperts, SoftmaxGating

__all__ = [
    "generator_of",
    "normal",
    "random_experts",
    "random_gating",
    "random_mixture",
    "random_mixture_of_experts",
    "random_scale_trils",
]


def generator_of(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def random_scale_trils(generator: torch.Generator, *shape: int) -> Tensor:
    """Cholesky factors (..., d, d) for a shape (..., d), of standard deviations around 0.3 to 1."""
    root = 0.4 * normal(generator, *shape, shape[-1])
    return torch.linalg.cholesky(root @ root.mT + 0.1 * torch.eye(shape[-1], dtype=torch.float64))


def random_mixture(seed: int, n_components: int, n_dims: int) -> GaussianMixture:
    generator = generator_of(seed)
    return GaussianMixture(
        normal(generator, n_components),
        normal(generator, n_components, n_dims),
        random_scale_trils(generator, n_components, n_dims),
    )


def random_experts(seed: int, n_components: int, n_dims: int, n_context: int) -> LinearExperts:
    generator = generator_of(seed)
    return LinearExperts(
        normal(generator, n_components, n_dims, n_context),
        normal(generator, n_components, n_dims),
        random_scale_trils(generator, n_components, n_dims),
    )


def random_gating(seed: int, n_components: int, n_context: int) -> SoftmaxGating:
    generator = generator_of(seed)
    return SoftmaxGating(normal(generator, n_components, n_context), normal(generator, n_components))


def random_mixture_of_experts(seed: int, n_components: int, n_dims: int, n_context: int) -> MixtureOfExperts:
    return MixtureOfExperts(
        random_gating(seed + 1, n_components, n_context), random_experts(seed, n_components, n_dims, n_context)
    )
