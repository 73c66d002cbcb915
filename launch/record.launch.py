"""Start `demo_recorder`, and also `fk_collector` if `collect` is true.

    ros2 launch eim_ros record.launch.py folder:=/data/demos collect:=true robot:=/path/arm.urdf

Empty arguments do not override the parameter file, which may contain a section for each node.
"""

from launch import LaunchDescription

from eim_ros.nodes.launching import LaunchedNode, description, switch

NODES = (
    LaunchedNode("demo_recorder", {name: name for name in ("folder", "data_directory")}, name_argument="recorder_name"),
    LaunchedNode(
        "fk_collector",
        {name: name for name in ("robot", "base_link", "tip_link", "data_directory")},
        name_argument="collector_name",
        takes_robot_topic=True,
        when=lambda given: switch(given, "collect"),
    ),
)


def generate_launch_description() -> LaunchDescription:
    return description(
        NODES,
        folder=("", "Folder for bags. A relative path refers to data_directory."),
        data_directory=("", "Directory that must contain all paths of requests. If empty: eim_ros in the ROS home."),
        collect=("false", "Also start fk_collector, which needs a robot."),
        robot=("", "Robot for fk_collector: name of an included robot, or path of a URDF."),
        robot_description_topic=("", "Topic with the URDF for fk_collector. If empty, no topic is used."),
        base_link=("", "Link in whose frame fk_collector gives poses."),
        tip_link=("", "Link whose pose fk_collector computes."),
    )
