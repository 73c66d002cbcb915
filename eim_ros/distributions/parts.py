"""What the parts of a mixture of experts owe: a gating q(z|y) and experts q(x|z, y) (thesis 2.1.1, 4.2).

A class that satisfies a protocol can be put into `MixtureOfExperts`; nothing has to be registered but its tensors'
names, by which a file is read back.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from eim_ros.distributions.gaussian import Gaussian

__all__ = ["Experts", "Gating"]


class Gating(Protocol):
    """Distribution of the component given the context."""

    @property
    def n_components(self) -> int: ...

    @property
    def n_context(self) -> int: ...

    def __call__(self, context: Tensor) -> Tensor:
        """Log probabilities (n_samples, n_components) for contexts (n_samples, n_context)."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Parameters by name."""
        ...


class Experts(Protocol):
    """All experts of a mixture as one batch of conditional normal distributions."""

    @property
    def n_components(self) -> int: ...

    @property
    def n_dims(self) -> int: ...

    @property
    def n_context(self) -> int: ...

    def __call__(self, context: Tensor) -> Gaussian:
        """The experts' distributions for contexts (n_samples, n_context).

        Returns
        -------
        Gaussian
            Of batch (n_samples, n_components); its factors (..., n_components, n_dims, n_dims) lack the samples' axis
            where they do not depend on the context.
        """
        ...

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        """Log density [nat] of samples (n_samples, n_dims) under every expert, (n_samples, n_components)."""
        ...

    def select(self, component: Tensor, context: Tensor) -> Gaussian:
        """Distribution of one expert per context: component (n_samples,) of int64, batch (n_samples,)."""
        ...

    def sample(self, component: Tensor, context: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw from one expert (n_samples,) of int64 per context (n_samples, n_context): (n_samples, n_dims)."""
        ...

    def take(self, index: Tensor) -> Experts:
        """Some of the experts, by their numbers (n,) of int64, in that order."""
        ...

    def score(self, context: Tensor, sample: Tensor, log_gate: Tensor) -> Tensor:
        """Gradient of log sum_k exp(log_gate_k) N_k(sample) with respect to the sample, (n_samples, n_dims).

        Parameters
        ----------
        context : Tensor (n_samples, n_context)
        sample : Tensor (n_samples, n_dims)
        log_gate : Tensor (n_samples, n_components)
            Log weights of the experts; need not be normalised.
        """
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Parameters by name."""
        ...
