"""Start `trainer`. It trains models on data sets through the action `~/train`.

    ros2 launch eim_ros trainer.launch.py folder:=/path/models

Empty arguments do not override the parameter file.
"""

from launch import LaunchDescription

from eim_ros.nodes.launching import LaunchedNode, description


def generate_launch_description() -> LaunchDescription:
    return description(
        [LaunchedNode("trainer", {name: name for name in ("folder", "data_directory")})],
        folder=("", "Folder for models. A relative path refers to data_directory."),
        data_directory=("", "Directory that must contain all paths of requests. If empty: eim_ros in the ROS home."),
    )
