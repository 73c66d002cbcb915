"""Parameters of the node `ik_viewer`."""

from __future__ import annotations

import dataclasses

from eim_ros.core.settings import option
from eim_ros.nodes.common.settings import ManagedSettings, RobotSettings


@dataclasses.dataclass(frozen=True)
class IkViewerSettings(RobotSettings, ManagedSettings):
    """Parameters of `ik_viewer`."""

    model: str = option(
        "",
        "Model whose samples are shown: a file (.safetensors) made by 'eim train', or the name of an included model. "
        "Empty: show all solutions of the robot.",
    )
    n_solutions: int = option(50, "Number of solutions to show.", minimum=1, maximum=1000, read_only=False)
    position_only: bool = option(False, "Accept every orientation of the target.", read_only=False)
    seed: int = option(0, "Seed of the solutions, the same for every target.", minimum=0)
    rate: float = option(30.0, "Maximum number of targets solved per second.", unit="Hz", minimum=0.1, maximum=1000.0)
    use_tf: bool = option(
        True, "Accept targets in any frame of tf; otherwise only in frames that are fixed to the base link."
    )
    frame_prefix: str = option("", "Prefix of the robot's link names in tf, as in robot_state_publisher.")
    transform_timeout: float = option(
        1.0, "Maximum time that a target waits for a missing transform.", unit="s", minimum=0.0
    )
    target_size: float = option(0.25, "Length of the arrows of the target.", unit="m", minimum=0.001, maximum=100.0)
