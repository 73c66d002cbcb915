"""What the classifier of the density ratio sees: inputs theta(x, y), smoothing of the contexts, known log density.

The ratio p(x, y)/q(x, y) does not change when both classes are extended by the same features (thesis 4.3.1) nor when
the contexts of both are blurred by the same noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.distributions.mixture_of_experts import MixtureOfExperts

__all__ = ["RatioInputs", "StandardisedInputs"]


class RatioInputs(Protocol):
    """Inputs of a density ratio estimator; `iteration` lets them anneal."""

    @property
    def n_inputs(self) -> int:
        """Number of columns that a call returns."""
        ...

    def smoothing(self, iteration: int) -> Tensor | None:
        """Standard deviation (n_context,) of the noise on the contexts of both classes, None for none."""
        ...

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor | None:
        """Known factor of log p(sample, context) [nat], (n_samples,), up to a constant; None if nothing is known.

        Where it is given, the estimator uses the model's known density too, and its network learns only the rest
        (thesis 7.1.1).
        """
        ...

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        """Inputs (n_samples, n_inputs), differentiable in `sample`."""
        ...


@dataclass(frozen=True)
class StandardisedInputs:
    """Samples and contexts, each column shifted and scaled to mean 0 and standard deviation 1."""

    center: Tensor
    scale: Tensor

    @classmethod
    def from_data(cls, context: Tensor, sample: Tensor) -> StandardisedInputs:
        joint = torch.cat([sample, context], -1)
        scale = joint.std(0, correction=0)
        return cls(joint.mean(0), torch.where(scale > 0.0, scale, torch.ones_like(scale)))

    @property
    def n_inputs(self) -> int:
        return len(self.center)

    def smoothing(self, iteration: int) -> Tensor | None:
        return None

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor | None:
        return None

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return (torch.cat([sample, context], -1) - self.center) / self.scale


@dataclass(frozen=True)
class PlugInInputs(StandardisedInputs):
    """Standardised inputs with a mixture of experts, fitted once by EM, as the known part of the data's density.

    The ratio then is log reference(x|y) - log q_old(x|y) + network: the network learns only what the reference, which
    should have more experts than the model, misses (thesis 7.1.1).
    """

    reference: MixtureOfExperts

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor | None:
        return self.reference.log_prob(context, sample)
