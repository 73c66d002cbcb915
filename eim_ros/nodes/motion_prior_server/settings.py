"""Parameters of the node `motion_prior_server`."""

from __future__ import annotations

import dataclasses

from eim_ros.core.settings import option
from eim_ros.nodes.common.settings import DataDirectorySettings


@dataclasses.dataclass(frozen=True)
class MotionPriorServerSettings(DataDirectorySettings):
    """Parameters of `motion_prior_server`."""

    model: str = option("", "Motion prior (.safetensors) made by 'eim train'; empty: wait for the service load_model.")
    default_points: int = option(
        0,
        "Points of a motion of a request that gives 0; 0: as demonstrated.",
        minimum=0,
        maximum=100_000,
        read_only=False,
    )
    max_points: int = option(
        10_000, "Most points of a motion that a request may ask for.", minimum=2, maximum=100_000, read_only=False
    )
    max_samples: int = option(
        10_000, "Most motions that a request may hold or ask for.", minimum=1, maximum=1_000_000, read_only=False
    )
    max_trajectory_points: int = option(
        100_000,
        "Most points of all motions of an answer with trajectories; more only as flat matrix.",
        minimum=1,
        maximum=10_000_000,
        read_only=False,
    )
    outlier_share: float = option(
        0.05,
        "A motion is an outlier if fewer held-out demonstrations than this share are less likely.",
        minimum=0.0,
        maximum=1.0,
        read_only=False,
    )
