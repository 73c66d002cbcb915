"""Tests of the real node `planar_simulator`: time stamps, trajectories, refusals, tasks, markers and clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from nodes.client_node import ClientNode
from nodes.planar_client import PlanarRobot
from nodes.server_process import ServerProcess
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph_msgs.msg import Clock
from std_msgs.msg import String
from std_srvs.srv import Trigger
from visualization_msgs.msg import Marker

from eim_ros.core.errors import ConfigurationError
from eim_ros.kinematics import Robot
from eim_ros.nodes.common.messages import seconds
from eim_ros.nodes.planar_simulator.messages import task_of, trajectory_message
from eim_ros.nodes.planar_simulator.settings import PlanarSimulatorSettings
from eim_ros.planar import PlanarArm
from eim_ros.srv import SetTask

ARM = PlanarArm(n_links=3)
START = np.zeros(3)
SPACE = "/planar"


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    return start_server(
        *("-r", f"__ns:={SPACE}"),
        node="planar_simulator",
        n_links=3,
        start="stretched",
        goal_start="[2.0, -1.0]",
        goal_end="[2.0, 1.0]",
        obstacles="[0.0, 9.0, 1.0]",
    )


@pytest.fixture
def robot(client: ClientNode, server: ServerProcess) -> Iterator[PlanarRobot]:
    listener = PlanarRobot(client, server, SPACE)
    answer = client.call(server, Trigger, f"{SPACE}/planar_simulator/reset", Trigger.Request())
    assert answer.success
    listener.hear(lambda: listener.states and not positions(listener).any() and listener.tips, "a robot at its start")
    listener.hear_new(lambda message: not message.moving, "a robot at rest")
    yield listener
    listener.close()


def task_request(**fields: object) -> SetTask.Request:
    request = SetTask.Request()
    for name, value in fields.items():
        if name in ("goal_start", "goal_end"):
            point = getattr(request, name)
            point.x, point.y = map(float, value)  # type: ignore[call-overload]
        else:
            setattr(request, name, value)
    return request


def set_task(client: ClientNode, server: ServerProcess, **fields: object) -> SetTask.Response:
    return client.call(server, SetTask, f"{SPACE}/planar_simulator/set_task", task_request(**fields))


def positions(robot: PlanarRobot) -> np.ndarray:
    return np.array(robot.states[-1].position)


def test_states_are_stamped_without_drift_or_gap(robot: PlanarRobot) -> None:
    robot.states.clear()
    robot.hear(lambda: len(robot.states) >= 400, "400 joint states")
    stamps = [message.header.stamp.sec * 10**9 + message.header.stamp.nanosec for message in robot.states]
    assert set(np.diff(stamps).tolist()) == {5_000_000}
    assert list(robot.states[0].name) == list(ARM.joint_names)


def test_trajectory_is_followed_in_time(robot: PlanarRobot) -> None:
    robot.states.clear()
    goal = np.array([0.5, 0.3, -0.4])
    robot.send(trajectory_message(ARM.joint_names, np.array([0.0, 1.0]), np.stack([START, goal])))
    robot.hear(lambda: robot.states and np.array_equal(positions(robot), goal), "end of the trajectory")
    rows = np.array([message.position for message in robot.states])
    stamps = np.array([seconds(message.header.stamp) for message in robot.states])
    moving = (rows[:, 0] > 0.0) & (rows[:, 0] < 0.5)
    assert moving.sum() == 199  # all ticks of 1 s except the last
    speed = np.array([message.velocity for message in robot.states])[moving]
    np.testing.assert_allclose(speed, np.broadcast_to(goal, speed.shape), atol=1e-9)
    began = stamps[moving][0] - rows[moving][0, 0] / 0.5
    np.testing.assert_allclose(rows[moving], (stamps[moving] - began)[:, None] * goal, atol=1e-6)  # rounded stamps
    robot.hear(lambda: robot.tips[-1].header.stamp == robot.states[-1].header.stamp, "the tip at the end")
    tip = robot.tips[-1].pose
    expected = ARM.tip(torch.from_numpy(goal)).tolist()
    assert (tip.position.x, tip.position.y) == pytest.approx(tuple(expected))
    assert 2.0 * math.atan2(tip.orientation.z, tip.orientation.w) == pytest.approx(goal.sum())


def test_trajectory_that_cannot_be_done_is_refused_with_a_reason_and_changes_nothing(robot: PlanarRobot) -> None:
    robot.send(trajectory_message(("a", "b", "c"), np.array([1.0]), START[None]))
    robot.hear(lambda: robot.refusals, "a refusal")
    assert "names unknown a, b, c" in robot.refusals[0]
    assert not positions(robot).any()
    assert not robot.statuses[-1].moving
    old = trajectory_message(ARM.joint_names, np.array([1.0]), START[None] + 0.5)
    old.header.stamp.sec = 1
    robot.refusals.clear()
    robot.send(old)
    robot.hear(lambda: robot.refusals, "a refusal")
    assert "trajectory ended" in robot.refusals[0]


def test_success_is_told_and_ends_with_a_reset(client: ClientNode, robot: PlanarRobot, server: ServerProcess) -> None:
    bent = np.array([0.3, 1.0, -1.5])
    tip = ARM.tip(torch.from_numpy(bent)).tolist()
    assert set_task(client, server, goal=SetTask.Request.POINT, goal_start=tip, tolerance=0.05).success
    robot.send(trajectory_message(ARM.joint_names, np.array([1.0]), bent[None]))
    assert not robot.hear_new(lambda message: message.moving, "a motion").success
    arrived = robot.hear_new(lambda message: not message.moving, "the end of the motion")
    assert arrived.success
    assert arrived.distance < 1e-9
    assert arrived.clearance == math.inf
    assert client.call(server, Trigger, f"{SPACE}/planar_simulator/reset", Trigger.Request()).success
    assert not robot.hear_new(lambda message: not message.success, "a reset").reached
    robot.hear(lambda: not positions(robot).any(), "the start")


def test_bad_task_is_refused_and_the_old_one_stays(
    client: ClientNode, robot: PlanarRobot, server: ServerProcess
) -> None:
    assert set_task(client, server, goal=SetTask.Request.POINT, goal_start=(3.0, 4.0)).success
    before = robot.hear_new(lambda message: message.distance == 4.0, "the task").distance
    answer = set_task(client, server, goal=7)
    assert (answer.success, "LINE" in answer.message) == (False, True)
    assert robot.hear_new(lambda message: True, "a status").distance == before


def test_markers_show_robot_goal_and_obstacles(client: ClientNode, robot: PlanarRobot, server: ServerProcess) -> None:
    task = {"goal": SetTask.Request.LINE, "goal_start": (2.0, -1.0), "goal_end": (2.0, 1.5)}
    assert set_task(client, server, obstacles=[1.0, 2.0, 0.5, -1.0, 2.0, 0.25], **task).success
    robot.markers.clear()
    robot.hear(lambda: len(robot.markers) > 2, "markers")
    first, *shown = robot.markers[-1].markers
    assert first.action == Marker.DELETEALL
    by_name = {(marker.ns, marker.id): marker for marker in shown}
    assert [point.x for point in by_name["robot", 0].points] == [0.0, 1.0, 2.0, 3.0]
    assert [point.y for point in by_name["goal", 0].points] == [-1.0, 1.5]
    assert by_name["obstacles", 1].scale.x == 0.5
    assert by_name["obstacles", 1].pose.position.x == -1.0
    robot.states.clear()
    robot.markers.clear()
    robot.hear(lambda: len(robot.states) >= 400, "400 joint states")
    assert len(robot.markers) <= 0.1 * len(robot.states)  # 10 Hz instead of 200 Hz


def test_description_of_the_robot_is_latched(client: ClientNode, robot: PlanarRobot) -> None:
    heard: list[String] = []
    qos = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    subscription = client.node.create_subscription(String, f"{SPACE}/robot_description", heard.append, qos)
    robot.hear(lambda: heard, "robot_description")
    client.node.destroy_subscription(subscription)
    described = Robot(heard[0].data)
    np.testing.assert_allclose(described.fk(START)[:2, 3], [3.0, 0.0], atol=1e-12)


def test_simulated_time_runs_from_zero_as_fast_as_asked(
    client: ClientNode, start_server: Callable[..., ServerProcess]
) -> None:
    server = start_server(
        "-r", "__ns:=/fast", node="planar_simulator", n_links=2, rate=50, publish_clock=True, speed=4.0
    )
    robot, heard = PlanarRobot(client, server, "/fast"), []
    subscription = client.node.create_subscription(Clock, "/clock", heard.append, QoSProfile(depth=2000))
    robot.hear(lambda: len(heard) > 100 and len(robot.states) > 100, "/clock and joint states")
    ticks = [message.clock.sec * 50 + message.clock.nanosec // 20_000_000 for message in heard]
    assert ticks == list(range(ticks[0], ticks[0] + len(ticks)))
    assert seconds(heard[0].clock) < 600.0
    stamps = np.diff([seconds(message.header.stamp) for message in robot.states])
    np.testing.assert_allclose(stamps, 0.02, atol=1e-9)
    client.node.destroy_subscription(subscription)
    robot.close()
    assert server.stop() == 0, server.log


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"goal": 7}, "LINE"),
        ({"goal": SetTask.Request.LINE, "goal_start": (1.0, 1.0), "goal_end": (1.0, 1.0)}, "differ"),
        ({"goal": SetTask.Request.POINT, "goal_start": (math.nan, 0.0)}, "finite"),
        ({"goal": SetTask.Request.POINT, "goal_start": (1.0, 0.0), "obstacles": [1.0]}, "x, y and radius"),
        ({"goal": SetTask.Request.POINT, "goal_start": (1.0, 0.0), "tolerance": -1.0}, "tolerance"),
    ],
)
def test_bad_task_has_a_reason(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        task_of(task_request(**fields), 0.1)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"speed": 2.0}, "needs publish_clock"),
        ({"goal_end": (5.0, -7.0)}, "must differ"),
        ({"obstacles": (1.0, 2.0)}, "x, y, radius"),
    ],
)
def test_bad_parameter_is_refused_with_a_reason(parameters: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        PlanarSimulatorSettings(**parameters)
