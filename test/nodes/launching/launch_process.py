"""A launch file run by real `launch` in a session of its own, as `ros2 launch` does it, and what it started."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from nodes.server_process import PATIENCE, LoggedProcess

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
    """Runs until it is ended; its log holds those of the nodes."""

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
