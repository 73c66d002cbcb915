"""One iteration of EM for a mixture of few components, with little overhead.

It computes the same as `expect` and `maximised`, for Gaussian mixtures with full covariances whose responsibilities fit
into one chunk. The products of the coordinates do not change, so they are stored. All work on samples is done by a few
operations of torch, and all work on components by NumPy, whose calls cost less for small arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.quadratic_form import LARGEST_FORM, products_of_coordinates
from eim_ros.learning.models.standardisation import Standardisation, linear_parts
from eim_ros.learning.projections.likelihood import LEAST_LOG_WEIGHT, NOISE

FloatArray = npt.NDArray[np.float64]

MOST_RESPONSIBILITIES = 262_144  # number of points times components
MOST_PRODUCTS = 4_194_304  # stored numbers, 32 MiB
LEAST_LOG_RESPONSIBILITY = -300.0  # far below rounding; exp is several times slower where it underflows


@dataclass(frozen=True)
class CompactStep:
    """One iteration of EM on fixed data.

    Attributes
    ----------
    units : Standardisation
    products : Tensor (n_products, n_samples)
        Products of the standardised coordinates [x, 1].
    weight : Tensor (n_samples,) or None
        Weights of the samples, with a mean of one.
    covariance_floor : float
        Minimum variance in any direction, in standardised coordinates.
    """

    units: Standardisation
    products: Tensor
    weight: Tensor | None
    covariance_floor: float

    @classmethod
    def from_data(
        cls, units: Standardisation, joint: Tensor, weight: Tensor | None, n_components: int, covariance_floor: float
    ) -> CompactStep | None:
        """Return the iteration for points (n_samples, n_dims) without contexts, or None if they are too many."""
        n_products = (joint.shape[1] + 1) * (joint.shape[1] + 2) // 2
        if len(joint) * n_components > MOST_RESPONSIBILITIES or len(joint) * n_products > MOST_PRODUCTS:
            return None
        if joint.device.type != "cpu" or joint.dtype != torch.float64:
            return None
        return cls(units, products_of_coordinates(joint).T.contiguous(), weight, covariance_floor)

    def __call__(self, model: MixtureOfExperts) -> tuple[MixtureOfExperts, float] | None:
        """Return the updated model, and the mean log-likelihood of the old one [nat].

        None means that the complete implementation is needed: a component is narrow, below the floor, or has no weight.
        """
        gating, experts = linear_parts(model)
        if experts.n_components * self.products.shape[1] > MOST_RESPONSIBILITIES:
            return None
        scale, center = self.units.sample_scale.numpy(), self.units.sample_center.numpy()
        logits = gating.biases.detach().numpy()
        means = experts.biases.detach().numpy() / scale - center / scale
        coefficients = _coefficients(logits, means, experts.scale_trils.detach().numpy() / scale[:, None])
        if coefficients is None:
            return None
        values = torch.mm(torch.from_numpy(coefficients), self.products)
        largest = values.amax(0)
        shares = values.sub_(largest).clamp_min_(LEAST_LOG_RESPONSIBILITY).exp_()
        normaliser = shares.sum(0)
        reached = largest.add_(normaliser.log())
        if self.weight is not None:
            reached *= self.weight
            normaliser /= self.weight
        log_likelihood = float(reached.mean())
        if not math.isfinite(log_likelihood):
            return None
        sums = torch.mm(shares.div_(normaliser), self.products.T).numpy()
        parts = _fitted(sums, self.covariance_floor)
        if parts is None:
            return None
        log_weights, means, factors = parts
        following = MixtureOfExperts(
            SoftmaxGating(gating.weights, torch.from_numpy(log_weights)),
            LinearExperts(
                experts.weights, torch.from_numpy(means * scale + center), torch.from_numpy(factors * scale[:, None])
            ),
        )
        offset = float(np.logaddexp.reduce(logits)) + self.units.log_volume()
        return following, log_likelihood - offset


def _coefficients(logits: FloatArray, means: FloatArray, factors: FloatArray) -> FloatArray | None:
    """Return the coefficients of the log joint densities (n_components, n_products), or None if one is narrow."""
    n_components, n_dims = means.shape
    residuals = np.empty((n_components, n_dims, n_dims + 1))
    residuals[:, :, :-1] = np.linalg.inv(factors)
    np.matmul(residuals[:, :, :-1], -means[:, :, None], out=residuals[:, :, -1:])
    with np.errstate(over="ignore"):  # a mean may be very far from the data
        if not np.square(residuals).sum((-2, -1)).max() <= LARGEST_FORM:
            return None
    form = -0.5 * (residuals.transpose(0, 2, 1) @ residuals)
    log_det = np.log(np.diagonal(factors, axis1=-2, axis2=-1)).sum(-1)
    form[:, -1, -1] += logits - log_det - 0.5 * n_dims * math.log(2.0 * math.pi)
    row, column = np.triu_indices(n_dims + 1)
    coefficients: FloatArray = form[:, row, column]
    coefficients[:, row != column] *= 2.0
    return coefficients


def _fitted(sums: FloatArray, covariance_floor: float) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return log weights, means and Cholesky factors of maximum likelihood, or None in a case that needs care."""
    n_components, n_products = sums.shape
    width = int((2 * n_products) ** 0.5)
    count = sums[:, -1]
    if not count.min() > np.finfo(np.float64).eps:
        return None
    row, column = np.triu_indices(width)
    second = np.empty((n_components, width, width))
    second[:, row, column] = second[:, column, row] = sums / count[:, None]
    means = second[:, :-1, -1].copy()
    covariances = second[:, :-1, :-1] - means[:, :, None] * means[:, None, :]
    try:
        if covariance_floor > 0.0:
            np.linalg.cholesky(covariances - covariance_floor * np.eye(width - 1))
        factors = np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        return None
    pivots = np.square(np.diagonal(factors, axis1=-2, axis2=-1)).min(-1)
    noise = NOISE * np.diagonal(second, axis1=-2, axis2=-1)[:, :-1].max(-1)
    if not (pivots > noise).all():
        return None
    return np.maximum(np.log(count / count.sum()), LEAST_LOG_WEIGHT), means, factors
