"""Parameters of the planar nodes `planar_simulator` and `demonstrator`, which have the same robot and task."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import torch

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import Settings, option
from eim_ros.nodes.settings import ManagedSettings
from eim_ros.planar import PlanarArm, PlanarTask, folded, line_task, point_task


@dataclasses.dataclass(frozen=True)
class PlanarSettings(Settings):
    """Parameters of the planar robot and its task."""

    n_links: int = option(10, "Number of links.", minimum=1, maximum=1000)
    link_length: float = option(1.0, "Length of each link.", unit="m", minimum=1e-6)
    velocity_limit: float = option(3.14, "Maximum velocity of a joint.", unit="rad/s", minimum=1e-3)
    start: str = option(
        "folded",
        "Configuration at the start and after a reset: folded in a zigzag, or stretched along the x axis.",
        choices=("folded", "stretched"),
    )
    goal: str = option("line", "Goal of the tip.", choices=("line", "point"))
    goal_start: tuple[float, ...] = option((5.0, -7.0), "Start of the line, or the point: x, y.", unit="m")
    goal_end: tuple[float, ...] = option((5.0, 7.0), "End of the line: x, y.", unit="m")
    obstacles: tuple[float, ...] = option(
        (3.0, 0.0, 1.0), "Discs to avoid: x, y and radius of each. A disc with radius 0 is ignored.", unit="m"
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
        """Return the task. Raise `ConfigurationError` if the parameters do not describe a valid task."""
        if len(self.obstacles) % 3:
            raise ConfigurationError(
                f"obstacles must be x, y, radius for each disc, got {self.obstacles}", self.obstacles
            )
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
        1.0,
        "Simulated seconds per second of real time. A value other than 1 needs publish_clock.",
        minimum=1e-3,
        maximum=1e3,
    )
    publish_clock: bool = option(False, "Publish simulated time on /clock, from 0, for nodes with use_sim_time.")
    status_rate: float = option(
        20.0, "Messages of ~/status per second. Each change is published immediately.", minimum=0.1
    )
    marker_rate: float = option(10.0, "Messages of ~/markers per second.", minimum=0.1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.speed != 1.0 and not self.publish_clock:
            raise ConfigurationError(
                f"speed {self.speed} needs publish_clock, because no other clock runs at this speed", self.speed
            )


@dataclasses.dataclass(frozen=True)
class DemonstratorSettings(PlanarSettings, ManagedSettings):
    """Parameters of `demonstrator`."""

    driver: str = option(
        "expert",
        "Source of the motions: the expert, or a person who uses ~/twist and ~/joint_velocity.",
        choices=("expert", "person"),
    )
    n_motions: int = option(
        20, "Number of motions to show after each start.", minimum=1, maximum=100_000, read_only=False
    )
    n_places: int = option(
        1,
        "Number of places of the goal. The motions are divided evenly among the places, one place after the other.",
        minimum=1,
        maximum=1000,
    )
    last_shift: tuple[float, ...] = option(
        (0.0, 0.0),
        "Shift of the goal from its first to its last place: x, y. The other places are evenly spaced in between.",
        unit="m",
    )
    seed: int = option(0, "Seed of the motions. Each later start continues the random sequence.", minimum=0)
    show_at_start: bool = option(
        True, "Whether motions begin as soon as the simulator is available; otherwise they begin after ~/start."
    )
    exit_when_done: bool = option(False, "End the process, with exit code 0, after the last motion.")
    speed_share: float = option(
        0.5, "Maximum velocity of a joint, as a fraction of its limit.", minimum=0.01, maximum=1.0, read_only=False
    )
    pause: float = option(0.2, "Time at rest before each motion.", unit="s", minimum=0.0, maximum=60.0, read_only=False)
    simulator: str = option("planar_simulator", "Name of the simulator node.")
    recorder: str = option("", "Name of the recorder node that receives the labels. Empty: no recorder.")
    label: str = option("demonstration", "Label of each motion. Between motions the label is 'pause'.")
    set_task: bool = option(
        True, "Whether the task is sent to the simulator first; otherwise the simulator must already have the task."
    )
    command_timeout: float = option(
        0.25, "Time after which a velocity command of a person expires.", unit="s", minimum=0.02, maximum=10.0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.last_shift) != 2:
            raise ConfigurationError(f"last_shift must be two numbers x, y, got {self.last_shift}", self.last_shift)
        if self.n_places > 1 and not self.set_task:
            raise ConfigurationError(
                f"set_task must be true if n_places is above 1, got n_places {self.n_places}", self.n_places
            )

    def tasks(self) -> list[PlanarTask]:
        """Return the task with the goal at each of its places."""
        task, shift = self.task(), torch.tensor(self.last_shift, dtype=torch.float64)
        shares = torch.linspace(0.0, 1.0, self.n_places, dtype=torch.float64)
        moved = [(task.start + share * shift, task.end + share * shift) for share in shares]
        return [dataclasses.replace(task, start=start, end=end) for start, end in moved]
