"""Start the planar demo: simulator, demonstrator, recorder and trainer, and the motion prior server if requested.

    ros2 launch eim_ros planar_demo.launch.py record:=/data/demos model:=/path/prior.safetensors

The demonstrator starts its motions as soon as the required services are available. If `record` is set, the motions are
recorded into a labelled bag. If `model` is set, a node serves this motion prior. If `use_sim_time` is true, the
simulator publishes /clock for the other nodes.
"""

from typing import Any

from launch import LaunchDescription

from eim_ros.nodes.launching import Given, LaunchedNode, description, switch


def simulator(given: Given) -> dict[str, Any]:
    """Return the parameters of the simulator. It never reads /clock, and publishes it if `use_sim_time` is true."""
    return {"use_sim_time": False, "publish_clock": switch(given, "use_sim_time")}


def recorder(given: Given) -> dict[str, Any]:
    """Return the parameters that start a recording immediately if a folder is given."""
    return {"record_at_start": True} if given["record"] else {}


def demonstrator(given: Given) -> dict[str, Any]:
    """Return the parameters with the names of the simulator and, if a folder is given, of the recorder for labels."""
    named = {"simulator": given["simulator_name"]}
    return {**named, "recorder": given["recorder_name"]} if given["record"] else named


FILES = {"data_directory": "data_directory"}
NODES = (
    LaunchedNode("planar_simulator", name_argument="simulator_name", more=simulator),
    LaunchedNode("demo_recorder", {"record": "folder", **FILES}, name_argument="recorder_name", more=recorder),
    LaunchedNode("demonstrator", name_argument="demonstrator_name", more=demonstrator),
    LaunchedNode("trainer", FILES, name_argument="trainer_name"),
    LaunchedNode(
        "motion_prior_server",
        {"model": "model", **FILES},
        name_argument="prior_name",
        when=lambda given: bool(given["model"]),
    ),
)


def generate_launch_description() -> LaunchDescription:
    return description(
        NODES,
        record=("", "Folder of a bag with all motions. Relative paths refer to data_directory. If empty: no bag."),
        data_directory=("", "Directory that must contain all paths of requests. If empty: eim_ros in the ROS home."),
        model=("", "File of a motion prior to serve. If empty, no prior is served."),
        robot_description_topic=("", "Topic for the simulator's URDF. The default is robot_description."),
    )
