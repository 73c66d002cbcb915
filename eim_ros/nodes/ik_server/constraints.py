"""Conversion of constraints and obstacles from messages to the sampler, and back."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from geometry_msgs.msg import Point, Pose
from shape_msgs.msg import Mesh as MeshMessage
from shape_msgs.msg import MeshTriangle, SolidPrimitive

from eim_ros.core.deadlines import NEVER, check_time
from eim_ros.core.errors import ConstraintError, MeshError
from eim_ros.ik import Constraints
from eim_ros.kinematics import (
    Box,
    Capsule,
    CollisionOptions,
    Cylinder,
    Mesh,
    Obstacle,
    PointCloud,
    Robot,
    Shape,
    Sphere,
)
from eim_ros.kinematics.collision_options import SceneSize
from eim_ros.kinematics.meshes import MeshLimits, find_mesh, seconds_to_read
from eim_ros.nodes.common.data_directory import DataDirectory
from eim_ros.nodes.common.messages import (
    point_cloud_message,
    points_of,
    pose_message,
    repeated_names,
    transform_of,
)
from eim_ros.nodes.settings import IkServerSettings

# Fields that are empty or zero by default. Other fields of a scene have no effect without these fields.
_FIELDS = (
    *("limited_joints", "lower_limits", "upper_limits", "tolerances", "clearance", "avoid_self_collision"),
    *("branch_names", "branch_labels", "allowed_links", "allowed_others"),
)
_SCENE_FIELDS = (
    *("primitives", "primitive_poses", "meshes", "mesh_poses"),
    *("mesh_files", "mesh_file_poses", "mesh_file_scales", "point_clouds"),
)
SECONDS_EACH = 3e-6  # upper estimate of the time to read a vertex or a triangle of a message [s]


def check_size(scene: Any, options: CollisionOptions) -> None:
    """Raise `ConstraintError` if a `SceneObstacles` is larger than the options allow. No file is read."""
    n_points = sum(int(cloud.width) * int(cloud.height) for cloud in scene.point_clouds)
    n_meshes = len(scene.meshes) + len(scene.mesh_files)
    is_thinned = scene.point_resolution > 0.0
    SceneSize(
        len(scene.primitives) + n_meshes + len(scene.point_clouds),
        0 if is_thinned else n_points,
        n_points if is_thinned else 0,
        sum(max(len(mesh.triangles), len(mesh.vertices) // 3) for mesh in scene.meshes),
        0 if scene.convex_hulls else n_meshes,
    ).check(options)


def scene_obstacles(scene: Any, robot: Robot, data: DataDirectory, deadline: float = NEVER) -> tuple[Obstacle, ...]:
    """Return the obstacles of a `SceneObstacles`. Clouds without points are ignored.

    Mesh files must be in ROS packages or in the data directory. `ConstraintError`, `DataError`, `MeshError`,
    `PathError` or `PoseError` is raised if lists differ in length, a mesh or a cloud is invalid, or a file cannot be
    read. One of these is also raised if a cloud has another frame. `OutOfTime` is raised if the deadline, a time of
    `perf_counter` [s], passes before all obstacles are read.
    """
    _same_length("meshes", scene.meshes, "mesh_poses", scene.mesh_poses)
    _same_length("mesh_files", scene.mesh_files, "mesh_file_poses", scene.mesh_file_poses)
    scales = [(scale.x, scale.y, scale.z) for scale in scene.mesh_file_scales] or [(1.0,) * 3] * len(scene.mesh_files)
    _same_length("mesh_files", scene.mesh_files, "mesh_file_scales", scales)
    convex = bool(scene.convex_hulls)
    found: list[Obstacle] = []
    for mesh, pose in zip(scene.meshes, scene.mesh_poses, strict=True):
        check_time(deadline, "read the meshes", SECONDS_EACH * (len(mesh.vertices) + len(mesh.triangles)))
        found.append(mesh_of(mesh, transform_of(pose), convex))
    n_left = robot.collision.most_triangles - sum(len(mesh.triangles) for mesh in scene.meshes)
    for name, pose, scale in zip(scene.mesh_files, scene.mesh_file_poses, scales, strict=True):
        path = _mesh_file(name, robot.collision.package_paths, data)
        check_time(deadline, f"read mesh {name!r}", seconds_to_read(path))
        limits = MeshLimits(robot.collision.most_mesh_bytes, n_left)
        found.append(loaded := Mesh.load(path, transform_of(pose), scale, convex=convex, name=name, limits=limits))
        n_left -= len(np.asarray(loaded.faces))
    for cloud in scene.point_clouds:
        check_time(deadline, "read the point clouds")
        if cloud.header.frame_id not in ("", robot.base_link):
            raise ConstraintError(
                f"a point cloud is in frame {cloud.header.frame_id!r}, expected the base link {robot.base_link!r}, or "
                "an empty name",
                cloud.header.frame_id,
            )
        if len(points := points_of(cloud)):
            found.append(
                PointCloud(points, float(scene.point_radius), resolution=float(scene.point_resolution), name="points")
            )
    return tuple(found)


def _mesh_file(name: str, package_paths: Sequence[str | Path], data: DataDirectory) -> Path:
    """Return the path of a mesh file. The file must be in a ROS package or in the data directory."""
    try:
        path = find_mesh(name, None, package_paths, packages_only=True)
    except MeshError:
        if name.startswith("package://"):
            raise
        return data.readable(unquote(name.removeprefix("file://")) if name.startswith("file://") else name)
    return data.check_file(Path(os.path.realpath(path)))  # packages may be installed with symbolic links


def mesh_of(message: MeshMessage, transform: np.ndarray, convex: bool = False, name: str = "") -> Mesh:
    """Return a `shape_msgs/Mesh` at a pose (4, 4) in the base frame. Raise `ConstraintError` if it is invalid."""
    vertices = np.array([(point.x, point.y, point.z) for point in message.vertices]).reshape(-1, 3)
    faces = np.array([triangle.vertex_indices for triangle in message.triangles], dtype=np.int64).reshape(-1, 3)
    return Mesh(transform, vertices, faces, convex, name)


def fill_scene(scene: Any, obstacles: Sequence[Mesh | PointCloud]) -> None:
    """Copy meshes and clouds into a `SceneObstacles`.

    `ConstraintError` is raised if only some meshes are convex, or if clouds have different radii or resolutions. A
    message contains only one value for all of them.
    """
    meshes = [obstacle for obstacle in obstacles if isinstance(obstacle, Mesh)]
    clouds = [obstacle for obstacle in obstacles if isinstance(obstacle, PointCloud)]
    if len({bool(mesh.convex) for mesh in meshes}) > 1 or len({(each.radius, each.resolution) for each in clouds}) > 1:
        raise ConstraintError(
            "in a request, all meshes must have the same `convex`, and all point clouds the same radius and resolution",
            None,
        )
    for mesh in meshes:
        vertices = [Point(x=x, y=y, z=z) for x, y, z in np.asarray(mesh.vertices).tolist()]
        triangles = [MeshTriangle(vertex_indices=face) for face in np.asarray(mesh.faces).astype(np.uint32)]
        scene.meshes.append(MeshMessage(vertices=vertices, triangles=triangles))
        scene.mesh_poses.append(pose_message(np.asarray(mesh.pose)))
        scene.convex_hulls = bool(mesh.convex)
    for cloud in clouds:
        pose = np.asarray(cloud.pose)
        scene.point_clouds.append(point_cloud_message(np.asarray(cloud.points) @ pose[:3, :3].T + pose[:3, 3]))
        scene.point_radius, scene.point_resolution = float(cloud.radius), float(cloud.resolution)


def _same_length(first: str, these: Sequence[Any], second: str, those: Sequence[Any]) -> None:
    if len(these) != len(those):
        raise ConstraintError(
            f"there are {len(these)} {first} and {len(those)} {second}; expected equal numbers", len(those)
        )


def constraints_of(message: Any, robot: Robot, settings: IkServerSettings, deadline: float = NEVER) -> Constraints:
    """Return the constraints of an `IKConstraints` for a robot. The deadline is a time of `perf_counter` [s].

    Meshes of obstacles may be read from the data directory of the settings. `ConstraintError`, `DataError`,
    `MeshError`, `PathError` or `PoseError` is raised if a number is out of range, lists differ in length or name a
    joint twice, or an obstacle is invalid. `OutOfTime` is raised if the deadline passes before all obstacles are read.
    """
    tolerances = (
        float(message.position_tolerance) or settings.default_position_tolerance,
        float(message.orientation_tolerance) or settings.default_orientation_tolerance,
    )
    if _is_default(message):
        return _only_tolerances(bool(message.position_only), *tolerances)
    joints, lower, upper = list(message.limited_joints), list(message.lower_limits), list(message.upper_limits)
    _same_length("limited_joints", joints, "lower_limits", lower)
    _same_length("limited_joints", joints, "upper_limits", upper)
    fixed, values = list(message.fixed_joints.name), list(message.fixed_joints.position)
    _same_length("names in fixed_joints", fixed, "positions", values)
    names, labels = list(message.branch_names), list(message.branch_labels)
    _same_length("branch_names", names, "branch_labels", labels)
    for field, values_of in (("limited_joints", joints), ("fixed_joints", fixed), ("branch_names", names)):
        if repeated := repeated_names(values_of):
            raise ConstraintError(f"{field} contains {repeated} more than once; expected each name once", values_of)
    links, others = list(message.allowed_links), list(message.allowed_others)
    _same_length("allowed_links", links, "allowed_others", others)
    scene = message.scene
    _same_length("primitives", scene.primitives, "primitive_poses", scene.primitive_poses)
    check_size(scene, robot.collision)
    return Constraints(
        limits={joint: (low, high) for joint, low, high in zip(joints, lower, upper, strict=True)},
        fixed=dict(zip(fixed, values, strict=True)),
        self_collision=bool(message.avoid_self_collision),
        obstacles=(
            *_primitives(scene.primitives, scene.primitive_poses, deadline),
            *scene_obstacles(scene, robot, settings.data, deadline),
        ),
        clearance=float(message.clearance),
        allowed_collisions=list(zip(links, others, strict=True)),
        branch=dict(zip(names, labels, strict=True)),
        tolerances=list(message.tolerances) or None,
        position_only=bool(message.position_only),
        position_tolerance=tolerances[0],
        orientation_tolerance=tolerances[1],
    )


@functools.lru_cache(maxsize=16)
def _only_tolerances(position_only: bool, position_tolerance: float, orientation_tolerance: float) -> Constraints:
    """Return the same object for equal arguments. Samplers then prepare the constraints only once."""
    return Constraints(
        position_only=position_only,
        position_tolerance=position_tolerance,
        orientation_tolerance=orientation_tolerance,
    )


def _is_default(message: Any) -> bool:
    """Return whether limits, tolerances and obstacles have their defaults, as in most requests."""
    joints, scene = message.fixed_joints, message.scene
    return not (
        joints.name
        or joints.position
        or any(getattr(message, name) for name in _FIELDS)
        or any(getattr(scene, name) for name in _SCENE_FIELDS)
    )


def _primitives(messages: Sequence[SolidPrimitive], poses: Sequence[Pose], deadline: float) -> Iterator[Shape]:
    for primitive, pose in zip(messages, poses, strict=True):
        check_time(deadline, "read the obstacles")
        yield shape_of(primitive, transform_of(pose), "an obstacle")


def fill_constraints(message: Any, constraints: Constraints) -> None:
    """Copy constraints into an `IKConstraints`.

    `ConstraintError` is raised for conditions on links and for capsules, because a message cannot contain them.
    """
    if constraints.links:
        raise ConstraintError(
            "a service request cannot contain conditions on links: use the Python API instead", constraints.links
        )
    message.position_only = bool(constraints.position_only)
    message.position_tolerance = constraints.position_tolerance
    message.orientation_tolerance = constraints.orientation_tolerance
    message.limited_joints = list(constraints.limits)
    message.lower_limits = [float(lower) for lower, _ in constraints.limits.values()]
    message.upper_limits = [float(upper) for _, upper in constraints.limits.values()]
    message.fixed_joints.name = list(constraints.fixed)
    message.fixed_joints.position = [float(value) for value in constraints.fixed.values()]
    message.branch_names, message.branch_labels = list(constraints.branch), list(constraints.branch.values())
    message.avoid_self_collision = constraints.self_collision
    primitives = [shape for shape in constraints.obstacles if not isinstance(shape, (Mesh, PointCloud))]
    message.scene.primitives = [_primitive(shape) for shape in primitives]
    message.scene.primitive_poses = [pose_message(np.asarray(shape.pose, dtype=np.float64)) for shape in primitives]
    fill_scene(message.scene, [shape for shape in constraints.obstacles if isinstance(shape, (Mesh, PointCloud))])
    message.clearance = float(constraints.clearance)
    message.allowed_links = [first for first, _ in constraints.allowed_collisions]
    message.allowed_others = [second for _, second in constraints.allowed_collisions]
    if constraints.tolerances is not None:
        message.tolerances = np.asarray(constraints.tolerances, dtype=np.float64).tolist()


def shape_of(primitive: SolidPrimitive, transform: np.ndarray, what: str) -> Shape:
    """Return a primitive at a pose (4, 4) in the base frame. `what` is its name in a `ConstraintError`."""
    sizes = list(primitive.dimensions)
    expected = {SolidPrimitive.BOX: 3, SolidPrimitive.SPHERE: 1, SolidPrimitive.CYLINDER: 2}
    if len(sizes) != expected.get(primitive.type):
        raise ConstraintError(
            f"{what} is of type {primitive.type} and has {len(sizes)} dimensions; expected BOX (3), SPHERE (1) "
            "or CYLINDER (2)",
            primitive.type,
        )
    if primitive.type == SolidPrimitive.BOX:
        return Box(transform, sizes)
    if primitive.type == SolidPrimitive.SPHERE:
        return Sphere(transform[:3, 3], sizes[SolidPrimitive.SPHERE_RADIUS])
    return Cylinder(transform, sizes[SolidPrimitive.CYLINDER_RADIUS], sizes[SolidPrimitive.CYLINDER_HEIGHT])


def _primitive(shape: Shape) -> SolidPrimitive:
    if isinstance(shape, Capsule):
        raise ConstraintError(
            "a service request cannot contain a capsule: use a cylinder and two spheres instead", shape
        )
    if isinstance(shape, Box):
        return SolidPrimitive(type=SolidPrimitive.BOX, dimensions=np.asarray(shape.size, dtype=np.float64).tolist())
    if isinstance(shape, Sphere):
        return SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[float(shape.radius)])
    assert isinstance(shape, Cylinder)
    return SolidPrimitive(type=SolidPrimitive.CYLINDER, dimensions=[float(shape.length), float(shape.radius)])
