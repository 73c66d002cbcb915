"""`eim train` in a process of its own: watched through the lines it writes, and ended at any time.

A fit cannot be stopped from outside in all its phases (a search for the start, a large matrix product), a process can.
Models are written atomically, so that one which is ended leaves either a whole model or none; what it may have left
beside it is removed.
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

MOST_COMPLAINTS = 50  # lines of stderr that are kept
GRACE = 1.0  # [s] between SIGTERM and SIGKILL


@dataclass(frozen=True)
class Progress:
    """Where a training is; figures [nat] are NaN where the learner has none."""

    phase: str = "reading"
    iteration: int = 0
    n_iterations: int = 0
    ratio_kl: float = math.nan
    update_kl: float = math.nan
    entropy: float = math.nan


@dataclass(frozen=True)
class Outcome:
    """How a training ended.

    Attributes
    ----------
    success : bool
    message : str
        Cause in words when it failed.
    model : str
        Path that was written.
    status : str
        Of the learner.
    metrics : dict
        Finite figures by name.
    """

    success: bool
    message: str = ""
    model: str = ""
    status: str = ""
    metrics: dict[str, float] = field(default_factory=dict)


def training_command(settings: Sequence[str], **flags: str | int) -> list[str]:
    """Words that start `eim train`; each value is one word with its flag, so that none can be taken for a flag.

    Parameters
    ----------
    settings : sequence of str
        Of the algorithm, each NAME=VALUE.
    **flags
        Of the command by name: task, data, algorithm, robot, output, random_seed, threads, device; an empty robot is
        left out.
    """
    words = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items() if name != "robot" or value]
    words += [f"--set={setting}" for setting in settings]
    module = [sys.executable, "-m", "eim_ros.cli.main", "train"]
    return [*module, *words, "--json", "--progress=json", "--no-checkpoint", "--end-with-stdin"]


class TrainingProcess:
    """A running training.

    Parameters
    ----------
    command : sequence of str
        Of `training_command`. The thread that starts it must not end before it does, see `tied`.
    output : str
        Path of the model that it is to write.
    """

    def __init__(self, command: Sequence[str], output: str) -> None:
        self._output = Path(os.path.realpath(output))
        self._progress = Progress()
        self._complaints: list[str] = []
        self._answer = ""
        self._process = subprocess.Popen(
            tied(command),
            stdin=subprocess.PIPE,  # closed when this process ends, which `eim train` notices on every system
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C on the terminal is the node's to handle
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
        """What it has told last."""
        return self._progress

    def wait(self, timeout: float) -> bool:
        """Whether it has ended within this time [s]."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> None:
        """End it, wherever it is, and remove what a half-written model may have left."""
        self._process.terminate()
        if not self.wait(GRACE):
            self._process.kill()
            self._process.wait()
        self._close()
        for rest in self._output.parent.glob(f".{_escaped(self._output.name)}.{'[0-9a-f]' * 16}"):  # no other file
            with contextlib.suppress(OSError):
                rest.unlink()

    def outcome(self) -> Outcome:
        """Of a process that has ended by itself."""
        self._close()
        code = self._process.returncode
        try:
            record = json.loads(self._answer)
        except json.JSONDecodeError:
            cause = " ".join(self._complaints[-MOST_COMPLAINTS:]).removeprefix("eim train: ")
            return Outcome(False, cause or f"the training ended with exit code {code} and no word")
        status = str(record.get("status", ""))
        message = "" if code == 0 else f"the fit ended as {status}; the last finite model was written"
        return Outcome(code == 0, message, str(self._output), status, _metrics(record))

    def _close(self) -> None:
        """Read the rest and close the pipes of a process that has ended."""
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
            except (ValueError, TypeError, AttributeError):  # not JSON: a complaint
                self._complaints.append(line.strip())
                del self._complaints[:-MOST_COMPLAINTS]


def _metrics(record: dict[str, Any]) -> dict[str, float]:
    """Finite figures of the record and of the last iteration."""
    figures = {**record, **record.get("last", {})}
    kinds = {name: value for name, value in figures.items() if isinstance(value, (int, float))}
    return {name: float(v) for name, v in kinds.items() if not isinstance(v, bool) and math.isfinite(v)}


def _escaped(name: str) -> str:
    """A file's name as a pattern that matches itself alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
