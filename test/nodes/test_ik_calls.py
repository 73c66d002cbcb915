"""Paths, single solutions and orders over DDS: answered, verified, and refused with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from geometry_msgs.msg import Pose
from nodes.client_node import FRAME, NODE, ClientNode, request
from nodes.server_process import ServerProcess
from sensor_msgs.msg import JointState

from eim_ros.ik.ranking import limit_margin, manipulability
from eim_ros.kinematics import Robot
from eim_ros.kinematics.pose import quaternion_from_matrix
from eim_ros.nodes.client import joint_positions
from eim_ros.nodes.interfaces import GetPositionIK
from eim_ros_interfaces.srv import SampleIK, SampleIKPath

SUCCESS = SampleIK.Response.SUCCESS


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> Iterator[ServerProcess]:
    started = start_server(max_timeout=20.0)
    yield started
    assert started.stop() == 0, started.log


@pytest.fixture(scope="module")
def robot() -> Robot:
    return Robot.load("iiwa14")


def message_of(pose: np.ndarray) -> Pose:
    result = Pose()
    result.position.x, result.position.y, result.position.z = pose[:3, 3].tolist()
    x, y, z, w = quaternion_from_matrix(pose).tolist()
    result.orientation.x, result.orientation.y, result.orientation.z, result.orientation.w = x, y, z, w
    return result


def state_of(robot: Robot, q: np.ndarray, *more: str) -> JointState:
    return JointState(name=[*robot.joint_names, *more], position=[*map(float, q), *([0.5] * len(more))])


def line(robot: Robot, n: int) -> np.ndarray:
    first = np.array([0.2, 0.6, -0.3, -1.2, 0.4, 0.8, 0.1])
    return np.linspace(first, first + 0.4, n)


def path_request(poses: np.ndarray, **fields: object) -> SampleIKPath.Request:
    result = SampleIKPath.Request(poses=[message_of(pose) for pose in poses], random_seed=0, timeout=20.0)
    result.header.frame_id = FRAME
    for name, value in fields.items():
        setattr(result, name, value)
    return result


def nearest_request(robot: Robot, pose: np.ndarray) -> GetPositionIK.Request:
    result = GetPositionIK.Request()
    result.ik_request.pose_stamped.header.frame_id = FRAME
    result.ik_request.pose_stamped.pose = message_of(pose)
    result.ik_request.timeout.sec = 10
    return result


def test_path_is_followed_from_where_the_robot_is(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    q = line(robot, 20)
    poses = robot.forward(q)
    wanted = path_request(poses, seed=state_of(robot, q[0]))
    answer = client.call(server, SampleIKPath, f"{NODE}/sample_ik_path", wanted, 60.0)
    assert answer.error_code == SUCCESS, answer.message
    assert answer.n == 20 == len(answer.valid)
    assert all(answer.valid)
    positions = np.frombuffer(answer.positions).reshape(20, robot.dof)
    assert np.abs(np.diff(positions, axis=0)).max() <= answer.largest_step <= 0.3
    assert np.abs(positions[0] - q[0]).max() <= answer.largest_step
    for row, pose in zip(positions, poses, strict=True):
        distance, angle = robot.pose_errors(row, pose)
        assert distance[0] <= 1e-6
        assert angle[0] <= 1e-6
    assert robot.within_limits(positions).all()


def test_pose_of_a_path_that_is_out_of_reach_is_named(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    poses = robot.forward(line(robot, 4))
    poses[2, 0, 3] = 9.0
    answer = client.call(server, SampleIKPath, f"{NODE}/sample_ik_path", path_request(poses), 60.0)
    assert answer.error_code == SampleIK.Response.NO_IK_SOLUTION
    assert "1 of 4 poses have no solution, the first of them is pose 2" in answer.message
    assert list(answer.valid) == [True, True, False, True]
    assert np.isnan(np.frombuffer(answer.positions).reshape(4, -1)[2]).all()


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        (lambda r: setattr(r.header, "frame_id", "map"), SampleIK.Response.FRAME_TRANSFORM_FAILURE, "base link"),
        (lambda r: setattr(r, "poses", []), SampleIK.Response.INVALID_GOAL_CONSTRAINTS, "the path has 0 poses"),
        (lambda r: setattr(r, "tip_link", "nose"), SampleIK.Response.INVALID_LINK_NAME, "nose"),
        (lambda r: setattr(r, "largest_step", -1.0), SampleIK.Response.INVALID_GOAL_CONSTRAINTS, "largest_step"),
        (
            lambda r: setattr(r.poses[1].orientation, "w", 7.0),
            SampleIK.Response.INVALID_GOAL_CONSTRAINTS,
            "pose 1: ",
        ),
    ],
)
def test_bad_paths_are_refused(
    client: ClientNode, server: ServerProcess, robot: Robot, change: Callable, code: int, reason: str
) -> None:
    wanted = path_request(robot.forward(line(robot, 3)))
    change(wanted)
    answer = client.call(server, SampleIKPath, f"{NODE}/sample_ik_path", wanted)
    assert answer.error_code == code
    assert reason in answer.message


def test_single_solution_is_the_one_near_the_given_state(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    q = line(robot, 2)
    wanted = nearest_request(robot, robot.forward(q[1]))
    wanted.ik_request.robot_state.joint_state = state_of(robot, q[1] + 0.05, "gripper")
    answer = client.call(server, GetPositionIK, f"{NODE}/compute_ik", wanted)
    assert answer.error_code.val == SUCCESS, answer.error_code.message
    assert answer.solution.joint_state.name == list(robot.joint_names)
    solution = np.array(answer.solution.joint_state.position)
    distance, angle = robot.pose_errors(solution, robot.forward(q[1]))
    assert distance[0] <= 1e-6
    assert angle[0] <= 1e-6
    assert np.linalg.norm(solution - (q[1] + 0.05)) <= np.linalg.norm(q[1] - (q[1] + 0.05)) + 1e-6


def test_single_solution_out_of_reach_or_of_another_frame_is_refused(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    far = robot.forward(line(robot, 2)[0])
    far[0, 3] = 9.0
    answer = client.call(server, GetPositionIK, f"{NODE}/compute_ik", nearest_request(robot, far))
    assert answer.error_code.val == SampleIK.Response.NO_IK_SOLUTION
    assert not answer.solution.joint_state.name
    elsewhere = nearest_request(robot, robot.forward(line(robot, 2)[0]))
    elsewhere.ik_request.pose_stamped.header.frame_id = "map"
    answer = client.call(server, GetPositionIK, f"{NODE}/compute_ik", elsewhere)
    assert answer.error_code.val == SampleIK.Response.FRAME_TRANSFORM_FAILURE


def test_solutions_come_in_the_order_asked_for(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    by_limits = joint_positions(client.sample(server, request(order=["limits"])))
    assert (np.diff(limit_margin(robot, by_limits)) <= 0.0).all()
    by_both = client.sample(server, request(order=["limits", "manipulability"], order_weights=[0.0, 2.0]))
    assert (np.diff(manipulability(robot, joint_positions(by_both), position_only=True)) <= 0.0).all()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"order": ["beauty"]}, "unknown order 'beauty'; known: density"),
        ({"order": ["distance"]}, "ordering by distance needs a configuration"),
        ({"order": ["limits", "limits"]}, "each name once"),
        ({"order": ["limits"], "order_weights": [1.0, 2.0]}, "order has 1 names and order_weights 2 numbers"),
        ({"order": ["limits", "density"], "order_weights": [1.0, -2.0]}, "must be finite and not negative"),
    ],
)
def test_bad_orders_are_refused(client: ClientNode, server: ServerProcess, fields: dict, reason: str) -> None:
    answer = client.sample(server, request(**fields))
    assert answer.error_code == SampleIK.Response.INVALID_GOAL_CONSTRAINTS
    assert reason in answer.message
