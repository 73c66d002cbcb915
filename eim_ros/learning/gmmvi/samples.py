"""New and reused samples of an iteration, and a database of earlier samples with limited size.

An iteration first reuses the newest samples of earlier iterations, with importance weights. It then draws new samples
from the mixture or from each component, until the desired effective sample size is reached (Arenz et al. 2023, section
3.1).

`SampleDatabase` stores two sets of samples. The first set contains the newest samples, together with the components
that drew them. These samples may be reused. The second set is a uniformly random subset of all samples so far. This
subset provides candidates for the means of new components.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.learning.gmmvi.components import Components, Snapshot, log_densities, mixture_log_prob


@dataclass(frozen=True)
class Evaluated:
    """Samples with the values of the target."""

    sample: Tensor  # (n_samples, width), rows [x, y] of a sample and its context; see `Components`
    log_target: Tensor  # (n_samples,), log density [nat], unnormalised
    gradient: Tensor | None  # (n_samples, n_dims), gradient of the log density, if requested

    def __len__(self) -> int:
        return len(self.sample)

    def newest(self, n_samples: int) -> Evaluated:
        """Return the last `n_samples` samples."""
        first = max(0, len(self) - n_samples)
        gradient = None if self.gradient is None else self.gradient[first:]
        return Evaluated(self.sample[first:], self.log_target[first:], gradient)

    def joined(self, other: Evaluated) -> Evaluated:
        """Return the samples of `self`, followed by the samples of `other`."""
        gradient = None
        if self.gradient is not None and other.gradient is not None:
            gradient = torch.cat([self.gradient, other.gradient])
        return Evaluated(
            torch.cat([self.sample, other.sample]), torch.cat([self.log_target, other.log_target]), gradient
        )


@dataclass(frozen=True)
class Selection(Evaluated):
    """Samples of one iteration: the reused samples, followed by the new samples."""

    counts: Tensor  # (n_components,), number of new samples from each component
    component: Tensor  # (n_new,) of int64, component that drew each new sample
    # (n_samples,), log of the contribution of earlier components to the background density; None without reused samples
    log_earlier: Tensor | None

    @property
    def new(self) -> Evaluated:
        return self.newest(len(self.component))


@dataclass(frozen=True)
class Reservoir:
    """Uniformly random subset of all samples so far, with limited size.

    Its tensors are modified in place, so only the newest state may be used.
    """

    sample: Tensor  # (size, width)
    log_target: Tensor  # (size,)
    n_seen: int = 0  # number of samples so far; rows from this index on are not filled yet

    def __len__(self) -> int:
        return min(self.n_seen, len(self.sample))

    def remembered(self, new: Evaluated, generator: torch.Generator) -> Reservoir:
        """Add new samples. Each replaces an old sample with probability size/n_seen (Vitter's algorithm R)."""
        size = len(self.sample)
        n_room = min(len(new), max(0, size - self.n_seen))
        self._write(slice(self.n_seen, self.n_seen + n_room), new, slice(0, n_room))
        if n_room < len(new) and size > 0:
            number = torch.arange(self.n_seen + n_room, self.n_seen + len(new), device=generator.device) + 1
            level = torch.rand(len(number), generator=generator, dtype=torch.float64, device=generator.device)
            place = (level * number).to(torch.int64)
            kept = (place < size).nonzero().flatten()
            slot, member = torch.unique(place[kept], return_inverse=True)
            last = torch.zeros_like(slot).scatter_reduce(0, member, kept, "amax", include_self=False)
            self._write(slot, new, n_room + last)  # of two samples with the same slot, the later one is stored
        return dataclasses.replace(self, n_seen=self.n_seen + len(new))

    def drawn(self, n_samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw at most `n_samples` of the stored samples. Return the samples and their log targets."""
        filled = len(self)
        if n_samples >= filled:
            return self.sample[:filled], self.log_target[:filled]
        index = torch.randint(filled, (n_samples,), generator=generator, device=generator.device)
        return self.sample[index], self.log_target[index]

    def _write(self, place: Tensor | slice, new: Evaluated, which: Tensor | slice) -> None:
        self.sample[place] = new.sample[which]
        self.log_target[place] = new.log_target[which]


@dataclass(frozen=True)
class SampleDatabase:
    """Stored samples of a fit."""

    recent: Evaluated  # the newest samples, which may be reused
    origin: Tensor  # (n_recent,) of int64, index in `earlier` of the component that drew each sample
    earlier: Snapshot  # components that drew the samples, with their parameters at that time
    reservoir: Reservoir

    @classmethod
    def empty(cls, components: Components, reservoir_size: int, *, with_gradient: bool) -> SampleDatabase:
        """Return the database before the first iteration."""
        nothing = components.center.new_zeros(0, len(components.center))
        none = torch.empty(0, dtype=torch.int64, device=nothing.device)
        return cls(
            Evaluated(nothing, nothing[:, 0], nothing[:, : components.n_dims] if with_gradient else None),
            none,
            components.snapshot().take(none),
            Reservoir(nothing.new_zeros(reservoir_size, nothing.shape[1]), nothing.new_zeros(reservoir_size)),
        )

    def trimmed(self, n_recent: int) -> SampleDatabase:
        """Keep at most `n_recent` of the newest samples."""
        if len(self.recent) <= n_recent:
            return self
        used, origin = torch.unique(self.origin[len(self.recent) - n_recent :], return_inverse=True)
        return SampleDatabase(self.recent.newest(n_recent), origin, self.earlier.take(used), self.reservoir)

    def remembered(
        self, selection: Selection, components: Components, n_recent: int, generator: torch.Generator
    ) -> SampleDatabase:
        """Add the new samples of a selection, and keep at most `n_recent` samples for reuse."""
        reservoir = self.reservoir
        if len(reservoir.sample) > 0:
            reservoir = reservoir.remembered(selection.new, generator)
        if n_recent == 0:
            return dataclasses.replace(self, reservoir=reservoir)
        recent = self.recent.joined(selection.new)
        origin = torch.cat([self.origin, selection.component + self.earlier.n_components])
        return SampleDatabase(recent, origin, self.earlier.joined(components.snapshot()), reservoir).trimmed(n_recent)


class Evaluate(Protocol):
    """Callable that evaluates the target."""

    def __call__(self, sample: Tensor) -> Evaluated:
        """Return the samples (n_samples, width) with their log densities, and with gradients if they are needed."""


class SampleSelection(Protocol):
    """Rule that selects the samples of an iteration."""

    def n_reused(self, n_components: int) -> int:
        """Return the maximum number of samples reused from earlier iterations."""

    def n_new(self, n_components: int) -> int:
        """Return the maximum number of new samples per iteration."""

    def __call__(
        self,
        components: Components,
        log_weights: Tensor,
        database: SampleDatabase,
        evaluate: Evaluate,
        generator: torch.Generator,
    ) -> Selection:
        """Select samples, and evaluate the target at the new samples."""


@dataclass(frozen=True)
class _Samples(ABC):
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
        counts = self._counts(components, log_weights, database, generator)
        sample, component = components.sample(counts, generator)
        every, log_earlier = database.recent.joined(evaluate(sample)), None
        if len(database.recent):
            log_earlier = _log_background(database, every.sample) + math.log(len(database.recent) / len(every))
        return Selection(every.sample, every.log_target, every.gradient, counts.to(sample), component, log_earlier)

    @abstractmethod
    def _counts(
        self, components: Components, log_weights: Tensor, database: SampleDatabase, generator: torch.Generator
    ) -> Tensor:
        """Return the number of new samples from each component, (n_components,) of int64."""


class MixtureSamples(_Samples):
    """Rule that draws samples from the mixture (letter P).

    The number of new samples is `n_samples` minus the effective sample size of the reused samples for the mixture, but
    at least 1.

    Attributes
    ----------
    n_samples : int
        Desired effective sample size for the mixture.
    reuse_ratio : float
        Maximum number of reused samples, as a multiple of `n_samples`.

    Examples
    --------
    The number of samples from a mixture does not grow with the number of its components:

    >>> from eim_ros.learning.gmmvi import ComponentSamples, MixtureSamples
    >>> MixtureSamples(100).n_new(n_components=10), ComponentSamples(100).n_new(n_components=10)
    (100, 1000)
    """

    def _counts(
        self, components: Components, log_weights: Tensor, database: SampleDatabase, generator: torch.Generator
    ) -> Tensor:
        n_new, reused = self.n_samples, database.recent
        if len(reused):
            log_prob = mixture_log_prob(components, log_weights, reused.sample)
            weights = torch.softmax(log_prob - _log_background(database, reused.sample), 0)
            n_new = max(1, self.n_samples - math.floor(1.0 / float(weights.square().sum())))
        drawn = torch.multinomial(log_weights.exp(), n_new, replacement=True, generator=generator)
        return torch.bincount(drawn, minlength=components.n_components)


class ComponentSamples(_Samples):
    """Rule that draws samples from each component (letter M).

    The number of new samples of a component is `n_samples` minus the effective sample size of the reused samples for
    this component, but at least 1.

    Attributes
    ----------
    n_samples : int
        Desired effective sample size for each component.
    reuse_ratio : float
        Maximum number of reused samples per component, as a multiple of `n_samples`.
    """

    def n_reused(self, n_components: int) -> int:
        return super().n_reused(n_components) * n_components

    def n_new(self, n_components: int) -> int:
        return self.n_samples * n_components

    def _counts(
        self, components: Components, log_weights: Tensor, database: SampleDatabase, generator: torch.Generator
    ) -> Tensor:
        counts = torch.full((components.n_components,), self.n_samples, device=log_weights.device)
        reused = database.recent.sample
        if len(reused):
            log_ratio = log_densities(components, reused) - _log_background(database, reused).unsqueeze(-1)
            effective = torch.softmax(log_ratio, 0).square().sum(0).reciprocal().floor().to(torch.int64)
            counts = (counts - effective).clamp_min(1)
        return counts


def _log_background(database: SampleDatabase, sample: Tensor) -> Tensor:
    """Return the log density, (n_samples,), of the mixture that drew the reused samples."""
    counts = torch.bincount(database.origin, minlength=database.earlier.n_components)
    log_fractions = (counts.to(sample) / len(database.origin)).log()
    return mixture_log_prob(database.earlier, log_fractions, sample)
