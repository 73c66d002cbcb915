"""Parameters of the node `motion_prior_server`."""

from __future__ import annotations

import dataclasses

from eim_ros.core.settings import option
from eim_ros.nodes.common.settings import DataDirectorySettings


@dataclasses.dataclass(frozen=True)
class MotionPriorServerSettings(DataDirectorySettings):
    """Parameters of `motion_prior_server`."""

    model: str = option("", "Motion prior (.safetensors) made by 'eim train'. Empty: wait for the service load_model.")
    default_points: int = option(
        0,
        "Points per motion if a request gives 0. The value 0: the number in the demonstrations.",
        minimum=0,
        maximum=100_000,
        read_only=False,
    )
    max_points: int = option(
        10_000, "Maximum number of points per motion in a request.", minimum=2, maximum=100_000, read_only=False
    )
    max_samples: int = option(
        10_000,
        "Maximum number of motions in a request or in its answer.",
        minimum=1,
        maximum=1_000_000,
        read_only=False,
    )
    max_trajectory_points: int = option(
        100_000,
        "Maximum number of points in an answer with trajectories. Larger answers contain only the flat matrix.",
        minimum=1,
        maximum=10_000_000,
        read_only=False,
    )
    outlier_share: float = option(
        0.05,
        "A motion is an outlier if less than this share of the held-out demonstrations is less likely.",
        minimum=0.0,
        maximum=1.0,
        read_only=False,
    )
