"""Start `demo_recorder`, and also `fk_collector` if `collect` is true.

    ros2 launch eim_ros record.launch.py folder:=/data/demos collect:=true robot:=/path/arm.urdf

Empty arguments do not override the parameter file. That file may contain a section for each node.
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
        folder=("", "Folder of the bags; a relative one lies in data_directory."),
        data_directory=("", "Directory that paths of requests lead into; empty: eim_ros below the ROS home."),
        collect=("false", "Start fk_collector, too; it needs a robot."),
        robot=("", "Shipped robot's name or path of a URDF, for fk_collector."),
        robot_description_topic=("", "Topic that it takes the robot from; empty: none."),
        base_link=("", "Link in whose frame its poses are."),
        tip_link=("", "Link whose pose it computes."),
    )
