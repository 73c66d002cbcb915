"""Straight lines are followed to their end or to an obstacle. Bad requests are refused. The tests need no DDS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ik.arms import arm_of
from nodes.ik_server.serving import SETTINGS, refused, served, state_of

from eim_ros.ik import ErrorCode
from eim_ros.kinematics.poses import rotation_vectors
from eim_ros.nodes.common.messages import pose_message
from eim_ros.nodes.ik_server.moveit import LinesRequest
from eim_ros.srv import GetCartesianPath

ROBOT = arm_of("iiwa14")
Q = np.array([0.2, 0.6, -0.3, -1.2, 0.4, 0.8, 0.1])
SPACING = 0.02  # [m]
WITH_GROUP = replace(SETTINGS, groups="arm")


def corners(*moves: tuple[float, float, float]) -> np.ndarray:
    """Return poses of the tip after successive displacements [m] from the pose at Q. The last pose is also rotated."""
    poses = np.tile(ROBOT.fk(Q), (len(moves), 1, 1))
    poses[:, :3, 3] += np.cumsum(moves, axis=0)
    poses[-1, :3, :3] = poses[-1, :3, :3] @ [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    return poses


def request_of(*moves: tuple[float, float, float]) -> GetCartesianPath.Request:
    request = GetCartesianPath.Request(max_step=SPACING, waypoints=[pose_message(pose) for pose in corners(*moves)])
    request.start_state.joint_state = state_of(ROBOT.joint_names, Q)
    return request


def ask(request: GetCartesianPath.Request) -> GetCartesianPath.Response:
    return served("get_cartesian_path", request, settings=WITH_GROUP)


def rows_of(answer: GetCartesianPath.Response) -> np.ndarray:
    return np.array([point.positions for point in answer.solution.joint_trajectory.points])


def times_of(answer: GetCartesianPath.Response) -> np.ndarray:
    stamps = [point.time_from_start for point in answer.solution.joint_trajectory.points]
    return np.array([stamp.sec + 1e-9 * stamp.nanosec for stamp in stamps])


@pytest.mark.parametrize("avoids", [False, True])
def test_lines_are_followed_from_the_start(avoids: bool) -> None:
    moves = (0.0, 0.1, 0.0), (0.05, 0.0, -0.1)
    poses, request = corners(*moves), request_of(*moves)
    request.group_name, request.header.frame_id, request.avoid_collisions = "arm", ROBOT.base_link, avoids
    request.max_velocity_scaling_factor = 0.5
    answer = ask(request)
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert answer.fraction == 1.0
    assert list(answer.solution.joint_trajectory.joint_names) == list(ROBOT.joint_names)
    rows = rows_of(answer)
    np.testing.assert_array_equal(rows[0], Q)
    assert (np.abs(np.diff(rows, axis=0)) <= 0.3).all()
    tips = ROBOT.fk(rows)
    on_first_line = 1 + int(np.ceil(0.1 / SPACING - 1e-9))
    lines = [ROBOT.fk(Q)[:3, 3], poses[0, :3, 3], poses[1, :3, 3]]
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
    assert (speeds / ROBOT.velocity_limits).max(axis=1) == pytest.approx(0.5, rel=1e-3)


def test_line_out_of_reach_is_followed_in_part() -> None:
    answer = ask(request_of((0.0, 0.1, 0.0), (2.0, 0.0, 0.0)))
    assert answer.error_code.val == ErrorCode.SUCCESS
    assert "have no solution" in answer.error_code.message
    assert 0.05 < answer.fraction < 0.9
    rows = rows_of(answer)
    assert (np.abs(np.diff(rows, axis=0)) <= 0.3).all()
    tips = ROBOT.fk(rows)
    assert np.linalg.norm(np.diff(tips[:, :3, 3], axis=0), axis=1).max() <= SPACING + 1e-5


def test_joints_outside_the_chain_stay_in_the_start_state() -> None:
    request = request_of((0.0, 0.05, 0.0))
    request.start_state.joint_state = state_of([*ROBOT.joint_names, "gripper"], [*Q, 0.5])
    answer = ask(request)
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert list(answer.start_state.joint_state.name) == [*ROBOT.joint_names, "gripper"]


def test_wrong_requests_are_refused() -> None:
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
        (
            "start_state",
            GetCartesianPath.Request().start_state,
            ErrorCode.INVALID_ROBOT_STATE,
            "start_state does not contain",
        ),
    ):
        request = request_of((0.0, 0.1, 0.0))
        setattr(request, field, value)
        error = refused("get_cartesian_path", request, settings=WITH_GROUP)
        assert (error.code, reason in str(error)) == (code, True), str(error)


def test_jump_threshold_ends_the_path_at_the_first_large_motion() -> None:
    start, rows = np.zeros(2), np.cumsum([[0.1, 0.0], [0.0, 0.1], [0.4, 0.4], [0.1, 0.0]], axis=0)
    for threshold, n in ((0.0, 4), (2.0, 2), (5.0, 4)):
        wanted = LinesRequest(np.empty((4, 4, 4)), start, {}, (), np.ones(2), threshold, np.ones(2), "")
        assert wanted.n_before_jump(rows) == n
