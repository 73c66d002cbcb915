"""Brute-force rival: a damped Gauss-Newton method from random starts, with kinematics from pinocchio, batched in NumPy.

The tip is a product of exponentials whose screws come from pinocchio's Jacobian at zero, so that nothing of our solver
is used. All joints must be revolute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from eim_ros.kinematics import Robot

__all__ = ["Restarts", "distinct"]

TOLERANCE = 1e-6  # largest error [m], [rad]
N_ITERATIONS = 60
LARGEST_STEP = 0.5  # of a joint [rad]
DAMPING = 1e-6
CIRCLE = 2.0 * np.pi


@dataclass(frozen=True, eq=False)
class Restarts:
    """Solver for one arm: axes (dof, 3) and points (dof, 3) of the joints at zero, the tip (4, 4) there, and limits."""

    axes: np.ndarray
    points: np.ndarray
    tip: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, robot: Robot) -> Restarts:
        """Read the joints of a robot's description with pinocchio."""
        full = pin.buildModelFromXML(robot.urdf)
        others = [i for i, name in enumerate(full.names) if i and name not in robot.joint_names]
        model = pin.buildReducedModel(full, others, pin.neutral(full))
        zero, data = np.zeros(model.nv), model.createData()
        screws = pin.computeJointJacobians(model, data, zero)  # rows: velocity at the origin, angular velocity
        pin.updateFramePlacements(model, data)
        base, tip = (data.oMf[model.getFrameId(link)] for link in (robot.base_link, robot.tip_link))
        order = [model.joints[model.getJointId(name)].idx_v for name in robot.joint_names]
        axes = screws[3:, order].T
        points = np.cross(axes, screws[:3, order].T)
        inverse = base.inverse()
        return cls(
            axes @ inverse.rotation.T,
            points @ inverse.rotation.T + inverse.translation,
            (inverse * tip).homogeneous,
            robot.lower,
            robot.upper,
        )

    def forward(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return poses (n, 4, 4) and Jacobians (n, 6, dof) of configurations (n, dof)."""
        n, dof = q.shape
        rotation, translation = np.tile(np.eye(3), (n, 1, 1)), np.zeros((n, 3))
        axes, points = np.empty((n, dof, 3)), np.empty((n, dof, 3))
        for j in range(dof):
            axes[:, j] = rotation @ self.axes[j]
            points[:, j] = rotation @ self.points[j] + translation
            cross = np.cross(np.eye(3), self.axes[j])
            turn = (
                np.eye(3) + np.sin(q[:, j, None, None]) * cross + (1.0 - np.cos(q[:, j, None, None])) * (cross @ cross)
            )
            translation = translation + (rotation @ (self.points[j] - turn @ self.points[j])[:, :, None])[:, :, 0]
            rotation = rotation @ turn
        poses = np.tile(np.eye(4), (n, 1, 1))
        poses[:, :3, :3] = rotation @ self.tip[:3, :3]
        poses[:, :3, 3] = rotation @ self.tip[:3, 3] + translation
        linear = np.cross(axes, poses[:, None, :3, 3] - points)
        return poses, np.concatenate([linear, axes], axis=2).transpose(0, 2, 1)

    def errors(self, poses: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the errors (n, 6): vectors from poses to targets, and rotation vectors."""
        turns = targets[:, :3, :3] @ poses[:, :3, :3].transpose(0, 2, 1)
        skew = np.stack(
            [turns[:, 2, 1] - turns[:, 1, 2], turns[:, 0, 2] - turns[:, 2, 0], turns[:, 1, 0] - turns[:, 0, 1]]
        )
        sine, cosine = 0.5 * np.linalg.norm(skew, axis=0), 0.5 * (np.trace(turns, axis1=1, axis2=2) - 1.0)
        scale = np.where(sine > 1e-9, 0.5 * np.arctan2(sine, cosine) / np.maximum(sine, 1e-9), 0.5)
        return np.concatenate([targets[:, :3, 3] - poses[:, :3, 3], (scale * skew).T], axis=1)

    def solve(self, targets: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Try each target (n, 4, 4) from one random start; return rows (n, dof) and which reach their target (n,)."""

        def residuals(q: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            poses, jacobians = self.forward(q)
            return self.errors(poses, targets[some]), jacobians

        return _minimised(residuals, len(targets), self.lower, self.upper, rng)

    @staticmethod
    def solve_pair(
        left: Restarts, right: Restarts, targets: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Try poses (n, 4, 4) of the right hand relative to the left one, as `solve`.

        The rows begin with the joints of the left arm from its hand to its base.
        """
        n_left = len(left.lower)

        def residuals(q: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            poses, moving = left.forward(q[:, n_left - 1 :: -1])
            goals = poses @ targets[some]
            reached, jacobians = right.forward(q[:, n_left:])
            away = (goals[:, :3, 3] - poses[:, :3, 3])[:, None]
            carried = moving.transpose(0, 2, 1).copy()  # of the goal, which the left hand carries
            carried[..., :3] += np.cross(carried[..., 3:], away)
            both = np.concatenate([-carried[:, ::-1].transpose(0, 2, 1), jacobians], axis=2)
            return right.errors(reached, goals), both

        lower, upper = (np.concatenate([getattr(left, end)[::-1], getattr(right, end)]) for end in ("lower", "upper"))
        return _minimised(residuals, len(targets), lower, upper, rng)


def _minimised(
    residuals: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
    n: int,
    lower: np.ndarray,
    upper: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Reduce errors (m, 6) with Jacobians (m, 6, dof) from n random starts; see `Restarts.solve`."""
    q = rng.uniform(np.maximum(lower, -np.pi), np.minimum(upper, np.pi), (n, len(lower)))
    reached, left = np.zeros(n, dtype=bool), np.arange(n)
    for _ in range(N_ITERATIONS):
        errors, jacobians = residuals(q[left], left)
        is_there = np.linalg.norm(errors.reshape(-1, 2, 3), axis=2).max(axis=1) < TOLERANCE
        reached[left[is_there]] = True
        left, errors, jacobians = left[~is_there], errors[~is_there], jacobians[~is_there]
        if not len(left):
            break
        damping = (0.5 * (errors**2).sum(axis=1) + DAMPING)[:, None, None] * np.eye(6)
        transposed = jacobians.transpose(0, 2, 1)
        steps = (transposed @ np.linalg.solve(jacobians @ transposed + damping, errors[:, :, None]))[:, :, 0]
        steps *= np.minimum(1.0, LARGEST_STEP / np.maximum(np.abs(steps).max(axis=1, keepdims=True), 1e-12))
        q[left] = np.clip(q[left] + steps, lower, upper)
    return q, reached


def distinct(q: np.ndarray, tolerance: float = 0.01) -> np.ndarray:
    """Return the rows (m, dof) of q (n, dof) that differ from all earlier ones, up to revolutions."""
    kept: list[np.ndarray] = []
    for row in q:
        off = [np.abs((row - other + np.pi) % CIRCLE - np.pi).max() for other in kept]
        if min(off, default=np.inf) > tolerance:
            kept.append(row)
    return np.array(kept).reshape(-1, q.shape[1])
