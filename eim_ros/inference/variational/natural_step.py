"""The updates of an iteration along its natural gradients, once samples have been weighed."""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.inference.variational.component_update import ComponentStep, ComponentUpdate
from eim_ros.inference.variational.components import Components
from eim_ros.inference.variational.log_ratio import LogRatio
from eim_ros.inference.variational.natural_gradient import GradientEstimator, More
from eim_ros.inference.variational.spectrum import NaturalGradient

__all__ = ["moved_components", "natural_gradient"]

NOTICED = 1e-6  # a component that has this share of its samples outside the target's support follows values


def moved_components(
    estimator: GradientEstimator,
    rule: ComponentUpdate,
    components: Components,
    ratio: LogRatio,
    ridge: Tensor,
    step: Tensor,
) -> tuple[Components, Tensor, ComponentStep]:
    """Components after a step, which of them have moved (n_components,), and the steps.

    Parameters
    ----------
    estimator : GradientEstimator
    rule : ComponentUpdate
    components : Components
    ratio : LogRatio
    ridge : Tensor (n_components,)
        Of a regression on values.
    step : Tensor (n_components,)
        Step sizes.
    """
    spectrum = components.spectrum(natural_gradient(estimator, components, ratio, ridge))
    update = rule(spectrum, step)
    moved, accepted = components.moved(spectrum, update.precision, update.shift, update.accepted)
    return moved, accepted, update


def natural_gradient(
    estimator: GradientEstimator, components: Components, ratio: LogRatio, ridge: Tensor
) -> NaturalGradient:
    """Natural gradients; components that reach to where the target has no gradient follow its values there."""
    gradient = estimator(components, ratio, ridge)
    if not estimator.needs_gradient or bool(ratio.finite.all()):
        return gradient
    share = ratio.weights.mean((~ratio.finite).to(ratio.value).unsqueeze(-1)).squeeze(-1)
    outside = (share > NOTICED) & (ratio.weights.effective_samples() > ratio.sample.shape[1])
    by_values = More()(components, ratio, ridge)

    def chosen(values: Tensor, others: Tensor) -> Tensor:
        return torch.where(outside.reshape(-1, *[1] * (values.dim() - 1)), values, others)

    return NaturalGradient(chosen(by_values.curvature, gradient.curvature), chosen(by_values.slope, gradient.slope))
