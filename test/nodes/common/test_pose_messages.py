"""Poses as messages and back."""

from __future__ import annotations

import numpy as np
import pytest
from geometry_msgs.msg import Pose
from scipy.spatial.transform import Rotation

from eim_ros.core.errors import PoseError
from eim_ros.nodes.common.messages import pose_message, transform_of


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
