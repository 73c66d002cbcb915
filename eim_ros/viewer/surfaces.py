"""What each body of an arm looks like: its visuals, else its collision shapes, else capsules from joint to joint.

One of these for the whole arm. Where a file is missing that the visuals name, the next are taken, and it is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import trimesh

from eim_ros.errors import EimError
from eim_ros.kinematics import Box, Capsule, Cylinder, Robot, Shape, Sphere
from eim_ros.kinematics.body_shapes import BodyShape, body_poses, body_shapes
from eim_ros.kinematics.link_shapes import MeshReference, link_shapes
from eim_ros.kinematics.mesh_files import find_mesh, read_mesh
from eim_ros.kinematics.urdf import read_urdf_source, urdf_folder

__all__ = ["THIN", "Surface", "arm_surfaces", "stick_surfaces"]

FloatArray = npt.NDArray[np.float64]

THICK, THIN = 0.025, 0.006  # radius of capsules from joint to joint, as a share of the arm's reach
ROUND, FEW, COARSE = 16, 6, 1  # faces around a cylinder and a stick, and subdivisions of a ball


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles of a body.

    Attributes
    ----------
    body : int
    vertices : (n, 3)
        In the body's frame [m].
    faces : (m, 3) int
    """

    body: int
    vertices: FloatArray
    faces: npt.NDArray[np.int64]


def arm_surfaces(
    robot: Robot, source: str | Path | None = None, package_paths: Sequence[str | Path] = ()
) -> tuple[list[Surface], str]:
    """Surfaces of the bodies of an arm that have any.

    Parameters
    ----------
    robot : Robot
    source : str or Path, optional
        Path or text of the description that the robot was read from: `Robot.urdf` has no visuals.
    package_paths : sequence of str or Path
        See `find_mesh`.

    Returns
    -------
    list of Surface
        At most one of each body.
    str
        Why the visuals are not shown, in words; empty where they are, or there are none.
    """
    told = ""
    if source is not None:
        try:
            folder = urdf_folder(source) or robot.folder
            found = _read(robot, link_shapes(read_urdf_source(source), "visual"), folder, package_paths)
            if found:
                return found, told
        except EimError as error:
            told = f"visuals are not shown: {error}"
    try:
        found = _read(robot, link_shapes(robot.urdf), robot.folder, package_paths)
    except EimError as error:
        found, told = [], told or f"collision shapes are not shown: {error}"
    return found or stick_surfaces(robot, THICK, ROUND), told


def _read(
    robot: Robot,
    links: dict[str, list[Shape | MeshReference]],
    folder: Path | None,
    package_paths: Sequence[str | Path],
) -> list[Surface]:
    bodies: dict[int, list[tuple[FloatArray, npt.NDArray[np.int64]]]] = {}
    for placed in body_shapes(robot, links):
        vertices, faces = _triangles(placed, folder, package_paths)
        bodies.setdefault(placed.body, []).append((vertices @ placed.pose[:3, :3].T + placed.pose[:3, 3], faces))
    return [_joined(body, parts) for body, parts in sorted(bodies.items())]


def _triangles(
    placed: BodyShape, folder: Path | None, package_paths: Sequence[str | Path]
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Vertices (n, 3) in the frame of the shape [m] and faces (m, 3)."""
    shape = placed.shape
    if isinstance(shape, MeshReference):
        return read_mesh(find_mesh(shape.filename, folder, package_paths), shape.scale)
    mesh = _primitive(shape)
    return np.asarray(mesh.vertices, dtype=np.float64), np.asarray(mesh.faces, dtype=np.int64)


def _primitive(shape: Shape) -> Any:
    if isinstance(shape, Box):
        return trimesh.creation.box(extents=shape.size)
    if isinstance(shape, Sphere):
        return trimesh.creation.icosphere(subdivisions=COARSE, radius=shape.radius)
    if isinstance(shape, Cylinder):
        return trimesh.creation.cylinder(radius=shape.radius, height=shape.length, sections=ROUND)
    return _capsule(shape)


def _capsule(shape: Capsule, n_faces: int = ROUND) -> Any:
    """About the origin, whatever trimesh takes for its middle."""
    mesh = trimesh.creation.capsule(height=shape.length, radius=shape.radius, count=[n_faces, n_faces // 2])
    mesh.apply_translation(-mesh.bounds.mean(axis=0))
    return mesh


def _joined(body: int, parts: list[tuple[FloatArray, npt.NDArray[np.int64]]]) -> Surface:
    offsets = np.cumsum([0] + [len(vertices) for vertices, _ in parts[:-1]])
    faces = [faces + offset for (_, faces), offset in zip(parts, offsets, strict=True)]
    return Surface(body, np.concatenate([vertices for vertices, _ in parts]), np.concatenate(faces))


def stick_surfaces(robot: Robot, thickness: float = THIN, n_faces: int = FEW) -> list[Surface]:
    """Of each body a capsule from its own joint to the next one, or to the tip, that it carries.

    Parameters
    ----------
    robot : Robot
    thickness : float
        Radius of the capsules, as a share of the arm's reach.
    n_faces : int
        Around each of them: what is thin and shown many times needs few.
    """
    zero = np.zeros((1, robot.dof))
    poses = body_poses(robot, zero)[0]
    ends = np.concatenate([poses[1:, :3, 3], robot.forward(zero)[:, :3, 3]])
    radius = max(thickness * robot.reach, 1e-3)
    surfaces = []
    for body, (pose, end) in enumerate(zip(poses, ends, strict=True)):
        to_end = pose[:3, :3].T @ (end - pose[:3, 3])
        length = float(np.linalg.norm(to_end))
        turned = _turn(to_end / length) if length > 0.0 else np.eye(3)
        mesh = _capsule(Capsule(np.eye(4), radius, max(length, 1e-6)), n_faces)
        vertices = np.asarray(mesh.vertices) @ turned.T + 0.5 * to_end
        surfaces.append(Surface(body, vertices, np.asarray(mesh.faces, dtype=np.int64)))
    return surfaces


def _turn(direction: FloatArray) -> FloatArray:
    """A rotation (3, 3) that takes z to a direction (3,)."""
    across = np.cross(direction, np.eye(3)[int(np.argmin(np.abs(direction)))])
    across /= np.linalg.norm(across)
    return np.stack([across, np.cross(direction, across), direction], axis=1)
