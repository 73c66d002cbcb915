"""Components of a mixture as one batch: what the rules of variational inference ask of them.

All rules of an update are written in a component's own coordinates y = L^-1 (x - mu), in which it is N(0, I). There the
natural gradient of E[R] has the curvature Gamma = -L' E[hessian R] L and the slope gamma = L' E[gradient R]. With Gamma
= U diag(lambda) U' every update of the family is one number a and one m per eigenvector (`component_update.py`):

    Sigma <- L U diag(1/a) U' L',   mu <- mu + L U m

Full covariances are in `full_components.py`; diagonal ones, whose curvature is a diagonal and whose U is the identity,
in `diagonal_components.py`.

Linear experts have means that are linear in features of the context, the first of which is 1: the slope is a matrix
then, m is a row of one number per feature (`expert_components.py`), and samples are rows [x, y] of a sample and its
context. A mixture without contexts has one feature.

Log densities of all components at many samples, a part of them at a time.

What the rules of variational inference ask of the weights of components, where there are no contexts.

What components of all kinds draw their samples by, and when their numbers are too close for it.

Natural gradients of all components, and the same along the eigenvectors of their curvatures.

See `components.py` for the coordinates in which they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from eim_ros.learning.gmmvi.weights import SampleWeights
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

CHUNK_ELEMENTS = 262_144  # densities at a time: they stay in cache
SnapshotT = TypeVar("SnapshotT", bound="Snapshot")


class LogDensities(Protocol):
    """Log densities of all components, prepared for many samples."""

    def log_prob(self, sample: Tensor) -> Tensor:
        """Log density [nat] under every component, (n_samples, n_components), of samples (n_samples, width)."""
        ...


class Densities(LogDensities, Protocol):
    """The same, with their scores."""

    def mean_score(self, sample: Tensor, share: Tensor) -> Tensor:
        """Gradient of the log densities, averaged with shares (n_samples, n_components), (n_samples, n_dims)."""
        ...

    def take(self, index: Tensor) -> Densities:
        """Those of some components, by their numbers (n,)."""
        ...


class HasDensities(Protocol):
    """Components, or a snapshot of them."""

    @property
    def n_components(self) -> int: ...

    def densities(self) -> LogDensities:
        """The log densities, prepared."""
        ...


class Snapshot(HasDensities, Protocol):
    """Densities of components as they were when they drew samples that may be used again."""

    def take(self: SnapshotT, index: Tensor) -> SnapshotT:
        """Some of the components, by their numbers (n,) in ascending order, of the densities that they have."""
        ...

    def joined(self: SnapshotT, other: SnapshotT) -> SnapshotT:
        """Those of both, own ones first."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Parameters by name."""
        ...


def log_densities(components: HasDensities, sample: Tensor) -> Tensor:
    """Log densities [nat] under all components, (n_samples, n_components), of samples (n_samples, width)."""
    return torch.cat(list(_log_density_chunks(components, sample)))


def mixture_log_prob(components: HasDensities, log_weights: Tensor, sample: Tensor) -> Tensor:
    """Log density [nat] of the mixture, (n_samples,), of samples (n_samples, width); weights (n_components,)."""
    parts = [torch.logsumexp(part + log_weights, -1) for part in _log_density_chunks(components, sample)]
    return torch.cat(parts)


def _log_density_chunks(components: HasDensities, sample: Tensor) -> Iterator[Tensor]:
    densities = components.densities()
    for rows in sample.split(max(1, CHUNK_ELEMENTS // components.n_components)):
        yield densities.log_prob(rows)


@dataclass(frozen=True)
class NaturalGradient:
    """Natural gradient of E[R] for every component, in its own coordinates.

    Attributes
    ----------
    curvature : Tensor (n_components, n_dims, n_dims), of diagonal covariances (n_components, n_dims)
        Gamma, symmetric, of any sign.
    slope : Tensor (n_components, n_dims), of linear experts (n_components, n_dims, n_features)
        gamma.
    """

    curvature: Tensor
    slope: Tensor


@dataclass(frozen=True)
class Spectrum:
    """A natural gradient along the eigenvectors of its curvature.

    Attributes
    ----------
    curvature : Tensor (n_components, n_dims)
        lambda, the eigenvalues of Gamma.
    slope : Tensor (n_components, n_dims, n_features)
        U' gamma.
    basis : Tensor (n_components, n_dims, n_dims) or None
        U; None for the identity.
    """

    curvature: Tensor
    slope: Tensor
    basis: Tensor | None = None


LEAST_LOG_WEIGHT = -69.07  # a weight of 1e-30 is the least there is: a component can come back from it


@dataclass(frozen=True)
class WeightStep:
    """A step log w' = old log w + reward R + constant.

    Attributes
    ----------
    reward : Tensor ()
        Factor of the rewards.
    old : float
        Factor of the old log weights.
    """

    reward: Tensor
    old: float = 1.0

    def followed(self, log_weights: Tensor, reward: Tensor) -> Tensor:
        """New log weights from old ones and rewards, both (..., n_components)."""
        return normalised(self.old * log_weights + self.reward * reward)


def normalised(log_weights: Tensor) -> Tensor:
    """Log weights that sum to one, none below the least one (but for rounding)."""
    log_weights = torch.log_softmax(log_weights, -1).clamp_min(LEAST_LOG_WEIGHT)
    return torch.log_softmax(log_weights, -1)


ComponentsT = TypeVar("ComponentsT", bound="Components")


class Components(Protocol):
    """Gaussian components of one kind; immutable.

    Samples are rows of the width n_dims + n_context, the sample's coordinates first. Densities are those of rows
    relative to the contexts' own, log q(o|y)/q(o) + log N(x|o, y), see `ContextGate`.
    """

    @property
    def scale_trils(self) -> Tensor:
        """Lower Cholesky factors L of the covariances, (n_components, n_dims, n_dims)."""
        ...

    @property
    def center(self) -> Tensor:
        """A typical row, (width,)."""
        ...

    @property
    def n_components(self) -> int: ...

    @property
    def n_dims(self) -> int: ...

    @property
    def n_context(self) -> int: ...

    def model(self, log_weights: Tensor) -> MixtureOfExperts:
        """The distribution that they make with these log weights."""
        ...

    def entropy(self) -> Tensor:
        """Entropies [nat], (n_components,)."""
        ...

    def densities(self) -> Densities:
        """The log densities, prepared."""
        ...

    def sample(self, counts: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """So many samples of each component, counts (n_components,): samples (n, width) and components (n,)."""
        ...

    def whiten(self, sample: Tensor) -> Tensor:
        """Own coordinates y, and features u of contexts, of rows (n_components, n_samples, width), in that shape."""
        ...

    def products(self, sample: Tensor, gradient: Tensor) -> Tensor:
        """Products x_a g_b that a curvature needs, (n_samples, n_products), of rows (n_samples, ...)."""
        ...

    def stein_gradient(self, offset: Tensor, moment: Tensor, slope: Tensor) -> NaturalGradient:
        """Natural gradient from moments of samples and gradients, by Stein's lemma (paper, equation 7).

        Parameters
        ----------
        offset : Tensor (width,)
            The samples' origin: their products are those of x - offset.
        moment : Tensor (n_components, n_products)
            Means of `products(x - offset, grad R)` under every component.
        slope : Tensor (n_components, n_dims)
            Means of grad R.
        """
        ...

    def regressed_gradient(
        self, offset: Tensor, moments: tuple[Tensor, Tensor], mean: Tensor, slope: Tensor
    ) -> NaturalGradient:
        """Natural gradient from a linear function fitted to grad R by least squares.

        Parameters
        ----------
        offset : Tensor (width,)
            The samples' origin.
        moments : pair of Tensor (n_components, n_products)
            Means of `products(x - offset, grad R)` and of `products(x - offset, x - offset)`.
        mean : Tensor (n_components, width)
            Means of x - offset.
        slope : Tensor (n_components, n_dims)
            Means of grad R.
        """
        ...

    def quadratic_features(self, whitened: Tensor) -> Tensor:
        """Products y_a y_b, a <= b, that a quadratic function needs, (..., n_products), of y (..., width)."""
        ...

    def quadratic_gradient(self, coefficients: Tensor, slope: Tensor) -> NaturalGradient:
        """Natural gradient of a function with these coefficients (n_components, ...) of the features and of y."""
        ...

    def spectrum(self, gradient: NaturalGradient) -> Spectrum:
        """The natural gradient along the eigenvectors of its curvature."""
        ...

    def moved(
        self: ComponentsT, spectrum: Spectrum, precision: Tensor, shift: Tensor, accepted: Tensor
    ) -> tuple[ComponentsT, Tensor]:
        """New components from a and m, see the top of this file, and which have moved, (n_components,) of bool.

        One that is not accepted, or whose new parameters are not finite or lost in rounding, is left as it is.
        """
        ...

    def take(self: ComponentsT, index: Tensor) -> ComponentsT:
        """Some of the components, by their numbers (n,), of the densities that they have."""
        ...

    def snapshot(self) -> Snapshot:
        """The densities, to be remembered."""
        ...

    def at(self: ComponentsT, log_weights: Tensor, context: Tensor) -> tuple[Tensor, ComponentsT]:
        """Log weights q(o), and components, at other contexts (n_contexts, n_context)."""
        ...

    def log_weights_at_contexts(self, log_weights: Tensor) -> Tensor:
        """Log weights at the contexts, (n_contexts, n_components); the given ones of a mixture without contexts."""
        ...

    def reward(self, sample: Tensor, value: Tensor, weights: SampleWeights) -> Tensor:
        """Rewards E_o[R|y] as functions of the component's features of the context, (n_components, n_features).

        Parameters
        ----------
        sample : Tensor (n_samples, width)
        value : Tensor (n_samples,)
            R [nat].
        weights : SampleWeights
        """
        ...

    def reward_at_contexts(self, reward: Tensor) -> Tensor:
        """Values of rewards (n_components, n_features) at the contexts, (n_contexts, n_components)."""
        ...

    def reweighted(
        self: ComponentsT, log_weights: Tensor, reward: Tensor, step: WeightStep
    ) -> tuple[Tensor, ComponentsT]:
        """Log weights and components after a step of the weights along rewards (n_components, n_features)."""
        ...

    def without(self: ComponentsT, log_weights: Tensor, kept: Tensor) -> tuple[Tensor, ComponentsT]:
        """Log weights and components if there were only those of these numbers (n,)."""
        ...

    def with_addition(
        self: ComponentsT, log_weights: Tensor, place: Tensor, variance: Tensor, log_weight: float
    ) -> tuple[Tensor, ComponentsT]:
        """Log weights and components with one more, the last, around a row (width,) with covariance variance I."""
        ...

    def with_halves(
        self: ComponentsT, log_weights: Tensor, whole: Tensor, heavy: Tensor, share: float
    ) -> tuple[Tensor, ComponentsT]:
        """Log weights and components if those of the numbers `heavy` were split in two, after those of `whole`.

        The halves are at mu +- sqrt(share) v with v the longest axis of Sigma, and together of its mean and covariance;
        all first ones come before all second ones.
        """
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Parameters by name."""
        ...


class _Plain(Protocol):
    """The components of a mixture."""

    @property
    def means(self) -> Tensor: ...

    @property
    def scale_trils(self) -> Tensor: ...

    def take(self: _PlainT, index: Tensor) -> _PlainT: ...

    def joined(self: _PlainT, other: Any) -> _PlainT: ...

    def isotropic(self: _PlainT, mean: Tensor, variance: Tensor) -> _PlainT: ...


_PlainT = TypeVar("_PlainT", bound=_Plain)


class ConstantWeights:
    """Weights that are one number per component, for kinds of `Components` without contexts."""

    n_context = 0

    def model(self: _Plain, log_weights: Tensor) -> MixtureOfExperts:
        return MixtureOfExperts.from_mixture(GaussianMixture(log_weights, self.means, self.scale_trils))

    @property
    def center(self: _Plain) -> Tensor:
        return self.means.mean(0)

    def at(self: _PlainT, log_weights: Tensor, context: Tensor) -> tuple[Tensor, _PlainT]:
        return log_weights, self

    def log_weights_at_contexts(self, log_weights: Tensor) -> Tensor:
        return log_weights.unsqueeze(0)

    def reward(self, sample: Tensor, value: Tensor, weights: SampleWeights) -> Tensor:
        return weights.mean(value.unsqueeze(-1))

    def reward_at_contexts(self, reward: Tensor) -> Tensor:
        return reward.T

    def reweighted(self: _PlainT, log_weights: Tensor, reward: Tensor, step: WeightStep) -> tuple[Tensor, _PlainT]:
        return step.followed(log_weights, reward[:, 0]), self

    def without(self: _PlainT, log_weights: Tensor, kept: Tensor) -> tuple[Tensor, _PlainT]:
        return normalised(log_weights[kept]), self.take(kept)

    def with_addition(
        self: _PlainT, log_weights: Tensor, place: Tensor, variance: Tensor, log_weight: float
    ) -> tuple[Tensor, _PlainT]:
        every = torch.cat([log_weights, log_weights.new_tensor([log_weight])])
        return normalised(every), self.joined(self.isotropic(place, variance))

    def snapshot(self: _PlainT) -> _PlainT:
        return self


ROUNDING = 1e-10  # deviations of a coordinate, relative to its mean: samples of smaller ones have less than six digits


def padded_noise(counts: Tensor, means: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
    """Standard normal noise (n_components, largest count, n_dims), and which of it counts; None for all."""
    largest = int(counts.max())
    shape = (len(counts), largest, means.shape[-1])
    noise = torch.randn(shape, generator=generator, dtype=means.dtype, device=means.device)
    if bool((counts == largest).all()):
        return noise, None
    return noise, torch.arange(largest, device=means.device) < counts.unsqueeze(-1)


def representable(means: Tensor, scales: Tensor) -> Tensor:
    """Which components (n_components,) are not so narrow and so far from zero that rounding moves their samples.

    Those of the others would have nearly no density under the component that drew them: the ELBO would have no bound.

    Parameters
    ----------
    means, scales : Tensor (n_components, n_dims)
        Scales are the diagonals of the Cholesky factors.
    """
    return (scales > ROUNDING * means.abs()).all(-1)
