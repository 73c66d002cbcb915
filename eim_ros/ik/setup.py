"""A robot and constraints, checked against each other once for all requests of a sampler."""

from __future__ import annotations

import copy
import math

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray, length
from eim_ros.core.checks import LARGEST, as_numbers
from eim_ros.core.errors import JointStateError
from eim_ros.ik.constraints import Constraints
from eim_ros.kinematics import Robot
from eim_ros.kinematics.refinement import MAX_ITERATIONS
from eim_ros.kinematics.tolerances import JointLimits, checked_tolerances, redundancy
from eim_ros.kinematics.urdf import TRANSLATION
from eim_ros.solver import StepOptions, Task

PATIENCE = 3  # iterations without progress after which the solver stops, because another seed is cheaper
ROUNDING = 1e-12  # relative error of the length of an arm
NO_TOLERANCES = np.empty(0)


class Setup:
    """A robot and constraints, checked against each other once. It is immutable, so threads may share it.

    Parameters
    ----------
    robot : Robot
    constraints : Constraints

    Attributes
    ----------
    lower, upper : (dof,)
        Limits of the joints within the constraints [rad] or [m].
    bounds : (3, dof)
        Rows: lower limits, upper limits, and 1 for joints that wrap (otherwise 0), see `JointLimits`.
    tolerances : (6,), optional
        Tolerances along and about the axes of the target frame [m, rad].
    effort : StepOptions
        Tolerances of the numerical solver, and its number of iterations without progress.
    slack : float
        Farthest distance of the tip from the target that the tolerances allow [m].
    first_joint : (3,)
        Position of the first joint, which never moves [m].
    length : float
        Largest distance of the tip from the first joint [m].
    is_narrowed : bool
        Whether the limits are narrower than those of the robot.
    plausible : list of (float, float)
        Range of each joint [rad] or [m]. Configurations beyond this range are rejected, because they seem to be in
        degrees.
    redundancies : (int, int)
        Dimensions of the self-motion at a pose and at a position; negative if the arm has too few joints.
    is_checked : bool
        Whether configurations that reach the pose are also checked for collisions, conditions on links or a branch.

    Raises
    ------
    ConstraintError
        If the robot has no such joint or link, or if a limit exceeds the limits of the robot.
    """

    __slots__ = (
        *("_accepted", "_first_joint", "bounds", "constraints", "effort", "first_joint", "is_checked", "is_narrowed"),
        *("length", "lower", "plausible", "redundancies", "robot", "slack", "tolerances", "upper"),
    )

    def __init__(self, robot: Robot, constraints: Constraints) -> None:
        self.robot, self.constraints = robot, constraints
        self.lower, self.upper = constraints.bounds(robot)
        self.is_narrowed = self.lower is not robot.lower
        self.bounds = robot.bounds
        if self.is_narrowed:
            self.bounds = JointLimits(self.lower, self.upper, robot.continuous).bounds
        self.tolerances = None if constraints.tolerances is None else checked_tolerances(constraints.tolerances)
        self.slack, self.first_joint = constraints.slack, robot.links[0, TRANSLATION]
        self._first_joint = self.first_joint.tolist()
        self.length = (robot.reach - robot.offset) * (1.0 + ROUNDING)
        free = redundancy(self.bounds, False)
        self.redundancies = free, free + 3  # the orientation is free at a position
        self.effort = self.effort_of(PATIENCE)
        self.plausible = robot.plausible
        self._accepted = [(max(least, -LARGEST), min(most, LARGEST)) for least, most in self.plausible]
        self.is_checked = bool(
            constraints.self_collision or constraints.obstacles or constraints.links or constraints.branch
        )
        if constraints.links:
            constraints.link_check(robot)
        if constraints.branch:
            constraints.branch_check(robot)

    def reaching(self, poses: FloatArray) -> Setup:
        """Return a setup in which unlimited slides are limited to the range that poses (n, 4, 4) need.

        See `Robot.reaching_limits`. Most robots have no unlimited slides.
        """
        robot = self.robot
        if not len(robot.unlimited_slides) or not len(poses):
            return self
        slack = self.slack + self.constraints.position_tolerance
        setup = copy.copy(self)
        setup.lower, setup.upper = robot.reaching_limits(poses[:, :3, 3], slack, self.lower, self.upper)
        setup.bounds = robot.limits.narrowed(setup.lower, setup.upper).bounds
        return setup

    def task(self, pose: FloatArray, position_only: bool, bounds: FloatArray | None = None) -> Task:
        """Return the task of the compiled solver, with narrower `bounds` (3, dof) if they are given."""
        constraints, tolerances = self.constraints, NO_TOLERANCES
        if self.tolerances is not None:
            tolerances = self.tolerances
            if position_only:
                tolerances = np.concatenate([tolerances[:3], np.full(3, np.inf)])
        return Task(
            self.bounds if bounds is None else bounds,
            pose,
            position_only,
            tolerances,
            constraints.position_tolerance,
            constraints.orientation_tolerance,
        )

    @property
    def farthest(self) -> float:
        """Distance from the first joint beyond which no configuration reaches a target [m]."""
        return self.length + self.constraints.position_tolerance + self.slack

    def is_within_reach(self, pose: FloatArray) -> bool:
        """Return whether the distance of a pose (4, 4) from the first joint is at most the length of the arm.

        No configuration reaches a pose that is farther away. A pose within this distance may also be out of reach.
        """
        (x, y, z), (x0, y0, z0) = pose[:3, 3].tolist(), self._first_joint
        square = (x - x0) * (x - x0) + (y - y0) * (y - y0) + (z - z0) * (z - z0)
        return math.sqrt(square) <= self.farthest  # takes a tenth of the time of NumPy

    def are_within_reach(self, poses: FloatArray) -> npt.NDArray[np.bool_]:
        """Return which poses (n, 4, 4) are within reach."""
        if len(poses) == 1:
            return np.array([self.is_within_reach(poses[0])])
        return np.asarray(length(poses[:, :3, 3] - self.first_joint) <= self.farthest)

    def effort_of(self, patience: int) -> StepOptions:
        """Return the options of the numerical solver, with a number of iterations without progress."""
        constraints = self.constraints
        return StepOptions(constraints.position_tolerance, constraints.orientation_tolerance, MAX_ITERATIONS, patience)

    def is_position_only(self, context_kind: str) -> bool:
        """Return whether any orientation is accepted at a pose (4, 4), for a model with this kind of context."""
        chosen = self.constraints.position_only
        return chosen if chosen is not None else context_kind == "position" and self.tolerances is None

    def configuration(self, near: npt.ArrayLike) -> FloatArray:
        """Return a configuration (dof,), or raise `JointStateError` if it has another shape or is not finite."""
        cause: Exception | None = None
        try:
            q = as_numbers(near)
            if q.shape == self.lower.shape:
                for value, (least, most) in zip(q.tolist(), self._accepted, strict=True):
                    if not least <= value <= most:
                        break
                else:
                    return q
            if q.shape == self.lower.shape and all(abs(value) <= LARGEST for value in q.tolist()):
                for name, value, (least, most) in zip(self.robot.joint_names, q.tolist(), self.plausible, strict=True):
                    if not least <= value <= most:
                        raise JointStateError(
                            f"near has {name} at {value:g}, far beyond its limits: give angles in radians", q
                        )
                return q
        except (TypeError, ValueError) as error:
            cause = error
        names = ", ".join(self.robot.joint_names)
        raise JointStateError(f"near needs {self.robot.dof} finite values, one for each of {names}", near) from cause
