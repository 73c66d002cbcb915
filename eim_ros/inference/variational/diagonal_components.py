"""Components with diagonal covariances, parameterised by means and standard deviations."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.inference.variational.component_densities import Densities
from eim_ros.inference.variational.constant_weights import ConstantWeights
from eim_ros.inference.variational.gaussian_batch import padded_noise, representable
from eim_ros.inference.variational.spectrum import NaturalGradient, Spectrum

__all__ = ["DiagonalComponents"]

LOG_TWO_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class DiagonalComponents(ConstantWeights):
    """See `Components`.

    Attributes
    ----------
    means : Tensor (n_components, n_dims)
    scales : Tensor (n_components, n_dims)
        Standard deviations, > 0.
    """

    means: Tensor
    scales: Tensor

    @property
    def scale_trils(self) -> Tensor:
        return torch.diag_embed(self.scales)

    @property
    def n_components(self) -> int:
        return self.means.shape[0]

    @property
    def n_dims(self) -> int:
        return self.means.shape[1]

    def entropy(self) -> Tensor:
        return self.scales.log().sum(-1) + 0.5 * self.n_dims * (1.0 + LOG_TWO_PI)

    def densities(self) -> Densities:
        return _Densities(self)

    def sample(self, counts: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        noise, drawn = padded_noise(counts, self.means, generator)
        sample = self.means.unsqueeze(1) + noise * self.scales.unsqueeze(1)
        component = torch.arange(self.n_components, device=counts.device).repeat_interleave(counts)
        return (sample.flatten(0, 1) if drawn is None else sample[drawn]), component

    def whiten(self, sample: Tensor) -> Tensor:
        return (sample - self.means.unsqueeze(1)) / self.scales.unsqueeze(1)

    def products(self, sample: Tensor, gradient: Tensor) -> Tensor:
        return sample * gradient

    def stein_gradient(self, offset: Tensor, moment: Tensor, slope: Tensor) -> NaturalGradient:
        return NaturalGradient((self.means - offset) * slope - moment, self.scales * slope)

    def regressed_gradient(
        self, offset: Tensor, moments: tuple[Tensor, Tensor], mean: Tensor, slope: Tensor
    ) -> NaturalGradient:
        hessian = (moments[0] - mean * slope) / (moments[1] - mean.square())
        at_mean = slope - hessian * (mean - (self.means - offset))
        return NaturalGradient(-self.scales.square() * hessian, self.scales * at_mean)

    def quadratic_features(self, whitened: Tensor) -> Tensor:
        return whitened.square()

    def quadratic_gradient(self, coefficients: Tensor, slope: Tensor) -> NaturalGradient:
        return NaturalGradient(-2.0 * coefficients, slope)

    def spectrum(self, gradient: NaturalGradient) -> Spectrum:
        return Spectrum(gradient.curvature, gradient.slope.unsqueeze(-1))

    def moved(
        self, spectrum: Spectrum, precision: Tensor, shift: Tensor, accepted: Tensor
    ) -> tuple[DiagonalComponents, Tensor]:
        scales, step = self.scales * precision.rsqrt(), self.scales * shift.squeeze(-1)
        usable = torch.isfinite(scales) & (scales > 0.0) & torch.isfinite(step)
        means = self.means + step
        moved = accepted & usable.all(-1) & representable(means, scales)
        means = torch.where(moved.unsqueeze(-1), means, self.means)
        return DiagonalComponents(means, torch.where(moved.unsqueeze(-1), scales, self.scales)), moved

    def take(self, index: Tensor) -> DiagonalComponents:
        return DiagonalComponents(self.means[index], self.scales[index])

    def with_halves(
        self, log_weights: Tensor, whole: Tensor, heavy: Tensor, share: float
    ) -> tuple[Tensor, DiagonalComponents]:
        means, scales, half = self.means[heavy], self.scales[heavy], log_weights[heavy] - math.log(2.0)
        longest = torch.nn.functional.one_hot(scales.argmax(-1), self.n_dims).to(scales)
        apart, scales = math.sqrt(share) * longest * scales, scales * (1.0 - share * longest).sqrt()
        return torch.cat([log_weights[whole], half, half]), DiagonalComponents(
            torch.cat([self.means[whole], means + apart, means - apart]),
            torch.cat([self.scales[whole], scales, scales]),
        )

    def joined(self, other: DiagonalComponents) -> DiagonalComponents:
        return DiagonalComponents(torch.cat([self.means, other.means]), torch.cat([self.scales, other.scales]))

    def isotropic(self, mean: Tensor, variance: Tensor) -> DiagonalComponents:
        return DiagonalComponents(mean.unsqueeze(0), variance.sqrt().expand(1, self.n_dims))

    def tensors(self) -> dict[str, Tensor]:
        return {"means": self.means, "scales": self.scales}


class _Densities:
    """Densities as one matrix product with the samples and their squares, measured from the components' mean."""

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
