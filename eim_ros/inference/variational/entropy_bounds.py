"""Trust regions that bound the loss of entropy beside the KL: the updates of EIM (thesis 4.1, 4.2; VIPS has none).

They hold the model wide for longer, so that fewer modes are lost; where the second bound is not active they are those
of `TrustRegionUpdate` and `TrustRegionWeights`, to the bound itself and not to a tenth of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.inference.variational.component_update import ComponentStep
from eim_ros.inference.variational.spectrum import Spectrum
from eim_ros.inference.variational.weight_update import WeightStep
from eim_ros.projections.categorical_dual import CategoricalDual
from eim_ros.projections.gaussian import solve_multipliers

__all__ = ["EntropyBoundedUpdate", "EntropyBoundedWeights"]


@dataclass(frozen=True)
class EntropyBoundedUpdate:
    """Update of the components, see `solve_multipliers`; the step size is the bound on KL(new, old) [nat].

    With multipliers eta and omega, s = 1 + eta + omega, the precisions are a = (1 + eta + lambda)/s of the old ones.

    Attributes
    ----------
    entropy_loss_bound : float
        Largest loss of entropy [nat], >= 0; infinite for none.
    """

    entropy_loss_bound: float

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        usable = torch.isfinite(spectrum.curvature).all(-1) & torch.isfinite(spectrum.slope).all(-1).all(-1)
        curvature = torch.where(usable.unsqueeze(-1), spectrum.curvature, 0.0)
        slope = torch.where(usable[:, None, None], spectrum.slope, 0.0)
        solution = solve_multipliers(curvature, slope.square().sum(-1), step, self.entropy_loss_bound)
        weight = (1.0 + solution.eta).unsqueeze(-1)
        precision = weight + curvature
        factor = precision / (weight + solution.omega.unsqueeze(-1))
        return ComponentStep(factor, slope / precision.unsqueeze(-1), usable & solution.feasible)


@dataclass(frozen=True)
class EntropyBoundedWeights:
    """Update of the weights, see `CategoricalDual`; the step size is the bound on KL(new, old) [nat].

    With multipliers eta and omega log w' = ((1 + eta) log w + R)/(1 + eta + omega), normalised.

    Attributes
    ----------
    entropy_loss_bound : float
        Largest loss of the mean entropy over the contexts [nat], >= 0; infinite for none.
    """

    entropy_loss_bound: float

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> WeightStep:
        dual = CategoricalDual(log_weights, reward, float(step), self.entropy_loss_bound, 1.0)
        multipliers = dual.multipliers()
        if multipliers is None:
            return WeightStep(torch.zeros_like(step))
        eta, omega = multipliers
        return WeightStep(1.0 / torch.full_like(step, 1.0 + eta + omega), (1.0 + eta) / (1.0 + eta + omega))
