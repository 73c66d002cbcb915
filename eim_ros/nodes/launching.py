"""Launch arguments of a node, and the parameters and remappings that follow from them.

Each launch file describes its nodes as `LaunchedNode` objects. `launch_description.description` turns them into a
`LaunchDescription`. Only that module imports `launch`, so this one also works without `ros2 launch`. Empty arguments
do not override the parameter files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from eim_ros.core.errors import ConfigurationError

Given = Mapping[str, str]
"""Value of each launch argument, as text, by name."""

_TOPIC = "robot_description_topic"


def switch(given: Given, name: str) -> bool:
    """Return the value of a boolean launch argument.

    Raise `ConfigurationError` if the text is not one of true, false, 1 and 0.
    """
    text = given[name].strip().lower()
    if text not in ("true", "false", "1", "0"):
        raise ConfigurationError(f"launch argument {name} must be true or false, got '{given[name]}'", given[name])
    return text in ("true", "1")


@dataclasses.dataclass(frozen=True)
class LaunchedNode:
    """One node of a launch file."""

    # Executable of the node. It is also the default name of the node, and the stem of its parameter file
    # `config/<executable>.yaml`.
    executable: str
    # maps launch arguments to the parameters that take their values
    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    name_argument: str = "name"  # launch argument that sets the node's name
    # Whether the node can read the robot from a topic. The launch argument `robot_description_topic` names it.
    takes_robot_topic: bool = False
    more: Callable[[Given], dict[str, Any]] | None = None  # computes further parameters from the launch arguments
    # decides from the launch arguments whether the node is started; by default it always is
    when: Callable[[Given], bool] | None = None

    def is_wanted(self, given: Given) -> bool:
        """Return whether the node is to be started."""
        return self.when is None or self.when(given)

    def parameters(self, given: Given) -> dict[str, Any]:
        """Return the parameters that override the parameter files."""
        parameters: dict[str, Any] = {"use_sim_time": switch(given, "use_sim_time")}
        if given["autostart"]:
            parameters["autostart"] = switch(given, "autostart")
        if self.takes_robot_topic and given[_TOPIC]:
            parameters["use_robot_description_topic"] = True
        parameters |= {parameter: given[name] for name, parameter in self.arguments.items() if given[name]}
        return parameters | (self.more(given) if self.more is not None else {})

    def remappings(self, given: Given) -> list[tuple[str, str]]:
        """Return the topic remappings as pairs (name, new name)."""
        topic = given.get(_TOPIC, "")
        return [("robot_description", topic)] if topic else []
