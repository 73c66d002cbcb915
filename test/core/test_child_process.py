"""Child processes end with the process that started them, no matter how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from core.processes import children, wait_for, wait_for_end

from eim_ros.core.child_process import tied

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
PARENT = f"""
import subprocess, time
from eim_ros.core.child_process import tied
child = subprocess.Popen(tied({SLEEP}), start_new_session=True)
time.sleep(600)
"""
WORKERS = """
import time
from eim_ros.core.parallel import JoblibWorkers
results = JoblibWorkers(2)(time.sleep, [0.0, 600.0, 600.0])
next(results)
print("working", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_child_ends_with_a_parent_that_is_killed(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT]) as parent:
        try:
            wait_for(lambda: children(parent.pid, "sleep(600)"), "child")
            found = children(parent.pid)
        finally:
            parent.send_signal(number)
    wait_for_end(found)


def test_workers_of_joblib_end_in_the_middle_of_a_task_when_their_parent_is_killed() -> None:
    pytest.importorskip("joblib")
    with subprocess.Popen([sys.executable, "-c", WORKERS], stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout is not None
            assert parent.stdout.readline() == b"working\n"
            found = children(parent.pid)
            assert len(found) >= 2
        finally:
            parent.kill()
    wait_for_end(found)


def test_command_whose_parent_has_ended_before_it_starts_does_nothing(tmp_path: Path) -> None:
    command = tied([sys.executable, "-c", f"open({str(tmp_path / 'done')!r}, 'w')"])
    assert command.count(str(os.getpid())) == 1
    other = [
        str(os.getppid()) if word == str(os.getpid()) else word for word in command
    ]  # pretend that the parent is another process
    assert subprocess.run(other, check=False).returncode == 1
    assert not list(tmp_path.iterdir())


def test_command_keeps_its_arguments_streams_and_exit_code() -> None:
    program = "import os, sys; print(os.getpid(), sys.argv[1:], sys.stdin.read()); sys.exit(7)"
    command = tied([sys.executable, "-c", program, "-x", "two words"])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        out, _ = process.communicate("in")
    assert out == f"{process.pid} ['-x', 'two words'] in\n"
    assert process.returncode == 7


def test_command_has_the_default_signals_although_the_parent_ignores_them() -> None:
    program = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a background job of a shell ignores SIGINT
    try:
        out = subprocess.run(tied([sys.executable, "-c", program]), capture_output=True, text=True, check=True).stdout
    finally:
        signal.signal(signal.SIGINT, previous)
    assert out == "True\n"
    shell = subprocess.run(tied(["sh", "-c", "kill -PIPE $$; echo ignored"]), capture_output=True, check=False)
    assert (shell.returncode, shell.stdout) == (-signal.SIGPIPE, b"")


def test_command_that_cannot_be_executed_ends_with_the_code_of_a_shell() -> None:
    result = subprocess.run(tied(["/no/such/program"]), capture_output=True, text=True, check=False)
    assert result.returncode == 127
    assert "/no/such/program cannot be executed" in result.stderr
