"""Parameters of the node `demonstrator`."""

from __future__ import annotations

import dataclasses

import torch

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import option
from eim_ros.nodes.common.settings import ManagedSettings
from eim_ros.nodes.planar_simulator.settings import PlanarSettings
from eim_ros.planar import PlanarTask


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
        "Number of places of the goal. The motions are shared evenly among them, place after place.",
        minimum=1,
        maximum=1000,
    )
    last_shift: tuple[float, ...] = option(
        (0.0, 0.0), "Shift of the goal at its last place: x, y. Other places are evenly spaced on the way.", unit="m"
    )
    seed: int = option(0, "Seed of the motions. A later start continues the random sequence.", minimum=0)
    show_at_start: bool = option(
        True, "Show motions as soon as the simulator is available; otherwise wait for ~/start."
    )
    exit_when_done: bool = option(False, "End the process, with exit code 0, after the last motion.")
    speed_share: float = option(
        0.5, "Largest velocity of a joint, as a share of its limit.", minimum=0.01, maximum=1.0, read_only=False
    )
    pause: float = option(0.2, "Time at rest before each motion.", unit="s", minimum=0.0, maximum=60.0, read_only=False)
    simulator: str = option("planar_simulator", "Name of the simulator node.")
    recorder: str = option("", "Name of the recorder node that receives the labels; empty: none.")
    label: str = option("demonstration", "Label of a motion. Between motions the label is 'pause'.")
    set_task: bool = option(True, "Send the task to the simulator first; otherwise the simulator must already have it.")
    command_timeout: float = option(
        0.25, "Time after which a velocity command of a person expires.", unit="s", minimum=0.02, maximum=10.0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.last_shift) != 2:
            raise ConfigurationError(f"last_shift must be x, y, got {self.last_shift}", self.last_shift)
        if self.n_places > 1 and not self.set_task:
            raise ConfigurationError("several places of the goal need set_task", self.n_places)

    def tasks(self) -> list[PlanarTask]:
        """Return the task with the goal at each of its places."""
        task, shift = self.task(), torch.tensor(self.last_shift, dtype=torch.float64)
        shares = torch.linspace(0.0, 1.0, self.n_places, dtype=torch.float64)
        moved = [(task.start + share * shift, task.end + share * shift) for share in shares]
        return [dataclasses.replace(task, start=start, end=end) for start, end in moved]
