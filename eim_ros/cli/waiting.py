"""What a command that started nodes waits for: told while they work, and given up as soon as they do not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType

from eim_ros.cli.server_process import ServerProcess
from eim_ros.errors import ServiceError

__all__ = ["Waiting"]

_PERIOD = 5.0  # [s] between two lines, where the output is no terminal
_LONGEST_SILENCE = 120.0  # [s] in which a process runs and nothing is heard of its node


class Waiting:
    """The `watch` of a client, and context manager: waits as long as the nodes work, however long that is.

    On a terminal it refreshes one line, elsewhere it prints one every few seconds, on stderr as all progress.

    Parameters
    ----------
    name : str
        What is waited for.
    processes : sequence of ServerProcess
        The processes that must be alive.

    Raises
    ------
    ServiceError
        By a call, when one of them has ended, with the end of its log; or when they run and nothing is heard of them.
    """

    def __init__(self, name: str, processes: Sequence[ServerProcess]) -> None:
        self._name = name
        self._processes = processes
        self._heard = 0.0
        self._shown = 0.0
        self._line = ""

    def __call__(self, state: str, elapsed: float) -> None:
        for process in self._processes:
            process.check()
        if state or elapsed < self._heard:
            self._heard = elapsed
        if elapsed - self._heard > _LONGEST_SILENCE:
            raise ServiceError(
                f"{self._name} runs, but nothing was heard of it for {_LONGEST_SILENCE:.0f} s: does a firewall or "
                "another setting of ROS 2 (ROS_DISCOVERY_SERVER, FASTRTPS_DEFAULT_PROFILES_FILE) keep nodes of this "
                "machine apart?"
            )
        self._tell(state or "starting", elapsed)

    def __enter__(self) -> Waiting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line and sys.stderr.isatty():
            print(file=sys.stderr)

    def _tell(self, state: str, elapsed: float) -> None:
        line = f"   waiting for {self._name}: {state}, {elapsed:.0f} s"
        if sys.stderr.isatty():
            if line != self._line:
                print(f"\r{line:<{len(self._line)}}", end="", file=sys.stderr, flush=True)
                self._line = line
        elif elapsed >= self._shown + _PERIOD or elapsed < self._shown:
            print(line, file=sys.stderr, flush=True)
            self._shown = elapsed
