"""The process `planar_simulator`."""

from __future__ import annotations

import sys

from eim_ros.nodes.process import Startable, run_node

__all__ = ["main"]


def main(args: list[str] | None = None) -> int:
    """Run the node until a signal; returns the exit code. `args` as for `rclpy.init`."""
    return run_node("planar_simulator", _make, args)


def _make() -> Startable:
    from eim_ros.nodes.planar_simulator_node import PlanarSimulatorNode

    return PlanarSimulatorNode()


if __name__ == "__main__":
    sys.exit(main())
