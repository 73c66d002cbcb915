"""What the classifier of the density ratio sees: inputs theta(x, y), smoothing of the contexts, known log density.

The ratio p(x, y)/q(x, y) does not change when both classes are extended by the same features (thesis 4.3.1) nor when
the contexts of both are blurred by the same noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.errors import ConfigurationError

__all__ = ["FeatureInputs", "Features", "RatioInputs", "StandardisedInputs"]

Features = Callable[[Tensor, Tensor], Tensor]
"""theta(context, sample): (n_samples, n_features), differentiable in the sample."""


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

        Where it is given, the estimator needs no density fitted to the data (thesis 7.1.1).
        """
        ...

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        """Inputs (n_samples, n_inputs), differentiable in `sample`."""
        ...


@dataclass(frozen=True)
class CentredInputs:
    """Columns of samples and contexts, shifted by a centre; nothing is smoothed, and no density is known.

    Attributes
    ----------
    center : Tensor (n_dims + n_context,)
    """

    center: Tensor

    @property
    def n_inputs(self) -> int:
        return len(self.center)

    def smoothing(self, iteration: int) -> Tensor | None:
        return None

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor | None:
        return None


@dataclass(frozen=True)
class StandardisedInputs(CentredInputs):
    """Samples and contexts, each column shifted and scaled to mean 0 and standard deviation 1.

    Attributes
    ----------
    scale : Tensor (n_dims + n_context,)
    """

    scale: Tensor

    @classmethod
    def from_data(cls, context: Tensor, sample: Tensor) -> StandardisedInputs:
        return cls(*_standardisation(torch.cat([sample, context], -1)))

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return (torch.cat([sample, context], -1) - self.center) / self.scale


@dataclass(frozen=True)
class FeatureInputs:
    """Standardised samples, contexts and features theta(context, sample) that make the ratio easier to learn.

    Features are a function of what the classifier sees anyway and add nothing in principle, but much in practice: the
    position of an arm's tip tells at once what a network must find out from its joint angles. Where a feature is
    constant under the data, as an error of a constraint that they obey exactly, the classes separate perfectly and the
    ratio means nothing; smoothing of the contexts, on which the error depends, cures that.

    Attributes
    ----------
    features : callable
        theta(context (n, n_context), sample (n, n_dims)) -> (n, n_features), differentiable in the sample.
    center, scale : Tensor (n_dims + n_context + n_features,)
        Standardisation of samples, contexts and features.
    deviation : Tensor (n_context,) or None
        Standard deviation of the noise on the contexts in the first iteration, in the contexts' units; None for none.
    decay : float
        Factor on the noise per iteration.
    floor : float
        Least noise, as a share of that in the first iteration.
    """

    features: Features
    center: Tensor
    scale: Tensor
    deviation: Tensor | None = None
    decay: float = 1.0
    floor: float = 1.0

    @classmethod
    def from_data(
        cls,
        context: Tensor,
        sample: Tensor,
        features: Features,
        *,
        smoothing: float = 0.0,
        decay: float = 1.0,
        floor: float = 1.0,
    ) -> FeatureInputs:
        """Inputs standardised by the data.

        Parameters
        ----------
        context : Tensor (n_samples, n_context)
            Without columns for a mixture that has no contexts.
        sample : Tensor (n_samples, n_dims)
        features : callable
        smoothing : float
            Noise on the contexts in the first iteration, in standard deviations of the contexts; 0 for none.
        decay, floor : float
            Factor per iteration, and least noise as a share of that in the first iteration; both from 0 to 1.
        """
        for name, value, upper in (("smoothing", smoothing, torch.inf), ("decay", decay, 1.0), ("floor", floor, 1.0)):
            if not 0.0 <= value <= upper:
                raise ConfigurationError(f"{name} must be from 0 to {upper}, got {value}", value)
        theta = features(context, sample)
        if theta.dim() != 2 or len(theta) != len(sample):
            raise ConfigurationError(
                f"features must return (n_samples, n_features), got {tuple(theta.shape)} for {len(sample)} samples",
                tuple(theta.shape),
            )
        center, scale = _standardisation(torch.cat([sample, context, theta], -1))
        deviation = smoothing * _standardisation(context)[1] if smoothing > 0.0 else None
        return cls(features, center, scale, deviation, decay, floor)

    @property
    def n_inputs(self) -> int:
        return len(self.center)

    def smoothing(self, iteration: int) -> Tensor | None:
        if self.deviation is None:
            return None
        return self.deviation * max(self.floor, self.decay**iteration)

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor | None:
        return None

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return (torch.cat([sample, context, self.features(context, sample)], -1) - self.center) / self.scale


def _standardisation(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each column; 1 in place of a standard deviation of 0."""
    scale = columns.std(0, correction=0)
    return columns.mean(0), torch.where(scale > 0.0, scale, torch.ones_like(scale))
