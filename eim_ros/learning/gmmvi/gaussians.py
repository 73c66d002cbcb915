"""Gaussian components of a mixture without contexts.

Full covariances are parameterised by lower Cholesky factors, and diagonal covariances by standard deviations.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from eim_ros.learning.gmmvi.components import (
    ENOUGH,
    ConstantWeights,
    Densities,
    FullCovariances,
    Misfit,
    NaturalGradient,
    Spectrum,
    padded_noise,
    representable,
    unpadded,
)
from eim_ros.learning.models.gaussian import LOG_TWO_PI, log_normaliser
from eim_ros.learning.models.linear import LinearExperts
from eim_ros.learning.models.quadratic_form import QuadraticForms, products_of_coordinates

# Products of the coordinates are faster than residuals if there are at least `FEW_COMPONENTS` components, at least as
# many components as dimensions, and at most `MANY_DIMS` dimensions.
FEW_COMPONENTS = 6
MANY_DIMS = 64


@dataclass(frozen=True)
class FullComponents(ConstantWeights, FullCovariances):
    """Components with full covariances, which satisfy the Protocol `Components`."""

    scale_trils: Tensor  # (n_components, n_dims, n_dims)

    ridge: ClassVar[float] = 0.0

    def densities(self) -> Densities:
        if self.n_components >= max(FEW_COMPONENTS, self.n_dims) and self.n_dims <= MANY_DIMS:
            return _Forms(self)
        return _Residuals(self)

    def sample(self, counts: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        noise = padded_noise(counts, self.means, generator)
        return unpadded(torch.baddbmm(self.means.unsqueeze(1), noise, self.scale_trils.mT), counts)

    @property
    def to_own(self) -> Tensor:
        return self.whitening

    @property
    def origin(self) -> Tensor:
        return self.means

    def moved(
        self, spectrum: Spectrum, precision: Tensor, shift: Tensor, accepted: Tensor
    ) -> tuple[FullComponents, Tensor]:
        factors, step, usable = moved_by(self.scale_trils, spectrum, precision, shift)
        means = self.means + step.squeeze(-1)
        moved = accepted & usable & representable(means, factors.diagonal(dim1=-2, dim2=-1))
        means = torch.where(moved.unsqueeze(-1), means, self.means)
        return FullComponents(means, torch.where(moved[:, None, None], factors, self.scale_trils)), moved

    def halved(self, share: float, axis: Tensor) -> tuple[Tensor, FullComponents]:
        apart, factors = halved(self.scale_trils, share, axis)
        return apart, FullComponents(self.means, factors)

    def isotropic(self, mean: Tensor, variance: Tensor) -> FullComponents:
        identity = torch.eye(self.n_dims, dtype=mean.dtype, device=mean.device)
        return FullComponents(mean.unsqueeze(0), (variance.sqrt() * identity).unsqueeze(0))

    def tensors(self) -> dict[str, Tensor]:
        return {"means": self.means, "scale_trils": self.scale_trils}


def moved_by(
    scale_trils: Tensor, spectrum: Spectrum, precision: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return new Cholesky factors, steps of the means, and a mask of the components with a usable update."""
    assert spectrum.basis is not None
    stretched = scale_trils @ (spectrum.basis * precision.rsqrt().unsqueeze(-2))
    factors, info = torch.linalg.cholesky_ex(stretched @ stretched.mT)
    # A checkpoint restores contiguous tensors. Other layouts would change the rounding of products.
    factors = factors.contiguous()
    step = scale_trils @ (spectrum.basis @ shift)
    finite = torch.isfinite(step).all(-1).all(-1) & torch.isfinite(factors).all(-1).all(-1)
    return factors, step, (info == 0) & finite


def halved(scale_trils: Tensor, share: float, axis: Tensor) -> tuple[Tensor, Tensor]:
    """Return the offsets (n_components, n_dims) of the halves of components, and the Cholesky factors of the halves.

    The two halves of a component have the means mu + offset and mu - offset; see `Components.with_halves`.
    """
    identity = torch.eye(axis.shape[-1], dtype=axis.dtype, device=axis.device)
    narrowed = identity - share * axis.unsqueeze(-1) * axis.unsqueeze(-2)
    apart = math.sqrt(share) * (scale_trils @ axis.unsqueeze(-1)).squeeze(-1)
    return apart, scale_trils @ torch.linalg.cholesky(narrowed)


class _Forms:
    """Densities from one matrix product with the products of the coordinates (`QuadraticForms`)."""

    def __init__(self, components: FullComponents) -> None:
        self._center = components.means.mean(0)  # avoids cancellation far from the origin
        means = components.means - self._center
        experts = LinearExperts(means.new_zeros(*means.shape, 0), means, components.scale_trils)
        self._forms = QuadraticForms.from_experts(experts)

    def log_prob(self, sample: Tensor) -> Tensor:
        local = sample - self._center
        return self._forms(local, products_of_coordinates(local))

    def mean_score(self, sample: Tensor, share: Tensor) -> Tensor:
        return self._forms.gradient(sample - self._center, share)

    def take(self, index: Tensor) -> _Forms:
        some = copy(self)
        some._forms = self._forms.take(index)
        return some


class _Residuals:
    """Densities from whitened residuals, for few components or many dimensions."""

    def __init__(self, components: FullComponents) -> None:
        self._rows = components.whitening.flatten(0, 1)
        self._shift = (components.whitening @ components.means.unsqueeze(-1)).flatten()
        self._normaliser = log_normaliser(components.scale_trils)
        self._shape = components.means.shape

    def log_prob(self, sample: Tensor) -> Tensor:
        return self._normaliser - 0.5 * self._residual(sample).square().sum(-1)

    def mean_score(self, sample: Tensor, share: Tensor) -> Tensor:
        return -(share.unsqueeze(-1) * self._residual(sample)).flatten(1) @ self._rows

    def take(self, index: Tensor) -> _Residuals:
        some, n_dims = copy(self), self._shape[1]
        some._rows = self._rows.unflatten(0, self._shape)[index].flatten(0, 1)
        some._shift = self._shift.unflatten(0, self._shape)[index].flatten()
        some._normaliser = self._normaliser[index]
        some._shape = torch.Size((len(index), n_dims))
        return some

    def _residual(self, sample: Tensor) -> Tensor:
        return torch.addmm(-self._shift, sample, self._rows.T).reshape(-1, *self._shape)


@dataclass(frozen=True)
class DiagonalComponents(ConstantWeights):
    """Components with diagonal covariances, which satisfy the Protocol `Components`."""

    scales: Tensor  # (n_components, n_dims), standard deviations, > 0

    @property
    def scale_trils(self) -> Tensor:
        return torch.diag_embed(self.scales)

    def entropy(self) -> Tensor:
        return self.scales.log().sum(-1) + 0.5 * self.n_dims * (1.0 + LOG_TWO_PI)

    def densities(self) -> Densities:
        return _Densities(self)

    def sample(self, counts: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        noise = padded_noise(counts, self.means, generator)
        return unpadded(self.means.unsqueeze(1) + noise * self.scales.unsqueeze(1), counts)

    def whiten(self, sample: Tensor) -> Tensor:
        return (sample - self.means.unsqueeze(1)) / self.scales.unsqueeze(1)

    def products(self, sample: Tensor, gradient: Tensor) -> Tensor:
        return sample * gradient

    def stein_gradient(self, offset: Tensor, moment: Tensor, slope: Tensor) -> NaturalGradient:
        return NaturalGradient((self.means - offset) * slope - moment, (self.scales * slope).unsqueeze(-1))

    def regressed_gradient(
        self, offset: Tensor, moments: tuple[Tensor, Tensor], mean: Tensor, slope: Tensor
    ) -> NaturalGradient:
        hessian = (moments[0] - mean * slope) / (moments[1] - mean.square())
        at_mean = slope - hessian * (mean - (self.means - offset))
        return NaturalGradient(-self.scales.square() * hessian, (self.scales * at_mean).unsqueeze(-1))

    def misfit(
        self, moments: tuple[Tensor, Tensor, Tensor], mean: Tensor, slope: Tensor, effective_samples: Tensor
    ) -> Misfit:
        cross, spread = moments[0] - mean * slope, moments[1] - mean.square()
        rest = self.scales.square() * (moments[2] - slope.square() - cross.square() / spread)
        known = (effective_samples >= ENOUGH * 2.0).unsqueeze(-1) & torch.isfinite(rest)
        rest = torch.where(known, rest, 0.0)
        return Misfit(rest.sum(-1), one_hot(rest.argmax(-1), self.n_dims).to(rest))

    def quadratic_features(self, whitened: Tensor) -> Tensor:
        return whitened.square()

    def quadratic_gradient(self, coefficients: Tensor, slope: Tensor) -> NaturalGradient:
        return NaturalGradient(-2.0 * coefficients, slope.unsqueeze(-1))

    def spectrum(self, gradient: NaturalGradient) -> Spectrum:
        return Spectrum(gradient.curvature, gradient.slope)

    def moved(
        self, spectrum: Spectrum, precision: Tensor, shift: Tensor, accepted: Tensor
    ) -> tuple[DiagonalComponents, Tensor]:
        scales, step = self.scales * precision.rsqrt(), self.scales * shift.squeeze(-1)
        usable = torch.isfinite(scales) & (scales > 0.0) & torch.isfinite(step)
        means = self.means + step
        moved = accepted & usable.all(-1) & representable(means, scales)
        means = torch.where(moved.unsqueeze(-1), means, self.means)
        return DiagonalComponents(means, torch.where(moved.unsqueeze(-1), scales, self.scales)), moved

    def halved(self, share: float, axis: Tensor) -> tuple[Tensor, DiagonalComponents]:
        narrowed = self.scales * (1.0 - share * axis).sqrt()
        return math.sqrt(share) * axis * self.scales, DiagonalComponents(self.means, narrowed)

    def isotropic(self, mean: Tensor, variance: Tensor) -> DiagonalComponents:
        return DiagonalComponents(mean.unsqueeze(0), variance.sqrt().expand(1, self.n_dims))

    def tensors(self) -> dict[str, Tensor]:
        return {"means": self.means, "scales": self.scales}


class _Densities:
    """Densities from one matrix product with the centred samples and their squares."""

    def __init__(self, components: DiagonalComponents) -> None:
        self._center = components.means.mean(0)
        means = components.means - self._center
        precision = components.scales.square().reciprocal()
        self._coefficients = torch.cat([-0.5 * precision, precision * means], -1)
        self._constant = 0.5 * components.n_dims - components.entropy() - 0.5 * (precision * means * means).sum(-1)

    def log_prob(self, sample: Tensor) -> Tensor:
        local = sample - self._center
        return torch.addmm(self._constant, torch.cat([local * local, local], -1), self._coefficients.T)

    def mean_score(self, sample: Tensor, share: Tensor) -> Tensor:
        local = sample - self._center
        square, linear = (share @ self._coefficients).chunk(2, -1)
        return 2.0 * square * local + linear

    def take(self, index: Tensor) -> _Densities:
        some = copy(self)
        some._coefficients, some._constant = self._coefficients[index], self._constant[index]
        return some
