"""Mixtures of normal distributions with any batch shape: sum_k w_k N(x; mu_k, L_k L_k')."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints, register_kl

from eim_ros.core.checks import expect, with_hints
from eim_ros.core.errors import DistributionError
from eim_ros.learning.models.gaussian import (
    Gaussian,
    as_parameter,
    checked_generator,
    checked_shape,
    checked_values,
    named_tensors,
    split_dims,
    tensor_fields,
)

# Number of elements of the factors that are gathered per block to draw samples. This number limits the memory.
CHUNK_ELEMENTS = 4_194_304
MODE_ITERATIONS = 1000
MODE_TOLERANCE = 1e-9  # maximum move in the last iteration, in standard deviations of the narrowest component


@with_hints
@dataclass(frozen=True)
class GaussianMixture(Distribution):
    """Batch of Gaussian mixtures, which is a `torch.distributions.Distribution`.

    Samples from a mixture are not differentiable, so there is no `rsample` and `has_rsample` is False. Use
    `components.rsample` for differentiable samples from the components.

    Attributes
    ----------
    log_weights : Tensor (..., n_components)
        Logs of the mixture weights. The constructor normalises them.
    means : Tensor (..., n_components, n_dims)
    scale_trils : Tensor (..., n_components, n_dims, n_dims)
        Lower Cholesky factors of the covariances, which may be broadcast over the batch.

    Examples
    --------
    Create two components in one dimension, the second with three times the weight of the first:

    >>> import torch
    >>> from eim_ros.learning.models import GaussianMixture
    >>> weights, means = torch.tensor([1.0, 3.0]), torch.tensor([[-2.0], [2.0]])
    >>> mixture = GaussianMixture(weights.log(), means, torch.ones(2, 1, 1))
    >>> mixture.weights.tolist()
    [0.25, 0.75]
    >>> mixture.sample(100, torch.Generator().manual_seed(0)).shape
    torch.Size([100, 1])
    """

    log_weights: Tensor
    means: Tensor
    scale_trils: Tensor

    arg_constraints: ClassVar = {
        "log_weights": constraints.real_vector,
        "means": constraints.independent(constraints.real, 2),
        "scale_trils": constraints.independent(constraints.lower_cholesky, 1),
    }
    support: ClassVar = constraints.real_vector
    has_rsample = False

    def __post_init__(self) -> None:
        tensor_fields(self, "log_weights", "means", "scale_trils")
        if self.means.dim() < 2 or not self.log_weights.dim() or self.log_weights.shape[-1] != self.means.shape[-2]:
            raise DistributionError(
                "log_weights (..., k) and means (..., k, d) must have equal k, got shapes "
                f"{tuple(self.log_weights.shape)} and {tuple(self.means.shape)}",
                self.means.shape,
            )
        total = torch.logsumexp(self.log_weights, -1, keepdim=True)
        if not bool(torch.isfinite(total).all() and torch.isfinite(self.means).all()):
            raise DistributionError(
                "the weights must have a positive and finite sum, and the means must be finite", total
            )
        object.__setattr__(self, "log_weights", self.log_weights - total)

    @property
    def n_components(self) -> int:
        return self.means.shape[-2]

    @property
    def n_dims(self) -> int:
        return self.means.shape[-1]

    @property
    def batch_shape(self) -> torch.Size:
        return self.means.shape[:-2]

    @property
    def event_shape(self) -> torch.Size:
        return self.means.shape[-1:]

    @property
    def weights(self) -> Tensor:
        """Weights of the components, (..., n_components); they sum to one."""
        return self.log_weights.exp()

    @property
    def covariances(self) -> Tensor:
        """Covariances of the components, (..., n_components, n_dims, n_dims)."""
        factors = self.scale_trils.expand(*self.means.shape, self.n_dims)
        return factors @ factors.mT

    @property
    def components(self) -> Gaussian:
        """Components as one batch, (..., n_components)."""
        return Gaussian(self.means, self.scale_trils)

    @property
    def mean(self) -> Tensor:
        """Mean of the mixture, (..., n_dims)."""
        return (self.weights.unsqueeze(-1) * self.means).sum(-2)

    @property
    def covariance(self) -> Tensor:
        """Covariance of the mixture, (..., n_dims, n_dims).

        This covariance is the mean covariance of the components plus the covariance of their means.
        """
        weights = self.weights[..., None, None]
        centered = (self.means - self.mean.unsqueeze(-2)).unsqueeze(-1)
        return (weights * (self.scale_trils @ self.scale_trils.mT + centered @ centered.mT)).sum(-3)

    @property
    def variance(self) -> Tensor:
        """Variances of the coordinates, (..., n_dims)."""
        spread = self.scale_trils.square().sum(-1) + (self.means - self.mean.unsqueeze(-2)).square()
        return (self.weights.unsqueeze(-1) * spread).sum(-2)

    @property
    @torch.no_grad()
    def mode(self) -> Tensor:
        """Highest local maximum of the density that an ascent from a component's mean reaches, (..., n_dims).

        Fixed-point iterations ascend from each mean (Carreira-Perpinan 2000). A mixture may have more maxima than
        components. Therefore, a higher maximum is missed in rare cases. The time is quadratic in the number of
        components.
        """
        factors = self.scale_trils.expand(*self.means.shape, self.n_dims).unsqueeze(-4)
        precisions = torch.cholesky_inverse(factors)
        linear = (precisions @ self.means.unsqueeze(-3).unsqueeze(-1)).squeeze(-1)
        least = torch.linalg.svdvals(self.scale_trils)[..., -1].min()
        spread = GaussianMixture(  # a batch of equal mixtures, with one entry for each mean
            self.log_weights.unsqueeze(-2), self.means.unsqueeze(-3), self.scale_trils.unsqueeze(-4)
        )
        point = self.means
        for _ in range(MODE_ITERATIONS):
            shares = spread.log_responsibilities(point).exp()
            precision = (shares[..., None, None] * precisions).sum(-3)
            following = torch.linalg.solve(precision, (shares.unsqueeze(-1) * linear).sum(-2))
            moved = (following - point).abs().max()
            point = following
            if moved <= MODE_TOLERANCE * least:
                break
        best = spread.log_prob(point).argmax(-1, keepdim=True)
        return point.gather(-2, best.unsqueeze(-1).expand(*best.shape, self.n_dims)).squeeze(-2)

    @torch.no_grad()
    def entropy(self, n_samples: int = 1000, generator: torch.Generator | None = None) -> Tensor:
        """Estimate the differential entropy [nat], (...), from samples, without gradients.

        `eim_ros.learning.models.entropy` also returns the standard error.
        """
        return -self.log_prob(self.sample(n_samples, generator)).mean(0)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> GaussianMixture:
        """Return the mixtures repeated along new axes of the batch."""
        shape = (*batch_shape, *self.means.shape[-2:])
        log_weights, factors = self.log_weights.expand(shape[:-1]), self.scale_trils.expand(*shape, self.n_dims)
        return GaussianMixture(log_weights, self.means.expand(shape), factors)

    def log_joint(self, sample: Tensor) -> Tensor:
        """Return log w_k + log N(x; mu_k, Sigma_k), (..., n_components), at samples (..., n_dims)."""
        return self.log_weights + self.components.log_prob(checked_values(sample, self.n_dims).unsqueeze(-2))

    @with_hints
    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log density [nat], (...), of samples (..., n_dims)."""
        return torch.logsumexp(self.log_joint(sample), -1)

    def log_responsibilities(self, sample: Tensor) -> Tensor:
        """Return the log posterior of the components given the sample, (..., n_components)."""
        return torch.log_softmax(self.log_joint(sample), -1)

    def score(self, sample: Tensor) -> Tensor:
        """Return the gradient of the log density with respect to samples (..., n_dims)."""
        weights = self.log_responsibilities(sample).exp().unsqueeze(-1)
        return (weights * self.components.score(sample.unsqueeze(-2))).sum(-2)

    def marginal(self, dims: Sequence[int]) -> GaussianMixture:
        """Return the marginal mixture of the coordinates `dims`, in the given order."""
        components = self.components.marginal(dims)
        return GaussianMixture(self.log_weights, components.mean, components.scale_tril)

    def condition(self, dims: Sequence[int], values: Tensor) -> GaussianMixture:
        """Return the mixture of the other coordinates, given the values of the coordinates `dims`.

        The weight of each component is multiplied by its density at the given values.

        Parameters
        ----------
        dims : sequence of int
            Coordinates to condition on. At least one other coordinate must remain.
        values : Tensor (..., len(dims))
            Values of these coordinates, which are broadcast against the batch. Values (n, len(dims)) turn a single
            mixture into a batch (n,).
        """
        given = checked_values(values, len(split_dims(dims, self.n_dims)[0]), "values")
        log_prob, components = self.components.split(dims, given.unsqueeze(-2))
        return GaussianMixture(self.log_weights + log_prob, components.mean, components.scale_tril)

    def product(self, other: Gaussian) -> tuple[GaussianMixture, Tensor]:
        """Return the normalised product with a Gaussian, and the log of the product's integral [nat], (...)."""
        expect(other, Gaussian, "the factor", DistributionError)
        factor = Gaussian(other.mean.unsqueeze(-2), other.scale_tril.unsqueeze(-3))
        components, log_integrals = self.components.product(factor)
        log_joint = self.log_weights + log_integrals
        return GaussianMixture(log_joint, components.mean, components.scale_tril), torch.logsumexp(log_joint, -1)

    def sample(self, sample_shape: int | Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Draw samples.

        Parameters
        ----------
        sample_shape : int or shape
            Number of samples from each mixture of the batch. The default is one.
        generator : torch.Generator, optional
            By default, torch's global generator.

        Returns
        -------
        Tensor (..., n_dims)
            The leading axes are `sample_shape`, followed by the batch shape.
        """
        return self.sample_with_components(sample_shape, generator)[0]

    @torch.no_grad()
    def sample_with_components(
        self, sample_shape: int | Sequence[int] = (), generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw samples like `sample`, and also return the component of each sample, (...) of int64."""
        shape = checked_shape(sample_shape)
        n_samples, batch = math.prod(shape), self.batch_shape
        if n_samples == 0:
            empty = self.means.new_empty(*shape, *batch, self.n_dims)
            return empty, torch.empty(empty.shape[:-1], dtype=torch.int64, device=empty.device)
        flat = self.weights.reshape(-1, self.n_components)
        drawn = torch.multinomial(flat, n_samples, replacement=True, generator=checked_generator(generator))
        index = drawn.T.reshape(n_samples, *batch)
        sample = torch.randn(
            (*index.shape, self.n_dims), generator=generator, dtype=self.means.dtype, device=self.means.device
        )
        components, step = self.components, max(1, CHUNK_ELEMENTS // (len(flat) * self.n_dims**2))
        for noise, component in zip(sample.split(step), index.split(step), strict=True):
            noise.copy_(_transformed(components, noise, component))
        return sample.reshape(*shape, *batch, self.n_dims), index.reshape((*shape, *batch))

    def reshape(self, batch_shape: Sequence[int]) -> GaussianMixture:
        """Return the same mixtures in a batch of another shape."""
        n_axes = len(self.batch_shape)
        factors = self.scale_trils.expand(*self.means.shape, self.n_dims)
        parts = (self.log_weights, self.means, factors)
        return GaussianMixture(*(part.reshape(*batch_shape, *part.shape[n_axes:]) for part in parts))

    def to(self, **options: Any) -> GaussianMixture:
        """Return the same mixture with another dtype or on another device."""
        return GaussianMixture.from_tensors({name: value.to(**options) for name, value in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters by name, in the form that `from_tensors` reads."""
        return {"log_weights": self.log_weights, "means": self.means, "scale_trils": self.scale_trils}

    @classmethod
    def from_covariances(cls, weights: Tensor, means: Tensor, covariances: Tensor) -> GaussianMixture:
        """Build a mixture from weights and covariances.

        Parameters
        ----------
        weights : Tensor (..., n_components)
            Non-negative weights, which need not sum to one.
        means : Tensor (..., n_components, n_dims)
        covariances : Tensor (..., n_components, n_dims, n_dims)
            Symmetric and positive definite matrices.
        """
        weights, covariances = as_parameter("weights", weights), as_parameter("covariances", covariances)
        if not bool((weights >= 0.0).all()):
            raise DistributionError(f"the weights must not be negative, got {weights.tolist()}", weights)
        if covariances.dim() < 2 or covariances.shape[-1] != covariances.shape[-2]:
            raise DistributionError(
                f"covariances must be square matrices, got shape {tuple(covariances.shape)}", covariances.shape
            )
        factors, info = torch.linalg.cholesky_ex(covariances)
        if bool((info != 0).any()) or not torch.allclose(covariances, covariances.mT):
            raise DistributionError("covariances must be symmetric and positive definite", covariances)
        return cls(weights.log(), means, factors)

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> GaussianMixture:
        """Build the mixture from named parameters. `DistributionError` lists the missing names."""
        return cls(*named_tensors(tensors, ("log_weights", "means", "scale_trils"), "a Gaussian mixture lacks"))


def _transformed(components: Gaussian, noise: Tensor, index: Tensor) -> Tensor:
    """Map standard normal noise (n, ..., n_dims) to samples of the components with the given indices (n, ...)."""
    n_dims, place = noise.shape[-1], index[..., None, None]
    means = components.mean.expand(len(noise), *components.mean.shape)
    factors = components.scale_tril.expand(*means.shape, n_dims)
    mean = means.gather(-2, place.expand(*index.shape, 1, n_dims)).squeeze(-2)
    factor = factors.gather(-3, place.unsqueeze(-1).expand(*index.shape, 1, n_dims, n_dims)).squeeze(-3)
    return mean + torch.einsum("...ij,...j->...i", factor, noise)


def _no_closed_form(model: Distribution, other: Distribution) -> Tensor:
    raise NotImplementedError(
        "the KL divergence of a mixture has no closed form; call eim_ros.learning.models.kl_divergence to estimate it "
        "from samples"
    )


for _types in ((GaussianMixture, GaussianMixture), (GaussianMixture, Distribution), (Distribution, GaussianMixture)):
    register_kl(*_types)(_no_closed_form)
