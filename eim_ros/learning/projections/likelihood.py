"""Weighted maximum likelihood (M-projection) of a softmax gating and of linear-Gaussian experts, for EM (thesis 2.1.3).

Gating: the cross entropy -1/N sum_n sum_i t_ni log softmax(V y_n + v)_i is convex in (V, v). The cross entropy depends
on the targets only through the moments sum_n t_ni [y_n, 1]. L-BFGS minimises the cross entropy, starting from the
previous gating. In its coordinates, the diagonal blocks of the Hessian are close to the identity. Otherwise, components
with small probabilities would move too slowly. In EM, the targets change little from one M-step to the next. The
targets do not affect the change of the gradient along a step, so the curvature of earlier steps remains valid. A single
step per M-step with this curvature is almost as good as a complete fit, and much cheaper.

Experts: an expert depends only on the moments M_i = sum_n r_ni e_n e_n' of e = [x, y, 1]. Its weights are W = M_xy
M_yy^-1 (centred), and its covariance is the covariance of the residuals. If variances must not be below a floor f, the
optimal covariance has the same eigenvectors and the eigenvalues max(lambda, f). Therefore, the likelihood of EM never
decreases, with or without a floor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from eim_ros.core.arrays import FloatArray
from eim_ros.learning.models.gaussian import log_normaliser
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.quadratic_form import products_of_coordinates, symmetric_from_products
from eim_ros.learning.models.standardisation import Standardisation, linear_parts

LEAST_LOG_WEIGHT = -700.0  # represents a weight of zero; its exponential is above zero in float64
# Smaller probabilities are negligible. At this limit, exp does not underflow yet; underflow would be several times
# slower.
LEAST_LOG_PROBABILITY = -300.0
CHUNK_ELEMENTS = 262_144  # number of probabilities per block; a block fits into the cache
# minimum variance of singular covariances if no floor is set, relative to the variance of the data
LEAST_VARIANCE = 1e-12
NOISE = 1e-13  # a variance below this share of the second moment is rounding error
# maximum number and factor of the shortenings of a quasi-Newton step that does not decrease the loss
MAX_SHORTENINGS, SHORTENING = 4, 0.25
N_PAIRS = 10  # number of earlier steps that approximate the Hessian
# Minimum cosine of the angle between a step and the change of the gradient. For a smaller cosine, rounding errors
# dominate.
LEAST_CURVATURE = 1e-12

CurvaturePair: TypeAlias = tuple[Tensor, Tensor]
"""Step of the parameters [V, v] of a gating, and the change of the gradient along it, (n_components, n_context + 1)."""


def fit_gating(
    initial: SoftmaxGating,
    context: Tensor,
    targets: Tensor,
    *,
    max_iterations: int = 50,
    l2: float = 1e-6,
    weight: Tensor | None = None,
) -> SoftmaxGating:
    """Fit a softmax gating to soft targets by softmax regression.

    Parameters
    ----------
    initial : SoftmaxGating
        Start of the optimisation. The initial gating also determines the device and the dtype.
    context : Tensor (n_samples, n_context)
    targets : Tensor (n_samples, n_components)
        Non-negative targets. Each row sums to 1.
    max_iterations : int
        Maximum number of L-BFGS iterations. Few iterations are needed if `initial` is close to the result.
    l2 : float
        Weight of 1/2 |V|^2 in standardised coordinates. This penalty keeps V finite if the targets are separable.
    weight : Tensor (n_samples,), optional
        Weights of the samples, with a mean of one. By default, all weights are equal.

    Returns
    -------
    SoftmaxGating
        A gating. Its cross entropy is never greater than the cross entropy of `initial`. Without contexts, its weights
        are the mean of the targets.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.models import SoftmaxGating
    >>> from eim_ros.learning.projections import fit_gating
    >>> context = torch.linspace(-1.0, 1.0, 100, dtype=torch.float64)[:, None]
    >>> share = torch.sigmoid(3.0 * context)
    >>> start = SoftmaxGating(torch.zeros(2, 1).double(), torch.zeros(2).double())
    >>> gating = fit_gating(start, context, torch.cat([share, 1.0 - share], -1))
    >>> bool((gating(context).exp()[:, :1] - share).abs().max() < 0.01)
    True
    """
    center = context.mean(0)
    scale = (context - center).square().mean(0).sqrt()
    scale = torch.where(scale > 0.0, scale, torch.ones_like(scale))
    standard = (context - center) / scale
    design = _design(standard)
    products = (design.unsqueeze(-1) * design.unsqueeze(-2)).flatten(1)
    shares = targets if weight is None else targets * weight.unsqueeze(-1)
    moments = (shares.T @ products).reshape(-1, *2 * (design.shape[1],))
    start = SoftmaxGating(initial.weights * scale, initial.biases + initial.weights @ center)
    fitted = fit_gating_to_moments(start, standard, moments, max_iterations=max_iterations, l2=l2, weight=weight)[0]
    weights = fitted.weights / scale
    return SoftmaxGating(weights, fitted.biases - weights @ center)


def fit_gating_to_moments(
    initial: SoftmaxGating,
    context: Tensor,  # (n_samples, n_context), standardised contexts
    # (n_components, n_context + 1, n_context + 1), the moments sum_n t_n e_n e_n' with e = [y, 1]. The targets t of a
    # context sum to 1, or to the weight of the context.
    moments: Tensor,
    *,
    # as in `fit_gating`
    max_iterations: int = 50,
    l2: float = 1e-6,
    weight: Tensor | None = None,
    # pairs for a single step instead of a complete fit; the step appends its own pair
    curvature: list[CurvaturePair] | None = None,
) -> tuple[SoftmaxGating, float]:
    """Fit a softmax gating to soft targets that are given by their moments.

    The first result is a gating. Its cross entropy is never greater than the cross entropy of `initial`. The second
    result is the mean of log sum_i exp(V y + v)_i for `initial` over the contexts [nat].
    """
    share = moments[:, -1, -1] / moments[:, -1, -1].sum()
    if initial.n_context == 0:
        log_weights = share.log().clamp_min(LEAST_LOG_WEIGHT)
        normaliser = float(torch.logsumexp(initial.biases, 0))
        return SoftmaxGating(initial.weights, log_weights), normaliser
    design = _design(context)
    first = moments[:, -1] / len(context)
    start = torch.cat([initial.weights, initial.biases.unsqueeze(-1)], -1)
    normaliser, expected = _normaliser_and_gradient(design, start, weight)
    if initial.n_components == 1:
        return SoftmaxGating(torch.zeros_like(initial.weights), torch.zeros_like(initial.biases)), normaliser
    # The Hessian blocks are approximated by the mean of two estimates. The first estimate assumes an exact fit to the
    # targets. The second one uses the current probabilities.
    identity = torch.eye(design.shape[1], dtype=design.dtype, device=design.device)
    blocks = 0.5 * moments / len(context) + (0.5 * expected[:, -1].clamp_min(0.0) + l2)[:, None, None] * identity
    factor = torch.linalg.cholesky(blocks + 1e-9 * identity)

    def losses(parameters: Tensor) -> tuple[float, float, Tensor]:
        """Return the cross entropy, the penalty, and the gradient of their sum."""
        log_normaliser, gradient = (
            (normaliser, expected) if parameters is start else _normaliser_and_gradient(design, parameters, weight)
        )
        penalised = torch.cat([parameters[:, :-1], torch.zeros_like(parameters[:, -1:])], -1)
        product, square = torch.stack([(first * parameters).sum(), penalised.square().sum()]).tolist()
        return log_normaliser - product, 0.5 * l2 * square, gradient - first + l2 * penalised

    if curvature is None:
        fitted = _minimise(losses, start, factor, max_iterations)
    else:
        fitted = _quasi_newton_step(losses, start, factor, curvature)
    weights, biases = fitted[:, :-1], fitted[:, -1]
    return SoftmaxGating(weights - weights.mean(0), biases - biases.mean()), normaliser


def _design(context: Tensor) -> Tensor:
    return torch.cat([context, context.new_ones(len(context), 1)], -1)


def _normaliser_and_gradient(design: Tensor, parameters: Tensor, weight: Tensor | None = None) -> tuple[float, Tensor]:
    """Return the mean log normaliser of the logits, and its gradient.

    The gradient is the mean of p_i [y, 1], (n_components, n_context + 1). Both means use the weights of the samples.
    """
    step = max(1, CHUNK_ELEMENTS // len(parameters))
    buffer = design.new_empty(min(step, len(design)), len(parameters))  # reused, because allocation takes time
    total, gradient = design.new_zeros(()), torch.zeros_like(parameters.T, memory_format=torch.contiguous_format)
    shares = None if weight is None else weight.unsqueeze(-1).split(step)
    for number, rows in enumerate(design.split(step)):
        logits = torch.mm(rows, parameters.T, out=buffer[: len(rows)])
        largest = logits.amax(-1, keepdim=True)
        probabilities = logits.sub_(largest).clamp_min_(LEAST_LOG_PROBABILITY).exp_()
        sums = probabilities.sum(-1, keepdim=True)
        values = largest + sums.log()
        total += (values if shares is None else values * shares[number]).sum()
        gradient.addmm_((rows / (sums if shares is None else sums / shares[number])).T, probabilities)
    return float(total) / len(design), gradient.T / len(design)


def _minimise(
    losses: Callable[[Tensor], tuple[float, float, Tensor]], start: Tensor, factor: Tensor, max_iterations: int
) -> Tensor:
    """Run L-BFGS in the coordinates factor' @ parameters. Return the result, or the start if the start is better."""
    lowest, _, _ = losses(start)
    seen: dict[bytes, float] = {}

    def parameters_at(flat: FloatArray) -> Tensor:
        if not flat.any():
            return start
        step = torch.as_tensor(flat, dtype=start.dtype, device=start.device).reshape(start.shape)
        moved: Tensor = torch.linalg.solve_triangular(factor.mT, step.unsqueeze(-1), upper=True)
        return start + moved.squeeze(-1)

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        cross_entropy, penalty, gradient = losses(parameters_at(flat))
        seen[flat.tobytes()] = cross_entropy
        scaled = torch.linalg.solve_triangular(factor, gradient.unsqueeze(-1), upper=False)
        return cross_entropy + penalty, scaled.reshape(-1).to(torch.float64).cpu().numpy()

    result: Any = minimize(
        objective,
        np.zeros(start.numel()),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iterations, "gtol": 1e-7, "ftol": 1e-12},
    )
    reached = seen.get(result.x.tobytes(), float("nan"))
    return parameters_at(result.x) if np.isfinite(result.x).all() and reached <= lowest else start


def _quasi_newton_step(
    losses: Callable[[Tensor], tuple[float, float, Tensor]],
    start: Tensor,
    factor: Tensor,
    curvature: list[CurvaturePair],
) -> Tensor:
    """Take an L-BFGS step with the curvature of earlier steps (Nocedal and Wright 2006, algorithm 7.4).

    The step is shortened until the loss decreases, and its curvature is added to the pairs. If no shortened step
    decreases the loss, the start is returned and all pairs are removed.
    """
    cross_entropy, penalty, gradient = losses(start)
    direction, shares = gradient, []
    for step, change in reversed(curvature):
        share = float((step * direction).sum() / (step * change).sum())
        shares.append(share)
        direction = direction - share * change
    direction = torch.cholesky_solve(direction.unsqueeze(-1), factor).squeeze(-1)
    for (step, change), share in zip(curvature, reversed(shares), strict=True):
        direction = direction + (share - float((change * direction).sum() / (step * change).sum())) * step
    for number in range(MAX_SHORTENINGS):
        reached = start - SHORTENING**number * direction
        new_cross_entropy, new_penalty, new_gradient = losses(reached)
        if new_cross_entropy <= cross_entropy and new_cross_entropy + new_penalty <= cross_entropy + penalty:
            step, change = reached - start, new_gradient - gradient
            if float((step * change).sum()) > LEAST_CURVATURE * float(step.norm() * change.norm()):
                curvature.append((step, change))
                del curvature[:-N_PAIRS]
            return reached
    curvature.clear()
    return start


def fit_experts(
    context: Tensor, sample: Tensor, responsibilities: Tensor, *, covariance_floor: float = 0.0, ridge: float = 1e-3
) -> LinearExperts:
    """Fit the means and covariances of all experts by weighted least squares.

    Parameters
    ----------
    context : Tensor (n_samples, n_context)
    sample : Tensor (n_samples, n_dims)
    responsibilities : Tensor (n_samples, n_components)
        Non-negative weights.
    covariance_floor : float
        Minimum variance in any direction, relative to the variances of the samples.
    ridge : float
        Number of pseudo-observations per regression coefficient, in units of the variance of the contexts.
        Pseudo-observations make the mean of an expert nearly constant if the expert has fewer points than coefficients.

    Returns
    -------
    LinearExperts
        Fitted experts. An expert without any weight is fitted to all samples.

    Examples
    --------
    Fit the first of two experts to data x = |y| at negative contexts, and the second at positive contexts:

    >>> import torch
    >>> from eim_ros.learning.projections import fit_experts
    >>> context = torch.linspace(-1.0, 1.0, 100, dtype=torch.float64)[:, None]
    >>> positive = (context > 0.0).double()
    >>> experts = fit_experts(context, context.abs(), torch.cat([1.0 - positive, positive], -1), covariance_floor=1e-6)
    >>> experts.weights.round(decimals=2).flatten().tolist()
    [-1.0, 1.0]
    """
    units = Standardisation.resistant(context, sample)
    products = products_of_coordinates(units.joint(context, sample))
    width = sample.shape[1] + context.shape[1] + 1
    moments = symmetric_from_products(responsibilities.T @ products, width)
    total = symmetric_from_products(products.sum(0), width)
    experts, _ = experts_from_moments(
        torch.where(_empty(moments)[:, None, None], total, moments), units.n_dims, covariance_floor, ridge
    )
    blank = SoftmaxGating(context.new_zeros(len(moments), context.shape[1]), context.new_zeros(len(moments)))
    return linear_parts(units.original(MixtureOfExperts(blank, experts)))[1]


def experts_from_moments(
    # (n_components, n_dims + n_context + 1, n_dims + n_context + 1), weighted sums of e e' with e = [x, y, 1]. The
    # total weight of each component must be positive.
    moments: Tensor,
    n_dims: int,
    covariance_floor: float = 0.0,  # minimum eigenvalue of a covariance
    ridge: float = 1e-3,  # number of pseudo-observations of unit variance per regression coefficient
    covariance: str = "full",  # "full", "diagonal", "tied" (one covariance of all experts) or "spherical"
    # (n_dims,), units of the standardised coordinates. Spherical covariances are spherical in the original coordinates.
    scale: Tensor | None = None,
) -> tuple[LinearExperts, Tensor]:
    """Compute maximum-likelihood experts from moments, in standardised coordinates.

    The second result is a mask (n_components,) of the experts with a covariance that is not singular after the floor is
    applied.
    """
    count = moments[:, -1, -1].clamp_min(torch.finfo(moments.dtype).tiny)
    second = moments / count[:, None, None]
    mean = second[:, :-1, -1]
    joint = second[:, :-1, :-1] - mean.unsqueeze(-1) * mean.unsqueeze(-2)
    xx, xy, yy = joint[:, :n_dims, :n_dims], joint[:, :n_dims, n_dims:], joint[:, n_dims:, n_dims:]
    slope, residual = xy, xx
    if xy.shape[-1]:
        # The damping is bounded, because it would overflow for weights of 1e-300. Much smaller damping already gives a
        # slope of zero.
        damping = (ridge / count).clamp_max(1e30).unsqueeze(-1) + NOISE
        damped = yy + torch.diag_embed(damping.expand(*yy.shape[:-1]))
        slope = torch.linalg.solve(damped, xy.mT).mT
        residual = xx - slope @ xy.mT - xy @ slope.mT + slope @ yy @ slope.mT
    residual = 0.5 * (residual + residual.mT)
    noise = NOISE * torch.diagonal(second, dim1=-2, dim2=-1)[:, :n_dims].amax(-1)
    if covariance != "full":
        residual = _restricted(residual, covariance, count, covariance_floor, scale)
    factor, regular = _floored_factor(residual, covariance_floor, noise)
    bias = mean[:, :n_dims] - (slope @ mean[:, n_dims:].unsqueeze(-1)).squeeze(-1)
    return LinearExperts(slope, bias, factor), regular


def _restricted(
    residual: Tensor, covariance: str, count: Tensor, covariance_floor: float, scale: Tensor | None
) -> Tensor:
    """Return the most likely diagonal, tied or spherical covariances (k, d, d), given full covariances."""
    if covariance == "tied":
        return (residual * (count / count.sum())[:, None, None]).sum(0).expand(residual.shape).contiguous()
    variance = torch.diagonal(residual, dim1=-2, dim2=-1)
    if covariance == "spherical":
        squared = torch.ones_like(variance[0]) if scale is None else scale.square()
        mean = (variance * squared).mean(-1, keepdim=True).clamp_min(covariance_floor * float(squared.max()))
        variance = mean / squared
    return torch.diag_embed(variance)


def constrained_factors(
    factors: Tensor,  # (n_components, n_dims, n_dims)
    weights: Tensor,  # (n_components,), weights of the components, for tied covariances
    covariance: str,  # as in `experts_from_moments`
    # Minimum variance in any direction, relative to the square of `scale`. It must be positive.
    covariance_floor: float,
    scale: Tensor,  # (n_dims,)
) -> Tensor:
    """Return Cholesky factors of the most likely covariances of a kind, given full covariances."""
    relative = factors / scale.unsqueeze(-1)
    full = relative @ relative.mT
    chosen = full if covariance == "full" else _restricted(full, covariance, weights, covariance_floor, scale)
    return _floored_factor(chosen, covariance_floor, torch.zeros_like(weights))[0] * scale.unsqueeze(-1)


def improve_experts(
    previous: LinearExperts,
    moments: Tensor,
    covariance_floor: float = 0.0,
    ridge: float = 1e-3,
    covariance: str = "full",
    scale: Tensor | None = None,
) -> LinearExperts:
    """Compute maximum-likelihood experts, but keep previous experts that are at least as good as the new ones.

    The covariances of the previous experts must be of the same kind. An expert is kept if it has no weight or if its
    new covariance would be singular. An expert is also kept if the ridge or rounding would lower its expected
    log-likelihood. Experts with a tied covariance are kept or replaced together. Therefore, a step of EM never
    decreases the likelihood.
    """
    fitted, regular = experts_from_moments(moments, previous.n_dims, covariance_floor, ridge, covariance, scale)
    if covariance == "tied":
        return _improved_tied(previous, fitted, moments, bool(regular.all()))
    keep = ~regular | _empty(moments)
    if previous.n_context > 0 or covariance_floor == 0.0:  # without contexts, a fit with a floor is always optimal
        worse = ~(_expected_log_likelihood(fitted, moments) >= _expected_log_likelihood(previous, moments))
        if bool(worse.any()) and covariance_floor > 0.0:  # experts with a variance below the floor must not be kept
            index = worse.nonzero().flatten()
            variance = torch.linalg.svdvals(previous.scale_trils[index])[:, -1].square()
            worse[index] = variance >= (1.0 - 1e-6) * covariance_floor
        keep |= worse
    pairs = ((getattr(previous, name), getattr(fitted, name)) for name in ("weights", "biases", "scale_trils"))
    return LinearExperts(*(torch.where(keep.reshape(-1, *(1,) * (old.dim() - 1)), old, new) for old, new in pairs))


def _improved_tied(previous: LinearExperts, fitted: LinearExperts, moments: Tensor, regular: bool) -> LinearExperts:
    """Return the fitted experts with a tied covariance, or the previous experts if they are more likely."""
    empty = _empty(moments)
    experts = LinearExperts(
        torch.where(empty[:, None, None], previous.weights, fitted.weights),
        torch.where(empty[:, None], previous.biases, fitted.biases),
        fitted.scale_trils,
    )
    new, old = (_expected_log_likelihood(each, moments).sum() for each in (experts, previous))
    return experts if regular and bool(new >= old) else previous


def _expected_log_likelihood(experts: LinearExperts, moments: Tensor) -> Tensor:
    """Return sum_n r_n log N(x_n) = r log normaliser - 1/2 tr(R M R'), (n_components,)."""
    rows = experts.whitening().reshape(experts.n_components, experts.n_dims, -1)
    value: Tensor = moments[:, -1, -1] * log_normaliser(experts.scale_trils)
    return value - 0.5 * ((rows @ moments) * rows).sum((-2, -1))


def _empty(moments: Tensor) -> Tensor:
    return ~(moments[:, -1, -1] > torch.finfo(moments.dtype).eps)


def _floored_factor(covariance: Tensor, floor: float, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Raise eigenvalues of covariances to the floor. Return their Cholesky factors (k, d, d), and a mask.

    The mask is true for covariances that are not singular. A Cholesky factorisation detects covariances above the
    floor, which are most of them. Only covariances below the floor need an eigendecomposition.
    """
    identity = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    _, above = torch.linalg.cholesky_ex(covariance - floor * identity)
    factor, positive = torch.linalg.cholesky_ex(covariance)
    pivots = torch.diagonal(factor, dim1=-2, dim2=-1).square().amin(-1)
    plain = (above == 0) & (positive == 0) & (pivots > noise)
    if bool(plain.all()):
        return factor, plain
    index = (~plain).nonzero().flatten()
    values, vectors = torch.linalg.eigh(covariance[index])
    raised = values.clamp_min(max(floor, LEAST_VARIANCE))
    upper = torch.linalg.qr(raised.sqrt().unsqueeze(-1) * vectors.mT)[1]
    sign = torch.where(torch.diagonal(upper, dim1=-2, dim2=-1) < 0.0, -1.0, 1.0).unsqueeze(-1)
    factor[index] = (sign * upper).mT.tril()
    return factor, plain if floor < LEAST_VARIANCE else torch.ones_like(plain)
