"""Poses are converted to messages and back, and point clouds of cameras are read."""

from __future__ import annotations

import numpy as np
import pytest
from geometry_msgs.msg import Pose
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import PointCloud2, PointField

from eim_ros.core.errors import DataError, PoseError
from eim_ros.nodes.common.messages import points_of, pose_message, transform_of


@pytest.mark.parametrize("seed", range(5))
def test_a_transform_comes_back(seed: int) -> None:
    transform = np.eye(4)
    transform[:3, :3] = Rotation.random(random_state=seed).as_matrix()
    transform[:3, 3] = np.random.default_rng(seed).normal(size=3)
    np.testing.assert_allclose(transform_of(pose_message(transform)), transform, rtol=0.0, atol=1e-14)  # rounding


def test_message_has_the_quaternion_in_the_order_xyzw() -> None:
    quarter = np.array([[0.0, -1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 2.0], [0.0, 0.0, 1.0, 3.0], [0.0, 0.0, 0.0, 1.0]])
    pose = pose_message(quarter)
    assert (pose.position.x, pose.position.y, pose.position.z) == (1.0, 2.0, 3.0)
    found = [pose.orientation.x, pose.orientation.y, abs(pose.orientation.z), abs(pose.orientation.w)]
    assert found == pytest.approx([0.0, 0.0, 0.5**0.5, 0.5**0.5])


def test_message_without_a_rotation_is_refused() -> None:
    pose = Pose()
    pose.orientation.w = 0.0
    with pytest.raises(PoseError):
        transform_of(pose)


def cloud_of_camera(big: bool = False) -> PointCloud2:
    """Return a cloud of two padded rows with float32 coordinates, interleaved colours, and one invalid point."""
    order = ">" if big else "<"
    layout = np.dtype({"names": ["z", "rgb", "x", "y"], "formats": [order + "f4"] * 4, "offsets": [0, 4, 8, 16],
                       "itemsize": 24})  # fmt: skip
    records = np.zeros((2, 3), dtype=layout)
    records["x"], records["y"], records["z"] = np.arange(6).reshape(2, 3), 0.5, -1.0
    records["z"][1, 1] = np.nan
    cloud = PointCloud2(height=2, width=3, point_step=24, row_step=80, is_bigendian=big)
    cloud.fields = [PointField(name=name, offset=offset, datatype=PointField.FLOAT32, count=1)
                    for name, offset in (("z", 0), ("rgb", 4), ("x", 8), ("y", 16))]  # fmt: skip
    cloud.data = b"".join(row.tobytes() + b"\xff" * 8 for row in records)
    return cloud


@pytest.mark.parametrize("big", [False, True])
def test_cloud_of_a_camera_is_read(big: bool) -> None:
    assert points_of(cloud_of_camera(big)).tolist() == [[x, 0.5, -1.0] for x in (0.0, 1.0, 2.0, 3.0, 5.0)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"fields": []}, "has the fields none"),
        ({"height": 3}, "160 bytes for 3 rows"),
        ({"width": 4}, "4 points"),
        ({"point_step": 12}, "after its point_step"),
    ],
)
def test_cloud_that_is_none_is_refused(fields: dict, reason: str) -> None:
    cloud = cloud_of_camera()
    for name, value in fields.items():
        setattr(cloud, name, value)
    with pytest.raises(DataError, match=reason):
        points_of(cloud)
