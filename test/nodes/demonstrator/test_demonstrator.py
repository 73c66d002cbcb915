"""With the node `demonstrator` and a real simulator, motions of the expert succeed, and users can drive the robot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Twist
from nodes.client_node import ClientNode
from nodes.planar_client import PlanarRobot
from nodes.server_process import ServerProcess
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, UInt32
from std_srvs.srv import Trigger

from eim_ros.core.errors import ConfigurationError
from eim_ros.msg import TaskStatus
from eim_ros.nodes.common.messages import seconds
from eim_ros.nodes.planar_simulator.settings import DemonstratorSettings, PlanarSettings

Start = Callable[..., ServerProcess]
SPACE, RATE = "/shown", 50  # [Hz]
SMALL = {  # four links of 1 m reach a short line without obstacles, because test/planar tests obstacles
    "n_links": 4,
    "goal_start": "[2.8, -1.5]",
    "goal_end": "[2.8, 1.5]",
    "obstacles": "[0.0, 9.0, 0.0]",  # radius 0: no obstacle
    "velocity_limit": 12.0,  # [rad/s], four times the limit of a real robot, to make motions short
}
START = PlanarSettings(n_links=4).start_configuration()


@pytest.fixture(scope="module")
def simulator(start_server: Start) -> ServerProcess:
    """Start one simulator for this file. Its rate is low, because each joint state costs time in this process."""
    return start_server("-r", f"__ns:={SPACE}", node="planar_simulator", n_links=4, velocity_limit=12.0, rate=RATE)


@pytest.fixture
def robot(client: ClientNode, simulator: ServerProcess) -> Iterator[PlanarRobot]:
    listener = PlanarRobot(client, simulator, SPACE)
    yield listener
    listener.close()


@pytest.fixture
def start(start_server: Start) -> Callable[..., ServerProcess]:
    return lambda **given: start_server("-r", f"__ns:={SPACE}", node="demonstrator", **given)


def test_motions_of_the_expert_succeed_one_after_the_other_and_the_process_ends_when_asked_to(
    start: Start, robot: PlanarRobot, client: ClientNode
) -> None:
    places = {"n_places": 2, "last_shift": "[0.2, 0.0]"}  # another goal for the second motion
    once = {"n_motions": 2, "show_at_start": False, "pause": 0.05, "speed_share": 0.9, "exit_when_done": True}
    goals: list[list[float]] = []
    demonstrator = start(**SMALL, **places, **once)
    shown: list[int] = []
    latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    subscription = client.node.create_subscription(
        UInt32, f"{SPACE}/demonstrator/progress", lambda message: shown.append(message.data), latched
    )
    of_goal = client.node.create_subscription(
        Float64MultiArray, f"{SPACE}/planar_simulator/goal", lambda message: goals.append(list(message.data)), latched
    )
    begin = client.call(demonstrator, Trigger, f"{SPACE}/demonstrator/start", Trigger.Request())
    assert begin.success
    again = client.call(demonstrator, Trigger, f"{SPACE}/demonstrator/start", Trigger.Request())
    assert not again.success
    assert "already" in again.message
    robot.hear(lambda: shown and shown[-1] == 2, f"two motions; {demonstrator.log}", 120.0)
    assert demonstrator.wait() == 0, demonstrator.log
    assert "2 of 2 motions succeeded" in demonstrator.log
    assert "Traceback" not in demonstrator.log
    assert shown == [0, 1, 2]

    def changes() -> list[TaskStatus]:
        return [
            after
            for before, after in zip(robot.statuses, robot.statuses[1:], strict=False)
            if before.moving != after.moving
        ]

    # Messages of different topics may arrive in any order. Therefore wait first for statuses, then for joint states.
    robot.hear(lambda: len(changes()) >= 4, "two begins and two ends")
    last_end = seconds(changes()[3].header.stamp)
    robot.hear(lambda: seconds(robot.states[-1].header.stamp) >= last_end, "joint states of all motions")
    assert len(changes()) == 4
    assert not robot.refusals
    ends = [
        before
        for before, after in zip(robot.states, robot.states[1:], strict=False)
        if np.array_equal(after.position, START) and not np.array_equal(before.position, START)
    ]
    assert len(ends) == 1  # the robot returns to the start once, between the motions
    assert np.array(goals[-2:]) == pytest.approx(np.array([[x, -1.5, x, 1.5] for x in (2.8, 3.0)]))
    client.node.destroy_subscription(subscription)
    client.node.destroy_subscription(of_goal)


def test_task_out_of_reach_is_said_and_the_node_lives_on(start: Start, robot: PlanarRobot, client: ClientNode) -> None:
    demonstrator = start(**{**SMALL, "goal": "point", "goal_start": "[9.0, 0.0]", "n_motions": 1})
    demonstrator.wait_for_log("cannot reach the goal")
    assert client.call(demonstrator, Trigger, f"{SPACE}/demonstrator/start", Trigger.Request()).success
    assert demonstrator.stop() == 0, demonstrator.log


def test_person_moves_the_tip_and_single_joints(start: Start, robot: PlanarRobot, client: ClientNode) -> None:
    demonstrator = start(n_links=4, driver="person")
    twist = client.node.create_publisher(Twist, f"{SPACE}/demonstrator/twist", 10)
    joints = client.node.create_publisher(JointState, f"{SPACE}/demonstrator/joint_velocity", 10)
    robot.hear(lambda: twist.get_subscription_count() and joints.get_subscription_count(), "the demonstrator")
    robot.hear(lambda: robot.tips, "the tip")
    before = robot.tips[-1].pose.position.x
    wish = Twist()
    wish.linear.x = 0.5

    def driven(condition: Callable[[], object], publish: Callable[[], None]) -> Callable[[], object]:
        def step() -> object:
            publish()
            return condition()

        return step

    moved = driven(lambda: robot.tips[-1].pose.position.x > before + 0.3, lambda: twist.publish(wish))
    robot.hear(moved, "a motion of the tip along x")
    robot.states.clear()
    robot.hear(
        lambda: len({tuple(message.position) for message in robot.states[-RATE:]}) == 1 < len(robot.states) / RATE,
        "a second of rest once nobody wishes anything",
    )
    rest = np.array(robot.states[-1].position)
    one = JointState(name=["joint_3"], velocity=[-1.0])
    turned = driven(lambda: robot.states[-1].position[2] < rest[2] - 0.3, lambda: joints.publish(one))
    robot.hear(turned, "a turn of joint 3")
    still = np.array(robot.states[-1].position)
    np.testing.assert_allclose(np.delete(still, 2), np.delete(rest, 2), atol=1e-12)
    joints.publish(JointState(name=["elbow"], velocity=[1.0]))
    demonstrator.wait_for_log("unknown joints: ['elbow']")
    for publisher in (twist, joints):
        client.node.destroy_publisher(publisher)
    assert demonstrator.stop() == 0, demonstrator.log


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"driver": "ghost"}, "driver must be one of"),
        ({"goal_start": (1.0,)}, "points of x, y"),
        ({"last_shift": (1.0,)}, "last_shift must be two numbers x, y"),
        ({"n_places": 2, "set_task": False}, "set_task must be true"),
    ],
)
def test_bad_parameter_is_refused_with_a_reason(parameters: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        DemonstratorSettings(**parameters)
