"""Density of demonstrated motions for the ratio of EIM, and EIM's start: mixtures fitted by EM from starts of ways.

EIM gets as good as its estimate of the data's density. Fits from k-means in whitened coordinates miss ways, see
`start`, whatever their size; so the estimate is made here, of as many components as held-out motions can bear, and
given to EIM as known.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference import EM, EMConfig, StandardisedInputs
from eim_ros.inference.ratio.density_ratio import RatioConfig
from eim_ros.inference.starts.reference_start import closest_start
from eim_ros.motion.start import start_of_ways
from eim_ros.numerics import Status

__all__ = ["Reference", "ReferenceInputs", "fit_reference"]

PATIENCE = 2  # sizes in a row without a gain, after which no larger ones are tried
FLOOR = 1e-6  # least variance of a component, relative to the data's


@dataclass(frozen=True)
class Reference:
    """What EIM is given.

    Attributes
    ----------
    density : MixtureOfExperts
        Estimate of the density of the coordinates given the context.
    start : MixtureOfExperts
        Of the size of the model.
    """

    density: MixtureOfExperts
    start: MixtureOfExperts


@dataclass(frozen=True)
class ReferenceInputs:
    """Inputs of a density ratio that know a density; satisfies `eim_ros.inference.RatioInputs`."""

    standardised: StandardisedInputs
    density: MixtureOfExperts

    @property
    def n_inputs(self) -> int:
        return self.standardised.n_inputs

    def smoothing(self, iteration: int) -> Tensor | None:
        return None

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor | None:
        return self.density.log_prob(context, sample)

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return self.standardised(context, sample, iteration)


def fit_reference(
    config: RatioConfig,
    n_components: int,
    context: Tensor,
    weights: Tensor,
    coordinates: Tensor,
    generator: torch.Generator,
) -> Reference:
    """Reference density and start.

    Parameters
    ----------
    config : RatioConfig
        Its settings of the reference density.
    n_components : int
        Of the model.
    context : Tensor (n, n_context)
    weights : Tensor (n, n_weights)
        In whose units ways are told apart.
    coordinates : Tensor (n, n_latent)
        What the model is to be of.
    generator : torch.Generator
    """
    order = torch.randperm(len(weights), generator=generator, device=generator.device)
    context, weights, coordinates = (part[order] for part in (context, weights, coordinates))
    n = config.n_training(len(weights))
    held_out = config.held_out(len(weights))
    fits: dict[int, tuple[float, MixtureOfExperts]] = {}
    best, misses = n_components, 0
    for size in _sizes(config, n_components, n):
        candidates = []
        for _ in range(config.reference_starts):
            start = start_of_ways(context[:n], weights[:n], coordinates[:n], size, FLOOR, generator)
            candidates.append(_refined(start, context[:n], coordinates[:n], config.reference_iterations))
        judged = [(_likelihood(model, context[held_out], coordinates[held_out]), model) for model in candidates]
        fits[size] = max(judged, key=lambda pair: pair[0])
        if size == n_components or fits[size][0] > fits[best][0]:
            best, misses = size, 0
        else:
            misses += 1
            if misses == PATIENCE:
                break
    density, fitted = (_refined(fits[size][1], context, coordinates, config.reference_iterations)
                       for size in (best, n_components))  # fmt: skip
    return Reference(density, closest_start(fitted, density, context, generator))


def _sizes(config: RatioConfig, n_components: int, n_samples: int) -> list[int]:
    """Numbers of components, that of the model first; two motions for each at least."""
    most = max(n_components, min(n_samples // 2, config.reference_limit + n_components))
    larger = {min(most, round(factor * n_components)) for factor in config.reference_factors if factor > 1.0}
    return [n_components, *sorted(larger - {n_components})]


def _refined(start: MixtureOfExperts, context: Tensor, coordinates: Tensor, n_iterations: int) -> MixtureOfExperts:
    settings = EMConfig(n_components=start.n_components, n_iterations=n_iterations, covariance_floor=FLOOR)
    result = EM(settings).fit((context, coordinates), start)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result.mixture_of_experts


def _likelihood(model: MixtureOfExperts, context: Tensor, coordinates: Tensor) -> float:
    return float(model.log_prob(context, coordinates).mean())
