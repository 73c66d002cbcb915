"""Parameters of the node `ik_server`: declared, bounded and described once, here."""

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
        "Model file (.safetensors) made by 'eim train', or the name of a shipped one; none: all solutions of the "
        "robot; empty: none where a robot is given, else iiwa14_pose.",
    )
    tool: str = option(
        "",
        "Tip of a tool, which reaches poses in place of the tip link, in the frame of that: X Y Z [m], or X Y Z QX QY "
        "QZ QW; empty: none.",
    )
    use_tf: bool = option(True, "Take poses in any frame of tf, else in those that are fixed to the base link.")
    frame_prefix: str = option(
        "", "What stands before the names of the robot's links in tf, as robot_state_publisher's."
    )
    transform_timeout: float = option(
        0.2,
        "Longest time from its arrival that a request waits for a transform that is not known yet.",
        unit="s",
        minimum=0.0,
        maximum=60.0,
        read_only=False,
    )
    joint_states_topic: str = option(
        "", "Topic of sensor_msgs/JointState: present joint positions, used if near is empty; empty: none."
    )
    default_position_tolerance: float = option(
        1e-6, "Position tolerance of a request that gives 0.", unit="m", minimum=1e-12, read_only=False
    )
    default_orientation_tolerance: float = option(
        1e-6, "Orientation tolerance of a request that gives 0.", unit="rad", minimum=1e-12, read_only=False
    )
    default_timeout: float = option(
        1.0, "Timeout of a request that gives 0; at most max_timeout.", unit="s", minimum=1e-3, read_only=False
    )
    max_timeout: float = option(
        30.0, "Longest timeout a request may ask for.", unit="s", minimum=1e-3, maximum=3600.0, read_only=False
    )
    max_samples: int = option(
        10000, "Largest n_samples a request may ask for.", minimum=1, maximum=1_000_000, read_only=False
    )
    threads: int = option(
        0,
        "Requests with similar timeouts that are solved at the same time, each on one thread; 0: one per core.",
        minimum=0,
        maximum=256,
    )
    queue_size: int = option(
        256,
        "Requests with similar timeouts that may wait for a thread; further ones are answered BUSY, unsolved.",
        minimum=1,
        maximum=500,
    )
    groups: str = option(
        "",
        "MoveIt's planning groups that are this chain, by which get_position_ik and compute_ik may be asked: names, "
        "separated by commas, each NAME or NAME=LINK, a link that is fixed to the tip.",
    )
    robot_description_semantic: str = option(
        "", "SRDF text; its groups that equal this chain are served in addition to the parameter groups."
    )
    meshes: str = option(
        "exact",
        "Collision meshes of the robot's description: as they are, the convex hull of each (faster), or none, by which "
        "boxes, cylinders and spheres alone are checked.",
        choices=MESHES,
    )
    package_paths: str = option(
        "",
        "Folders with ROS packages, or of packages, separated by colons, in which meshes named package:// are looked "
        "for before those of the environment.",
    )
    max_obstacles: int = option(
        CollisionOptions.most_obstacles,
        "Largest number of obstacles among which a request may be, those of the planning scene included.",
        minimum=1,
        maximum=1_000_000,
    )
    max_points: int = option(
        CollisionOptions.most_points,
        "Largest number of points of all point clouds of a request; if they have a resolution, of cubes that are left.",
        minimum=1,
        maximum=10_000_000,
    )
    max_triangles: int = option(
        CollisionOptions.most_triangles,
        "Largest number of triangles of all meshes of a request, and of the robot.",
        minimum=1,
        maximum=10_000_000,
    )
    max_mesh_bytes: int = option(
        CollisionOptions.most_mesh_bytes,
        "Size in bytes of the largest mesh file that is read.",
        minimum=1,
        maximum=2_000_000_000,
    )
    planning_scene_topic: str = option(
        "",
        "Topic of moveit_msgs/PlanningScene, such as /monitored_planning_scene, whose collision objects every request "
        "that avoids collisions avoids; empty: none. Needs moveit_msgs.",
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
        """How the collision shapes of the robot are read; anybody may have published that of a topic."""
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
