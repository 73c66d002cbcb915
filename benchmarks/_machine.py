"""What the benchmarks share: what the machine is and how busy, a ROS domain of their own, and nodes as processes."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import random
import signal
import subprocess
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from eim_ros.core._processor import runs_here
from eim_ros.core.native import INSTRUCTION_SETS

__all__ = ["instruction_sets", "isolate", "load_average", "processor", "running", "versions"]

PATIENCE = 20.0  # [s] for a clean end


def processor() -> str:
    """Name of the processor, of its architecture where that is not told."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions(packages: Iterable[str]) -> str:
    """Versions of distributions, in one line."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} missing")
    return ", ".join(found)


def isolate() -> None:
    """Use a ROS domain that nobody else uses, on this machine only; inherited by processes."""
    os.environ["ROS_DOMAIN_ID"] = str(random.SystemRandom().randrange(1, 51))  # tests take those from 51 on
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"


def load_average() -> str:
    """Processes that wanted to run in the last minute, on average, and the cores for them."""
    return f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def instruction_sets() -> list[str]:
    """Those that the solver was built for and that this processor has, the plainest first."""
    folder = "eim_ros.solver._solver_"
    return [name for name in reversed(INSTRUCTION_SETS) if importlib.util.find_spec(folder + name) and runs_here(name)]


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, with SIGINT restored, which a parent in the background hands on as ignored."""

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
