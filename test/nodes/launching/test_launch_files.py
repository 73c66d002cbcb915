"""Nodes of launch files become active, restart when they are killed, and end on Ctrl-C.

The tests need the real `launch`, which comes with ROS 2 but is not on PyPI.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bags.example_bags import joint_state, write_own
from lifecycle_msgs.srv import GetState
from nodes.client_node import NODE, ClientNode, request
from nodes.server_process import PATIENCE, LoggedProcess

from eim_ros.ik import Sampler, Solutions
from eim_ros.kinematics import Robot
from eim_ros.nodes.__main__ import NODES

pytest.importorskip("launch_ros", reason="launch comes with ROS 2, not from PyPI")

FOLDER = Path(__file__).resolve().parents[3] / "launch"
FILES = {  # nodes of each file, and arguments that start all of them
    "ik_server": (("ik_server",), ("robot:=planar3",)),
    "ik_viewer": (("ik_viewer",), ("robot:=planar3",)),
    "motion_prior": (("motion_prior_server",), ()),
    "trainer": (("trainer",), ()),
    "record": (("demo_recorder", "fk_collector"), ("collect:=true", "robot:=planar3")),
    "learn_ik": (
        ("ik_server", "trainer", "fk_collector", "training_coordinator"),
        ("robot:=planar3", "iterations:=1000000"),  # longer than the test
    ),
    "planar_demo": (("planar_simulator", "demo_recorder", "demonstrator", "trainer"), ()),
}
OF_ALL = {"namespace", "params_file", "autostart", "respawn", "respawn_delay", "use_sim_time", "log_level"}

PROGRAM = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import AnyLaunchDescriptionSource

path, *given = sys.argv[1:]
arguments = [tuple(text.split(":=", 1)) for text in given]
service = LaunchService(noninteractive=True)
service.include_launch_description(
    LaunchDescription([IncludeLaunchDescription(AnyLaunchDescriptionSource(path), launch_arguments=arguments)])
)
sys.exit(service.run())
"""


class LaunchProcess(LoggedProcess):
    """Process of `launch` for a launch file, in a separate session. Its log contains the logs of the nodes."""

    def __init__(self, path: Path, log: Path, prefix: Path, arguments: tuple[str, ...]) -> None:
        environment = dict(os.environ)
        environment["AMENT_PREFIX_PATH"] = os.pathsep.join(
            filter(None, [str(prefix), environment.get("AMENT_PREFIX_PATH", "")])
        )
        environment["ROS_LOG_DIR"] = str(log.parent)
        environment["PYTHONUNBUFFERED"] = "1"
        super().__init__([sys.executable, "-c", PROGRAM, str(path), *arguments], log, environment)

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"no {what} within {PATIENCE} s:\n{self.log}"
            assert self.is_running, f"the launch ended:\n{self.log}"
            time.sleep(0.05)

    def pids(self, executable: str) -> list[int]:
        """Return the process identifiers of a node so far, in the order of their starts."""
        started = re.findall(rf"\[{executable}-\d+\]: process started with pid \[(\d+)\]", self.log)
        return [int(number) for number in started]

    def wait(self) -> int:
        """Wait until the launch ends without a signal, and return its exit code."""
        return self._process.wait(PATIENCE)

    def interrupt(self) -> int:
        """Send SIGINT to every process of the group, as Ctrl-C does, and return the exit code of the launch."""
        os.killpg(self._process.pid, signal.SIGINT)
        return self._process.wait(PATIENCE)


Start = Callable[..., LaunchProcess]


def load(name: str) -> Any:
    """Return the description of a launch file."""
    sources = importlib.import_module("launch.launch_description_sources")
    return sources.get_launch_description_from_python_launch_file(str(FOLDER / f"{name}.launch.py"))


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an installation prefix with executables like those of CMake, and an entry in the ament index."""
    folder: Path = tmp_path_factory.mktemp("prefix")
    (folder / "lib/eim_ros").mkdir(parents=True)
    for name in NODES:
        path = folder / "lib/eim_ros" / name
        lines = ("import sys", "from eim_ros.nodes.__main__ import main", "sys.exit(main())")
        path.write_text("\n".join([f"#!{sys.executable}", *lines, ""]))
        path.chmod(0o755)
    marks = folder / "share/ament_index/resource_index/packages"
    marks.mkdir(parents=True)
    (marks / "eim_ros").touch()
    return folder


@pytest.fixture
def start(prefix: Path, tmp_path: Path) -> Iterator[Start]:
    launches: list[LaunchProcess] = []

    def start(name: str, *arguments: str) -> LaunchProcess:
        log = tmp_path / f"{len(launches)}.log"
        launches.append(LaunchProcess(FOLDER / f"{name}.launch.py", log, prefix, arguments))
        return launches[-1]

    yield start
    for launch in launches:
        launch.kill()


def is_gone(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return False
    return True


def state_of_restarted(client: ClientNode, launch: LaunchProcess, node: str) -> str:
    """Return the state of a restarted node. Repeat requests, because a killed server remains listed for a while."""
    service = client.client(launch, GetState, f"{node}/get_state")
    answers: list[GetState.Response] = []

    def ask() -> bool:
        future = service.call_async(GetState.Request())
        client.executor.spin_until_future_complete(future, 1.0)
        answers.extend([future.result()] if future.done() else [])
        return bool(answers)

    launch.wait_for(ask, f"answer of the second {node}")
    return str(answers[0].current_state.label)


def test_every_launch_file_is_tried() -> None:
    assert {path.name.removesuffix(".launch.py") for path in FOLDER.glob("*.launch.py")} == set(FILES)
    assert {node for nodes, _ in FILES.values() for node in nodes} == set(NODES)


@pytest.mark.parametrize("name", FILES)
def test_every_launch_file_has_the_arguments_of_all_and_names_for_its_nodes(name: str) -> None:
    arguments = {argument.name: argument for argument in load(name).get_launch_arguments()}
    assert set(arguments) >= OF_ALL
    assert all(argument.description for argument in arguments.values())
    assert len([word for word in arguments if word == "name" or word.endswith("_name")]) >= len(FILES[name][0])


@pytest.mark.parametrize("name", FILES)
def test_nodes_are_active_come_back_when_killed_and_end_by_one_interrupt(
    client: ClientNode, start: Start, name: str
) -> None:
    client.waits_for_start = False
    executables, arguments = FILES[name]
    launch = start(name, f"namespace:=/{name}", "respawn:=true", "respawn_delay:=0.1", *arguments)
    for executable in executables:
        launch.wait_for(lambda node=executable: f"{name}.{node}]: serving" in launch.log, f"{executable} that serves")
        assert client.state(launch, f"/{name}/{executable}") == "active"
    victim = executables[0]
    os.kill(launch.pids(victim)[0], signal.SIGKILL)
    launch.wait_for(lambda: launch.log.count(f"{name}.{victim}]: serving") == 2, f"second {victim}")
    assert state_of_restarted(client, launch, f"/{name}/{victim}") == "active"
    pids = [launch.pids(executable)[-1] for executable in executables]
    assert launch.interrupt() == 0, launch.log
    assert all(map(is_gone, pids))
    assert "Traceback" not in launch.log
    finished = launch.log.count("process has finished cleanly")
    assert finished == len(executables), launch.log
    assert "escalating" not in launch.log


def test_arguments_reach_the_node(client: ClientNode, start: Start, tmp_path: Path) -> None:
    client.waits_for_start = False
    (tmp_path / "own.yaml").write_text("/**:\n  ros__parameters:\n    max_samples: 7\n    tip_link: link_2\n")
    launch = start(
        *("ik_server", "namespace:=left", "name:=solver", f"params_file:={tmp_path / 'own.yaml'}"),
        *("model:=none", "robot:=planar3", "autostart:=false", "use_sim_time:=true", "log_level:=debug"),
    )
    node = "/left/solver"
    assert client.state(launch, node) == "unconfigured"
    wanted = {"max_samples": 7, "tip_link": "link_2", "model": "none", "robot": "planar3", "autostart": False}
    wanted |= {"use_sim_time": True, "use_robot_description_topic": False}
    assert client.parameters(launch, node, *wanted) == list(wanted.values())
    assert client.change_state(launch, "configure", node), launch.log
    assert client.parameters(launch, node, "chain.tip_link") == ["link_2"]
    assert launch.interrupt() == 0, launch.log


def test_robot_comes_from_the_topic_that_another_launch_file_describes_it_on(client: ClientNode, start: Start) -> None:
    client.waits_for_start = False
    topic = "robot_description_topic:=/planar/urdf"
    demo = start("planar_demo", "namespace:=/planar", topic)
    demo.wait_for(lambda: "planar_simulator]: serving" in demo.log, "simulator")
    launch = start("ik_server", "model:=none", topic)
    launch.wait_for(lambda: "ik_server]: serving" in launch.log, "server of the simulated robot")
    assert len(client.parameters(launch, NODE, "chain.joint_names")[0]) == 10
    assert (demo.interrupt(), launch.interrupt()) == (0, 0)


@pytest.mark.parametrize(
    ("argument", "reason"),
    [("respawn:=perhaps", "respawn must be true or false"), ("respawn_delay:=-1", "must be a time in seconds")],
)
def test_bad_argument_is_named(start: Start, argument: str, reason: str) -> None:
    launch = start("trainer", argument)
    assert launch.wait() != 0
    assert reason in launch.log


QUICK = ("robot:=planar3", "experts:=3", "iterations:=3", "samples:=300")


@pytest.mark.parametrize("source", ["samples", "recording"])
def test_model_is_learned_and_served_by_one_launch(
    client: ClientNode, start: Start, tmp_path: Path, source: str
) -> None:
    client.waits_for_start = False
    robot, arguments = Robot("planar3"), [*QUICK, f"data_directory:={tmp_path}"]
    if source == "recording":
        times = 0.02 * np.arange(300)
        swings = np.sin(np.outer(times, 1.0 + np.arange(robot.dof)))
        bag = [joint_state(time, robot.joint_names, q) for time, q in zip(times, swings, strict=True)]
        arguments.append(f"bag:={write_own(tmp_path / 'swings', bag)}")
    launch = start("learn_ik", *arguments)
    launch.wait_for(lambda: "[training_coordinator-" in launch.log and "ik_server answers with" in launch.log, "model")
    (path,) = (tmp_path / "learn_ik").glob("*.safetensors")
    assert f"ik_server answers with {path}" in launch.log
    assert client.parameters(launch, NODE, "model") == [str(path)]
    position = robot.fk(np.full(robot.dof, 0.5))[:3, 3]
    samples = Solutions.from_message(client.sample(launch, request(position)))
    assert len(samples) == 10
    sampler = Sampler.load(path, robot).with_constraints(position_only=True)
    ours = sampler.sample([*position, 0.0, 0.0, 0.0, 1.0], 10, seed=0)
    np.testing.assert_array_equal(samples.q, ours.q)
    np.testing.assert_array_equal(samples.log_prob, ours.log_prob)
    assert np.ptp(samples.log_prob) > 0.1  # values would be equal without a model
    finished = ["training_coordinator", *(["fk_collector"] if source == "samples" else [])]
    pids = [pid for name in finished for pid in launch.pids(name)]
    launch.wait_for(lambda: all(map(is_gone, pids)), "end of the nodes that are done")
    assert len(pids) == len(finished)
    assert launch.interrupt() == 0, launch.log


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("robot:=/missing.urdf", "ended with exit code 1"),
        ("bag:=missing", "training_coordinator ended with exit code 1"),
        ("experts:=-1", "training_coordinator ended with exit code 1"),
        ("folder:=../outside", "training_coordinator ended with exit code 1"),
        ("samples:=many", "samples must be an integer, got 'many'"),
    ],
)
def test_failure_ends_the_launch(start: Start, tmp_path: Path, argument: str, reason: str) -> None:
    launch = start("learn_ik", *QUICK, f"data_directory:={tmp_path}", argument)
    assert launch.wait() == 1, launch.log
    assert reason in launch.log
    assert all(is_gone(pid) for name in NODES for pid in launch.pids(name))


def test_killed_trainer_ends_the_launch(start: Start, tmp_path: Path) -> None:
    launch = start("learn_ik", *QUICK, "iterations:=1000000", f"data_directory:={tmp_path}")
    launch.wait_for(lambda: "training: preparing" in launch.log or "training: fitting" in launch.log, "training")
    os.kill(launch.pids("trainer")[0], signal.SIGKILL)
    assert launch.wait() == 1, launch.log
    assert "trainer ended with exit code -9" in launch.log
