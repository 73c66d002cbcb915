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

from eim_ros.cli.main import main as eim
from eim_ros.core.data_set import load_data_set
from eim_ros.ik.data import context_kind_of, robot_of
from eim_ros.kinematics import Robot
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


def test_process_ends_with_a_reason_where_there_is_no_robot(start_server: Callable[..., ServerProcess]) -> None:
    server = start_server(node="fk_collector", use_robot_description_topic=True, robot_description_timeout=0.2)
    assert server.wait() == 1
    assert "no URDF came on /robot_description within 0.2 s" in server.log
    assert "Traceback" not in server.log
