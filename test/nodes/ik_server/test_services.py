"""Over DDS, each service gives the answers and refusals of the functions that other tests cover."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ik.arms import arm_of
from nodes.client_node import NODE, ClientNode, request
from nodes.ik_server.serving import request_of, served, state_of
from nodes.ik_server.workcell import request_for
from nodes.server_process import ServerProcess

from eim_ros.core.errors import LONGEST_MESSAGE
from eim_ros.ik import ErrorCode
from eim_ros.kinematics import Robot
from eim_ros.nodes.common.interfaces import MoveItGetPositionIK
from eim_ros.nodes.common.messages import pose_message
from eim_ros.nodes.ik_server.handlers import SERVICES
from eim_ros.nodes.ik_server.node import load_sampler
from eim_ros.nodes.settings import IkServerSettings
from eim_ros.srv import DrawIK, FollowIK, GetCartesianPath, GetPositionIK, SampleIK, SolveAllIK, SolveNearestIK

SRDF = "<robot name='iiwa14'><group name='wrist'><chain base_link='base_link' tip_link='link_7'/></group></robot>"
GROUPS = "arm, tool=tool0"
LIMITS = {"max_samples": 1000, "max_timeout": 20.0, "default_timeout": 20.0}
ROBOT = arm_of("iiwa14")
Q = np.array([0.2, 0.6, -0.3, -1.2, 0.4, 0.8, 0.1])
POSES = ROBOT.fk(np.linspace(Q, Q + 0.2, 3))
NEAR = state_of(ROBOT.joint_names, Q)

Start = Callable[..., ServerProcess]


@pytest.fixture(scope="module")
def server(start_server: Start) -> ServerProcess:
    return start_server(groups=GROUPS, robot_description_semantic=f'"{SRDF}"', **LIMITS)


def group_request() -> GetPositionIK.Request:
    """Return a request for a pose of the group of the SRDF. Its tip is the end of its chain."""
    wrist = Robot("iiwa14", "link_7", base="base_link")
    wanted = request_for(wrist.fk(Q), **dict(zip(ROBOT.joint_names, Q.tolist(), strict=True)))
    wanted.ik_request.group_name = "wrist"
    return wanted


def line_request() -> GetCartesianPath.Request:
    wanted = GetCartesianPath.Request(max_step=0.02, waypoints=[pose_message(POSES[1])])
    wanted.start_state.joint_state = NEAR
    return wanted


REQUESTS: dict[str, Callable[[], Any]] = {
    "sample_ik": lambda: request_of(SampleIK, POSES, n_samples=5),
    "solve_all_ik": lambda: request_of(SolveAllIK, POSES[:1], max_spacing=0.5),
    "draw_ik": lambda: request_of(DrawIK, POSES[:1], n_samples=5),
    "follow_ik": lambda: request_of(FollowIK, POSES, near=NEAR),
    "solve_nearest_ik": lambda: request_of(SolveNearestIK, POSES[:1], seed=0),
    "get_position_ik": group_request,
    "get_cartesian_path": line_request,
}


@pytest.mark.parametrize("service", REQUESTS)
def test_answer_is_that_of_the_functions(client: ClientNode, server: ServerProcess, model: Path, service: str) -> None:
    message = REQUESTS[service]()
    answer = client.call(server, SERVICES[f"~/{service}"][0], f"{NODE}/{service}", message, 60.0)
    settings = IkServerSettings(model=str(model), groups=GROUPS, robot_description_semantic=SRDF, **LIMITS)
    expected = served(service, message, load_sampler(settings), settings)
    told = getattr(answer, "solutions", answer)
    code = told.error_code
    assert code.val == ErrorCode.SUCCESS, code.message
    for each in (told, getattr(expected, "solutions", expected)):
        if hasattr(each, "elapsed"):
            assert each is not told or each.elapsed > 0.0
            each.elapsed = 0.0
    assert repr(answer) == repr(expected)  # repr: NaN equals NaN


def frame(name: str) -> SampleIK.Request:
    message = request()
    message.header.frame_id = name
    return message


REFUSALS: dict[str, tuple[Callable[[], SampleIK.Request], ErrorCode, str]] = {
    "nan position": (lambda: request((math.nan, 0.0, 0.0)), ErrorCode.INVALID_GOAL_CONSTRAINTS, "finite"),
    "unknown frame": (lambda: frame("map"), ErrorCode.FRAME_TRANSFORM_FAILURE, "no node publishes on /tf"),
    "timeout before it is read": (lambda: request(timeout=1e-9), ErrorCode.TIMED_OUT, "timeout"),
    "timeout while searching": (  # a tenth of the required time
        lambda: request(n_samples=1000, timeout=5e-4, avoid_self_collision=True),
        ErrorCode.TIMED_OUT,
        "",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_bad_request_is_refused_with_its_cause_and_the_next_is_served(
    client: ClientNode, server: ServerProcess, name: str
) -> None:
    make, code, cause = REFUSALS[name]
    answer = client.sample(server, make())
    assert (answer.error_code.val, cause in answer.error_code.message) == (code, True), answer.error_code.message
    assert code == ErrorCode.TIMED_OUT or answer.n == 0  # rows found in time are returned
    assert len(answer.positions) == answer.n * len(answer.joint_names)
    assert client.sample(server, request()).error_code.val == ErrorCode.SUCCESS, server.log


def test_log_lines_and_messages_do_not_repeat_a_long_value(server: ServerProcess, client: ClientNode) -> None:
    answer = client.sample(server, frame(1_000_000 * "a"))
    assert answer.error_code.val == ErrorCode.FRAME_TRANSFORM_FAILURE
    assert len(answer.error_code.message) <= LONGEST_MESSAGE
    assert max(map(len, server.log.splitlines())) <= LONGEST_MESSAGE + 100  # +100: time, level and node


def test_configured_node_tells_its_chain_and_obeys_a_changed_parameter(
    client: ClientNode, server: ServerProcess
) -> None:
    told = client.parameters(server, NODE, "chain.base_link", "chain.tip_link", "chain.joint_names")
    assert told == ["base_link", "tool0", list(ROBOT.joint_names)]
    for most, code in ((5, ErrorCode.INVALID_GOAL_CONSTRAINTS), (1000, ErrorCode.SUCCESS)):
        assert not client.set_parameters(server, NODE, max_samples=most)
        assert client.sample(server, request(n_samples=6)).error_code.val == code


def test_moveits_types_are_served_beside_ours_where_they_are(
    client: ClientNode, start_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If `moveit_msgs` can be imported, its types are served. The test imitates this package with our types."""
    (tmp_path / "moveit_msgs").mkdir()
    (tmp_path / "moveit_msgs/__init__.py").touch()  # precedes an installed package
    (tmp_path / "moveit_msgs/srv.py").write_text("from eim_ros.srv import GetCartesianPath, GetPositionIK\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    server = start_server("-r", "__node:=with_moveit", groups=GROUPS, default_timeout=20.0)
    wanted = request_for(POSES[0], **dict(zip(ROBOT.joint_names, Q.tolist(), strict=True)))
    for name in ("get_position_ik", "compute_ik"):
        answer = client.call(server, GetPositionIK, f"/with_moveit/{name}", wanted, 60.0)
        np.testing.assert_allclose(np.array(answer.solution.joint_state.position), Q, atol=1e-5)
    path = client.call(server, GetCartesianPath, "/with_moveit/compute_cartesian_path", line_request(), 60.0)
    assert (path.error_code.val, path.fraction) == (ErrorCode.SUCCESS, 1.0)
    assert server.stop() == 0, server.log


@pytest.mark.skipif(MoveItGetPositionIK is not None, reason="moveit_msgs is installed")
def test_without_moveit_its_name_is_not_served(client: ClientNode, server: ServerProcess) -> None:
    client.client(server, GetPositionIK, f"{NODE}/get_position_ik")
    names = {name for name, _ in client.node.get_service_names_and_types_by_node("ik_server", "/")}
    assert f"{NODE}/get_position_ik" in names
    assert f"{NODE}/compute_ik" not in names
