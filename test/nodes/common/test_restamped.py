"""A message whose time alone changes, as a reader of the topic gets it."""

from __future__ import annotations

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped
from rclpy.serialization import deserialize_message
from rosbags.typesys import Stores, get_typestore
from sensor_msgs.msg import JointState

from eim_ros.nodes.common.restamped import Restamped


@pytest.mark.parametrize("stamp", [0, 999_999_999, 1_763_900_000_123_456_789])
def test_only_the_stamp_changes(stamp: int) -> None:
    message = JointState(name=["a", "joint_b"], position=[0.1, -2.0], velocity=[0.0, 3.0])
    message.header.frame_id = "base_link"
    restamped = Restamped.joint_state(message)
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
    assert deserialize_message(restamped.at(stamp), JointState) == message


def test_nothing_comes_behind_the_message() -> None:
    store = get_typestore(Stores.ROS2_JAZZY)  # refuses bytes that belong to no field
    state = JointState(name=["a", "joint_b"], position=[0.1, -2.0])
    read = store.deserialize_cdr(Restamped.joint_state(state).at(5), "sensor_msgs/msg/JointState")
    np.testing.assert_array_equal(read.position, state.position)
    pose = PoseStamped()
    pose.pose.orientation.w = 0.5
    read = store.deserialize_cdr(Restamped.pose(pose).at(5), "geometry_msgs/msg/PoseStamped")
    assert read.pose.orientation.w == 0.5
