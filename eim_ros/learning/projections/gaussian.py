"""Trust-region I-projection of linear-Gaussian experts (thesis 4.1.2, 4.2.2, A.3.2, A.4.2).

Each expert maximises E[phi] - tau KL(new || old), in expectation over its contexts (tau = 1 in the thesis). The
constraints are KL(new || old) <= kl_bound and H(new) >= H(old) - entropy_loss_bound. The whitened residuals e = C^-1 (x
- W y - w) of the old expert are N(0, I). In these coordinates, phi is approximated by the surrogate -1/2 e' R e + e' (A
y + b) + f(y).

Let R = U diag(rho) U', y~ = [y; 1], S = E[y~ y~'] and c_j = u_j' [A b] S [A b]' u_j. With a = eta + tau and
s = a + omega:

    KL(a, omega) = 1/2 sum_j [ s/(a+rho_j) - 1 - log(s/(a+rho_j)) + c_j/(a+rho_j)^2 ]
    H - H_old    = 1/2 sum_j log(s/(a+rho_j))
    omega*(a)    = max(0, exp{(sum_j log(a+rho_j) - 2 entropy_loss_bound)/d} - a)
    [W w] += C U diag(1/(a+rho)) U' [A b],   B = C U diag(sqrt(s/(a+rho))),   C <- chol(B B')

One eigendecomposition reduces the dual of the appendix, a function of two variables, to one decreasing function of a
per expert.

A restriction of the covariances changes only terms of the KL and of the entropy that contain the covariance. The update
remains exact within the restricted family:

- Diagonal: C is diagonal. The update of W and w above remains optimal. This update needs the eigenvalues rho of R. The
  variances are C_jj^2 s/(a+R_jj), so R_jj replaces rho_j in the terms without c_j. Since min R_jj >= min rho, the range
  of a does not change.
- Tied: all experts share C. The KL is averaged with the weights w_k of the components, which gives K(a) below. The new
  covariance follows from the mean curvature Rbar = sum_k w_k R_k, which has the eigenvalues rhobar:

      K(a) = 1/2 sum_j [ s/(a+rhobar_j) - 1 - log(s/(a+rhobar_j)) ] + sum_k w_k m_k(max(a, a_k))
      m_k(a) = 1/2 sum_j c_kj/(a+rho_kj)^2,   m_k(a_k) = kl_bound

  Without the additional bound m_k <= kl_bound, a component of small weight could move without limit. The multiplier
  of this bound turns a into max(a, a_k).

In both families, means and covariances are optimised separately and share one bound. The optimal value of each part is
a concave function of its share of the bound, so the dual has no gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.learning.models.linear import LinearExperts
from eim_ros.learning.projections.categorical import decreasing_root, least_multipliers

# Added to the variances of the standardised columns, which are 1. It affects only directions without data.
RIDGE = 1e-10


@dataclass(frozen=True)
class QuadraticSurrogate:
    """Quadratic surrogates of phi for all experts, -1/2 e' R e + e' (A y + b) + f(y).

    Attributes
    ----------
    curvature : Tensor (n_components, n_dims, n_dims)
        R, which is symmetric and may be indefinite.
    linear : Tensor (n_components, n_dims, n_context + 1)
        [A b].
    context_moment : Tensor (n_components, n_context + 1, n_context + 1)
        E[y~ y~'] with y~ = [y; 1] over the expert's contexts.
    """

    curvature: Tensor
    linear: Tensor
    context_moment: Tensor

    def replaced(self, which: Tensor, other: QuadraticSurrogate) -> QuadraticSurrogate:
        """Replace the surrogates of experts in the mask `which` (n_components,) by those in `other`, in order."""
        parts = []
        for name in ("curvature", "linear", "context_moment"):
            part = getattr(self, name).clone()
            part[which] = getattr(other, name)
            parts.append(part)
        return QuadraticSurrogate(*parts)


def fit_to_gradients(
    residual: Tensor, context: Tensor, gradient: Tensor, weight: Tensor | None = None
) -> QuadraticSurrogate:
    """Fit surrogates to gradients of phi by least squares, according to C' grad_x phi = -R e + A y + b.

    This fit is faster and more accurate than `fit_to_values`, because its regression has only D + 1 columns with D =
    n_dims + n_context. Samples with a non-finite gradient are ignored.

    Parameters
    ----------
    residual : Tensor (n_components, n_samples, n_dims)
        Whitened residuals e, samples of N(0, I).
    context : Tensor (n_components, n_samples, n_context)
        Contexts drawn for each expert.
    gradient : Tensor (n_components, n_samples, n_dims)
        C' grad_x phi, the gradient with respect to e.
    weight : Tensor (n_components, n_samples), optional
        Importance weights q(z|y)/q(z), up to a constant, of contexts that are drawn from p(y) (thesis 4.3.2). By
        default, weights are equal, as required for contexts that are drawn for each expert.

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
    coefficients, intercept = _regress(torch.cat([residual, context], -1), gradient, weight)
    block = coefficients[:, :n_dims]
    linear = torch.cat([coefficients[:, n_dims:].mT, intercept.unsqueeze(-1)], -1)
    return QuadraticSurrogate(-0.5 * (block + block.mT), linear, _context_moment(context, weight))


def fit_to_values(residual: Tensor, context: Tensor, value: Tensor, weight: Tensor | None = None) -> QuadraticSurrogate:
    """Fit surrogates to values of phi by least squares on quadratic features of e and y (thesis 4.2.2).

    Samples with a non-finite value are ignored.

    Parameters
    ----------
    residual, context : Tensor
        As in `fit_to_gradients`; n_samples should exceed (D + 1)(D + 2)/2 with D = n_dims + n_context.
    value : Tensor (n_components, n_samples)
        phi.
    weight : Tensor (n_components, n_samples), optional
        As in `fit_to_gradients`.

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
    coefficients, _ = _regress(features, value.unsqueeze(-1), weight)
    quadratic, cross_part, plain = coefficients.squeeze(-1)[:, : len(row) + n_dims * n_context + n_dims].split(
        [len(row), n_dims * n_context, n_dims], -1
    )
    curvature = residual.new_zeros(len(residual), n_dims, n_dims)
    curvature[:, row, column] = -quadratic
    curvature = curvature + curvature.mT  # doubles the diagonal; the coefficient of e_j^2 is -1/2 R_jj
    slope = cross_part.reshape(len(residual), n_dims, n_context)
    intercept = plain.unsqueeze(-1) - slope @ center.mT
    return QuadraticSurrogate(curvature, torch.cat([slope, intercept], -1), _context_moment(context, weight))


def _context_moment(context: Tensor, weight: Tensor | None) -> Tensor:
    extended = torch.cat([context, torch.ones_like(context[..., :1])], -1) if context.shape[-1] else None
    if extended is None:
        return torch.ones(len(context), 1, 1, dtype=context.dtype, device=context.device)
    if weight is None:
        return extended.mT @ extended / context.shape[-2]
    return (extended * (weight / weight.sum(-1, keepdim=True)).unsqueeze(-1)).mT @ extended


def _regress(columns: Tensor, target: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Solve batched least squares with an intercept on standardised columns, for rows with finite targets.

    The result is NaN if some targets are not finite, and there are not more other rows than columns. If all targets are
    finite, but there are too few rows, the ridge determines the result. The arguments are columns (n_components,
    n_samples, n_columns), targets (n_components, n_samples, n_targets) and optional weights of the rows (n_components,
    n_samples). The results are coefficients (n_components, n_columns, n_targets) and an intercept (n_components,
    n_targets).
    """
    if not bool(torch.isfinite(target).all()):
        if weight is not None:
            weight = weight * torch.isfinite(target).all(-1)
        columns, target = _without_bad_rows(columns, target)
    scale = columns.std(-2, keepdim=True, correction=0)
    scale = torch.where(scale > 0.0, scale, torch.ones_like(scale))
    if weight is None:
        center, target_mean = columns.mean(-2, keepdim=True), target.mean(-2, keepdim=True)
        standard, deviation = (columns - center) / scale, target - target_mean
    else:
        share = (weight / weight.sum(-1, keepdim=True)).unsqueeze(-1)
        center, target_mean = share.mT @ columns, share.mT @ target
        root = (share * columns.shape[-2]).sqrt()
        standard, deviation = root * (columns - center) / scale, root * (target - target_mean)
    gram = standard.mT @ standard / columns.shape[-2]
    gram = gram + RIDGE * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    moment = standard.mT @ deviation / columns.shape[-2]
    factor, info = torch.linalg.cholesky_ex(gram)
    solution = torch.cholesky_solve(moment, factor)
    solution = torch.where((info == 0)[:, None, None], solution, torch.full_like(solution, torch.nan))
    coefficients = solution / scale.mT
    return coefficients, (target_mean - center @ coefficients).squeeze(-2)


def _without_bad_rows(columns: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Move rows with non-finite targets to the mean of all other rows. Such rows have no effect on the slopes."""
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
    """Solution of the dual, with one entry per expert."""

    # (n_components,), multipliers of the KL and of the entropy constraint, >= 0 (thesis A.6, A.16)
    eta: Tensor
    omega: Tensor
    kl: Tensor  # (n_components,), expected KL(new || old) [nat] over the contexts of the surrogate
    entropy_change: Tensor  # (n_components,), H(new) - H(old) [nat]
    # (n_components,) of bool. False if no multipliers satisfy the bounds, for example for a non-finite surrogate, or if
    # there is no maximum. With an infinite KL bound, there is no maximum if an eigenvalue of R is -kl_weight or less,
    # or if nothing bounds the entropy from below. Leave such experts unchanged.
    feasible: Tensor


@dataclass(frozen=True)
class GaussianUpdate:
    """New experts and their multipliers. Experts without a feasible update are unchanged."""

    experts: LinearExperts
    multipliers: Multipliers


def project_experts(
    experts: LinearExperts,
    surrogate: QuadraticSurrogate,
    kl_bound: float,
    entropy_loss_bound: float,
    *,
    kl_weight: float = 1.0,
    covariance: str = "full",
    weights: Tensor | None = None,
) -> GaussianUpdate:
    """Compute the trust-region I-projection of every expert from its surrogate.

    Parameters
    ----------
    experts : LinearExperts
        The old experts. Their whitened residuals are the coordinates of the surrogate.
    surrogate : QuadraticSurrogate
    kl_bound : float
        Maximum expected KL(new || old) [nat], > 0. Infinity means no bound.
    entropy_loss_bound : float
        Maximum loss of entropy [nat], >= 0. Infinity means no bound.
    kl_weight : float
        tau >= 0, the weight of the KL in the objective. Use 1 for phi = log p/q_old. Use the temperature T for phi =
        log p - T log q_old, which maximises E[log p] + T H. Use 0 for the ablation without this term (thesis 6.1).
    covariance : str
        "full", "diagonal" or "tied". The covariances of the old experts must belong to this family; see
        `restrict_covariances`.
    weights : Tensor (n_components,), optional
        Positive weights of the components, used only for tied covariances. By default, they are equal. With tied
        covariances, `kl_bound` applies to the weighted mean of the KL, and to the share of each expert's KL that is due
        to its mean.

    Returns
    -------
    GaussianUpdate

    Notes
    -----
    Suppose that covariances are diagonal, R is indefinite, and the surrogate has no slope along the lowest eigenvector
    of R. Two steps of the mean in opposite directions are then equally good, and the update takes neither. In practice,
    the slope of a surrogate that is fitted to samples is almost never exactly zero.

    Examples
    --------
    Move a standard normal distribution towards larger values. A shift of 0.2 reaches the bound, because its KL is
    0.2^2/2:

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
    if covariance == "tied":
        shares = torch.ones_like(rho[:, 0]) if weights is None else weights
        shares = shares / shares.sum()
        spread, axes = torch.linalg.eigh((shares[:, None, None] * curvature).sum(0))
        bounds = (kl_bound, entropy_loss_bound)
        solution, damping = solve_tied_multipliers(rho, shift, spread, shares, bounds, kl_weight=kl_weight)
        usable = torch.ones_like(usable)  # all experts get the common covariance
    else:
        diagonal = torch.diagonal(curvature, dim1=-2, dim2=-1) if covariance == "diagonal" else None
        solution = solve_multipliers(rho, shift, kl_bound, entropy_loss_bound, kl_weight=kl_weight, diagonal=diagonal)
        damping = solution.eta + kl_weight
        spread, axes = (rho, basis) if diagonal is None else (diagonal, torch.eye(rho.shape[-1]).to(basis))

    a = (solution.eta + kl_weight).unsqueeze(-1)
    scale = ((a + solution.omega.unsqueeze(-1)) / (a + spread)).sqrt().unsqueeze(-2)
    stretched = experts.scale_trils @ (axes * scale)
    factor, info = torch.linalg.cholesky_ex(stretched @ stretched.mT)
    step = experts.scale_trils @ (basis @ (rotated / (damping.unsqueeze(-1) + rho).unsqueeze(-1)))
    finite = torch.isfinite(step).all(-1).all(-1) & torch.isfinite(factor).all(-1).all(-1)
    accepted = usable & solution.feasible & (info == 0) & finite
    if covariance == "tied":
        accepted = accepted.all().expand(len(accepted))
    solution = Multipliers(solution.eta, solution.omega, solution.kl, solution.entropy_change, accepted)

    slopes = torch.where(accepted[:, None, None], experts.weights + step[..., :-1], experts.weights)
    biases = torch.where(accepted[:, None], experts.biases + step[..., -1], experts.biases)
    scale_trils = torch.where(accepted[:, None, None], factor, experts.scale_trils)
    return GaussianUpdate(LinearExperts(slopes, biases, scale_trils), solution)


def restrict_covariances(experts: LinearExperts, covariance: str, weights: Tensor) -> LinearExperts:
    """Return the closest experts with "full", "diagonal", "tied" or "spherical" covariances.

    The new experts minimise KL(given || new), averaged with the weights (n_components,). The means do not change.
    Diagonal covariances keep the variances, and spherical covariances keep the mean variance. The tied covariance is
    the weighted mean of all covariances.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.models import LinearExperts
    >>> from eim_ros.learning.projections import restrict_covariances
    >>> old = LinearExperts(torch.zeros(2, 1, 0), torch.zeros(2, 1), torch.tensor([[[1.0]], [[3.0]]]))
    >>> restrict_covariances(old, "tied", torch.tensor([0.5, 0.5])).scale_trils.square().flatten().round().tolist()
    [5.0, 5.0]
    """
    if covariance == "full":
        return experts
    covariances = experts.scale_trils @ experts.scale_trils.mT
    if covariance == "diagonal":
        factors = torch.diag_embed(torch.diagonal(covariances, dim1=-2, dim2=-1).sqrt())
    elif covariance == "spherical":
        variance = torch.diagonal(covariances, dim1=-2, dim2=-1).mean(-1, keepdim=True)
        factors = torch.diag_embed(variance.sqrt().expand(len(variance), experts.n_dims))
    else:
        mean = (covariances * (weights / weights.sum())[:, None, None]).sum(0)
        factors = torch.linalg.cholesky(mean).expand(covariances.shape).contiguous()
    return LinearExperts(experts.weights, experts.biases, factors)


def solve_multipliers(
    rho: Tensor,
    shift: Tensor,
    kl_bound: float | Tensor,
    entropy_loss_bound: float,
    *,
    kl_weight: float = 1.0,
    diagonal: Tensor | None = None,
) -> Multipliers:
    """Minimise the dual of every expert: find the root of one monotone function of a = eta + kl_weight.

    Parameters
    ----------
    rho : Tensor (n_components, n_dims)
        Eigenvalues of the surrogate's curvature R, which may be negative.
    shift : Tensor (n_components, n_dims)
        c_j >= 0, the mean squared slope along each eigenvector.
    kl_bound, entropy_loss_bound, kl_weight : float
        As in `project_experts`. `kl_bound` may also be a Tensor (n_components,).
    diagonal : Tensor (n_components, n_dims), optional
        Diagonal of R if covariances are diagonal. By default, covariances are full.

    Returns
    -------
    Multipliers
        Multipliers at the feasible end of the final bracket. Up to rounding, they satisfy kl <= kl_bound and
        entropy_change >= -entropy_loss_bound.

    Examples
    --------
    Without curvature and with slope 1, the step is 1/(eta + 1), and its KL is half its square:

    >>> import torch
    >>> from eim_ros.learning.projections import solve_multipliers
    >>> found = solve_multipliers(torch.zeros(1, 1), torch.ones(1, 1), kl_bound=0.02, entropy_loss_bound=0.1)
    >>> round(float(found.eta), 2), bool(found.feasible)
    (4.0, True)
    """
    spread = rho if diagonal is None else diagonal
    return _minimised(
        lambda a, omega: _kl(a, omega, spread, rho, shift),
        spread,
        rho.amin(-1),
        rho.amin(-1),
        (kl_bound, entropy_loss_bound, kl_weight),
    )


def solve_tied_multipliers(
    # (n_components, n_dims), as in `solve_multipliers`
    rho: Tensor,
    shift: Tensor,
    spread: Tensor,  # (n_dims,), eigenvalues of the mean curvature
    weights: Tensor,  # (n_components,), weights of the components, which sum to 1
    # Bounds of the KL and of the loss of entropy [nat]. The first bound applies to the weighted mean KL, and to the
    # share of each KL that is due to the mean.
    bounds: tuple[float, float],
    *,
    kl_weight: float = 1.0,  # as in `project_experts`
) -> tuple[Multipliers, Tensor]:
    """Minimise the common dual of experts that share one covariance.

    The fields `eta`, `omega`, `entropy_change` and `feasible` of the multipliers are the same for all experts, and the
    weighted mean of `kl` is bounded. The second result is the damping max(a, a_k) of each expert's mean,
    (n_components,).
    """
    least = decreasing_root(
        lambda a: _mean_kl(a, rho, shift) - bounds[0], (-rho.amin(-1)).clamp_min(kl_weight), relative_tolerance=1e-9
    )

    def kl(a: Tensor, omega: Tensor) -> Tensor:
        of_means = _mean_kl(torch.maximum(a, least.upper), rho, shift)
        return (weights * of_means).sum(-1, keepdim=True) + _kl(a, omega, spread[None], spread[None], zero)

    zero = torch.zeros_like(spread)[None]
    lowest = spread.amin(-1, keepdim=True)
    common = _minimised(kl, spread[None], lowest, torch.minimum(rho.amin(), lowest), (*bounds, kl_weight))
    a = torch.maximum(common.eta + kl_weight, least.upper)
    of_covariance = _kl(common.eta + kl_weight, common.omega, spread[None], spread[None], zero)
    shared = (part.expand(len(rho)) for part in (common.eta, common.omega, common.entropy_change))
    eta, omega, change = shared
    feasible = common.feasible & least.found.all()
    return Multipliers(eta, omega, of_covariance + _mean_kl(a, rho, shift), change, feasible.expand(len(rho))), a


def _minimised(
    kl: Callable[[Tensor, Tensor], Tensor],
    spread: Tensor,
    lowest: Tensor,
    of_objective: Tensor,
    settings: tuple[float | Tensor, float, float],
) -> Multipliers:
    """Minimise duals, given the curvatures `spread` (n, n_dims) that determine the covariances.

    `kl(a, omega)` (n,) is the KL of the update. The multiplier a must exceed -`lowest` (n,). Without a KL bound, a
    maximum exists only if the lowest curvature of the objective, `of_objective` (n,), exceeds -`kl_weight`.
    The settings are `kl_bound`, `entropy_loss_bound` and `kl_weight`.
    """
    kl_bound, entropy_loss_bound, kl_weight = settings
    start = (-lowest).clamp_min(kl_weight)
    a, omega, found = least_multipliers(kl, lambda a: _omega(a, spread, entropy_loss_bound), kl_bound, start, 1e-9)
    value = kl(a, omega)
    feasible = found & torch.isfinite(value)
    unbounded = torch.as_tensor(kl_bound).isinf()
    if bool(unbounded.any()):  # without a KL bound, only the curvature bounds the objective
        held = kl_weight > 0.0 or math.isfinite(entropy_loss_bound)  # otherwise the optimum is a point mass
        feasible = feasible & (((of_objective > -kl_weight) & held) | ~unbounded.to(spread.device))
    return Multipliers(a - kl_weight, omega, value, _entropy_change(a, omega, spread), feasible)


def _omega(a: Tensor, rho: Tensor, entropy_loss_bound: float) -> Tensor:
    mean_log = (torch.log(a.unsqueeze(-1) + rho).sum(-1) - 2.0 * entropy_loss_bound) / rho.shape[-1]
    return (mean_log.exp() - a).clamp_min(0.0)


def _kl(a: Tensor, omega: Tensor, spread: Tensor, rho: Tensor, shift: Tensor) -> Tensor:
    of_covariance, of_mean = a.unsqueeze(-1) + spread, a.unsqueeze(-1) + rho
    ratio = (a + omega).unsqueeze(-1) / of_covariance
    kl = 0.5 * (ratio - 1.0 - torch.log(ratio) + shift / of_mean.square()).sum(-1)
    positive = (of_covariance > 0.0).all(-1) & (of_mean > 0.0).all(-1)
    return torch.where(positive, kl, torch.full_like(kl, torch.inf))


def _mean_kl(a: Tensor, rho: Tensor, shift: Tensor) -> Tensor:
    """Return the share of the KL that is due to the change of the mean."""
    precision = a.unsqueeze(-1) + rho
    kl = 0.5 * (shift / precision.square()).sum(-1)
    return torch.where((precision > 0.0).all(-1), kl, torch.full_like(kl, torch.inf))


def _entropy_change(a: Tensor, omega: Tensor, rho: Tensor) -> Tensor:
    return 0.5 * torch.log((a + omega).unsqueeze(-1) / (a.unsqueeze(-1) + rho)).sum(-1)
