"""Triangle meshes of the bodies of an arm, for the page.

The included arms have meshes in `urdf/meshes`. Other arms are drawn with their visuals, otherwise with their collision
shapes, otherwise as capsules from joint to joint. All bodies of an arm use the same kind. If a mesh file is missing,
the next kind is used and a message gives the reason. A rail shows the travel of each prismatic joint.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import trimesh

from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import EimError
from eim_ros.kinematics import SHIPPED_ROBOTS, Box, Capsule, Cylinder, Robot, Shape, Sphere, share_path
from eim_ros.kinematics.links import MeshReference, body_poses, body_shapes, link_placements, link_shapes, poses_at_zero
from eim_ros.kinematics.meshes import find_mesh, read_mesh
from eim_ros.kinematics.urdf import (
    MULTIPLIER,
    OFFSET,
    PRISMATIC,
    SOURCE,
    TRANSLATION,
    parse_urdf,
    read_urdf_source,
    urdf_folder,
)

Part = tuple[FloatArray, npt.NDArray[np.int64]]  # vertices (n, 3) [m] and faces (m, 3)

THICK, THIN = 0.025, 0.006  # capsule radius as a share of the arm's reach
ROUND, FEW, FINE = 32, 6, 3  # faces around a cylinder, faces around a stick, subdivisions of a sphere
MESHES, MESH_UNIT = "urdf/meshes", 1e-4  # folder of the included meshes, and the unit of their vertices [m]


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangle mesh of a body."""

    body: int
    vertices: FloatArray  # (n, 3), in the body's frame [m]
    faces: npt.NDArray[np.int64]  # (m, 3) int


def arm_surfaces(
    robot: Robot, source: str | Path | None = None, package_paths: Sequence[str | Path] = ()
) -> tuple[list[Surface], str]:
    """Return at most one surface per body of an arm, and the reason why visuals or collision shapes cannot be shown.

    The reason is empty if nothing is missing. The source is the path or text of the description that the robot was read
    from, because `Robot.urdf` has no visuals. For the paths of packages see `find_mesh`.
    """
    parts, told = _bodies(robot, source, package_paths)
    if not parts:
        return stick_surfaces(robot, THICK, ROUND), told
    return _surfaces(parts, _rails(robot, THICK, ROUND)), told


def _bodies(
    robot: Robot, source: str | Path | None, package_paths: Sequence[str | Path]
) -> tuple[list[tuple[int, Part]], str]:
    """Return the bodies of the best kind of shapes that can be read, and why the others cannot."""
    told = ""
    if source is not None:
        try:
            folder = urdf_folder(source) or robot.folder
            found = _read(robot, link_shapes(read_urdf_source(source), "visual"), folder, package_paths)
            if found:
                return found, told
        except EimError as error:
            told = f"visuals are not shown: {error}"
    found = _included(robot)
    if found:
        return found, told
    try:
        return _read(robot, link_shapes(robot.urdf), robot.folder, package_paths), told
    except EimError as error:
        return [], told or f"collision shapes are not shown: {error}"


def is_included(robot: Robot) -> bool:
    """Return whether a robot is an included one, and not another one with the same name."""
    if robot.name not in SHIPPED_ROBOTS:
        return False
    return robot.folder == share_path("urdf") or robot.urdf == Robot(robot.name).urdf


def _included(robot: Robot) -> list[tuple[int, Part]]:
    """Return the included meshes of an included robot, see `scripts/simplify_meshes.py`; none of other robots."""
    path = share_path("urdf") / Path(MESHES).name / f"{robot.name}.npz"
    if not is_included(robot) or not path.is_file():
        return []
    at_zero = poses_at_zero(robot)
    found = []
    with np.load(path) as arrays:
        for link, (body, pose) in link_placements(parse_urdf(robot.urdf), robot.base_link, robot.tip_link).items():
            if f"{link}/faces" in arrays:
                in_body = np.linalg.inv(at_zero[body]) @ pose
                vertices = MESH_UNIT * arrays[f"{link}/vertices"] @ in_body[:3, :3].T + in_body[:3, 3]
                found.append((body, (vertices, arrays[f"{link}/faces"].astype(np.int64))))
    return found


def _read(
    robot: Robot,
    links: dict[str, list[Shape | MeshReference]],
    folder: Path | None,
    package_paths: Sequence[str | Path],
) -> list[tuple[int, Part]]:
    found = []
    for placed in body_shapes(robot, links):
        shape = placed.shape
        if isinstance(shape, MeshReference):
            vertices, faces = read_mesh(find_mesh(shape.filename, folder, package_paths), shape.scale)
        else:
            mesh = _primitive(shape)
            vertices, faces = np.asarray(mesh.vertices, dtype=np.float64), np.asarray(mesh.faces, dtype=np.int64)
        found.append((placed.body, (vertices @ placed.pose[:3, :3].T + placed.pose[:3, 3], faces)))
    return found


def _primitive(shape: Shape) -> Any:
    if isinstance(shape, Box):
        return trimesh.creation.box(extents=shape.size)
    if isinstance(shape, Sphere):
        return trimesh.creation.icosphere(subdivisions=FINE, radius=shape.radius)
    if isinstance(shape, Cylinder):
        return trimesh.creation.cylinder(radius=shape.radius, height=shape.length, sections=ROUND)
    return _capsule(shape)


def _capsule(shape: Capsule, n_faces: int = ROUND) -> Any:
    """Return a capsule centred at the origin, wherever trimesh places its centre."""
    mesh = trimesh.creation.capsule(height=shape.length, radius=shape.radius, count=[n_faces, n_faces // 2])
    mesh.apply_translation(-mesh.bounds.mean(axis=0))
    return mesh


def _surfaces(*parts: list[tuple[int, Part]]) -> list[Surface]:
    """Return a surface for each body, with all of its parts."""
    bodies: dict[int, list[Part]] = {}
    for body, part in itertools.chain(*parts):
        bodies.setdefault(body, []).append(part)
    return [_joined(body, own) for body, own in sorted(bodies.items())]


def _joined(body: int, parts: list[Part]) -> Surface:
    offsets = np.cumsum([0] + [len(vertices) for vertices, _ in parts[:-1]])
    faces = [faces + offset for (_, faces), offset in zip(parts, offsets, strict=True)]
    return Surface(body, np.concatenate([vertices for vertices, _ in parts]), np.concatenate(faces))


def _rails(robot: Robot, thickness: float, n_faces: int) -> list[tuple[int, Part]]:
    """Return a capsule along the travel of each prismatic joint, on the body before it, so that no gap opens."""
    found = []
    for body, row in enumerate(robot.links[:-1]):
        if row[PRISMATIC]:
            joint = int(row[SOURCE])
            ends = [row[MULTIPLIER] * limit + row[OFFSET] for limit in (robot.lower[joint], robot.upper[joint])]
            axis = row[:9].reshape(3, 3)[:, 2]
            start, end = (row[TRANSLATION] + value * axis for value in (min(*ends, 0.0), max(*ends, 0.0)))
            found.append((body, _rod(start, end, max(thickness * robot.reach, 1e-3), n_faces)))
    return found


def _rod(start: FloatArray, end: FloatArray, radius: float, n_faces: int) -> Part:
    """Return a capsule between two points (3,)."""
    length = float(np.linalg.norm(end - start))
    turned = _turn((end - start) / length) if length > 0.0 else np.eye(3)
    mesh = _capsule(Capsule(np.eye(4), radius, max(length, 1e-6)), n_faces)
    return np.asarray(mesh.vertices) @ turned.T + 0.5 * (start + end), np.asarray(mesh.faces, dtype=np.int64)


def stick_surfaces(robot: Robot, thickness: float = THIN, n_faces: int = FEW) -> list[Surface]:
    """Return a capsule for each body, from its own joint to the next joint or the tip.

    The radius is a share of the arm's reach. Thin capsules that are drawn many times need only a few faces.
    """
    zero = np.zeros((1, robot.dof))
    poses = body_poses(robot, zero)[0]
    ends = np.concatenate([poses[1:, :3, 3], robot.fk(zero)[:, :3, 3]])
    radius = max(thickness * robot.reach, 1e-3)
    sticks = []
    for body, (pose, end) in enumerate(zip(poses, ends, strict=True)):
        to_end = pose[:3, :3].T @ (end - pose[:3, 3])
        sticks.append((body, _rod(np.zeros(3), to_end, radius, n_faces)))
    return _surfaces(sticks, _rails(robot, thickness, n_faces))


def _turn(direction: FloatArray) -> FloatArray:
    """Return a rotation (3, 3) that maps the z axis to a direction (3,)."""
    across = np.cross(direction, np.eye(3)[int(np.argmin(np.abs(direction)))])
    across /= np.linalg.norm(across)
    return np.stack([across, np.cross(direction, across), direction], axis=1)
