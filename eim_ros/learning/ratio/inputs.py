"""What the classifier of the density ratio sees: inputs theta(x, y), smoothing of the contexts, known log density.

The ratio p(x, y)/q(x, y) does not change when both classes are extended by the same features (thesis 4.3.1) nor when
the contexts of both are blurred by the same noise.

Inputs of a density ratio's network in the axes of the data's covariance: what moves little is seen as well.

Columns that nearly repeat each other, such as positions of one trajectory, differ by little, and it is in this little
that the classes differ: a vehicle that turns, brakes or leaves its lane moves a coordinate of standard deviation 1 by a
hundredth. A network of standardised columns does not see that for a long time. Whitened inputs are those of the same
data in any linear coordinates, up to a rotation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.core.errors import ConfigurationError

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


# Eigenvalues of the correlation matrix are raised to this: along what the data all but obey exactly, no classifier
# shall be the judge of a model's least deviation.
LEAST_EIGENVALUE = 1e-4
CORRELATED = 1e3  # condition number of the correlation matrix from which on standardised columns hide too much


@dataclass(frozen=True)
class WhitenedInputs(CentredInputs):
    """Samples and contexts, shifted, scaled and rotated so that they are uncorrelated and of variance 1.

    Attributes
    ----------
    whitening : Tensor (n_dims + n_context, n_dims + n_context)
        Times a centred row: its inputs.
    """

    whitening: Tensor

    @classmethod
    def from_data(cls, context: Tensor, sample: Tensor) -> WhitenedInputs:
        """Inputs whitened by samples (n_samples, n_dims) and their contexts (n_samples, n_context)."""
        standardised = StandardisedInputs.from_data(context, sample)
        return cls.along(standardised, *_spectrum(standardised, context, sample))

    @classmethod
    def along(cls, standardised: StandardisedInputs, eigenvalues: Tensor, axes: Tensor) -> WhitenedInputs:
        """Inputs along the axes (columns) of the standardised ones' covariance, whose eigenvalues are these (n,)."""
        scaled = axes / eigenvalues.clamp_min(LEAST_EIGENVALUE).sqrt()
        return cls(standardised.center, scaled / standardised.scale.unsqueeze(-1))

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return (torch.cat([sample, context], -1) - self.center) @ self.whitening


def default_inputs(context: Tensor, sample: Tensor) -> RatioInputs:
    """Standardised columns; whitened ones where they are correlated so strongly that they nearly repeat each other.

    Parameters
    ----------
    context : Tensor (n_samples, n_context)
    sample : Tensor (n_samples, n_dims)
    """
    standardised = StandardisedInputs.from_data(context, sample)
    eigenvalues, axes = _spectrum(standardised, context, sample)
    correlated = float(eigenvalues[-1]) > CORRELATED * float(eigenvalues[0])
    return WhitenedInputs.along(standardised, eigenvalues, axes) if correlated else standardised


def _spectrum(inputs: StandardisedInputs, context: Tensor, sample: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, and eigenvectors (columns) of the correlation matrix; a constant column has variance 1.

    There a model's samples count as much as they would if they were standardised.
    """
    columns = inputs(context, sample, 0)
    correlation = columns.mT @ columns / len(columns)
    constant = torch.diagonal(correlation) == 0.0
    eigenvalues, axes = torch.linalg.eigh(correlation + torch.diag(constant.to(correlation)))
    return eigenvalues, axes
