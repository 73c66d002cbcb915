"""The process `demonstrator`."""

from __future__ import annotations

import sys

from eim_ros.nodes.process import Startable, run_node

__all__ = ["main"]


def main(args: list[str] | None = None) -> int:
    """Run the node until a signal; returns the exit code. `args` as for `rclpy.init`."""
    return run_node("demonstrator", _make, args)


def _make() -> Startable:
    from eim_ros.nodes.demonstrator_node import Demonstrator

    return Demonstrator()


if __name__ == "__main__":
    sys.exit(main())
