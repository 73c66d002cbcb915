"""Poses that tolerances per axis leave around a wanted one, by six offsets, as `Robot.refine` measures them.

    p = p_wanted + R_wanted o_p,    R = R_wanted exp(s) exp(t),

with the twist t about the axis of the largest tolerance (of equal ones the last) and the swing s about the two others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics.pose import rotations_from
from eim_ros.kinematics.task import checked_tolerances

__all__ = ["ToleranceBox"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ToleranceBox:
    """Offsets within tolerances, and the poses that have them.

    Attributes
    ----------
    pose : (4, 4)
        The wanted one.
    widest : (6,)
        Largest offset along x, y, z [m], about x, y, z [rad], of the pose's frame.
    twist_axis : int
        3, 4 or 5.
    """

    pose: FloatArray
    widest: FloatArray
    twist_axis: int

    @classmethod
    def of(cls, pose: FloatArray, tolerances: npt.ArrayLike | None, farthest: float) -> ToleranceBox:
        """Of tolerances (6,), where what is free is within a distance [m]; of None nothing but the pose itself."""
        widths = np.zeros(6) if tolerances is None else checked_tolerances(tolerances)
        twist_axis = 5 - int(np.argmax(widths[:2:-1]))
        return cls(pose, np.minimum(widths, [farthest] * 3 + [math.pi] * 3), twist_axis)

    def drawn(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Offsets (n, 6), uniform along each axis and about each."""
        return rng.uniform(-self.widest, self.widest, (n, 6))

    def poses(self, offsets: FloatArray) -> FloatArray:
        """Poses (n, 4, 4) of offsets (n, 6)."""
        swing, twist = self._swings_and_twists(offsets)
        poses = np.tile(np.eye(4), (len(offsets), 1, 1))
        poses[:, :3, :3] = self.pose[:3, :3] @ rotations_from(swing) @ rotations_from(twist)
        poses[:, :3, 3] = self.pose[:3, 3] + offsets[:, :3] @ self.pose[:3, :3].T
        return poses

    def is_inside(self, offset: FloatArray) -> bool:
        """Whether an offset (6,) is the shortest of its pose: no swing is longer than half a turn."""
        return float(np.linalg.norm(self._swings_and_twists(offset[None])[0])) <= math.pi

    def rates(self, offset: FloatArray) -> FloatArray:
        """Matrix (6, 6) from velocities of the tip, linear [m/s] and angular [rad/s] in the base frame, to those of an
        offset (6,), by the right Jacobian of rotation vectors (Chirikjian 2011, "Stochastic Models", 10.86).
        """
        (swing,), (twist,) = self._swings_and_twists(offset[None])
        angle, cross = float(np.linalg.norm(swing)), _cross_matrix(swing)
        of_swing = np.eye(3) - 0.5 * cross
        if angle > 1e-6:
            sine_part = (angle - math.sin(angle)) / angle**3
            of_swing = np.eye(3) - (1.0 - math.cos(angle)) / angle**2 * cross + sine_part * cross @ cross
        body = rotations_from(twist[None])[0].T @ of_swing
        body[:, self.twist_axis - 3] = np.eye(3)[self.twist_axis - 3]
        rates = np.zeros((6, 6))
        rates[:3, :3] = self.pose[:3, :3].T
        rates[3:, 3:] = np.linalg.solve(body, self.poses(offset[None])[0, :3, :3].T)
        return rates

    def _swings_and_twists(self, offsets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Rotation vectors (n, 3) of both."""
        swing, twist = offsets[:, 3:].copy(), np.zeros((len(offsets), 3))
        k = self.twist_axis - 3
        swing[:, k], twist[:, k] = 0.0, offsets[:, self.twist_axis]
        return swing, twist


def _cross_matrix(vector: FloatArray) -> FloatArray:
    x, y, z = vector
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
