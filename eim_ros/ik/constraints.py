"""What a request asks beside the pose: tolerances per axis, narrower limits, links in their places, no collision.

Where links must be beside the tip's pose: a point of a link in a region, a link turned no farther than allowed.

The turn of a link is R_wanted^T R, split into intrinsic angles about x, y, z (R_x(a) R_y(b) R_z(c)), or its rotation
vector. Configurations that reach the pose are checked by forward kinematics of the link.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import (
    LARGEST,
    as_number,
    checked_flag,
    expect,
    expect_mapping,
    is_number,
    names_wrong_keywords,
    numbers_of,
)
from eim_ros.core.deadlines import NEVER, is_past
from eim_ros.core.errors import ConstraintError, PoseError, RobotError, did_you_mean
from eim_ros.kinematics import Obstacle, Robot, Shape
from eim_ros.kinematics.collision import CollisionScene, collision_model
from eim_ros.kinematics.links import link_poses
from eim_ros.kinematics.obstacles import checked_obstacles, inside
from eim_ros.kinematics.poses import check_pose, rotation_vectors
from eim_ros.kinematics.tolerances import ToleranceBox, checked_tolerances

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

MOST_CONSTRAINTS, MOST_SHAPES = 100, 1000  # of links in a request, and of a region
AT_ONCE = 256  # configurations between two looks at the clock


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class LinkPosition:
    """A point of a link is inside of a region.

    Attributes
    ----------
    link : str
        A link that the chain moves.
    region : sequence of Box, Sphere, Cylinder or Capsule
        Of which the union counts, posed in the base frame.
    point : (3,) array_like
        In the frame of the link [m].
    """

    link: str
    region: Sequence[Shape]
    point: npt.ArrayLike = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        expect(self.link, str, "the name of a link", ConstraintError)
        point = numbers_of(self.point, (3,), f"the point of link {self.link!r}", ConstraintError)
        object.__setattr__(self, "point", point)
        region = self.region
        if not isinstance(region, Sequence) or not all(isinstance(shape, Shape) for shape in region):
            raise ConstraintError(f"the region for link {self.link!r} must be a list of shapes, got {region!r}", region)
        if not region:
            raise ConstraintError(f"the region for link {self.link!r} has no shape; give at least one", region)
        if len(region) > MOST_SHAPES:
            raise ConstraintError(
                f"the region for link {self.link!r} has {len(region)} shapes, at most {MOST_SHAPES} are allowed",
                len(region),
            )

    def holds(self, poses: FloatArray) -> BoolArray:
        """For poses (n, 4, 4) of the link."""
        points = poses[:, :3, 3] + poses[:, :3, :3] @ np.asarray(self.point, dtype=np.float64)
        return np.asarray(np.any([inside(shape, points) for shape in self.region], axis=0), dtype=np.bool_)


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class LinkOrientation:
    """A link is turned from an orientation no farther than allowed.

    Attributes
    ----------
    link : str
        A link that the chain moves.
    rotation : (3, 3) array_like
        Wanted orientation of the link in the base frame.
    tolerances : (3,) array_like
        Largest turn about x, y and z [rad], >= 0, infinite where it is free.
    axes : (3, 3) array_like, optional
        Where it is given, the turn is measured by its rotation vector, and `tolerances` are of the components along the
        rows of `axes`, told in the frame of the wanted orientation. Default: by intrinsic angles about x, then y, then
        z.
    """

    link: str
    rotation: npt.ArrayLike
    tolerances: npt.ArrayLike
    axes: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        expect(self.link, str, "the name of a link", ConstraintError)
        what = f"the tolerances of the orientation of link {self.link!r}"
        put = object.__setattr__
        put(self, "tolerances", numbers_of(self.tolerances, (3,), what, ConstraintError, least=0.0, most=np.inf))
        put(self, "rotation", _checked_rotation(self.rotation))
        put(self, "axes", None if self.axes is None else _checked_rotation(self.axes))

    def holds(self, poses: FloatArray) -> BoolArray:
        """For poses (n, 4, 4) of the link."""
        turns = np.asarray(self.rotation, dtype=np.float64).T @ poses[:, :3, :3]
        if self.axes is None:
            angles = _intrinsic_angles(turns)
        else:
            angles = rotation_vectors(turns) @ np.asarray(self.axes, dtype=np.float64).T
        return np.asarray((np.abs(angles) <= np.asarray(self.tolerances, dtype=np.float64)).all(axis=1))


LinkConstraint: TypeAlias = LinkPosition | LinkOrientation


class LinkCheck:
    """Checks configurations.

    Parameters
    ----------
    robot : Robot
    constraints : sequence of LinkPosition or LinkOrientation

    Attributes
    ----------
    n_violating : int
        Configurations that were found to violate one so far.
    n_unchecked : int
        Configurations for which there was no time so far.

    Raises
    ------
    ConstraintError
        If the chain does not determine where a link is, or there are more than 100 constraints.
    """

    def __init__(self, robot: Robot, constraints: Sequence[LinkConstraint]) -> None:
        self.n_violating = self.n_unchecked = 0
        if len(constraints) > MOST_CONSTRAINTS:
            raise ConstraintError(
                f"there are {len(constraints)} constraints of links, at most {MOST_CONSTRAINTS} are allowed",
                len(constraints),
            )
        try:
            poses = {link: link_poses(robot, link) for link in {constraint.link for constraint in constraints}}
            self._checks = [(constraint, poses[constraint.link]) for constraint in constraints]
        except RobotError as error:
            raise ConstraintError(f"a link cannot be constrained: {error}", error.value) from error

    def satisfied(self, q: FloatArray, deadline: float = NEVER) -> BoolArray:
        """Whether all constraints hold in each configuration (n, dof); not, where there is no time to check.

        The deadline is a time of `perf_counter` [s]; some configurations are checked in any case.
        """
        found, first = np.zeros(len(q), dtype=np.bool_), 0
        while first < len(q) and not (first and is_past(deadline)):
            rows = slice(first, first + AT_ONCE)
            found[rows] = np.all([check.holds(poses(q[rows])) for check, poses in self._checks], axis=0)
            self.n_violating += int(np.count_nonzero(~found[rows]))
            first += AT_ONCE
        self.n_unchecked += max(len(q) - first, 0)
        return found


def _intrinsic_angles(rotations: FloatArray) -> FloatArray:
    """Angles (n, 3) about x, y, z of rotations (n, 3, 3); where only a + c or a - c is defined, that is taken for a."""
    r = rotations
    level = np.hypot(r[:, 0, 0], r[:, 0, 1])  # cos b
    about_x, about_z = np.arctan2(-r[:, 1, 2], r[:, 2, 2]), np.arctan2(-r[:, 0, 1], r[:, 0, 0])
    locked = level <= 4.0 * np.finfo(np.float64).eps
    about_x = np.where(locked, np.arctan2(r[:, 2, 1], r[:, 1, 1]), about_x)
    return np.stack([about_x, np.arctan2(r[:, 0, 2], level), np.where(locked, 0.0, about_z)], axis=1)


def _checked_rotation(rotation: npt.ArrayLike) -> FloatArray:
    pose = np.eye(4)
    pose[:3, :3] = numbers_of(rotation, (3, 3), "a rotation", ConstraintError)
    try:
        return check_pose(pose)[:3, :3]
    except PoseError as error:
        raise ConstraintError(f"expected a rotation (3, 3), got {rotation!r}", rotation) from error


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
        Least distance to obstacles, and with `self_collision` of the robot to itself [m].
    position_only : bool, optional
        Whether any orientation is accepted. Default: if the pose is a position, or the model is one of positions. With
        tolerances per axis these decide.
    position_tolerance, orientation_tolerance : float
        Largest errors of a solution [m], [rad].
    """

    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    fixed: Mapping[str, float] = field(default_factory=dict)
    self_collision: bool = False
    obstacles: Sequence[Obstacle] = ()
    tolerances: npt.ArrayLike | None = None
    links: Sequence[LinkConstraint] = ()
    clearance: float = 0.0
    position_only: bool | None = None
    position_tolerance: float = 1e-6
    orientation_tolerance: float = 1e-6

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
        for name in ("position_tolerance", "orientation_tolerance"):
            tolerance = getattr(self, name)
            if not 0.0 < as_number(tolerance) < math.inf:
                raise ConstraintError(f"{name} must be positive and finite, got {tolerance!r}", tolerance)
            put(self, name, float(tolerance))
        if self.position_only is not None:
            put(self, "position_only", checked_flag(self.position_only, "position_only", ConstraintError))
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
