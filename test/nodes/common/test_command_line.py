"""Flags of a node become ROS parameters and appear in its help. A misspelt flag leads to a suggestion."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from eim_ros.core.errors import ConfigurationError
from eim_ros.nodes.__main__ import NODES
from eim_ros.nodes.common.process import help_text, ros_arguments
from eim_ros.nodes.settings import IkServerSettings


def converted(*words: str) -> list[str]:
    return ros_arguments(words, lambda: IkServerSettings)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--model", "panda_pose"], ['model:="panda_pose"']),
        (["--model=5"], ['model:="5"']),  # a text parameter
        (["--max-timeout", "5"], ["max_timeout:=5.0"]),
        (["--use-tf=false", "--autostart"], ["use_tf:=false", "autostart:=true"]),
        (["--tool", "0 0 0.1", "--threads", "2"], ['tool:="0 0 0.1"', "threads:=2"]),
    ],
)
def test_flag_becomes_a_parameter_of_its_type(words: list[str], expected: list[str]) -> None:
    assert converted(*words) == ["--ros-args", *(word for each in expected for word in ("-p", each))]


def test_what_ros_takes_is_left_as_it_is() -> None:
    words = ["-x", "--ros-args", "-p", "model:=none", "--log-level", "debug"]
    assert converted(*words) == words
    assert converted("--threads", "2", *words) == ["-x", "--ros-args", "-p", "threads:=2", *words[1:]]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--modle", "x"], "there is no parameter --modle; did you mean --model"),
        (["--model"], "--model needs a value"),
        (["--max-timeout", "long"], "--max-timeout must be a number, got 'long'"),
    ],
)
def test_wrong_flag_is_told(words: list[str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        converted(*words)


@pytest.mark.parametrize("name", NODES)
def test_help_tells_every_parameter_with_its_default(name: str) -> None:
    kind = NODES[name].settings
    text = " ".join(help_text(name, kind).split())
    for field in dataclasses.fields(kind):
        assert f"--{field.name} {field.metadata['description'].split()[0]}" in text
    assert "Default true." in text


def test_node_tells_its_help_and_refuses_a_misspelt_flag() -> None:
    command = [sys.executable, "-m", "eim_ros.nodes", "ik_server"]
    told = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60.0, check=True)
    assert told.stdout.startswith("usage: ik_server ") and "--model" in told.stdout
    refused = subprocess.run([*command, "--modle", "x"], capture_output=True, text=True, timeout=60.0, check=False)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
