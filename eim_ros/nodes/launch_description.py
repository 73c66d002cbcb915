"""Conversion of the nodes of a launch file to the `LaunchDescription` that `ros2 launch` runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, EmitEvent, OpaqueFunction
from launch.events import matches_action
from launch.events.process import ProcessExited, ShutdownProcess
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from eim_ros.core.errors import ConfigurationError, ServiceError
from eim_ros.kinematics import share_path
from eim_ros.nodes.launching import Given, LaunchedNode

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

    Parameters
    ----------
    nodes : sequence of LaunchedNode
    **arguments
        Default and description of each launch argument that is specific to this launch file. The common arguments and
        the names of the nodes are added automatically.
    """
    names = {node.name_argument: (node.executable, f"Name of the node {node.executable}.") for node in nodes}
    every = {**arguments, **names, **_COMMON}

    def start(context: LaunchContext) -> list[Node]:
        given = {name: context.perform_substitution(LaunchConfiguration(name)) for name in every}
        actions: dict[str, Node] = {}
        for node in nodes:
            if node.is_wanted(given):
                ended = [other.executable for other in nodes if other.ended_by == node.executable]
                actions[node.executable] = _action(node, given, _Exit(node, given, ended, actions))
        return [*actions.values()]

    declared = [
        DeclareLaunchArgument(name, default_value=default, description=told) for name, (default, told) in every.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])


class _Exit:
    """Handler of the end of a node's process.

    Parameters
    ----------
    node : LaunchedNode
    given : mapping of str to str
        The launch arguments.
    ended : sequence of str
        Executables of the nodes that end after this one.
    actions : mapping of str to Node
        All started nodes by executable. It is read when the process has ended, so it may be filled later.
    """

    def __init__(self, node: LaunchedNode, given: Given, ended: Sequence[str], actions: Mapping[str, Node]) -> None:
        self._node, self._given, self._ended, self._actions = node, given, ended, actions

    def __call__(self, event: ProcessExited, context: LaunchContext) -> list[EmitEvent]:
        """Return the events that end other nodes.

        Raises
        ------
        ServiceError
            If a required node has failed. `launch` then ends all processes and exits with code 1.
        """
        node = self._node
        if context.is_shutdown:
            return []
        is_regular = event.returncode == 0 and (node.has_end or node.ended_by)
        if node.required and not is_regular and not node.respawns(self._given):
            raise ServiceError(
                f"{node.executable} ended with exit code {event.returncode}; its messages above name the cause",
                event.returncode,
            )
        ended = [self._actions[name] for name in self._ended if name in self._actions] if is_regular else []
        return [EmitEvent(event=ShutdownProcess(process_matcher=matches_action(action))) for action in ended]


def _action(node: LaunchedNode, given: Given, on_exit: _Exit) -> Node:
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
