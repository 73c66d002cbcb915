"""A node as a child process: started, waited for, ended."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType, TracebackType

from eim_ros.errors import ServiceError
from eim_ros.numerics.child_process import tied

__all__ = ["ServerProcess", "ended_by_sigterm"]

PATIENCE = 20.0  # [s] for a clean end, before it is killed


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM raise `SystemExit`, so that the nodes of a program are ended as by Ctrl-C.

    By default the signal ends the program without a word to its nodes, which are then killed.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


class ServerProcess:
    """Context manager around a node started with parameters; the node never outlives this process.

    Parameters
    ----------
    parameters : mapping
        ROS parameters by name.
    domain_id : int
        ROS domain of the node, so that it meets no other one.
    folder : Path
        Where its output goes, to a file named after the node.
    node : str
        Name of the node.
    """

    def __init__(self, parameters: Mapping[str, str], domain_id: int, folder: Path, node: str = "ik_server") -> None:
        given = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
        self._command = [sys.executable, "-m", "eim_ros.nodes", node, "--ros-args", *given]
        self._node = node
        self._log = folder / f"{node}.log"
        self._environment = {**os.environ, "ROS_DOMAIN_ID": str(domain_id)}

    def __enter__(self) -> ServerProcess:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                tied(self._command),
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C on the terminal is for this program, which then ends the node
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def check(self) -> None:
        """Raise `ServiceError` with the end of its log if the node has ended by itself."""
        code = self._process.poll()
        if code is None:
            return
        last = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
        ended = f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
        raise ServiceError(
            f"{self._node} {ended}: {' | '.join(last)} (all of it: {self._log}; to start it alone: "
            f"{shlex.join(self._command)})"
        )
