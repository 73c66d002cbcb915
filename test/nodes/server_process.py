"""Real nodes in separate processes, observed through their logs. Every wait has a timeout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 90.0  # timeout [s], which is long because the machine may be busy


class LoggedProcess:
    """Process in a separate session, as if a user had started it in a terminal. Its log is written to a file."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                preexec_fn=_restore_sigint,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill all processes of the session if they are still running."""
        if self.is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10.0)


class ServerProcess(LoggedProcess):
    """Process of a node with parameters."""

    def __init__(
        self, log: Path, parameters: dict[str, object], arguments: tuple[str, ...] = (), node: str = "ik_server"
    ) -> None:
        given = [word for name, value in parameters.items() for word in ("-p", f"{name}:={_yaml(value)}")]
        self._starts_itself = parameters.get("autostart", True)
        super().__init__([sys.executable, "-m", "eim_ros.nodes", node, "--ros-args", *given, *arguments], log)

    def wait_for_log(self, text: str) -> None:
        """Wait until the log contains the text."""
        wait_until(lambda: text in self.log or not self.is_running, f"{text!r} in the log", self)
        assert text in self.log, f"the server ended with {self._process.returncode}:\n{self.log}"

    def wait_until_ready(self) -> None:
        """Wait until a node with autostart is active."""
        if self._starts_itself:
            self.wait_for_log("serving")
            self._starts_itself = False

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait for the end of the process, and return its exit code."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not end within {timeout} s:\n{self.log}") from None

    def stop(self) -> int:
        """End the process with SIGINT, as a user would, and return its exit code."""
        if self.is_running:
            self.signal(signal.SIGINT)
        return self.wait(30.0)


def wait_until(condition: Callable[[], object], what: str, server: ServerProcess, timeout: float = PATIENCE) -> None:
    """Poll until the condition is true. After a timeout, the error shows the log of the server."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"no {what} within {timeout} s; log of the server:\n{server.log}")
        time.sleep(0.02)


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _restore_sigint() -> None:
    """Restore the handling of SIGINT in a new process, because a test runner in the background ignores SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
