"""Weighted maximum likelihood of linear-Gaussian experts (the M-projection): the M-step of EM (thesis 2.1.3)."""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.distributions.linear_experts import LinearExperts

__all__ = ["fit_experts"]


def fit_experts(
    context: Tensor, sample: Tensor, responsibilities: Tensor, *, covariance_floor: Tensor, ridge: float = 1e-3
) -> LinearExperts:
    """Weighted least squares with covariance, all experts at once.

    Parameters
    ----------
    context : Tensor (n_samples, n_context)
    sample : Tensor (n_samples, n_dims)
    responsibilities : Tensor (n_samples, n_components)
        Non-negative weights.
    covariance_floor : Tensor (n_dims,)
        Added to the diagonal of each covariance; must be positive where data may be degenerate.
    ridge : float
        Pseudo-observations per regression coefficient in units of the contexts' variance; an expert with fewer points
        than coefficients falls back to a constant mean.

    Returns
    -------
    LinearExperts
        An expert without any weight gets the overall mean and covariance.
    """
    count = responsibilities.sum(0)
    tiny = torch.finfo(sample.dtype).eps
    empty = count <= tiny
    count = count.clamp_min(tiny)
    weights = (responsibilities / count).T
    context_mean, sample_mean = weights @ context, weights @ sample
    context_scale = (context - context.mean(0)).square().mean(0).clamp_min(tiny)

    joint = torch.cat([context, sample], -1)
    center = joint.mean(0)
    shifted = joint - center
    mean = torch.cat([context_mean, sample_mean], -1) - center
    moment = _moment(weights, shifted)
    covariance = moment - mean.unsqueeze(-1) * mean.unsqueeze(-2)

    n_context = context.shape[-1]
    yy, xy = covariance[:, :n_context, :n_context], covariance[:, n_context:, :n_context]
    xx = covariance[:, n_context:, n_context:]
    damped = yy + torch.diag_embed(ridge * context_scale / count.unsqueeze(-1))
    slope = torch.linalg.solve(damped, xy.mT).mT
    residual = xx - slope @ xy.mT - xy @ slope.mT + slope @ yy @ slope.mT
    residual = 0.5 * (residual + residual.mT) + torch.diag(covariance_floor)
    overall = torch.cov(sample.T, correction=0).reshape(xx.shape[1:]) + torch.diag(covariance_floor)
    residual = torch.where(empty[:, None, None], overall, residual)
    slope = torch.where(empty[:, None, None], torch.zeros_like(slope), slope)
    sample_mean = torch.where(empty[:, None], sample.mean(0), sample_mean)
    bias = sample_mean - (slope @ context_mean.unsqueeze(-1)).squeeze(-1)
    factor, info = torch.linalg.cholesky_ex(residual)
    diagonal = torch.diag_embed(torch.diagonal(residual, dim1=-2, dim2=-1).clamp_min(tiny).sqrt())
    factor = torch.where((info == 0)[:, None, None], factor, diagonal)
    return LinearExperts(slope, bias, factor)


def _moment(weights: Tensor, shifted: Tensor) -> Tensor:
    """Weighted second moments (n_components, d, d) as one matrix product over the products of coordinates."""
    row, column = torch.triu_indices(shifted.shape[-1], shifted.shape[-1], device=shifted.device)
    flat = weights @ (shifted[:, row] * shifted[:, column])
    moment = shifted.new_zeros(len(weights), shifted.shape[-1], shifted.shape[-1])
    moment[:, row, column] = flat
    moment[:, column, row] = flat
    return moment
