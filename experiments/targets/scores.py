"""Scores of a mixture on a target: bounds of the evidence, effective sample sizes, and modes or goals that were found.

The measures use log ratios and samples (Blessing et al. 2024, "Beyond ELBOs"). Let l(x) = log p~(x) - log q(x) be the
log ratio, Z the normaliser of p~, q the model and p the target:

    ELBO = E_q[l] <= log Z <= EUBO = E_p[l],      log Z ~ log mean_q e^l (importance weighted)
    reverse effective sample size  (mean_q e^l)^2 / mean_q e^2l,      forward  1 / (mean_p e^l mean_p e^-l)

Both effective sample sizes are shares of the number of samples, 1 for a perfect model. Only the forward effective
sample size reveals a mode that the model misses, because it uses samples of the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from scipy.optimize import brentq
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import Estimate, GaussianMixture, LinearExperts
from eim_ros.learning.models.quadratic_form import QuadraticForms, products_of_coordinates

MEDIAN_ROWS = 1000  # number of reference rows for the median of distances
CHUNK = 1000  # maximum number of rows evaluated at once
DIFFERENT = (
    "samples and reference must have the same number of dimensions, and each dimension of the reference must vary"
)


def mean_log_ratio(log_ratio: Tensor) -> Estimate:
    """Estimate the ELBO or the EUBO [nat] as the mean of log ratios (n_samples,).

    Samples of the model give the ELBO, and samples of the target give the EUBO. If the target is zero at a sample of
    the model, the ELBO is -inf.
    """
    values = _checked(log_ratio)
    error = float(values.std()) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return Estimate(float(values.mean()), error)


def importance_log_normaliser(log_ratio: Tensor) -> Estimate:
    """Estimate log Z [nat] from log ratios (n_samples,) at samples of the model.

    On average, the estimate is too low by half its variance.
    """
    values = _checked(log_ratio)
    n = len(values)
    log_mean = float(torch.logsumexp(values, 0)) - math.log(n)
    if not math.isfinite(log_mean):
        return Estimate(log_mean, math.nan)
    spread = float((values - log_mean).exp().std()) if n > 1 else math.nan
    return Estimate(log_mean, spread / math.sqrt(n))


def bridge_log_normaliser(log_ratio: Tensor, of_target: Tensor) -> float:
    """Estimate log Z [nat] from log ratios at samples of the model (n,) and at samples of the target (m,).

    The estimate is the optimal bridge (Meng and Wong 1996). Unlike importance weighting, it does not require a model
    that covers the tails of the target. This estimate equals the intercept of a logistic regression that separates both
    samples by log ratio.
    """
    values, others = _checked(log_ratio), _checked(of_target)
    offset = math.log(len(others) / len(values))

    def excess(log_z: float) -> float:
        mistaken = torch.sigmoid(values + offset - log_z).sum() - torch.sigmoid(log_z - offset - others).sum()
        return float(mistaken)

    both = torch.cat([values, others])
    margin = abs(offset) + math.log(len(both)) + 1.0
    return float(brentq(excess, float(both.min()) - margin, float(both.max()) + margin))


def reverse_effective_sample_size(log_ratio: Tensor) -> float:
    """Return the effective sample size of importance-weighted model samples, as a share from 1/n_samples to 1."""
    values = _checked(log_ratio)
    log_size = 2.0 * torch.logsumexp(values, 0) - torch.logsumexp(2.0 * values, 0)
    return float((log_size - math.log(len(values))).exp())


def forward_effective_sample_size(log_ratio: Tensor) -> float:
    """Return the forward effective sample size as a share, from log ratios (n_samples,) at samples of the target."""
    values = _checked(log_ratio)
    log_mean = [torch.logsumexp(sign * values, 0) - math.log(len(values)) for sign in (1.0, -1.0)]
    return float((-log_mean[0] - log_mean[1]).exp())


@dataclass(frozen=True)
class Discrepancy:
    """Squared MMD (Gretton et al. 2012) to a reference, as in Arenz et al. 2023. The result is at least 0.

    The kernel is exp(-sum_j (x_j - y_j)^2 / (bandwidth m_j)), where m_j is the median of squared differences within the
    reference. The sums over pairs include the pair of each sample with itself. Therefore, the expected value for two
    samples of the same density is not 0, but falls with the numbers of samples.

    Attributes
    ----------
    reference : Tensor (m, n_dims)
        Samples of the target.
    bandwidth : float
        Arenz et al. use 20 for logistic regression and 6 for the planar robot.
    """

    reference: Tensor
    bandwidth: float = 1.0

    def __call__(self, sample: Tensor) -> float:
        """Return the squared MMD of samples (n, n_dims) of the model."""
        if sample.shape[1:] != self.reference.shape[1:]:
            raise DistributionError(DIFFERENT, (tuple(sample.shape), tuple(self.reference.shape)))
        x, y = sample / self._scale, self.reference / self._scale
        return _mean_kernel(x, x) + self._within - 2.0 * _mean_kernel(x, y)

    @cached_property
    def _scale(self) -> Tensor:
        """Divisor of each dimension, (n_dims,)."""
        few = self.reference[:MEDIAN_ROWS]
        row, column = torch.triu_indices(len(few), len(few))
        median = torch.stack([(few[row, j] - few[column, j]).square().median() for j in range(few.shape[1])])
        if not bool((median > 0.0).all()):
            raise DistributionError(DIFFERENT, median)
        return (self.bandwidth * median).sqrt()

    @cached_property
    def _within(self) -> float:
        """Mean of the kernel over all pairs of the reference."""
        y = self.reference / self._scale
        return _mean_kernel(y, y)


def maximum_mean_discrepancy(sample: Tensor, reference: Tensor, bandwidth: float = 1.0) -> float:
    """Return the squared MMD of samples (n, n_dims) of the model to samples (m, n_dims) of the target.

    See `Discrepancy`, which is faster for several models with one reference.
    """
    return Discrepancy(reference, bandwidth)(sample)


def effective_components(log_weights: Tensor) -> float:
    """Return the exponential of the weights' entropy: the number of equal components with the same entropy.

    `log_weights` has shape (n_components,).
    """
    log_weights = torch.log_softmax(log_weights, -1)
    weights = log_weights.exp()
    return float((-(torch.xlogy(weights, weights)).sum()).exp())


def modes_found(means: Tensor, modes: Tensor, radius: float, log_weights: Tensor | None = None) -> int:
    """Return the number of modes (n_modes, n_dims) with a component mean (n_components, n_dims) within a radius.

    If log weights (n_components,) are given, components with a weight of at most 1e-6 are ignored.
    """
    if log_weights is not None:
        means = means[torch.log_softmax(log_weights, -1) > math.log(1e-6)]
    return int((torch.cdist(modes, means) < radius).any(-1).sum())


def mode_coverage(shares: Tensor) -> float:
    """Return the entropy of the shares of samples at each mode (n_modes,), to the base n_modes.

    The entropy is 1 if all shares are equal. This entropy equals the expected mode coverage of Blessing et al. if each
    sample belongs to one mode with certainty.
    """
    shares = shares / shares.sum()
    return float(-torch.xlogy(shares, shares).sum()) / math.log(len(shares)) if len(shares) > 1 else 1.0


def _mean_kernel(x: Tensor, y: Tensor) -> float:
    total = sum(float((-torch.cdist(part, y).square()).exp().sum()) for part in x.split(CHUNK))
    return total / (len(x) * len(y))


def _checked(log_ratio: Tensor) -> Tensor:
    if log_ratio.dim() != 1 or len(log_ratio) == 0 or bool(torch.isnan(log_ratio).any()):
        raise DistributionError(
            "log ratios must be a vector of at least one number without NaN; a NaN means that the target or the "
            "model was evaluated at an invalid sample",
            tuple(log_ratio.shape),
        )
    return log_ratio.to(torch.float64)


MANY_DIMS = 64  # maximum number of dimensions with affordable products of coordinates
LEAST_SHARE = 0.01  # minimum share of the samples at a goal that counts as found


@dataclass(frozen=True)
class MixtureScores:
    """Scores of a mixture.

    Attributes
    ----------
    elbo : Estimate
        [nat].
    n_found : int, optional
        Number of modes near the mean of a component, or of goals with at least 1 % of the samples. None if the target
        defines neither.
    n_modes : int, optional
        Total number of modes or goals.
    goal_shares : tuple of float, optional
        Shares of the samples by their nearest goal, for a robot that reaches goals.
    """

    elbo: Estimate
    n_found: int | None = None
    n_modes: int | None = None
    goal_shares: tuple[float, ...] | None = None


def mixture_scores(target: Any, model: GaussianMixture, n_samples: int, generator: torch.Generator) -> MixtureScores:
    """Score a mixture on a target.

    Parameters
    ----------
    target : Target
        Modes are counted if it has `modes` and `mode_radius`, goals if it has `goal_shares`.
    model : GaussianMixture
    n_samples : int
        Number of samples to draw from the model.
    generator : torch.Generator

    Returns
    -------
    MixtureScores
    """
    sample = model.sample(n_samples, generator)
    log_prob = _log_density(model)
    elbo = mean_log_ratio(torch.cat([target.log_prob(part) - log_prob(part) for part in sample.split(CHUNK)]))
    modes = getattr(target, "modes", None)
    if modes is not None:
        n_found = modes_found(model.means, modes, target.mode_radius, model.log_weights)
        return MixtureScores(elbo, n_found, len(modes))
    if hasattr(target, "goal_shares"):
        shares = tuple(target.goal_shares(sample).tolist())
        return MixtureScores(elbo, sum(share >= LEAST_SHARE for share in shares), len(shares), shares)
    return MixtureScores(elbo)


def _log_density(model: GaussianMixture) -> Callable[[Tensor], Tensor]:
    """Return the log density of the model. With many components, a single matrix product computes it."""
    n_components, n_dims = model.means.shape
    if n_components < n_dims or n_dims > MANY_DIMS:
        return model.log_prob
    center = model.means.mean(0)
    means = model.means - center
    forms = QuadraticForms.from_experts(LinearExperts(means.new_zeros(*means.shape, 0), means, model.scale_trils))

    def log_prob(x: Tensor) -> Tensor:
        local = x - center
        return torch.logsumexp(forms(local, products_of_coordinates(local)) + model.log_weights, -1)

    return log_prob
