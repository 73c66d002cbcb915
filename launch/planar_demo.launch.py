"""Start the planar robot and all that learns from it: simulator, demonstrator, recorder, trainer, motion prior.

    ros2 launch eim_ros planar_demo.launch.py record:=/data/demos model:=/path/prior.safetensors

The demonstrator shows its motions as soon as everything it needs is there. With `record` they go into a bag, labelled;
the prior is served where a `model` is given. With `use_sim_time` the simulator publishes /clock for the others.
"""

from typing import Any

from launch import LaunchDescription

from eim_ros.nodes.launch_description import description
from eim_ros.nodes.launching import Given, LaunchedNode, switch


def simulator(given: Given) -> dict[str, Any]:
    """The time is its own."""
    return {"use_sim_time": False, "publish_clock": switch(given, "use_sim_time")}


def recorder(given: Given) -> dict[str, Any]:
    """Records from the begin, where a folder is given."""
    return {"record_at_start": True} if given["record"] else {}


def demonstrator(given: Given) -> dict[str, Any]:
    """Drives the simulator, and tells the recorder labels."""
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
        record=("", "Folder of a bag of all that is shown; a relative one lies in data_directory; empty: none."),
        data_directory=("", "Directory that paths of requests lead into; empty: eim_ros below the ROS home."),
        model=("", "Motion prior to serve; empty: none."),
        robot_description_topic=("", "Topic of the simulator's URDF; empty: robot_description."),
    )
