"""A separate process that runs `eim train`, reports progress through its output, and can be ended at any time.

Some phases of a fit, such as the search for a start or a large matrix product, cannot be interrupted. A process can
always be ended. Models are written atomically, so the process leaves either a complete model or no model. Its temporary
files are removed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from eim_ros.core.child_process import tied
from eim_ros.core.errors import ConfigurationError

MOST_COMPLAINTS = 50  # maximum number of stored lines of stderr
GRACE = 1.0  # [s] time between SIGTERM and SIGKILL


@dataclass(frozen=True)
class Progress:
    """Progress of a training. Metrics [nat] are NaN if the learner does not provide them."""

    phase: str = "reading"
    iteration: int = 0
    n_iterations: int = 0
    ratio_kl: float = math.nan
    update_kl: float = math.nan
    entropy: float = math.nan


@dataclass(frozen=True)
class Outcome:
    """Outcome of a training."""

    success: bool
    message: str = ""  # cause of a failure, or explanation of the status, for example that EIM changed nothing
    model: str = ""  # path of the written model; empty without a model
    status: str = ""  # status of the learner
    metrics: dict[str, float] = field(default_factory=dict)  # finite metrics by name


def training_command(settings: Sequence[str], device: str = "cpu", **flags: str | int) -> list[str]:
    """Return the command line that runs `eim train`.

    Flag and value form one word. Otherwise, a value could be mistaken for a flag. The flags are task, data, algorithm,
    robot, output, seed and threads. An empty robot is omitted. Each setting of the algorithm has the form NAME=VALUE.
    `ConfigurationError` is raised for settings of the run, because they contain files and devices.
    """
    for setting in settings:
        if setting.partition("=")[0].strip().partition(".")[0] == "run":
            raise ConfigurationError(f"{setting!r} is not a setting of the learner: leave it out", setting)
    words = [f"--{name}={value}" for name, value in flags.items() if name != "robot" or value]
    run = (f"device={device}", "progress=json", "checkpoint_every=0", "end_with_stdin=true")
    words += [*(f"--set={setting}" for setting in settings), *(f"--set=run.{setting}" for setting in run)]
    return [sys.executable, "-m", "eim_ros.cli.main", "train", *words, "--json"]


class TrainingProcess:
    """Process of a running training.

    The thread that creates this object must not end before the process; see `tied`. `command` comes from
    `training_command`. `output` is the path of the model that the process writes.
    """

    def __init__(self, command: Sequence[str], output: str) -> None:
        self._output = Path(os.path.realpath(output))
        self._progress = Progress()
        self._complaints: list[str] = []
        self._answer = ""
        self._process = subprocess.Popen(
            tied(command),
            stdin=subprocess.PIPE,  # closed when this process ends; `eim train` detects this on every system
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # only the node handles Ctrl-C in the terminal
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read_answer, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_progress, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def progress(self) -> Progress:
        """Latest progress that the process has reported."""
        return self._progress

    def wait(self, timeout: float) -> bool:
        """Wait for the process. Return whether it ends within `timeout` [s]."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> None:
        """End the process in any phase, and remove temporary files of a partly written model."""
        self._process.terminate()
        if not self.wait(GRACE):
            self._process.kill()
            self._process.wait()
        self._close()
        for rest in self._output.parent.glob(f".{_escaped(self._output.name)}.{'[0-9a-f]' * 16}"):
            with contextlib.suppress(OSError):
                rest.unlink()

    def outcome(self) -> Outcome:
        """Return the outcome of a process that has ended without a call of `end`."""
        self._close()
        code = self._process.returncode
        try:
            record = json.loads(self._answer)
        except json.JSONDecodeError:
            cause = " ".join(self._complaints[-MOST_COMPLAINTS:]).removeprefix("eim train: ")
            return Outcome(False, cause or f"the training ended with exit code {code} and without a message")
        status = str(record.get("status", ""))
        message = (
            str(record.get("message", ""))
            if code == 0
            else f"the fit ended as {status}; the last finite model was written"
        )
        return Outcome(code == 0, message, str(self._output), status, _metrics(record))

    def _close(self) -> None:
        """Read the remaining output of a finished process and close its pipes."""
        for reader in self._readers:
            reader.join(GRACE)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _read_answer(self, stream: IO[str]) -> None:
        self._answer = stream.read()

    def _read_progress(self, stream: IO[str]) -> None:
        for line in stream:
            try:
                told = json.loads(line)
                known = {name: told[name] for name in Progress.__dataclass_fields__ if told.get(name) is not None}
                self._progress = Progress(**known)
            except (ValueError, TypeError, AttributeError):  # a line that is not JSON is an error message
                self._complaints.append(line.strip())
                del self._complaints[:-MOST_COMPLAINTS]


def _metrics(record: dict[str, Any]) -> dict[str, float]:
    """Return the finite metrics of the record and of its last iteration."""
    figures = {**record, **record.get("last", {})}
    kinds = {name: value for name, value in figures.items() if isinstance(value, (int, float))}
    return {name: float(v) for name, v in kinds.items() if not isinstance(v, bool) and math.isfinite(v)}


def _escaped(name: str) -> str:
    """Return a glob pattern that matches only this file name."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
