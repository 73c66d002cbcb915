"""The node `demonstrator` beside a real simulator: motions of the expert succeed; a person drives the robot."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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

from eim_ros.msg import TaskStatus
from eim_ros.nodes.planar_simulator.messages import seconds
from eim_ros.nodes.planar_simulator.settings import PlanarSettings

Start = Callable[..., ServerProcess]
Started = Callable[[str], PlanarRobot]
SMALL = {  # 4 links of 1 m that reach a short line behind a disc
    "n_links": 4,
    "goal_start": "[2.8, -1.5]",
    "goal_end": "[2.8, 1.5]",
    "obstacles": "[1.9, 0.0, 0.3]",
    "velocity_limit": 12.0,  # [rad/s] four times that of a real robot: a motion takes no longer than it has to
}
START = PlanarSettings(n_links=4).start_configuration()


@pytest.fixture
def started(start_server: Start, client: ClientNode) -> Iterator[Started]:
    """Starts a simulator in a namespace; it ends with the test, for it keeps a core busy."""
    robots: list[PlanarRobot] = []

    def start(space: str) -> PlanarRobot:
        server = start_server("-r", f"__ns:={space}", node="planar_simulator", n_links=4, velocity_limit=12.0)
        robots.append(PlanarRobot(client, server, space))
        return robots[-1]

    yield start
    for robot in robots:
        robot.close()
        assert robot.server.stop() == 0, robot.server.log


def test_motions_of_the_expert_are_shown_one_after_the_other_and_succeed(
    start_server: Start, started: Started, client: ClientNode
) -> None:
    robot = started("/expert")
    places = {"n_places": 3, "last_shift": "[0.2, 0.0]"}  # the goal moves after each motion
    given = {**SMALL, **places, "n_motions": 3, "show_at_start": False, "pause": 0.05, "speed_share": 0.9}
    goals: list[list[float]] = []
    demonstrator = start_server("-r", "__ns:=/expert", node="demonstrator", **given)
    shown: list[int] = []
    latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    subscription = client.node.create_subscription(
        UInt32, "/expert/demonstrator/progress", lambda message: shown.append(message.data), latched
    )
    of_goal = client.node.create_subscription(
        Float64MultiArray, "/expert/planar_simulator/goal", lambda message: goals.append(list(message.data)), latched
    )
    begin = client.call(demonstrator, Trigger, "/expert/demonstrator/start", Trigger.Request())
    assert begin.success
    again = client.call(demonstrator, Trigger, "/expert/demonstrator/start", Trigger.Request())
    assert not again.success
    assert "already" in again.message
    robot.hear(lambda: shown and shown[-1] == 3, f"three motions; {demonstrator.log}", 120.0)
    demonstrator.wait_for_log("3 of 3 motions succeeded")
    assert shown == [0, 1, 2, 3]

    def changes() -> list[TaskStatus]:
        return [
            after
            for before, after in zip(robot.statuses, robot.statuses[1:], strict=False)
            if before.moving != after.moving
        ]

    # topics are read one after the other: statuses may come later than the progress, joint states later than both
    robot.hear(lambda: len(changes()) >= 6, "three begins and three ends")
    last_end = seconds(changes()[5].header.stamp)
    robot.hear(lambda: seconds(robot.states[-1].header.stamp) >= last_end, "joint states of all motions")
    assert len(changes()) == 6
    assert not robot.refusals
    ends = [
        before
        for before, after in zip(robot.states, robot.states[1:], strict=False)
        if np.array_equal(after.position, START) and not np.array_equal(before.position, START)
    ]
    assert len({tuple(message.position) for message in ends}) == 2  # between three motions, and they differ
    assert np.array(goals[-3:]) == pytest.approx(np.array([[x, -1.5, x, 1.5] for x in (2.8, 2.9, 3.0)]))
    client.node.destroy_subscription(subscription)
    client.node.destroy_subscription(of_goal)
    assert demonstrator.stop() == 0, demonstrator.log


def test_process_ends_when_asked_to_after_the_last_motion(start_server: Start, started: Started) -> None:
    started("/once")
    given = {**SMALL, "n_motions": 1, "pause": 0.0, "exit_when_done": True}
    demonstrator = start_server("-r", "__ns:=/once", node="demonstrator", **given)
    assert demonstrator.wait(120.0) == 0, demonstrator.log
    assert "1 of 1 motions succeeded" in demonstrator.log
    assert "Traceback" not in demonstrator.log


def test_task_out_of_reach_is_said_and_the_node_lives_on(
    start_server: Start, started: Started, client: ClientNode
) -> None:
    started("/far")
    given = {**SMALL, "goal": "point", "goal_start": "[9.0, 0.0]", "n_motions": 1}
    demonstrator = start_server("-r", "__ns:=/far", node="demonstrator", **given)
    demonstrator.wait_for_log("do not let it reach the goal")
    assert client.call(demonstrator, Trigger, "/far/demonstrator/start", Trigger.Request()).success
    assert demonstrator.stop() == 0, demonstrator.log


def test_person_moves_the_tip_and_single_joints(start_server: Start, started: Started, client: ClientNode) -> None:
    robot = started("/person")
    demonstrator = start_server("-r", "__ns:=/person", node="demonstrator", n_links=4, driver="person")
    twist = client.node.create_publisher(Twist, "/person/demonstrator/twist", 10)
    joints = client.node.create_publisher(JointState, "/person/demonstrator/joint_velocity", 10)
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
        lambda: len({tuple(message.position) for message in robot.states[-200:]}) == 1 < len(robot.states) / 200,
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
        ({"goal_start": "[1.0]"}, "points of x, y"),
        ({"last_shift": "[1.0]"}, "last_shift must be x, y"),
        ({"n_places": 2, "set_task": False}, "need set_task"),
    ],
)
def test_bad_parameter_ends_the_start_with_a_reason(
    start_server: Start, parameters: dict[str, object], reason: str
) -> None:
    server = start_server(node="demonstrator", **parameters)
    assert server.wait() == 1, server.log
    assert reason in server.log
    assert "Traceback" not in server.log
