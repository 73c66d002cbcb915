"""Posterior of the joints of a serial robot given a pose of its tip, and an initial mixture for such targets.

    log p~(q) = log N(p(q); p*, position_scale^2 I) - (3 - tr(R*'R(q))) / (2 orientation_scale^2)
              + log N(q; prior_mean, diag(prior_scale^2)) + limits

The second term is a matrix Fisher density without its normaliser. For a small angle a between the orientations, it is
about -a^2 / (2 orientation_scale^2). Unlike a^2, it is smooth at an angle of pi. Soft limits are sum_j log Phi((upper_j
- q_j) / s) + log Phi((q_j - lower_j) / s) (Pignat et al. 2020).

`kinematic_start` builds an initial mixture from the kinematics, with few evaluations of the target, in four steps. Up
to a constant and limits, the log density is -|e(q)|^2 / 2 - |(q - m)/s|^2 / 2, with the task's error e in units of its
tolerance.

1. Means: draws q_0 of the prior are moved to a goal by damped Gauss-Newton steps. These steps approach the
   configuration at the goal that is nearest to c = (q_0 + m) / 2, in units of s. With the Jacobian J of e and S =
   diag(s^2),
       q' = c + S J'(J S J' + I)^-1 (J (q - c) - e).
   The factor 1/2 is a compromise: the mass of the posterior is nearer to m than the mass of the prior, but components
   must differ.
2. Covariances: expand e to second order, J d + d'H d / 2, around a mean with E[e] = 0. The best Gaussian then has
       Sigma^-1 = S^-1 + J'J + sum_k H_k Sigma H_k.
   Averaged fixed-point steps solve this equation. Sigma is long in directions in which the arm moves freely, and short
   in directions that move the tip away from the goal.
3. Means again: E[e] = 0 requires e(mean) = - tr(H Sigma) / 2. Two more steps as in 1 satisfy this condition.
4. Weights: the evidence bound of each component, log w = E[log p~] + entropy, which is exact for e to second order.

Without H, the result is Laplace's approximation. On PlanarRobot-4 with 100 components, the ELBO of Laplace's
approximation is -17.6 nat, even with optimally shrunk covariances. The ELBO of this start is -13 nat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.kinematics import Robot
from eim_ros.kinematics.poses import check_pose
from eim_ros.learning.models import GaussianMixture
from experiments.targets.target import MixtureStart, Target, checked_samples

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def soft_limits(value: Tensor, lower: Tensor | float, upper: Tensor | float, scale: float) -> tuple[Tensor, Tensor]:
    """Return the log probability of two limits with normal noise of standard deviation `scale`.

    Parameters
    ----------
    value : Tensor (n_samples, n)
    lower, upper : Tensor (n,) or float
        Limits; infinite if there is no limit.
    scale : float
        Softness of the limits, in the unit of `value`.

    Returns
    -------
    log_prob : Tensor (n_samples,)
        [nat].
    slope : Tensor (n_samples, n)
        Gradient of `log_prob`. This gradient is finite far outside the limits, and grows linearly with the distance.
    """
    above, below = (upper - value) / scale, (value - lower) / scale
    log_above, log_below = torch.special.log_ndtr(above), torch.special.log_ndtr(below)
    slope = _hazard(below, log_below) - _hazard(above, log_above)
    return (log_above + log_below).sum(-1), slope / scale


def _hazard(z: Tensor, log_cdf: Tensor) -> Tensor:
    """Return phi(z) / Phi(z)."""
    return (-0.5 * z.square() - HALF_LOG_TWO_PI - log_cdf).exp()


LOG_TWO_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True, eq=False)
class PosePosterior:
    """Posterior density of the joints. Create it with `pose_posterior`, which validates the arguments.

    Attributes
    ----------
    robot : Robot
    pose : Tensor (4, 4)
        Requested pose of the tip.
    prior_mean, prior_scale : Tensor (n_dims,)
        [rad] or [m].
    position_scale : float
        [m].
    orientation_scale : float
        [rad]; infinite if only the position counts.
    limit_scale : float
        Softness of the joint limits [rad or m]; see `soft_limits`. With 0, the density is zero outside the limits.
    """

    robot: Robot
    pose: Tensor
    prior_mean: Tensor
    prior_scale: Tensor
    position_scale: float
    orientation_scale: float
    limit_scale: float

    @property
    def n_dims(self) -> int:
        return self.robot.dof

    @property
    def start(self) -> MixtureStart:
        """Start with 100 components: means from the prior, and a quarter of its standard deviations."""
        return MixtureStart(100, self.prior_scale, (0.25 * self.prior_scale).square(), self.prior_mean)

    @property
    def lower(self) -> Tensor:
        """Lower limits (n_dims,); minus infinity for continuous joints."""
        return torch.from_numpy(np.where(self.robot.continuous, -np.inf, self.robot.lower))

    @property
    def upper(self) -> Tensor:
        """Upper limits (n_dims,); infinity for continuous joints."""
        return torch.from_numpy(np.where(self.robot.continuous, np.inf, self.robot.upper))

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the unnormalised log density [nat], (n_samples,). The log density is -inf outside hard limits."""
        x = checked_samples(x, self.n_dims)
        error, cosine = self._errors(torch.from_numpy(self.robot.fk(x.detach().numpy())))
        return self._log_prob(x, error, cosine)[0]

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient of the log density, (n_samples, n_dims). The gradient is NaN outside hard limits."""
        return self.log_prob_and_score(x)[1]

    def log_prob_and_score(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density and its gradient, with one evaluation of the forward kinematics."""
        x = checked_samples(x, self.n_dims)
        rows = x.detach().numpy()
        poses, jacobian = torch.from_numpy(self.robot.fk(rows)), torch.from_numpy(self.robot.jacobian(rows))
        error, cosine = self._errors(poses)
        log_prob, slope = self._log_prob(x, error, cosine)
        force = error / self.position_scale**2
        # d tr(R*'R) = omega . sum_k r_k x r*_k
        torque = torch.linalg.cross(poses[:, :3, :3], self.pose[:3, :3].expand(len(x), 3, 3), dim=1).sum(-1)
        wrench = torch.cat([force, torque / (2.0 * self.orientation_scale**2)], -1)
        score = slope + (wrench.unsqueeze(1) @ jacobian).squeeze(1)
        return log_prob, score.masked_fill(torch.isneginf(log_prob).unsqueeze(-1), torch.nan)

    @property
    def n_goals(self) -> int:
        """Number of goals: 1, the pose."""
        return 1

    def task(self, x: Tensor, goal: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return position error and rotation vector from the pose, in units of their scales, with derivatives.

        See `ReachingTarget.task`. Let v and w be the linear and angular columns of the Jacobian. The second derivatives
        of the position are w_i x v_j for i <= j. The second derivatives of the rotation vector, at the pose, are (w_i x
        w_j) / 2. Both formulas are inexact for robots with mimic joints.
        """
        rows = x.numpy()
        poses, jacobian = torch.from_numpy(self.robot.fk(rows)), torch.from_numpy(self.robot.jacobian(rows))
        linear, angular = jacobian[:, :3], jacobian[:, 3:]
        joint = torch.arange(self.n_dims)
        first, second = torch.minimum(joint, joint.unsqueeze(-1)), torch.maximum(joint, joint.unsqueeze(-1))
        bend = torch.linalg.cross(angular[:, :, first], linear[:, :, second], dim=1) / self.position_scale
        error = (poses[:, :3, 3] - self.pose[:3, 3]) / self.position_scale
        if math.isinf(self.orientation_scale):
            return error, linear / self.position_scale, bend
        turn = torch.from_numpy(Rotation.from_matrix((poses[:, :3, :3] @ self.pose[:3, :3].T).numpy()).as_rotvec())
        swing = 0.5 * torch.linalg.cross(angular[:, :, first], angular[:, :, second], dim=1)
        return (
            torch.cat([error, turn / self.orientation_scale], 1),
            torch.cat([linear / self.position_scale, angular / self.orientation_scale], 1),
            torch.cat([bend, swing / self.orientation_scale], 1),
        )

    def _errors(self, poses: Tensor) -> tuple[Tensor, Tensor]:
        """Return goal minus position (n_samples, 3), and tr(R*'R) (n_samples,)."""
        return self.pose[:3, 3] - poses[:, :3, 3], (poses[:, :3, :3] * self.pose[:3, :3]).sum((-2, -1))

    def _log_prob(self, x: Tensor, error: Tensor, trace: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density, and the gradient of its prior and limits."""
        residual = (x - self.prior_mean) / self.prior_scale
        constant = (
            self.prior_scale.log().sum() + 3.0 * math.log(self.position_scale) + 0.5 * (self.n_dims + 3) * LOG_TWO_PI
        )
        log_prob = -0.5 * (residual.square().sum(-1) + error.square().sum(-1) / self.position_scale**2) - constant
        log_prob = log_prob - (3.0 - trace) / (2.0 * self.orientation_scale**2)
        slope = -residual / self.prior_scale
        if self.limit_scale > 0.0:
            inside, push = soft_limits(x, self.lower, self.upper, self.limit_scale)
            return log_prob + inside, slope + push
        outside = ((x < self.lower) | (x > self.upper)).any(-1)
        return log_prob.masked_fill(outside, -torch.inf), slope


def pose_posterior(
    robot: Robot,
    pose: npt.ArrayLike,
    *,
    prior_mean: npt.ArrayLike | None = None,
    prior_scale: npt.ArrayLike | float | None = None,
    position_scale: float = 0.01,
    orientation_scale: float = 0.05,
    limit_scale: float = 0.05,
) -> PosePosterior:
    """Return the posterior of the joints of a robot, given a pose of its tip.

    Parameters
    ----------
    robot : Robot
    pose : (4, 4) array_like
        Pose of the tip in the base frame.
    prior_mean : (dof,) array_like, optional
        [rad] or [m]. By default, the middle of the limits.
    prior_scale : (dof,) array_like or float, optional
        Standard deviations [rad] or [m]. By default, a quarter of the range.
    position_scale : float
        Standard deviation of the tip in each coordinate [m].
    orientation_scale : float
        Standard deviation of the orientation of the tip about each axis [rad]. With `math.inf`, only the position
        counts.
    limit_scale : float
        Softness of the limits [rad or m]. 0 gives hard limits, under which the ELBO of a Gaussian mixture is -inf.

    Returns
    -------
    PosePosterior

    Raises
    ------
    DistributionError
        If the prior has the wrong shape or a scale is out of range.
    """
    goal = torch.from_numpy(check_pose(pose))
    middle, span = 0.5 * (robot.lower + robot.upper), robot.upper - robot.lower
    mean = np.asarray(middle if prior_mean is None else prior_mean, dtype=np.float64)
    scale = np.asarray(0.25 * span if prior_scale is None else prior_scale, dtype=np.float64)
    if mean.shape not in ((), (robot.dof,)) or scale.shape not in ((), (robot.dof,)):
        raise DistributionError(f"a prior needs a number for each of {robot.dof} joints", (mean.shape, scale.shape))
    positive = (scale, position_scale, orientation_scale)
    if not (all(np.all(np.asarray(value) > 0.0) for value in positive) and limit_scale >= 0.0):
        raise DistributionError("scales must be above 0; limit_scale must be at least 0", positive)
    return PosePosterior(
        robot,
        goal,
        torch.from_numpy(np.broadcast_to(mean, robot.dof).copy()),
        torch.from_numpy(np.broadcast_to(scale, robot.dof).copy()),
        float(position_scale),
        float(orientation_scale),
        float(limit_scale),
    )


LONGEST_STEP = 2.0  # maximum length of a Gauss-Newton step [standard deviations of the prior]
N_FIXED_POINT = 30
N_CORRECTIONS = 2
SHRINKAGE = 0.5  # factor on the distance between draws and prior mean (the 1/2 of step 1)


class ReachingTarget(Target, Protocol):
    """Target whose log density is a normal prior, a normal error of a task, and possibly limits."""

    @property
    def prior_mean(self) -> Tensor: ...

    @property
    def prior_scale(self) -> Tensor: ...

    @property
    def n_goals(self) -> int: ...

    def task(self, x: Tensor, goal: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the errors of configurations (n, n_dims) from goals (n,) of int64, in units of the tolerance.

        Returns
        -------
        error : Tensor (n, n_errors)
        jacobian : Tensor (n, n_errors, n_dims)
        hessian : Tensor (n, n_errors, n_dims, n_dims)
        """
        ...


@dataclass(frozen=True)
class KinematicStart:
    """Initial mixture and its cost.

    Attributes
    ----------
    mixture : GaussianMixture
    n_evaluations : int
        Number of evaluations of the target or its kinematics.
    goals : Tensor (n_components,) of int64
        Goal of each component.
    """

    mixture: GaussianMixture
    n_evaluations: int
    goals: Tensor


def kinematic_start(
    target: ReachingTarget, n_components: int = 100, generator: torch.Generator | None = None, n_steps: int = 14
) -> KinematicStart:
    """Build an initial mixture from the kinematics of the target. The docstring of the module describes the method.

    Parameters
    ----------
    target : ReachingTarget
        `PlanarRobot` or `PosePosterior`.
    n_components : int
        Number of components. Components are assigned to the goals in turn.
    generator : torch.Generator, optional
        Source of randomness for the draws of the prior.
    n_steps : int
        Gauss-Newton steps, at least 1. The cost is n_components (n_steps + 4) evaluations.

    Returns
    -------
    KinematicStart
    """
    if n_components < 1 or n_steps < 1:
        raise DistributionError(
            f"a start needs at least one component and one step, got {n_components} and {n_steps}", n_components
        )
    noise = target.prior_scale * torch.randn(n_components, target.n_dims, generator=generator, dtype=torch.float64)
    goals = torch.arange(n_components) % target.n_goals
    near = target.prior_mean + SHRINKAGE * noise
    return _reached(target, target.prior_mean + noise, near, goals, n_steps)


def moved_start(target: ReachingTarget, means: Tensor, goals: Tensor, n_steps: int = 6) -> KinematicStart:
    """Build an initial mixture for goals that have moved, from the means of an earlier fit.

    Each mean moves to the new position of its goal with as little change as possible. Covariances and weights are
    computed again. Therefore, the mixture keeps all modes. A fit from the old mixture would give all weight to the mode
    that reaches its new goal first.

    Parameters
    ----------
    target : ReachingTarget
        Target with the goals at their new positions.
    means : Tensor (n_components, n_dims)
        Means of the mixture that was fitted to the old goals.
    goals : Tensor (n_components,) of int64
        Goal of each mean: `target.nearest_goal(means)` of the old target.
    n_steps : int
        Gauss-Newton steps, at least 1. More steps are needed if goals have moved far.

    Returns
    -------
    KinematicStart
    """
    if means.dim() != 2 or means.shape[1] != target.n_dims or goals.shape != means.shape[:1] or len(means) == 0:
        raise DistributionError(
            f"expected means (n_components, {target.n_dims}) and one goal for each, got {tuple(means.shape)} and "
            f"{tuple(goals.shape)}",
            tuple(means.shape),
        )
    if n_steps < 1 or not bool(((goals >= 0) & (goals < target.n_goals)).all()):
        raise DistributionError(f"expected at least one step, and goals from 0 to {target.n_goals - 1}", goals)
    means = means.to(torch.float64)
    return _reached(target, means, means, goals, n_steps)


def _reached(target: ReachingTarget, x: Tensor, near: Tensor, goals: Tensor, n_steps: int) -> KinematicStart:
    """Apply steps 1 to 4 to configurations x. `near` is c of step 1."""
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
    """Return q' - q of step 1, at most LONGEST_STEP in units of the prior. `away` is q - c."""
    whitened, distance = jacobian * scale, away / scale
    identity = torch.eye(error.shape[-1], dtype=error.dtype)
    missing = whitened @ distance.unsqueeze(-1) - error.unsqueeze(-1)
    step = (whitened.mT @ torch.linalg.solve(whitened @ whitened.mT + identity, missing)).squeeze(-1) - distance
    shortened: Tensor = step * (LONGEST_STEP / step.norm(dim=-1, keepdim=True).clamp(min=LONGEST_STEP))
    return scale * shortened


def _covariance(jacobian: Tensor, hessian: Tensor, scale: Tensor) -> Tensor:
    """Return the fixed point of Sigma^-1 = S^-1 + J'J + sum_k H_k Sigma H_k.

    Successive precisions are averaged, because the plain iteration oscillates.
    """
    fixed = torch.diag(scale**-2) + jacobian.mT @ jacobian
    precision = fixed
    for _ in range(N_FIXED_POINT):
        curved = (hessian @ torch.cholesky_inverse(torch.linalg.cholesky(precision)).unsqueeze(1) @ hessian).sum(1)
        precision = 0.5 * (precision + fixed + curved)
    covariance: Tensor = torch.cholesky_inverse(torch.linalg.cholesky(precision))
    return covariance


def _gain(covariance: Tensor, jacobian: Tensor, hessian: Tensor, error: Tensor, scale: Tensor) -> Tensor:
    """Return E[log p~] - log p~(mean) (n,), for e to second order with E[e] = 0. `error` is e(mean)."""
    spread = (covariance.diagonal(dim1=-2, dim2=-1) / scale**2).sum(-1)
    curved = hessian @ covariance.unsqueeze(1)
    of_task = (jacobian @ covariance * jacobian).sum((-2, -1)) + 0.5 * (curved * curved.mT).sum((-3, -2, -1))
    return 0.5 * (error.square().sum(-1) - spread - of_task)
