"""Interface of the components of a mixture, and code that all kinds of components share.

Update rules use the own coordinates y = L^-1 (x - mu) of each component. In these coordinates, the component is N(0,
I). The natural gradient of E[R] then has the curvature Gamma = -L' E[hessian R] L and the slope gamma = L' E[gradient
R]. With Gamma = U diag(lambda) U', every update (`updates.py`) consists of one number a and one number m per
eigenvector:

    Sigma <- L U diag(1/a) U' L',   mu <- mu + L U m

`gaussians.py` contains components with full and with diagonal covariances. A diagonal covariance has a diagonal
curvature and U = I. `experts.py` contains linear experts, whose means are linear in features of the context. Their
samples are rows [x, y] of a sample and its context, the slope is a matrix, and m has one column per feature. A mixture
without contexts has a single feature, the constant 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor

from eim_ros.learning.gmmvi.weights import SampleWeights
from eim_ros.learning.models.gaussian import log_normaliser
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

if TYPE_CHECKING:
    from typing_extensions import Self

CHUNK_ELEMENTS = 262_144  # number of densities per block; a block fits into the cache
SnapshotT = TypeVar("SnapshotT", bound="Snapshot")
LARGEST_ENTRY = 1e30  # far above any entropy; its square does not overflow
LEAST_LOG_WEIGHT = -69.07  # log of the minimum weight 1e-30; a component can recover from this weight
ComponentsT = TypeVar("ComponentsT", bound="Components")
RIDGE = 1e-10  # ridge of regressions on columns of unit variance; affects only directions without data
ENOUGH = 2.0  # number of effective samples that a regression needs per unknown
# Minimum standard deviation relative to the mean. Below it, samples have fewer than six significant digits.
ROUNDING = 1e-10


class LogDensities(Protocol):
    """Log densities of all components, prepared for many samples."""

    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log density [nat] of samples (n_samples, width) for all components, (n_samples, n_components)."""


class Densities(LogDensities, Protocol):
    """Log densities of all components with their scores."""

    def mean_score(self, sample: Tensor, share: Tensor) -> Tensor:
        """Return the gradients of the log densities, averaged with shares (n_samples, n_components).

        The result has the shape (n_samples, n_dims).
        """

    def take(self, index: Tensor) -> Densities:
        """Return the densities of a subset of the components, by their indices (n,)."""


class HasDensities(Protocol):
    """Components, or a snapshot of them."""

    @property
    def n_components(self) -> int: ...

    def densities(self) -> LogDensities:
        """Return the prepared log densities."""


class Snapshot(HasDensities, Protocol):
    """Earlier densities of components. Earlier densities are stored because their samples may be reused."""

    def take(self: SnapshotT, index: Tensor) -> SnapshotT:
        """Return a subset of the components by their indices (n,) in ascending order, with unchanged densities."""

    def joined(self: SnapshotT, other: SnapshotT) -> SnapshotT:
        """Return the components of `self`, followed by the components of `other`."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters by name."""


def log_densities(components: HasDensities, sample: Tensor) -> Tensor:
    """Return the log density [nat] of samples (n_samples, width) for all components, (n_samples, n_components)."""
    return torch.cat(list(_log_density_chunks(components, sample)))


def mixture_log_prob(components: HasDensities, log_weights: Tensor, sample: Tensor) -> Tensor:
    """Return the log density [nat] of the mixture, (n_samples,), with log weights (n_components,)."""
    parts = [torch.logsumexp(part + log_weights, -1) for part in _log_density_chunks(components, sample)]
    return torch.cat(parts)


def _log_density_chunks(components: HasDensities, sample: Tensor) -> Iterator[Tensor]:
    densities = components.densities()
    for rows in sample.split(max(1, CHUNK_ELEMENTS // components.n_components)):
        yield densities.log_prob(rows)


@dataclass(frozen=True)
class NaturalGradient:
    """Natural gradient of E[R] for every component, in the component's own coordinates."""

    # Gamma, (n_components, n_dims, n_dims), or (n_components, n_dims) for diagonal covariances. It is symmetric and may
    # be indefinite.
    curvature: Tensor
    slope: Tensor  # (n_components, n_dims, n_features), gamma

    def where(self, chosen: Tensor, other: NaturalGradient) -> NaturalGradient:
        """Return `self` for components in the mask `chosen` (n_components,), and `other` for all other components."""
        pairs = ((self.curvature, other.curvature), (self.slope, other.slope))
        curvature, slope = (torch.where(chosen.reshape(-1, *[1] * (one.dim() - 1)), one, two) for one, two in pairs)
        return NaturalGradient(curvature, slope)


@dataclass(frozen=True)
class Spectrum:
    """Natural gradient in the eigenbasis of its curvature."""

    curvature: Tensor  # lambda, (n_components, n_dims), the eigenvalues of Gamma
    slope: Tensor  # U' gamma, (n_components, n_dims, n_features)
    basis: Tensor | None = None  # U, (n_components, n_dims, n_dims), or None for the identity

    def bounded(self) -> Spectrum:
        """Return the same directions with entries of at most 1e30, whose squares do not overflow.

        Compared with larger entries, the entropy is negligible. An update within a trust region then depends only on
        the direction of the gradient.
        """
        largest = torch.maximum(self.curvature.abs().amax(-1), self.slope.abs().amax((-2, -1)))
        scale = (LARGEST_ENTRY / largest).clamp_max(1.0)  # NaN for components without a gradient
        return Spectrum(self.curvature * scale.unsqueeze(-1), self.slope * scale[:, None, None], self.basis)


@dataclass(frozen=True)
class Misfit:
    """Covariance F of the non-linear part of grad R for every component, in the component's own coordinates.

    F is zero if R is quadratic around a component. Updates can then follow R without a split. If a component has
    converged, the trace of F is at least the variance of R (Poincare inequality of N(0, I)). Up to second order in R,
    half of this variance is the remaining KL.
    """

    size: Tensor  # (n_components,), trace of F
    axis: Tensor  # (n_components, n_dims), unit vector in whose direction F is greatest


@dataclass(frozen=True)
class WeightStep:
    """Step of the log weights, log w' = old log w + reward R + constant."""

    reward: Tensor  # (), factor of the rewards
    old: float = 1.0  # factor of the old log weights

    def followed(self, log_weights: Tensor, reward: Tensor) -> Tensor:
        """Return the new log weights, given the old log weights and rewards, both (..., n_components)."""
        return normalised(self.old * log_weights + self.reward * reward)


def normalised(log_weights: Tensor) -> Tensor:
    """Normalise log weights. The weights then sum to one and, up to rounding, are not below the minimum."""
    log_weights = torch.log_softmax(log_weights, -1).clamp_min(LEAST_LOG_WEIGHT)
    return torch.log_softmax(log_weights, -1)


class Components(Protocol):
    """Immutable Gaussian components of one kind.

    A sample is a row [x, y] of width n_dims + n_context, with the coordinates of the sample and its context. Densities
    are relative to the density of the contexts, log q(o|y)/q(o) + log N(x|o, y); see `ContextGate`.
    """

    @property
    def scale_trils(self) -> Tensor:
        """Lower Cholesky factors L of the covariances, (n_components, n_dims, n_dims)."""

    @property
    def center(self) -> Tensor:
        """Typical row, (width,)."""

    @property
    def n_components(self) -> int: ...

    @property
    def n_dims(self) -> int: ...

    @property
    def n_context(self) -> int: ...

    def model(self, log_weights: Tensor) -> MixtureOfExperts:
        """Return the distribution that the components form with these log weights."""

    def entropy(self) -> Tensor:
        """Return the entropies [nat], (n_components,)."""

    def densities(self) -> Densities:
        """Return the prepared log densities and scores."""

    def sample(self, counts: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw `counts[i]` samples from component i, where `counts` is (n_components,).

        The result contains the samples (n, width) and their components (n,).
        """

    def whiten(self, sample: Tensor) -> Tensor:
        """Convert rows (n_components, n_samples, width) to own coordinates y and features u of the context."""

    def products(self, sample: Tensor, gradient: Tensor) -> Tensor:
        """Return the products x_a g_b of rows, which determine a curvature, (n_samples, n_products)."""

    def stein_gradient(
        self,
        offset: Tensor,  # (width,), origin of the samples; the products are those of x - offset
        moment: Tensor,  # (n_components, n_products), mean of `products(x - offset, grad R)` under every component
        slope: Tensor,  # (n_components, n_dims), mean of grad R
    ) -> NaturalGradient:
        """Compute the natural gradient from moments by Stein's lemma (Arenz et al. 2023, eq. 7)."""

    def regressed_gradient(
        self,
        offset: Tensor,  # (width,), origin of the samples
        # means of `products` of x - offset with grad R and with itself, (n_components, n_products) each
        moments: tuple[Tensor, Tensor],
        mean: Tensor,  # (n_components, width), mean of x - offset
        slope: Tensor,  # (n_components, n_dims), mean of grad R
    ) -> NaturalGradient:
        """Compute the natural gradient from a linear function fitted to grad R by least squares."""

    def misfit(
        self,
        # moments of `regressed_gradient`, followed by the mean of `products` of grad R with itself
        moments: tuple[Tensor, Tensor, Tensor],
        mean: Tensor,  # (n_components, width), mean of x - offset
        slope: Tensor,  # (n_components, n_dims), mean of grad R
        effective_samples: Tensor,  # (n_components,)
    ) -> Misfit:
        """Compute the misfit. The misfit is zero if there are fewer than `ENOUGH` effective samples per dimension."""

    def quadratic_features(self, whitened: Tensor) -> Tensor:
        """Return the products y_a y_b with a <= b, (..., n_products), for y (..., width)."""

    def quadratic_gradient(self, coefficients: Tensor, slope: Tensor) -> NaturalGradient:
        """Compute the natural gradient of a quadratic function.

        `coefficients` (n_components, ...) belong to the quadratic features. `slope` contains the coefficients of y.
        """

    def spectrum(self, gradient: NaturalGradient) -> Spectrum:
        """Return the natural gradient in the eigenbasis of its curvature."""

    def moved(
        self: ComponentsT, spectrum: Spectrum, precision: Tensor, shift: Tensor, accepted: Tensor
    ) -> tuple[ComponentsT, Tensor]:
        """Apply the update a, m, which the top of this file defines. Return the components and a mask of moved
        components.

        The mask has the shape (n_components,). A component does not move if its step is not accepted, if its new
        parameters are not finite, or if rounding errors would dominate its samples.
        """

    def take(self: ComponentsT, index: Tensor) -> ComponentsT:
        """Return a subset of the components by their indices (n,), with unchanged densities."""

    def snapshot(self) -> Snapshot:
        """Return the current densities in a form that can be stored."""

    def at(self: ComponentsT, log_weights: Tensor, context: Tensor) -> tuple[Tensor, ComponentsT]:
        """Return the log weights log q(o) and the components at other contexts (n_contexts, n_context)."""

    def log_weights_at_contexts(self, log_weights: Tensor) -> Tensor:
        """Return the log weights at the contexts, (n_contexts, n_components).

        A mixture without contexts returns the given log weights.
        """

    def reward(self, sample: Tensor, value: Tensor, weights: SampleWeights) -> Tensor:
        """Return rewards E_o[R|y] as linear functions of the features of the context, (n_components, n_features).

        `value` (n_samples,) contains R [nat] at the rows `sample` (n_samples, width).
        """

    def reward_at_contexts(self, reward: Tensor) -> Tensor:
        """Return the values of rewards (n_components, n_features) at the contexts, (n_contexts, n_components)."""

    def reweighted(
        self: ComponentsT, log_weights: Tensor, reward: Tensor, step: WeightStep
    ) -> tuple[Tensor, ComponentsT]:
        """Update the weights along rewards (n_components, n_features). Return log weights and components."""

    def without(self: ComponentsT, log_weights: Tensor, kept: Tensor) -> tuple[Tensor, ComponentsT]:
        """Keep only the components with the indices `kept` (n,). Return log weights and components."""

    def with_addition(
        self: ComponentsT, log_weights: Tensor, place: Tensor, variance: Tensor, log_weight: float
    ) -> tuple[Tensor, ComponentsT]:
        """Append a component with covariance `variance` I at a row (width,). Return log weights and components."""

    def with_halves(
        self: ComponentsT, log_weights: Tensor, whole: Tensor, split: Tensor, share: float, axis: Tensor
    ) -> tuple[Tensor, ComponentsT]:
        """Split the components with the indices `split` in two, and append the halves to the components `whole`.

        The halves have the means mu +- sqrt(share) L u, where the unit vectors u are the rows of `axis` (n_split,
        n_dims). Together, the halves keep the mean and covariance of the component. All halves with the sign + precede
        all halves with the sign -.
        """

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters by name."""


@dataclass(frozen=True)
class ConstantWeights(ABC):
    """Base class of components without contexts. Each field has one row per component."""

    means: Tensor  # (n_components, n_dims)

    n_context: ClassVar[int] = 0

    if TYPE_CHECKING:

        @property
        def scale_trils(self) -> Tensor: ...

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]: ...

    @abstractmethod
    def isotropic(self, mean: Tensor, variance: Tensor) -> Self:
        """Return one component with covariance `variance` I."""

    @abstractmethod
    def halved(self, share: float, axis: Tensor) -> tuple[Tensor, Self]:
        """Return the offsets (n_components, n_dims) of the halves from the means, and the narrower components."""

    @property
    def n_components(self) -> int:
        return self.means.shape[0]

    @property
    def n_dims(self) -> int:
        return self.means.shape[1]

    @property
    def center(self) -> Tensor:
        return self.means.mean(0)

    def model(self, log_weights: Tensor) -> MixtureOfExperts:
        return MixtureOfExperts.from_mixture(GaussianMixture(log_weights, self.means, self.scale_trils))

    def take(self, index: Tensor) -> Self:
        return type(self)(**{name: value[index] for name, value in self.tensors().items()})

    def joined(self, other: Self) -> Self:
        theirs = other.tensors()
        return type(self)(**{name: torch.cat([value, theirs[name]]) for name, value in self.tensors().items()})

    def snapshot(self) -> Self:
        return self

    def at(self, log_weights: Tensor, context: Tensor) -> tuple[Tensor, Self]:
        return log_weights, self

    def log_weights_at_contexts(self, log_weights: Tensor) -> Tensor:
        return log_weights.unsqueeze(0)

    def reward(self, sample: Tensor, value: Tensor, weights: SampleWeights) -> Tensor:
        return weights.mean(value.unsqueeze(-1))

    def reward_at_contexts(self, reward: Tensor) -> Tensor:
        return reward.T

    def reweighted(self, log_weights: Tensor, reward: Tensor, step: WeightStep) -> tuple[Tensor, Self]:
        return step.followed(log_weights, reward[:, 0]), self

    def without(self, log_weights: Tensor, kept: Tensor) -> tuple[Tensor, Self]:
        return normalised(log_weights[kept]), self.take(kept)

    def with_addition(
        self, log_weights: Tensor, place: Tensor, variance: Tensor, log_weight: float
    ) -> tuple[Tensor, Self]:
        every = torch.cat([log_weights, log_weights.new_tensor([log_weight])])
        return normalised(every), self.joined(self.isotropic(place, variance))

    def with_halves(
        self, log_weights: Tensor, whole: Tensor, split: Tensor, share: float, axis: Tensor
    ) -> tuple[Tensor, Self]:
        apart, half = self.take(split).halved(share, axis)
        components, log_half = self.take(whole), log_weights[split] - math.log(2.0)
        for offset in (apart, -apart):
            components = components.joined(replace(half, means=half.means + offset))
        return torch.cat([log_weights[whole], log_half, log_half]), components


class FullCovariances(ABC):
    """Mixin class with the methods that all components with full covariances share.

    In a component's own coordinates, rows [x, y] become [v, u]. The slope has one column for the constant 1 and one for
    each feature in u.
    """

    if TYPE_CHECKING:

        @property
        def scale_trils(self) -> Tensor: ...

    ridge: ClassVar[float] = RIDGE  # ridge of the regression of grad R

    @property
    @abstractmethod
    def to_own(self) -> Tensor:
        """Matrix that maps [x, y] to [v, u], (n_components, width, width)."""

    @property
    @abstractmethod
    def origin(self) -> Tensor:
        """Row at which [v, u] is zero, (n_components, width)."""

    @cached_property
    def whitening(self) -> Tensor:
        """L^-1, (n_components, n_dims, n_dims)."""
        identity = torch.eye(self.scale_trils.shape[-1], dtype=self.scale_trils.dtype, device=self.scale_trils.device)
        whitening: Tensor = torch.linalg.solve_triangular(self.scale_trils, identity, upper=False)
        return whitening

    def entropy(self) -> Tensor:
        return 0.5 * self.scale_trils.shape[-1] - log_normaliser(self.scale_trils)

    def misfit(
        self, moments: tuple[Tensor, Tensor, Tensor], mean: Tensor, slope: Tensor, effective_samples: Tensor
    ) -> Misfit:
        n_dims, width, row = slope.shape[-1], mean.shape[-1], slope.unsqueeze(-2)
        cross, spread = self._own_covariances(moments[0], moments[1], mean, slope)
        square = self.scale_trils.mT @ (moments[2].reshape(-1, n_dims, n_dims) - row.mT * row) @ self.scale_trils
        ridge = RIDGE * torch.eye(width, dtype=mean.dtype, device=mean.device)
        factor, info = torch.linalg.cholesky_ex(spread + ridge)
        explained = torch.linalg.solve_triangular(factor, cross, upper=False)
        rest = square - explained.mT @ explained
        known = (info == 0) & (effective_samples >= ENOUGH * (n_dims + 1)) & torch.isfinite(rest).all(-1).all(-1)
        rest = torch.where(known[:, None, None], rest, 0.0)
        return Misfit(rest.diagonal(dim1=-2, dim2=-1).sum(-1), torch.linalg.eigh(rest)[1][..., -1])

    def products(self, sample: Tensor, gradient: Tensor) -> Tensor:
        return (sample.unsqueeze(-1) * gradient.unsqueeze(-2)).flatten(1)

    def whiten(self, sample: Tensor) -> Tensor:
        return (sample - self.origin.unsqueeze(1)) @ self.to_own.mT

    def stein_gradient(self, offset: Tensor, moment: Tensor, slope: Tensor) -> NaturalGradient:
        local = (self.origin - offset).unsqueeze(-1) * slope.unsqueeze(-2)
        own = self.to_own @ (moment.reshape(local.shape) - local) @ self.scale_trils  # E[[v, u] grad' L]
        return _gradient(own, slope.unsqueeze(-2) @ self.scale_trils)

    def regressed_gradient(
        self, offset: Tensor, moments: tuple[Tensor, Tensor], mean: Tensor, slope: Tensor
    ) -> NaturalGradient:
        cross, spread = self._own_covariances(*moments, mean, slope)
        factor, info = torch.linalg.cholesky_ex(spread + self.ridge * torch.eye(mean.shape[-1]).to(mean))
        slopes = torch.where((info == 0)[:, None, None], torch.cholesky_solve(cross, factor), torch.nan)
        center = self.to_own @ (mean.unsqueeze(-1) - (self.origin - offset).unsqueeze(-1))  # mean of [v, u]
        return _gradient(slopes, slope.unsqueeze(-2) @ self.scale_trils - center.mT @ slopes)

    def _own_covariances(self, cross: Tensor, square: Tensor, mean: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Return the covariances of [v, u] with L' grad R and with itself; see `regressed_gradient`."""
        width, column, row = mean.shape[-1], mean.unsqueeze(-1), slope.unsqueeze(-2)
        of_gradient = self.to_own @ (cross.reshape(-1, width, slope.shape[-1]) - column * row) @ self.scale_trils
        return of_gradient, self.to_own @ (square.reshape(-1, width, width) - column * column.mT) @ self.to_own.mT

    def quadratic_gradient(self, coefficients: Tensor, slope: Tensor) -> NaturalGradient:
        n_dims, width = self.scale_trils.shape[-1], slope.shape[-1]
        row, column = torch.triu_indices(width, width, device=slope.device)
        half = slope.new_zeros(len(slope), width, width)
        half[:, row, column] = coefficients
        whole = half + half.mT
        on_features = torch.cat([slope[:, :n_dims].unsqueeze(-1), whole[:, :n_dims, n_dims:]], -1)
        return NaturalGradient(-whole[:, :n_dims, :n_dims], on_features)

    def spectrum(self, gradient: NaturalGradient) -> Spectrum:
        """Return the natural gradient in the eigenbasis. The eigenvalues of a non-finite curvature are NaN."""
        finite = torch.isfinite(gradient.curvature).all(-1).all(-1)
        eigenvalues, basis = torch.linalg.eigh(torch.where(finite[:, None, None], gradient.curvature, 0.0))
        return Spectrum(torch.where(finite[:, None], eigenvalues, torch.nan), basis.mT @ gradient.slope, basis)

    def quadratic_features(self, whitened: Tensor) -> Tensor:
        row, column = torch.triu_indices(whitened.shape[-1], whitened.shape[-1], device=whitened.device)
        return whitened[..., row] * whitened[..., column]


def _gradient(own: Tensor, intercept: Tensor) -> NaturalGradient:
    """Return the gradient, given E[[v, u] grad' L], (n_components, width, n_dims), and E[grad' L], (..., 1, n_dims)."""
    hessian, on_features = own.split([own.shape[-1], own.shape[-2] - own.shape[-1]], -2)
    return NaturalGradient(-0.5 * (hessian + hessian.mT), torch.cat([intercept, on_features], -2).mT)


def padded_noise(counts: Tensor, means: Tensor, generator: torch.Generator) -> Tensor:
    """Draw standard normal noise (n_components, largest count, n_dims)."""
    shape = (len(counts), int(counts.max()), means.shape[-1])
    return torch.randn(shape, generator=generator, dtype=means.dtype, device=means.device)


def unpadded(rows: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first `counts` rows of each component, (n, width), and the component of each row, (n,).

    `rows` have the shape (n_components, largest count, width).
    """
    component = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
    if bool((counts == rows.shape[1]).all()):
        return rows.flatten(0, 1), component
    return rows[torch.arange(rows.shape[1], device=rows.device) < counts.unsqueeze(-1)], component


def representable(means: Tensor, scales: Tensor) -> Tensor:
    """Return a mask (n_components,) of the components that are wide enough to be sampled accurately.

    A component is too narrow if its width is tiny relative to its distance from zero. Rounding would then move samples
    to points where the component has almost no density, and the ELBO would be unbounded. Means and scales have the
    shape (n_components, n_dims). The scales are the diagonals of the Cholesky factors.
    """
    return (scales > ROUNDING * means.abs()).all(-1)
