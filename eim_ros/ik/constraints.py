"""Constraints on solutions: tolerances per axis, limits, fixed joints, branches, collisions and conditions on links.

`Constraints` collects the conditions of a request. `LinkPosition` keeps a point of a link in a region, and
`LinkOrientation` keeps the rotation of a link close to a given rotation. Conditions on links are checked by forward
kinematics after a configuration reaches the pose. The solver does not search for configurations that satisfy these
conditions.

The rotation of a link relative to its target is R_target^T R. This rotation is measured either by intrinsic angles
about x, y and z, R_x(a) R_y(b) R_z(c), or by its rotation vector.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import BoolArray, FloatArray
from eim_ros.core.checks import (
    LARGEST,
    as_number,
    checked_flag,
    expect,
    expect_mapping,
    is_number,
    numbers_of,
    with_hints,
)
from eim_ros.core.deadlines import NEVER, is_past
from eim_ros.core.errors import ConstraintError, PoseError, RobotError, did_you_mean
from eim_ros.kinematics import Obstacle, Robot, Shape
from eim_ros.kinematics.branches import BOUNDARY, checked_branch
from eim_ros.kinematics.collision import CollisionScene, checked_pairs, collision_model
from eim_ros.kinematics.links import fixed_links, link_poses
from eim_ros.kinematics.obstacles import checked_obstacles, inside
from eim_ros.kinematics.poses import check_pose, rotation_vectors
from eim_ros.kinematics.tolerances import ToleranceBox, checked_tolerances

MOST_CONSTRAINTS, MOST_SHAPES = 100, 1000  # maximum numbers of conditions in a request and of shapes in a region
AT_ONCE = 256  # number of configurations between two checks of the deadline


@with_hints
@dataclass(frozen=True, eq=False)
class LinkPosition:
    """Condition that a point of a link lies inside a region.

    Attributes
    ----------
    link : str
        Name of a link that the chain moves.
    region : sequence of Box, Sphere, Cylinder or Capsule
        Shapes in the base frame. The region is their union.
    point : (3,) array_like
        Coordinates of the point in the frame of the link [m].

    Raises
    ------
    ConstraintError
        If a value is malformed, or if the region has no shapes or more than 1000.

    Examples
    --------
    Keep the elbow of a Panda to the left of its base, in a box from y = 0 to 2 m:

    >>> from eim_ros import Box, Sampler
    >>> from eim_ros.ik import LinkPosition
    >>> left = Box((4.0, 2.0, 4.0), at=(0.0, 1.0, 0.0))
    >>> sampler = Sampler("panda").with_constraints(links=[LinkPosition("panda_link4", [left])])
    >>> bool(sampler.solve([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], seed=0))
    True
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
            raise ConstraintError(f"the region for link {self.link!r} has no shape: give at least one shape", region)
        if len(region) > MOST_SHAPES:
            raise ConstraintError(
                f"the region for link {self.link!r} has {len(region)} shapes, but at most {MOST_SHAPES} are allowed",
                len(region),
            )

    def holds(self, poses: FloatArray) -> BoolArray:
        """Return whether the condition is satisfied (n,) at poses (n, 4, 4) of the link in the base frame."""
        points = poses[:, :3, 3] + poses[:, :3, :3] @ np.asarray(self.point, dtype=np.float64)
        return np.asarray(np.any([inside(shape, points) for shape in self.region], axis=0), dtype=np.bool_)


@with_hints
@dataclass(frozen=True, eq=False)
class LinkOrientation:
    """Condition that the rotation of a link is close to a given rotation.

    Attributes
    ----------
    link : str
        Name of a link that the chain moves.
    rotation : (3, 3) array_like
        Target orientation of the link in the base frame.
    tolerances : (3,) array_like
        Largest angles about x, y and z [rad], at least 0. An infinite tolerance leaves an axis free.
    axes : (3, 3) array_like, optional
        Axes of the tolerances as rows, in the frame of the target orientation. If they are given, the tolerances apply
        to the components of the rotation vector along these axes. Default: intrinsic angles about x, then y, then z.

    Raises
    ------
    ConstraintError
        If a value is malformed.

    Examples
    --------
    Tilt the upper arm of a Panda by at most 0.5 rad about x and y, and let it turn freely about its own axis, z:

    >>> import numpy as np
    >>> from eim_ros.ik import LinkOrientation, Sampler
    >>> upright = LinkOrientation("panda_link3", np.eye(3), (0.5, 0.5, np.inf))
    >>> sampler = Sampler("panda").with_constraints(links=[upright])
    >>> bool(sampler.solve([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], seed=0))
    True
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
        """Return whether the condition is satisfied (n,) at poses (n, 4, 4) of the link in the base frame."""
        turns = np.asarray(self.rotation, dtype=np.float64).T @ poses[:, :3, :3]
        if self.axes is None:
            angles = _intrinsic_angles(turns)
        else:
            angles = rotation_vectors(turns) @ np.asarray(self.axes, dtype=np.float64).T
        return np.asarray((np.abs(angles) <= np.asarray(self.tolerances, dtype=np.float64)).all(axis=1))


LinkConstraint: TypeAlias = LinkPosition | LinkOrientation


class LinkCheck:
    """Check of configurations against conditions on links. It counts the configurations that it rejects.

    Parameters
    ----------
    robot : Robot
    constraints : sequence of LinkPosition or LinkOrientation

    Attributes
    ----------
    n_violating : int
        Number of configurations that violated a condition so far.
    n_unchecked : int
        Number of configurations that were not checked so far because the deadline had passed.

    Raises
    ------
    ConstraintError
        If the joints of the chain do not determine the pose of a link, or if there are more than 100 conditions.
    """

    def __init__(self, robot: Robot, constraints: Sequence[LinkConstraint]) -> None:
        self.n_violating = self.n_unchecked = 0
        self._robot = robot
        if len(constraints) > MOST_CONSTRAINTS:
            raise ConstraintError(
                f"there are {len(constraints)} constraints on links, but at most {MOST_CONSTRAINTS} are allowed",
                len(constraints),
            )
        try:
            poses = {link: link_poses(robot, link) for link in {constraint.link for constraint in constraints}}
            self._checks = [(constraint, poses[constraint.link]) for constraint in constraints]
        except RobotError as error:
            raise ConstraintError(f"a constraint names an invalid link: {error}", error.value) from error

    def is_violated_at_tip(self, q: FloatArray) -> bool:
        """Return whether a configuration (dof,) violates a condition on a link that is fixed to the tip.

        If so, every other configuration with the same pose of the tip also violates this condition.
        """
        fixed = fixed_links(self._robot, self._robot.tip_link)
        return any(check.link in fixed and not check.holds(poses(q[None]))[0] for check, poses in self._checks)

    def satisfied(self, q: FloatArray, deadline: float = NEVER) -> BoolArray:
        """Return whether configurations (n, dof) satisfy all conditions; False if there was no time to check.

        The deadline is a time of `perf_counter` [s]. The first 256 configurations are always checked.
        """
        found, first = np.zeros(len(q), dtype=np.bool_), 0
        while first < len(q) and not (first and is_past(deadline)):
            rows = slice(first, first + AT_ONCE)
            found[rows] = np.all([check.holds(poses(q[rows])) for check, poses in self._checks], axis=0)
            self.n_violating += int(np.count_nonzero(~found[rows]))
            first += AT_ONCE
        self.n_unchecked += max(len(q) - first, 0)
        return found


class BranchCheck:
    """Check of configurations against a branch. It counts the configurations that it rejects.

    Parameters
    ----------
    robot : Robot
    branch : mapping of str to str

    Attributes
    ----------
    n_outside : int
        Number of configurations so far that are in other branches or on a boundary.

    Raises
    ------
    ConstraintError
        If the branch is not defined for the robot.
    """

    def __init__(self, robot: Robot, branch: Mapping[str, str]) -> None:
        self.n_outside, self._branch, self._branches = 0, branch, robot.branches
        self._branches.check(branch)

    def satisfied(self, q: FloatArray) -> BoolArray:
        """Return whether configurations (n, dof) are in the branch."""
        found = self._branches.margins(q, self._branch) > BOUNDARY
        self.n_outside += int(np.count_nonzero(~found))
        return found


def _intrinsic_angles(rotations: FloatArray) -> FloatArray:
    """Return the angles (n, 3) about x, y and z [rad] of rotations (n, 3, 3).

    In gimbal lock, only the sum or the difference of the first and third angles is defined. The third angle is set to
    0 in this case.
    """
    r = rotations
    level = np.hypot(r[:, 0, 0], r[:, 0, 1])  # cos b
    about_x, about_z = np.arctan2(-r[:, 1, 2], r[:, 2, 2]), np.arctan2(-r[:, 0, 1], r[:, 0, 0])
    locked = level <= 4.0 * np.finfo(np.float64).eps
    about_x = np.where(locked, np.arctan2(r[:, 2, 1], r[:, 1, 1]), about_x)
    return np.stack([about_x, np.arctan2(r[:, 0, 2], level), np.where(locked, 0.0, about_z)], axis=1)


def _checked_rotation(rotation: npt.ArrayLike) -> FloatArray:
    """Return a valid rotation (3, 3), or raise `ConstraintError`."""
    pose = np.eye(4)
    pose[:3, :3] = numbers_of(rotation, (3, 3), "a rotation", ConstraintError)
    try:
        return check_pose(pose)[:3, :3]
    except PoseError as error:
        raise ConstraintError(f"expected a rotation (3, 3), got {rotation!r}", rotation) from error


def _is_empty(value: object) -> bool:
    """Return whether a value is an empty dict or tuple, which needs no check."""
    return type(value) in (dict, tuple) and not value


@with_hints
@dataclass(frozen=True, eq=False)
class Constraints:
    """Conditions on all configurations of an answer. By default only the robot's limits apply.

    Attributes
    ----------
    limits : mapping of str to (float, float)
        Lower and upper limits of joints by name [rad] or [m], within the limits of the robot. An infinite limit keeps
        the robot's limit.
    fixed : mapping of str to float
        Values of joints that must not move [rad] or [m], within their limits. The value of a continuous joint may
        include any number of revolutions.
    self_collision : bool
        Whether to reject self-collisions. They are checked with the collision shapes of the robot's description.
    obstacles : sequence of Box, Sphere, Cylinder, Capsule, Mesh or PointCloud
        Obstacles in the base frame that the moving links must avoid.
    tolerances : (6,) array_like, optional
        Largest position errors along x, y and z [m] and largest rotations about x, y and z [rad], in the frame of the
        target pose. An infinite tolerance leaves an axis free, see `refine`. If tolerances are given, errors of
        solutions contain only the amount that exceeds them.
    links : sequence of LinkPosition or LinkOrientation
        Conditions on links of the chain.
    clearance : float
        Smallest distance to obstacles [m]. With `self_collision`, it is also the smallest distance between links.
    allowed_collisions : sequence of (str, str)
        Pairs of names that may collide: two links, or a link and an obstacle, such as a gripper and the object that it
        grasps. Obstacles without a name are called "obstacle 0", "obstacle 1" and so on.
    branch : mapping of str to str
        Branch of the solutions: "left" or "right" for "shoulder", "up" or "down" for "elbow", and "flip" or "no-flip"
        for "wrist"; see `Branches`. Branches are defined for arms with six joints and a spherical wrist or three
        parallel axes, and for arms with a spherical shoulder and wrist. Configurations on a boundary are in no branch.
    position_only : bool, optional
        Whether any orientation is accepted. Default: True if the pose is a position, or if the model is a model of
        positions and there are no tolerances per axis.
    position_tolerance : float
        Largest position error of a solution [m].
    orientation_tolerance : float
        Largest orientation error of a solution [rad].

    Raises
    ------
    ConstraintError
        If a value is malformed.

    Examples
    --------
    Find solutions without self-collision. The last joint stays at 0, and the tool may turn freely about its z axis:

    >>> import numpy as np
    >>> from eim_ros import Constraints, Sampler
    >>> free = [0.0, 0.0, 0.0, 0.0, 0.0, np.inf]
    >>> constraints = Constraints(fixed={"panda_joint7": 0.0}, self_collision=True, tolerances=free)
    >>> solutions = Sampler("panda", constraints=constraints).sample([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], 10, seed=0)
    >>> len(solutions), bool((solutions.q[:, 6] == 0.0).all())
    (10, True)
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
    allowed_collisions: Sequence[tuple[str, str]] = ()
    branch: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        put, links, clearance = object.__setattr__, self.links, self.clearance
        for name in ("limits", "fixed"):
            if not _is_empty(getattr(self, name)):
                expect_mapping(getattr(self, name), name, ConstraintError)
        is_list = _is_empty(links) or isinstance(links, Sequence)
        if not is_list or not all(isinstance(each, LinkConstraint) for each in links):
            raise ConstraintError(f"links must be a list of LinkPosition and LinkOrientation, got {links!r}", links)
        if not 0.0 <= as_number(clearance) <= LARGEST:
            raise ConstraintError(f"the clearance must be finite and at least 0 [m], got {clearance!r}", clearance)
        put(self, "clearance", float(clearance))
        if self.self_collision is not False:
            put(self, "self_collision", checked_flag(self.self_collision, "self_collision", ConstraintError))
        if not _is_empty(self.obstacles):
            put(self, "obstacles", checked_obstacles(self.obstacles))
        if not _is_empty(self.allowed_collisions):
            put(self, "allowed_collisions", checked_pairs(self.allowed_collisions))
        if not _is_empty(self.branch):
            put(self, "branch", checked_branch(self.branch))
        for name in ("position_tolerance", "orientation_tolerance"):
            tolerance = getattr(self, name)
            if not 0.0 < as_number(tolerance) < math.inf:
                raise ConstraintError(f"{name} must be positive and finite, got {tolerance!r}", tolerance)
            put(self, name, float(tolerance))
        if self.position_only is not None:
            put(self, "position_only", checked_flag(self.position_only, "position_only", ConstraintError))
        if self.tolerances is not None:
            put(self, "tolerances", checked_tolerances(self.tolerances))

    def bounds(self, robot: Robot) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper limits (dof,) of all joints [rad] or [m]. Both limits of a fixed joint are equal.

        Raises
        ------
        ConstraintError
            If the robot has no such joint, if the limits of a joint are empty or exceed the limits of the robot, or if
            a joint is fixed outside its limits.
        """
        expect(robot, Robot, "robot", RobotError)
        if not self.limits and not self.fixed:
            return robot.lower, robot.upper
        index = {name: i for i, name in enumerate(robot.joint_names)}
        if unknown := [name for name in (*self.limits, *self.fixed) if name not in index]:
            known = ", ".join(robot.joint_names) + did_you_mean(unknown[0], robot.joint_names)
            raise ConstraintError(
                f"the robot has no joint {unknown[0]!r} to constrain; its joints are {known}", unknown
            )
        lower, upper = robot.lower.copy(), robot.upper.copy()
        for name, ends in self.limits.items():
            lower[index[name]], upper[index[name]] = _narrowed(
                name, ends, float(lower[index[name]]), float(upper[index[name]])
            )
        for name, value in self.fixed.items():
            i = index[name]
            if not is_number(value):
                raise ConstraintError(f"joint {name!r} cannot be fixed at {value!r}: give a number", value)
            value = float(value)
            if robot.continuous[i] and math.isfinite(value):
                value = (value + math.pi) % (2.0 * math.pi) - math.pi
            if not lower[i] <= value <= upper[i]:
                raise ConstraintError(
                    f"joint {name!r} cannot be fixed at {value:.6g}: give a value within its limits {lower[i]:.6g} to "
                    f"{upper[i]:.6g}",
                    value,
                )
            lower[i] = upper[i] = value
        return lower, upper

    def wanted(self, pose: FloatArray, robot: Robot, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw poses (n, 4, 4) that satisfy the tolerances around a target pose. The first pose is the target itself.

        Offsets are uniform along and about each axis, as `refine` defines them. Positions along free axes are drawn
        within the reach of the robot.
        """
        box = ToleranceBox.of(pose, self.tolerances, robot.reach)
        offsets = box.drawn(n, rng)
        offsets[0] = 0.0
        return box.poses(offsets)

    def check(self, robot: Robot, deadline: float = NEVER) -> None:
        """Raise an error if these constraints cannot be applied to a robot.

        The deadline is a time of `perf_counter` [s].

        Raises
        ------
        ConstraintError
            If the constraints do not fit the robot.
        RobotError
            If a collision shape cannot be read.
        OutOfTime
            If the collision shapes cannot be prepared before the deadline.
        """
        self.bounds(robot)
        checked_tolerances(self.tolerances)
        self.scene(robot, deadline)
        self.link_check(robot)
        self.branch_check(robot)

    @property
    def slack(self) -> float:
        """Largest distance of the tip from the target position that the tolerances per axis allow [m]."""
        return 0.0 if self.tolerances is None else float(np.linalg.norm(checked_tolerances(self.tolerances)[:3]))

    def scene(self, robot: Robot, deadline: float = NEVER) -> CollisionScene | None:
        """Return the scene for collision checks, or None if there is nothing to check.

        Raises
        ------
        ConstraintError
            If the robot has no collision shapes, if the scene is larger than `CollisionOptions` allow, or if neither
            name of an allowed pair is a link of the robot.
        OutOfTime
            If the shapes cannot be prepared before the deadline, a time of `perf_counter` [s].
        """
        if not self.self_collision and not self.obstacles:
            return None
        model = collision_model(robot, deadline)
        return model.scene(self.self_collision, self.obstacles, self.clearance, deadline, self.allowed_collisions)

    def link_check(self, robot: Robot) -> LinkCheck | None:
        """Return the check of the conditions on links, or None if there are no conditions.

        Raises
        ------
        ConstraintError
            If the robot has no such link, or if joints outside the chain move the link.
        """
        return LinkCheck(robot, self.links) if self.links else None

    def branch_check(self, robot: Robot) -> BranchCheck | None:
        """Return the check of the branch, or None if there is no condition.

        Raises
        ------
        ConstraintError
            If the branch is not defined for the robot.
        """
        return BranchCheck(robot, self.branch) if self.branch else None


def _narrowed(name: str, ends: tuple[float, float], lower: float, upper: float) -> tuple[float, float]:
    """Return the requested limits of a joint; raise `ConstraintError` if they exceed the limits of the robot."""
    low, high = numbers_of(ends, (2,), f"the limits of joint {name!r}", ConstraintError, least=-math.inf, most=math.inf)
    low, high = (lower if low == -math.inf else low), (upper if high == math.inf else high)
    if not low <= high:
        raise ConstraintError(f"the lower limit {low:.6g} of joint {name!r} exceeds its upper limit {high:.6g}", ends)
    if low < lower or high > upper:
        raise ConstraintError(
            f"the limits {low:.6g} to {high:.6g} of joint {name!r} exceed the robot's, {lower:.6g} to {upper:.6g}: "
            "give narrower limits, or inf to keep the robot's limit",
            ends,
        )
    return low, high
