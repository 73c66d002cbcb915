"""Standardisation of contexts and samples, and conversion of linear models to standardised coordinates.

Every column is shifted and scaled: x = m + S u and y = n + T t. An expert with the parameters W, w and C then becomes
an expert of u given t with the parameters S^-1 W T, S^-1 (W n + w - m) and S^-1 C. The log density of u is the log
density of x plus log |S|. In these coordinates, sums of squares neither overflow nor cancel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

# share of the smallest and of the largest values of a column that may be outliers; at least one value at each end
TRIMMED = 0.005
# The smallest and largest values are outliers if they increase the standard deviation by more than this factor.
OUTLYING = 5.0
FEWEST_ROWS = 20  # with fewer rows, a single row is not exceptional
# maximum ratio of the standard deviations with and without outliers; it keeps squares from overflowing
LARGEST_RATIO = 1e60
LEAST_SCALE = 1e-150  # columns that vary by less count as constant; their squares would underflow


@dataclass(frozen=True)
class Standardisation:
    """Centre and scale of each column of the contexts and samples."""

    # (n_context,)
    context_center: Tensor
    context_scale: Tensor
    # (n_dims,)
    sample_center: Tensor
    sample_scale: Tensor

    @classmethod
    def from_data(cls, context: Tensor, sample: Tensor) -> Standardisation:
        """Compute the mean and standard deviation of each column.

        The scale of a constant column is its magnitude, or 1 if the column is zero.
        """
        return cls(*_center_and_scale(context), *_center_and_scale(sample))

    @classmethod
    def resistant(cls, context: Tensor, sample: Tensor) -> Standardisation:
        """Compute the mean and standard deviation of each column like `from_data`, but ignore outliers of the samples.

        Without this, a few glitches at 1e6 would determine the unit of a column. A variance floor in this unit would be
        wider than all other data. A share TRIMMED of the values at each end of a column are outliers if the standard
        deviation without them is smaller by at least the factor OUTLYING. At least half of the column must vary. Rare
        events in a column that is mostly constant are not outliers. If there are no outliers, the result equals the
        result of `from_data`.
        """
        return cls(*_center_and_scale(context), *_resistant_center_and_scale(sample))

    @property
    def n_dims(self) -> int:
        return len(self.sample_scale)

    def joint(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return [u, t] for samples (n, n_dims) and contexts (n, n_context), (n, n_dims + n_context)."""
        center = torch.cat([self.sample_center, self.context_center])
        scale = torch.cat([self.sample_scale, self.context_scale])
        return torch.cat([sample, context], -1) / scale - center / scale  # sample - center could overflow

    def log_volume(self) -> float:
        """Return log |S| [nat]. Subtract it from a log density of u to get the log density of x."""
        return float(self.sample_scale.log().sum())

    def standard(self, model: MixtureOfExperts) -> MixtureOfExperts:
        """Return the model of u given t, or raise `DistributionError` if the gating or the experts are not linear."""
        gating, experts = linear_parts(model)
        factor = self.sample_scale.unsqueeze(-1)
        weights, biases = experts.weights / factor, experts.biases / self.sample_scale
        shift = weights @ self.context_center - self.sample_center / self.sample_scale
        return MixtureOfExperts(
            SoftmaxGating(gating.weights * self.context_scale, gating.biases + gating.weights @ self.context_center),
            LinearExperts(weights * self.context_scale, biases + shift, experts.scale_trils / factor),
        )

    def original(self, model: MixtureOfExperts) -> MixtureOfExperts:
        """Return the model of x given y, for a model of u given t."""
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
    """Return the gating and the experts of a linear model. `DistributionError` is raised for other models."""
    gating, experts = model.gating, model.experts
    if not isinstance(gating, SoftmaxGating) or not isinstance(experts, LinearExperts):
        raise DistributionError(
            f"expected a model with LinearExperts and a SoftmaxGating, got {type(experts).__name__} and "
            f"{type(gating).__name__}",
            type(experts).__name__,
        )
    return gating, experts


def _center_and_scale(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and standard deviation (n_columns,). The results do not overflow, and are exact for constant
    columns.
    """
    if values.shape[1] == 0:
        return values.new_zeros(0), values.new_ones(0)
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


def _resistant_center_and_scale(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and standard deviation of each column without its outliers; see `Standardisation.resistant`."""
    center, scale = _center_and_scale(values)
    n, n_columns = values.shape
    n_trimmed = math.ceil(TRIMMED * n)
    if n < FEWEST_ROWS or n_columns == 0:
        return center, scale
    # Outliers cause most of the variance of a column. Therefore, the farthest outlier causes at least their mean share
    # of it. This condition excludes most columns without sorting them.
    farthest = torch.maximum(values.amax(0) / scale - center / scale, center / scale - values.amin(0) / scale)
    suspected = (farthest > 0.9 * math.sqrt(n / (2 * n_trimmed))).nonzero().flatten()
    if not len(suspected):
        return center, scale
    ordered = values[:, suspected].sort(0).values
    varies = ordered[(3 * n) // 4] > ordered[n // 4]
    trimmed_center, trimmed_scale = _center_and_scale(ordered[n_trimmed : n - n_trimmed])
    outlying = varies & (scale[suspected] / OUTLYING > trimmed_scale)
    chosen, trimmed_scale = suspected[outlying], torch.maximum(trimmed_scale, scale[suspected] / LARGEST_RATIO)
    return center.index_put((chosen,), trimmed_center[outlying]), scale.index_put((chosen,), trimmed_scale[outlying])
