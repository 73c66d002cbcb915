"""Start `ik_server`. Without arguments, it serves the included model of the KUKA iiwa 14.

    ros2 launch eim_ros ik_server.launch.py robot:=/path/arm.urdf                      # all solutions, without a model
    ros2 launch eim_ros ik_server.launch.py model:=/path/m.safetensors robot:=/path/arm.urdf namespace:=left
    ros2 launch eim_ros ik_server.launch.py model:=none robot_description_topic:=robot_description respawn:=true

Empty arguments do not override the parameter file.
"""

from launch import LaunchDescription

from eim_ros.nodes.launching import LaunchedNode, description

TEXTS = {name: name for name in ("model", "robot", "base_link", "tip_link", "groups", "data_directory")}


def generate_launch_description() -> LaunchDescription:
    return description(
        [LaunchedNode("ik_server", TEXTS, takes_robot_topic=True)],
        model=("", "File or name of a model, or the word none."),
        robot=("", "Name of an included robot, or path of a URDF."),
        robot_description_topic=("", "Topic with the URDF of the robot. If empty, no topic is used."),
        base_link=("", "Link in whose frame poses are given."),
        tip_link=("", "Link that reaches the poses."),
        groups=("", "MoveIt's planning groups that the server solves."),
        data_directory=("", "Directory that must contain all paths of requests. If empty: eim_ros in the ROS home."),
    )
