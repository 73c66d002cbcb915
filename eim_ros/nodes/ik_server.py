"""The process `ik_server`: starts the node, ends cleanly (exit code 0) on SIGINT and SIGTERM.

Exit code 1 with one line on stderr where it cannot start: an unknown or bad parameter, or, with autostart, a model
that is refused.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor

from eim_ros.errors import EimError

if TYPE_CHECKING:
    from eim_ros.nodes.ik_server_node import IkServer

__all__ = ["main"]


def main(args: list[str] | None = None) -> int:
    """Run the node until a signal; returns the exit code. `args` as for `rclpy.init`."""
    # Both signals then raise KeyboardInterrupt, also during the seconds of loading and compiling; rclpy's own handler,
    # installed by init, calls this one after it has shut the context down.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    node: IkServer | None = None
    status = 0
    try:
        if not _initialise(args):
            return 1
        from eim_ros.nodes.ik_server_node import IkServer  # here: takes seconds, in which a signal may come

        node = IkServer()
        if node.settings.autostart and not node.start():
            status = int(rclpy.ok())  # not a failure when a signal was the cause
        else:
            _spin(node)
    except KeyboardInterrupt:
        pass
    except EimError as error:
        status = 1
        _complain(error)
    except ImportError as error:
        status = 1
        _complain(error)
    except Exception:
        if rclpy.ok():  # else a call was cut short by the signal that shut the context down
            status = 1
            traceback.print_exc()
    finally:
        _close(node, status)
    return status


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
    """End everything; further signals are ignored, a worker that does not come back is not waited for."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    idle = node is None or node.close()
    rclpy.try_shutdown()
    for number in (signal.SIGINT, signal.SIGTERM):  # rclpy has put back what it found
        signal.signal(number, signal.SIG_IGN)
    if not idle:
        sys.stderr.flush()
        os._exit(status)  # a compiled kernel still runs, and must not outlive the libraries it uses


def _complain(error: BaseException) -> None:
    print(f"ik_server: {' '.join(str(error).split())}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
