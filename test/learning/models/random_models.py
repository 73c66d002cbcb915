"""Random models of any size in float64, each determined by a seed."""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.learning.models import (
    GaussianMixture,
    LinearExperts,
    MixtureOfExperts,
    NeuralExperts,
    NeuralGating,
    SoftmaxGating,
)
from eim_ros.learning.models.neural import BatchedNetwork

__all__ = [
    "generator_of",
    "normal",
    "random_experts",
    "random_gating",
    "random_mixture",
    "random_mixture_of_experts",
    "random_network",
    "random_neural_experts",
    "random_neural_gating",
    "random_neural_mixture_of_experts",
    "random_scale_trils",
    "truncated_log_prob",
]


def generator_of(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def random_scale_trils(generator: torch.Generator, *shape: int) -> Tensor:
    """Return Cholesky factors (..., d, d) for a shape (..., d), with standard deviations of about 0.3 to 1."""
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


def random_network(seed: int, n_networks: int, n_inputs: int, n_outputs: int) -> BatchedNetwork:
    """Return networks with two hidden layers and outputs of about 0.3."""
    generator = generator_of(seed)
    fresh = BatchedNetwork.random(2.0 + 3.0 * normal(generator, 20, n_inputs), n_networks, (3, 2), n_outputs, generator)
    return BatchedNetwork(
        fresh.center,
        fresh.scale,
        (*fresh.weights[:-1], 0.2 * normal(generator, *fresh.weights[-1].shape)),
        (*fresh.biases[:-1], 0.2 * normal(generator, *fresh.biases[-1].shape)),
    )


def random_neural_experts(seed: int, n_components: int, n_dims: int, n_context: int) -> NeuralExperts:
    network = random_network(seed + 1, n_components, n_context, n_dims + n_dims * (n_dims + 1) // 2)
    return NeuralExperts(random_experts(seed, n_components, n_dims, n_context), network)


def random_neural_gating(seed: int, n_components: int, n_context: int) -> NeuralGating:
    return NeuralGating(random_network(seed, 1, n_context, n_components))


def random_neural_mixture_of_experts(
    seed: int, n_components: int, n_dims: int, n_context: int, *, linear_gating: bool = False
) -> MixtureOfExperts:
    gating = random_gating if linear_gating else random_neural_gating
    return MixtureOfExperts(
        gating(seed + 2, n_components, n_context), random_neural_experts(seed, n_components, n_dims, n_context)
    )


def truncated_log_prob(model: MixtureOfExperts, context: Tensor, sample: Tensor, states: Tensor) -> Tensor:
    """Return log sum_z q(x, z|y) (n,) over the components `states` (n, n_states) of each sample."""
    return model.log_joint(context, sample).gather(1, states).logsumexp(-1)
