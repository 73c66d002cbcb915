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
        model=("", "Model, by file or name, or none."),
        robot=("", "Shipped robot's name or path of a URDF."),
        robot_description_topic=("", "Topic that the robot is taken from; empty: none."),
        base_link=("", "Link in whose frame poses are given."),
        tip_link=("", "Link that is to reach the pose."),
        groups=("", "MoveIt's planning groups that are this chain."),
        data_directory=("", "Directory that paths of requests lead into; empty: eim_ros below the ROS home."),
    )
