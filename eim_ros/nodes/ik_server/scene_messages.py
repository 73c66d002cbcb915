"""Between meshes and point clouds of a request and obstacles of the sampler, in both directions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from geometry_msgs.msg import Point
from shape_msgs.msg import Mesh as MeshMessage
from shape_msgs.msg import MeshTriangle

from eim_ros.errors import ConstraintError, MeshError
from eim_ros.kinematics import CollisionOptions, Mesh, Obstacle, PointCloud, Robot
from eim_ros.kinematics.collision_options import SceneSize
from eim_ros.kinematics.deadlines import NEVER, check_time
from eim_ros.kinematics.mesh_files import MeshLimits, find_mesh, seconds_to_read
from eim_ros.nodes.common.data_directory import DataDirectory
from eim_ros.nodes.common.point_cloud_messages import point_cloud_message, points_of
from eim_ros.nodes.common.pose_messages import pose_message, transform_of

__all__ = ["check_size", "fill_scene", "mesh_of", "scene_obstacles"]


SECONDS_EACH = 3e-6  # [s] to read a vertex or a triangle of a message, on the safe side


def check_size(scene: Any, options: CollisionOptions, n_others: int = 0) -> None:
    """`ConstraintError` if a `SceneObstacles`, and as many others, are more than the options allow; nothing is read."""
    n_points = sum(int(cloud.width) * int(cloud.height) for cloud in scene.point_clouds)
    n_meshes = len(scene.meshes) + len(scene.mesh_files)
    is_thinned = scene.point_resolution > 0.0
    SceneSize(
        n_others + n_meshes + len(scene.point_clouds),
        0 if is_thinned else n_points,
        n_points if is_thinned else 0,
        sum(max(len(mesh.triangles), len(mesh.vertices) // 3) for mesh in scene.meshes),
        0 if scene.convex_hulls else n_meshes,
    ).check(options)


def scene_obstacles(scene: Any, robot: Robot, data: DataDirectory, deadline: float = NEVER) -> tuple[Obstacle, ...]:
    """Obstacles of a `SceneObstacles`, read until the deadline; clouds without a point are left out.

    Files of meshes are those of packages, or lie in the data directory.

    Raises
    ------
    ConstraintError, DataError, MeshError, PathError, PoseError
        If lists differ in length, a mesh or a cloud is none, a file cannot be read, or a cloud is in another frame.
    OutOfTime
        If the deadline, a time of `perf_counter` [s], is over before.
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
                "nothing",
                cloud.header.frame_id,
            )
        if len(points := points_of(cloud)):
            found.append(
                PointCloud(points, float(scene.point_radius), resolution=float(scene.point_resolution), name="points")
            )
    return tuple(found)


def _mesh_file(name: str, package_paths: Sequence[str | Path], data: DataDirectory) -> Path:
    """A file of a package; any other must lie in the data directory."""
    try:
        path = find_mesh(name, None, package_paths, packages_only=True)
    except MeshError:
        if name.startswith("package://"):
            raise
        return data.readable(unquote(name.removeprefix("file://")) if name.startswith("file://") else name)
    return data.check_file(Path(os.path.realpath(path)))  # packages that were built with links have some


def mesh_of(message: MeshMessage, transform: np.ndarray, convex: bool = False, name: str = "") -> Mesh:
    """A `shape_msgs/Mesh` at a pose (4, 4) in the base frame; `ConstraintError` if it is none."""
    vertices = np.array([(point.x, point.y, point.z) for point in message.vertices]).reshape(-1, 3)
    faces = np.array([triangle.vertex_indices for triangle in message.triangles], dtype=np.int64).reshape(-1, 3)
    return Mesh(transform, vertices, faces, convex, name)


def fill_scene(scene: Any, obstacles: Sequence[Mesh | PointCloud]) -> None:
    """Copy meshes and clouds into a `SceneObstacles`.

    Raises
    ------
    ConstraintError
        If meshes are convex in part, or clouds have different radii or resolutions: a message has one for all.
    """
    meshes = [obstacle for obstacle in obstacles if isinstance(obstacle, Mesh)]
    clouds = [obstacle for obstacle in obstacles if isinstance(obstacle, PointCloud)]
    if len({bool(mesh.convex) for mesh in meshes}) > 1 or len({(each.radius, each.resolution) for each in clouds}) > 1:
        raise ConstraintError("a request holds meshes of one kind, and point clouds of one radius and resolution", None)
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
        raise ConstraintError(f"there are {len(these)} {first} and {len(those)} {second}; expected as many", len(those))
