"""Pairs from the process of the node `fk_collector` match the motion of the robot, and `eim train` accepts them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nodes.client_node import ClientNode
from nodes.joint_state_publisher import Robot as RobotTopic
from nodes.server_process import ServerProcess

from eim_ros.cli.main import main as eim
from eim_ros.core.data_set import load_data_set
from eim_ros.ik.data import context_kind_of, robot_of
from eim_ros.kinematics import Robot
from eim_ros.msg import CollectorStatus
from eim_ros.srv import SaveData

ROBOT = Robot("planar3")


class Collector:
    """Client of the services of the node."""

    def __init__(self, client: ClientNode, server: ServerProcess, node: str = "/fk_collector") -> None:
        self.client, self.server, self.node = client, server, node

    def ask(self, service: str) -> tuple[bool, str]:
        answer = self.client.trigger(self.server, f"{self.node}/{service}")
        return answer.success, answer.message

    def save(self, path: Path) -> SaveData.Response:
        return self.client.call(self.server, SaveData, f"{self.node}/save", SaveData.Request(path=str(path)))

    def status(self, wanted: Callable[[Any], bool], what: str) -> CollectorStatus:
        return self.client.next_message(self.server, CollectorStatus, f"{self.node}/status", wanted, what)


@pytest.fixture(scope="module")
def collector(start_server: Callable[..., ServerProcess], client_of_file: ClientNode) -> Collector:
    given = {"robot": "planar3", "n_wanted": 40, "status_period": 0.1, "context": "pose"}
    return Collector(client_of_file, start_server(node="fk_collector", **given))


def test_pairs_are_the_joint_states_by_name_and_what_they_reach(
    client: ClientNode, collector: Collector, tmp_path: Path
) -> None:
    nothing = collector.save(tmp_path / "d.npz")
    assert (nothing.success, "~/start first" in nothing.message) == (False, True)
    topic = RobotTopic(client, collector.server, "/joint_states", ["gripper", *reversed(ROBOT.joint_names)])
    shown = ROBOT.random(50, np.random.default_rng(0))
    assert collector.ask("start")[0]
    assert collector.ask("start") == (False, "a collection is already running: call ~/stop first")
    topic.wait_for_listener()
    for q in shown[:20]:
        topic.publish(9.0, *q[::-1])
    for bad in ([0.0, 0.0, 4.0], [np.nan, 0.0, 0.0], shown[19][::-1]):
        topic.publish(9.0, *bad)
    told = collector.status(lambda message: message.n_dropped == 3, "dropped joint states")
    assert (told.collecting, told.n_samples, told.n_wanted) == (True, 20, 40)
    assert "min_distance" in told.message
    success, message = collector.ask("stop")
    assert success
    assert message.startswith("20 pairs were collected; 3 joint states were skipped;")
    topic.wait_for_no_listener()
    topic.publish(9.0, *shown[40][::-1])  # not collected

    assert "continues after 20 pairs" in collector.ask("start")[1]
    topic.wait_for_listener()
    for q in shown[20:]:
        topic.publish(9.0, *q[::-1])
    full = collector.status(lambda message: not message.collecting, "the wanted number")
    assert (full.n_samples, full.n_lost) == (40, 0)
    assert "are not saved yet" in collector.ask("start")[1]

    answer = collector.save(tmp_path / "new" / "d.npz")
    assert answer.success, answer.message
    assert (answer.path, answer.n_samples) == (str(tmp_path / "new" / "d.npz"), 40)
    data_set = load_data_set(answer.path)
    assert np.array_equal(data_set.sample, shown[:40])
    assert robot_of(data_set).fingerprint == ROBOT.fingerprint
    assert context_kind_of(data_set) == "pose"
    assert np.allclose(data_set.context[:, :3], ROBOT.fk(shown[:40])[:, :3, 3], rtol=0, atol=1e-12)
    topic.destroy()


def test_stop_tells_that_nothing_came(collector: Collector) -> None:
    assert collector.ask("start")[0]
    told = collector.status(lambda message: message.collecting, "a status")
    assert "no message arrived on /joint_states" in told.message
    assert "no message arrived on /joint_states" in collector.ask("stop")[1]
    assert collector.ask("stop") == (False, "no collection is running: call ~/start first")


def test_unwritable_path_is_refused_and_the_pairs_are_kept(
    client: ClientNode, start_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    given = {"robot": "planar3", "source": "sampling", "n_wanted": 500}
    sampler = Collector(client, start_server("-r", "__node:=sampler", node="fk_collector", **given), "/sampler")
    assert sampler.ask("start")[0]
    sampler.status(lambda message: message.n_samples == 500, "500 samples")
    (tmp_path / "file").touch()
    refused = sampler.save(tmp_path / "file" / "d.npz")
    assert (refused.success, "cannot write" in refused.message) == (False, True)
    assert sampler.save(tmp_path / "d.npz").n_samples == 500
    expected = ROBOT.random(500, np.random.default_rng(0))
    assert np.array_equal(load_data_set(tmp_path / "d.npz").sample, expected)
    model = tmp_path / "m.safetensors"
    words = ["train", "--robot", "planar3", "--data", str(tmp_path / "d.npz"), "--algorithm", "em", "--experts", "2"]
    assert eim([*words, "--output", str(model), "--quiet"]) == 0
    assert model.is_file()
