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
        "Model file (.safetensors) made by 'eim train', or the name of a shipped one, whose samples are shown; empty: "
        "all solutions of the robot.",
    )
    n_solutions: int = option(50, "Solutions to show.", minimum=1, maximum=1000, read_only=False)
    position_only: bool = option(False, "Any orientation of the target will do.", read_only=False)
    seed: int = option(0, "Of the solutions, the same for every target.", minimum=0)
    rate: float = option(30.0, "Most targets solved per second.", unit="Hz", minimum=0.1, maximum=1000.0)
    use_tf: bool = option(True, "Take targets in any frame of tf, else in those that are fixed to the base link.")
    frame_prefix: str = option(
        "", "What stands before the names of the robot's links in tf, as robot_state_publisher's."
    )
    transform_timeout: float = option(
        1.0, "Longest time that a target waits for a transform that is not known yet.", unit="s", minimum=0.0
    )
    target_size: float = option(0.25, "Of the arrows of the target.", unit="m", minimum=0.001, maximum=100.0)
