"""What a mixture has reached on a target: the ELBO from fresh samples, and how many modes or goals it has found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture
from eim_ros.distributions.linear_experts import LinearExperts
from eim_ros.distributions.monte_carlo import Estimate
from eim_ros.distributions.quadratic_form import QuadraticForms, products_of_coordinates
from eim_ros.targets.metrics import mean_log_ratio, modes_found

__all__ = ["MixtureScores", "mixture_scores"]

CHUNK = 1000  # samples whose densities are computed at once
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
