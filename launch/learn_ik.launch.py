"""Train a model of inverse kinematics with several nodes, and serve it.

    ros2 launch eim_ros learn_ik.launch.py robot:=iiwa14
    ros2 launch eim_ros learn_ik.launch.py robot:=/path/arm.urdf bag:=demos/first context:=pose

`fk_collector` samples pairs of a configuration and a pose, `trainer` trains a model by EIM, and `ik_server` loads it.
`training_coordinator` calls these nodes one after the other. If `bag` is set, the data come from that recording. Until
the model is loaded, `ik_server` answers without a model. `trainer` and `ik_server` keep running afterwards. If a step
fails, the launch ends with exit code 1.
"""

from typing import Any

from launch import LaunchDescription

from eim_ros.nodes.launching import Given, LaunchedNode, description, integer

CHAIN = {name: name for name in ("robot", "base_link", "tip_link")}
FILES = {"data_directory": "data_directory"}
SAMPLING_RATE = 1e5  # [Hz]; the processor limits the actual rate


def collector(given: Given) -> dict[str, Any]:
    """Return the parameters for collecting pairs by uniform sampling."""
    numbers = {"n_wanted": integer(given, "samples"), "seed": integer(given, "seed")}
    return {"source": "sampling", "rate": SAMPLING_RATE, "context": given["context"], **numbers}


def coordinator(given: Given) -> dict[str, Any]:
    """Return the parameters with the names of the other nodes and the settings of the learner."""
    settings = [f"n_components={integer(given, 'experts')}", f"n_iterations={integer(given, 'iterations')}"]
    names = {name: given[f"{name}_name"] for name in ("collector", "trainer", "server")}
    return {**names, "settings": settings, "seed": integer(given, "seed"), "context": given["context"]}


NODES = (
    LaunchedNode(
        "ik_server",
        {**CHAIN, **FILES},
        name_argument="server_name",
        more=lambda given: {"model": "none"},
        required=True,
    ),
    LaunchedNode("trainer", {"folder": "folder", **FILES}, name_argument="trainer_name", required=True),
    LaunchedNode(
        "fk_collector",
        {**CHAIN, **FILES},
        name_argument="collector_name",
        more=collector,
        when=lambda given: not given["bag"],
        required=True,
        ended_by="training_coordinator",
    ),
    LaunchedNode(
        "training_coordinator",
        {"bag": "bag", "folder": "folder", **CHAIN, **FILES},
        name_argument="coordinator_name",
        more=coordinator,
        required=True,
        has_end=True,
    ),
)


def generate_launch_description() -> LaunchDescription:
    return description(
        NODES,
        robot=("", "Name of an included robot, or path of a URDF."),
        base_link=("", "Link in whose frame poses are given."),
        tip_link=("", "Link that reaches the poses."),
        bag=("", "Recording to learn from. Relative paths refer to data_directory. If empty: sampled configurations."),
        context=("position", "Context of the model: position or pose."),
        samples=("10000", "Number of configurations to sample."),
        experts=("50", "Number of experts of the model."),
        iterations=("80", "Number of iterations of EIM."),
        seed=("0", "Seed of sampling and training."),
        folder=("learn_ik", "Folder for the data set and the model. It must be inside data_directory."),
        data_directory=("", "Directory that must contain all paths of requests. If empty: eim_ros in the ROS home."),
    )
