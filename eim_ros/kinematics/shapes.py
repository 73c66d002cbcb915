"""Solid primitives: the collision shapes of a robot's links, and obstacles. Lengths in [m].

A shape may have a name, by which it is told what collides with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConstraintError
from eim_ros.kinematics.pose import check_pose, pose_from
from eim_ros.numerics.arguments import LARGEST, as_number, expect, numbers_of
from eim_ros.numerics.keywords import names_wrong_keywords

__all__ = ["Box", "Capsule", "Cylinder", "Shape", "Sphere", "inside"]

FloatArray = npt.NDArray[np.float64]


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class Box:
    """A box with its centre at the origin of `pose` (4, 4) and edges `size` (3,) [m] along its axes."""

    pose: npt.ArrayLike
    size: npt.ArrayLike
    name: str = ""

    def __post_init__(self) -> None:
        _put(self, "size", _positive(self, numbers_of(self.size, (3,), "the size of a box", ConstraintError)))
        _check(self)


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class Sphere:
    """A ball about `centre` (3,) [m]."""

    centre: npt.ArrayLike
    radius: float
    name: str = ""

    def __post_init__(self) -> None:
        _put(self, "centre", pose_from(self.centre)[:3, 3].copy())
        _check(self, "radius")

    @property
    def pose(self) -> FloatArray:
        return pose_from(self.centre)


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class Cylinder:
    """A cylinder along the z axis of `pose` (4, 4), with its centre at the origin."""

    pose: npt.ArrayLike
    radius: float
    length: float
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, "radius", "length")


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class Capsule:
    """All points within `radius` of a segment of `length` along the z axis of `pose` (4, 4)."""

    pose: npt.ArrayLike
    radius: float
    length: float
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, "radius", "length")


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


def _check(shape: Shape, *lengths: str) -> None:
    """Store pose and lengths as numbers; `PoseError` or `ConstraintError` if they are no transform, or not positive."""
    if not isinstance(shape, Sphere):
        _put(shape, "pose", check_pose(shape.pose))
    expect(shape.name, str, "the name of a shape", ConstraintError)
    for name in lengths:
        length = as_number(getattr(shape, name))
        if not 0.0 < length <= LARGEST:
            raise ConstraintError(
                f"the size of a {_kind(shape)} must be positive and finite, got {getattr(shape, name)}", length
            )
        _put(shape, name, length)


def _positive(shape: Shape, lengths: FloatArray) -> FloatArray:
    if len(wrong := lengths[lengths <= 0.0]):
        raise ConstraintError(f"the size of a {_kind(shape)} must be positive and finite, got {wrong[0]}", lengths)
    return lengths


def _kind(shape: Shape) -> str:
    return type(shape).__name__.lower()


def _put(shape: Shape, name: str, value: object) -> None:
    object.__setattr__(shape, name, value)
