"""Runs of the command line in this process or in a new one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eim_ros.cli.main import ExitCode, main

__all__ = ["COMMAND", "Command", "Outcome", "eim_process", "process_without", "restore_sigint", "validity"]

COMMAND = (sys.executable, "-m", "eim_ros.cli.main")
PATIENCE = 300.0  # timeout for a process on a busy machine [s]


def validity(answer: Any) -> list[bool]:
    """Return whether each row of an answer is valid. An empty `valid` of IKSolutions means that all rows are valid."""
    return answer["valid"] or [True] * len(answer["positions"])


@dataclass(frozen=True)
class Outcome:
    """Result of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON object on stdout, which must be the only one. NaN and other values outside of JSON are errors."""
        assert self.out.count("\n") == 1, self.out

        def refuse(constant: str) -> None:
            raise ValueError(f"{constant} is no JSON")

        return json.loads(self.out, parse_constant=refuse)

    def refused(self, *reasons: str) -> None:
        """Assert the exit code of wrong usage or a wrong file, no output, and one line on stderr with the reasons."""
        assert self.code in (ExitCode.USAGE, ExitCode.FILE), (self.code, self.out, self.err)
        assert self.out == ""
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        for reason in reasons:
            assert reason in self.err


class Command:
    """Runs a command line, by default `eim`, in this process."""

    def __init__(self, capture: pytest.CaptureFixture[str], run: Callable[[list[str]], int] = main) -> None:
        self._capture = capture
        self._run = run

    def __call__(self, *words: object) -> Outcome:
        self._capture.readouterr()
        try:
            code = self._run([str(word) for word in words])
        except SystemExit as exit_:  # argparse
            code = int(exit_.code or 0)
        captured = self._capture.readouterr()
        return Outcome(code, captured.out, captured.err)


def eim_process(*words: object, folder: Path | None = None) -> Outcome:
    """Run `eim` in a new process."""
    command = [*COMMAND, *(str(word) for word in words)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=folder)
    return Outcome(result.returncode, result.stdout, result.stderr)


def process_without(packages: Collection[str], code: str) -> Outcome:
    """Run Python code in a process that cannot import these packages, as if they were not installed."""
    absent = f"""import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {tuple(packages)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""
    command = [sys.executable, "-c", absent + code]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return Outcome(result.returncode, result.stdout, result.stderr)


def restore_sigint() -> None:
    """A background process inherits an ignored SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
