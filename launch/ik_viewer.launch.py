"""Start `ik_viewer`. It shows all solutions of a target that the user drags in RViz.

    ros2 launch eim_ros ik_viewer.launch.py robot:=/path/arm.urdf
    ros2 launch eim_ros ik_viewer.launch.py model:=panda_pose
    ros2 launch eim_ros ik_viewer.launch.py robot_description_topic:=robot_description

Open RViz with config/ik_viewer.rviz to see the solutions. Empty arguments do not override the parameter file.
"""

from launch import LaunchDescription

from eim_ros.nodes.launching import LaunchedNode, description

TEXTS = {name: name for name in ("model", "robot", "base_link", "tip_link")}


def generate_launch_description() -> LaunchDescription:
    return description(
        [LaunchedNode("ik_viewer", TEXTS, takes_robot_topic=True)],
        model=("", "File or name of a model whose samples are shown. If empty, all solutions are shown."),
        robot=("", "Name of an included robot, or path of a URDF."),
        robot_description_topic=("", "Topic with the URDF of the robot. If empty, no topic is used."),
        base_link=("", "Link in whose frame the target is given."),
        tip_link=("", "Link that reaches the target."),
    )
