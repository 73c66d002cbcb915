"""Straight lines over DDS: followed to the end or to where they stop, and refused with the reason."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from nodes.client_node import NODE, ClientNode
from nodes.ik_server.workcell import pose_message_of
from nodes.server_process import ServerProcess

from eim_ros.ik import ErrorCode
from eim_ros.kinematics import Robot
from eim_ros.kinematics.poses import rotation_vectors
from eim_ros.nodes.ik_server.moveit import LinesRequest
from eim_ros.srv import GetCartesianPath

Q = np.array([0.2, 0.6, -0.3, -1.2, 0.4, 0.8, 0.1])
SPACING = 0.02  # [m]


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> Iterator[ServerProcess]:
    started = start_server(max_timeout=20.0, default_timeout=20.0, groups="arm")
    yield started
    assert started.stop() == 0, started.log


@pytest.fixture(scope="module")
def robot() -> Robot:
    return Robot("iiwa14")


def corners(robot: Robot, *moves: tuple[float, float, float]) -> np.ndarray:
    """Poses of the tip that are moved from the one of Q [m]; the last one is also turned."""
    poses = np.tile(robot.fk(Q), (len(moves), 1, 1))
    poses[:, :3, 3] += np.cumsum(moves, axis=0)
    poses[-1, :3, :3] = poses[-1, :3, :3] @ [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    return poses


def request_of(robot: Robot, poses: np.ndarray, q: np.ndarray = Q) -> GetCartesianPath.Request:
    request = GetCartesianPath.Request(max_step=SPACING, waypoints=[pose_message_of(pose) for pose in poses])
    request.start_state.joint_state.name = list(robot.joint_names)
    request.start_state.joint_state.position = q.tolist()
    return request


def ask(client: ClientNode, server: ServerProcess, request: GetCartesianPath.Request) -> GetCartesianPath.Response:
    return client.call(server, GetCartesianPath, f"{NODE}/get_cartesian_path", request, 60.0)


def rows_of(answer: GetCartesianPath.Response) -> np.ndarray:
    return np.array([point.positions for point in answer.solution.joint_trajectory.points])


def times_of(answer: GetCartesianPath.Response) -> np.ndarray:
    stamps = [point.time_from_start for point in answer.solution.joint_trajectory.points]
    return np.array([stamp.sec + 1e-9 * stamp.nanosec for stamp in stamps])


@pytest.mark.parametrize("avoids", [False, True])
def test_lines_are_followed_from_the_start(
    client: ClientNode, server: ServerProcess, robot: Robot, avoids: bool
) -> None:
    poses = corners(robot, (0.0, 0.1, 0.0), (0.05, 0.0, -0.1))
    request = request_of(robot, poses)
    request.group_name, request.header.frame_id, request.avoid_collisions = "arm", robot.base_link, avoids
    request.max_velocity_scaling_factor = 0.5
    answer = ask(client, server, request)
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert answer.fraction == 1.0
    assert list(answer.solution.joint_trajectory.joint_names) == list(robot.joint_names)
    rows = rows_of(answer)
    np.testing.assert_array_equal(rows[0], Q)
    assert (np.abs(np.diff(rows, axis=0)) <= 0.3).all()
    tips = robot.fk(rows)
    on_first_line = 1 + int(np.ceil(0.1 / SPACING - 1e-9))
    lines = [robot.fk(Q)[:3, 3], poses[0, :3, 3], poses[1, :3, 3]]
    for tip in tips[:on_first_line]:
        assert np.linalg.norm(np.cross(tip[:3, 3] - lines[0], [0.0, 1.0, 0.0])) <= 1e-5
    np.testing.assert_allclose(tips[on_first_line - 1], poses[0], atol=1e-5)
    np.testing.assert_allclose(tips[-1], poses[1], atol=1e-5)
    turns = tips[:-1, :3, :3].transpose(0, 2, 1) @ tips[1:, :3, :3]
    assert np.linalg.norm(rotation_vectors(turns), axis=1).max() <= 3.5 * SPACING + 1e-5
    assert np.linalg.norm(np.diff(tips[:, :3, 3], axis=0), axis=1).max() <= SPACING + 1e-5
    times = times_of(answer)
    assert times[0] == 0.0
    speeds = np.abs(np.diff(rows, axis=0)) / np.diff(times)[:, None]
    assert (speeds / robot.velocity_limits).max(axis=1) == pytest.approx(0.5, rel=1e-3)


def test_line_out_of_reach_is_followed_in_part(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    answer = ask(client, server, request_of(robot, corners(robot, (0.0, 0.1, 0.0), (2.0, 0.0, 0.0))))
    assert answer.error_code.val == ErrorCode.SUCCESS
    assert "have no solution" in answer.error_code.message
    assert 0.05 < answer.fraction < 0.9
    rows = rows_of(answer)
    assert (np.abs(np.diff(rows, axis=0)) <= 0.3).all()
    tips = robot.fk(rows)
    assert np.linalg.norm(np.diff(tips[:, :3, 3], axis=0), axis=1).max() <= SPACING + 1e-5


def test_joints_outside_the_chain_stay_in_the_start_state(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    request = request_of(robot, corners(robot, (0.0, 0.05, 0.0)))
    request.start_state.joint_state.name = [*robot.joint_names, "gripper"]
    request.start_state.joint_state.position = [*Q.tolist(), 0.5]
    answer = ask(client, server, request)
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert list(answer.start_state.joint_state.name) == [*robot.joint_names, "gripper"]


def test_wrong_requests_are_refused(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    invalid = ErrorCode.INVALID_GOAL_CONSTRAINTS
    for field, value, code, reason in (
        ("waypoints", [], invalid, "there are no waypoints"),
        ("max_step", 0.0, invalid, "max_step is 0.0"),
        ("max_step", 1e-6, invalid, "max_samples"),
        ("max_step", 1e-320, invalid, "max_samples"),
        ("jump_threshold", -1.0, invalid, "jump_threshold is -1.0"),
        ("revolute_jump_threshold", np.nan, invalid, "revolute_jump_threshold is nan"),
        ("max_velocity_scaling_factor", 1.5, invalid, "max_velocity_scaling_factor is 1.5"),
        ("group_name", "leg", ErrorCode.INVALID_GROUP_NAME, "group_name is 'leg'"),
        ("link_name", "nose", ErrorCode.INVALID_LINK_NAME, "nose"),
        ("start_state", GetCartesianPath.Request().start_state, ErrorCode.INVALID_ROBOT_STATE, "start_state lacks"),
    ):
        request = request_of(robot, corners(robot, (0.0, 0.1, 0.0)))
        setattr(request, field, value)
        answer = ask(client, server, request)
        assert (answer.error_code.val, answer.fraction) == (code, 0.0)
        assert reason in answer.error_code.message
        assert not answer.solution.joint_trajectory.points


def test_jump_threshold_ends_the_path_at_the_first_large_motion() -> None:
    start, rows = np.zeros(2), np.cumsum([[0.1, 0.0], [0.0, 0.1], [0.4, 0.4], [0.1, 0.0]], axis=0)
    for threshold, n in ((0.0, 4), (2.0, 2), (5.0, 4)):
        wanted = LinesRequest(np.empty((4, 4, 4)), start, {}, (), np.ones(2), threshold, np.ones(2), "")
        assert wanted.n_before_jump(rows) == n


def test_moveits_type_is_served_too(
    client: ClientNode,
    start_server: Callable[..., ServerProcess],
    robot: Robot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stand-in for `moveit_msgs` has our type under its name."""
    (tmp_path / "moveit_msgs").mkdir()
    (tmp_path / "moveit_msgs/__init__.py").touch()  # so that it comes before one that is installed
    (tmp_path / "moveit_msgs/srv.py").write_text("from eim_ros.srv import GetCartesianPath\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    server = start_server("-r", "__node:=with_moveit", default_timeout=20.0)
    request = request_of(robot, corners(robot, (0.0, 0.05, 0.0)))
    answer = client.call(server, GetCartesianPath, "/with_moveit/compute_cartesian_path", request, 60.0)
    assert (answer.error_code.val, answer.fraction) == (ErrorCode.SUCCESS, 1.0)
    assert server.stop() == 0, server.log
