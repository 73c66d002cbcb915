"""Driving the arm by the velocity of its tip: damped least squares (Wampler 1986), within the joint limits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from eim_ros.errors import DataError
from eim_ros.planar.arm import PlanarArm

__all__ = ["joint_velocity", "target_after"]

Array = npt.NDArray[np.float64]

DAMPING = 0.1  # [m]


def joint_velocity(arm: PlanarArm, q: Array, linear: Array, angular: float = 0.0) -> Array:
    """Joint velocities (n_links,) [rad/s] that move the tip as wished, as nearly and as gently as possible.

    Parameters
    ----------
    arm : PlanarArm
    q : (n_links,)
        [rad].
    linear : (2,)
        Velocity of the tip, x and y [m/s].
    angular : float
        Its rotation [rad/s]; 0: it may turn as it likes.
    """
    if not (np.isfinite(linear).all() and np.isfinite(angular)):
        raise DataError("a wished velocity must be finite", [*linear, angular])
    points = arm.points(torch.from_numpy(q)).numpy()
    lever = points[-1] - points[:-1]
    jacobian, wish = np.stack([-lever[:, 1], lever[:, 0]]), np.asarray(linear, dtype=np.float64)
    if angular != 0.0:
        jacobian, wish = np.vstack([jacobian, np.ones(arm.n_links)]), np.append(wish, angular)
    damped = jacobian @ jacobian.T + DAMPING**2 * np.eye(len(jacobian))
    return np.asarray(jacobian.T @ np.linalg.solve(damped, wish))


def target_after(arm: PlanarArm, q: Array, velocity: Array, duration: float) -> Array:
    """Configuration (n_links,) after a time [s] at this velocity, slowed down to the arm's limits as a whole."""
    if velocity.shape != (arm.n_links,) or not np.isfinite(velocity).all():
        raise DataError(f"wished joint velocities must be {arm.n_links} finite numbers", velocity.tolist())
    fastest = float(np.abs(velocity).max())
    slowed = velocity * min(1.0, 0.99 * arm.velocity_limit / fastest) if fastest > 0.0 else velocity
    return np.asarray(np.clip(q + duration * slowed, -arm.joint_limit, arm.joint_limit))
