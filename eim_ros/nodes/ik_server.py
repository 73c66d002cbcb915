"""The process `ik_server`: starts the node, ends cleanly (exit code 0) on SIGINT and SIGTERM.

Exit code 1 with one line on stderr where it cannot start: an unknown or bad parameter, or, with autostart, a model
that is refused.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from types import FrameType
from typing import TYPE_CHECKING

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor

from eim_ros.errors import EimError

if TYPE_CHECKING:
    from eim_ros.nodes.ik_server_node import IkServer

__all__ = ["main"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(args: list[str] | None = None) -> int:
    """Run the node until a signal; returns the exit code. `args` as for `rclpy.init`."""
    signalled = _exit_on_first_signal()
    node: IkServer | None = None
    status = 0
    try:
        if not _initialise(args):
            return 1
        from eim_ros.nodes.ik_server_node import IkServer  # here: takes seconds, in which a signal may come

        node = IkServer()
        if node.settings.autostart and not node.start():
            status = 1
        else:
            _spin(node)
    except SystemExit:  # a signal
        pass
    except Exception as error:
        status = 1
        if not signalled.is_set():  # else the error comes from a call that the signal cut short
            _complain(error)
    finally:
        status = 0 if signalled.is_set() else status
        _close(node, status)
    return status


def _exit_on_first_signal() -> threading.Event:
    """Let the first SIGINT or SIGTERM raise SystemExit, also while a model is loaded and compiled, and set the event.

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


def _initialise(args: list[str] | None) -> bool:
    try:
        rclpy.init(args=args)
    except Exception as error:  # rclpy has a private class for each kind of bad argument
        _complain(error)
        return False
    return True


def _spin(node: IkServer) -> None:
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while rclpy.ok():
        try:
            executor.spin()
        except ExternalShutdownException:
            return
        except Exception as error:  # of one of rclpy's own services or timers: keep serving
            if rclpy.ok():
                node.get_logger().error(f"callback failed: {type(error).__name__}: {error}")


def _close(node: IkServer | None, status: int) -> None:
    """End everything; a worker that does not come back is not waited for."""
    idle = node is None or node.close()
    rclpy.try_shutdown()
    for number in SIGNALS:  # the interpreter puts back the defaults before it has ended, unless a signal is ignored
        signal.signal(number, signal.SIG_IGN)
    if not idle:
        sys.stderr.flush()
        os._exit(status)  # a compiled kernel still runs, and must not outlive the libraries it uses


def _complain(error: Exception) -> None:
    """One line for what a user can mend, a traceback for anything else."""
    if isinstance(error, (EimError, ImportError)) or not rclpy.ok():
        print(f"ik_server: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
    else:
        traceback.print_exception(error)


if __name__ == "__main__":
    sys.exit(main())
