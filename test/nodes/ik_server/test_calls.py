"""Paths, batches and orders over DDS: answered, verified, and refused with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Pose
from nodes.client_node import NODE, ClientNode, joint_positions, request
from nodes.server_process import ServerProcess
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive

from eim_ros.ik import ErrorCode
from eim_ros.ik.order import limit_margin
from eim_ros.kinematics import Robot, quaternion_from_matrix
from eim_ros.srv import FollowIK, SampleIK, SolveNearestIK

SUCCESS = ErrorCode.SUCCESS


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> Iterator[ServerProcess]:
    started = start_server(max_timeout=20.0)
    yield started
    assert started.stop() == 0, started.log


@pytest.fixture(scope="module")
def robot() -> Robot:
    return Robot("iiwa14")


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


def request_of(service_type: Any, targets: np.ndarray, /, **fields: object) -> Any:
    """A request for complete poses; `fields` replace its fields, or those of its constraints."""
    messages = [message_of(pose) for pose in targets]
    return request(service_type=service_type, **{"poses": messages, "timeout": 20.0, "position_only": False, **fields})


def follow(client: ClientNode, server: ServerProcess, wanted: FollowIK.Request) -> FollowIK.Response:
    return client.call(server, FollowIK, f"{NODE}/follow_ik", wanted, 60.0)


def test_path_is_followed_from_where_the_robot_is(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    q = line(robot, 20)
    poses = robot.fk(q)
    wanted = request_of(FollowIK, poses, near=state_of(robot, q[0]))
    answer = follow(client, server, wanted)
    assert answer.error_code.val == SUCCESS, answer.error_code.message
    assert answer.n == 20 == len(answer.valid)
    assert all(answer.valid)
    assert list(answer.examined) == [True] * 20
    positions = np.frombuffer(answer.positions).reshape(20, robot.dof)
    assert np.abs(np.diff(positions, axis=0)).max() <= answer.max_step <= 0.3
    assert np.abs(positions[0] - q[0]).max() <= answer.max_step
    for row, pose in zip(positions, poses, strict=True):
        distance, angle = robot.pose_errors(row, pose)
        assert distance[0] <= 1e-6
        assert angle[0] <= 1e-6
    assert robot.within_limits(positions).all()


@pytest.mark.parametrize("is_timed", [False, True])
def test_path_is_sent_as_a_trajectory(client: ClientNode, server: ServerProcess, robot: Robot, is_timed: bool) -> None:
    q = line(robot, 10)
    times = 0.5 * np.arange(1, 11)
    wanted = request_of(FollowIK, robot.fk(q), near=state_of(robot, q[0]), times=times.tolist() if is_timed else [])
    answer = follow(client, server, wanted)
    assert answer.error_code.val == SUCCESS, answer.error_code.message
    assert list(answer.trajectory.joint_names) == list(robot.joint_names)
    rows = np.array([point.positions for point in answer.trajectory.points])
    np.testing.assert_array_equal(rows.ravel(), answer.positions)
    stamps = [point.time_from_start for point in answer.trajectory.points]
    found = np.array([stamp.sec + 1e-9 * stamp.nanosec for stamp in stamps])
    if is_timed:
        np.testing.assert_allclose(found, times)
    else:
        steps, durations = np.diff(np.concatenate([q[:1], rows]), axis=0), np.diff(found, prepend=0.0)
        fastest = (np.abs(steps) / robot.velocity_limits).max(axis=1)
        np.testing.assert_allclose(durations, fastest, atol=1e-5)  # a microsecond more for each step
        assert (durations[1:] > 0.0).all()


def test_pose_of_a_path_that_is_out_of_reach_is_named(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    poses = robot.fk(line(robot, 4))
    poses[2, 0, 3] = 9.0
    answer = follow(client, server, request_of(FollowIK, poses))
    assert answer.error_code.val == ErrorCode.NO_IK_SOLUTION
    assert "1 of 4 poses have no solution, the first of them is pose 2" in answer.error_code.message
    assert not answer.trajectory.points
    assert list(answer.valid) == [True, True, False, True]
    assert all(answer.examined)
    assert np.isnan(np.frombuffer(answer.positions).reshape(4, -1)[2]).all()


def test_poses_of_a_path_that_took_too_long_are_not_said_to_have_no_solution(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    answer = follow(client, server, request_of(FollowIK, robot.fk(line(robot, 200)), timeout=1e-9))
    assert answer.error_code.val == ErrorCode.TIMED_OUT
    assert not any(answer.valid)
    assert not any(answer.examined)
    assert "no solution" not in answer.error_code.message


def test_constraints_of_a_path_hold(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    poses = robot.fk(line(robot, 5))
    wanted = request_of(FollowIK, poses, position_only=True, avoid_self_collision=True)
    wanted.constraints.fixed_joints = JointState(name=[robot.joint_names[6]], position=[0.3])
    answer = follow(client, server, wanted)
    assert all(answer.valid), answer.error_code.message
    positions = np.frombuffer(answer.positions).reshape(5, robot.dof)
    assert (positions[:, 6] == 0.3).all()
    wanted.constraints.fixed_joints = JointState(name=["nose"], position=[0.3])
    answer = follow(client, server, wanted)
    assert answer.error_code.val == ErrorCode.INVALID_GOAL_CONSTRAINTS
    assert "nose" in answer.error_code.message


def test_links_may_touch_the_obstacles_they_are_allowed_to(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    pose = robot.fk(line(robot, 1))
    wanted = request_of(SampleIK, pose, n_samples=5)
    wanted.constraints.scene.primitives = [SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[0.05])]
    wanted.constraints.scene.primitive_poses = [message_of(pose[0])]
    assert client.sample(server, wanted).error_code.val == ErrorCode.GOAL_IN_COLLISION
    wanted.constraints.allowed_links = ["link_6", "link_7"]
    wanted.constraints.allowed_others = ["obstacle 0"] * 2
    answer = client.sample(server, wanted)
    assert answer.error_code.val == SUCCESS, answer.error_code.message


def test_batch_has_the_solutions_of_each_pose_one_after_the_other(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    poses = robot.fk(line(robot, 4))
    poses[2, 0, 3] = 9.0
    answer = client.sample(server, request_of(SampleIK, poses, n_samples=12))
    assert answer.error_code.val == ErrorCode.NO_IK_SOLUTION
    assert answer.error_code.message.startswith("3 of 4 poses have a solution; pose 2: there is no solution")
    assert list(answer.error_codes) == [SUCCESS, SUCCESS, ErrorCode.NO_IK_SOLUTION, SUCCESS]
    assert list(answer.n_per_pose) == [12, 12, 0, 12]
    assert answer.n == 36 == len(answer.log_prob) == len(answer.expert)
    assert not answer.valid  # all rows are
    assert len(answer.best_attempt) == robot.dof  # of the one pose without a solution
    assert robot.within_limits(np.array(answer.best_attempt)).all()
    assert answer.elapsed > 0.0
    positions = joint_positions(answer)
    for index, rows in enumerate(np.split(np.arange(36), np.cumsum(answer.n_per_pose)[:-1])):
        position, orientation = robot.pose_errors(positions[rows], poses[index])
        np.testing.assert_allclose(position, np.array(answer.position_error)[rows], atol=1e-10)
        np.testing.assert_allclose(orientation, np.array(answer.orientation_error)[rows], atol=1e-10)
        assert max(position.max(initial=0.0), orientation.max(initial=0.0)) <= 1e-6
    assert robot.within_limits(positions).all()


def test_pose_of_a_batch_is_answered_as_it_is_alone(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    poses = robot.fk(line(robot, 2))
    fields = {"posture": JointState(name=[robot.joint_names[2]], position=[0.5]), "diversity": 0.25, "n_samples": 12}
    batch = client.sample(server, request_of(SampleIK, poses, **fields))
    assert batch.error_code.val == SUCCESS, batch.error_code.message
    answer = client.sample(server, request_of(SampleIK, poses[1:], seed=1, **fields))
    first = batch.n_per_pose[0]
    np.testing.assert_array_equal(joint_positions(batch)[first:], joint_positions(answer))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"poses": []}, "there are 0 poses"),
        ({"n_samples": 0}, "n_samples is 0"),
        ({"n_samples": 5000}, "5000 configurations for each of 3 poses are 15000, expected at most 10000"),
        ({"tolerances": [1.0]}, "six numbers"),
        ({"timeout": -1.0}, "timeout"),
        ({"order": ["beauty"]}, "unknown order 'beauty'"),
    ],
)
def test_bad_batches_are_refused(
    client: ClientNode, server: ServerProcess, robot: Robot, fields: dict, reason: str
) -> None:
    wanted = request_of(SampleIK, robot.fk(line(robot, 3)), **fields)
    answer = client.sample(server, wanted)
    assert answer.error_code.val == ErrorCode.INVALID_GOAL_CONSTRAINTS
    assert reason in answer.error_code.message
    assert answer.n == 0


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        (lambda r: setattr(r.header, "frame_id", "map"), ErrorCode.FRAME_TRANSFORM_FAILURE, "base link"),
        (lambda r: setattr(r, "poses", []), ErrorCode.INVALID_GOAL_CONSTRAINTS, "there are 0 poses"),
        (lambda r: setattr(r.constraints, "tip_link", "nose"), ErrorCode.INVALID_LINK_NAME, "nose"),
        (lambda r: setattr(r, "max_step", [-1.0]), ErrorCode.INVALID_GOAL_CONSTRAINTS, "max_step"),
        (lambda r: setattr(r, "times", [1.0]), ErrorCode.INVALID_GOAL_CONSTRAINTS, "times"),
        (
            lambda r: setattr(r.poses[1].orientation, "w", 7.0),
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            "pose 1: ",
        ),
    ],
)
def test_bad_paths_are_refused(
    client: ClientNode, server: ServerProcess, robot: Robot, change: Callable, code: int, reason: str
) -> None:
    wanted = request_of(FollowIK, robot.fk(line(robot, 3)))
    change(wanted)
    answer = follow(client, server, wanted)
    assert answer.error_code.val == code
    assert reason in answer.error_code.message


def test_preferred_posture_is_obeyed(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    q = line(robot, 2)[0]
    names = [robot.joint_names[2], robot.joint_names[0]]
    wanted = request(position_only=False, n_samples=40, posture_weights=[1.0, 0.5])
    wanted.poses, wanted.posture = [message_of(robot.fk(q))], JointState(name=names, position=[1.0, -0.5])
    answer = client.sample(server, wanted)
    assert answer.error_code.val == SUCCESS, answer.error_code.message
    positions = joint_positions(answer)
    costs = (positions[:, 2] - 1.0) ** 2 + 0.5 * (positions[:, 0] + 0.5) ** 2
    assert (np.diff(costs) >= 0.0).all()
    wanted.posture = JointState()
    wanted.posture_weights = []
    plain = joint_positions(client.sample(server, wanted))
    assert costs[0] <= ((plain[:, 2] - 1.0) ** 2 + 0.5 * (plain[:, 0] + 0.5) ** 2).min() + 1e-6


def test_solutions_come_in_the_order_asked_for(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    by_limits = joint_positions(client.sample(server, request(order=["limits"])))
    assert (np.diff(limit_margin(robot, by_limits)) <= 0.0).all()
    by_both = client.sample(server, request(order=["limits", "manipulability"], order_weights=[0.0, 2.0]))
    assert (np.diff(robot.manipulability(joint_positions(by_both), position_only=True)) <= 0.0).all()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"order": ["beauty"]}, "unknown order 'beauty'; known: density"),
        ({"order": ["distance"]}, "ordering by distance needs a configuration"),
        ({"order": ["limits", "limits"]}, "each name once"),
        ({"order": ["posture"]}, "ordering by posture needs a preferred posture"),
        ({"posture": JointState(name=["nose"], position=[1.0])}, "no joint 'nose'"),
        ({"posture": JointState(name=["joint_a1"], position=[])}, "1 names and 0 positions"),
        ({"posture": JointState(name=["joint_a1"], position=[np.nan])}, "finite"),
        ({"posture": JointState(name=["joint_a1"], position=[1.0]), "posture_weights": [0.0]}, "no joint has a weight"),
        ({"posture_weights": [1.0]}, "0 names and 0 positions, and there are 1 posture_weights"),
        ({"diversity": 1.5}, "diversity is 1.5, expected 0 to 1"),
        ({"diversity": np.nan}, "diversity is nan"),
        ({"order": ["limits"], "order_weights": [1.0, 2.0]}, "order has 1 names and order_weights 2 numbers"),
        ({"order": ["limits", "density"], "order_weights": [1.0, -2.0]}, "must be finite and not negative"),
    ],
)
def test_bad_preferences_are_refused(client: ClientNode, server: ServerProcess, fields: dict, reason: str) -> None:
    answer = client.sample(server, request(**fields))
    assert answer.error_code.val == ErrorCode.INVALID_GOAL_CONSTRAINTS
    assert reason in answer.error_code.message


def nearest(client: ClientNode, server: ServerProcess, wanted: SolveNearestIK.Request) -> SolveNearestIK.Response:
    return client.call(server, SolveNearestIK, f"{NODE}/solve_nearest_ik", wanted, 60.0)


def test_the_nearest_pose_is_answered_in_and_out_of_reach(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    targets = robot.fk(line(robot, 2))
    targets[1, :3, 3] += [0.0, 3.0, 0.0]
    response = nearest(client, server, request_of(SolveNearestIK, targets, priority="position", seed=0))
    assert response.error_code.val == SUCCESS, response.error_code.message
    assert tuple(response.joint_names) == robot.joint_names
    assert list(response.exact) == [True, False]
    q = np.array(response.positions).reshape(2, robot.dof)
    assert robot.within_limits(q).all()
    for row, target, position, orientation in zip(
        q, targets, response.position_error, response.orientation_error, strict=True
    ):
        assert [error[0] for error in robot.pose_errors(row[None], target)] == pytest.approx([position, orientation])
    assert response.position_error[1] < 3.0
    weighted = nearest(client, server, request_of(SolveNearestIK, targets[1:], weights=[1.0, 1.0], seed=0))
    distances = [np.hypot(x.position_error[-1], x.orientation_error[-1]) for x in (weighted, response)]
    assert distances[0] <= distances[1] + 1e-6


def test_wrong_priorities_of_the_nearest_pose_are_refused(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    target = robot.fk(line(robot, 1))
    for fields in ({"priority": "speed"}, {"weights": [1.0]}, {"priority": "position", "weights": [1.0, 1.0]}):
        response = nearest(client, server, request_of(SolveNearestIK, target, **fields))
        assert response.error_code.val == ErrorCode.INVALID_GOAL_CONSTRAINTS
        assert "priority" in response.error_code.message
