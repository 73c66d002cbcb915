"""Start `trainer`, which trains models on data sets through the action `~/train`.

    ros2 launch eim_ros trainer.launch.py folder:=/path/models

Empty arguments do not override the parameter file.
"""

from launch import LaunchDescription

from eim_ros.nodes.launching import LaunchedNode, description


def generate_launch_description() -> LaunchDescription:
    return description(
        [LaunchedNode("trainer", {name: name for name in ("folder", "data_directory")})],
        folder=("", "Folder of the models; a relative one lies in data_directory."),
        data_directory=("", "Directory that paths of requests lead into; empty: eim_ros below the ROS home."),
    )
