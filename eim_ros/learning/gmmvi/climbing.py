"""Search for maxima of the target, which become candidates for new components.

A new component is placed where the target exceeds the model most. In many dimensions no random sample is near a mode,
so that all samples look alike, and several components reach the same mode. Samples that have climbed the log density
first show which modes the model lacks. This costs a small fraction of the evaluations that a superfluous component
takes.

`climbed` is L-BFGS (Nocedal and Wright 2006, algorithm 7.4) for many starting points at once, with a line search that
only shortens steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.learning.target import TargetDensity

N_ROUNDS = 40  # largest number of evaluations per sample
MEMORY = 8  # pairs of steps and changes of the gradient that approximate the Hessian
SUFFICIENT = 1e-4  # a step must raise the log density by this share of the linear prediction
SHORTENING = 0.25  # factor of a step that does not suffice
LEAST_RISE = 1e-6  # [nat]; a sample whose predicted gain is less has arrived


def climbed(target: TargetDensity, context: Tensor, sample: Tensor) -> tuple[Tensor, Tensor, int]:
    """Move samples uphill towards maxima of the log density, each at its context.

    Parameters
    ----------
    target : TargetDensity
        Target with a gradient. Steps to points where it is not finite are shortened.
    context : Tensor (n_samples, n_context)
    sample : Tensor (n_samples, n_dims)

    Returns
    -------
    sample : Tensor (n_samples, n_dims)
        Best points.
    log_target : Tensor (n_samples,)
        Log densities there [nat], not finite for a sample that began outside the support.
    n_evaluations : int
        Number of evaluations of the target, at most `N_ROUNDS` per sample.
    """
    value, gradient = target.log_prob_and_gradient(context, sample)
    n_evaluations = len(sample)
    steps, changes = sample.new_zeros(2, MEMORY, *sample.shape)
    direction = gradient / gradient.norm(dim=-1, keepdim=True).clamp_min(1.0)
    length = torch.ones_like(value)
    active = torch.isfinite(value) & torch.isfinite(gradient).all(-1)
    for _ in range(N_ROUNDS - 1):
        slope = (gradient * direction).sum(-1)
        active = active & (length * slope > LEAST_RISE)  # False for NaN
        index = active.nonzero().flatten()
        if not len(index):
            break
        step = length[index].unsqueeze(-1) * direction[index]
        new_value, new_gradient = target.log_prob_and_gradient(context[index], sample[index] + step)
        n_evaluations += len(index)
        rises = new_value >= value[index] + SUFFICIENT * length[index] * slope[index]
        rises &= torch.isfinite(new_gradient).all(-1)
        length[index] *= SHORTENING
        moved = index[rises]
        steps[:, moved] = torch.cat([steps[1:, moved], step[rises].unsqueeze(0)])
        changes[:, moved] = torch.cat([changes[1:, moved], (gradient[moved] - new_gradient[rises]).unsqueeze(0)])
        sample = sample.index_add(0, moved, step[rises])
        value = value.index_put((moved,), new_value[rises])
        gradient = gradient.index_put((moved,), new_gradient[rises])
        direction[moved], length[moved] = _direction(gradient[moved], steps[:, moved], changes[:, moved]), 1.0
    return sample, value, n_evaluations


def _direction(gradient: Tensor, steps: Tensor, changes: Tensor) -> Tensor:
    """Return the product of the inverse Hessian of -log p~ and the gradients (n, n_dims), by the two-loop recursion.

    The memory (MEMORY, n, n_dims) holds the newest pairs last. Pairs without positive curvature are ignored. If the
    newest pair has none, the direction is the gradient, twice as long as the last step.
    """
    products = (steps * changes).sum(-1, keepdim=True)
    is_curved = products > 1e-12 * steps.norm(dim=-1, keepdim=True) * changes.norm(dim=-1, keepdim=True)
    factors = torch.where(is_curved, 1.0 / products, 0.0)
    direction, coefficients = gradient, []
    for step, change, factor in zip(steps.flip(0), changes.flip(0), factors.flip(0), strict=True):
        coefficients.append(factor * (step * direction).sum(-1, keepdim=True))
        direction = direction - coefficients[-1] * change
    longer = 2.0 * steps[-1].norm(dim=-1, keepdim=True) / gradient.norm(dim=-1, keepdim=True)
    newest = products[-1] / changes[-1].square().sum(-1, keepdim=True)
    direction = torch.where(is_curved[-1], newest, longer) * torch.where(is_curved[-1], direction, gradient)
    for step, change, factor, coefficient in zip(steps, changes, factors, reversed(coefficients), strict=True):
        direction = direction + (coefficient - factor * (change * direction).sum(-1, keepdim=True)) * step
    return torch.where(is_curved[-1], direction, longer * gradient)
