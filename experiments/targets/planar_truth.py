"""Ground truth of planar robots by importance sampling: log normaliser, entropy, goal shares and samples.

The angles of joints 2..n, divided by their prior standard deviations, are rho u with a unit vector u. Under the prior,
u is uniform, rho is chi-distributed with n - 1 degrees of freedom, and q_1 is independent of both. The method draws u,
and a tip t from the likelihood. The method then finds all (q_1, rho) that put the tip at t. The distance |tip| depends
only on rho. Therefore, the roots rho are bracketed on a grid, and q_1 rotates the arm to t. With the change of
variables |d t / d(q_1, rho)| = |t| |d|tip| / d rho|, the likelihood cancels (Rao-Blackwell):

    Z = sum_goals E_u,t sum_roots p(q_1) chi(rho) / (|t| |d|tip| / d rho|)

Directions u are drawn from a mixture of the uniform density and an angular central Gaussian density (Tyler 1987). The
Gaussian density is fitted to earlier draws, so directions with large weights are drawn more often. The method neglects
the overlap of the likelihoods of the goals, which is of order e^-100000.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import Estimate
from experiments.targets.planar import PlanarRobot

CHUNK = 5_000
N_FITTING = 5_000  # number of draws in each round that fits the proposal of directions
ROUNDS = 3
# values of rho; a chi variable with 9 degrees of freedom exceeds 10 with probability 1e-16
GRID = torch.arange(0.05, 10.0, 0.1, dtype=torch.float64)
BISECTIONS = 40
# revolutions of joint 1; further ones are negligible for its standard deviation of 1 rad
TURNS = (-1.0, 0.0, 1.0)


@dataclass(frozen=True)
class PlanarTruth:
    """Reference values for the normalised target.

    Attributes
    ----------
    log_normaliser : Estimate
        [nat].
    entropy : float
        Entropy of the normalised target [nat].
    goal_shares : Tensor (n_goals,)
        Probability mass at each goal.
    samples : Tensor (n_kept, n_dims)
        Samples from the weighted solutions by systematic resampling. Solutions with large weights are repeated.
    effective_sample_size : float
        Effective sample size of the weighted solutions.
    """

    log_normaliser: Estimate
    entropy: float
    goal_shares: Tensor
    samples: Tensor
    effective_sample_size: float


@dataclass(frozen=True)
class _Directions:
    """Unit vectors u (n, n_dims - 1), link angles (n, n_dims) per unit of rho, and log importance weights (n,)."""

    u: Tensor
    angles: Tensor
    log_weight: Tensor

    def rows(self, index: Tensor) -> _Directions:
        return _Directions(self.u[index], self.angles[index], self.log_weight[index])


@dataclass(frozen=True)
class _Solutions:
    """Weighted configurations x (n, n_dims), with their draws and goals (n,)."""

    x: Tensor
    weight: Tensor
    draw: Tensor
    goal: Tensor

    @classmethod
    def joined(cls, parts: list[_Solutions]) -> _Solutions:
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in ("x", "weight", "draw", "goal")))


def planar_truth(
    target: PlanarRobot, n_draws: int, generator: torch.Generator | None = None, n_kept: int = 10_000
) -> PlanarTruth:
    """Estimate the ground truth.

    Parameters
    ----------
    target : PlanarRobot
        Robot with at least three joints.
    n_draws : int
        Number of directions. The standard error of PlanarRobot-4's log normaliser is about 0.9 / sqrt(n_draws).
    generator : torch.Generator, optional
    n_kept : int
        Number of samples to return.

    Returns
    -------
    PlanarTruth
    """
    if n_draws < 2 or target.n_dims < 3:
        raise DistributionError(
            f"expected at least two draws and three joints, got {n_draws} and {target.n_dims}", n_draws
        )
    factor = torch.eye(target.n_dims - 1, dtype=torch.float64)
    for _ in range(ROUNDS):
        factor = _fitted(target, _solved(target, _drawn(target, factor, N_FITTING, generator), 0, generator))
    starts = range(0, n_draws, CHUNK)
    found = _Solutions.joined(
        [
            _solved(target, _drawn(target, factor, min(CHUNK, n_draws - start), generator), start, generator)
            for start in starts
        ]
    )
    per_draw = _summed(found.weight, found.draw, n_draws)
    normaliser = float(per_draw.mean())
    share = found.weight / found.weight.sum()
    return PlanarTruth(
        log_normaliser=Estimate(math.log(normaliser), float(per_draw.std()) / n_draws**0.5 / normaliser),
        entropy=math.log(normaliser) - float(share @ target.log_prob(found.x)),
        goal_shares=_summed(share, found.goal, len(target.goals)),
        samples=_resampled(found.x, share, n_kept, generator),
        effective_sample_size=1.0 / float(share.square().sum()),
    )


def _drawn(target: PlanarRobot, factor: Tensor, n: int, generator: torch.Generator | None) -> _Directions:
    """Draw half of the directions from the uniform density, and half with a Cholesky factor."""
    noise = torch.randn(n, len(factor), generator=generator, dtype=torch.float64)
    by_factor = torch.rand(n, 1, generator=generator, dtype=torch.float64) < 0.5
    u = functional.normalize(torch.where(by_factor, noise @ factor.T, noise), dim=-1)
    whitened = torch.linalg.solve_triangular(factor, u.T, upper=False).square().sum(0)
    log_ratio = -0.5 * len(factor) * whitened.log() - factor.diagonal().log().sum()  # relative to the uniform density
    angles = torch.cat([u.new_zeros(n, 1), u * target.prior_scale[1:]], -1).cumsum(-1)
    return _Directions(u, angles, math.log(2.0) - functional.softplus(log_ratio))


def _solved(target: PlanarRobot, drawn: _Directions, first_draw: int, generator: torch.Generator | None) -> _Solutions:
    """Return the solutions for all goals. Draws are numbered from `first_draw`."""
    radii = torch.stack([_radius(drawn.angles, rho) for rho in GRID], -1)
    noise = target.tolerance * torch.randn(len(drawn.u), 2, generator=generator, dtype=torch.float64)
    parts = []
    for goal, place in enumerate(target.goals):
        tip = place + noise
        above = radii > tip.norm(dim=-1, keepdim=True)
        row, cell = (above[:, 1:] != above[:, :-1]).nonzero(as_tuple=True)
        rays, tip = drawn.rows(row), tip[row]
        rho = _root(rays.angles, tip.norm(dim=-1), GRID[cell], GRID[cell + 1], above[row, cell])
        x, weight = _turned(target, rays, rho, tip)
        draw = first_draw + row.repeat(len(TURNS))
        parts.append(_Solutions(x, weight, draw, torch.full_like(draw, goal)))
    return _Solutions.joined(parts)


def _turned(target: PlanarRobot, rays: _Directions, rho: Tensor, tip: Tensor) -> tuple[Tensor, Tensor]:
    """Return configurations (n_turns n, n_dims) with the tip at (n, 2) for roots rho (n,), and their weights."""
    link = rho.unsqueeze(-1) * rays.angles
    cos, sin = link.cos(), link.sin()
    reached = torch.stack([cos.sum(-1), sin.sum(-1)], -1)
    slope = torch.stack([-(sin * rays.angles).sum(-1), (cos * rays.angles).sum(-1)], -1)
    log_jacobian = (reached * slope).sum(-1).abs().log()  # |t| |d|tip| / d rho|
    k = rays.u.shape[-1]
    log_chi = (k - 1) * rho.log() - 0.5 * rho.square() - (0.5 * k - 1.0) * math.log(2.0) - math.lgamma(0.5 * k)
    first = torch.remainder(_angle(tip) - _angle(reached) + math.pi, 2.0 * math.pi) - math.pi
    first = torch.cat([first + 2.0 * math.pi * turn for turn in TURNS])
    scale = target.prior_scale[0]
    log_prior = -0.5 * ((first / scale).square() + math.log(2.0 * math.pi)) - scale.log()
    weight = ((rays.log_weight + log_chi - log_jacobian).repeat(len(TURNS)) + log_prior).exp()
    rest = rho.unsqueeze(-1) * rays.u * target.prior_scale[1:]
    return torch.cat([first.unsqueeze(-1), rest.repeat(len(TURNS), 1)], -1), weight


def _root(angles: Tensor, radius: Tensor, low: Tensor, high: Tensor, above: Tensor) -> Tensor:
    """Find the rho between `low` and `high` at which the tip has a given radius, by bisection.

    `above` is true where the tip is farther out at `low`.
    """
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        beyond = (_radius(angles, middle.unsqueeze(-1)) > radius) == above
        low, high = torch.where(beyond, middle, low), torch.where(beyond, high, middle)
    return 0.5 * (low + high)


def _radius(angles: Tensor, rho: Tensor) -> Tensor:
    """Return the distance (n,) of the tip from the base."""
    link = rho * angles
    return torch.hypot(link.cos().sum(-1), link.sin().sum(-1))


def _fitted(target: PlanarRobot, solutions: _Solutions) -> Tensor:
    """Return the Cholesky factor of the weighted second moment of directions, for the next proposal."""
    u = functional.normalize(solutions.x[:, 1:] / target.prior_scale[1:], dim=-1)
    moment = (solutions.weight.unsqueeze(-1) * u).T @ u / solutions.weight.sum()
    factor: Tensor = torch.linalg.cholesky(moment + 1e-3 * torch.eye(len(moment), dtype=moment.dtype))
    return factor


def _summed(values: Tensor, index: Tensor, n: int) -> Tensor:
    total: Tensor = values.new_zeros(n).index_add(0, index, values)
    return total


def _resampled(x: Tensor, share: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
    """Draw rows in proportion to their shares by systematic resampling, in random order."""
    start = torch.rand((), generator=generator, dtype=torch.float64)
    places = (torch.arange(n, dtype=torch.float64) + start) / n
    index = torch.searchsorted(share.cumsum(0), places).clamp(max=len(x) - 1)
    return x[index[torch.randperm(n, generator=generator)]]


def _angle(vector: Tensor) -> Tensor:
    return torch.atan2(vector[..., 1], vector[..., 0])
