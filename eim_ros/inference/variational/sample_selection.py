"""Which samples an iteration uses: drawn from the mixture or from each component, as many as are lacking.

Both options first take the newest samples of earlier iterations, and draw by how much the effective number of these
falls short of the one desired (paper, section 3.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.inference.variational.component_densities import log_densities, mixture_log_prob
from eim_ros.inference.variational.components import Components
from eim_ros.inference.variational.sample_database import Evaluated, SampleDatabase, Selection

__all__ = ["ComponentSamples", "Evaluate", "MixtureSamples", "SampleSelection"]


class Evaluate(Protocol):
    """Evaluates the target."""

    def __call__(self, sample: Tensor) -> Evaluated:
        """The samples (n_samples, n_dims) with their log densities, and gradients if these are wanted."""
        ...


class SampleSelection(Protocol):
    """A rule for the samples of an iteration."""

    def n_reused(self, n_components: int) -> int:
        """Samples of earlier iterations that are used again, at most."""
        ...

    def n_new(self, n_components: int) -> int:
        """New samples of one iteration, at most."""
        ...

    def __call__(
        self,
        components: Components,
        log_weights: Tensor,
        database: SampleDatabase,
        evaluate: Evaluate,
        generator: torch.Generator,
    ) -> Selection:
        """Select samples; the target is evaluated at the new ones."""
        ...


@dataclass(frozen=True)
class MixtureSamples:
    """From the mixture: max(1, n_samples - effective number of the reused ones for the mixture) new ones (P).

    Attributes
    ----------
    n_samples : int
        Desired effective number for the mixture.
    reuse_ratio : float
        So many times as many of the newest samples are used again.
    """

    n_samples: int
    reuse_ratio: float = 0.0

    def n_reused(self, n_components: int) -> int:
        return math.floor(self.reuse_ratio * self.n_samples)

    def n_new(self, n_components: int) -> int:
        return self.n_samples

    def __call__(
        self,
        components: Components,
        log_weights: Tensor,
        database: SampleDatabase,
        evaluate: Evaluate,
        generator: torch.Generator,
    ) -> Selection:
        n_new, reused = self.n_samples, database.recent
        if len(reused):
            log_prob = mixture_log_prob(components, log_weights, reused.sample)
            weights = torch.softmax(log_prob - _log_background(database, reused.sample), 0)
            n_new = max(1, self.n_samples - math.floor(1.0 / float(weights.square().sum())))
        drawn = torch.multinomial(log_weights.exp(), n_new, replacement=True, generator=generator)
        counts = torch.bincount(drawn, minlength=components.n_components)
        return _selected(components, counts, database, evaluate, generator)


@dataclass(frozen=True)
class ComponentSamples:
    """From each component: max(1, n_samples - effective number of the reused ones for it) new ones (M).

    Attributes
    ----------
    n_samples : int
        Desired effective number for every component.
    reuse_ratio : float
        So many times as many of the newest samples are used again.
    """

    n_samples: int
    reuse_ratio: float = 0.0

    def n_reused(self, n_components: int) -> int:
        return math.floor(self.reuse_ratio * self.n_samples) * n_components

    def n_new(self, n_components: int) -> int:
        return self.n_samples * n_components

    def __call__(
        self,
        components: Components,
        log_weights: Tensor,
        database: SampleDatabase,
        evaluate: Evaluate,
        generator: torch.Generator,
    ) -> Selection:
        counts = torch.full((components.n_components,), self.n_samples, device=log_weights.device)
        reused = database.recent.sample
        if len(reused):
            log_ratio = log_densities(components, reused) - _log_background(database, reused).unsqueeze(-1)
            effective = torch.softmax(log_ratio, 0).square().sum(0).reciprocal().floor().to(torch.int64)
            counts = (counts - effective).clamp_min(1)
        return _selected(components, counts, database, evaluate, generator)


def _selected(
    components: Components,
    counts: Tensor,
    database: SampleDatabase,
    evaluate: Evaluate,
    generator: torch.Generator,
) -> Selection:
    sample, component = components.sample(counts, generator)
    every, log_earlier = database.recent.joined(evaluate(sample)), None
    if len(database.recent):
        log_earlier = _log_background(database, every.sample) + math.log(len(database.recent) / len(every))
    return Selection(every.sample, every.log_target, every.gradient, counts.to(sample), component, log_earlier)


def _log_background(database: SampleDatabase, sample: Tensor) -> Tensor:
    """Log density of the mixture that the reused samples are from, (n_samples,), at any samples."""
    counts = torch.bincount(database.origin, minlength=database.earlier.n_components)
    log_fractions = (counts.to(sample) / len(database.origin)).log()
    return mixture_log_prob(database.earlier, log_fractions, sample)
