"""Between `geometry_msgs/Pose` and transforms (4, 4), in both directions; positions [m], quaternions xyzw."""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import Pose

from eim_ros.kinematics import pose_from, quaternion_from_matrix

__all__ = ["pose_message", "transform_of"]


def transform_of(pose: Pose) -> np.ndarray:
    """Transform of a message; `PoseError` if it holds none."""
    position, quaternion = pose.position, pose.orientation
    return pose_from((position.x, position.y, position.z), (quaternion.x, quaternion.y, quaternion.z, quaternion.w))


def pose_message(transform: np.ndarray) -> Pose:
    """Message of a transform."""
    pose = Pose()
    pose.position.x, pose.position.y, pose.position.z = transform[:3, 3].tolist()
    rotation = pose.orientation
    rotation.x, rotation.y, rotation.z, rotation.w = quaternion_from_matrix(transform).tolist()
    return pose
