"""Poses may be in frames of tf. The tests use DDS and a Panda with narrower limits and a tool of 0.1 m.

A table turns on a conveyor in the world of the arm. Transforms are published like those of real robots.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from ik.arms import arm_of
from kinematics.described import prefixed, with_limits
from kinematics.oracle import Oracle
from nodes.client_node import NODE, ClientNode, joint_positions
from nodes.ik_server.workcell import request_for
from nodes.server_process import ServerProcess
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Header, String

from eim_ros.ik import ErrorCode
from eim_ros.kinematics import Robot, pose_from, quaternion_from_matrix
from eim_ros.kinematics.frames import SECOND
from eim_ros.nodes.common.interfaces import TFMessage
from eim_ros.nodes.common.messages import pose_message
from eim_ros.srv import FollowIK, GetPositionIK, SampleIK

URDF = with_limits(prefixed(arm_of("panda").urdf, "left_"), 0.8)
ROBOT = Robot(URDF)
TOOL = pose_from([0.0, 0.0, 0.1])
BASE = pose_from([0.4, -0.3, 0.8], [0.0, 0.0, 0.6, 0.8])  # base of the arm in the world
STATIC = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
BEGIN, PERIOD, N = 1_790_000_000 * SECOND + 7, SECOND // 50, 100  # 2 s at 50 Hz
EXACT = 1e-8  # requested tolerances [m, rad], so larger errors come from transforms


def table(seconds: float) -> np.ndarray:
    """Return the pose of the table in the world. The table turns and moves with its conveyor at constant velocities."""
    half = 0.35 * seconds
    return pose_from([0.3 - 0.2 * seconds, 0.1 * seconds, 0.2], [0.0, 0.0, np.sin(half), np.cos(half)])


def stamped(parent: str, child: str, pose: np.ndarray, stamp: int = 0) -> TransformStamped:
    message = TransformStamped(header=header(parent, stamp), child_frame_id=child)
    position, rotation = message.transform.translation, message.transform.rotation
    position.x, position.y, position.z = pose[:3, 3].tolist()
    rotation.x, rotation.y, rotation.z, rotation.w = quaternion_from_matrix(pose).tolist()
    return message


def header(frame: str, stamp: int = 0) -> Header:
    return Header(frame_id=frame, stamp=Time(sec=stamp // SECOND, nanosec=stamp % SECOND))


def publish_table(publisher, first: int, n: int, frame: str = "table") -> None:
    for step in range(first, first + n):
        publisher.publish(TFMessage(transforms=[stamped("world", frame, table(step / 50), BEGIN + step * PERIOD)]))


@pytest.fixture(scope="module")
def room(client_of_file: ClientNode, start_server: Callable[..., ServerProcess]) -> tuple:
    """Start a server that gets its robot from a topic. Return the server and publishers of frames and joint states."""
    node = client_of_file.node
    description = node.create_publisher(String, "robot_description", STATIC)
    description.publish(String(data=URDF))
    static = node.create_publisher(TFMessage, "/tf_static", STATIC)
    static.publish(TFMessage(transforms=[stamped("world", "left_panda_link0", BASE), stamped("table", "part", TOOL)]))
    moving = node.create_publisher(TFMessage, "/tf", 100)
    joints = node.create_publisher(JointState, "joint_states", 10)
    server = start_server(
        model="panda_pose",
        use_robot_description_topic=True,
        tool="0 0 0.1",
        transform_timeout=PATIENCE,
        joint_states_topic="joint_states",
    )
    server.wait_until_ready()
    publish_table(moving, 0, N)
    middle = (0.5 * (ROBOT.lower + ROBOT.upper)).tolist()
    for _ in range(3):  # the server uses the latest message
        joints.publish(JointState(name=list(ROBOT.joint_names), position=middle))
    return server, moving, joints


PATIENCE = 60.0  # timeout for transforms [s], long enough for a busy machine


def tip(q: np.ndarray) -> np.ndarray:
    """Return poses (n, 4, 4) of the tip of the tool in the world, computed by pinocchio."""
    oracle = Oracle(URDF, ROBOT)
    return np.array([BASE @ oracle.forward(row) @ TOOL for row in q.reshape(-1, 7)])


def goal(seed: int, seconds: float) -> np.ndarray:
    """Return a pose in the frame of the table that the arm can reach at this time."""
    q = ROBOT.random(1, np.random.default_rng(seed))[0]
    return np.linalg.inv(table(seconds)) @ BASE @ ROBOT.fk(q) @ TOOL


def request(pose: np.ndarray, frame: str, stamp: int = 0) -> SampleIK.Request:
    result = SampleIK.Request(n_samples=20, seed=0, timeout=20.0, order=["none"])
    result.constraints.position_tolerance = result.constraints.orientation_tolerance = EXACT
    result.header, result.poses = header(frame, stamp), [pose_message(pose)]
    return result


@pytest.mark.parametrize("seconds", [0.0, 1.2345678])
def test_pose_in_a_moving_frame_is_reached_where_the_frame_is_at_its_stamp(
    client: ClientNode, room: tuple, seconds: float
) -> None:
    pose, stamp = goal(1, seconds), BEGIN + round(seconds * SECOND)
    answer = client.sample(room[0], request(pose, "table", stamp))
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert list(answer.joint_names) == [f"left_panda_joint{i}" for i in range(1, 8)]
    q = joint_positions(answer)
    assert ROBOT.within_limits(q).all()
    reached, expected = tip(q), table(seconds) @ pose
    assert np.linalg.norm(reached[:, :3, 3] - expected[:3, 3], axis=1).max() <= 1e-6
    np.testing.assert_allclose(reached[:, :3, :3], np.broadcast_to(expected[:3, :3], (len(q), 3, 3)), atol=1e-6)


def test_frame_without_a_stamp_is_the_latest_and_may_hang_on_another(client: ClientNode, room: tuple) -> None:
    pose = goal(2, (N - 1) / 50)
    answer = client.sample(room[0], request(np.linalg.inv(TOOL) @ pose, "part"))
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert np.abs(tip(joint_positions(answer))[:, :3, 3] - (table((N - 1) / 50) @ pose)[:3, 3]).max() <= 1e-6


def test_each_service_takes_poses_in_moving_frames(client: ClientNode, room: tuple) -> None:
    seconds = 0.77
    poses, at = [goal(seed, seconds) for seed in (3, 4)], header("table", BEGIN + 770_000_000)
    several = SampleIK.Request(n_samples=2, seed=0, timeout=20.0, header=at)
    several.poses = [pose_message(pose) for pose in poses]
    answer = client.sample(room[0], several)
    assert list(answer.error_codes) == [ErrorCode.SUCCESS] * 2
    for pose, q in zip(poses, joint_positions(answer).reshape(2, -1, 7), strict=True):
        assert np.abs(tip(q)[:, :3, 3] - (table(seconds) @ pose)[:3, 3]).max() <= 2e-6  # tolerance: 1e-6
    path = FollowIK.Request(seed=0, timeout=20.0, header=at, poses=several.poses[:1], max_step=[9.0])
    answer = client.call(room[0], FollowIK, f"{NODE}/follow_ik", path)
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert np.abs(tip(np.array(answer.positions))[:, :3, 3] - (table(seconds) @ poses[0])[:3, 3]).max() <= 2e-6
    single = request_for(poses[0])
    single.ik_request.pose_stamped.header = at
    answer = client.call(room[0], GetPositionIK, f"{NODE}/get_position_ik", single)
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    q = np.array(answer.solution.joint_state.position)
    assert np.abs(tip(q)[:, :3, 3] - (table(seconds) @ poses[0])[:3, 3]).max() <= 2e-6


def test_request_ahead_of_its_transform_waits_for_it_and_holds_up_nobody(client: ClientNode, room: tuple) -> None:
    server, moving, _ = room
    publish_table(moving, 0, 10, "late")
    pose, stamp = goal(5, 0.19), BEGIN + 19 * SECOND // 100
    ahead = client.client(server, SampleIK, f"{NODE}/sample_ik").call_async(request(pose, "late", stamp))
    for _ in range(5):
        other = client.sample(server, request(goal(6, 0.5), "table", BEGIN + SECOND // 2))
        assert other.error_code.val == ErrorCode.SUCCESS
    assert not ahead.done()
    publish_table(moving, 10, 1, "late")
    client.executor.spin_until_future_complete(ahead, PATIENCE)
    answer = ahead.result().solutions
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert np.abs(tip(joint_positions(answer))[:, :3, 3] - (table(0.19) @ pose)[:3, 3]).max() <= 1e-6


def test_what_does_not_come_is_refused_with_what_is_known(client: ClientNode, room: tuple) -> None:
    server = room[0]
    assert not client.set_parameters(server, NODE, transform_timeout=0.1)
    for frame, stamp, told in (
        ("moon", 0, "frame 'moon' is unknown; the frames are "),
        ("table", BEGIN + 3 * SECOND, "frame 'table' is not known at 1790000003.000000007 s, which is 1.02 s after"),
        ("table", BEGIN - 1, "1e-09 s before the earliest known transform, 1790000000.000000007 s"),
    ):
        answer = client.sample(server, request(np.eye(4), frame, stamp))
        assert (answer.error_code.val, answer.n) == (ErrorCode.FRAME_TRANSFORM_FAILURE, 0)
        assert told in answer.error_code.message


def test_states_of_several_publishers_are_the_seed_of_requests_without_one(client: ClientNode, room: tuple) -> None:
    server, _, joints = room
    other = client.node.create_publisher(JointState, "joint_states", 10)
    q = 0.5 * (ROBOT.lower + ROBOT.upper) + 0.1
    end = time.monotonic() + PATIENCE
    while True:  # repeat until the server has discovered the second publisher
        joints.publish(JointState(name=list(ROBOT.joint_names[:4]), position=q[:4].tolist()))
        other.publish(JointState(name=[*ROBOT.joint_names[4:], "gripper"], position=[*q[4:].tolist(), 0.02]))
        answer = client.call(server, GetPositionIK, f"{NODE}/get_position_ik", request_for(ROBOT.fk(q) @ TOOL))
        assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
        if np.abs(np.array(answer.solution.joint_state.position) - q).max() <= 1e-5:
            break
        assert time.monotonic() < end
