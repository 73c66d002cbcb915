"""Parameters of the node `ik_server`, with their defaults, bounds and descriptions."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import numpy.typing as npt

from eim_ros.core.errors import ConfigurationError, PoseError
from eim_ros.core.settings import option
from eim_ros.kinematics import CollisionOptions
from eim_ros.kinematics.collision_options import MESHES
from eim_ros.kinematics.robot import tool_from
from eim_ros.nodes.common.settings import DataDirectorySettings, RobotSettings


@dataclasses.dataclass(frozen=True)
class IkServerSettings(RobotSettings, DataDirectorySettings):
    """Parameters of `ik_server`, set by a file or by `-p name:=value`; some can be changed while it runs."""

    model: str = option(
        "",
        "Model file (.safetensors) made by 'eim train', or the name of an included model. none: all solutions of the "
        "robot, without preferences. Empty: no model if a robot is set, otherwise iiwa14_pose.",
    )
    tool: str = option(
        "",
        "Tool tip in the frame of the tip link: X Y Z [m], or X Y Z QX QY QZ QW. The tool tip then reaches the poses. "
        "Empty: no tool.",
    )
    use_tf: bool = option(True, "Accept poses in any frame of tf; otherwise only in frames fixed to the base link.")
    frame_prefix: str = option("", "Prefix of the robot's link names in tf, as in robot_state_publisher.")
    transform_timeout: float = option(
        0.2,
        "Maximum time that a request waits for a missing transform, from its arrival.",
        unit="s",
        minimum=0.0,
        maximum=60.0,
        read_only=False,
    )
    joint_states_topic: str = option(
        "", "Topic of sensor_msgs/JointState. It gives the current configuration to requests without one. Empty: none."
    )
    default_position_tolerance: float = option(
        1e-6, "Position tolerance for requests that give 0.", unit="m", minimum=1e-12, read_only=False
    )
    default_orientation_tolerance: float = option(
        1e-6, "Orientation tolerance for requests that give 0.", unit="rad", minimum=1e-12, read_only=False
    )
    default_timeout: float = option(
        1.0, "Timeout for requests that give 0; at most max_timeout.", unit="s", minimum=1e-3, read_only=False
    )
    max_timeout: float = option(
        30.0, "Maximum timeout in a request.", unit="s", minimum=1e-3, maximum=3600.0, read_only=False
    )
    max_samples: int = option(10000, "Maximum n_samples in a request.", minimum=1, maximum=1_000_000, read_only=False)
    threads: int = option(
        0,
        "Number of requests with similar timeouts that are solved at the same time, one per thread; 0: one per core.",
        minimum=0,
        maximum=256,
    )
    queue_size: int = option(
        256,
        "Number of requests with similar timeouts that may wait for a thread. Further requests get the answer BUSY.",
        minimum=1,
        maximum=500,
    )
    groups: str = option(
        "",
        "MoveIt's planning groups that equal this chain, for the services with MoveIt's fields. Entries are separated "
        "by commas: NAME, or NAME=LINK with the link that reaches poses. It is fixed to the tip link, the default.",
    )
    robot_description_semantic: str = option(
        "", "SRDF text. Its groups that equal this chain are served in addition to the parameter groups."
    )
    meshes: str = option(
        "exact",
        "Collision meshes of the robot's description: exact, hulls (convex hulls, which are faster) or none (only "
        "boxes, cylinders and spheres are checked).",
        choices=MESHES,
    )
    package_paths: str = option(
        "",
        "Folders of packages, or folders that contain packages, separated by colons. They are searched for package:// "
        "meshes before the environment.",
    )
    max_obstacles: int = option(
        CollisionOptions.most_obstacles,
        "Maximum number of obstacles of a request and the planning scene together.",
        minimum=1,
        maximum=1_000_000,
    )
    max_points: int = option(
        CollisionOptions.most_points,
        "Maximum number of points of all point clouds of a request. Clouds with a resolution count after thinning.",
        minimum=1,
        maximum=10_000_000,
    )
    max_triangles: int = option(
        CollisionOptions.most_triangles,
        "Maximum number of triangles of all meshes of a request. The robot's meshes have the same limit in addition.",
        minimum=1,
        maximum=10_000_000,
    )
    max_mesh_bytes: int = option(
        CollisionOptions.most_mesh_bytes, "Maximum size of a mesh file [byte].", minimum=1, maximum=2_000_000_000
    )
    planning_scene_topic: str = option(
        "",
        "Topic of moveit_msgs/PlanningScene, such as /monitored_planning_scene. Requests with collision checks also "
        "avoid its objects. Empty: none. Needs moveit_msgs.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tool:
            self.tool_pose  # noqa: B018 - it is refused now
        if self.default_timeout > self.max_timeout:
            raise ConfigurationError(
                f"default_timeout {self.default_timeout} s must be at most max_timeout {self.max_timeout} s",
                self.default_timeout,
            )

    @property
    def collision(self) -> CollisionOptions:
        """Options for reading collision shapes. A description from a topic may refer only to files of packages."""
        folders = tuple(filter(None, self.package_paths.split(os.pathsep)))
        return CollisionOptions(
            self.meshes,
            folders,
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
