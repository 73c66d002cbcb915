"""Launch arguments of a node, and the resulting parameters and remappings.

Each launch file describes its nodes as `LaunchedNode` objects, and `description` turns them into the
`LaunchDescription` that `ros2 launch` runs. Only `description` imports `launch`, because nodes do not need it. Empty
arguments do not override the parameter files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eim_ros.core.errors import ConfigurationError, ServiceError
from eim_ros.kinematics import share_path

if TYPE_CHECKING:
    from launch import LaunchContext, LaunchDescription
    from launch.actions import EmitEvent
    from launch.events.process import ProcessExited
    from launch_ros.actions import Node

Given = Mapping[str, str]
"""Value of each launch argument, as text, by name."""

_TOPIC = "robot_description_topic"
_COMMON = {
    "namespace": ("", "Namespace of the nodes."),
    "params_file": ("", "YAML file of parameters, which overrides the included file."),
    "autostart": ("", "Whether nodes configure and activate themselves. Empty: as in params_file, or else true."),
    "respawn": ("false", "Start a node again when it has ended unexpectedly or was killed."),
    "respawn_delay": ("2.0", "Time before a node is started again [s]."),
    "use_sim_time": ("false", "Use the time of the topic /clock."),
    "log_level": ("info", "Minimum level of log messages: debug, info, warn, error or fatal."),
}


def switch(given: Given, name: str) -> bool:
    """Return the value of a boolean launch argument.

    `ConfigurationError` is raised unless the text is true, false, 1 or 0.
    """
    text = given[name].strip().lower()
    if text not in ("true", "false", "1", "0"):
        raise ConfigurationError(f"launch argument {name} must be true or false, got '{given[name]}'", given[name])
    return text in ("true", "1")


def integer(given: Given, name: str) -> int:
    """Return the value of an integer launch argument. Raise `ConfigurationError` if it is not an integer."""
    try:
        return int(given[name])
    except ValueError:
        raise ConfigurationError(
            f"launch argument {name} must be an integer, got '{given[name]}'", given[name]
        ) from None


@dataclasses.dataclass(frozen=True)
class LaunchedNode:
    """One node of a launch file."""

    # Executable of the node, also the default name of the node. Its parameter file is `config/<executable>.yaml`.
    executable: str
    # maps launch arguments to parameters with the same values
    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    name_argument: str = "name"  # launch argument that sets the node's name
    # whether the node can read the robot from the topic in the launch argument `robot_description_topic`
    takes_robot_topic: bool = False
    more: Callable[[Given], dict[str, Any]] | None = None  # computes further parameters from the launch arguments
    # Maps launch arguments to whether the node is started. By default, it is always started.
    when: Callable[[Given], bool] | None = None
    # Whether the launch ends with exit code 1 if the node fails. With `respawn`, the node is started again instead.
    required: bool = False
    # Whether the node ends when its task is done. Such a node is never started again. Therefore, its failure always
    # ends the launch if the node is required.
    has_end: bool = False
    # executable of a node that ends this node with it; empty if there is none
    ended_by: str = ""

    def is_wanted(self, given: Given) -> bool:
        """Return whether to start the node."""
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


def description(nodes: Sequence[LaunchedNode], **arguments: tuple[str, str]) -> LaunchDescription:
    """Return a description that declares the launch arguments and starts the nodes.

    The keyword arguments are the launch arguments of this launch file, with their defaults and descriptions. The common
    arguments and the names of the nodes are added automatically.
    """
    from launch import LaunchDescription
    from launch.actions import DeclareLaunchArgument, OpaqueFunction
    from launch.substitutions import LaunchConfiguration

    names = {node.name_argument: (node.executable, f"Name of the node {node.executable}.") for node in nodes}
    every = {**arguments, **names, **_COMMON}

    def start(context: LaunchContext) -> list[Node]:
        given = {name: context.perform_substitution(LaunchConfiguration(name)) for name in every}
        actions: dict[str, Node] = {}  # by executable
        for node in nodes:
            if node.is_wanted(given):
                following = [other.executable for other in nodes if other.ended_by == node.executable]
                actions[node.executable] = _action(node, given, _ExitHandler(node, given, following, actions))
        return [*actions.values()]

    declared = [
        DeclareLaunchArgument(name, default_value=default, description=told) for name, (default, told) in every.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])


@dataclasses.dataclass(frozen=True)
class _ExitHandler:
    """Callback for the exit of a node's process."""

    node: LaunchedNode
    given: Given
    following: Sequence[str]  # executables of the nodes that end with this node
    actions: Mapping[str, Node]  # all nodes by executable; complete when the first process exits

    def __call__(self, event: ProcessExited, context: LaunchContext) -> list[EmitEvent]:
        """Return the events that end other nodes.

        `ServiceError` is raised if a required node has failed. `launch` then ends all processes and exits with code 1.
        """
        from launch.actions import EmitEvent
        from launch.events import matches_action
        from launch.events.process import ShutdownProcess

        node = self.node
        if context.is_shutdown:
            return []
        is_regular = event.returncode == 0 and (node.has_end or node.ended_by)
        if node.required and not is_regular and not node.respawns(self.given):
            raise ServiceError(
                f"{node.executable} ended with exit code {event.returncode}; its messages above give the cause",
                event.returncode,
            )
        following = [self.actions[name] for name in self.following if name in self.actions] if is_regular else []
        return [EmitEvent(event=ShutdownProcess(process_matcher=matches_action(action))) for action in following]


def _action(node: LaunchedNode, given: Given, on_exit: _ExitHandler) -> Node:
    from launch_ros.actions import Node
    from launch_ros.parameter_descriptions import ParameterValue

    files = [str(share_path(f"config/{node.executable}.yaml")), given["params_file"]]
    overrides = {
        name: ParameterValue(value, value_type=list[str] if isinstance(value, list) else type(value))
        for name, value in node.parameters(given).items()
    }
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
        respawn=node.respawns(given),
        respawn_delay=_seconds(given, "respawn_delay"),
        on_exit=on_exit,
        sigterm_timeout="20",  # [s]; on a busy computer, a shutdown takes longer than the default of 5 s
    )


def _seconds(given: Given, name: str) -> float:
    try:
        seconds = float(given[name])
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise ConfigurationError(f"launch argument {name} must be a time in seconds, got '{given[name]}'", given[name])
    return seconds
