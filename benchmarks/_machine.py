"""Helpers shared by the benchmarks: machine and load, an isolated ROS domain, and nodes as child processes."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import itertools
import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eim_ros.core._processor import runs_here
from eim_ros.core.files import write_atomically
from eim_ros.core.native import INSTRUCTION_SETS
from eim_ros.nodes.common.domain import own_domain

__all__ = [
    "conditions",
    "cpu_times",
    "instruction_sets",
    "isolate",
    "load_average",
    "print_table",
    "processor",
    "running",
    "versions",
]

PATIENCE = 20.0  # time limit for a clean shutdown [s]


def processor() -> str:
    """Return the processor's name, or its architecture if the name is unknown."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions(packages: Iterable[str]) -> str:
    """Return the versions of the given distributions on one line."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} missing")
    return ", ".join(found)


def isolate() -> None:
    """Reserve a ROS domain for this process and its children, visible only on this machine."""
    reserved = contextlib.ExitStack()
    atexit.register(reserved.close)
    os.environ["ROS_DOMAIN_ID"] = str(reserved.enter_context(own_domain()))
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"


def load_average() -> str:
    """Return the average number of runnable processes in the last minute and the number of cores."""
    return f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def instruction_sets() -> list[str]:
    """Return the instruction sets that the solver was built for and this processor supports, the most basic first."""
    folder = "eim_ros.solver._solver_"
    return [name for name in reversed(INSTRUCTION_SETS) if importlib.util.find_spec(folder + name) and runs_here(name)]


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a separate session with the default SIGINT handler, and stop it at the end.

    Without this handler, a command of a background shell would ignore SIGINT and could not be stopped cleanly.
    """

    def restore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    process = subprocess.Popen(command, start_new_session=True, preexec_fn=restore)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def conditions(packages: Iterable[str]) -> str:
    """Return processor, instruction set, load and versions on one line."""
    machine = f"{processor()}, {instruction_sets()[-1]}; load {load_average()}; Python {platform.python_version()}"
    return f"{machine}; {versions(packages)}"


def print_table(head: Iterable[str], rows: Iterable[str], output: Path | None) -> None:
    """Print the lines of a table as they are measured, and write them to a file if one is given."""
    lines = []
    for line in itertools.chain(head, rows):
        lines.append(line)
        print(line, flush=True)
    if output is not None:
        write_atomically(output, ("\n".join(lines) + "\n").encode())


def cpu_times(call: Callable[[int], object], n: int, n_warm: int = 20) -> npt.NDArray[np.float64]:
    """Return CPU times (n,) of calls with 0 to n - 1 on this thread [us], after up to `n_warm` others."""
    for i in range(min(n, n_warm)):
        call(i)
    times = np.empty(n)
    for i in range(n):
        began = time.thread_time_ns()
        call(i)
        times[i] = 1e-3 * (time.thread_time_ns() - began)
    return times
