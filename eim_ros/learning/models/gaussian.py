"""Multivariate normal distributions with any batch shape, parameterised by the Cholesky factor of the covariance.

log N(x; mu, L L') = -1/2 |L^-1 (x - mu)|^2 - sum log diag L - d/2 log 2 pi

Parameters may also be given as arrays or lists of numbers, which are converted to tensors.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, MultivariateNormal, constraints, register_kl

from eim_ros.core.checks import as_numbers, with_hints
from eim_ros.core.errors import DistributionError

LOG_TWO_PI = math.log(2.0 * math.pi)


def tensor_fields(distribution: Any, *names: str) -> None:
    """Convert the named fields of a frozen dataclass to tensors. Call this in `__post_init__`."""
    for name in names:
        value = getattr(distribution, name)
        if not isinstance(value, Tensor):
            object.__setattr__(distribution, name, as_parameter(name, value))


def as_parameter(name: str, value: Any) -> Tensor:
    """Return a tensor unchanged, or convert an array or list of numbers to a float64 tensor.

    `DistributionError` with the name of the parameter is raised for any other value.
    """
    if isinstance(value, Tensor):
        return value
    try:
        return torch.from_numpy(np.array(as_numbers(value)))
    except (TypeError, ValueError) as error:
        raise DistributionError(f"{name} must be a tensor or an array of numbers, got {value!r}", value) from error


def tensors_of(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with the prefix, and remove the prefix from their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def named_tensors(tensors: dict[str, Tensor], names: Sequence[str], lacking: str) -> list[Tensor]:
    """Return the tensors with the given names, or raise `DistributionError` if some are missing."""
    # `lacking` is the beginning of the error message. The missing names complete it.
    missing = [name for name in names if name not in tensors]
    if missing:
        raise DistributionError(f"{lacking} {', '.join(missing)}", sorted(tensors))
    return [tensors[name] for name in names]


def checked_values(values: Tensor, n_columns: int, name: str = "samples") -> Tensor:
    """Return the values if they are a tensor (..., n_columns), otherwise raise `DistributionError`."""
    if not isinstance(values, Tensor):
        raise DistributionError(
            f"{name} must be a tensor (..., {n_columns}), got an object of type {type(values).__name__}; "
            "convert it with torch.as_tensor, or call FittedModel.of(model), which accepts arrays",
            values,
        )
    if values.dim() == 0 or values.shape[-1] != n_columns:
        raise DistributionError(
            f"{name} must be a tensor (..., {n_columns}), got shape {tuple(values.shape)}", tuple(values.shape)
        )
    return values


def checked_generator(generator: torch.Generator | None) -> torch.Generator | None:
    """Return the generator if it is a `torch.Generator` or None, otherwise raise `DistributionError`."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise DistributionError(f"generator must be a torch.Generator, got {generator!r}", generator)
    return generator


@with_hints
@dataclass(frozen=True, slots=True)  # with slots, the attribute `mean` hides the property of the base class
class Gaussian(Distribution):
    """Batch of multivariate normal distributions, which is a `torch.distributions.Distribution`.

    Attributes
    ----------
    mean : Tensor (..., n_dims)
    scale_tril : Tensor (..., n_dims, n_dims)
        Lower Cholesky factor of the covariance, with a positive diagonal. Its batch shape may be broadcast.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.models import Gaussian
    >>> normal = Gaussian(torch.zeros(2), torch.eye(2))
    >>> round(float(normal.log_prob(torch.zeros(2))), 4)  # -log(2 pi)
    -1.8379
    """

    mean: Tensor = field()
    scale_tril: Tensor

    arg_constraints: ClassVar = {"mean": constraints.real_vector, "scale_tril": constraints.lower_cholesky}
    support: ClassVar = constraints.real_vector
    has_rsample = True

    def __post_init__(self) -> None:
        tensor_fields(self, "mean", "scale_tril")
        if not self.mean.dim():
            raise DistributionError(
                "the mean must be a vector (..., n_dims), got a number; use a vector with one entry for a scalar "
                "distribution",
                self.mean,
            )
        check_scale_tril(self.scale_tril, self.mean.shape[-1])

    @property
    def n_dims(self) -> int:
        return self.mean.shape[-1]

    @property
    def batch_shape(self) -> torch.Size:
        # torch.broadcast_shapes would import sympy, which takes seconds
        return torch.Size(np.broadcast_shapes(self.mean.shape[:-1], self.scale_tril.shape[:-2]))

    @property
    def event_shape(self) -> torch.Size:
        return self.mean.shape[-1:]

    @property
    def covariance(self) -> Tensor:
        """L L', (..., n_dims, n_dims)."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def variance(self) -> Tensor:
        """Variances of the coordinates, (..., n_dims)."""
        return self.scale_tril.square().sum(-1).expand(*self.batch_shape, self.n_dims)

    @property
    def mode(self) -> Tensor:
        """Highest point of the density, which is the mean, (..., n_dims)."""
        return self.mean

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Gaussian:
        """Return the distributions repeated along new axes of the batch, without copying the parameters."""
        shape = (*batch_shape, self.n_dims)
        return Gaussian(self.mean.expand(shape), self.scale_tril.expand(*shape, self.n_dims))

    @with_hints
    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log density [nat], (...), of samples (..., n_dims)."""
        log_prob: Tensor = -0.5 * self.whiten(sample).square().sum(-1) + log_normaliser(self.scale_tril)
        return log_prob

    def whiten(self, sample: Tensor) -> Tensor:
        """Return L^-1 (sample - mean), (..., n_dims)."""
        residual = (checked_values(sample, self.n_dims) - self.mean).unsqueeze(-1)
        factor = self.scale_tril.expand(*residual.shape[:-2], *self.scale_tril.shape[-2:])
        whitened: Tensor = torch.linalg.solve_triangular(factor, residual, upper=False)
        return whitened.squeeze(-1)

    def score(self, sample: Tensor) -> Tensor:
        """Return the gradient of the log density at samples (..., n_dims), -Sigma^-1 (sample - mean)."""
        whitened = self.whiten(sample).unsqueeze(-1)
        factor = self.scale_tril.expand(*whitened.shape[:-2], *self.scale_tril.shape[-2:])
        score: Tensor = -torch.linalg.solve_triangular(factor.mT, whitened, upper=True)
        return score.squeeze(-1)

    def sample(self, sample_shape: int | Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Draw samples like `rsample`, without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape, generator)

    def rsample(self, sample_shape: int | Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Draw reparameterised samples, which are differentiable with respect to the mean and the factor.

        Parameters
        ----------
        sample_shape : int or shape
            Number of samples from each distribution of the batch. The default is one.
        generator : torch.Generator, optional
            By default, torch's global generator.

        Returns
        -------
        Tensor (..., n_dims)
            The leading axes are `sample_shape`, followed by the batch shape.
        """
        shape = (*checked_shape(sample_shape), *self.batch_shape, self.n_dims)
        noise = torch.randn(
            shape, generator=checked_generator(generator), dtype=self.mean.dtype, device=self.mean.device
        )
        return self.mean + torch.einsum("...ij,...j->...i", self.scale_tril, noise)

    def entropy(self) -> Tensor:
        """Return the differential entropy [nat], with the batch shape of `scale_tril`."""
        entropy: Tensor = 0.5 * self.n_dims - log_normaliser(self.scale_tril)
        return entropy

    def kl(self, other: Gaussian) -> Tensor:
        """Return KL(self || other) [nat], (...)."""
        factor: Tensor = torch.linalg.solve_triangular(other.scale_tril, self.scale_tril, upper=False)
        trace = factor.square().sum((-2, -1))
        log_det = log_normaliser(self.scale_tril) - log_normaliser(other.scale_tril)
        return 0.5 * (trace + other.whiten(self.mean).square().sum(-1) - self.n_dims) + log_det

    def marginal(self, dims: Sequence[int]) -> Gaussian:
        """Return the marginal distribution of the coordinates `dims`, in the given order."""
        kept, _ = split_dims(dims, self.n_dims)
        return Gaussian(self.mean[..., kept], triangular_factor(self.scale_tril[..., kept, :]))

    def condition(self, dims: Sequence[int], values: Tensor) -> Gaussian:
        """Return the distribution of the other coordinates, given the values of the coordinates `dims`.

        Parameters
        ----------
        dims : sequence of int
            Coordinates to condition on. At least one other coordinate must remain.
        values : Tensor (..., len(dims))
            Values of these coordinates, which are broadcast against the batch. Values (n, len(dims)) turn a single
            distribution into a batch (n,).
        """
        return self.split(dims, values)[1]

    def split(self, dims: Sequence[int], values: Tensor) -> tuple[Tensor, Gaussian]:
        """Return the log density [nat], (...), of values of `dims`, and the distribution of the other coordinates.

        The second result is conditional on the values. Let [[A, 0], [B, D]] be the factor with the given coordinates
        first. The conditional mean is mean_rest + B A^-1 (values - mean_given), and the conditional factor is D.
        """
        given, rest = split_dims(dims, self.n_dims)
        if not rest:
            raise DistributionError(
                f"at least one coordinate must remain, but dims contains all {self.n_dims} coordinates", list(dims)
            )
        factor, n = triangular_factor(self.scale_tril[..., [*given, *rest], :]), len(given)
        marginal = Gaussian(self.mean[..., given], factor[..., :n, :n])
        whitened = marginal.whiten(values)
        log_prob = -0.5 * whitened.square().sum(-1) + log_normaliser(marginal.scale_tril)
        shift = (factor[..., n:, :n] @ whitened.unsqueeze(-1)).squeeze(-1)
        return log_prob, Gaussian(self.mean[..., rest] + shift, factor[..., n:, n:])

    def product(self, other: Gaussian) -> tuple[Gaussian, Tensor]:
        """Return the normalised product of two densities, and the log of the product's integral [nat], (...).

        N(x; a, A) N(x; b, B) = N(b; a, A + B) N(x; c, C). Here N(c, C) is the posterior of x ~ N(a, A) after a
        measurement b of x whose noise has the covariance B.
        """
        batch = np.broadcast_shapes(self.scale_tril.shape, other.scale_tril.shape)
        own, noise = self.scale_tril.expand(batch), other.scale_tril.expand(batch)
        rows = [torch.cat([own, noise], -1), torch.cat([own, torch.zeros_like(own)], -1)]
        mean = torch.cat([self.mean, self.mean], -1)
        observed = Gaussian(mean, triangular_factor(torch.cat(rows, -2)))
        log_integral, product = observed.split(range(self.n_dims), other.mean)
        return product, log_integral

    def tilt(self, curvature: Tensor, linear: Tensor) -> tuple[Gaussian, Tensor]:
        """Return the density proportional to N(x) exp(-1/2 x'Rx + h'x), and the log of its integral [nat], (...).

        Parameters
        ----------
        curvature : Tensor (..., n_dims, n_dims)
            R, which is symmetric and may be indefinite.
        linear : Tensor (..., n_dims)
            h.

        Raises
        ------
        DistributionError
            If the integral diverges because Sigma^-1 + R is not positive definite.
        """
        whitened = self.scale_tril.mT @ curvature @ self.scale_tril
        precision = whitened + torch.eye(self.n_dims, dtype=whitened.dtype, device=whitened.device)
        root, info = torch.linalg.cholesky_ex(precision)
        if bool((info != 0).any()):
            raise DistributionError(
                "the tilted density cannot be normalised, because Sigma^-1 + R is not positive definite", curvature
            )
        slope = linear - (curvature @ self.mean.unsqueeze(-1)).squeeze(-1)
        gradient = self.scale_tril.mT @ slope.unsqueeze(-1)
        half = torch.linalg.solve_triangular(root, gradient, upper=False)
        # factor C with C C' = L precision^-1 L'
        rows: Tensor = torch.linalg.solve_triangular(root, self.scale_tril.mT, upper=False).mT
        constant = 0.5 * ((linear + slope) * self.mean).sum(-1) + 0.5 * half.square().sum((-2, -1))
        log_det = torch.diagonal(root, dim1=-2, dim2=-1).log().sum(-1)
        return Gaussian(self.mean + (rows @ half).squeeze(-1), triangular_factor(rows)), constant - log_det

    def to(self, **options: Any) -> Gaussian:
        """Return the same distribution with another dtype or on another device."""
        return Gaussian(self.mean.to(**options), self.scale_tril.to(**options))

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters by name, in the form that `from_tensors` reads."""
        return {"mean": self.mean, "scale_tril": self.scale_tril}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Gaussian:
        """Build the distribution from the named parameters that `tensors` returns."""
        return cls(*named_tensors(tensors, ("mean", "scale_tril"), "a Gaussian lacks"))


def _kl(model: Any, other: Any) -> Tensor:
    """Return KL(model || other) for `torch.distributions.kl_divergence`."""
    first, second = (
        Gaussian(part.loc, part.scale_tril) if isinstance(part, MultivariateNormal) else part for part in (model, other)
    )
    return first.kl(second)


for _types in ((Gaussian, Gaussian), (Gaussian, MultivariateNormal), (MultivariateNormal, Gaussian)):
    register_kl(*_types)(_kl)


def triangular_factor(rows: Tensor) -> Tensor:
    """Return the lower Cholesky factor (..., m, m) of rows rows', for rows (..., m, n) of full rank m <= n.

    The factor is computed by a QR decomposition. Computing the product rows rows' would square the condition number.
    """
    upper: Tensor = torch.linalg.qr(rows.mT, mode="r").R
    sign = torch.where(torch.diagonal(upper, dim1=-2, dim2=-1) < 0.0, -1.0, 1.0).to(rows.dtype)
    return (upper * sign.unsqueeze(-1)).mT


def split_dims(dims: Sequence[int], n_dims: int) -> tuple[list[int], list[int]]:
    """Return the chosen coordinates as non-negative numbers, and the other coordinates in ascending order.

    Coordinates are counted from 0, or from the end if negative.
    """
    try:
        given = [operator.index(dim) for dim in dims]
    except (TypeError, RuntimeError) as error:
        raise DistributionError(f"dims must be a list of integers, got {dims!r}", dims) from error
    chosen = [dim % n_dims if -n_dims <= dim < n_dims else n_dims for dim in given]
    if not chosen or n_dims in chosen or len(set(chosen)) < len(chosen):
        raise DistributionError(
            f"dims must contain different coordinates from 0 to {n_dims - 1}, got {list(dims)}", list(dims)
        )
    return chosen, [dim for dim in range(n_dims) if dim not in chosen]


def checked_shape(n: int | Sequence[int]) -> tuple[int, ...]:
    """Return the number of samples as a shape, or raise `DistributionError` if it is neither a count nor a shape."""
    try:
        shape = tuple(
            -1 if isinstance(size, bool) else operator.index(size) for size in (n if isinstance(n, Sequence) else (n,))
        )
    except TypeError:
        shape = (-1,)
    if not all(0 <= size < 2**63 for size in shape):
        raise DistributionError(
            f"the first argument must be the number of samples or a shape, as in sample(100, generator), got {n!r}", n
        )
    return shape


def all_finite(values: Tensor) -> bool:
    """Return whether all entries are finite. Their sum is tested first, because this test is faster."""
    return math.isfinite(values.detach().sum().item()) or bool(torch.isfinite(values).all())


def log_normaliser(scale_tril: Tensor) -> Tensor:
    """Return the log density at the mean, -sum log diag L - d/2 log 2 pi, (...)."""
    diagonal = torch.diagonal(scale_tril, dim1=-2, dim2=-1)
    return -diagonal.log().sum(-1) - 0.5 * diagonal.shape[-1] * LOG_TWO_PI


def check_scale_tril(scale_tril: Tensor, n_dims: int) -> None:
    """Raise `DistributionError` unless the factors are (..., n_dims, n_dims), finite, and have positive diagonals."""
    if scale_tril.dim() < 2 or scale_tril.shape[-2:] != (n_dims, n_dims):
        raise DistributionError(
            f"scale_tril must have the shape (..., {n_dims}, {n_dims}), got {tuple(scale_tril.shape)}", scale_tril.shape
        )
    diagonal = torch.diagonal(scale_tril, dim1=-2, dim2=-1)
    if not (all_finite(scale_tril) and bool((diagonal > 0.0).all())):
        raise DistributionError("scale_tril must be finite and have a positive diagonal", scale_tril)
