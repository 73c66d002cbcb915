"""Parameters that several nodes share. This module does not need ROS."""

from __future__ import annotations

import dataclasses
import functools

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import Settings, option
from eim_ros.nodes.common.data_directory import DataDirectory


@dataclasses.dataclass(frozen=True)
class ManagedSettings(Settings):
    """Parameters of all lifecycle nodes."""

    autostart: bool = option(
        True, "Configure and activate at start; false leaves both to a lifecycle manager or 'ros2 lifecycle set'."
    )


@dataclasses.dataclass(frozen=True)
class DataDirectorySettings(ManagedSettings):
    """Parameters of nodes that accept paths from remote callers."""

    data_directory: str = option(
        "",
        "Directory that contains all paths of requests. Relative paths start there. Empty: eim_ros in $ROS_HOME, or in "
        "~/.ros.",
    )
    max_file_size: int = option(
        500_000_000, "Maximum size of a file that is opened for a request.", unit="byte", minimum=1
    )

    @functools.cached_property
    def data(self) -> DataDirectory:
        """Directory that all paths in requests must lead into."""
        return DataDirectory(self.data_directory, self.max_file_size)


@dataclasses.dataclass(frozen=True)
class RobotSettings(Settings):
    """Parameters that specify a robot, in at most one way, and the base and tip link of its chain."""

    robot: str = option(
        "",
        "Name of an included robot, or path of a URDF file. Empty: robot_description, or else the robot of the model.",
    )
    robot_description: str = option(
        "", "URDF text of the robot. Empty: the parameter robot, or else the robot of the model."
    )
    use_robot_description_topic: bool = option(
        False, "Take the robot from the transient-local topic robot_description when the node is configured."
    )
    robot_description_timeout: float = option(
        10.0, "Maximum wait for the topic robot_description.", unit="s", minimum=0.0, maximum=3600.0
    )
    base_link: str = option(
        "", "Link in whose frame poses are given. Empty: the base link of the model, or else the root."
    )
    tip_link: str = option("", "Link that reaches the poses. Empty: that of the model, or else as in `Robot`.")

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
