"""Start `ik_server`; works without arguments, with the shipped model of the KUKA iiwa 14.

    ros2 launch eim_ros ik_server.launch.py robot:=/path/arm.urdf                      # all its solutions, no model
    ros2 launch eim_ros ik_server.launch.py model:=/path/m.safetensors robot:=/path/arm.urdf namespace:=left

Arguments that are left empty do not override the parameter file.
"""

from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

# beside the folder of this file, in a checkout as in an installed package
PARAMETERS = Path(__file__).resolve().parents[1] / "config" / "ik_server.yaml"

ARGUMENTS = [
    DeclareLaunchArgument("namespace", default_value="", description="Namespace of the node."),
    DeclareLaunchArgument("params_file", default_value=str(PARAMETERS), description="YAML file of its parameters."),
    DeclareLaunchArgument("model", default_value="", description="Model, by file or name, or none."),
    DeclareLaunchArgument(
        "robot", default_value="", description="Shipped robot's name or path of a URDF; empty: as in params_file."
    ),
    DeclareLaunchArgument("base_link", default_value="", description="Link in whose frame poses are given."),
    DeclareLaunchArgument("tip_link", default_value="", description="Link that is to reach the pose."),
    DeclareLaunchArgument("use_sim_time", default_value="false", description="Take the time from /clock."),
    DeclareLaunchArgument("log_level", default_value="info", description="debug, info, warn, error or fatal."),
]


def start(context: LaunchContext) -> list[Node]:
    """The node, with the parameters that were given."""
    names = ("model", "robot", "base_link", "tip_link")
    given = {name: context.perform_substitution(LaunchConfiguration(name)) for name in names}
    overrides = {name: ParameterValue(value, value_type=str) for name, value in given.items() if value}
    use_sim_time = ParameterValue(LaunchConfiguration("use_sim_time"), value_type=bool)
    node = Node(
        package="eim_ros",
        executable="ik_server",
        name="ik_server",
        namespace=LaunchConfiguration("namespace"),
        parameters=[LaunchConfiguration("params_file"), {"use_sim_time": use_sim_time, **overrides}],
        ros_arguments=["--log-level", LaunchConfiguration("log_level")],
        output="screen",
        emulate_tty=True,
        sigterm_timeout="20",  # [s]; nodes that end on a busy computer take longer than the usual 5
    )
    return [node]


def generate_launch_description() -> LaunchDescription:
    """Arguments and node."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start)])
