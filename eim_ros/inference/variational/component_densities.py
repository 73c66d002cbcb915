"""Log densities of all components at many samples, a part of them at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

import torch
from torch import Tensor

__all__ = [
    "CHUNK_ELEMENTS",
    "Densities",
    "HasDensities",
    "LogDensities",
    "Snapshot",
    "log_densities",
    "mixture_log_prob",
]

CHUNK_ELEMENTS = 262_144  # densities at a time: they stay in cache
SnapshotT = TypeVar("SnapshotT", bound="Snapshot")


class LogDensities(Protocol):
    """Log densities of all components, prepared for many samples."""

    def log_prob(self, sample: Tensor) -> Tensor:
        """Log density [nat] under every component, (n_samples, n_components), of samples (n_samples, width)."""
        ...


class Densities(LogDensities, Protocol):
    """The same, with their scores."""

    def mean_score(self, sample: Tensor, share: Tensor) -> Tensor:
        """Gradient of the log densities, averaged with shares (n_samples, n_components), (n_samples, n_dims)."""
        ...

    def take(self, index: Tensor) -> Densities:
        """Those of some components, by their numbers (n,)."""
        ...


class HasDensities(Protocol):
    """Components, or a snapshot of them."""

    @property
    def n_components(self) -> int: ...

    def densities(self) -> LogDensities:
        """The log densities, prepared."""
        ...


class Snapshot(HasDensities, Protocol):
    """Densities of components as they were when they drew samples that may be used again."""

    def take(self: SnapshotT, index: Tensor) -> SnapshotT:
        """Some of the components, by their numbers (n,) in ascending order, of the densities that they have."""
        ...

    def joined(self: SnapshotT, other: SnapshotT) -> SnapshotT:
        """Those of both, own ones first."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Parameters by name."""
        ...


def log_densities(components: HasDensities, sample: Tensor) -> Tensor:
    """Log densities [nat] under all components, (n_samples, n_components), of samples (n_samples, width)."""
    return torch.cat(list(_log_density_chunks(components, sample)))


def mixture_log_prob(components: HasDensities, log_weights: Tensor, sample: Tensor) -> Tensor:
    """Log density [nat] of the mixture, (n_samples,), of samples (n_samples, width); weights (n_components,)."""
    parts = [torch.logsumexp(part + log_weights, -1) for part in _log_density_chunks(components, sample)]
    return torch.cat(parts)


def _log_density_chunks(components: HasDensities, sample: Tensor) -> Iterator[Tensor]:
    densities = components.densities()
    for rows in sample.split(max(1, CHUNK_ELEMENTS // components.n_components)):
        yield densities.log_prob(rows)
