"""Conversions between messages and arrays.

`geometry_msgs/Pose` is converted to and from transforms (4, 4), with positions in [m] and quaternions xyzw.
`sensor_msgs/PointCloud2` is converted to and from points (n, 3). Matrices become one flat row-major array; see
`put_arrays`. Times are converted to seconds or nanoseconds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from geometry_msgs.msg import Pose
from rclpy.duration import Duration
from sensor_msgs.msg import PointCloud2, PointField
from trajectory_msgs.msg import JointTrajectoryPoint

from eim_ros.core.errors import DataError
from eim_ros.kinematics import check_pose, quaternion_from_matrix
from eim_ros.kinematics.frames import SECOND

KINDS = {PointField.FLOAT32: "f4", PointField.FLOAT64: "f8"}


def transform_of(pose: Pose) -> np.ndarray:
    """Return the transform (4, 4) of a message. Raise `PoseError` if the message contains no valid pose."""
    position, quaternion = pose.position, pose.orientation
    return check_pose((position.x, position.y, position.z, quaternion.x, quaternion.y, quaternion.z, quaternion.w))


def pose_message(transform: np.ndarray) -> Pose:
    """Return the message of a transform (4, 4)."""
    pose = Pose()
    pose.position.x, pose.position.y, pose.position.z = transform[:3, 3].tolist()
    rotation = pose.orientation
    rotation.x, rotation.y, rotation.z, rotation.w = quaternion_from_matrix(transform).tolist()
    return pose


def points_of(cloud: PointCloud2) -> np.ndarray:
    """Return the points (n, 3) of a message [m], without points with a NaN or infinite coordinate.

    `DataError` is raised if the field x, y or z is missing, or if the message has fewer bytes than its header requires.
    """
    fields = {field.name: field for field in cloud.fields if field.name in ("x", "y", "z")}
    problem = ""
    if len(fields) != 3 or any(field.datatype not in KINDS or field.count > 1 for field in fields.values()):
        problem = f"has the fields {', '.join(field.name for field in cloud.fields) or 'none'}"
    elif any(field.offset + np.dtype(KINDS[field.datatype]).itemsize > cloud.point_step for field in fields.values()):
        problem = f"has a field that ends after its point_step of {cloud.point_step}"
    elif cloud.row_step < cloud.width * cloud.point_step or len(cloud.data) < cloud.height * cloud.row_step:
        problem = f"has {len(cloud.data)} bytes for {cloud.height} rows of {cloud.row_step} and {cloud.width} points"
    if problem:
        raise DataError(f"a point cloud {problem}; expected x, y, z as float32 or float64, and complete data", problem)
    order = ">" if cloud.is_bigendian else "<"
    names = list(fields)
    layout = np.dtype(
        {
            "names": names,
            "formats": [order + KINDS[fields[name].datatype] for name in names],
            "offsets": [fields[name].offset for name in names],
            "itemsize": cloud.point_step,
        }
    )
    rows = np.frombuffer(cloud.data, dtype=np.uint8, count=cloud.height * cloud.row_step).reshape(cloud.height, -1)
    records = np.ascontiguousarray(rows[:, : cloud.width * cloud.point_step]).reshape(-1).view(layout)
    points = np.stack([records[name].astype(np.float64) for name in ("x", "y", "z")], axis=-1)
    return points[np.isfinite(points).all(axis=1)]


def point_cloud_message(points: np.ndarray) -> PointCloud2:
    """Return a message of points (n, 3), stored as float64."""
    cloud = PointCloud2(height=1, width=len(points), point_step=24, row_step=24 * len(points), is_dense=True)
    cloud.is_bigendian = sys.byteorder == "big"
    cloud.fields = [
        PointField(name=name, offset=8 * i, datatype=PointField.FLOAT64, count=1) for i, name in enumerate("xyz")
    ]
    cloud.data = np.ascontiguousarray(points, dtype=np.float64).tobytes()
    return cloud


def put_arrays(message: Any, **arrays: npt.ArrayLike) -> None:
    """Fill fields of type float64[] or uint32[] with bytes, because an assignment of lists takes milliseconds."""
    for name, values in arrays.items():
        field = getattr(message, name)
        field.frombytes(np.ascontiguousarray(values, dtype=field.typecode).tobytes())


def seconds(stamp: Any) -> float:
    """Return the value of a time or duration message [s]."""
    return float(stamp.sec) + 1e-9 * float(stamp.nanosec)


def nanoseconds(stamp: Any) -> int:
    """Return the value of a time or duration message [ns]."""
    return int(stamp.sec) * SECOND + int(stamp.nanosec)


def trajectory_points(times: Iterable[float], positions: np.ndarray) -> list[JointTrajectoryPoint]:
    """Return points with times [s] since the start, at positions (n_points, n_joints) [rad] or [m]."""
    return [
        JointTrajectoryPoint(positions=row, time_from_start=Duration(nanoseconds=round(1e9 * time)).to_msg())
        for time, row in zip(times, positions.tolist(), strict=True)
    ]


def repeated_names(names: Sequence[str]) -> str:
    """Return the names that occur more than once, separated by commas, or an empty text if all names differ."""
    return ", ".join(sorted(name for name in set(names) if names.count(name) > 1))


def misnamed(names: Sequence[str], joint_names: Sequence[str]) -> str:
    """Return an empty text if `names` are the joint names in any order. Otherwise, describe the difference."""
    if len(set(names)) != len(names):
        return f"names a joint more than once: {', '.join(names)}"
    if unknown := sorted(set(names) - set(joint_names)):
        return f"names unknown joints: {', '.join(unknown)}"
    missing = [name for name in joint_names if name not in names]
    return f"lacks joints: {', '.join(missing)}" if missing else ""
