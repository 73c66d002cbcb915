"""Parameters of the nodes, with their defaults, bounds and descriptions.

Each node declares the fields of its class as ROS parameters. The node reads their values from a file or from `-p
name:=value`. This module does not need ROS. The classes of the planar nodes, which need torch, are in
`planar_simulator.settings`.
"""

from __future__ import annotations

import dataclasses
import functools
import os

import numpy as np
import numpy.typing as npt

from eim_ros.core.errors import ConfigurationError, PoseError
from eim_ros.core.settings import Settings, option
from eim_ros.kinematics import CollisionOptions
from eim_ros.kinematics.collision_options import MESHES
from eim_ros.kinematics.robot import tool_from
from eim_ros.nodes.common.data_directory import DataDirectory

PACKAGE_PATHS = (
    "Folders of ROS packages, or folders that contain packages, separated by colons. They are searched for "
    "package:// and $(find ...) before the folders near the robot's file and the environment."
)


@dataclasses.dataclass(frozen=True)
class ManagedSettings(Settings):
    """Parameters of all lifecycle nodes."""

    autostart: bool = option(
        True,
        "Configure and activate the node when it starts. Set it to false to use a lifecycle manager or 'ros2 lifecycle "
        "set'.",
    )


@dataclasses.dataclass(frozen=True)
class DataDirectorySettings(ManagedSettings):
    """Parameters of nodes that accept paths from remote callers."""

    data_directory: str = option(
        "",
        "Directory in which all paths of requests must lie. Relative paths start there. Empty: eim_ros in $ROS_HOME, "
        "or in ~/.ros.",
    )
    max_file_size: int = option(
        500_000_000, "Maximum size of a file that is opened for a request.", unit="byte", minimum=1
    )

    @functools.cached_property
    def data(self) -> DataDirectory:
        """Directory in which all paths of requests must lie."""
        return DataDirectory(self.data_directory, self.max_file_size)


@dataclasses.dataclass(frozen=True)
class RobotSettings(Settings):
    """Parameters that specify a robot (in at most one way), and the base and tip link of its chain."""

    robot: str = option(
        "",
        "Name of an included robot, or path of a URDF file. Empty: robot_description, or else the robot of the model.",
    )
    robot_description: str = option(
        "", "URDF text of the robot. Empty: the parameter robot, or else the robot of the model."
    )
    use_robot_description_topic: bool = option(
        False, "Take the robot from the transient-local topic robot_description when the node is configured."
    )
    robot_description_timeout: float = option(
        10.0, "Maximum time to wait for the topic robot_description.", unit="s", minimum=0.0, maximum=3600.0
    )
    base_link: str = option(
        "", "Link in whose frame poses are given. Empty: the base link of the model, or else the root."
    )
    tip_link: str = option(
        "",
        "Link that reaches the poses. Empty: the tip link of the model, or else a tool, a hand or the end of the arm.",
    )
    package_paths: str = option("", PACKAGE_PATHS)

    @property
    def package_folders(self) -> tuple[str, ...]:
        """Folders of the parameter `package_paths`."""
        return tuple(filter(None, self.package_paths.split(os.pathsep)))

    def __post_init__(self) -> None:
        super().__post_init__()
        sources = {
            "robot": bool(self.robot),
            "robot_description": bool(self.robot_description),
            "use_robot_description_topic": self.use_robot_description_topic,
        }
        given = [name for name, is_given in sources.items() if is_given]
        if len(given) > 1:
            raise ConfigurationError(f"the robot is given by {' and '.join(given)}: set only one of them", given)


@dataclasses.dataclass(frozen=True)
class IkServerSettings(RobotSettings, DataDirectorySettings):
    """Parameters of `ik_server`. Some can be changed while the node is running."""

    model: str = option(
        "",
        "Model file (.safetensors) written by 'eim train', or the name of an included model. none: all solutions of "
        "the robot, without preferences. Empty: no model if a robot is set, otherwise iiwa14_pose.",
    )
    tool: str = option(
        "",
        "Tool tip in the frame of the tip link: X Y Z [m], or X Y Z QX QY QZ QW. The tool tip then reaches the poses. "
        "Empty: no tool.",
    )
    use_tf: bool = option(
        True, "Accept poses in any frame of tf; otherwise, only in frames that are fixed to the base link."
    )
    frame_prefix: str = option("", "Prefix of the robot's link names in tf, as in robot_state_publisher.")
    transform_timeout: float = option(
        0.2,
        "Maximum time for which a request waits for a missing transform after its arrival.",
        unit="s",
        minimum=0.0,
        maximum=60.0,
        read_only=False,
    )
    joint_states_topic: str = option(
        "",
        "Topic of sensor_msgs/JointState with the current configuration, for requests that give no configuration. "
        "Empty: no topic.",
    )
    default_position_tolerance: float = option(
        1e-6, "Position tolerance for requests whose tolerance is 0.", unit="m", minimum=1e-12, read_only=False
    )
    default_orientation_tolerance: float = option(
        1e-6, "Orientation tolerance for requests whose tolerance is 0.", unit="rad", minimum=1e-12, read_only=False
    )
    default_timeout: float = option(
        1.0, "Timeout for requests whose timeout is 0; at most max_timeout.", unit="s", minimum=1e-3, read_only=False
    )
    max_timeout: float = option(
        30.0, "Maximum timeout in a request.", unit="s", minimum=1e-3, maximum=3600.0, read_only=False
    )
    max_samples: int = option(10000, "Maximum n_samples in a request.", minimum=1, maximum=1_000_000, read_only=False)
    threads: int = option(
        0,
        "Number of threads, each solving one request, for requests with similar timeouts. 0: one thread per core.",
        minimum=0,
        maximum=256,
    )
    queue_size: int = option(
        256,
        "Number of requests with similar timeouts that may wait for a thread. The answer to further requests is BUSY.",
        minimum=1,
        maximum=500,
    )
    groups: str = option(
        "",
        "MoveIt's planning groups that have the joints of this chain, for services with MoveIt's fields. Entries are "
        "separated by commas: NAME, or NAME=LINK if a link other than the tip link reaches the poses. LINK must be "
        "fixed to the tip link.",
    )
    robot_description_semantic: str = option(
        "",
        "SRDF text, its path, or a name package://NAME/.... Its groups with the joints of this chain are served in "
        "addition to the parameter groups.",
    )
    meshes: str = option(
        "exact",
        "How collision meshes of the robot are used: exact, hulls (convex hulls, which are faster) or none (only "
        "boxes, cylinders and spheres are checked).",
        choices=MESHES,
    )
    max_obstacles: int = option(
        CollisionOptions.most_obstacles,
        "Maximum number of obstacles in a request and in the planning scene together.",
        minimum=1,
        maximum=1_000_000,
    )
    max_points: int = option(
        CollisionOptions.most_points,
        "Maximum number of points in all point clouds of a request. For clouds with a resolution, the points after "
        "thinning count.",
        minimum=1,
        maximum=10_000_000,
    )
    max_triangles: int = option(
        CollisionOptions.most_triangles,
        "Maximum number of triangles in all meshes of a request. The same limit applies separately to the meshes of "
        "the robot.",
        minimum=1,
        maximum=10_000_000,
    )
    max_mesh_bytes: int = option(
        CollisionOptions.most_mesh_bytes, "Maximum size of a mesh file [byte].", minimum=1, maximum=2_000_000_000
    )
    planning_scene_topic: str = option(
        "",
        "Topic of moveit_msgs/PlanningScene, such as /monitored_planning_scene. Requests with collision checks also "
        "avoid its objects. Empty: no planning scene. Needs moveit_msgs.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tool:
            self.tool_pose  # noqa: B018 - it is refused now
        if self.default_timeout > self.max_timeout:
            raise ConfigurationError(
                f"default_timeout is {self.default_timeout} s, expected at most max_timeout, {self.max_timeout} s",
                self.default_timeout,
            )

    @property
    def collision(self) -> CollisionOptions:
        """Options for reading collision shapes. A description from a topic may refer only to files in packages."""
        return CollisionOptions(
            self.meshes,
            self.package_folders,
            self.robot_description_semantic,
            packages_only=self.use_robot_description_topic,
            most_obstacles=self.max_obstacles,
            most_points=self.max_points,
            most_triangles=self.max_triangles,
            most_mesh_bytes=self.max_mesh_bytes,
        )

    @property
    def tool_pose(self) -> npt.NDArray[np.float64]:
        """Pose (4, 4) of the tool's tip in the frame of the tip link."""
        try:
            return tool_from([float(word) for word in self.tool.replace(",", " ").split()])
        except (ValueError, PoseError) as error:
            raise ConfigurationError(
                f"tool is {self.tool!r}, expected X Y Z [QX QY QZ QW]: {error}", self.tool
            ) from error


@dataclasses.dataclass(frozen=True)
class MotionPriorServerSettings(DataDirectorySettings):
    """Parameters of `motion_prior_server`."""

    model: str = option(
        "", "Motion prior (.safetensors) written by 'eim train'. Empty: wait for the service load_model."
    )
    default_points: int = option(
        0,
        "Number of points per motion for requests whose number is 0. 0: the number in the demonstrations.",
        minimum=0,
        maximum=100_000,
        read_only=False,
    )
    max_points: int = option(
        10_000, "Maximum number of points per motion in a request.", minimum=2, maximum=100_000, read_only=False
    )
    max_samples: int = option(
        10_000,
        "Maximum number of motions in a request or an answer.",
        minimum=1,
        maximum=1_000_000,
        read_only=False,
    )
    max_trajectory_points: int = option(
        100_000,
        "Maximum number of points in an answer with trajectories. Larger answers contain only the flat matrix.",
        minimum=1,
        maximum=10_000_000,
        read_only=False,
    )
    outlier_share: float = option(
        0.05,
        "A motion is an outlier if fewer than this fraction of held-out demonstrations are less likely than the "
        "motion.",
        minimum=0.0,
        maximum=1.0,
        read_only=False,
    )


@dataclasses.dataclass(frozen=True)
class TrainerSettings(DataDirectorySettings):
    """Parameters of `trainer`."""

    folder: str = option(
        "models", "Folder for models of goals without an output. A relative path starts in data_directory."
    )
    feedback_period: float = option(
        0.5, "Time between two feedback messages.", unit="s", minimum=0.01, maximum=1.0, read_only=False
    )
    threads: int = option(
        1, "Number of threads for linear algebra in each training.", minimum=1, maximum=256, read_only=False
    )
    device: str = option("cpu", "Device for EIM: cpu or cuda.", read_only=False)


@dataclasses.dataclass(frozen=True)
class TrainingCoordinatorSettings(DataDirectorySettings):
    """Parameters of `training_coordinator`."""

    collector: str = option("fk_collector", "Name of the collector node, which is not used if bag is set.")
    trainer: str = option("trainer", "Name of the trainer node.")
    server: str = option("ik_server", "Name of the server node that loads the model.")
    folder: str = option("learn_ik", "Folder for the data set train.npz. It must lie in data_directory.")
    settings: tuple[str, ...] = option(
        ("n_components=50", "n_iterations=80"),
        "Settings of the learner EIM in the form NAME=VALUE, as for eim train --set.",
    )
    seed: int = option(0, "Seed of the training.", minimum=0)
    bag: str = option(
        "",
        "Recording to import, as eim import does, instead of collecting. A relative path starts in data_directory. "
        "Empty: collect.",
    )
    robot: str = option("", "Robot of the recording: name of an included robot, or path of a URDF file.")
    base_link: str = option("", "Base link of the recorded chain. Empty: the root.")
    tip_link: str = option("", "Tip link of the recorded chain. Empty: a tool, a hand or the end of the arm.")
    package_paths: str = option("", PACKAGE_PATHS)
    context: str = option(
        "position", "Context of the model that is trained on the recording.", choices=("position", "pose")
    )
    report_period: float = option(5.0, "Time between two reports of progress.", unit="s", minimum=0.1, maximum=600.0)


@dataclasses.dataclass(frozen=True)
class FkCollectorSettings(RobotSettings, DataDirectorySettings):
    """Parameters of `fk_collector`."""

    source: str = option(
        "joint_states",
        "Source of configurations: the topic joint_states, or uniform sampling within the limits.",
        choices=("joint_states", "sampling"),
        read_only=False,
    )
    rate: float = option(1000.0, "Number of configurations sampled per second.", unit="Hz", minimum=1.0, maximum=1e6)
    context: str = option(
        "position", "Context of the model to train on the pairs.", choices=("position", "pose"), read_only=False
    )
    n_wanted: int = option(
        10000, "Number of pairs at which the collection ends.", minimum=1, maximum=10_000_000, read_only=False
    )
    min_distance: float = option(
        1e-3,
        "Minimum change of at least one joint since the last stored configuration; closer joint states are skipped.",
        unit="rad or m",
        minimum=0.0,
        read_only=False,
    )
    seed: int = option(0, "Seed of the sampling.", minimum=0, read_only=False)
    output: str = option(
        "collected.npz",
        "File that ~/save writes for requests without a path. A relative path starts in data_directory.",
    )
    status_period: float = option(0.5, "Time between two messages of ~/status.", unit="s", minimum=0.05, maximum=10.0)


@dataclasses.dataclass(frozen=True)
class DemoRecorderSettings(DataDirectorySettings):
    """Parameters of `demo_recorder`."""

    topics: tuple[str, ...] = option(
        ("joint_states",), "Topics to record for requests without topics.", read_only=False
    )
    folder: str = option(
        "demos", "Folder for bags of requests without a path. A relative path starts in data_directory."
    )
    record_at_start: bool = option(False, "Record the topics into a bag in `folder` as soon as the node is active.")
    min_free_space: int = option(
        1_000_000_000,
        "Minimum free disk space. If less space is free, no recording starts, and a running recording ends.",
        unit="byte",
        minimum=0,
        read_only=False,
    )
    queue_depth: int = option(
        5000,
        "Number of messages of a topic that can wait in the queue. Further messages are lost.",
        minimum=1000,
        maximum=100_000,
    )
    flush_period: float = option(
        0.25, "Maximum time until a message is written to the file.", unit="s", minimum=0.02, maximum=0.9
    )
    status_period: float = option(0.5, "Time between two messages of ~/status.", unit="s", minimum=0.05, maximum=10.0)


@dataclasses.dataclass(frozen=True)
class IkViewerSettings(RobotSettings, ManagedSettings):
    """Parameters of `ik_viewer`."""

    model: str = option(
        "",
        "Model whose samples are shown: a file (.safetensors) written by 'eim train', or the name of an included "
        "model. Empty: show all solutions of the robot.",
    )
    n_solutions: int = option(50, "Number of solutions to show.", minimum=1, maximum=1000, read_only=False)
    position_only: bool = option(False, "Accept every orientation of the target.", read_only=False)
    seed: int = option(0, "Seed of the solutions. It is the same for every target.", minimum=0)
    rate: float = option(30.0, "Maximum number of targets solved per second.", unit="Hz", minimum=0.1, maximum=1000.0)
    use_tf: bool = option(
        True, "Accept targets in any frame of tf; otherwise, only in frames that are fixed to the base link."
    )
    frame_prefix: str = option("", "Prefix of the robot's link names in tf, as in robot_state_publisher.")
    transform_timeout: float = option(
        1.0, "Maximum time for which a target waits for a missing transform.", unit="s", minimum=0.0
    )
    target_size: float = option(0.25, "Length of the arrows of the target.", unit="m", minimum=0.001, maximum=100.0)
