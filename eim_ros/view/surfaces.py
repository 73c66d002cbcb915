"""Triangle meshes of the bodies of an arm, for the page.

The included arms have meshes in `urdf/meshes`. Other arms are drawn with their visuals. Without visuals, they are drawn
with their collision shapes, or as capsules from joint to joint. All bodies of an arm are drawn in the same way. If a
mesh file is missing, the next way is used, and a message contains the reason. A rail shows the travel of each prismatic
joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

from eim_ros.core.arrays import FloatArray, IntArray
from eim_ros.core.errors import EimError
from eim_ros.kinematics import (
    SHIPPED_ROBOTS,
    Box,
    Cylinder,
    Robot,
    Shape,
    Sphere,
    body_links,
    body_poses,
    drawable_shapes,
    share_path,
)

THICK, THIN = 0.025, 0.006  # capsule radius, relative to the reach of the arm
ROUND, FEW, FINE = 32, 6, 3  # faces around a cylinder, faces around a stick, subdivisions of a sphere
MESHES, MESH_UNIT = "urdf/meshes", 1e-4  # folder of the included meshes, and the unit of their vertices [m]
SLIDES = 1e-6  # [m] joints with a larger travel are prismatic

Part = tuple[int, Any]  # body, and a trimesh.Trimesh in its frame [m]
Surfaces = dict[int, Any]  # one trimesh.Trimesh for each body, in its frame [m]


def arm_surfaces(
    robot: Robot, source: str | Path | None = None, package_paths: Sequence[str | Path] = ()
) -> tuple[Surfaces, str]:
    """Return at most one surface per body of an arm, and the reason why visuals or collision shapes are missing.

    The reason is empty if nothing is missing. `source` is the path or text of the robot's description. This description
    is needed because `Robot.urdf` contains no visuals. `find_mesh` explains `package_paths`.
    """
    parts, told = ([], "") if source is None else _read(robot, source, package_paths)
    parts = parts or _included(robot)
    if not parts:
        parts, reason = _read(robot, None, package_paths)
        told = told or reason
    if not parts:
        return stick_surfaces(robot, THICK, ROUND), told
    return _surfaces(parts + _rails(robot, THICK, ROUND)), told


def is_included(robot: Robot) -> bool:
    """Return whether a robot is an included robot, and not another robot with the same name."""
    if robot.name not in SHIPPED_ROBOTS:
        return False
    return robot.folder == share_path("urdf") or robot.urdf == Robot(robot.name).urdf


def _included(robot: Robot) -> list[Part]:
    """Return the meshes of an included robot (see `scripts/simplify_meshes.py`), or an empty list for any other
    robot.
    """
    path = share_path("urdf") / Path(MESHES).name / f"{robot.name}.npz"
    if not is_included(robot) or not path.is_file():
        return []
    with np.load(path) as arrays:
        return [
            (body, _mesh((MESH_UNIT * arrays[f"{link}/vertices"], arrays[f"{link}/faces"])).apply_transform(pose))
            for link, (body, pose) in body_links(robot).items()
            if f"{link}/faces" in arrays
        ]


def _read(robot: Robot, source: str | Path | None, package_paths: Sequence[str | Path]) -> tuple[list[Part], str]:
    """Return the visuals of a source, or the collision shapes of a robot, and the reason if they cannot be read."""
    try:
        shapes = drawable_shapes(robot, source, package_paths)
    except EimError as error:
        return [], f"{'collision shapes' if source is None else 'visuals'} are not shown: {error}"
    return [(body, _mesh(shape).apply_transform(pose)) for body, pose, shape in shapes], ""


def _mesh(shape: Shape | tuple[FloatArray, IntArray]) -> Any:
    if isinstance(shape, tuple):
        return trimesh.Trimesh(*shape, process=False)
    if isinstance(shape, Box):
        return trimesh.creation.box(extents=shape.size)
    if isinstance(shape, Sphere):
        return trimesh.creation.icosphere(subdivisions=FINE, radius=shape.radius)
    if isinstance(shape, Cylinder):
        return trimesh.creation.cylinder(radius=shape.radius, height=shape.length, sections=ROUND)
    return _capsule(shape.radius, shape.length, ROUND)


def _capsule(radius: float, length: float, n_faces: int) -> Any:
    """Return a capsule that is centred at the origin. trimesh does not guarantee the centre."""
    mesh = trimesh.creation.capsule(height=length, radius=radius, count=[n_faces, n_faces // 2])
    return mesh.apply_translation(-mesh.bounds.mean(axis=0))


def _rod(start: FloatArray, end: FloatArray, radius: float, n_faces: int) -> Any:
    """Return a capsule between two points (3,)."""
    length = float(np.linalg.norm(end - start))
    pose = trimesh.geometry.align_vectors([0.0, 0.0, 1.0], end - start) if length > 0.0 else np.eye(4)
    pose[:3, 3] = 0.5 * (start + end)
    return _capsule(radius, max(length, 1e-6), n_faces).apply_transform(pose)


def _surfaces(parts: list[Part]) -> Surfaces:
    """Return one surface for each body, with all meshes of the body."""
    bodies: dict[int, list[Any]] = {}
    for body, mesh in parts:
        bodies.setdefault(body, []).append(mesh)
    return {body: trimesh.util.concatenate(bodies[body]) for body in sorted(bodies)}


def _rails(robot: Robot, thickness: float, n_faces: int) -> list[Part]:
    """Return a capsule along the travel of each prismatic joint. The capsule belongs to the body before the joint."""
    poses = body_poses(robot, [robot.lower, robot.upper, np.zeros(robot.dof)])
    places = (np.linalg.inv(poses[:, :-1]) @ poses[:, 1:])[..., :3, 3].swapaxes(0, 1)  # (n_bodies - 1, 3, 3)
    radius, rails = max(thickness * robot.reach, 1e-3), []
    for body, ends in enumerate(places):
        along = (ends - ends[0]) @ (ends[1] - ends[0])
        if np.linalg.norm(ends[1] - ends[0]) > SLIDES:
            rails.append((body, _rod(ends[along.argmin()], ends[along.argmax()], radius, n_faces)))
    return rails


def stick_surfaces(robot: Robot, thickness: float = THIN, n_faces: int = FEW) -> Surfaces:
    """Return a capsule for each body, from its joint to the next joint or the tip.

    `thickness` is the radius, relative to the reach of the arm. Thin capsules that are drawn many times need only a few
    faces.
    """
    zero = np.zeros((1, robot.dof))
    poses, radius = body_poses(robot, zero)[0], max(thickness * robot.reach, 1e-3)
    ends = np.concatenate([poses[1:, :3, 3], robot.fk(zero)[:, :3, 3]])
    sticks = [
        (body, _rod(np.zeros(3), pose[:3, :3].T @ (end - pose[:3, 3]), radius, n_faces))
        for body, (pose, end) in enumerate(zip(poses, ends, strict=True))
    ]
    return _surfaces(sticks + _rails(robot, thickness, n_faces))
