"""Child processes that end with their parent, even if the parent is killed.

`tied` prefixes a command with this file, which is a short program. The program asks the kernel to kill it when its
parent ends (`PR_SET_PDEATHSIG`, Linux only). It then checks that the parent is still running, and executes the command.
A separate program is necessary, because code between fork and exec (`preexec_fn`) may deadlock if the parent has
threads.

On other systems, the children of a killed parent continue to run.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")  # signals that the interpreter ignores, which commands would inherit
_NOT_FOUND = 127  # exit code of shells for a command that cannot be executed


def tied(command: Sequence[str]) -> list[str]:
    """Return a command for `subprocess` that runs `command` and ends with this process.

    The process keeps its identifier when it executes `command`. The default action of SIGINT is restored, because a
    shell starts background jobs with SIGINT ignored.

    The process ends when the *thread* that started it ends, so this thread must run as long as the process. The exit
    code is 127 if the program cannot be executed.
    """
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid()), *command]


def end_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends.

    If the process with the identifier `parent` has already ended, this process ends immediately.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call to the kernel
        os._exit(1)


def _become(parent: int, command: list[str]) -> None:
    """Replace this process with the command."""
    end_with_parent(parent)
    for name in ("SIGINT", *_IGNORED_BY_PYTHON):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be executed: {error.strerror}\n")
        sys.exit(_NOT_FOUND)


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
