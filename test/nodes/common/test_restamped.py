"""A message whose time alone changes, as a reader of the topic gets it."""

from __future__ import annotations

import pytest
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState

from eim_ros.nodes.common.restamped import Restamped


@pytest.mark.parametrize("stamp", [0, 999_999_999, 1_763_900_000_123_456_789])
def test_only_the_stamp_changes(stamp: int) -> None:
    message = JointState(name=["a", "joint_b"], position=[0.1, -2.0], velocity=[0.0, 3.0])
    message.header.frame_id = "base_link"
    restamped = Restamped(message)
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
    assert deserialize_message(restamped.at(stamp), JointState) == message
