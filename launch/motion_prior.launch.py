"""Start `motion_prior_server`. It samples and scores motions, and conditions a motion prior.

    ros2 launch eim_ros motion_prior.launch.py model:=/path/prior.safetensors namespace:=left

Empty arguments do not override the parameter file.
"""

from launch import LaunchDescription

from eim_ros.nodes.launching import LaunchedNode, description


def generate_launch_description() -> LaunchDescription:
    return description(
        [LaunchedNode("motion_prior_server", {name: name for name in ("model", "data_directory")})],
        model=("", "File of a motion prior. If empty, call the service load_model."),
        data_directory=("", "Directory that must contain all paths of requests. If empty: eim_ros in the ROS home."),
    )
