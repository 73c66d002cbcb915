"""Where links must be beside the tip's pose: a point of a link in a region, a link turned no farther than allowed.

The turn of a link is R_wanted^T R, split into intrinsic angles about x, y, z (R_x(a) R_y(b) R_z(c)), or its rotation
vector. Configurations that reach the pose are checked by forward kinematics of the link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConstraintError, PoseError, RobotError
from eim_ros.kinematics import Robot, Shape
from eim_ros.kinematics.attachments import link_poses
from eim_ros.kinematics.deadlines import NEVER, is_past
from eim_ros.kinematics.pose import check_pose, rotation_vectors
from eim_ros.kinematics.shapes import inside
from eim_ros.numerics.arguments import expect, numbers_of
from eim_ros.numerics.keywords import names_wrong_keywords

__all__ = ["LinkCheck", "LinkConstraint", "LinkOrientation", "LinkPosition"]

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
