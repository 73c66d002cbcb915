"""The table of nodes, their parameters, and the public names of `eim_ros.nodes` are complete."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from eim_ros import nodes
from eim_ros.core.settings import read_yaml
from eim_ros.kinematics import share_path
from eim_ros.nodes import __main__ as processes
from eim_ros.nodes.common import process
from eim_ros.nodes.common.parameters import descriptor
from eim_ros.nodes.common.process import PROFILES_VARIABLES, TRANSPORTS_VARIABLE
from eim_ros.nodes.settings import IkServerSettings


@pytest.fixture(autouse=True)
def signal_handlers() -> Iterator[None]:
    """Restore the signal handlers of the test process after `main` has replaced them."""
    handlers = {number: signal.getsignal(number) for number in process.SIGNALS}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", processes.NODES)
def test_shipped_parameter_file_lists_every_parameter_with_its_default(name: str) -> None:
    values = read_yaml(share_path(f"config/{name}.yaml"))["/**"]["ros__parameters"]
    defaults = processes.NODES[name].settings().to_mapping()
    assert values == defaults
    types = {key: type(value) for key, value in values.items()}  # for ROS, 1 is not a double
    assert types == {key: type(value) for key, value in defaults.items()}


def test_no_free_text_that_a_running_node_takes_can_be_a_path() -> None:
    free = {
        f"{name}.{field.name}"
        for name, entry in processes.NODES.items()
        for field in dataclasses.fields(entry.settings)
        if "str" in str(field.type) and not field.metadata["choices"] and not field.metadata["read_only"]
    }
    assert free == {"demo_recorder.topics", "trainer.device"}


@pytest.mark.parametrize("name", processes.NODES)
def test_every_parameter_has_a_description_and_admits_its_default(name: str) -> None:
    for field in dataclasses.fields(processes.NODES[name].settings):
        described = descriptor(field)
        assert field.metadata["description"].endswith("."), field.name
        for bounds in (*described.integer_range, *described.floating_point_range):
            assert bounds.from_value <= field.default <= bounds.to_value, field.name


@pytest.mark.parametrize("words", [["/opt/lib/eim_ros/trainer", "-x"], ["/site-packages/nodes/__main__.py", "trainer"]])
def test_a_node_is_found_by_the_name_of_the_program_or_by_the_first_word(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    runs: list[tuple[object, ...]] = []
    monkeypatch.setattr(process, "run_node", lambda *given: runs.append(given))
    processes.main(words)
    assert runs == [("trainer", processes.NODES["trainer"].make, words, 4)]


@pytest.mark.parametrize(("name", "transports"), [("ik_server", "UDPv4"), ("demo_recorder", "")])
def test_only_the_recorder_takes_messages_by_shared_memory(
    monkeypatch: pytest.MonkeyPatch, name: str, transports: str
) -> None:
    monkeypatch.setattr(process, "run_node", lambda *given: None)
    for variable in (*PROFILES_VARIABLES, TRANSPORTS_VARIABLE):
        monkeypatch.setenv(variable, "")
    processes.main([name])
    assert os.environ[TRANSPORTS_VARIABLE] == transports


@pytest.mark.parametrize("words", [["/usr/bin/pytest"], ["__main__.py"], ["__main__.py", "ik_sever"]])
def test_unknown_node_is_refused_with_the_known_ones(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="expected one of demo_recorder, .*ik_server"):
        processes.main(words)


def test_read_only_are_exactly_those_that_configure_uses() -> None:
    writable = {field.name for field in dataclasses.fields(IkServerSettings) if not descriptor(field).read_only}
    assert writable == {
        "default_position_tolerance",
        "default_orientation_tolerance",
        "default_timeout",
        "max_timeout",
        "max_samples",
        "transform_timeout",
    }


@pytest.mark.parametrize("name", nodes.__all__)
def test_every_name_is_found_and_listed(name: str) -> None:
    assert getattr(nodes, name) is not None
    assert name in dir(nodes)


def test_settings_of_a_node_can_be_read_without_ros() -> None:
    code = """
import sys
sys.modules["rclpy"] = None
from eim_ros.nodes.settings import IkServerSettings, TrainerSettings
print(IkServerSettings().max_samples, TrainerSettings().threads)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (result.returncode, result.stdout) == (0, "10000 1\n"), result.stderr
