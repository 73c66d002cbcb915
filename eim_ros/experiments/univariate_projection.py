"""Projections onto a Gaussian of one dimension, by the package's own learners.

The I-projection, argmin_q KL(q || p), is found by `KnownDensityEIM` from a given start; the M-projection, argmin_q
KL(p || q), by `fit_experts`, the M-step of EM, on a grid weighted by p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions import Gaussian, GaussianMixture, LinearExperts
from eim_ros.inference import KnownDensityEIM, KnownDensityEIMConfig
from eim_ros.projections import fit_experts, fit_to_gradients, project_experts

__all__ = ["SMALL_BOUNDS", "IProjection", "kl_on_grid", "m_projection", "normal", "without_noise"]

KL_BOUND, SMALL_BOUNDS = 0.1, (1e-3, 1e-5)  # small steps average over the noise of the samples
GRID = torch.linspace(-60.0, 60.0, 120_001, dtype=torch.float64).unsqueeze(-1)


@dataclass(frozen=True)
class IProjection:
    """The Gaussian that inference with a known density reaches from a start.

    Attributes
    ----------
    n_samples : int
        Of an iteration.
    n_iterations : int
        With each bound of the KL.
    seed : int
    """

    n_samples: int
    n_iterations: int
    seed: int

    def __call__(
        self,
        target: GaussianMixture | Callable[[Tensor], Tensor],
        start: GaussianMixture,
        further_bounds: tuple[float, ...] = (),
        *,
        first_bound: float = KL_BOUND,
    ) -> Gaussian:
        generator = torch.Generator().manual_seed(self.seed)
        for kl_bound in (first_bound, *further_bounds):
            config = KnownDensityEIMConfig(
                n_iterations=self.n_iterations,
                n_expert_samples=self.n_samples,
                kl_bound=kl_bound,
                entropy_loss_bound=1e9,
                plateau_window=0,
            )
            model = KnownDensityEIM(target, config).fit(None, start, generator).model
            assert isinstance(model, GaussianMixture)
            start = model
        return Gaussian(start.means[0], start.scale_trils[0])


def without_noise(target: GaussianMixture, start: GaussianMixture, n_iterations: int) -> Gaussian:
    """The steps of the learner with the expectations over a sample at the quantiles of a normal distribution."""
    n_nodes = 4001
    quantiles = (torch.arange(n_nodes, dtype=torch.float64) + 0.5) / n_nodes
    residual = torch.special.ndtri(quantiles)[None, :, None]
    context = residual[..., :0]
    experts = LinearExperts(start.means.unsqueeze(-1)[..., :0], start.means, start.scale_trils)
    for kl_bound in (KL_BOUND, *SMALL_BOUNDS):
        for _ in range(n_iterations):
            model = GaussianMixture(start.log_weights, experts.biases, experts.scale_trils)
            sample = experts.biases + residual[0] * experts.scale_trils[0]
            slope = (target.score(sample) - model.score(sample)) * experts.scale_trils[0]
            surrogate = fit_to_gradients(residual, context, slope.unsqueeze(0))
            experts = project_experts(experts, surrogate, kl_bound, math.inf).experts
    return Gaussian(experts.biases[0], experts.scale_trils[0])


def m_projection(log_density: Callable[[Tensor], Tensor]) -> Gaussian:
    """The Gaussian that weighted maximum likelihood gives on a grid."""
    weights = log_density(GRID).exp().unsqueeze(-1)
    experts = fit_experts(GRID[:, :0], GRID, weights)
    return Gaussian(experts.biases[0], experts.scale_trils[0])


def kl_on_grid(first: Gaussian | GaussianMixture, second: Gaussian | GaussianMixture) -> float:
    """KL(first || second) on the grid, in one dimension."""
    log_first = first.log_prob(GRID)
    return float((log_first.exp() * (log_first - second.log_prob(GRID))).sum() * (GRID[1] - GRID[0]))


def normal(mean: float, deviation: float) -> GaussianMixture:
    """N(mean, deviation^2) as a mixture of one component."""
    parameters = torch.tensor([0.0, mean, deviation], dtype=torch.float64)
    return GaussianMixture(parameters[:1], parameters[1:2, None], parameters[2:, None, None])
