"""The node `fk_collector` as a real process: its pairs are what the robot showed; `eim train` takes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nodes.client_node import ClientNode
from nodes.recorder_client import Robot as RobotTopic
from nodes.recorder_client import status, trigger
from nodes.server_process import ServerProcess
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from eim_ros.cli.main import main as eim
from eim_ros.core.data_set import load_data_set
from eim_ros.ik.data import context_kind_of, robot_of
from eim_ros.kinematics import Robot, share_path
from eim_ros.msg import CollectorStatus
from eim_ros.srv import SaveData

NODE = "/fk_collector"
ROBOT = Robot("planar3")


@pytest.fixture(scope="module")
def collector(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    return start_server(node="fk_collector", robot="planar3", n_wanted=40, status_period=0.1, context="pose")


def save(client: ClientNode, server: ServerProcess, path: Path, node: str = NODE) -> Any:
    return client.call(server, SaveData, f"{node}/save", SaveData.Request(path=str(path)))


def status_of(
    client: ClientNode, server: ServerProcess, wanted: Callable[[Any], bool], what: str, node: str = NODE
) -> CollectorStatus:
    return status(client, server, CollectorStatus, f"{node}/status", wanted, what)


def test_pairs_are_the_joint_states_by_name_and_what_they_reach(
    client: ClientNode, collector: ServerProcess, tmp_path: Path
) -> None:
    nothing = save(client, collector, tmp_path / "d.npz")
    assert not nothing.success
    assert "start first" in nothing.message
    names = ["gripper", *reversed(ROBOT.joint_names)]
    topic = RobotTopic(client, "/joint_states", names)
    rng = np.random.default_rng(0)
    shown = ROBOT.random(50, rng)
    assert trigger(client, collector, f"{NODE}/start").success
    again = trigger(client, collector, f"{NODE}/start")
    assert not again.success
    assert "already collecting" in again.message
    topic.wait_for_listener(collector)
    for q in shown[:20]:
        topic.publish([9.0, *q[::-1]])
    for bad in ([9.0, 0.0, 0.0, 4.0], [9.0, np.nan, 0.0, 0.0], [9.0, *shown[19][::-1]]):
        topic.publish(bad)
    told = status_of(client, collector, lambda message: message.n_dropped == 3, "dropped joint states")
    assert (told.collecting, told.n_samples, told.n_wanted) == (True, 20, 40)
    assert "min_distance" in told.message
    stopped = trigger(client, collector, f"{NODE}/stop")
    assert stopped.success
    assert stopped.message.startswith("20 pairs, 3 joint states left out;")
    topic.wait_for_no_listener(collector)
    topic.publish([9.0, *shown[40][::-1]])  # not collected

    assert "going on after 20 pairs" in trigger(client, collector, f"{NODE}/start").message
    topic.wait_for_listener(collector)
    for q in shown[20:]:
        topic.publish([9.0, *q[::-1]])
    full = status_of(client, collector, lambda message: not message.collecting, "the wanted number")
    assert (full.n_samples, full.n_lost) == (40, 0)
    refused = trigger(client, collector, f"{NODE}/start")
    assert "wait to be saved" in refused.message

    answer = save(client, collector, tmp_path / "new" / "d.npz")
    assert answer.success, answer.message
    assert (answer.path, answer.n_samples) == (str(tmp_path / "new" / "d.npz"), 40)
    data_set = load_data_set(answer.path)
    assert np.array_equal(data_set.sample, shown[:40])
    assert robot_of(data_set).fingerprint == ROBOT.fingerprint
    assert context_kind_of(data_set) == "pose"
    assert np.allclose(data_set.context[:, :3], ROBOT.fk(shown[:40])[:, :3, 3], rtol=0, atol=1e-12)
    topic.destroy()


@pytest.mark.parametrize("n_states", [1000, 3000])
def test_busy_moment_loses_nothing_of_a_second_and_what_is_lost_later_is_counted(
    client: ClientNode, start_server: Callable[..., ServerProcess], n_states: int
) -> None:
    """The publisher keeps the last 1000 joint states, a second of them at 1 kHz."""
    node = f"/busy_{n_states}"
    given = {"robot": "planar3", "status_period": 0.1, "min_distance": 0.0}
    server = start_server("-r", f"__node:={node[1:]}", node="fk_collector", **given)
    topic = RobotTopic(client, "/joint_states", ROBOT.joint_names)
    topic.wait_for_no_listener(server)
    assert trigger(client, server, f"{node}/start").success
    topic.wait_for_listener(server)
    topic.publish([0.0] * ROBOT.dof)
    status_of(client, server, lambda message: message.n_samples == 1, "the first joint state", node)
    topic.publish_while_stopped(server, n_states)
    told = status_of(
        client, server, lambda message: message.n_samples + message.n_lost == 1 + n_states, "all of them", node
    )
    assert (told.n_lost == 0) == (n_states <= 1000)
    assert told.n_samples > 1000
    stopped = trigger(client, server, f"{node}/stop").message
    assert ("lost" in stopped) == (told.n_lost > 0)
    topic.destroy()
    assert server.stop() == 0, server.log


def test_stop_tells_that_nothing_came(client: ClientNode, collector: ServerProcess) -> None:
    assert trigger(client, collector, f"{NODE}/start").success
    told = status_of(client, collector, lambda message: message.collecting, "a status")
    assert "nothing came on /joint_states" in told.message
    assert "nothing came on /joint_states" in trigger(client, collector, f"{NODE}/stop").message
    again = trigger(client, collector, f"{NODE}/stop")
    assert not again.success
    assert "not collecting" in again.message


def test_unwritable_path_is_refused_and_the_pairs_are_kept(
    client: ClientNode, start_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    server = start_server(
        "-r", "__node:=sampler", node="fk_collector", robot="planar3", source="sampling", n_wanted=500
    )
    assert trigger(client, server, "/sampler/start").success
    status_of(client, server, lambda message: message.n_samples == 500, "500 samples", "/sampler")
    (tmp_path / "file").write_text("")
    refused = save(client, server, tmp_path / "file" / "d.npz", "/sampler")
    assert not refused.success
    assert "cannot write" in refused.message
    answer = save(client, server, tmp_path / "d.npz", "/sampler")
    assert answer.n_samples == 500
    expected = ROBOT.random(500, np.random.default_rng(0))
    assert np.array_equal(load_data_set(tmp_path / "d.npz").sample, expected)
    model = tmp_path / "m.safetensors"
    words = ["train", "--robot", "planar3", "--data", str(tmp_path / "d.npz"), "--algorithm", "em", "--experts", "2"]
    assert eim([*words, "--output", str(model), "--quiet"]) == 0
    assert model.is_file()


def test_robot_of_the_description_topic(
    client: ClientNode, start_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    publisher = client.node.create_publisher(String, "/robot_description", latched)
    publisher.publish(String(data=share_path("urdf/planar5.urdf").read_text()))
    server = start_server(
        "-r", "__node:=of_topic", node="fk_collector", use_robot_description_topic=True, source="sampling", n_wanted=3
    )
    assert trigger(client, server, "/of_topic/start").success
    status_of(client, server, lambda message: message.n_samples == 3, "3 samples", "/of_topic")
    assert save(client, server, tmp_path / "d.npz", "/of_topic").success
    assert robot_of(load_data_set(tmp_path / "d.npz")).name == "planar5"
    client.node.destroy_publisher(publisher)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({}, "no robot: give one of the parameters"),
        ({"robot": "planar3", "tip_link": "hand"}, "hand"),
        ({"robot": "planar3", "use_robot_description_topic": True}, "give the robot once"),
        ({"robot": "planar3", "source": "dreams"}, "source"),
        ({"use_robot_description_topic": True, "robot_description_timeout": 0.2}, "no URDF came on /robot_description"),
    ],
)
def test_process_ends_with_a_reason_where_there_is_no_robot(
    start_server: Callable[..., ServerProcess], parameters: dict[str, object], reason: str
) -> None:
    server = start_server(node="fk_collector", **parameters)
    assert server.wait() == 1
    assert reason in server.log
    assert "Traceback" not in server.log
