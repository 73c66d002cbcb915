"""Solid primitives: the collision shapes of a robot's links, and obstacles. Lengths in [m].

A shape may have a name, by which it is told what collides with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConstraintError
from eim_ros.kinematics.arguments import is_number
from eim_ros.kinematics.pose import check_pose, pose_from

__all__ = ["Box", "Capsule", "Cylinder", "Shape", "Sphere", "finite_numbers", "inside"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Box:
    """A box with its centre at the origin of `pose` (4, 4) and edges `size` (3,) [m] along its axes."""

    pose: npt.ArrayLike
    size: npt.ArrayLike
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, *finite_numbers(self.size, 3))


@dataclass(frozen=True, eq=False)
class Sphere:
    """A ball about `centre` (3,) [m]."""

    centre: npt.ArrayLike
    radius: float
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, self.radius)

    @property
    def pose(self) -> FloatArray:
        return pose_from(self.centre)


@dataclass(frozen=True, eq=False)
class Cylinder:
    """A cylinder along the z axis of `pose` (4, 4), with its centre at the origin."""

    pose: npt.ArrayLike
    radius: float
    length: float
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, self.radius, self.length)


@dataclass(frozen=True, eq=False)
class Capsule:
    """All points within `radius` of a segment of `length` along the z axis of `pose` (4, 4)."""

    pose: npt.ArrayLike
    radius: float
    length: float
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, self.radius, self.length)


Shape: TypeAlias = Box | Sphere | Cylinder | Capsule


def inside(shape: Shape, points: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether each point (n, 3) [m] is within a shape, its surface included."""
    pose = np.asarray(shape.pose, dtype=np.float64)
    local = (points - pose[:3, 3]) @ pose[:3, :3]
    if isinstance(shape, Box):
        return np.asarray((2.0 * np.abs(local) <= np.asarray(shape.size)).all(axis=1))
    if isinstance(shape, Sphere):
        return np.asarray(np.linalg.norm(local, axis=1) <= shape.radius)
    beyond = np.maximum(np.abs(local[:, 2]) - 0.5 * shape.length, 0.0)
    across = np.hypot(local[:, 0], local[:, 1])
    if isinstance(shape, Cylinder):
        return np.asarray((across <= shape.radius) & (beyond == 0.0))
    return np.asarray(np.hypot(across, beyond) <= shape.radius)


def _check(shape: Shape, *lengths: float) -> None:
    """`PoseError` or `ConstraintError` unless the pose is a transform and all lengths are positive and finite."""
    check_pose(shape.pose)
    for length in lengths:
        if not (is_number(length) and 0.0 < length < np.inf):
            raise ConstraintError(
                f"the size of a {type(shape).__name__.lower()} must be positive and finite, got {length}", length
            )


def finite_numbers(values: npt.ArrayLike, n: int) -> FloatArray:
    """So many numbers (n,); `ConstraintError` if there are others, or some are not finite."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.shape != (n,) or not np.isfinite(numbers).all():
        raise ConstraintError(f"expected {n} finite number(s), got {values!r}", values)
    return numbers
