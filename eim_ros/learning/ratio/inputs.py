"""Inputs of density ratio estimators: features theta(x, y), smoothing of the contexts, and known log densities.

The ratio p(x, y)/q(x, y) does not change if both classes are extended by the same features (thesis 4.3.1). Adding the
same noise to the contexts of both classes is also valid.

`WhitenedInputs` help if columns are strongly correlated, such as successive positions of a trajectory. With strong
correlation, the classes differ only by small deviations. For example, when a vehicle turns, brakes or leaves its lane,
a coordinate with a standard deviation of 1 changes by about 0.01. A network needs a long time to learn such small
changes from standardised columns. Whitening scales all directions to the same variance. A linear transformation of the
data then only rotates the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.core.errors import ConfigurationError
from eim_ros.learning.models.quadratic_form import products_of_coordinates

Features = Callable[[Tensor, Tensor], Tensor]
"""theta(context, sample) of shape (n_samples, n_features), differentiable with respect to the sample."""

# Smaller eigenvalues of the correlation matrix are raised to this value. Otherwise, the classifier would detect the
# slightest violation of a constraint that the data satisfy almost exactly.
LEAST_EIGENVALUE = 1e-4
CORRELATED = 1e3  # the columns are whitened if the condition number of their correlation matrix exceeds this value


class RatioInputs(Protocol):
    """Inputs of a density ratio estimator, which may depend on the iteration of EIM."""

    @property
    def n_inputs(self) -> int:
        """Number of columns that a call returns."""

    def smoothing(self, iteration: int) -> Tensor | None:
        """Return the standard deviation (n_context,) of the noise on the contexts of both classes, or None."""

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor | None:
        """Return the known log p(sample, context) [nat] up to a constant, (n_samples,), or None.

        If this density is known, the estimator does not fit a density to the data (thesis 7.1.1).
        """

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        """Return the inputs (n_samples, n_inputs), differentiable with respect to `sample` (n_samples, n_dims).

        The iteration of EIM counts from 0. Contexts have the shape (n_samples, n_context).
        """


@dataclass(frozen=True)
class CentredInputs:
    """Base class of inputs that subtract a centre, without smoothing and without a known density."""

    center: Tensor  # (n_dims + n_context,), values that are subtracted from the columns of samples and contexts

    @property
    def n_inputs(self) -> int:
        return len(self.center)

    def smoothing(self, iteration: int) -> Tensor | None:
        return None

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor | None:
        return None


@dataclass(frozen=True)
class StandardisedInputs(CentredInputs):
    """Samples and contexts, with each column standardised to mean 0 and standard deviation 1.

    Attributes
    ----------
    scale : Tensor (n_dims + n_context,)
        Standard deviation of each column.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning import StandardisedInputs
    >>> context, sample = torch.tensor([[0.0], [10.0]]), torch.tensor([[1.0], [3.0]])
    >>> StandardisedInputs.from_data(context, sample)(context, sample, iteration=0).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
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

    Features are functions of the samples and contexts. Features add no information, but save much training. For
    example, the network need not learn the map from joint angles to the position of an arm's tip.

    A feature may be constant for all data, for example the error of a constraint that the data satisfy exactly. The
    classes are then perfectly separable, and the ratio is meaningless. To prevent this, smooth the contexts on which
    the error depends.

    Attributes
    ----------
    features : callable
        theta(context (n, n_context), sample (n, n_dims)) -> (n, n_features), differentiable with respect to the sample.
    center, scale : Tensor (n_dims + n_context + n_features,)
        Mean and standard deviation of samples, contexts and features.
    deviation : Tensor (n_context,) or None
        Standard deviation of the noise on the contexts in the first iteration, in the units of the contexts. None
        disables smoothing.
    decay : float
        Multiplier of the noise per iteration.
    floor : float
        Minimum noise, as a share of the noise in the first iteration.

    Examples
    --------
    Give EIM the radius of points near a circle. Its network then need not learn the radius:

    >>> import torch
    >>> from eim_ros.learning import EIM, FeatureInputs
    >>> angle = torch.linspace(0.0, 6.0, 200)
    >>> sample = torch.stack([angle.cos(), angle.sin()], -1).double()
    >>> inputs = FeatureInputs.from_data(sample[:, :0], sample, lambda context, x: x.norm(dim=-1, keepdim=True))
    >>> inputs.n_inputs, EIM(inputs=inputs, n_components=3).config.n_components
    (3, 3)
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
        """Compute the standardisation from data.

        Parameters
        ----------
        context : Tensor (n_samples, n_context)
            It has no columns if the model has no contexts.
        sample : Tensor (n_samples, n_dims)
        features : callable
            As in the attributes.
        smoothing : float
            Noise on the contexts in the first iteration, in standard deviations of the contexts. 0 disables smoothing.
        decay : float
            Multiplier of the noise per iteration, from 0 to 1.
        floor : float
            Minimum noise, as a share of the noise in the first iteration, from 0 to 1.

        Raises
        ------
        ConfigurationError
            If a number is out of bounds, or the features do not have the shape (n_samples, n_features).
        """
        for name, value, upper in (("smoothing", smoothing, torch.inf), ("decay", decay, 1.0), ("floor", floor, 1.0)):
            if not 0.0 <= value <= upper:
                raise ConfigurationError(f"{name} must be between 0 and {upper}, got {value}", value)
        theta = features(context, sample)
        if theta.dim() != 2 or len(theta) != len(sample):
            raise ConfigurationError(
                f"features must return an array of shape (n_samples, n_features), got shape {tuple(theta.shape)} for "
                f"{len(sample)} samples",
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
    """Return the mean and the standard deviation of each column. A standard deviation of 0 is replaced by 1."""
    scale = columns.std(0, correction=0)
    return columns.mean(0), torch.where(scale > 0.0, scale, torch.ones_like(scale))


@dataclass(frozen=True)
class WhitenedInputs(CentredInputs):
    """Samples and contexts after a linear transformation to uncorrelated columns of variance 1.

    Attributes
    ----------
    whitening : Tensor (n_dims + n_context, n_dims + n_context)
        Matrix that transforms the centred rows.

    Examples
    --------
    Whitening removes the correlation of two columns that are almost equal:

    >>> import torch
    >>> from eim_ros.learning import WhitenedInputs
    >>> noise = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> context, sample = noise[:, :1], noise[:, :1] + 0.1 * noise[:, 1:]
    >>> inputs = WhitenedInputs.from_data(context, sample)(context, sample, iteration=0)
    >>> (torch.cov(inputs.T).abs().round(decimals=2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    whitening: Tensor

    @classmethod
    def from_data(cls, context: Tensor, sample: Tensor) -> WhitenedInputs:
        """Compute the whitening from contexts (n_samples, n_context) and samples (n_samples, n_dims)."""
        standardised = StandardisedInputs.from_data(context, sample)
        return cls.along(standardised, *_spectrum(standardised, context, sample))

    @classmethod
    def along(cls, standardised: StandardisedInputs, eigenvalues: Tensor, axes: Tensor) -> WhitenedInputs:
        """Return the inputs for a correlation matrix with these eigenvalues (n,), ascending, and eigenvectors.

        The correlation matrix is the covariance of the standardised inputs. The columns of `axes` are its eigenvectors.
        """
        scaled = axes / eigenvalues.clamp_min(LEAST_EIGENVALUE).sqrt()
        return cls(standardised.center, scaled / standardised.scale.unsqueeze(-1))

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return (torch.cat([sample, context], -1) - self.center) @ self.whitening


@dataclass(frozen=True)
class QuadraticInputs(CentredInputs):
    """Whitened samples and contexts, together with all products of two of these columns, standardised.

    A single linear layer on these inputs can represent the log ratio of two Gaussians, which is a quadratic function. A
    small network can represent the log ratio of two mixtures. With n columns there are n (n + 3) / 2 inputs.

    Attributes
    ----------
    whitened : WhitenedInputs
    scale : Tensor (n_inputs,)
        Standard deviation of each input.

    Examples
    --------
    The inputs for two columns contain two squares and one product:

    >>> import torch
    >>> from eim_ros.learning import QuadraticInputs
    >>> sample = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    >>> QuadraticInputs.from_data(sample[:, :0], sample).n_inputs
    5
    """

    whitened: WhitenedInputs
    scale: Tensor

    @classmethod
    def from_data(cls, context: Tensor, sample: Tensor) -> QuadraticInputs:
        """Compute whitening and scales from contexts (n_samples, n_context) and samples (n_samples, n_dims)."""
        whitened = WhitenedInputs.from_data(context, sample)
        products = products_of_coordinates(whitened(context, sample, 0))[:, :-1]
        center, scale = _standardisation(products)
        return cls(center, whitened, scale)

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        products = products_of_coordinates(self.whitened(context, sample, iteration))[:, :-1]
        return (products - self.center) / self.scale


def default_inputs(context: Tensor, sample: Tensor, quadratic: bool = False) -> RatioInputs:
    """Return standardised inputs, or whitened inputs if some columns are almost linear combinations of others.

    The columns are the columns of samples (n_samples, n_dims) and contexts (n_samples, n_context). If `quadratic` is
    true, products of two whitened columns are added.
    """
    if quadratic:
        return QuadraticInputs.from_data(context, sample)
    standardised = StandardisedInputs.from_data(context, sample)
    eigenvalues, axes = _spectrum(standardised, context, sample)
    correlated = float(eigenvalues[-1]) > CORRELATED * float(eigenvalues[0])
    return WhitenedInputs.along(standardised, eigenvalues, axes) if correlated else standardised


def _spectrum(inputs: StandardisedInputs, context: Tensor, sample: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues, ascending, and the eigenvectors (columns) of the correlation matrix.

    Constant columns get a variance of 1. Whitening then keeps the standardised values in these columns.
    """
    columns = inputs(context, sample, 0)
    correlation = columns.mT @ columns / len(columns)
    constant = torch.diagonal(correlation) == 0.0
    eigenvalues, axes = torch.linalg.eigh(correlation + torch.diag(constant.to(correlation)))
    return eigenvalues, axes
