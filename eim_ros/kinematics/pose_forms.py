"""What people hold in their hands when they have a pose: a transform, a pair, seven numbers, an object of a library.

Each form is taken apart here, by what it looks like, into a transform or into a position and an orientation; nothing of
those libraries is imported. `check_pose` is where forms come in, so every call that takes a pose takes all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eim_ros.errors import PoseError

__all__ = ["FORMS", "is_position", "taken_apart"]

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
        return len(pose) == 3 and all(np.ndim(value) == 0 for value in pose)
    return all(hasattr(pose, axis) for axis in "xyz")


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
        if hasattr(getattr(pose, position, None), "x") and hasattr(getattr(pose, orientation, None), "w"):
            return _numbers(getattr(pose, position), "xyz"), _numbers(getattr(pose, orientation), "xyzw")
    if callable(getattr(pose, "as_matrix", None)):  # scipy.spatial.transform.RigidTransform
        return pose.as_matrix(), None
    if isinstance(pose, (list, tuple)) and len(pose) == 2 and np.shape(pose[0]) == (3,):
        return pose[0], pose[1]
    if is_position(pose):
        raise PoseError("a position leaves the orientation open, which is not possible here: expected " + FORMS, pose)
    if isinstance(pose, np.ndarray) and pose.shape == (7,):
        return pose[:3], pose[3:]
    if isinstance(pose, (list, tuple)) and len(pose) == 7:
        return pose[:3], pose[3:]
    return pose, None


def _numbers(values: Any, axes: str) -> list[float]:
    return [getattr(values, axis) for axis in axes]
