"""What a mixture has reached on a target: the ELBO from fresh samples, and how many modes or goals it has found.

How good a model of a target is, from log ratios and samples (Blessing et al. 2024, "Beyond ELBOs").

With the log ratio l(x) = log p~(x) - log q(x), Z the normaliser of p~, samples of the model q and of the target p:

    ELBO = E_q[l] <= log Z <= EUBO = E_p[l],      log Z ~ log mean_q e^l (importance weighted)
    reverse effective sample size  (mean_q e^l)^2 / mean_q e^2l,      forward  1 / (mean_p e^l mean_p e^-l)

Both sizes are shares of the number of samples: 1 for a perfect model. The forward one falls when the model lacks a mode
that none of its own samples can tell of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import Estimate, GaussianMixture, LinearExperts
from eim_ros.learning.models.quadratic_form import QuadraticForms, products_of_coordinates

MEDIAN_ROWS = 1000  # of the reference, for the median of distances
CHUNK = 1000  # rows of a kernel matrix at once


def mean_log_ratio(log_ratio: Tensor) -> Estimate:
    """ELBO from log ratios (n_samples,) at samples of the model, EUBO from those at samples of the target [nat].

    A sample of the model where the target is zero makes the ELBO -inf, as it is.
    """
    values = _checked(log_ratio)
    error = float(values.std()) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return Estimate(float(values.mean()), error)


def importance_log_normaliser(log_ratio: Tensor) -> Estimate:
    """log Z [nat] from log ratios (n_samples,) at samples of the model; too low, by half the variance, on average."""
    values = _checked(log_ratio)
    n = len(values)
    log_mean = float(torch.logsumexp(values, 0)) - math.log(n)
    if not math.isfinite(log_mean):
        return Estimate(log_mean, math.nan)
    spread = float((values - log_mean).exp().std()) if n > 1 else math.nan
    return Estimate(log_mean, spread / math.sqrt(n))


def reverse_effective_sample_size(log_ratio: Tensor) -> float:
    """Share, 1/n_samples to 1, of samples of the model that weighted samples are worth."""
    values = _checked(log_ratio)
    log_size = 2.0 * torch.logsumexp(values, 0) - torch.logsumexp(2.0 * values, 0)
    return float((log_size - math.log(len(values))).exp())


def forward_effective_sample_size(log_ratio: Tensor) -> float:
    """The same from log ratios (n_samples,) at samples of the target."""
    values = _checked(log_ratio)
    log_mean = [torch.logsumexp(sign * values, 0) - math.log(len(values)) for sign in (1.0, -1.0)]
    return float((-log_mean[0] - log_mean[1]).exp())


def maximum_mean_discrepancy(sample: Tensor, reference: Tensor, bandwidth: float = 1.0) -> float:
    """Squared MMD (Gretton et al. 2012) as seed 003 reports it, at least 0.

    The kernel is exp(-sum_j (x_j - y_j)^2 / (bandwidth m_j)), m_j the median of squared differences of the reference.

    Parameters
    ----------
    sample : Tensor (n, n_dims)
        Of the model.
    reference : Tensor (m, n_dims)
        Of the target.
    bandwidth : float
        Seed 003 has 20 for the logistic regressions, 6 for the planar robot.
    """
    few = reference[:MEDIAN_ROWS]
    row, column = torch.triu_indices(len(few), len(few))
    median = torch.stack([(few[row, j] - few[column, j]).square().median() for j in range(few.shape[1])])
    if sample.shape[1:] != reference.shape[1:] or not bool((median > 0.0).all()):
        raise DistributionError("a sample and a reference must have the same dimensions, which vary in the reference")
    scale = (bandwidth * median).sqrt()
    x, y = sample / scale, reference / scale
    return _mean_kernel(x, x) + _mean_kernel(y, y) - 2.0 * _mean_kernel(x, y)


def effective_components(log_weights: Tensor) -> float:
    """Exponential of the entropy of weights (n_components,): how many equal components would be as varied."""
    log_weights = torch.log_softmax(log_weights, -1)
    weights = log_weights.exp()
    return float((-(torch.xlogy(weights, weights)).sum()).exp())


def modes_found(means: Tensor, modes: Tensor, radius: float, log_weights: Tensor | None = None) -> int:
    """Number of modes (n_modes, n_dims) with a component's mean (n_components, n_dims) within a radius.

    Components with a weight below 1e-6 do not count, if log weights (n_components,) are given.
    """
    if log_weights is not None:
        means = means[torch.log_softmax(log_weights, -1) > math.log(1e-6)]
    return int((torch.cdist(modes, means) < radius).any(-1).sum())


def mode_coverage(shares: Tensor) -> float:
    """Entropy of the shares of samples at each mode (n_modes,), to the base n_modes: 1 where all modes get the same.

    The expected mode coverage of Blessing et al., for modes that are told apart with certainty.
    """
    shares = shares / shares.sum()
    return float(-torch.xlogy(shares, shares).sum()) / math.log(len(shares)) if len(shares) > 1 else 1.0


def _mean_kernel(x: Tensor, y: Tensor) -> float:
    total = sum(float((-torch.cdist(part, y).square()).exp().sum()) for part in x.split(CHUNK))
    return total / (len(x) * len(y))


def _checked(log_ratio: Tensor) -> Tensor:
    if log_ratio.dim() != 1 or len(log_ratio) == 0 or bool(torch.isnan(log_ratio).any()):
        raise DistributionError(
            "log ratios must be a vector of at least one, none of them NaN; a NaN comes from a target or model "
            "evaluated at a bad sample",
            tuple(log_ratio.shape),
        )
    return log_ratio.to(torch.float64)


MANY_DIMS = 64  # from which on the products of the coordinates are too many
LEAST_SHARE = 0.01  # of the samples at a goal that counts as found


@dataclass(frozen=True)
class MixtureScores:
    """Scores of a mixture.

    Attributes
    ----------
    elbo : Estimate
        [nat].
    n_found : int, optional
        Modes with a component's mean near, or goals with 1 % of the samples at least; None where neither is known.
    n_modes : int, optional
        Of so many.
    goal_shares : tuple of float, optional
        Of the samples, by the goal that is nearest, for a robot that reaches.
    """

    elbo: Estimate
    n_found: int | None = None
    n_modes: int | None = None
    goal_shares: tuple[float, ...] | None = None


def mixture_scores(target: Any, model: GaussianMixture, n_samples: int, generator: torch.Generator) -> MixtureScores:
    """Score a mixture.

    Parameters
    ----------
    target : Target
        With `modes` and `mode_radius`, or with `goal_shares`, where these are known.
    model : GaussianMixture
    n_samples : int
        That are drawn from it.
    generator : torch.Generator
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
    """Log density of the model; that of many components as one matrix product."""
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
