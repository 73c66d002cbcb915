"""Densities that share one set of tests. Add a new class to `DENSITIES` to run `test_density_contract.py` for it.

Each entry describes how to evaluate one density of x, how to draw from it, and a mixture with the same density for
SciPy. `parameters` are the arguments for the gradient with respect to the parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from learning.models.random_models import (
    generator_of,
    normal,
    random_mixture,
    random_mixture_of_experts,
    random_neural_experts,
    random_neural_mixture_of_experts,
)
from torch import Tensor

from eim_ros.learning.models import Gaussian, GaussianMixture, LinearExperts, MixtureOfExperts, NeuralExperts

__all__ = ["DENSITIES", "Density", "every_density"]


@dataclass(frozen=True)
class Density:
    """One density of x (n_samples, n_dims).

    Attributes
    ----------
    parameters : tuple of Tensor
    log_prob : callable
        (sample, *parameters) -> (n_samples,).
    draw : callable
        (generator, n_samples) -> (n_samples, n_dims).
    reference : GaussianMixture
        The same density as weights, means and factors, from which SciPy evaluates the reference.
    """

    name: str
    parameters: tuple[Tensor, ...]
    log_prob: Callable[..., Tensor]
    draw: Callable[[torch.Generator, int], Tensor]
    reference: GaussianMixture

    @property
    def n_dims(self) -> int:
        return self.reference.n_dims


def gaussian(n_dims: int) -> Density:
    mixture = random_mixture(10 + n_dims, 1, n_dims)
    mean, factor = mixture.means[0], mixture.scale_trils[0]
    return Density(
        f"Gaussian, d={n_dims}",
        (mean, factor),
        lambda sample, mean, factor: Gaussian(mean, factor.tril()).log_prob(sample),
        lambda generator, n: Gaussian(mean, factor).sample(n, generator),
        mixture,
    )


def mixture(n_dims: int) -> Density:
    model = random_mixture(20 + n_dims, 3, n_dims)
    return Density(
        f"GaussianMixture, d={n_dims}",
        (model.log_weights, model.means, model.scale_trils),
        lambda sample, weights, means, factors: GaussianMixture(weights, means, factors.tril()).log_prob(sample),
        lambda generator, n: model.sample(n, generator),
        model,
    )


def mixture_with_an_absent_component(n_dims: int) -> Density:
    model = random_mixture(30 + n_dims, 3, n_dims)
    log_weights = torch.tensor([-torch.inf, -0.5, -1.0], dtype=torch.float64)
    absent = GaussianMixture(log_weights, model.means, model.scale_trils)
    return Density(
        f"GaussianMixture with a weight of 0, d={n_dims}",
        (model.means, model.scale_trils),
        lambda sample, means, factors: GaussianMixture(log_weights.to(sample), means, factors.tril()).log_prob(sample),
        lambda generator, n: absent.sample(n, generator),
        absent,
    )


def expert(n_dims: int, n_context: int) -> Density:
    experts = random_mixture_of_experts(40 + n_dims, 2, n_dims, n_context).experts
    context = normal(generator_of(1), 1, n_context)
    conditioned = Gaussian(experts.means(context)[0, 1], experts.scale_trils[1])

    def log_prob(sample: Tensor, weights: Tensor, biases: Tensor, factors: Tensor) -> Tensor:
        model = LinearExperts(weights, biases, factors.tril())
        return model.log_prob(context.to(sample).expand(len(sample), -1), sample)[:, 1]

    return Density(
        f"LinearExperts, d={n_dims}, dy={n_context}",
        (experts.weights, experts.biases, experts.scale_trils),
        log_prob,
        lambda generator, n: conditioned.sample(n, generator),
        GaussianMixture(torch.zeros(1, dtype=torch.float64), conditioned.mean[None], conditioned.scale_tril[None]),
    )


def neural_expert(n_dims: int, n_context: int) -> Density:
    experts = random_neural_experts(60 + n_dims, 2, n_dims, n_context)
    context, first = normal(generator_of(1), 1, n_context), torch.zeros(1, dtype=torch.int64)
    names = tuple(experts.tensors())

    def log_prob(sample: Tensor, *parameters: Tensor) -> Tensor:
        tensors = dict(zip(names, parameters, strict=True))
        tensors["base.scale_trils"] = tensors["base.scale_trils"].tril()
        model = NeuralExperts.from_tensors(tensors)
        return model.log_prob(context.to(sample).expand(len(sample), -1), sample)[:, 0]

    conditioned = experts(context)
    return Density(
        f"NeuralExperts, d={n_dims}, dy={n_context}",
        tuple(experts.tensors().values()),
        log_prob,
        lambda generator, n: experts.select(first.expand(n), context.expand(n, -1)).sample(generator=generator),
        GaussianMixture(torch.zeros(1).double(), conditioned.mean[0, :1], conditioned.scale_tril[0, :1]),
    )


def mixture_of_experts(name: str, model: MixtureOfExperts) -> Density:
    context = normal(generator_of(2), 1, model.n_context)
    names = tuple(model.tensors())

    def log_prob(sample: Tensor, *parameters: Tensor) -> Tensor:
        tensors = dict(zip(names, parameters, strict=True))
        tensors = {name: value.tril() if name.endswith("scale_trils") else value for name, value in tensors.items()}
        return MixtureOfExperts.from_tensors(tensors).log_prob(context.to(sample).expand(len(sample), -1), sample)

    components = model.experts(context)
    factors = components.scale_tril.expand(1, model.n_components, model.n_dims, model.n_dims)
    return Density(
        f"{name}, d={model.n_dims}, dy={model.n_context}",
        tuple(model.tensors().values()),
        log_prob,
        lambda generator, n: model.sample(context.expand(n, -1), generator),
        GaussianMixture(model.gating(context)[0], components.mean[0], factors[0]),
    )


SIZES = ((1, 1), (2, 0), (3, 2))

DENSITIES = [
    *(gaussian(n_dims) for n_dims in (1, 2, 3)),
    *(mixture(n_dims) for n_dims in (1, 2, 3)),
    *(mixture_with_an_absent_component(n_dims) for n_dims in (1, 2)),
    *(expert(n_dims, n_context) for n_dims, n_context in ((1, 1), (2, 3), (2, 0))),
    *(neural_expert(n_dims, n_context) for n_dims, n_context in ((1, 1), (2, 3), (2, 0))),
    *(mixture_of_experts("MixtureOfExperts", random_mixture_of_experts(50 + size[0], 3, *size)) for size in SIZES),
    *(
        mixture_of_experts("MixtureOfExperts, neural", random_neural_mixture_of_experts(90 + size[0], 3, *size))
        for size in SIZES
    ),
    mixture_of_experts(
        "MixtureOfExperts, neural experts", random_neural_mixture_of_experts(80, 3, 2, 1, linear_gating=True)
    ),
]

every_density = pytest.mark.parametrize("density", DENSITIES, ids=[density.name for density in DENSITIES])
