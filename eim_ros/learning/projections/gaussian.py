"""Trust-region I-projection of linear-Gaussian experts (thesis 4.1.2, 4.2.2, A.3.2, A.4.2).

Each expert maximises E[phi] - tau KL(new || old), in expectation over its contexts (tau = 1 in the thesis). The
constraints are KL(new || old) <= kl_bound and H(new) >= H(old) - entropy_loss_bound. The whitened residuals
e = C^-1 (x - W y - w) of the old expert are N(0, I). In these coordinates phi is approximated by the surrogate
-1/2 e' R e + e' (A y + b) + f(y).

Let R = U diag(rho) U', y~ = [y; 1], S = E[y~ y~'] and c_j = u_j' [A b] S [A b]' u_j. With a = eta + tau and
s = a + omega:

    KL(a, omega) = 1/2 sum_j [ s/(a+rho_j) - 1 - log(s/(a+rho_j)) + c_j/(a+rho_j)^2 ]
    H - H_old    = 1/2 sum_j log(s/(a+rho_j))
    omega*(a)    = max(0, exp{(sum_j log(a+rho_j) - 2 entropy_loss_bound)/d} - a)
    [W w] += C U diag(1/(a+rho)) U' [A b],   B = C U diag(sqrt(s/(a+rho))),   C <- chol(B B')

One eigendecomposition thus reduces the two-variable dual of the appendix to one decreasing function of a per expert.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.learning.models.linear import LinearExperts
from eim_ros.learning.projections.categorical import decreasing_root

RIDGE = 1e-10  # relative to the variance of the standardised columns; affects only directions without data


@dataclass(frozen=True)
class QuadraticSurrogate:
    """Quadratic surrogates of phi for all experts, -1/2 e' R e + e' (A y + b) + f(y).

    Attributes
    ----------
    curvature : Tensor (n_components, n_dims, n_dims)
        R, symmetric, possibly indefinite.
    linear : Tensor (n_components, n_dims, n_context + 1)
        [A b].
    context_moment : Tensor (n_components, n_context + 1, n_context + 1)
        E[y~ y~'] with y~ = [y; 1] over the expert's contexts.
    """

    curvature: Tensor
    linear: Tensor
    context_moment: Tensor

    def replaced(self, which: Tensor, other: QuadraticSurrogate) -> QuadraticSurrogate:
        """Replace the surrogates of the experts selected by the mask `which` (n_components,), in order."""
        parts = []
        for name in ("curvature", "linear", "context_moment"):
            part = getattr(self, name).clone()
            part[which] = getattr(other, name)
            parts.append(part)
        return QuadraticSurrogate(*parts)


def fit_to_gradients(residual: Tensor, context: Tensor, gradient: Tensor) -> QuadraticSurrogate:
    """Fit surrogates to gradients of phi by least squares, C' grad_x phi = -R e + A y + b.

    With D + 1 columns, D = n_dims + n_context, this fit is smaller and more accurate than `fit_to_values`. Samples with
    a non-finite gradient are ignored.

    Parameters
    ----------
    residual : Tensor (n_components, n_samples, n_dims)
        Whitened residuals e, samples of N(0, I).
    context : Tensor (n_components, n_samples, n_context)
        Contexts drawn for each expert.
    gradient : Tensor (n_components, n_samples, n_dims)
        C' grad_x phi, the gradient with respect to e.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.projections import fit_to_gradients
    >>> residual = torch.randn(1, 50, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> surrogate = fit_to_gradients(residual, residual[..., :0], gradient=3.0 - 2.0 * residual)
    >>> round(float(surrogate.curvature), 3), round(float(surrogate.linear), 3)
    (2.0, 3.0)
    """
    n_dims = residual.shape[-1]
    coefficients, intercept = _regress(torch.cat([residual, context], -1), gradient)
    block = coefficients[:, :n_dims]
    linear = torch.cat([coefficients[:, n_dims:].mT, intercept.unsqueeze(-1)], -1)
    return QuadraticSurrogate(-0.5 * (block + block.mT), linear, _context_moment(context))


def fit_to_values(residual: Tensor, context: Tensor, value: Tensor) -> QuadraticSurrogate:
    """Fit surrogates to values of phi by least squares on quadratic features of e and y (thesis 4.2.2).

    Samples with a non-finite value are ignored.

    Parameters
    ----------
    residual, context : Tensor
        As in `fit_to_gradients`; n_samples should exceed (D + 1)(D + 2)/2 with D = n_dims + n_context.
    value : Tensor (n_components, n_samples)
        phi.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.projections import fit_to_values
    >>> residual = torch.randn(1, 50, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> surrogate = fit_to_values(residual, residual[..., :0], (3.0 * residual - residual.square()).squeeze(-1))
    >>> round(float(surrogate.curvature), 3), round(float(surrogate.linear), 3)
    (2.0, 3.0)
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
    curvature = curvature + curvature.mT  # doubles the diagonal, since the coefficient of e_j^2 is -1/2 R_jj
    slope = cross_part.reshape(len(residual), n_dims, n_context)
    intercept = plain.unsqueeze(-1) - slope @ center.mT
    return QuadraticSurrogate(curvature, torch.cat([slope, intercept], -1), _context_moment(context))


def _context_moment(context: Tensor) -> Tensor:
    extended = torch.cat([context, torch.ones_like(context[..., :1])], -1) if context.shape[-1] else None
    if extended is None:
        return torch.ones(len(context), 1, 1, dtype=context.dtype, device=context.device)
    return extended.mT @ extended / context.shape[-2]


def _regress(columns: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Solve batched least squares with intercept on standardised columns, over the rows whose targets are finite.

    If some rows are not finite and the finite rows do not outnumber the columns, the result is NaN. If all rows are
    finite but too few, the ridge determines the result. Columns (n_components, n_samples, n_columns) and targets
    (n_components, n_samples, n_targets) give coefficients (n_components, n_columns, n_targets) and an intercept
    (n_components, n_targets).
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
    """Move rows with non-finite targets to the mean of the other rows, where they have no effect on the slopes."""
    good = torch.isfinite(target).all(-1, keepdim=True)
    count = good.sum(-2, keepdim=True)
    zero = torch.zeros((), dtype=target.dtype, device=target.device)
    target = torch.where(good, target, zero)
    enough = torch.where(count > columns.shape[-1], 1.0, torch.nan).to(target)
    columns_mean = (columns * good).sum(-2, keepdim=True) / count.clamp_min(1)
    target_mean = target.sum(-2, keepdim=True) / count.clamp_min(1)
    return torch.where(good, columns, columns_mean), torch.where(good, target, target_mean) * enough


@dataclass(frozen=True)
class Multipliers:
    """Solution of the dual, one entry per expert.

    Attributes
    ----------
    eta, omega : Tensor (n_components,)
        Multipliers of the KL and of the entropy constraint, >= 0 (thesis A.6, A.16).
    kl : Tensor (n_components,)
        Expected KL(new || old) [nat] over the contexts of the surrogate.
    entropy_change : Tensor (n_components,)
        H(new) - H(old) [nat].
    feasible : Tensor (n_components,) of bool
        False if no multipliers satisfied the bounds, for example for a non-finite surrogate, or if there is no maximum.
        With an infinite KL bound there is none if an eigenvalue of R is -kl_weight or less, or if nothing bounds the
        entropy from below. The expert must then be left unchanged.
    """

    eta: Tensor
    omega: Tensor
    kl: Tensor
    entropy_change: Tensor
    feasible: Tensor


@dataclass(frozen=True)
class GaussianUpdate:
    """New experts and their multipliers; experts without a feasible update are unchanged."""

    experts: LinearExperts
    multipliers: Multipliers


def project_experts(
    experts: LinearExperts,
    surrogate: QuadraticSurrogate,
    kl_bound: float,
    entropy_loss_bound: float,
    *,
    kl_weight: float = 1.0,
) -> GaussianUpdate:
    """Compute the trust-region I-projection of every expert, given its surrogate.

    Parameters
    ----------
    experts : LinearExperts
        The old experts, whose whitened residuals are the coordinates of the surrogate.
    surrogate : QuadraticSurrogate
    kl_bound : float
        Maximum expected KL(new || old) [nat], > 0; infinite for no bound.
    entropy_loss_bound : float
        Maximum loss of entropy [nat], >= 0; infinite for no bound.
    kl_weight : float
        tau >= 0, the weight of the KL in the objective. Use 1 for phi = log p/q_old. Use the temperature T for phi =
        log p - T log q_old, which maximises E[log p] + T H. Use 0 for the ablation without this term (thesis 6.1).

    Returns
    -------
    GaussianUpdate

    Examples
    --------
    Move a standard normal distribution towards larger values. A shift of 0.2 meets the bound, since its KL is 0.2^2/2:

    >>> import torch
    >>> from eim_ros.learning.models import LinearExperts
    >>> from eim_ros.learning.projections import QuadraticSurrogate, project_experts
    >>> old = LinearExperts(torch.zeros(1, 1, 0), torch.zeros(1, 1), torch.ones(1, 1, 1))
    >>> rising = QuadraticSurrogate(torch.zeros(1, 1, 1), torch.ones(1, 1, 1), torch.ones(1, 1, 1))
    >>> update = project_experts(old, rising, kl_bound=0.02, entropy_loss_bound=0.1)
    >>> round(float(update.experts.biases), 3), round(float(update.multipliers.kl), 3)
    (0.2, 0.02)
    """
    usable = torch.isfinite(surrogate.curvature).all(-1).all(-1) & torch.isfinite(surrogate.linear).all(-1).all(-1)
    curvature = torch.where(usable[:, None, None], surrogate.curvature, torch.zeros_like(surrogate.curvature))
    linear = torch.where(usable[:, None, None], surrogate.linear, torch.zeros_like(surrogate.linear))
    rho, basis = torch.linalg.eigh(curvature)
    rotated = basis.mT @ linear
    shift = ((rotated @ surrogate.context_moment) * rotated).sum(-1)
    solution = solve_multipliers(rho, shift, kl_bound, entropy_loss_bound, kl_weight=kl_weight)

    a = (solution.eta + kl_weight).unsqueeze(-1)
    precision = a + rho
    stretched = experts.scale_trils @ (basis * ((a + solution.omega.unsqueeze(-1)) / precision).sqrt().unsqueeze(-2))
    factor, info = torch.linalg.cholesky_ex(stretched @ stretched.mT)
    step = experts.scale_trils @ (basis @ (rotated / precision.unsqueeze(-1)))
    finite = torch.isfinite(step).all(-1).all(-1) & torch.isfinite(factor).all(-1).all(-1)
    accepted = usable & solution.feasible & (info == 0) & finite
    solution = Multipliers(solution.eta, solution.omega, solution.kl, solution.entropy_change, accepted)

    weights = torch.where(accepted[:, None, None], experts.weights + step[..., :-1], experts.weights)
    biases = torch.where(accepted[:, None], experts.biases + step[..., -1], experts.biases)
    scale_trils = torch.where(accepted[:, None, None], factor, experts.scale_trils)
    return GaussianUpdate(LinearExperts(weights, biases, scale_trils), solution)


def solve_multipliers(
    rho: Tensor, shift: Tensor, kl_bound: float | Tensor, entropy_loss_bound: float, *, kl_weight: float = 1.0
) -> Multipliers:
    """Minimise the dual of every expert by one monotone root-find in a = eta + kl_weight.

    Parameters
    ----------
    rho : Tensor (n_components, n_dims)
        Eigenvalues of the surrogate's curvature R; may be negative.
    shift : Tensor (n_components, n_dims)
        c_j >= 0, mean squared slope along each eigenvector.
    kl_bound, entropy_loss_bound, kl_weight : float
        As in `project_experts`. `kl_bound` may also be a Tensor (n_components,).

    Returns
    -------
    Multipliers
        Taken at the feasible end of the bracket, so kl <= kl_bound and entropy_change >= -entropy_loss_bound hold up to
        rounding.

    Examples
    --------
    Without curvature and with slope 1, the step is 1/(eta + 1), and its KL is half its square:

    >>> import torch
    >>> from eim_ros.learning.projections import solve_multipliers
    >>> found = solve_multipliers(torch.zeros(1, 1), torch.ones(1, 1), kl_bound=0.02, entropy_loss_bound=0.1)
    >>> round(float(found.eta), 2), bool(found.feasible)
    (4.0, True)
    """
    start = (-rho.amin(-1)).clamp_min(kl_weight)
    bracket = decreasing_root(
        lambda a: _kl(a, _omega(a, rho, entropy_loss_bound), rho, shift) - kl_bound, start, relative_tolerance=1e-9
    )
    a = bracket.upper
    omega = _omega(a, rho, entropy_loss_bound)
    kl = _kl(a, omega, rho, shift)
    feasible = bracket.found & torch.isfinite(kl)
    unbounded = torch.as_tensor(kl_bound).isinf()
    if bool(unbounded.any()):  # then only the curvature bounds the objective
        held = kl_weight > 0.0 or math.isfinite(entropy_loss_bound)  # otherwise the optimum is a point mass
        feasible = feasible & (((rho.amin(-1) > -kl_weight) & held) | ~unbounded.to(rho.device))
    return Multipliers(a - kl_weight, omega, kl, _entropy_change(a, omega, rho), feasible)


def _omega(a: Tensor, rho: Tensor, entropy_loss_bound: float) -> Tensor:
    mean_log = (torch.log(a.unsqueeze(-1) + rho).sum(-1) - 2.0 * entropy_loss_bound) / rho.shape[-1]
    return (mean_log.exp() - a).clamp_min(0.0)


def _kl(a: Tensor, omega: Tensor, rho: Tensor, shift: Tensor) -> Tensor:
    precision = a.unsqueeze(-1) + rho
    ratio = (a + omega).unsqueeze(-1) / precision
    kl = 0.5 * (ratio - 1.0 - torch.log(ratio) + shift / precision.square()).sum(-1)
    return torch.where((precision > 0.0).all(-1), kl, torch.full_like(kl, torch.inf))


def _entropy_change(a: Tensor, omega: Tensor, rho: Tensor) -> Tensor:
    return 0.5 * torch.log((a + omega).unsqueeze(-1) / (a.unsqueeze(-1) + rho)).sum(-1)
