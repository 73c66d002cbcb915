"""Weighted maximum likelihood of linear-Gaussian experts (the M-projection): the M-step of EM (thesis 2.1.3).

An expert needs only the moments M_i = sum_n r_ni e_n e_n' of e = [x, y, 1]: W = M_xy M_yy^-1 (centred) and the
covariance of the residuals. Under the constraint that no variance be below a floor f the best covariance has the same
eigenvectors and the eigenvalues max(lambda, f), so that with a floor, too, the likelihood of EM never falls.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.distributions.gating import SoftmaxGating
from eim_ros.distributions.gaussian import log_normaliser
from eim_ros.distributions.linear_experts import LinearExperts
from eim_ros.distributions.mixture_of_experts import MixtureOfExperts
from eim_ros.distributions.quadratic_form import products_of_coordinates, symmetric_from_products
from eim_ros.distributions.standardisation import Standardisation, linear_parts

__all__ = ["experts_from_moments", "fit_experts", "improve_experts"]

LEAST_VARIANCE = 1e-12  # of a singular covariance where no floor is set, relative to the data's
NOISE = 1e-13  # a variance below this share of the second moment is rounding error


def fit_experts(
    context: Tensor, sample: Tensor, responsibilities: Tensor, *, covariance_floor: float = 0.0, ridge: float = 1e-3
) -> LinearExperts:
    """Weighted least squares with covariance, all experts at once.

    Parameters
    ----------
    context : Tensor (n_samples, n_context)
    sample : Tensor (n_samples, n_dims)
    responsibilities : Tensor (n_samples, n_components)
        Non-negative weights.
    covariance_floor : float
        Least variance in any direction, relative to the samples' variances.
    ridge : float
        Pseudo-observations per regression coefficient in units of the contexts' variance; an expert with fewer points
        than coefficients falls back to a constant mean.

    Returns
    -------
    LinearExperts
        An expert without any weight gets the regression of all samples.
    """
    units = Standardisation.from_data(context, sample)
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
    moments: Tensor, n_dims: int, covariance_floor: float = 0.0, ridge: float = 1e-3
) -> tuple[LinearExperts, Tensor]:
    """Maximum likelihood experts of given moments, in standardised coordinates.

    Parameters
    ----------
    moments : Tensor (n_components, n_dims + n_context + 1, n_dims + n_context + 1)
        Weighted sums of e e' with e = [x, y, 1]; of positive weight.
    n_dims : int
    covariance_floor : float
        Least eigenvalue of a covariance.
    ridge : float
        Pseudo-observations of unit variance per regression coefficient.

    Returns
    -------
    experts : LinearExperts
    regular : Tensor (n_components,) of bool
        Where the covariance was not singular, or a floor has cured it.
    """
    count = moments[:, -1, -1].clamp_min(torch.finfo(moments.dtype).tiny)
    second = moments / count[:, None, None]
    mean = second[:, :-1, -1]
    covariance = second[:, :-1, :-1] - mean.unsqueeze(-1) * mean.unsqueeze(-2)
    xx, xy, yy = (
        covariance[:, :n_dims, :n_dims],
        covariance[:, :n_dims, n_dims:],
        covariance[:, n_dims:, n_dims:],
    )
    # the damping is bounded: with weights of 1e-300 it would overflow, and a slope of zero is reached long before
    damping = (ridge / count).clamp_max(1e30).unsqueeze(-1) + NOISE
    damped = yy + torch.diag_embed(damping.expand(*yy.shape[:-1]))
    slope = torch.linalg.solve(damped, xy.mT).mT
    residual = xx - slope @ xy.mT - xy @ slope.mT + slope @ yy @ slope.mT
    residual = 0.5 * (residual + residual.mT)
    noise = NOISE * torch.diagonal(second, dim1=-2, dim2=-1)[:, :n_dims].amax(-1)
    factor, regular = _floored_factor(residual, covariance_floor, noise)
    bias = mean[:, :n_dims] - (slope @ mean[:, n_dims:].unsqueeze(-1)).squeeze(-1)
    return LinearExperts(slope, bias, factor), regular


def improve_experts(
    previous: LinearExperts, moments: Tensor, covariance_floor: float = 0.0, ridge: float = 1e-3
) -> LinearExperts:
    """Maximum likelihood experts, less those that would be no better than the previous ones.

    An expert keeps its parameters if it has no weight, if its covariance would be singular, or if the ridge or
    rounding would lower its expected log-likelihood: so no step of EM ever lowers the likelihood.
    """
    fitted, regular = experts_from_moments(moments, previous.n_dims, covariance_floor, ridge)
    keep = ~regular | _empty(moments)
    if previous.n_context > 0 or covariance_floor == 0.0:  # otherwise the fit is the maximum
        worse = ~(_expected_log_likelihood(fitted, moments) >= _expected_log_likelihood(previous, moments))
        if bool(worse.any()) and covariance_floor > 0.0:  # a previous expert below the floor is no alternative
            index = worse.nonzero().flatten()
            variance = torch.linalg.svdvals(previous.scale_trils[index])[:, -1].square()
            worse[index] = variance >= (1.0 - 1e-6) * covariance_floor
        keep |= worse
    pairs = ((getattr(previous, name), getattr(fitted, name)) for name in ("weights", "biases", "scale_trils"))
    return LinearExperts(*(torch.where(keep.reshape(-1, *(1,) * (old.dim() - 1)), old, new) for old, new in pairs))


def _expected_log_likelihood(experts: LinearExperts, moments: Tensor) -> Tensor:
    """sum_n r_n log N(x_n) = r log normaliser - 1/2 tr(R M R'), (n_components,)."""
    rows = experts.whitening().reshape(experts.n_components, experts.n_dims, -1)
    value: Tensor = moments[:, -1, -1] * log_normaliser(experts.scale_trils)
    return value - 0.5 * ((rows @ moments) * rows).sum((-2, -1))


def _empty(moments: Tensor) -> Tensor:
    return ~(moments[:, -1, -1] > torch.finfo(moments.dtype).eps)


def _floored_factor(covariance: Tensor, floor: float, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Cholesky factors (k, d, d) of covariances whose eigenvalues are raised to the floor, and which are regular.

    Most covariances are above the floor, which one Cholesky factorisation shows; only the others are decomposed.
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
