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
        "Where configurations come from: the topic joint_states, or uniform sampling within the limits.",
        choices=("joint_states", "sampling"),
        read_only=False,
    )
    rate: float = option(1000.0, "Configurations sampled per second.", unit="Hz", minimum=1.0, maximum=1e6)
    context: str = option(
        "position", "What a model is to be conditioned on.", choices=("position", "pose"), read_only=False
    )
    n_wanted: int = option(
        10000, "Pairs after which collecting ends by itself.", minimum=1, maximum=10_000_000, read_only=False
    )
    min_distance: float = option(
        1e-3,
        "Least change of some joint since the configuration before; joint states that are closer are left out.",
        unit="rad or m",
        minimum=0.0,
        read_only=False,
    )
    seed: int = option(0, "Of the sampling.", minimum=0, read_only=False)
    output: str = option(
        "collected.npz", "File that ~/save writes if a request gives no path; a relative one lies in data_directory."
    )
    status_period: float = option(0.5, "Time between two messages of ~/status.", unit="s", minimum=0.05, maximum=10.0)
