"""Validation of the arguments of calls with a pose: joint limits, target pose and tolerances.

Tolerances per axis allow a set of poses around the target. Six offsets describe a pose of this set. They are a
translation o_p, a swing s and a twist t, as in the errors of `refine`:

    p = p_target + R_target o_p,    R = R_target exp(s) exp(t).

The twist t is about the axis with the largest tolerance. If several tolerances are equal, the last axis is chosen. The
swing s is about the other two axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray, length, product, transformed
from eim_ros.core.checks import LARGEST, as_numbers, checked_flag, number_from_zero
from eim_ros.core.errors import ConstraintError, RobotError
from eim_ros.kinematics.poses import check_pose, is_position, pose_from, rotations_from
from eim_ros.solver import Task

NO_TOLERANCES = np.empty(0)


class TaskOptions(TypedDict, total=False):
    """Keyword arguments of the methods of `Robot` that take a pose.

    position_only : bool
        Whether to ignore the orientation. The orientation is always ignored if the pose is only a position.
    tolerances : (6,) array_like
        Allowed offsets of the tip along x, y, z [m] and about x, y, z [rad] in the frame of the target pose. An
        infinite value makes an axis free. An error is then the amount that exceeds its tolerance. The rotation is split
        into a swing and a twist. The twist is about the axis with the largest tolerance (the last of equal ones). The
        swing is the shortest rotation that moves this axis to its actual direction. One free axis and two zero
        tolerances prescribe the direction of the free axis.
    position_tolerance, orientation_tolerance : float
        Maximum errors [m], [rad], at least 0. Default: 1e-6.
    lower, upper : (dof,) array_like
        Joint limits for this call [rad] or [m], within the robot's limits.
    """

    position_only: bool
    tolerances: npt.ArrayLike | None
    position_tolerance: float
    orientation_tolerance: float
    lower: npt.ArrayLike | None
    upper: npt.ArrayLike | None


@dataclass(frozen=True, eq=False)
class JointLimits:
    """Limits of the joints (dof,) [rad] or [m], and which joints are continuous."""

    lower: FloatArray
    upper: FloatArray
    continuous: npt.NDArray[np.bool_]

    @property
    def bounds(self) -> FloatArray:
        """Limits for the solver (3, dof): lower, upper, and whether the joint wraps.

        A continuous joint does not wrap if its limits are narrowed to less than a revolution.
        """
        wraps = self.continuous & (self.lower <= -math.pi) & (self.upper >= math.pi)
        return np.array([self.lower, self.upper, wraps])

    def narrowed(self, lower: npt.ArrayLike | None, upper: npt.ArrayLike | None) -> JointLimits:
        """Return narrower limits; raise `RobotError` if they exceed these limits."""
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
        if not np.all(low <= high):  # also true for NaN
            raise RobotError(
                f"lower limits must not exceed upper limits, got {low.tolist()} and {high.tolist()}", (lower, upper)
            )
        if np.any(low < self.lower) or np.any(high > self.upper):
            raise RobotError(
                f"the limits of a call must be within the robot's limits, got {low.tolist()} and {high.tolist()}",
                (lower, upper),
            )
        return JointLimits(low, high, self.continuous)


def make_task(
    bounds: FloatArray,
    pose: npt.ArrayLike,
    position_only: bool = False,
    tolerances: npt.ArrayLike | None = None,
    position_tolerance: float = 1e-6,
    orientation_tolerance: float = 1e-6,
) -> Task:
    """Validate the arguments and return them as a task for the solver, see `JointLimits.bounds` and `TaskOptions`.

    Raises
    ------
    PoseError
        If the pose is not a finite rigid transform.
    ConstraintError
        If the tolerances are not six numbers of at least 0.
    RobotError
        If the position or orientation tolerance is not a number of at least 0.
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
    """Return the tolerances (6,) for the solver, or an empty array if there are none.

    With `position_only`, the tolerances of the rotation become infinite.
    """
    if tolerances is None:
        return NO_TOLERANCES
    try:
        values = np.array(as_numbers(tolerances))
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (6,) or not ((values >= 0.0) & ((values <= LARGEST) | (values == np.inf))).all():
        raise ConstraintError(
            "tolerances need six numbers, each at least 0: for x, y, z [m], and for rotations about x, y, z [rad], got "
            f"{tolerances!r}",
            tolerances,
        )
    if position_only:
        values[3:] = np.inf
    return values


def redundancy(bounds: FloatArray, position_only: bool) -> int:
    """Return the degree of redundancy for bounds (3, dof): the number of joints that can move, minus 6 or 3.

    A pose has 6 dimensions, and a position has 3 dimensions. The result is negative if the arm has too few joints.
    """
    return int(np.count_nonzero(bounds[0] < bounds[1])) - (3 if position_only else 6)


@dataclass(frozen=True, eq=False)
class ToleranceBox:
    """Set of poses within the tolerances of a target pose, parameterised by six offsets."""

    pose: FloatArray  # (4, 4), target pose
    widest: FloatArray  # (6,), largest offsets along x, y, z [m] and about x, y, z [rad] in the target frame
    twist_axis: int  # index of the twist: 3, 4 or 5

    @classmethod
    def of(cls, pose: FloatArray, tolerances: npt.ArrayLike | None, farthest: float) -> ToleranceBox:
        """Return the box of tolerances (6,). Without tolerances, it contains only the target pose.

        Offsets along the axes are limited to `farthest` [m], and offsets about the axes to pi.
        """
        widths = np.zeros(6) if tolerances is None else checked_tolerances(tolerances)
        twist_axis = 5 - int(np.argmax(widths[:2:-1]))
        return cls(pose, np.minimum(widths, [farthest] * 3 + [math.pi] * 3), twist_axis)

    def drawn(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw offsets (n, 6) with a uniform distribution along and about each axis."""
        return rng.uniform(-self.widest, self.widest, (n, 6))

    def poses(self, offsets: FloatArray) -> FloatArray:
        """Return the poses (n, 4, 4) of offsets (n, 6)."""
        swing, twist = self._swings_and_twists(offsets)
        poses = np.tile(np.eye(4), (len(offsets), 1, 1))
        poses[:, :3, :3] = product(self.pose[:3, :3], rotations_from(swing), rotations_from(twist))
        poses[:, :3, 3] = self.pose[:3, 3] + transformed(self.pose[:3, :3], offsets[:, :3])
        return poses

    def is_inside(self, offset: FloatArray) -> bool:
        """Return whether an offset (6,) has a swing of at most half a revolution, so that it is the shortest one."""
        return float(length(self._swings_and_twists(offset[None])[0][0])) <= math.pi

    def rates(self, offset: FloatArray) -> FloatArray:
        """Return the matrix (6, 6) that maps velocities of the tip to the rates of an offset (6,).

        The velocities are linear [m/s] and angular [rad/s] in the base frame. The matrix uses the right Jacobian of
        rotation vectors (Chirikjian 2011, "Stochastic Models", 10.86).
        """
        import pinocchio  # deferred because the import is slow

        (swing,), (twist,) = self._swings_and_twists(offset[None])
        body = rotations_from(twist[None])[0].T @ pinocchio.Jexp3(swing)
        body[:, self.twist_axis - 3] = np.eye(3)[self.twist_axis - 3]
        rates = np.zeros((6, 6))
        rates[:3, :3] = self.pose[:3, :3].T
        rates[3:, 3:] = np.linalg.solve(body, self.poses(offset[None])[0, :3, :3].T)
        return rates

    def _swings_and_twists(self, offsets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rotation vectors (n, 3) of the swings and of the twists [rad]."""
        swing, twist = offsets[:, 3:].copy(), np.zeros((len(offsets), 3))
        k = self.twist_axis - 3
        swing[:, k], twist[:, k] = 0.0, offsets[:, self.twist_axis]
        return swing, twist
