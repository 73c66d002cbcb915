"""Pieces of launch files: each describes its nodes by `LaunchedNode`, and `description` makes of them what launch runs.

`launch` is needed by `description` alone; it is there where `ros2 launch` is.

One node of a launch file: which launch arguments it has, and which parameters and remappings follow from them.

Arguments that are left empty do not override the parameter files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from eim_ros.core.errors import ConfigurationError

Given = Mapping[str, str]
"""Texts of the launch arguments, by name."""

_TOPIC = "robot_description_topic"


def switch(given: Given, name: str) -> bool:
    """A launch argument that is true or false.

    Raises
    ------
    ConfigurationError
        For any other text.
    """
    text = given[name].strip().lower()
    if text not in ("true", "false", "1", "0"):
        raise ConfigurationError(f"launch argument {name} must be true or false, got '{given[name]}'", given[name])
    return text in ("true", "1")


@dataclasses.dataclass(frozen=True)
class LaunchedNode:
    """See the module.

    Attributes
    ----------
    executable : str
        Also the default of its name, and of its parameter file `config/<executable>.yaml`.
    arguments : mapping of str to str
        Parameter by the launch argument whose text it takes.
    name_argument : str
        Launch argument with the node's name.
    takes_robot_topic : bool
        Whether it can take the robot from a topic, which is then the launch argument `robot_description_topic`.
    more : callable, optional
        Parameters that follow from the texts of the arguments in another way.
    when : callable, optional
        Whether it is to be started at all; always if missing.
    """

    executable: str
    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    name_argument: str = "name"
    takes_robot_topic: bool = False
    more: Callable[[Given], dict[str, Any]] | None = None
    when: Callable[[Given], bool] | None = None

    def is_wanted(self, given: Given) -> bool:
        """Whether it is to be started."""
        return self.when is None or self.when(given)

    def parameters(self, given: Given) -> dict[str, Any]:
        """Parameters that override the files."""
        parameters: dict[str, Any] = {"use_sim_time": switch(given, "use_sim_time")}
        if given["autostart"]:
            parameters["autostart"] = switch(given, "autostart")
        if self.takes_robot_topic and given[_TOPIC]:
            parameters["use_robot_description_topic"] = True
        parameters |= {parameter: given[name] for name, parameter in self.arguments.items() if given[name]}
        return parameters | (self.more(given) if self.more is not None else {})

    def remappings(self, given: Given) -> list[tuple[str, str]]:
        """Topics by other names."""
        topic = given.get(_TOPIC, "")
        return [("robot_description", topic)] if topic else []
