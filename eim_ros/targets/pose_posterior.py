"""Joint configurations of any serial robot whose tip is at a pose: likelihood, prior and limits of the joints.

    log p~(q) = log N(p(q); p*, position_scale^2 I) - (3 - tr(R*'R(q))) / (2 orientation_scale^2)
              + log N(q; prior_mean, diag(prior_scale^2)) + limits

The second term is a matrix Fisher density without its normaliser: for a small angle a between the orientations it is
-a^2 / (2 orientation_scale^2), and unlike a^2 it is smooth at half a turn. Kinematics are the compiled robot's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

from eim_ros.errors import DistributionError
from eim_ros.kinematics.pose import check_pose
from eim_ros.kinematics.robot import Robot
from eim_ros.targets.soft_limits import soft_limits
from eim_ros.targets.start import MixtureStart
from eim_ros.targets.target import checked_samples

__all__ = ["PosePosterior", "pose_posterior"]

LOG_TWO_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True, eq=False)
class PosePosterior:
    """Density of the joints; made by `pose_posterior`, which checks what it is made of.

    Attributes
    ----------
    robot : Robot
    pose : Tensor (4, 4)
        Wanted pose of the tip.
    prior_mean, prior_scale : Tensor (n_dims,)
        [rad] or [m].
    position_scale : float
        [m].
    orientation_scale : float
        [rad]; infinite if only the position counts.
    limit_scale : float
        0: the density is zero outside of the limits. Otherwise they give way, see `soft_limits` [rad or m].
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
        """100 components; means as the prior, covariances a quarter of its deviations."""
        return MixtureStart(100, self.prior_scale, (0.25 * self.prior_scale).square(), self.prior_mean)

    @property
    def lower(self) -> Tensor:
        """Limits (n_dims,), infinite of continuous joints."""
        return torch.from_numpy(np.where(self.robot.continuous, -np.inf, self.robot.lower))

    @property
    def upper(self) -> Tensor:
        """The same, from above."""
        return torch.from_numpy(np.where(self.robot.continuous, np.inf, self.robot.upper))

    def log_prob(self, x: Tensor) -> Tensor:
        """Unnormalised log density [nat], (n_samples,); -inf outside of hard limits."""
        x = checked_samples(x, self.n_dims)
        error, cosine = self._errors(torch.from_numpy(self.robot.forward(x.detach().numpy())))
        return self._log_prob(x, error, cosine)[0]

    def score(self, x: Tensor) -> Tensor:
        """Gradient of the log density, (n_samples, n_dims); NaN outside of hard limits."""
        return self.log_prob_and_score(x)[1]

    def log_prob_and_score(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both, with the forward kinematics computed once."""
        x = checked_samples(x, self.n_dims)
        rows = x.detach().numpy()
        poses, jacobian = torch.from_numpy(self.robot.forward(rows)), torch.from_numpy(self.robot.jacobian(rows))
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
        """1: the pose."""
        return 1

    def task(self, x: Tensor, goal: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Position error, and turn from the pose, in units of their scales; derivatives of both, see `ReachingTarget`.

        With the linear and the angular columns v and w of the Jacobian, d^2 p / dq_i dq_j = w_i x v_j for i <= j, and
        the turn's, at the pose, (w_i x w_j) / 2. Both are inexact where joints follow others.
        """
        rows = x.numpy()
        poses, jacobian = torch.from_numpy(self.robot.forward(rows)), torch.from_numpy(self.robot.jacobian(rows))
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
        """Goal minus position (n_samples, 3), and tr(R*'R) (n_samples,)."""
        return self.pose[:3, 3] - poses[:, :3, 3], (poses[:, :3, :3] * self.pose[:3, :3]).sum((-2, -1))

    def _log_prob(self, x: Tensor, error: Tensor, trace: Tensor) -> tuple[Tensor, Tensor]:
        """Log density, and the gradient of its prior and limits."""
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
    """The posterior of a robot's joints.

    Parameters
    ----------
    robot : Robot
    pose : (4, 4) array_like
        Of the tip in the base's frame.
    prior_mean : (dof,) array_like, optional
        [rad] or [m]; the middle of the limits by default.
    prior_scale : (dof,) array_like or float, optional
        Standard deviations; a quarter of the range by default.
    position_scale : float
        Standard deviation of the tip in each coordinate [m].
    orientation_scale : float
        Of its orientation about each axis [rad]; `math.inf` for the position alone.
    limit_scale : float
        How soft the limits are [rad or m]; 0: hard, which no Gaussian mixture can satisfy: its ELBO is -inf.
    """
    goal = torch.from_numpy(check_pose(pose))
    middle, span = 0.5 * (robot.lower + robot.upper), robot.upper - robot.lower
    mean = np.asarray(middle if prior_mean is None else prior_mean, dtype=np.float64)
    scale = np.asarray(0.25 * span if prior_scale is None else prior_scale, dtype=np.float64)
    if mean.shape not in ((), (robot.dof,)) or scale.shape not in ((), (robot.dof,)):
        raise DistributionError(f"a prior has a number for each of {robot.dof} joints", (mean.shape, scale.shape))
    positive = (scale, position_scale, orientation_scale)
    if not (all(np.all(np.asarray(value) > 0.0) for value in positive) and limit_scale >= 0.0):
        raise DistributionError("scales must be above 0, that of the limits at least 0", positive)
    return PosePosterior(
        robot,
        goal,
        torch.from_numpy(np.broadcast_to(mean, robot.dof).copy()),
        torch.from_numpy(np.broadcast_to(scale, robot.dof).copy()),
        float(position_scale),
        float(orientation_scale),
        float(limit_scale),
    )
