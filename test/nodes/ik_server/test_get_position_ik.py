"""The one solution nearest to a state, over DDS: given, refused with the reason, and free of collisions where asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from ik.arms import arm_of, sampler_of
from nodes.client_node import NODE, ClientNode
from nodes.ik_server.workcell import pose_message_of, request_for
from nodes.server_process import ServerProcess

from eim_ros.ik import ErrorCode
from eim_ros.kinematics import Robot
from eim_ros.kinematics.collision import collision_model
from eim_ros.nodes.common.interfaces import MoveItGetPositionIK
from eim_ros.nodes.ik_server.handlers import parse_get_position
from eim_ros.nodes.ik_server.messages import RequestContext
from eim_ros.nodes.ik_server.settings import IkServerSettings
from eim_ros.srv import GetPositionIK

SRDF = "<robot name='iiwa14'><group name='wrist'><chain base_link='base_link' tip_link='link_7'/></group></robot>"
Q = np.array([0.2, 0.6, -0.3, -1.2, 0.4, 0.8, 0.1])


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> Iterator[ServerProcess]:
    started = start_server(max_timeout=20.0, groups="arm, tool=tool0", robot_description_semantic=f'"{SRDF}"')
    yield started
    assert started.stop() == 0, started.log


@pytest.fixture(scope="module")
def robot() -> Robot:
    return Robot("iiwa14")


def near(robot: Robot, q: np.ndarray, **more: float) -> GetPositionIK.Request:
    """For the pose of a configuration, near to it."""
    return request_for(robot.fk(q), **dict(zip(robot.joint_names, q.tolist(), strict=True)), **more)


def ask(client: ClientNode, server: ServerProcess, request: GetPositionIK.Request) -> GetPositionIK.Response:
    return client.call(server, GetPositionIK, f"{NODE}/get_position_ik", request, 60.0)


def test_solution_is_the_one_near_the_given_state_with_all_its_joints(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    request = near(robot, Q + 0.05, gripper=0.5)
    request.ik_request.pose_stamped.pose = pose_message_of(robot.fk(Q))
    request.ik_request.pose_stamped.header.frame_id = robot.base_link
    request.ik_request.group_name = "arm"
    answer = ask(client, server, request)
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert list(answer.solution.joint_state.name) == [*robot.joint_names, "gripper"]
    assert answer.solution.joint_state.position[7] == 0.5
    solution = np.array(answer.solution.joint_state.position[:7])
    assert max(error[0] for error in robot.pose_errors(solution, robot.fk(Q))) <= 1e-6
    assert np.linalg.norm(solution - (Q + 0.05)) <= np.linalg.norm(np.full(7, 0.05)) + 1e-6


def test_group_of_the_srdf_reaches_poses_with_its_own_tip(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    wrist = Robot("iiwa14", "link_7", base="base_link")
    request = near(wrist, Q)
    request.ik_request.group_name = "wrist"
    answer = ask(client, server, request)
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    np.testing.assert_allclose(np.array(answer.solution.joint_state.position), Q, atol=1e-5)


def test_what_is_out_of_reach_of_another_frame_or_group_is_refused_and_leaves_no_solution(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    far, elsewhere, group = near(robot, Q), near(robot, Q), near(robot, Q)
    far.ik_request.pose_stamped.pose.position.x = 9.0
    elsewhere.ik_request.pose_stamped.header.frame_id = "map"
    group.ik_request.group_name = "leg"
    for request, code, reason in (
        (far, ErrorCode.NO_IK_SOLUTION, "there is no solution"),
        (elsewhere, ErrorCode.FRAME_TRANSFORM_FAILURE, "frame 'map'"),
        (group, ErrorCode.INVALID_GROUP_NAME, "groups of this server: wrist, arm, tool"),
    ):
        answer = ask(client, server, request)
        assert answer.error_code.val == code
        assert reason in answer.error_code.message
        assert not answer.solution.joint_state.name


def test_collisions_are_avoided_where_asked(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    """A state in which the wrist is in the base, and so it is in all others that reach its pose."""
    scene = collision_model(robot).scene(True)
    q = robot.random(5000, np.random.default_rng(0))
    request = near(robot, q[np.flatnonzero(scene.colliding(q))[0]])
    answer = ask(client, server, request)
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    request.ik_request.avoid_collisions = True
    answer = ask(client, server, request)
    assert answer.error_code.val == ErrorCode.GOAL_IN_COLLISION
    assert "collide" in answer.error_code.message


def test_moveits_type_is_served_beside_ours_where_it_is(
    client: ClientNode,
    start_server: Callable[..., ServerProcess],
    robot: Robot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where `moveit_msgs` can be imported, here a stand-in with our type under its name."""
    (tmp_path / "moveit_msgs").mkdir()
    (tmp_path / "moveit_msgs/__init__.py").touch()  # so that it comes before one that is installed
    (tmp_path / "moveit_msgs/srv.py").write_text("from eim_ros.srv import GetPositionIK\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    server = start_server("-r", "__node:=beside_moveit")
    for name in ("get_position_ik", "compute_ik"):
        answer = client.call(server, GetPositionIK, f"/beside_moveit/{name}", near(robot, Q), 60.0)
        np.testing.assert_allclose(np.array(answer.solution.joint_state.position), Q, atol=1e-5)
    assert server.stop() == 0, server.log


@pytest.mark.skipif(MoveItGetPositionIK is not None, reason="moveit_msgs is installed")
def test_without_moveit_its_name_is_not_served(client: ClientNode, server: ServerProcess) -> None:
    client.client(server, GetPositionIK, f"{NODE}/get_position_ik")
    names = {name for name, _ in client.node.get_service_names_and_types_by_node("ik_server", "/")}
    assert f"{NODE}/get_position_ik" in names
    assert f"{NODE}/compute_ik" not in names


def test_group_that_is_not_the_chain_is_refused_at_start(start_server: Callable[..., ServerProcess]) -> None:
    server = start_server(groups="arm=link_3")
    assert server.wait() == 1
    assert "cannot configure: the tip 'link_3' of group 'arm' is not fixed to the tip link 'tool0'" in server.log


def nearest_to(name: str, q: np.ndarray) -> np.ndarray:
    """Solution of the pose of a configuration near to it, without collisions where that can be told."""
    arm, response = arm_of(name), GetPositionIK.Response()
    wanted = near(arm, q)
    wanted.ik_request.avoid_collisions = True
    parse_get_position(wanted, response, RequestContext(arm), IkServerSettings()).solve(
        sampler_of(name, "pose"), None, 20.0
    )
    return np.array(response.solution.joint_state.position)


def test_nearest_state_that_collides_is_passed_over_for_one_that_does_not() -> None:
    scene = collision_model(arm_of("planar10")).scene(True)
    states = arm_of("planar10").random(20, np.random.default_rng(0))
    crossed = states[np.flatnonzero(scene.colliding(states))[0]]
    found = nearest_to("planar10", crossed)
    assert not scene.colliding(found[None])[0]
    np.testing.assert_allclose(arm_of("planar10").fk(found), arm_of("planar10").fk(crossed), atol=2e-6)


def test_robot_without_shapes_is_not_refused_when_collisions_are_to_be_avoided() -> None:
    q = np.array([0.3, 0.4, 0.8, 0.2, 0.7, 0.1])
    assert collision_model(arm_of("six_joints")).n_shapes == 0
    np.testing.assert_allclose(nearest_to("six_joints", q), q, atol=1e-3)
