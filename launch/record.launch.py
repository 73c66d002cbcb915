"""Start `demo_recorder`, and `fk_collector` where a robot is given for it.

    ros2 launch eim_ros record.launch.py folder:=/data/demos collect:=true robot:=/path/arm.urdf

Arguments that are left empty do not override the parameter files.
"""

from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

# beside the folder of this file, in a checkout as in an installed package
CONFIG = Path(__file__).resolve().parents[1] / "config"

ARGUMENTS = [
    DeclareLaunchArgument("namespace", default_value="", description="Namespace of the nodes."),
    DeclareLaunchArgument(
        "params_file", default_value=str(CONFIG / "demo_recorder.yaml"), description="Parameters of demo_recorder."
    ),
    DeclareLaunchArgument("folder", default_value="", description="Folder of the bags; empty: as in params_file."),
    DeclareLaunchArgument("collect", default_value="false", description="Start fk_collector, too."),
    DeclareLaunchArgument(
        "collector_params_file",
        default_value=str(CONFIG / "fk_collector.yaml"),
        description="Parameters of fk_collector.",
    ),
    DeclareLaunchArgument(
        "robot",
        default_value="",
        description="Shipped robot's name or path of a URDF for fk_collector; empty: as in collector_params_file.",
    ),
    DeclareLaunchArgument("use_sim_time", default_value="false", description="Take the time from /clock."),
    DeclareLaunchArgument("log_level", default_value="info", description="debug, info, warn, error or fatal."),
]


def start(context: LaunchContext) -> list[Node]:
    """The nodes, with the parameters that were given."""
    nodes = [node(context, "demo_recorder", "params_file", "folder")]
    if context.perform_substitution(LaunchConfiguration("collect")).lower() in ("true", "1"):
        nodes.append(node(context, "fk_collector", "collector_params_file", "robot"))
    return nodes


def node(context: LaunchContext, name: str, params_file: str, argument: str) -> Node:
    """One node; `argument` is a launch argument and a parameter of the same name."""
    given = context.perform_substitution(LaunchConfiguration(argument))
    overrides = {argument: ParameterValue(given, value_type=str)} if given else {}
    use_sim_time = ParameterValue(LaunchConfiguration("use_sim_time"), value_type=bool)
    return Node(
        package="eim_ros",
        executable=name,
        name=name,
        namespace=LaunchConfiguration("namespace"),
        parameters=[LaunchConfiguration(params_file), {"use_sim_time": use_sim_time, **overrides}],
        ros_arguments=["--log-level", LaunchConfiguration("log_level")],
        output="screen",
        emulate_tty=True,
        sigterm_timeout="20",  # [s]; nodes that end on a busy computer take longer than the usual 5
    )


def generate_launch_description() -> LaunchDescription:
    """Arguments and nodes."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start)])
