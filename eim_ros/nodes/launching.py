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

    Raises
    ------
    ConfigurationError
        If the text is not one of true, false, 1 and 0.
    """
    text = given[name].strip().lower()
    if text not in ("true", "false", "1", "0"):
        raise ConfigurationError(f"launch argument {name} must be true or false, got '{given[name]}'", given[name])
    return text in ("true", "1")


def integer(given: Given, name: str) -> int:
    """Return the value of an integer launch argument.

    Raises
    ------
    ConfigurationError
        If the text is not an integer.
    """
    try:
        return int(given[name])
    except ValueError:
        raise ConfigurationError(
            f"launch argument {name} must be an integer, got '{given[name]}'", given[name]
        ) from None


@dataclasses.dataclass(frozen=True)
class LaunchedNode:
    """One node of a launch file.

    Attributes
    ----------
    executable : str
        Executable of the node. It is also the default name of the node, and the stem of its parameter file
        `config/<executable>.yaml`.
    arguments : mapping of str to str
        Maps launch arguments to the parameters that take their values.
    name_argument : str
        Launch argument that sets the node's name.
    takes_robot_topic : bool
        Whether the node can read the robot from a topic. The launch argument `robot_description_topic` names it.
    more : callable, optional
        Computes further parameters from the launch arguments.
    when : callable, optional
        Decides from the launch arguments whether the node is started; by default it always is.
    required : bool
        Whether the launch ends with an exit code other than 0 if the node fails. With `respawn`, a node that failed is
        started again instead.
    has_end : bool
        Whether the node ends when its task is done. It is never started again, so its failure always ends the launch
        if it is required.
    ended_by : str
        Executable of a node with an end; this node ends after it. Empty: none.
    """

    executable: str
    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    name_argument: str = "name"
    takes_robot_topic: bool = False
    more: Callable[[Given], dict[str, Any]] | None = None
    when: Callable[[Given], bool] | None = None
    required: bool = False
    has_end: bool = False
    ended_by: str = ""

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

    def respawns(self, given: Given) -> bool:
        """Return whether the node is started again after it has ended."""
        return not self.has_end and switch(given, "respawn")

    def remappings(self, given: Given) -> list[tuple[str, str]]:
        """Return the topic remappings as pairs (name, new name)."""
        topic = given.get(_TOPIC, "")
        return [("robot_description", topic)] if topic else []
