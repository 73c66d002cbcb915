"""A command prints its progress while it waits for nodes, and stops waiting if a node fails."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from eim_ros.cli.processes import ServerProcess, Waiting, ended_by_sigterm
from eim_ros.core.errors import ServiceError

PATIENCE = 90.0  # timeout for a process on a busy machine [s]


def test_state_and_time_are_told_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with Waiting("ik_server", []) as waiting:
        for second in range(4):
            waiting("", float(second))
        for second in range(12):
            waiting("configuring", float(second))
    assert capsys.readouterr().err.splitlines() == [
        "   waiting for ik_server: configuring, 5 s",
        "   waiting for ik_server: configuring, 10 s",
    ]


def test_node_that_works_is_waited_for_however_long_that_takes() -> None:
    waiting = Waiting("ik_server", [])
    for second in range(0, 100_000, 100):
        waiting("configuring", float(second))


def test_node_of_which_nothing_is_heard_is_given_up() -> None:
    waiting = Waiting("ik_server", [])
    waiting("configuring", 50.0)
    waiting("", 150.0)
    with pytest.raises(ServiceError, match="is running, but no message from it has arrived for 120 s"):
        waiting("", 171.0)


def test_process_that_ended_is_told_with_its_reason_and_how_to_see_more(tmp_path: Path) -> None:
    with ServerProcess({"max_sample": "1"}, 50, tmp_path) as server:
        waiting, end = Waiting("ik_server", [server]), time.monotonic() + PATIENCE
        with pytest.raises(ServiceError) as caught:
            while time.monotonic() < end:
                waiting("", 0.0)
                time.sleep(0.05)
    message = str(caught.value)
    assert message.startswith("ik_server ended with exit code 1: ")
    assert "unknown parameter max_sample" in message
    assert str(tmp_path / "ik_server.log") in message
    assert "-m eim_ros.nodes ik_server --ros-args -p max_sample:=1" in message


def test_sigterm_ends_the_program_even_if_compiled_code_replaces_the_exception() -> None:
    with pytest.raises(SystemExit) as found, ended_by_sigterm():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except SystemExit:
            raise RuntimeError("Unable to convert call argument") from None
    assert found.value.code == 128 + signal.SIGTERM


def test_error_without_a_signal_is_kept() -> None:
    with pytest.raises(RuntimeError, match="own"), ended_by_sigterm():
        raise RuntimeError("own")
