"""The process `trainer`."""

from __future__ import annotations

import sys

from rclpy.executors import MultiThreadedExecutor

from eim_ros.nodes.process import Startable, run_node

__all__ = ["main"]

_THREADS = 4  # one trains, the others answer: further goals, cancels, results, parameters


def main(args: list[str] | None = None) -> int:
    """Run the node until a signal; returns the exit code. `args` as for `rclpy.init`."""
    return run_node("trainer", _make, args, lambda: MultiThreadedExecutor(_THREADS))


def _make() -> Startable:
    from eim_ros.nodes.trainer_node import Trainer

    return Trainer()


if __name__ == "__main__":
    sys.exit(main())
