"""Quadratic surrogates of a log density ratio around each expert (thesis 4.1.2, 4.2.2).

In whitened residuals e = C^-1 (x - W y - w):  phi ~ -1/2 e' R e + e' (A y + b) + f(y).

Two fits: least squares on the values with quadratic features, as in the thesis, and least squares on the gradients,
C' grad_x phi = -R e + A y + b, which has D + 1 columns in place of (D + 1)(D + 2)/2 and is the more accurate one.
Samples at which phi is not finite are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["QuadraticSurrogate", "fit_to_gradients", "fit_to_values"]

RIDGE = 1e-10  # relative to the standardised columns' variance: decides only what the data leave open


@dataclass(frozen=True)
class QuadraticSurrogate:
    """Surrogates of all experts.

    Attributes
    ----------
    curvature : Tensor (n_components, n_dims, n_dims)
        R, symmetric, of any sign.
    linear : Tensor (n_components, n_dims, n_context + 1)
        [A b].
    context_moment : Tensor (n_components, n_context + 1, n_context + 1)
        E[y~ y~'] with y~ = [y; 1] over the expert's contexts.
    """

    curvature: Tensor
    linear: Tensor
    context_moment: Tensor

    def replaced(self, which: Tensor, other: QuadraticSurrogate) -> QuadraticSurrogate:
        """With other surrogates for some of the experts, a mask (n_components,), in their order."""
        parts = []
        for name in ("curvature", "linear", "context_moment"):
            part = getattr(self, name).clone()
            part[which] = getattr(other, name)
            parts.append(part)
        return QuadraticSurrogate(*parts)


def fit_to_gradients(residual: Tensor, context: Tensor, gradient: Tensor) -> QuadraticSurrogate:
    """Fit to gradients of phi.

    Parameters
    ----------
    residual : Tensor (n_components, n_samples, n_dims)
        Whitened residuals e, samples of N(0, I).
    context : Tensor (n_components, n_samples, n_context)
        Contexts drawn for each expert.
    gradient : Tensor (n_components, n_samples, n_dims)
        C' grad_x phi, the gradient with respect to e.
    """
    n_dims = residual.shape[-1]
    coefficients, intercept = _regress(torch.cat([residual, context], -1), gradient)
    block = coefficients[:, :n_dims]
    linear = torch.cat([coefficients[:, n_dims:].mT, intercept.unsqueeze(-1)], -1)
    return QuadraticSurrogate(-0.5 * (block + block.mT), linear, _context_moment(context))


def fit_to_values(residual: Tensor, context: Tensor, value: Tensor) -> QuadraticSurrogate:
    """Fit to values of phi on quadratic features of e and y (thesis 4.2.2).

    Parameters
    ----------
    residual, context : Tensor
        As in `fit_to_gradients`; n_samples should exceed (D + 1)(D + 2)/2 with D = n_dims + n_context.
    value : Tensor (n_components, n_samples)
        phi.
    """
    n_dims, n_context = residual.shape[-1], context.shape[-1]
    center = context.mean(-2, keepdim=True)
    local = context - center
    row, column = torch.triu_indices(n_dims, n_dims, device=residual.device)
    y_row, y_column = torch.triu_indices(n_context, n_context, device=residual.device)
    cross = (residual.unsqueeze(-1) * local.unsqueeze(-2)).flatten(-2)
    features = torch.cat(
        [residual[..., row] * residual[..., column], cross, residual, local, local[..., y_row] * local[..., y_column]],
        -1,
    )
    coefficients, _ = _regress(features, value.unsqueeze(-1))
    quadratic, cross_part, plain = coefficients.squeeze(-1)[:, : len(row) + n_dims * n_context + n_dims].split(
        [len(row), n_dims * n_context, n_dims], -1
    )
    curvature = residual.new_zeros(len(residual), n_dims, n_dims)
    curvature[:, row, column] = -quadratic
    curvature = curvature + curvature.mT  # the diagonal doubles: -1/2 R_jj e_j^2 was fitted as one coefficient
    slope = cross_part.reshape(len(residual), n_dims, n_context)
    intercept = plain.unsqueeze(-1) - slope @ center.mT
    return QuadraticSurrogate(curvature, torch.cat([slope, intercept], -1), _context_moment(context))


def _context_moment(context: Tensor) -> Tensor:
    extended = torch.cat([context, torch.ones_like(context[..., :1])], -1) if context.shape[-1] else None
    if extended is None:
        return torch.ones(len(context), 1, 1, dtype=context.dtype, device=context.device)
    return extended.mT @ extended / context.shape[-2]


def _regress(columns: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Batched least squares with intercept on standardised columns, over the rows whose targets are finite.

    With fewer such rows than unknowns the result is NaN, unless all rows are finite: the ridge then decides.

    Parameters
    ----------
    columns : Tensor (n_components, n_samples, n_columns)
    target : Tensor (n_components, n_samples, n_targets)

    Returns
    -------
    coefficients : Tensor (n_components, n_columns, n_targets)
    intercept : Tensor (n_components, n_targets)
    """
    if not bool(torch.isfinite(target).all()):
        columns, target = _without_bad_rows(columns, target)
    center = columns.mean(-2, keepdim=True)
    scale = columns.std(-2, keepdim=True, correction=0)
    scale = torch.where(scale > 0.0, scale, torch.ones_like(scale))
    standard = (columns - center) / scale
    target_mean = target.mean(-2, keepdim=True)
    gram = standard.mT @ standard / columns.shape[-2]
    gram = gram + RIDGE * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    moment = standard.mT @ (target - target_mean) / columns.shape[-2]
    factor, info = torch.linalg.cholesky_ex(gram)
    solution = torch.cholesky_solve(moment, factor)
    solution = torch.where((info == 0)[:, None, None], solution, torch.full_like(solution, torch.nan))
    coefficients = solution / scale.mT
    return coefficients, (target_mean - center @ coefficients).squeeze(-2)


def _without_bad_rows(columns: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Rows with non-finite targets moved to the mean of the others, where they have no say."""
    good = torch.isfinite(target).all(-1, keepdim=True)
    count = good.sum(-2, keepdim=True)
    zero = torch.zeros((), dtype=target.dtype, device=target.device)
    target = torch.where(good, target, zero)
    enough = torch.where(count > columns.shape[-1], 1.0, torch.nan).to(target)
    columns_mean = (columns * good).sum(-2, keepdim=True) / count.clamp_min(1)
    target_mean = target.sum(-2, keepdim=True) / count.clamp_min(1)
    return torch.where(good, columns, columns_mean), torch.where(good, target, target_mean) * enough
