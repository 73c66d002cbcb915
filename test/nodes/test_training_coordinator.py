"""With real nodes, the node `training_coordinator` gives the server a new model, and ends if something fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nodes.client_node import NODE, ClientNode, request
from nodes.joint_state_publisher import Robot as MovingRobot
from nodes.server_process import ServerProcess

from eim_ros.ik import IKModel, Solutions
from eim_ros.ik.prior import UNIFORM_CONFIGURATIONS
from eim_ros.kinematics import Robot
from eim_ros.srv import StartRecording

N_EXPERTS = 3
ROBOT = "planar3"
QUICK = {"settings": f"[n_components={N_EXPERTS}, n_iterations=3, ratio.reference.starts=1]", "report_period": 0.5}

Coordinate = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("coordinated")


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess], folder: Path) -> ServerProcess:
    """Start a collector, a trainer, and a server without a model."""
    start_server(node="fk_collector", robot=ROBOT, source="sampling", rate=1e5, n_wanted=300, data_directory=folder)
    start_server(node="trainer", folder="models", data_directory=folder)
    return start_server(model="none", robot=ROBOT, data_directory=folder)


@pytest.fixture
def coordinate(start_server: Callable[..., ServerProcess], folder: Path, server: ServerProcess) -> Coordinate:
    """Return a function that runs a coordinator and returns its exit code and log."""

    def run(**parameters: object) -> tuple[int, str]:
        given = {"data_directory": folder, **QUICK, **parameters}
        process = start_server(node="training_coordinator", **given)
        return process.wait(), process.log

    return run


@pytest.fixture(scope="module")
def recording(start_server: Callable[..., ServerProcess], client_of_file: ClientNode, folder: Path) -> str:
    """Record a robot that swings all joints, and return the path of the bag relative to the data directory."""
    client = client_of_file
    recorder = start_server(node="demo_recorder", data_directory=folder, min_free_space=1_000_000)
    start = StartRecording.Request(path="demos/swings")
    assert client.call(recorder, StartRecording, "/demo_recorder/start", start).success
    names = Robot(ROBOT).joint_names
    moving = MovingRobot(client, recorder, "/joint_states", names)
    moving.wait_for_listener()
    for step in range(200):
        moving.publish(*np.sin(0.02 * step * (1.0 + np.arange(len(names)))))
        time.sleep(0.01)
    assert client.trigger(recorder, "/demo_recorder/stop").success
    moving.destroy()
    return start.path


def check_served(client: ClientNode, server: ServerProcess, folder: Path, data_source: str) -> None:
    """Check that the newest model is loaded, and that every sample comes from one of its experts."""
    newest = max((folder / "models").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert client.parameters(server, NODE, "model") == [str(newest)]
    record = IKModel.load(newest).training
    assert (record["algorithm"], record["data_source"]) == ("eim-kinematics", data_source)
    robot = Robot(ROBOT)
    position = robot.fk(np.full(robot.dof, 0.5))[:3, 3]
    wanted = request(position)
    wanted.diversity = 0.0  # plain samples of the model
    samples = Solutions.from_message(client.sample(server, wanted))
    assert 5 < len(samples) <= 10
    assert set(samples.expert.tolist()) <= set(range(N_EXPERTS))
    assert np.isfinite(samples.log_prob).all()


def test_server_answers_with_a_model_of_collected_pairs(
    client: ClientNode, server: ServerProcess, coordinate: Coordinate, folder: Path
) -> None:
    code, log = coordinate()
    assert code == 0, log
    assert "collecting: 300 pairs" in log
    check_served(client, server, folder, UNIFORM_CONFIGURATIONS)


def test_server_answers_with_a_model_of_a_recording(
    client: ClientNode, server: ServerProcess, coordinate: Coordinate, folder: Path, recording: str
) -> None:
    code, log = coordinate(bag=recording, robot=ROBOT)
    assert code == 0, log
    check_served(client, server, folder, "bags, poses by forward kinematics")


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        (
            {"folder": "../outside"},
            "is refused: paths received over ROS must be printable, without '~', and must lie in",
        ),
        ({"folder": "occupied"}, "collecting failed: fk_collector did not save the pairs: "),
        ({"bag": "demos/swings"}, "importing failed: --task ik needs a robot: give --robot"),
        ({"settings": "[n_components=-1]", "bag": "demos/swings", "robot": ROBOT}, "the training returned no model: "),
    ],
)
def test_failure_ends_the_process_with_its_reason(
    coordinate: Coordinate, folder: Path, recording: str, parameters: dict[str, object], reason: str
) -> None:
    (folder / "occupied").touch()
    code, log = coordinate(**parameters)
    assert code == 1
    assert reason in log
    assert "Traceback" not in log
