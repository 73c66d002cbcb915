"""A launch file run by real `launch` in a session of its own, as `ros2 launch` does it, and what it started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from nodes.server_process import PATIENCE, restore_sigint

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


class LaunchProcess:
    """Runs until it is ended; its log, which holds those of the nodes, goes to a file."""

    def __init__(self, path: Path, log: Path, prefix: Path, arguments: tuple[str, ...]) -> None:
        environment = dict(os.environ)
        environment["AMENT_PREFIX_PATH"] = os.pathsep.join(
            filter(None, [str(prefix), environment.get("AMENT_PREFIX_PATH", "")])
        )
        environment["ROS_LOG_DIR"] = str(log.parent)
        environment["PYTHONUNBUFFERED"] = "1"
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(path), *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                preexec_fn=restore_sigint,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"no {what} within {PATIENCE} s:\n{self.log}"
            assert self.is_running, f"the launch ended:\n{self.log}"
            time.sleep(0.05)

    def pids(self, executable: str) -> list[int]:
        """Of all processes of a node so far, in the order of their starts."""
        started = re.findall(rf"\[{executable}-\d+\]: process started with pid \[(\d+)\]", self.log)
        return [int(number) for number in started]

    def wait(self) -> int:
        """Exit code of one that ends by itself."""
        return self._process.wait(PATIENCE)

    def interrupt(self) -> int:
        """Ctrl-C on a terminal: every process of the session's group receives SIGINT; the exit code of the launch."""
        os.killpg(self._process.pid, signal.SIGINT)
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        """Last resort."""
        if self.is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10.0)
