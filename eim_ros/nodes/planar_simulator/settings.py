"""Parameters of the node `planar_simulator`. The node `demonstrator` has the same parameters for robot and task."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import Settings, option
from eim_ros.nodes.common.settings import ManagedSettings
from eim_ros.planar import PlanarArm, PlanarTask, folded, line_task, point_task


@dataclasses.dataclass(frozen=True)
class PlanarSettings(Settings):
    """Parameters of the planar robot and its task."""

    n_links: int = option(10, "Number of links.", minimum=1, maximum=1000)
    link_length: float = option(1.0, "Length of each link.", unit="m", minimum=1e-6)
    velocity_limit: float = option(3.14, "Maximum velocity of a joint.", unit="rad/s", minimum=1e-3)
    start: str = option(
        "folded",
        "Configuration at the start and after a reset: folded in zigzag, or stretched along the x axis.",
        choices=("folded", "stretched"),
    )
    goal: str = option("line", "Goal of the tip.", choices=("line", "point"))
    goal_start: tuple[float, ...] = option((5.0, -7.0), "Start of the line, or the point: x, y.", unit="m")
    goal_end: tuple[float, ...] = option((5.0, 7.0), "End of the line: x, y.", unit="m")
    obstacles: tuple[float, ...] = option(
        (3.0, 0.0, 1.0), "Discs to avoid: x, y and radius of each. A disc of radius 0 is ignored.", unit="m"
    )
    tolerance: float = option(0.1, "Maximum distance at which the goal counts as reached.", unit="m", minimum=1e-9)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.task()

    def arm(self) -> PlanarArm:
        """Return the robot."""
        return PlanarArm(n_links=self.n_links, link_length=self.link_length, velocity_limit=self.velocity_limit)

    def start_configuration(self) -> npt.NDArray[np.float64]:
        """Return the joint angles (n_links,) at the start [rad]."""
        return folded(self.arm()) if self.start == "folded" else np.zeros(self.n_links)

    def task(self) -> PlanarTask:
        """Return the task; raise `ConfigurationError` if the parameters do not describe a valid one."""
        if len(self.obstacles) % 3:
            raise ConfigurationError(f"obstacles must be x, y, radius for each, got {self.obstacles}", self.obstacles)
        discs = [self.obstacles[i : i + 3] for i in range(0, len(self.obstacles), 3)]
        kept = [number for disc in discs if disc[2] != 0.0 for number in disc]
        if self.goal == "line":
            return line_task(self.goal_start, self.goal_end, kept, self.tolerance)
        return point_task(self.goal_start, kept, self.tolerance)


@dataclasses.dataclass(frozen=True)
class PlanarSimulatorSettings(PlanarSettings, ManagedSettings):
    """Parameters of `planar_simulator`."""

    rate: int = option(200, "Steps per second of simulated time.", unit="Hz", minimum=1, maximum=10_000)
    speed: float = option(
        1.0, "Simulated seconds per second. A value other than 1 needs publish_clock.", minimum=1e-3, maximum=1e3
    )
    publish_clock: bool = option(False, "Publish /clock, from 0, for nodes with use_sim_time.")
    status_rate: float = option(
        20.0, "Messages of ~/status per second. Each change is published immediately.", minimum=0.1
    )
    marker_rate: float = option(10.0, "Messages of ~/markers per second.", minimum=0.1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.speed != 1.0 and not self.publish_clock:
            raise ConfigurationError(
                f"speed {self.speed} needs publish_clock: no other clock runs at that speed", self.speed
            )
