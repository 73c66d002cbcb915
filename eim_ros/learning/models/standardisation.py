"""Change of units: contexts and samples with every column shifted and scaled, and models in the same coordinates.

With x = m + S u and y = n + T t an expert N(x; W y + w, C C') is the expert (S^-1 W T, S^-1 (W n + w - m), S^-1 C) of u
given t, and its log density falls by log |S|. In these coordinates sums of squares neither overflow nor cancel.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

LEAST_SCALE = 1e-150  # a column that varies by less counts as constant: its square would underflow


@dataclass(frozen=True)
class Standardisation:
    """Centre and scale of every column.

    Attributes
    ----------
    context_center, context_scale : Tensor (n_context,)
    sample_center, sample_scale : Tensor (n_dims,)
    """

    context_center: Tensor
    context_scale: Tensor
    sample_center: Tensor
    sample_scale: Tensor

    @classmethod
    def from_data(cls, context: Tensor, sample: Tensor) -> Standardisation:
        """Mean and standard deviation of each column; the scale of a constant column is its magnitude, or 1."""
        return cls(*_center_and_scale(context), *_center_and_scale(sample))

    @property
    def n_dims(self) -> int:
        return len(self.sample_scale)

    def joint(self, context: Tensor, sample: Tensor) -> Tensor:
        """[u, t] of samples (n, n_dims) and contexts (n, n_context), (n, n_dims + n_context)."""
        center = torch.cat([self.sample_center, self.context_center])
        scale = torch.cat([self.sample_scale, self.context_scale])
        return torch.cat([sample, context], -1) / scale - center / scale  # the difference could overflow

    def log_volume(self) -> float:
        """Log density in the original units is that in the new ones less this: log |S| [nat]."""
        return float(self.sample_scale.log().sum())

    def standard(self, model: MixtureOfExperts) -> MixtureOfExperts:
        """The model of u given t; `DistributionError` unless it is linear throughout."""
        gating, experts = linear_parts(model)
        factor = self.sample_scale.unsqueeze(-1)
        weights, biases = experts.weights / factor, experts.biases / self.sample_scale
        shift = weights @ self.context_center - self.sample_center / self.sample_scale
        return MixtureOfExperts(
            SoftmaxGating(gating.weights * self.context_scale, gating.biases + gating.weights @ self.context_center),
            LinearExperts(weights * self.context_scale, biases + shift, experts.scale_trils / factor),
        )

    def original(self, model: MixtureOfExperts) -> MixtureOfExperts:
        """The model of x given y: the inverse of `standard`."""
        gating, experts = linear_parts(model)
        gate_weights = gating.weights / self.context_scale
        weights = experts.weights / self.context_scale
        biases = experts.biases - weights @ self.context_center
        factor = self.sample_scale.unsqueeze(-1)
        return MixtureOfExperts(
            SoftmaxGating(gate_weights, gating.biases - gate_weights @ self.context_center),
            LinearExperts(
                weights * factor, biases * self.sample_scale + self.sample_center, experts.scale_trils * factor
            ),
        )


def linear_parts(model: MixtureOfExperts) -> tuple[SoftmaxGating, LinearExperts]:
    """Gating and experts of a linear model; `DistributionError` if a part of it is not linear."""
    gating, experts = model.gating, model.experts
    if not isinstance(gating, SoftmaxGating) or not isinstance(experts, LinearExperts):
        raise DistributionError(
            f"expected linear experts with a softmax gating, got {type(experts).__name__} with {type(gating).__name__}",
            type(experts).__name__,
        )
    return gating, experts


def _center_and_scale(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (n_columns,), without overflow and exact for constant columns."""
    low, high = values.amin(0), values.amax(0)
    magnitude = torch.maximum(low.abs(), high.abs())
    magnitude = torch.where(magnitude > 0.0, magnitude, torch.ones_like(magnitude))
    relative = values / magnitude
    middle = relative.mean(0)
    center, scale = middle * magnitude, (relative - middle).square().mean(0).sqrt() * magnitude
    constant = (low == high) | (scale < LEAST_SCALE)
    small = magnitude < LEAST_SCALE
    unit = torch.where(small, torch.ones_like(magnitude), magnitude)
    return torch.where(low == high, low, center), torch.where(constant, unit, scale)
