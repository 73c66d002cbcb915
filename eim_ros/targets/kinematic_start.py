"""A first mixture for targets that ask a robot to reach: from its kinematics, with few evaluations of the target.

The log density is, up to a constant, -|e(q)|^2 / 2 - |(q - m)/s|^2 / 2, the task's error e in units of its tolerance.

1. Means: draws q_0 of the prior, each moved to one of the goals by damped Gauss-Newton steps. Of all configurations at
   the goal they approach the one nearest to c = (q_0 + m) / 2 in units of s: with J the Jacobian of e, S = diag(s^2),
       q' = c + S J'(J S J' + I)^-1 (J (q - c) - e).
   Half of the way, for the posterior's mass is nearer to m than the prior's is, but components are to lie apart.
2. Covariances: with e to second order, J d + d'H d / 2, and a mean at which E[e] = 0, the best normal density has
       Sigma^-1 = S^-1 + J'J + sum_k H_k Sigma H_k,
   solved by averaged fixed-point steps: long where the arm may move freely, short where the tip leaves the goal.
3. Means again: E[e] = 0 asks for e(mean) = - tr(H Sigma) / 2, two more steps as in 1.
4. Weights: each component's own evidence bound, log w = E[log p~] + entropy, exact for e to second order.

Laplace's approximation is the same without H. On PlanarRobot-4 it gives 100 components an ELBO of -17.6 at best, its
covariances shrunk as is found to be best; these have -13.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.distributions.gaussian_mixture import GaussianMixture
from eim_ros.errors import DistributionError
from eim_ros.targets.target import Target

__all__ = ["KinematicStart", "ReachingTarget", "kinematic_start", "moved_start"]

LONGEST_STEP = 2.0  # in units of the prior's deviations
N_FIXED_POINT = 30
N_CORRECTIONS = 2
SHRINKAGE = 0.5  # of the draws towards the middle of the prior


class ReachingTarget(Target, Protocol):
    """A target whose log density is a normal prior, a normal error of a task, and perhaps limits."""

    @property
    def prior_mean(self) -> Tensor: ...

    @property
    def prior_scale(self) -> Tensor: ...

    @property
    def n_goals(self) -> int: ...

    def task(self, x: Tensor, goal: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Errors of configurations (n, n_dims) with respect to goals (n,) of int64, in units of the tolerance.

        Returns
        -------
        error : Tensor (n, n_errors)
        jacobian : Tensor (n, n_errors, n_dims)
        hessian : Tensor (n, n_errors, n_dims, n_dims)
        """
        ...


@dataclass(frozen=True)
class KinematicStart:
    """A mixture and what it cost.

    Attributes
    ----------
    mixture : GaussianMixture
    n_evaluations : int
        Configurations at which the target or its kinematics were evaluated.
    goals : Tensor (n_components,) of int64
        The goal that each component was moved to.
    """

    mixture: GaussianMixture
    n_evaluations: int
    goals: Tensor


def kinematic_start(
    target: ReachingTarget, n_components: int = 100, generator: torch.Generator | None = None, n_steps: int = 14
) -> KinematicStart:
    """Make it.

    Parameters
    ----------
    target : ReachingTarget
        `PlanarRobot` or `PosePosterior`.
    n_components : int
        They are dealt to the goals in turn.
    generator : torch.Generator, optional
        Of the draws of the prior.
    n_steps : int
        Gauss-Newton steps, at least 1. The cost is n_components (n_steps + 4) evaluations.
    """
    if n_components < 1 or n_steps < 1:
        raise DistributionError(f"a start needs components and steps, got {n_components}, {n_steps}", n_components)
    noise = target.prior_scale * torch.randn(n_components, target.n_dims, generator=generator, dtype=torch.float64)
    goals = torch.arange(n_components) % target.n_goals
    near = target.prior_mean + SHRINKAGE * noise
    return _reached(target, target.prior_mean + noise, near, goals, n_steps)


def moved_start(target: ReachingTarget, means: Tensor, goals: Tensor, n_steps: int = 6) -> KinematicStart:
    """The same from postures that reached other goals: a mixture follows goals that move, and loses no mode.

    Each mean moves to where its own goal is now, changing as little as it can; covariances and weights are made anew. A
    fit that starts from the old mixture instead gives the weight of all modes to whichever meets its new goal first.

    Parameters
    ----------
    target : ReachingTarget
        With its goals where they are now.
    means : Tensor (n_components, n_dims)
        Of the mixture that was fitted to the goals as they were.
    goals : Tensor (n_components,) of int64
        The goal of each: `target.nearest_goal(means)` of the target as it was.
    n_steps : int
        Gauss-Newton steps, at least 1; the further the goals have moved the more.
    """
    if means.dim() != 2 or means.shape[1] != target.n_dims or goals.shape != means.shape[:1] or len(means) == 0:
        raise DistributionError(
            f"expected means (n_components, {target.n_dims}) and a goal of each, got {tuple(means.shape)} and "
            f"{tuple(goals.shape)}",
            tuple(means.shape),
        )
    if n_steps < 1 or not bool(((goals >= 0) & (goals < target.n_goals)).all()):
        raise DistributionError(f"expected a step, and goals from 0 to {target.n_goals - 1}", goals)
    means = means.to(torch.float64)
    return _reached(target, means, means, goals, n_steps)


def _reached(target: ReachingTarget, x: Tensor, near: Tensor, goals: Tensor, n_steps: int) -> KinematicStart:
    """Steps 1 to 4 from configurations x, `near` being c of equation 1."""
    scale = target.prior_scale
    for _ in range(n_steps):
        error, jacobian, _ = target.task(x, goals)
        x = x + _step(jacobian, error, scale, x - near)
    _, jacobian, hessian = target.task(x, goals)
    covariance = _covariance(jacobian, hessian, scale)
    wanted = -0.5 * (hessian * covariance.unsqueeze(1)).sum((-2, -1))
    for _ in range(N_CORRECTIONS):
        error, moved_jacobian, _ = target.task(x, goals)
        x = x + _step(moved_jacobian, error - wanted, scale, x - near)
    factor = torch.linalg.cholesky(covariance)
    log_weights = target.log_prob(x) + _gain(covariance, jacobian, hessian, wanted, scale)
    log_weights = log_weights + factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return KinematicStart(GaussianMixture(log_weights, x, factor), len(x) * (n_steps + 2 + N_CORRECTIONS), goals)


def _step(jacobian: Tensor, error: Tensor, scale: Tensor, away: Tensor) -> Tensor:
    """q' - q of equation 1, `away` being q - c; at most LONGEST_STEP in units of the prior."""
    whitened, distance = jacobian * scale, away / scale
    identity = torch.eye(error.shape[-1], dtype=error.dtype)
    missing = whitened @ distance.unsqueeze(-1) - error.unsqueeze(-1)
    step = (whitened.mT @ torch.linalg.solve(whitened @ whitened.mT + identity, missing)).squeeze(-1) - distance
    shortened: Tensor = step * (LONGEST_STEP / step.norm(dim=-1, keepdim=True).clamp(min=LONGEST_STEP))
    return scale * shortened


def _covariance(jacobian: Tensor, hessian: Tensor, scale: Tensor) -> Tensor:
    """Fixed point of Sigma^-1 = S^-1 + J'J + sum_k H_k Sigma H_k; precisions are averaged, or it would oscillate."""
    fixed = torch.diag(scale**-2) + jacobian.mT @ jacobian
    precision = fixed
    for _ in range(N_FIXED_POINT):
        curved = (hessian @ torch.cholesky_inverse(torch.linalg.cholesky(precision)).unsqueeze(1) @ hessian).sum(1)
        precision = 0.5 * (precision + fixed + curved)
    covariance: Tensor = torch.cholesky_inverse(torch.linalg.cholesky(precision))
    return covariance


def _gain(covariance: Tensor, jacobian: Tensor, hessian: Tensor, error: Tensor, scale: Tensor) -> Tensor:
    """E[log p~] - log p~(mean) (n,), of e to second order with E[e] = 0 and e(mean) as given."""
    spread = (covariance.diagonal(dim1=-2, dim2=-1) / scale**2).sum(-1)
    curved = hessian @ covariance.unsqueeze(1)
    of_task = (jacobian @ covariance * jacobian).sum((-2, -1)) + 0.5 * (curved * curved.mT).sum((-3, -2, -1))
    return 0.5 * (error.square().sum(-1) - spread - of_task)
