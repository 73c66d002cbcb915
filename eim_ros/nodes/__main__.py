"""Entry point of all node executables.

    ros2 run eim_ros ik_server --ros-args -p model:=panda_pose
    python -m eim_ros.nodes ik_server --model panda_pose
    ik_server --help

Each executable has the name of its node. All executables call `main`, which finds the node in `NODES` by this name.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from eim_ros.core.settings import Settings
    from eim_ros.nodes.common.process import Startable


@dataclass(frozen=True)
class Entry:
    """Node that an executable runs."""

    # Module relative to `eim_ros.nodes`. Its import takes seconds. Therefore, `make` imports it after the process has
    # installed its signal handlers.
    module: str
    node: str  # name of the node's class in the module
    settings_module: str = "settings"  # module with the class of its parameters; it does not need ROS
    n_threads: int = 1  # number of threads of the executor
    shared_memory: bool = False  # whether the middleware may use shared memory; see `use_own_profiles`

    def make(self) -> Startable:
        """Import the module and create the node."""
        node: Startable = getattr(importlib.import_module(f"eim_ros.nodes.{self.module}"), self.node)()
        return node

    @property
    def settings(self) -> type[Settings]:
        """Settings class that declares the parameters of the node."""
        module = importlib.import_module(f"eim_ros.nodes.{self.settings_module}")
        kind: type[Settings] = getattr(module, f"{self.node.removesuffix('Node')}Settings")
        return kind


NODES = {
    "demo_recorder": Entry("demo_recorder", "DemoRecorder", shared_memory=True),  # records messages of other nodes
    "demonstrator": Entry("demonstrator.node", "Demonstrator", "planar_simulator.settings"),
    "fk_collector": Entry("fk_collector", "FkCollector"),
    "ik_server": Entry("ik_server.node", "IkServer"),
    "ik_viewer": Entry("ik_viewer.node", "IkViewer"),
    "motion_prior_server": Entry("motion_prior_server", "MotionPriorServer"),
    "planar_simulator": Entry("planar_simulator.node", "PlanarSimulatorNode", "planar_simulator.settings"),
    # One thread trains. The other threads handle further goals, cancellations, results and parameters.
    "trainer": Entry("trainer.node", "Trainer", n_threads=4),
    "training_coordinator": Entry("training_coordinator", "TrainingCoordinator"),
}
"""Entry of each executable. The name of the executable is also the default name of the node."""


def main(args: list[str] | None = None) -> NoReturn:
    """Run a node until a signal arrives, then exit the process.

    `args` has the form of `sys.argv`, its default.
    """
    words = sys.argv if args is None else args
    by_module = Path(words[0]).name == "__main__.py"  # python -m eim_ros.nodes NAME
    name = "".join(words[1:2]) if by_module else Path(words[0]).name
    _end_on_signals(name)

    # The signal handlers must be installed before these imports, which take seconds.
    from eim_ros.core.errors import ConfigurationError, did_you_mean
    from eim_ros.nodes.common.process import help_text, ros_arguments, run_node, use_own_profiles, wants_help

    if name not in NODES:
        sys.exit(f"there is no node '{name}'; expected one of {', '.join(NODES)}{did_you_mean(name, NODES)}")
    entry, n_own = NODES[name], 2 if by_module else 1
    if wants_help(words[n_own:]):
        with contextlib.suppress(BrokenPipeError):
            print(help_text(name, entry.settings), flush=True)
        os._exit(0)  # a normal exit would report an error if the pipe is closed
    try:
        given = ros_arguments(words[n_own:], lambda: entry.settings)
    except ConfigurationError as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(2)
    use_own_profiles(shared_memory=entry.shared_memory)
    run_node(name, entry.make, [*words[:n_own], *given], entry.n_threads)


def _end_on_signals(name: str) -> None:
    """Exit with one line on SIGINT or SIGTERM, until `run_node` has its own handlers.

    This function must not raise an exception, because some imports of C libraries would replace it by another
    exception.
    """

    def leave(number: int, frame: Any) -> NoReturn:
        print(f"{name}: ended by {signal.Signals(number).name} before the node started", file=sys.stderr, flush=True)
        os._exit(0)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)


if __name__ == "__main__":
    main()
