"""Launch arguments of a node, and the parameters and remappings that follow from them.

Each launch file describes its nodes as `LaunchedNode` objects, and `description` turns them into the
`LaunchDescription` that `ros2 launch` runs. Only `description` imports `launch`, which is not needed to run nodes.
Empty arguments do not override the parameter files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eim_ros.core.errors import ConfigurationError
from eim_ros.kinematics import share_path

if TYPE_CHECKING:
    from launch import LaunchContext, LaunchDescription
    from launch_ros.actions import Node

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


_COMMON = {
    "namespace": ("", "Namespace of the nodes."),
    "params_file": ("", "YAML file of parameters, which comes after the shipped ones."),
    "autostart": ("", "Whether nodes configure and activate themselves; empty: as in params_file, else true."),
    "respawn": ("false", "Start a node again when it has ended by itself or was killed."),
    "respawn_delay": ("2.0", "Time until then [s]."),
    "use_sim_time": ("false", "Take the time from /clock."),
    "log_level": ("info", "debug, info, warn, error or fatal."),
}


def description(nodes: Sequence[LaunchedNode], **arguments: tuple[str, str]) -> LaunchDescription:
    """Return a description that declares the launch arguments and starts the nodes.

    The arguments are the default and description of each launch argument that is specific to this launch file. The
    common arguments and the names of the nodes are added automatically.
    """
    from launch import LaunchDescription
    from launch.actions import DeclareLaunchArgument, OpaqueFunction
    from launch.substitutions import LaunchConfiguration

    names = {node.name_argument: (node.executable, f"Name of the node {node.executable}.") for node in nodes}
    every = {**arguments, **names, **_COMMON}

    def start(context: LaunchContext) -> list[Node]:
        given = {name: context.perform_substitution(LaunchConfiguration(name)) for name in every}
        return [_action(node, given) for node in nodes if node.is_wanted(given)]

    declared = [
        DeclareLaunchArgument(name, default_value=default, description=told) for name, (default, told) in every.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])


def _action(node: LaunchedNode, given: Given) -> Node:
    from launch_ros.actions import Node
    from launch_ros.parameter_descriptions import ParameterValue

    files = [str(share_path(f"config/{node.executable}.yaml")), given["params_file"]]
    overrides = {name: ParameterValue(value, value_type=type(value)) for name, value in node.parameters(given).items()}
    return Node(
        package="eim_ros",
        executable=node.executable,
        name=given[node.name_argument],
        namespace=given["namespace"],
        parameters=[*filter(None, files), overrides],
        remappings=node.remappings(given),
        ros_arguments=["--log-level", given["log_level"]],
        output="screen",
        emulate_tty=True,
        respawn=switch(given, "respawn"),
        respawn_delay=_seconds(given, "respawn_delay"),
        sigterm_timeout="20",  # [s]; on a busy computer, nodes need more than the default of 5 s to shut down
    )


def _seconds(given: Given, name: str) -> float:
    try:
        seconds = float(given[name])
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise ConfigurationError(f"launch argument {name} must be a time in seconds, got '{given[name]}'", given[name])
    return seconds
