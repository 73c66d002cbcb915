"""Tells when Fast DDS has locked up: the process lives, and hears and tells nothing more.

Seen with 3.2.3, where processes come and go by the dozen (its issue 6502, see `middleware`). Nothing inside of ROS
shows it: the executor waits as it does when there is nothing to do. The kernel does: a thread `dds.udp.PORT` that
receives messages waits for the next one; when it has locked up it waits for a lock. That a wait is still the same one
is seen from the number of times that the thread went to sleep. Neither a node that computes, nor a loaded machine looks
like this; and since looks are counted, not the time between them, nor does a process that was stopped or a computer
that slept.

Only where the kernel tells (Linux on x86_64 and aarch64, whose numbers of system calls are known here) and threads have
names (Fast DDS 3; not 2.6 of Humble); elsewhere, and with other middleware, nothing is found. A thread that waits in a
call of rclpy with the interpreter's lock in its hand holds up this watch, too.
"""

from __future__ import annotations

import contextlib
import platform
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["LockupWatch", "receivers_in_locks", "watch"]

N_LOOKS, PERIOD = 7, 5.0  # [s]: half a minute in one wait
_FUTEX = {"x86_64": "202", "aarch64": "98"}  # the system call in which threads wait for locks
_RECEIVER = re.compile(r"dds\.udp\.\d+")
_SLEEPS = re.compile(r"^voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)


def receivers_in_locks(tasks: Path = Path("/proc/self/task"), machine: str = platform.machine()) -> dict[str, int]:
    """Threads that should receive messages and wait for a lock, with the number of times that each has slept."""
    waiting = {}
    for task in tasks.glob("*"):
        with contextlib.suppress(OSError):  # it ended, or the kernel does not tell
            if not _RECEIVER.fullmatch((task / "comm").read_text().strip()):
                continue
            if (task / "syscall").read_text().split()[0] == _FUTEX.get(machine):
                slept = _SLEEPS.search((task / "status").read_text())
                if slept:
                    waiting[task.name] = int(slept[1])
    return waiting


class LockupWatch:
    """Whether a thread is in one and the same wait at many looks in a row."""

    def __init__(self, n_looks: int) -> None:
        self._n_looks = n_looks
        self._waits: dict[tuple[str, int], int] = {}

    def look(self, waiting: Mapping[str, int]) -> bool:
        """Take what `receivers_in_locks` tells; True as soon as one of them has been there at `n_looks` looks."""
        self._waits = {wait: self._waits.get(wait, 0) + 1 for wait in waiting.items()}
        return any(n >= self._n_looks for n in self._waits.values())


def watch(locked_up: Callable[[], None], n_looks: int = N_LOOKS, period: float = PERIOD) -> None:
    """Call a function, on a thread of its own, when the middleware of this process has locked up.

    Parameters
    ----------
    locked_up : callable
        Called once.
    n_looks : int
        At which a thread must be in the same wait.
    period : float
        Between two looks [s].
    """

    def look_again() -> None:
        looks, pause = LockupWatch(n_looks), threading.Event()
        while not looks.look(receivers_in_locks()):
            pause.wait(period)
        locked_up()

    threading.Thread(target=look_again, name="lockup", daemon=True).start()
