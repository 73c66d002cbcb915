"""Search for maxima of the target, which become candidates for new components.

A new component is placed where the target exceeds the model most. In many dimensions, random samples are not near a
mode, so the target hardly distinguishes them, and several components reach the same mode. Samples that first ascend the
log density show which modes the model lacks. The ascent needs much fewer evaluations than a superfluous component.

`climbed` runs L-BFGS (Nocedal and Wright 2006, algorithm 7.4) for many starting points in parallel. Its line search
only shortens steps.

A high maximum can be too narrow to have much mass, for example at the tip of Neal's funnel. `log_masses` computes the
integrals of Laplace approximations, which show whether a component at a maximum could improve the ELBO.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from eim_ros.learning.gmmvi.samples import Evaluated
from eim_ros.learning.target import TargetDensity

N_ROUNDS = 150  # maximum number of evaluations per sample; most samples need at most half of them
MEMORY = 8  # number of steps, with their changes of the gradient, that approximate the Hessian
SUFFICIENT = 1e-4  # minimum rise of the log density in a step, as a share of the linear prediction
SHORTENING = 0.25  # factor that shortens an insufficient step
LEAST_RISE = 1e-6  # [nat], a sample with a smaller predicted rise has reached its maximum
# Two samples have reached the same maximum if their log densities [nat] and relative positions differ by less than
# this.
SAME_MAXIMUM = 1e-3
NEWTON_GAIN = 1.0  # [nat], maximum predicted gain of a Newton step at a maximum
DIFFERENCE = 1e-5  # distance between points for finite differences of the gradient, relative to the coordinates
NEAR = 0.01  # maximum distance between these points, in standard deviations of the Laplace approximation


def maxima(
    target: TargetDensity,  # target with a gradient
    context: Tensor,  # (n_samples, n_context)
    sample: Tensor,  # (n_samples, n_dims)
    # Log of the minimum mass [nat]; see `log_masses`. Minus infinity keeps the maxima of all samples.
    least_mass: float,
) -> tuple[Evaluated, int]:
    """Return the distinct maxima that the samples reach and that have enough mass, and the number of evaluations."""
    top, value, n_evaluations = climbed(target, context, sample)
    if least_mass > -math.inf:
        index = torch.isfinite(value).nonzero().flatten()
        same = (value[index].unsqueeze(-1) - value[index]).abs() < SAME_MAXIMUM
        same &= torch.cdist(top[index], top[index]) < SAME_MAXIMUM * (1.0 + top[index].norm(dim=-1))
        index = index[~same.tril(-1).any(-1)]
        if len(index):
            log_mass, n_more = log_masses(target, context[index], top[index])
            index, n_evaluations = index[log_mass >= least_mass], n_evaluations + n_more
        top, value, context = top[index], value[index], context[index]
    return Evaluated(torch.cat([top, context], -1), value, None), n_evaluations


def most_evaluations(n_dims: int) -> int:
    """Return the maximum number of evaluations that `maxima` needs per sample."""
    return N_ROUNDS + 2 * n_dims + 1


def climbed(target: TargetDensity, context: Tensor, sample: Tensor) -> tuple[Tensor, Tensor, int]:
    """Move samples (n, n_dims) with contexts (n, n_context) uphill towards maxima of the log density.

    Steps to points where the target is not finite are shortened. The results are the best points, their log densities
    (n,) [nat], and the number of evaluations of the target, which is at most `N_ROUNDS` per sample. The log density of
    a sample that starts outside the support is not finite.
    """
    value, gradient = target.log_prob_and_gradient(context, sample)
    n_evaluations = len(sample)
    steps, changes = sample.new_zeros(2, MEMORY, *sample.shape)
    direction = gradient / gradient.norm(dim=-1, keepdim=True).clamp_min(1.0)
    length = torch.ones_like(value)
    active = torch.isfinite(value) & torch.isfinite(gradient).all(-1)
    for _ in range(N_ROUNDS - 1):
        slope = (gradient * direction).sum(-1)
        active = active & (length * slope > LEAST_RISE)  # a comparison with NaN is False
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


def log_masses(target: TargetDensity, context: Tensor, sample: Tensor) -> tuple[Tensor, int]:
    """Return the logs of the integrals of Laplace approximations at samples, and the number of evaluations.

    The approximation at a maximum with value f and Hessian -H of the log density is exp(f) sqrt((2 pi)^d / det H) times
    a normal density. A sample is not a maximum if H is not positive definite, or if a Newton step would gain more than
    `NEWTON_GAIN`.

    H is computed from finite differences of gradients, with smaller distances if the density is narrow. The function
    needs at most 2 n_dims + 1 evaluations per sample. The logs (n,) [nat] are minus infinity for samples (n, n_dims)
    that are not maxima. The logs are infinite if a difference is not finite, for example at a bound of the support. The
    contexts have the shape (n, n_context).
    """
    n_dims, n_evaluations = sample.shape[1], len(sample)
    value, gradient = target.log_prob_and_gradient(context, sample)
    curvature = sample.new_empty(*sample.shape, n_dims)  # H
    for axis, unit in enumerate(torch.eye(n_dims, dtype=sample.dtype, device=sample.device)):
        step = DIFFERENCE * sample[:, axis].abs().clamp_min(1.0)
        index = torch.arange(len(sample), device=sample.device)
        for _ in range(2):
            length = step[index].unsqueeze(-1)
            there = target.log_prob_and_gradient(context[index], sample[index] + length * unit)[1]
            n_evaluations += len(index)
            curvature[index, axis] = (gradient[index] - there) / length
            shorter = NEAR / curvature[:, axis, axis].abs().sqrt()
            index = (shorter < step).nonzero().flatten()
            if not len(index):
                break
            step = torch.minimum(step, shorter)
    finite = torch.isfinite(curvature).all(-1).all(-1)
    eye = torch.eye(n_dims, dtype=sample.dtype, device=sample.device)
    factor, failed = torch.linalg.cholesky_ex(torch.where(finite[:, None, None], 0.5 * (curvature + curvature.mT), eye))
    factor = torch.where((failed == 0)[:, None, None], factor, eye)
    gain = 0.5 * torch.linalg.solve_triangular(factor, gradient.unsqueeze(-1), upper=False).square().sum((-1, -2))
    log_mass = value + 0.5 * n_dims * math.log(2.0 * math.pi) - factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    log_mass[(failed > 0) | (gain > NEWTON_GAIN)] = -torch.inf
    return torch.where(finite, log_mass, torch.inf), n_evaluations


def _direction(gradient: Tensor, steps: Tensor, changes: Tensor) -> Tensor:
    """Return the product of the inverse Hessian of -log p~ and the gradients (n, n_dims) by the two-loop recursion.

    The newest pairs are the last ones in the memory (MEMORY, n, n_dims). Pairs without positive curvature are ignored.
    If the newest pair does not have positive curvature, the result has the direction of the gradient and twice the
    length of the last step.
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
