"""Standardisation of contexts and samples, and conversion of linear models to standardised coordinates.

Every column is shifted and scaled: x = m + S u and y = n + T t. An expert with parameters W, w and C then becomes an
expert of u given t with S^-1 W T, S^-1 (W n + w - m) and S^-1 C. The log density of u is that of x plus log |S|. In
these coordinates sums of squares neither overflow nor cancel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

TRIMMED = 0.005  # share of the rows at either end of a column that may be outliers, at least one row
OUTLYING = 5.0  # ratio of the deviations with and without these rows above which they are outliers
FEWEST_ROWS = 20  # with fewer rows, one of them is not exceptional
LARGEST_RATIO = 1e60  # of the deviations with and without outliers, so that squares do not overflow
LEAST_SCALE = 1e-150  # a column that varies by less is treated as constant because its square would underflow


@dataclass(frozen=True)
class Standardisation:
    """Centre and scale of every column."""

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
        """Do the same, but ignore outliers of the samples.

        A few glitches at 1e6 would else set the unit of a column, and a floor of variances in this unit would be wider
        than everything else in the data. Outliers are among the TRIMMED smallest and largest values of a column, and
        without them the standard deviation is at most 1/OUTLYING. At least half of a column must vary: rare events in
        a column that is mostly constant are not outliers. Without outliers, the result is that of `from_data`.
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
        """Return log |S| [nat], to be subtracted from a log density of u to get that of x."""
        return float(self.sample_scale.log().sum())

    def standard(self, model: MixtureOfExperts) -> MixtureOfExperts:
        """Return the model of u given t; raise `DistributionError` unless both parts are linear."""
        gating, experts = linear_parts(model)
        factor = self.sample_scale.unsqueeze(-1)
        weights, biases = experts.weights / factor, experts.biases / self.sample_scale
        shift = weights @ self.context_center - self.sample_center / self.sample_scale
        return MixtureOfExperts(
            SoftmaxGating(gating.weights * self.context_scale, gating.biases + gating.weights @ self.context_center),
            LinearExperts(weights * self.context_scale, biases + shift, experts.scale_trils / factor),
        )

    def original(self, model: MixtureOfExperts) -> MixtureOfExperts:
        """Return the model of x given y; the inverse of `standard`."""
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
    """Return the gating and experts of a linear model; raise `DistributionError` if a part is not linear."""
    gating, experts = model.gating, model.experts
    if not isinstance(gating, SoftmaxGating) or not isinstance(experts, LinearExperts):
        raise DistributionError(
            f"expected linear experts with a softmax gating, got {type(experts).__name__} with {type(gating).__name__}",
            type(experts).__name__,
        )
    return gating, experts


def _center_and_scale(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and standard deviation (n_columns,), without overflow and exact for constant columns."""
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
    """Return the mean and standard deviation of each column without its outliers, see `Standardisation.resistant`."""
    center, scale = _center_and_scale(values)
    n, n_columns = values.shape
    n_trimmed = math.ceil(TRIMMED * n)
    if n < FEWEST_ROWS or n_columns == 0:
        return center, scale
    # outliers make up most of the variance, so the farthest one has at least their mean share: few columns are sorted
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
