"""Where the robot of a node comes from: a name or a file, URDF text, or the topic `robot_description`."""

from __future__ import annotations

import dataclasses

from eim_ros.errors import ConfigurationError
from eim_ros.kinematics import Robot
from eim_ros.settings import Settings, option

__all__ = ["RobotSettings", "check_description", "load_robot"]


@dataclasses.dataclass(frozen=True)
class RobotSettings(Settings):
    """Parameters that name a robot, at most one way, and the links between which it is meant."""

    robot: str = option(
        "",
        "Robot as a shipped name or the path of a URDF file; empty: robot_description, else that of the model.",
    )
    robot_description: str = option("", "Robot as URDF text; empty: the parameter robot, else that of the model.")
    use_robot_description_topic: bool = option(
        False, "Take the robot from the transient-local topic robot_description when the node is configured."
    )
    robot_description_timeout: float = option(
        10.0, "Longest wait for the topic robot_description.", unit="s", minimum=0.0, maximum=3600.0
    )
    base_link: str = option("", "Link in whose frame poses are given; empty: that of the model, else the root.")
    tip_link: str = option("", "Link that is to reach a pose; empty: that of the model, else the only leaf.")

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


def load_robot(settings: RobotSettings, description: str) -> Robot:
    """The robot between the links of the settings or, where they are empty, between its root and its only leaf.

    Parameters
    ----------
    settings : RobotSettings
        Name or file, and links.
    description : str
        URDF text, of the parameter or the topic; empty: `settings.robot`.

    Raises
    ------
    RobotError, ConfigurationError
        If it cannot be read, or there is none.
    """
    base, tip = settings.base_link or None, settings.tip_link or None
    if settings.robot:
        return Robot.load(settings.robot, base, tip)
    if not description:
        raise ConfigurationError(
            "no robot: give one of the parameters robot, robot_description, use_robot_description_topic", ""
        )
    check_description(description)
    return Robot.from_urdf(description.lstrip(), base, tip)


def check_description(description: str) -> None:
    """`ConfigurationError` for what is there and no URDF text, and would be taken for the name of a file."""
    if description and not description.lstrip().startswith("<"):
        raise ConfigurationError("robot_description is no URDF text", description)
