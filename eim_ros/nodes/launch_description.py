"""Conversion of the nodes of a launch file to the `LaunchDescription` that `ros2 launch` runs."""

from __future__ import annotations

from collections.abc import Sequence

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from eim_ros.core.errors import ConfigurationError
from eim_ros.kinematics import share_path
from eim_ros.nodes.launching import Given, LaunchedNode, switch

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
    **arguments
        Default and description of each launch argument that is specific to this launch file. The common arguments and
        the names of the nodes are added automatically.
    """
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
