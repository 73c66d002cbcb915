"""Parameters of the node `fk_collector`."""

from __future__ import annotations

import dataclasses

from eim_ros.errors import ConfigurationError
from eim_ros.settings import Settings, option

__all__ = ["FkCollectorSettings"]


@dataclasses.dataclass(frozen=True)
class FkCollectorSettings(Settings):
    """What `fk_collector` can be told."""

    robot: str = option("", "Robot as a shipped name or the path of a URDF file; empty: robot_description.")
    robot_description: str = option("", "Robot as URDF text.")
    use_robot_description_topic: bool = option(
        False, "Take the robot from the transient-local topic robot_description at start."
    )
    robot_description_timeout: float = option(
        10.0, "Longest wait for the topic robot_description.", unit="s", minimum=0.0, maximum=3600.0
    )
    base_link: str = option("", "Link in whose frame poses are given; empty: the root.")
    tip_link: str = option("", "Link whose pose is computed; empty: the only leaf.")
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
    seed: int = option(0, "Seed of the sampling.", minimum=0, read_only=False)
    output: str = option("collected.npz", "File that ~/save writes where a request gives no path.", read_only=False)
    status_period: float = option(0.5, "Time between two messages of ~/status.", unit="s", minimum=0.05, maximum=10.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        sources = {
            "robot": bool(self.robot),
            "robot_description": bool(self.robot_description),
            "use_robot_description_topic": self.use_robot_description_topic,
        }
        given = [name for name, is_given in sources.items() if is_given]
        if len(given) > 1:
            raise ConfigurationError(f"give the robot once, not by {' and '.join(given)}", given)
