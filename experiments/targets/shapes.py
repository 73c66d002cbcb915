"""Analytic targets with a known normaliser: banana, funnel, and mixtures of normal or Student's t densities.

`Banana` is a normal density bent along a parabola (Haario, Saksman and Tamminen 1999): x_1 ~ N(0, s^2), x_2 given x_1 ~
N(-b (x_1^2 - s^2), 1), others standard normal. The map from the normal density has determinant 1.

`Funnel` is Neal's funnel (2003): x_1 ~ N(0, 9), and x_i ~ N(0, exp(x_1)) for i > 1.

`EllipticalMixture` is sum_k w_k f(|W_k'(x - mu_k)|^2) |det W_k|, with r^2 = |W'(x - mu)|^2 and, in d dimensions,

    log f(r^2) = -d/2 log 2 pi - r^2 / 2                                                              (normal)
    log f(r^2) = log G((nu+d)/2) - log G(nu/2) - d/2 log(nu pi) - (nu+d)/2 log(1 + r^2/nu)             (Student)

One matrix product computes the whitened residuals of all components. Another one computes the sum of their gradients.

GMM-d and STM-d are random mixtures of equal weights in many dimensions (Arenz et al. 2023, appendix J). Means are
uniform in [-b, b]^d, and the entries of a square matrix A are from N(0, (0.1 d)^2). A normal component has the
covariance A'A + I (Arenz et al. 2020). A Student component has the scale matrix (A'A + I)^-1 (Lin et al. 2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from eim_ros.core.errors import DistributionError
from experiments.targets.target import MixtureStart, checked_samples

LOG_TWO_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Banana:
    """Thin, bent density.

    Attributes
    ----------
    n_dims : int
        At least 2.
    curvature : float
        b in the module docstring.
    length : float
        s in the module docstring.
    """

    n_dims: int = 2
    curvature: float = 0.1
    length: float = 10.0

    def __post_init__(self) -> None:
        if self.n_dims < 2 or not self.length > 0.0:
            raise DistributionError(
                f"a banana needs n_dims >= 2 and length > 0, got {self.n_dims} and {self.length}", self.n_dims
            )

    @property
    def start(self) -> MixtureStart:
        return MixtureStart.isotropic(self.n_dims, 1, self.length, self.length**2)

    @property
    def log_normaliser(self) -> float:
        """Log normaliser: 0, because the density is normalised."""
        return 0.0

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log density [nat], (n_samples,)."""
        straight = self._straightened(checked_samples(x, self.n_dims))
        squares = straight.square().sum(-1) + (1.0 / self.length**2 - 1.0) * straight[:, 0].square()
        return -0.5 * (squares + self.n_dims * LOG_TWO_PI) - math.log(self.length)

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient of the log density, (n_samples, n_dims)."""
        score = -self._straightened(checked_samples(x, self.n_dims))
        score[:, 0] = score[:, 0] / self.length**2 + score[:, 1] * 2.0 * self.curvature * x[:, 0]
        return score

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw independent samples (n, n_dims)."""
        sample = torch.randn(n, self.n_dims, generator=generator, dtype=torch.float64)
        sample[:, 0] *= self.length
        sample[:, 1] -= self._bend(sample[:, 0])
        return sample

    def _bend(self, first: Tensor) -> Tensor:
        return self.curvature * (first.square() - self.length**2)

    def _straightened(self, x: Tensor) -> Tensor:
        """Return the normal variable (n_samples, n_dims). Its first coordinate is not divided by the length yet."""
        return torch.cat([x[:, :1], (x[:, 1] + self._bend(x[:, 0])).unsqueeze(-1), x[:, 2:]], -1)


@dataclass(frozen=True)
class Funnel:
    """Density whose width varies by orders of magnitude.

    Attributes
    ----------
    n_dims : int
        At least 2; 10 in most comparisons.
    neck_scale : float
        Standard deviation of x_1, the log variance of the other coordinates.
    """

    n_dims: int = 10
    neck_scale: float = 3.0

    def __post_init__(self) -> None:
        if self.n_dims < 2 or not self.neck_scale > 0.0:
            raise DistributionError(
                f"a funnel needs n_dims >= 2 and neck_scale > 0, got {self.n_dims} and {self.neck_scale}", self.n_dims
            )

    @property
    def start(self) -> MixtureStart:
        return MixtureStart.isotropic(self.n_dims, 1, 1.0, 1.0)

    @property
    def log_normaliser(self) -> float:
        """Log normaliser: 0, because the density is normalised."""
        return 0.0

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log density [nat], (n_samples,)."""
        neck, squares = self._parts(checked_samples(x, self.n_dims))
        constant = math.log(self.neck_scale) + 0.5 * self.n_dims * LOG_TWO_PI
        spread = (self.n_dims - 1) * neck + squares * (-neck).exp()
        return -0.5 * ((neck / self.neck_scale).square() + spread) - constant

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient of the log density, (n_samples, n_dims)."""
        x = checked_samples(x, self.n_dims)
        neck, squares = self._parts(x)
        narrowness = (-neck).exp()
        of_neck = -neck / self.neck_scale**2 + 0.5 * (squares * narrowness - (self.n_dims - 1))
        return torch.cat([of_neck.unsqueeze(-1), -x[:, 1:] * narrowness.unsqueeze(-1)], -1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw independent samples (n, n_dims)."""
        noise = torch.randn(n, self.n_dims, generator=generator, dtype=torch.float64)
        neck = self.neck_scale * noise[:, :1]
        return torch.cat([neck, noise[:, 1:] * (0.5 * neck).exp()], -1)

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x_1 and the sum of squares of the other coordinates."""
        return x[:, 0], x[:, 1:].square().sum(-1)


@dataclass(frozen=True)
class EllipticalMixture:
    """Normalised mixture with known modes.

    Attributes
    ----------
    log_weights : Tensor (n_components,)
        Normalised log weights. The constructor does not check the normalisation.
    means : Tensor (n_components, n_dims)
    scale_trils : Tensor (n_components, n_dims, n_dims)
        Lower Cholesky factors of the scale matrices. These are the covariances of normal components.
    start : MixtureStart
    degrees_of_freedom : float
        nu of Student's t; infinite for normal components.
    """

    log_weights: Tensor
    means: Tensor
    scale_trils: Tensor
    start: MixtureStart
    degrees_of_freedom: float = math.inf

    def __post_init__(self) -> None:
        n, d = self.means.shape
        if self.log_weights.shape != (n,) or self.scale_trils.shape != (n, d, d):
            raise DistributionError(
                "expected log_weights (k,), means (k, d) and scale_trils (k, d, d), got "
                f"{tuple(self.log_weights.shape)}, {(n, d)} and {tuple(self.scale_trils.shape)}",
                self.scale_trils.shape,
            )
        if not self.degrees_of_freedom > 0.0:
            raise DistributionError("degrees of freedom must be above 0", self.degrees_of_freedom)

    @property
    def n_dims(self) -> int:
        return self.means.shape[1]

    @property
    def log_normaliser(self) -> float:
        """Log normaliser: 0, because the density is normalised."""
        return 0.0

    @property
    def modes(self) -> Tensor:
        """Means of the components, (n_components, n_dims)."""
        return self.means

    @property
    def mode_radius(self) -> float:
        """6 sqrt(n_dims), the radius in which the mean of a component finds a mode, as in the code of Arenz et al.
        2023.
        """
        return 6.0 * math.sqrt(self.n_dims)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log density [nat], (n_samples,)."""
        _, squared = self._whitened(checked_samples(x, self.n_dims))
        return torch.logsumexp(self._constants + self._profile(squared), -1)

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient of the log density, (n_samples, n_dims)."""
        return self.log_prob_and_score(x)[1]

    def log_prob_and_score(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density and its gradient, with one evaluation of the residuals."""
        whitened, squared = self._whitened(checked_samples(x, self.n_dims))
        log_joint = self._constants + self._profile(squared)
        log_prob = torch.logsumexp(log_joint, -1)
        pull = (log_joint - log_prob.unsqueeze(-1)).exp()
        if math.isfinite(self.degrees_of_freedom):
            nu = self.degrees_of_freedom
            pull = pull * ((nu + self.n_dims) / (nu + squared))
        return log_prob, -(pull.unsqueeze(-1) * whitened).flatten(1) @ self._columns.T

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw independent samples (n, n_dims)."""
        index = torch.multinomial(self.log_weights.exp(), n, replacement=True, generator=generator)
        sample = torch.empty(n, self.n_dims, dtype=self.means.dtype)
        noise = torch.randn(n, self.n_dims, generator=generator, dtype=self.means.dtype)
        if math.isfinite(self.degrees_of_freedom):
            noise = noise * self._stretch(n, generator).unsqueeze(-1)
        for k in range(len(self.means)):  # one factor per sample would take n d^2 numbers
            own = index == k
            sample[own] = self.means[k] + noise[own] @ self.scale_trils[k].T
        return sample

    @cached_property
    def _columns(self) -> Tensor:
        """W = L'^-1 of all components side by side, (n_dims, n_components n_dims)."""
        identity = torch.eye(self.n_dims, dtype=self.means.dtype).expand_as(self.scale_trils)
        inverse: Tensor = torch.linalg.solve_triangular(self.scale_trils, identity, upper=False)
        return inverse.permute(2, 0, 1).flatten(1).contiguous()

    @cached_property
    def _shift(self) -> Tensor:
        """W'mu of all components, (n_components, n_dims)."""
        shift: Tensor = torch.linalg.solve_triangular(self.scale_trils, self.means.unsqueeze(-1), upper=False)
        return shift.squeeze(-1)

    @cached_property
    def _constants(self) -> Tensor:
        """Log weights plus the terms of log f and log |det W| that do not depend on r^2, (n_components,)."""
        d, nu = self.n_dims, self.degrees_of_freedom
        constant = -0.5 * d * math.log(2.0 * math.pi)
        if math.isfinite(nu):
            constant = math.lgamma(0.5 * (nu + d)) - math.lgamma(0.5 * nu) - 0.5 * d * math.log(nu * math.pi)
        return self.log_weights + constant - self.scale_trils.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def _whitened(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the residuals (n_samples, n_components, n_dims) and their squared norms (n_samples, n_components)."""
        whitened = (x @ self._columns).unflatten(1, self._shift.shape) - self._shift
        return whitened, whitened.square().sum(-1)

    def _profile(self, squared: Tensor) -> Tensor:
        nu = self.degrees_of_freedom
        if math.isfinite(nu):
            return -0.5 * (nu + self.n_dims) * torch.log1p(squared / nu)
        return -0.5 * squared

    def _stretch(self, n: int, generator: torch.Generator | None) -> Tensor:
        """Draw sqrt(nu / chi^2_nu), (n,)."""
        shape = torch.full((n,), 0.5 * self.degrees_of_freedom, dtype=self.means.dtype)
        chi_squared = 2.0 * torch._standard_gamma(shape, generator=generator)
        return (self.degrees_of_freedom / chi_squared).sqrt()


def random_gaussian_mixture(n_dims: int, generator: torch.Generator, n_components: int = 10) -> EllipticalMixture:
    """Draw GMM-d. The paper uses 20 and 100 dimensions, and 10 components with means in [-50, 50]."""
    means, scatter = _drawn(n_dims, n_components, 50.0, generator)
    start = MixtureStart.isotropic(n_dims, 1, 1000.0**0.5, 1000.0)
    return EllipticalMixture(_equal(n_components), means, torch.linalg.cholesky(scatter), start)


def random_student_mixture(
    n_dims: int, generator: torch.Generator, n_components: int | None = None, degrees_of_freedom: float = 2.0
) -> EllipticalMixture:
    """Draw STM-d.

    The paper uses 20 dimensions with 10 components and means in [-20, 20], and 300 dimensions with 20 components and
    means in [-25, 25].

    Parameters
    ----------
    n_dims : int
        Above 20, means are within 25 instead of 20, and the default of `n_components` is 20 instead of 10.
    generator : torch.Generator
    n_components : int, optional
    degrees_of_freedom : float

    Returns
    -------
    EllipticalMixture
    """
    large = n_dims > 20
    n = (20 if large else 10) if n_components is None else n_components
    means, precisions = _drawn(n_dims, n, 25.0 if large else 20.0, generator)
    start = MixtureStart.isotropic(n_dims, 20, 100.0, 300.0)
    return EllipticalMixture(_equal(n), means, _factor_of_inverse(precisions), start, degrees_of_freedom)


def _drawn(n_dims: int, n_components: int, bound: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw means (n_components, n_dims) and matrices A'A + I."""
    if n_dims < 1 or n_components < 1:
        raise DistributionError(
            f"a mixture needs at least one dimension and one component, got {n_dims} and {n_components}", n_dims
        )
    means = bound * (2.0 * torch.rand(n_components, n_dims, generator=generator, dtype=torch.float64) - 1.0)
    factors = torch.randn(n_components, n_dims, n_dims, generator=generator, dtype=torch.float64) * (0.1 * n_dims)
    return means, factors.mT @ factors + torch.eye(n_dims, dtype=torch.float64)


def _equal(n_components: int) -> Tensor:
    return torch.full((n_components,), -math.log(n_components), dtype=torch.float64)


def _factor_of_inverse(precisions: Tensor) -> Tensor:
    """Return the lower Cholesky factors L of P^-1.

    If the order of the dimensions is reversed, the Cholesky factor of P is the transpose of L^-1.
    """
    reversed_factor = torch.linalg.cholesky(precisions.flip(-2, -1)).flip(-2, -1)  # upper U with U U' = P
    identity = torch.eye(precisions.shape[-1], dtype=precisions.dtype).expand_as(precisions)
    factor: Tensor = torch.linalg.solve_triangular(reversed_factor.mT, identity, upper=False)
    return factor
