"""Reference samples of a smooth target with one mode, by Hamiltonian Monte Carlo (Neal 2011).

The chains start at samples of the Laplace approximation N(m, H^-1), where m is the mode and H the Hessian of -log p~ at
m. The chains move in coordinates z with x = m + L'^-1 z, H = L L'. In these coordinates, the approximation is standard
normal. Each round draws a momentum, integrates the dynamics with the leapfrog rule, and accepts or rejects the result.
The step size differs between chains, to avoid periodic chains.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.core.errors import DistributionError
from experiments.targets.target import Target

NEWTON_STEPS = 100
N_KEPT = 5  # number of returned states per chain
BETWEEN_KEPT = 10  # number of rounds between two returned states, and before the first


@dataclass(frozen=True)
class PosteriorSamples:
    """Samples of a target.

    Attributes
    ----------
    samples : Tensor (n_samples, n_dims)
    acceptance : float
        Share of accepted proposals.
    """

    samples: Tensor
    acceptance: float


def posterior_samples(
    target: Target,
    n_samples: int,
    generator: torch.Generator | None = None,
    step_size: float = 0.25,
    n_leapfrog: int = 8,
) -> PosteriorSamples:
    """Draw samples of a target.

    Parameters
    ----------
    target : Target
        Target with `log_prob_and_score`. Its log density must have a single maximum, and be concave there.
    n_samples : int
        Number of samples, rounded up to a multiple of 5, because each chain returns five states.
    generator : torch.Generator, optional
    step_size : float
        Mean step of the integrator, in standard deviations of the Laplace approximation.
    n_leapfrog : int
        Steps in each round.

    Returns
    -------
    PosteriorSamples

    Raises
    ------
    DistributionError
        If Newton's method finds no maximum.
    """
    mode, factor = _laplace(target)
    n_chains = -(-n_samples // N_KEPT)

    def density(z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density and its gradient with respect to z."""
        x = mode + torch.linalg.solve_triangular(factor.mT, z.mT, upper=True).mT
        log_prob, score = target.log_prob_and_score(x)  # type: ignore[attr-defined]
        return log_prob, torch.linalg.solve_triangular(factor, score.mT, upper=False).mT

    def noise() -> Tensor:
        return torch.randn(n_chains, target.n_dims, generator=generator, dtype=torch.float64)

    z = noise()
    log_prob, slope = density(z)
    kept, n_accepted = [], 0
    n_rounds = N_KEPT * BETWEEN_KEPT
    for number in range(n_rounds):
        step = step_size * (0.8 + 0.4 * torch.rand(n_chains, 1, generator=generator, dtype=torch.float64))
        momentum = noise()
        energy = log_prob - 0.5 * momentum.square().sum(-1)
        moved, new_log_prob, new_slope = z, log_prob, slope
        for _ in range(n_leapfrog):
            momentum = momentum + 0.5 * step * new_slope
            moved = moved + step * momentum
            new_log_prob, new_slope = density(moved)
            momentum = momentum + 0.5 * step * new_slope
        change = new_log_prob - 0.5 * momentum.square().sum(-1) - energy
        accepted = torch.rand(n_chains, generator=generator, dtype=torch.float64).log() < change
        z = torch.where(accepted[:, None], moved, z)
        slope = torch.where(accepted[:, None], new_slope, slope)
        log_prob = torch.where(accepted, new_log_prob, log_prob)
        n_accepted += int(accepted.sum())
        if (number + 1) % BETWEEN_KEPT == 0:
            kept.append(mode + torch.linalg.solve_triangular(factor.mT, z.mT, upper=True).mT)
    return PosteriorSamples(torch.cat(kept), n_accepted / (n_chains * n_rounds))


def _laplace(target: Target) -> tuple[Tensor, Tensor]:
    """Return the mode (n_dims,) and the Cholesky factor of the Hessian of -log p~ there, by Newton's method."""

    def loss(x: Tensor) -> Tensor:
        return -target.log_prob(x[None]).squeeze(0)

    x = torch.zeros(target.n_dims, dtype=torch.float64)
    for _ in range(NEWTON_STEPS):
        hessian = torch.autograd.functional.hessian(loss, x)
        factor, wrong = torch.linalg.cholesky_ex(hessian)
        if bool(wrong):
            break
        gradient = -target.log_prob_and_score(x[None])[1][0]  # type: ignore[attr-defined]
        direction = -torch.cholesky_solve(gradient[:, None], factor)[:, 0]
        decrement = float(-gradient @ direction)
        if decrement < 1e-10:
            return x, factor
        size, value = 1.0, loss(x)
        while size > 1e-6 and float(loss(x + size * direction) - value) > -1e-4 * size * decrement:
            size *= 0.5
        x = x + size * direction
    raise DistributionError(
        "Newton's method did not find a maximum of the target; the log density must be concave at its maximum", target
    )
