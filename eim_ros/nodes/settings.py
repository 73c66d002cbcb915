"""Parameters of the node `ik_server`: declared, bounded and described once, here."""

from __future__ import annotations

import dataclasses

from eim_ros.errors import ConfigurationError
from eim_ros.settings import Settings, option

__all__ = ["IkServerSettings"]


@dataclasses.dataclass(frozen=True)
class IkServerSettings(Settings):
    """What `ik_server` can be told, by a parameter file, by `-p name:=value`, or (not read-only ones) while it runs."""

    model: str = option(
        "",
        "Model file (.safetensors) made by 'eim train', or the name of a shipped one; none: all solutions of the "
        "robot; empty: none where a robot is given, else iiwa14_pose.",
    )
    robot: str = option(
        "", "Robot as a shipped name or the path of a URDF file; empty: robot_description, else the one in the model."
    )
    robot_description: str = option(
        "", "Robot as URDF text; empty: the parameter robot, else the robot stored in the model."
    )
    use_robot_description_topic: bool = option(
        False, "Take the robot from the transient-local topic robot_description when the node is configured."
    )
    robot_description_timeout: float = option(
        10.0, "Longest wait for the topic robot_description.", unit="s", minimum=0.0, maximum=3600.0
    )
    base_link: str = option("", "Link in whose frame poses are given; empty: that of the model, else the root.")
    tip_link: str = option("", "Link that is to reach the pose; empty: that of the model, else the only leaf.")
    default_position_tolerance: float = option(
        1e-6, "Position tolerance of a request that gives 0.", unit="m", minimum=1e-12, read_only=False
    )
    default_orientation_tolerance: float = option(
        1e-6, "Orientation tolerance of a request that gives 0.", unit="rad", minimum=1e-12, read_only=False
    )
    default_timeout: float = option(
        1.0, "Timeout of a request that gives 0; at most max_timeout.", unit="s", minimum=1e-3, read_only=False
    )
    max_timeout: float = option(
        30.0, "Longest timeout a request may ask for.", unit="s", minimum=1e-3, maximum=3600.0, read_only=False
    )
    max_samples: int = option(
        10000, "Largest n_samples a request may ask for.", minimum=1, maximum=1_000_000, read_only=False
    )
    threads: int = option(1, "Requests that are solved at the same time, each on one thread.", minimum=1, maximum=256)
    queue_size: int = option(
        256, "Requests that may wait for a thread; further ones are answered BUSY, unsolved.", minimum=1, maximum=500
    )
    device: str = option("cpu", "Torch device of the mixture, such as cpu or cuda.")
    autostart: bool = option(
        True, "Configure and activate at start; false leaves both to a lifecycle manager or 'ros2 lifecycle set'."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.default_timeout > self.max_timeout:
            raise ConfigurationError(
                f"default_timeout {self.default_timeout} s must be at most max_timeout {self.max_timeout} s",
                self.default_timeout,
            )
        sources = {
            "robot": bool(self.robot),
            "robot_description": bool(self.robot_description),
            "use_robot_description_topic": self.use_robot_description_topic,
        }
        given = [name for name, is_given in sources.items() if is_given]
        if len(given) > 1:
            raise ConfigurationError(f"give the robot once, not by {' and '.join(given)}", given)
