"""Helpers that find the child processes of a process on Linux, and wait until they have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

PATIENCE = 300.0  # timeout [s], which is long because the machine may be busy


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Poll until the condition is true; fail if it is still false after `PATIENCE`."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"no {what} within {PATIENCE} s"
        time.sleep(0.1)


def children(parent: int, program: str = "") -> list[int]:
    """Return the identifiers of the running children whose command line contains `program`."""
    found = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in found if _state(pid)[1] == parent and program in _command(pid) and is_running(pid)]


def is_running(pid: int) -> bool:
    """Return whether a process is running. A zombie counts as ended, because a container may never reap orphans."""
    return _state(pid)[0] not in "ZX"


def wait_for_end(pids: Iterable[int]) -> None:
    for pid in pids:
        wait_for(lambda pid=pid: not is_running(pid), f"end of process {pid}, {_command(pid)}")


def _state(pid: int) -> tuple[str, int]:
    """Return the state and the parent of a process; the state is "X" if there is no such process."""
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    return state, int(parent)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
