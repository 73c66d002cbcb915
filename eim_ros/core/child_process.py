"""Processes that end with the one that started them, even if that one is killed.

`tied` puts a short program, which is this file, before a command. It asks the kernel to kill the process when its
parent ends (`PR_SET_PDEATHSIG`, Linux only), checks that the parent is still there, and becomes the command. The child
does this itself: code between fork and exec (`preexec_fn`) may deadlock where the parent has threads.

On other systems children end with a parent that ends them, but not with one that is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")  # by every interpreter, and whatever it executes inherits that
_NOT_FOUND = 127  # exit code of a shell for a command that cannot be executed


def tied(command: Sequence[str]) -> list[str]:
    """Return a command that runs `command` and ends with this process, to be given to `subprocess`.

    The process identifier and all arguments remain those of `command`. SIGINT has its default action there, although a
    shell starts jobs in the background with SIGINT ignored.

    The kernel watches the *thread* that starts the process: it must not end before the process does.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments. If it cannot be executed, the process ends with exit code 127.
    """
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid()), *command]


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends.

    Parameters
    ----------
    parent : int
        Process identifier of the parent. If that one has ended already, this process ends at once.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was asked
        os._exit(1)


def _become(parent: int, command: list[str]) -> None:
    """Replace this process by the command."""
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
