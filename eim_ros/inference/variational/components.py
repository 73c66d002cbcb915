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
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference.variational.component_densities import Densities, Snapshot
from eim_ros.inference.variational.importance_weights import SampleWeights
from eim_ros.inference.variational.spectrum import NaturalGradient, Spectrum
from eim_ros.inference.variational.weight_update import WeightStep

__all__ = ["Components"]

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
