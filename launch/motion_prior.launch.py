"""Start `motion_prior_server`, which samples motions from a motion prior, scores them and conditions the prior.

    ros2 launch eim_ros motion_prior.launch.py model:=/path/prior.safetensors namespace:=left

Empty arguments do not override the parameter file.
"""

from launch import LaunchDescription

from eim_ros.nodes.launching import LaunchedNode, description


def generate_launch_description() -> LaunchDescription:
    return description(
        [LaunchedNode("motion_prior_server", {name: name for name in ("model", "data_directory")})],
        model=("", "Motion prior; empty: wait for one."),
        data_directory=("", "Directory that paths of requests lead into; empty: eim_ros below the ROS home."),
    )
