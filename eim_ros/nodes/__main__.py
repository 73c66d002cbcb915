"""The processes of the package: one table, one `main`.

    ros2 run eim_ros ik_server --ros-args -p model:=panda_pose
    python -m eim_ros.nodes ik_server --model panda_pose
    ik_server --help

Each executable is named after its node and calls `main`, which finds the node by that name.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from eim_ros.core.errors import ConfigurationError, did_you_mean
from eim_ros.core.settings import Settings
from eim_ros.nodes.common.process import Startable, help_text, ros_arguments, run_node, use_own_profiles, wants_help


@dataclass(frozen=True)
class Entry:
    """What a process runs.

    Attributes
    ----------
    module : str
        Below `eim_ros.nodes`; imported when the process runs, since imports take seconds in which a signal may come.
    node : str
        Name of the node's class in it.
    n_threads : int
        Of the executor.
    shared_memory : bool
        Whether messages may come by it, see `use_own_profiles`.
    """

    module: str
    node: str
    n_threads: int = 1
    shared_memory: bool = False

    def make(self) -> Startable:
        """The node."""
        node: Startable = getattr(importlib.import_module(f"eim_ros.nodes.{self.module}"), self.node)()
        return node

    @property
    def settings(self) -> type[Settings]:
        """Its parameters."""
        module = importlib.import_module(f"eim_ros.nodes.{self.module.rpartition('.')[0]}.settings")
        kind: type[Settings] = getattr(module, f"{self.node.removesuffix('Node')}Settings")
        return kind


NODES = {
    "demo_recorder": Entry("demo_recorder.node", "DemoRecorder", shared_memory=True),  # any message, sent only once
    "demonstrator": Entry("demonstrator.node", "Demonstrator"),
    "fk_collector": Entry("fk_collector.node", "FkCollector"),
    "ik_server": Entry("ik_server.node", "IkServer"),
    "ik_viewer": Entry("ik_viewer.node", "IkViewer"),
    "motion_prior_server": Entry("motion_prior_server.node", "MotionPriorServer"),
    "planar_simulator": Entry("planar_simulator.node", "PlanarSimulatorNode"),
    # one thread trains, the others answer: further goals, cancels, results, parameters
    "trainer": Entry("trainer.node", "Trainer", n_threads=4),
}
"""By name of the executable, which is the default name of the node."""


def main(args: list[str] | None = None) -> NoReturn:
    """Run a node until a signal; the process ends with it.

    Parameters
    ----------
    args : list of str, optional
        Name of the program and its arguments, as `rclpy.init` takes them; by default those of this process.
    """
    words = sys.argv if args is None else args
    by_module = Path(words[0]).name == "__main__.py"  # python -m eim_ros.nodes NAME
    name = "".join(words[1:2]) if by_module else Path(words[0]).name
    if name not in NODES:
        sys.exit(f"there is no node '{name}'; expected one of {', '.join(NODES)}{did_you_mean(name, NODES)}")
    entry, n_own = NODES[name], 2 if by_module else 1
    if wants_help(words[n_own:]):
        with contextlib.suppress(BrokenPipeError):
            print(help_text(name, entry.settings), flush=True)
        os._exit(0)  # without a complaint of the interpreter where who read it has gone
    try:
        given = ros_arguments(words[n_own:], lambda: entry.settings)
    except ConfigurationError as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(2)
    use_own_profiles(shared_memory=entry.shared_memory)
    run_node(name, entry.make, [*words[:n_own], *given], entry.n_threads)


if __name__ == "__main__":
    main()
