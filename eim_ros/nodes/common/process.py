"""The process of a node: starts it, spins, ends cleanly (exit code 0) on SIGINT and SIGTERM.

Exit code 1 with one line on stderr where it cannot start: an unknown or bad parameter, or something the node needs and
refuses, such as a damaged model file.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn, Protocol

import rclpy
from rclpy.executors import Executor, ExternalShutdownException, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.task import Future

from eim_ros.errors import EimError

__all__ = ["Startable", "run_node"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LONGEST_END = 120  # [s]; Fast DDS can hang while it says goodbye


class Startable(Protocol):
    """A node as `run_node` needs it; beside what is here it is a `rclpy.node.Node`."""

    def start(self) -> bool | Future:
        """Get ready to serve; False, with the reason in the log, ends the process with exit code 1.

        What takes long is done on a thread, so that the node answers meanwhile: then a future comes back at once, which
        will hold the same.
        """

    def end(self, timeout: float) -> bool:
        """End all work; False when something still goes on after `timeout` [s]."""

    def close(self) -> bool:
        """End all work and destroy the node; False when a thread is still busy, which is then not waited for."""


def run_node(name: str, make: Callable[[], Startable], args: list[str] | None = None, n_threads: int = 1) -> NoReturn:
    """Run a node until a signal; the process ends with it.

    Parameters
    ----------
    name : str
        Of the process, for its complaints.
    make : callable
        Imports the module of the node and makes it: imports take seconds, in which a signal may come.
    args : list of str, optional
        As for `rclpy.init`.
    n_threads : int
        Of the executor.
    """
    signalled = _exit_on_first_signal()
    node: Startable | None = None
    status = 1
    try:
        if _initialise(name, args):
            executor = _executor(n_threads)  # until the end: on a signal a thread of rclpy's still touches what it has
            node = make()
            started = node.start()
            if started is not False and _spin(node, executor, started):
                status = 0
    except SystemExit as leaving:  # a signal, or a node that has done what it was started for
        status = int(leaving.code or 0)
    except Exception as error:
        if not signalled.is_set():  # else the error comes from a call that the signal cut short
            _complain(name, error)
    finally:
        _close(node, 0 if signalled.is_set() else status)


def _exit_on_first_signal() -> threading.Event:
    """Let the first SIGINT or SIGTERM raise SystemExit, also while a model is loaded, and set the event.

    Further ones do nothing. rclpy's own handler, installed by init, shuts the context down and then calls this one. Not
    KeyboardInterrupt: when that passes through code run by a C library, CPython ends the process by SIGINT even if it
    is caught afterwards.
    """
    signalled = threading.Event()

    def leave(number: int, frame: FrameType | None) -> None:
        if not signalled.is_set():
            signalled.set()
            raise SystemExit(0)

    for number in SIGNALS:
        signal.signal(number, leave)
    return signalled


def _initialise(name: str, args: list[str] | None) -> bool:
    try:
        rclpy.init(args=args)
    except Exception as error:  # rclpy has a private class for each kind of bad argument
        _complain(name, error)
        return False
    return True


def _executor(n_threads: int) -> Executor:
    return SingleThreadedExecutor() if n_threads == 1 else MultiThreadedExecutor(n_threads)


def _spin(node: Any, executor: Executor, started: bool | Future) -> bool:
    """Serve until a signal; False as soon as the node has not started."""
    executor.add_node(node)
    while rclpy.ok():
        try:
            if isinstance(started, Future):
                executor.spin_until_future_complete(started)
                started = not started.done() or bool(started.result())
            if not started:
                return False
            executor.spin()
        except ExternalShutdownException:
            break
        except Exception as error:  # of one of rclpy's own services or timers: keep serving
            if rclpy.ok():
                node.get_logger().error(f"callback failed: {type(error).__name__}: {error}")
    return True


def _close(node: Startable | None, status: int) -> NoReturn:
    """End everything, and the process at once.

    A worker that does not come back is not waited for: the compiled solver must not outlive the libraries it uses. And
    what the interpreter does at its end, which takes torch seconds where the processor is busy, helps nobody: files are
    written, and other nodes have been told that this one has gone.
    """
    signal.alarm(_LONGEST_END)  # kills the process
    if node is None:
        gc.collect()  # of what was made of one before it failed
    else:
        node.close()
    rclpy.try_shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # who read them has gone
            stream.flush()
    os._exit(status)


def _complain(name: str, error: Exception) -> None:
    """One line for what a user can mend, a traceback for anything else."""
    if isinstance(error, (EimError, ImportError)) or not rclpy.ok():
        print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
    else:
        traceback.print_exception(error)
