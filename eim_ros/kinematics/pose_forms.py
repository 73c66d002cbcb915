"""What people hold in their hands when they have a pose: a transform, a pair, seven numbers, an object of a library.

Each form is taken apart here, by what it looks like, into a transform or into a position and an orientation; nothing of
those libraries is imported. `check_pose` is where forms come in, so every call that takes a pose takes all of them.
"""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from eim_ros.errors import PoseError

__all__ = ["FORMS", "is_position", "numbers_by_axis", "taken_apart"]

FORMS = (
    "a (4, 4) transform, (position, quaternion xyzw), (position, rotation matrix), seven numbers x y z qx qy qz qw, "
    "or an object of pinocchio, spatialmath, scipy or geometry_msgs"
)
TRANSFORM_ATTRIBUTES = ("homogeneous", "A")  # of pinocchio.SE3; of spatialmath.SE3
PARTS = (("position", "orientation"), ("translation", "rotation"))  # of geometry_msgs Pose; Transform


def is_position(pose: Any) -> bool:
    """Whether a pose is a position alone: three numbers, or an object with x, y and z."""
    if isinstance(pose, np.ndarray):
        return bool(pose.shape == (3,))
    if isinstance(pose, (list, tuple)):
        return _shape(pose) == (3,)
    return _has(pose, "xyz")


def taken_apart(pose: Any) -> tuple[Any, Any]:
    """A transform and None, or a position and its orientation: a quaternion (4,), or a rotation (3, 3).

    What has none of the known forms is returned as it is, for a transform.

    Raises
    ------
    PoseError
        For a position alone, and for a pose whose frame is told beside it.
    """
    if hasattr(pose, "header"):
        raise PoseError(
            "a stamped pose tells its frame beside it: bring it into the arm's base frame, then give its .pose", pose
        )
    for name in TRANSFORM_ATTRIBUTES:
        if isinstance(getattr(pose, name, None), np.ndarray):
            return getattr(pose, name), None
    for position, orientation in PARTS:
        place, turn = getattr(pose, position, None), getattr(pose, orientation, None)
        if _has(place, "xyz") and _has(turn, "xyzw"):
            return numbers_by_axis(place, "xyz"), numbers_by_axis(turn, "xyzw")
    if callable(getattr(pose, "as_matrix", None)):  # scipy.spatial.transform.RigidTransform
        return _matrix(pose), None
    if isinstance(pose, (list, tuple)) and len(pose) == 2 and _shape(pose[0]) == (3,):
        return pose[0], pose[1]
    if is_position(pose):
        raise PoseError("a position leaves the orientation open, which is not possible here: expected " + FORMS, pose)
    if isinstance(pose, np.ndarray) and pose.shape == (7,):
        return pose[:3], pose[3:]
    if isinstance(pose, (list, tuple)) and len(pose) == 7:
        return pose[:3], pose[3:]
    return pose, None


def numbers_by_axis(values: Any, axes: str) -> Any:
    """Attributes such as x, y and z of an object as a list; the value itself where it has none."""
    return [getattr(values, axis) for axis in axes] if _has(values, axes) else values


def _has(value: Any, axes: str) -> bool:
    return all(hasattr(value, axis) for axis in axes)


def _shape(values: Any) -> tuple[int, ...] | None:
    """Shape of an array or of a flat sequence of numbers; None of anything else, which may be ragged."""
    if isinstance(values, np.ndarray):
        return tuple(values.shape)
    is_flat = isinstance(values, (list, tuple)) and all(
        isinstance(value, (float, int, Real, Decimal)) or getattr(value, "shape", None) == () for value in values
    )
    return (len(values),) if is_flat else None


def _matrix(pose: Any) -> Any:
    """What the object's own method gives."""
    try:
        return pose.as_matrix()
    except Exception as error:  # the method of a foreign object, which may be of another kind
        raise PoseError(
            f"a pose must be {FORMS}; the method as_matrix of what was given failed: {error}", pose
        ) from error
