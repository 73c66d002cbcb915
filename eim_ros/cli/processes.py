"""Start, supervision and end of nodes as child processes.

A command that waits for its nodes reports progress. The command fails as soon as a node has ended.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from eim_ros.core.child_process import tied
from eim_ros.core.errors import ServiceError
from eim_ros.nodes.common.domain import own_domain

PATIENCE = 20.0  # time until a process that does not end is killed [s]
_PERIOD = 5.0  # time between two lines if stderr is not a terminal [s]
_LONGEST_SILENCE = 120.0  # longest time without a message from a node while its process runs [s]


@contextlib.contextmanager
def in_own_domain() -> Iterator[int]:
    """Give this process and its nodes a ROS domain without other nodes. Return the number of the domain."""
    with own_domain() as domain_id:
        os.environ["ROS_DOMAIN_ID"] = str(domain_id)
        os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        yield domain_id


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Make SIGTERM raise `SystemExit`. A program then ends its nodes, as it does after Ctrl-C.

    By default, the signal ends the program at once, and its nodes are killed.
    """
    received: list[int] = []

    def leave(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise SystemExit(128 + number)

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    except Exception:
        if not received:
            raise
        raise SystemExit(128 + received[0]) from None  # compiled code of rclpy replaces the exception by its own
    finally:
        signal.signal(signal.SIGTERM, previous)


class ServerProcess(contextlib.AbstractContextManager["ServerProcess"]):
    """Context manager that runs a node with parameters. The node ends with this process. Its log is in `folder`."""

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
                start_new_session=True,  # Ctrl-C on the terminal reaches only this program, which then ends the node
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def check(self) -> None:
        """Raise `ServiceError` with the end of its log if the node has ended."""
        code = self._process.poll()
        if code is None:
            return
        last = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
        ended = f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
        raise ServiceError(
            f"{self._node} {ended}: {' | '.join(last)} (complete log: {self._log}; to start the node alone: "
            f"{shlex.join(self._command)})"
        )


class Waiting(contextlib.AbstractContextManager["Waiting"]):
    """Callback `watch` of a client. It prints the time that it has waited for `name` on stderr.

    `ServiceError` is raised if the nodes send no message for too long, or if a process has ended. If a process has
    ended, the message contains the end of its log.
    """

    def __init__(self, name: str, processes: Sequence[ServerProcess]) -> None:
        self._name, self._processes = name, processes
        self._heard = self._shown = 0.0
        self._line = ""

    def __call__(self, state: str, elapsed: float) -> None:
        for process in self._processes:
            process.check()
        if state or elapsed < self._heard:
            self._heard = elapsed
        if elapsed - self._heard > _LONGEST_SILENCE:
            raise ServiceError(
                f"{self._name} is running, but no message from it has arrived for {_LONGEST_SILENCE:.0f} s: check "
                "whether a firewall or a setting of ROS 2 (ROS_DISCOVERY_SERVER, FASTRTPS_DEFAULT_PROFILES_FILE) "
                "separates the nodes of this machine"
            )
        self._show(state or "starting", elapsed)

    def __exit__(self, *_: object) -> None:
        if self._line and sys.stderr.isatty():
            print(file=sys.stderr)

    def _show(self, state: str, elapsed: float) -> None:
        line = f"   waiting for {self._name}: {state}, {elapsed:.0f} s"
        if sys.stderr.isatty():
            if line != self._line:
                print(f"\r{line:<{len(self._line)}}", end="", file=sys.stderr, flush=True)
                self._line = line
        elif elapsed >= self._shown + _PERIOD or elapsed < self._shown:
            print(line, file=sys.stderr, flush=True)
            self._shown = elapsed
