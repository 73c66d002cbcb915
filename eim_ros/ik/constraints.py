"""What a request asks beside the pose: tolerances per axis, narrower limits, links in their places, no collision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConstraintError, RobotError, did_you_mean
from eim_ros.ik.link_constraints import LinkCheck, LinkConstraint
from eim_ros.ik.tolerance_box import ToleranceBox
from eim_ros.kinematics import Obstacle, Robot
from eim_ros.kinematics.arguments import is_number
from eim_ros.kinematics.collision import CollisionScene, collision_model
from eim_ros.kinematics.deadlines import NEVER
from eim_ros.kinematics.obstacles import checked_obstacles
from eim_ros.kinematics.task import checked_tolerances
from eim_ros.numerics.arguments import LARGEST, as_number, checked_flag, expect, expect_mapping, numbers_of
from eim_ros.numerics.keywords import names_wrong_keywords

__all__ = ["Constraints"]

FloatArray = npt.NDArray[np.float64]


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class Constraints:
    """Constraints of one request; the default asks for nothing.

    Attributes
    ----------
    tolerances : (6,) array_like, optional
        How far the tip may be off along x, y, z [m], and turned about x, y, z [rad], of the wanted pose's frame,
        infinite where it is free; see `Robot.refine`. Errors of configurations are then what is beyond the tolerances.
    limits : mapping of str to (float, float)
        Lower and upper limit of joints by name [rad] or [m], within the robot's own; an infinite end is the robot's.
    fixed : mapping of str to float
        Value of joints that must not move [rad] or [m], within their limits. A continuous joint may be given
        any number of turns.
    self_collision : bool
        Whether the robot must not collide with itself, by the collision shapes of its description.
    obstacles : sequence of Box, Sphere, Cylinder, Capsule, Mesh or PointCloud
        What the moving links must not collide with, posed in the base frame.
    links : sequence of LinkPosition or LinkOrientation
        Where links of the chain must be.
    clearance : float
        How close the robot must not come to obstacles, and with `self_collision` to itself [m].
    """

    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    fixed: Mapping[str, float] = field(default_factory=dict)
    self_collision: bool = False
    obstacles: Sequence[Obstacle] = ()
    tolerances: npt.ArrayLike | None = None
    links: Sequence[LinkConstraint] = ()
    clearance: float = 0.0

    def __post_init__(self) -> None:
        expect_mapping(self.limits, "limits", ConstraintError)
        expect_mapping(self.fixed, "fixed", ConstraintError)
        links, clearance = self.links, self.clearance
        if not isinstance(links, Sequence) or not all(isinstance(each, LinkConstraint) for each in links):
            raise ConstraintError(f"links must be a list of LinkPosition and LinkOrientation, got {links!r}", links)
        if not 0.0 <= as_number(clearance) <= LARGEST:
            raise ConstraintError(f"the clearance must be finite and at least 0 [m], got {clearance!r}", clearance)
        put = object.__setattr__
        put(self, "self_collision", checked_flag(self.self_collision, "self_collision", ConstraintError))
        put(self, "obstacles", checked_obstacles(self.obstacles))
        put(self, "clearance", float(clearance))
        put(self, "tolerances", None if self.tolerances is None else checked_tolerances(self.tolerances))

    def bounds(self, robot: Robot) -> tuple[FloatArray, FloatArray]:
        """Lower and upper limits (dof,) of all joints; equal where a joint is fixed.

        Raises
        ------
        ConstraintError
            If a joint is unknown, or its limits are empty, go beyond the robot's, or exclude its fixed value.
        """
        expect(robot, Robot, "robot", RobotError)
        if not self.limits and not self.fixed:
            return robot.lower, robot.upper
        index = {name: i for i, name in enumerate(robot.joint_names)}
        if unknown := [name for name in (*self.limits, *self.fixed) if name not in index]:
            known = ", ".join(robot.joint_names) + did_you_mean(unknown[0], robot.joint_names)
            raise ConstraintError(f"the robot has no joint {unknown[0]!r} to constrain; its joints: {known}", unknown)
        lower, upper = robot.lower.copy(), robot.upper.copy()
        for name, ends in self.limits.items():
            lower[index[name]], upper[index[name]] = _narrowed(
                name, ends, float(lower[index[name]]), float(upper[index[name]])
            )
        for name, value in self.fixed.items():
            i = index[name]
            if not is_number(value):
                raise ConstraintError(f"joint {name!r} is to be fixed at {value!r}, expected a number", value)
            value = float(value)
            if robot.continuous[i] and math.isfinite(value):
                value = (value + math.pi) % (2.0 * math.pi) - math.pi
            if not lower[i] <= value <= upper[i]:
                raise ConstraintError(
                    f"joint {name!r} is to be fixed at {value:.6g}, outside of its limits {lower[i]:.6g} to "
                    f"{upper[i]:.6g}; fix it within them",
                    value,
                )
            lower[i] = upper[i] = value
        return lower, upper

    def wanted(self, pose: FloatArray, robot: Robot, n: int, rng: np.random.Generator) -> FloatArray:
        """Poses (n, 4, 4) drawn from those that the tolerances leave around a wanted one, the first of them itself.

        Uniform along each axis and about each, in the decomposition of `Robot.refine`; what is free, within reach.
        """
        box = ToleranceBox.of(pose, self.tolerances, robot.reach)
        offsets = box.drawn(n, rng)
        offsets[0] = 0.0
        return box.poses(offsets)

    def check(self, robot: Robot, deadline: float = NEVER) -> None:
        """Raise now what a request with these constraints would: `ConstraintError`, or `RobotError` of a bad shape.

        `OutOfTime` if shapes cannot be prepared until the deadline, a time of `perf_counter` [s].
        """
        self.bounds(robot)
        checked_tolerances(self.tolerances)
        self.scene(robot, deadline)
        self.link_check(robot)

    @property
    def slack(self) -> float:
        """How far the tip may be from the wanted position by the tolerances per axis [m]."""
        return 0.0 if self.tolerances is None else float(np.linalg.norm(checked_tolerances(self.tolerances)[:3]))

    def scene(self, robot: Robot, deadline: float = NEVER) -> CollisionScene | None:
        """What configurations are checked for collisions with; None where they need not be.

        Raises
        ------
        ConstraintError
            If the robot has no shapes to check, or the scene is larger than `CollisionOptions` allow.
        OutOfTime
            If shapes cannot be prepared until the deadline, a time of `perf_counter` [s].
        """
        if not self.self_collision and not self.obstacles:
            return None
        model = collision_model(robot, deadline)
        return model.scene(self.self_collision, self.obstacles, self.clearance, deadline)

    def link_check(self, robot: Robot) -> LinkCheck | None:
        """What checks where links are; None where they may be anywhere.

        Raises
        ------
        ConstraintError
            If the robot has no such link, or other joints move it.
        """
        return LinkCheck(robot, self.links) if self.links else None


def _narrowed(name: str, ends: tuple[float, float], lower: float, upper: float) -> tuple[float, float]:
    """Limits of a joint, which are to lie within its own."""
    low, high = numbers_of(ends, (2,), f"the limits of joint {name!r}", ConstraintError, least=-math.inf, most=math.inf)
    low, high = (lower if low == -math.inf else low), (upper if high == math.inf else high)
    if not low <= high:
        raise ConstraintError(f"the limits of joint {name!r} are empty: {low:.6g} to {high:.6g}", ends)
    if low < lower or high > upper:
        raise ConstraintError(
            f"the limits of joint {name!r}, {low:.6g} to {high:.6g}, go beyond its own, {lower:.6g} to {upper:.6g}; "
            "narrow them, or give an infinite end for its own",
            ends,
        )
    return low, high
