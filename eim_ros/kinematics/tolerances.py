"""What a call asks of configurations, checked once: limits, a pose, how near to it, with a tolerance per axis.

Poses that tolerances per axis leave around a wanted one, by six offsets, as `Robot.refine` measures them.

    p = p_wanted + R_wanted o_p,    R = R_wanted exp(s) exp(t),

with the twist t about the axis of the largest tolerance (of equal ones the last) and the swing s about the two others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import LARGEST, as_numbers, checked_flag, number_from_zero
from eim_ros.core.errors import ConstraintError, RobotError
from eim_ros.kinematics.poses import check_pose, check_poses, is_position, pose_from, rotations_from
from eim_ros.solver import Task

FloatArray = npt.NDArray[np.float64]

NO_TOLERANCES = np.empty(0)


class TaskOptions(TypedDict, total=False):
    """Keywords of the methods of `Robot` that take a pose.

    position_only : bool
        Whether any orientation will do; it will where the pose is a position alone.
    tolerances : (6,) array_like
        How far the tip may be off along x, y, z [m], and turned about x, y, z [rad], of the wanted pose's frame;
        infinite where it is free. Errors are then what is beyond. The turn is measured as a twist about the axis of the
        largest tolerance (of equal ones the last), and the shortest rotation that takes this axis to where it is: a
        free turn about one axis and none about the others asks for the direction of that axis, exactly.
    position_tolerance, orientation_tolerance : float
        [m], [rad], at least 0; default 1e-6.
    lower, upper : (dof,) array_like
        Narrower limits for this call.
    """

    position_only: bool
    tolerances: npt.ArrayLike | None
    position_tolerance: float
    orientation_tolerance: float
    lower: npt.ArrayLike | None
    upper: npt.ArrayLike | None


@dataclass(frozen=True, eq=False)
class JointLimits:
    """Limits of the joints (dof,), and which of them are continuous."""

    lower: FloatArray
    upper: FloatArray
    continuous: npt.NDArray[np.bool_]

    @property
    def bounds(self) -> FloatArray:
        """For the solver (3, dof); a continuous joint narrowed to less than a turn does not wrap."""
        wraps = self.continuous & (self.lower <= -math.pi) & (self.upper >= math.pi)
        return np.array([self.lower, self.upper, wraps])

    def narrowed(self, lower: npt.ArrayLike | None, upper: npt.ArrayLike | None) -> JointLimits:
        """With other limits, which must lie within these; `RobotError` if not."""
        if lower is None and upper is None:
            return self
        try:
            low = as_numbers(self.lower if lower is None else lower)
            high = as_numbers(self.upper if upper is None else upper)
        except (TypeError, ValueError) as error:
            raise RobotError("limits must be arrays of numbers", (lower, upper)) from error
        expected = self.lower.shape
        if low.shape != expected or high.shape != expected:
            raise RobotError(f"limits must have shape {expected}, got {low.shape} and {high.shape}", (lower, upper))
        if not np.all(low <= high):  # also catches NaN
            raise RobotError("lower limits must not exceed upper limits", (lower, upper))
        if np.any(low < self.lower) or np.any(high > self.upper):
            raise RobotError("limits of a call may only narrow those of the robot", (lower, upper))
        return JointLimits(low, high, self.continuous)


def make_task(
    bounds: FloatArray,
    pose: npt.ArrayLike,
    position_only: bool = False,
    tolerances: npt.ArrayLike | None = None,
    position_tolerance: float = 1e-6,
    orientation_tolerance: float = 1e-6,
) -> Task:
    """Task for the solver.

    Parameters
    ----------
    bounds : (3, dof)
        See `JointLimits.bounds`.
    pose : (4, 4) array_like
        Wanted pose of the tip in the base frame.
    position_only, tolerances, position_tolerance, orientation_tolerance
        See `TaskOptions`.

    Raises
    ------
    PoseError
        If the pose is not a finite rigid transform.
    ConstraintError
        If the tolerances are not six numbers of at least 0.
    RobotError
        If the position or the orientation tolerance is no number of at least 0.
    """
    position_only = checked_flag(position_only, "position_only", RobotError) or is_position(pose)
    return Task(
        bounds,
        check_pose(pose_from(pose) if is_position(pose) else pose),
        position_only,
        checked_tolerances(tolerances, position_only),
        number_from_zero(position_tolerance, "the position tolerance"),
        number_from_zero(orientation_tolerance, "the orientation tolerance"),
    )


def checked_tolerances(tolerances: npt.ArrayLike | None, position_only: bool = False) -> FloatArray:
    """Tolerances (6,) for the solver, those of the rotation infinite with `position_only`; (0,) for none."""
    if tolerances is None:
        return NO_TOLERANCES
    try:
        values = np.array(as_numbers(tolerances))
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (6,) or not ((values >= 0.0) & ((values <= LARGEST) | (values == np.inf))).all():
        raise ConstraintError(
            "tolerances need six numbers of at least 0, for x, y, z [m] and rotations about x, y, z [rad], got "
            f"{tolerances!r}",
            tolerances,
        )
    if position_only:
        values[3:] = np.inf
    return values


def redundancy(bounds: FloatArray, position_only: bool) -> int:
    """How many more joints can move, by bounds (3, dof), than a pose or a position takes; it may be negative."""
    return int(np.count_nonzero(bounds[0] < bounds[1])) - (3 if position_only else 6)


def transforms(poses: npt.ArrayLike) -> FloatArray:
    """Rigid transforms (n, 4, 4), of which there may be none; `PoseError` if one is not rigid."""
    if isinstance(poses, np.ndarray) and poses.shape == (0, 4, 4):
        return np.empty((0, 4, 4))
    return check_poses(poses)


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
