"""Parameters of the node `fk_collector`."""

from __future__ import annotations

import dataclasses

from eim_ros.core.settings import option
from eim_ros.nodes.common.settings import DataDirectorySettings, RobotSettings


@dataclasses.dataclass(frozen=True)
class FkCollectorSettings(RobotSettings, DataDirectorySettings):
    """Parameters of `fk_collector`."""

    source: str = option(
        "joint_states",
        "Source of configurations: the topic joint_states, or uniform sampling within the limits.",
        choices=("joint_states", "sampling"),
        read_only=False,
    )
    rate: float = option(1000.0, "Number of configurations sampled per second.", unit="Hz", minimum=1.0, maximum=1e6)
    context: str = option(
        "position", "Context of the model that the pairs will train.", choices=("position", "pose"), read_only=False
    )
    n_wanted: int = option(
        10000, "Number of pairs after which collecting ends.", minimum=1, maximum=10_000_000, read_only=False
    )
    min_distance: float = option(
        1e-3,
        "Minimum change of at least one joint since the last stored configuration; closer joint states are skipped.",
        unit="rad or m",
        minimum=0.0,
        read_only=False,
    )
    seed: int = option(0, "Seed of the sampling.", minimum=0, read_only=False)
    output: str = option(
        "collected.npz", "File that ~/save writes if a request gives no path. A relative path starts in data_directory."
    )
    status_period: float = option(0.5, "Time between two messages of ~/status.", unit="s", minimum=0.05, maximum=10.0)
