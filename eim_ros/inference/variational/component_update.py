"""Updates of the components along their natural gradients (paper, section 3.3).

In a component's own coordinates, along the eigenvectors of its curvature (`components.py`), with step size beta:

    direct        P' = P + beta G,  P' mu' = P mu + beta (G mu + g)              a = 1 + beta lambda,  m = beta gamma/a
    iBLR          P' = P + beta (G + beta/2 G Sigma G),  mu' = mu + beta Sigma g
                                                     a = 1 + beta lambda + (beta lambda)^2/2,  m = beta gamma
    trust region  direct with beta = 1/eta, the least eta >= 1 with KL(new, old) <= step        a = 1 + lambda/eta

The direct update has no bound: where its precision is not positive definite it is not made. That of the improved
Bayesian learning rule is always positive, a = (1 + (1 + beta lambda)^2)/2. (In the paper's equation 8 the line of the
mean has r where g is right.) The trust region takes the temperature's place by R = log p~/T - log q: eta >= 1 here is
eta >= T there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.inference.variational.least_multiplier import least_multiplier
from eim_ros.inference.variational.spectrum import Spectrum

__all__ = ["ComponentStep", "ComponentUpdate", "DirectUpdate", "ImprovedBayesianUpdate", "TrustRegionUpdate"]


@dataclass(frozen=True)
class ComponentStep:
    """Steps of all components along the eigenvectors of their curvatures.

    Attributes
    ----------
    precision : Tensor (n_components, n_dims)
        a, factor of the precision.
    shift : Tensor (n_components, n_dims, n_features)
        m, of the mean.
    accepted : Tensor (n_components,) of bool
    """

    precision: Tensor
    shift: Tensor
    accepted: Tensor

    def kl(self) -> Tensor:
        """KL(new, old) [nat], (n_components,)."""
        return _kl(self.precision, self.shift.square().sum(-1))


class ComponentUpdate(Protocol):
    """A rule for the steps of all components."""

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        """Steps from natural gradients and step sizes (n_components,)."""
        ...


@dataclass(frozen=True)
class DirectUpdate:
    """The natural gradient times the step size (I)."""

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        beta = step.unsqueeze(-1)
        precision = 1.0 + beta * spectrum.curvature
        shift = (beta / precision).unsqueeze(-1) * spectrum.slope
        return ComponentStep(precision, shift, (precision > 0.0).all(-1))


@dataclass(frozen=True)
class ImprovedBayesianUpdate:
    """The improved Bayesian learning rule, whose covariances stay positive (Y)."""

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        beta = step.unsqueeze(-1)
        scaled = beta * spectrum.curvature
        precision = 1.0 + scaled + 0.5 * scaled.square()
        return ComponentStep(precision, beta.unsqueeze(-1) * spectrum.slope, (precision > 0.0).all(-1))


@dataclass(frozen=True)
class TrustRegionUpdate:
    """The longest natural-gradient step within a KL of the old component, at most one to the surrogate's maximum (T).

    The step size is the bound on KL(new, old) [nat]. One eigendecomposition gives the KL of every multiplier:

        KL(eta) = 1/2 sum_j [1/a_j - 1 + log a_j + |gamma_j|^2/(eta a_j)^2]
    """

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        curvature, squared_slope = spectrum.curvature, spectrum.slope.square().sum(-1)

        def kl(eta: Tensor) -> Tensor:
            multiplier = eta.unsqueeze(-1)
            precision = 1.0 + curvature / multiplier
            value = _kl(precision, squared_slope / (multiplier * precision).square())
            return torch.where((precision > 0.0).all(-1), value, torch.inf)

        # a pole of the KL bounds the multiplier from below
        least = (-curvature.amin(-1)).clamp_min(1.0)
        eta, found = least_multiplier(kl, least.nan_to_num(1.0), step)
        best = DirectUpdate()(spectrum, 1.0 / eta)
        return ComponentStep(best.precision, best.shift, best.accepted & found)


def _kl(precision: Tensor, squared_shift: Tensor) -> Tensor:
    """KL(new, old) [nat], (n_components,), of a and |m|^2 (n_components, n_dims)."""
    return 0.5 * (1.0 / precision - 1.0 + precision.log() + squared_shift).sum(-1)
