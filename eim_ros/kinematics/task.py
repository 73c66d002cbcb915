"""What a call asks of configurations, checked once: limits, a pose, how near to it, with a tolerance per axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConstraintError, RobotError
from eim_ros.kinematics.arguments import number_from_zero
from eim_ros.kinematics.pose import check_pose, check_poses, pose_from
from eim_ros.kinematics.pose_forms import is_position
from eim_ros.numerics.arguments import LARGEST, as_numbers, checked_flag
from eim_ros.solver import Task

__all__ = ["JointLimits", "TaskOptions", "checked_tolerances", "make_task", "redundancy", "transforms"]

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
