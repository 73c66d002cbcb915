"""Start the planar robot and all that learns from it: simulator, demonstrator, recorder, trainer, motion prior.

    ros2 launch eim_ros planar_demo.launch.py record:=/data/demos model:=/path/prior.safetensors

The demonstrator shows its motions as soon as everything it needs is there. With `record` they go into a bag, labelled;
the prior is served where a `model` is given. With `use_sim_time` the simulator publishes /clock for the others.
"""

from pathlib import Path
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

# beside the folder of this file, in a checkout as in an installed package
CONFIG = Path(__file__).resolve().parents[1] / "config"

RECORDER = "demo_recorder"
FILES = {"planar_simulator": "planar.yaml", "demonstrator": "planar.yaml"}  # others are named after their node

ARGUMENTS = [
    DeclareLaunchArgument("namespace", default_value="", description="Namespace of the nodes."),
    DeclareLaunchArgument(
        "record", default_value="", description="Folder of a bag of all that is shown; empty: nothing is recorded."
    ),
    DeclareLaunchArgument("model", default_value="", description="Motion prior to serve; empty: none."),
    DeclareLaunchArgument("params_file", default_value="", description="YAML file that comes after the shipped ones."),
    DeclareLaunchArgument("use_sim_time", default_value="false", description="Simulated time: /clock."),
    DeclareLaunchArgument("log_level", default_value="info", description="debug, info, warn, error or fatal."),
]


def start(context: LaunchContext) -> list[Node]:
    """The nodes, each with the shipped parameters of its name and what the arguments change."""
    record, model = (context.perform_substitution(LaunchConfiguration(name)) for name in ("record", "model"))
    use_sim_time = ParameterValue(LaunchConfiguration("use_sim_time"), value_type=bool)
    timed = {"use_sim_time": use_sim_time}
    recording = {"autostart": True, "folder": ParameterValue(record, value_type=str)} if record else {}
    overrides: dict[str, dict[str, Any]] = {
        "planar_simulator": {"publish_clock": use_sim_time},  # the time is its own
        RECORDER: {**timed, **recording},
        "demonstrator": {**timed, **({"recorder": RECORDER} if record else {})},
        "trainer": timed,
    }
    if model:
        overrides["motion_prior_server"] = {**timed, "model": ParameterValue(model, value_type=str)}
    given = context.perform_substitution(LaunchConfiguration("params_file"))
    return [node(name, [given] if given else [], changed) for name, changed in overrides.items()]


def node(name: str, files: list[str], overrides: dict[str, Any]) -> Node:
    """One node; parameter files and then `overrides` come after the shipped file."""
    return Node(
        package="eim_ros",
        executable=name,
        name=name,
        namespace=LaunchConfiguration("namespace"),
        parameters=[str(CONFIG / FILES.get(name, f"{name}.yaml")), *files, overrides],
        ros_arguments=["--log-level", LaunchConfiguration("log_level")],
        output="screen",
        emulate_tty=True,
        sigterm_timeout="20",  # [s]; nodes that end on a busy computer take longer than the usual 5
    )


def generate_launch_description() -> LaunchDescription:
    """Arguments and nodes."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start)])
