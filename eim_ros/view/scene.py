"""3-d scene of the page: ghosts, the chosen arm, self-motion curves and the ground.

The ghosts are instances of one surface per body, so a redraw sends only poses and colours. Unused ghosts have
scale 0.

Bodies are drawn with their visuals, otherwise with their collision shapes, otherwise as capsules from joint to joint.
All bodies of an arm use the same kind. If a mesh file is missing, the next kind is used and a message gives the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import trimesh
import viser
from scipy.spatial.transform import Rotation

from eim_ros.core.errors import EimError
from eim_ros.ik.components import Component
from eim_ros.kinematics import Box, Capsule, Cylinder, Robot, Shape, Sphere
from eim_ros.kinematics.links import MeshReference, body_poses, body_shapes, link_shapes
from eim_ros.kinematics.meshes import find_mesh, read_mesh
from eim_ros.kinematics.urdf import read_urdf_source, urdf_folder
from eim_ros.view.live import Solutions, byte_colour, component_colour, light
from eim_ros.view.style import FAMILY_COLOURS, MUTED

FloatArray = npt.NDArray[np.float64]

THICK, THIN = 0.025, 0.006  # capsule radius as a share of the arm's reach
ROUND, FEW, COARSE = 16, 6, 1  # faces around a cylinder, faces around a stick, subdivisions of a sphere


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
        shape = placed.shape
        if isinstance(shape, MeshReference):
            vertices, faces = read_mesh(find_mesh(shape.filename, folder, package_paths), shape.scale)
        else:
            mesh = _primitive(shape)
            vertices, faces = np.asarray(mesh.vertices, dtype=np.float64), np.asarray(mesh.faces, dtype=np.int64)
        bodies.setdefault(placed.body, []).append((vertices @ placed.pose[:3, :3].T + placed.pose[:3, 3], faces))
    return [_joined(body, parts) for body, parts in sorted(bodies.items())]


def _primitive(shape: Shape) -> Any:
    if isinstance(shape, Box):
        return trimesh.creation.box(extents=shape.size)
    if isinstance(shape, Sphere):
        return trimesh.creation.icosphere(subdivisions=COARSE, radius=shape.radius)
    if isinstance(shape, Cylinder):
        return trimesh.creation.cylinder(radius=shape.radius, height=shape.length, sections=ROUND)
    return _capsule(shape)


def _capsule(shape: Capsule, n_faces: int = ROUND) -> Any:
    """Return a capsule centred at the origin, wherever trimesh places its centre."""
    mesh = trimesh.creation.capsule(height=shape.length, radius=shape.radius, count=[n_faces, n_faces // 2])
    mesh.apply_translation(-mesh.bounds.mean(axis=0))
    return mesh


def _joined(body: int, parts: list[tuple[FloatArray, npt.NDArray[np.int64]]]) -> Surface:
    offsets = np.cumsum([0] + [len(vertices) for vertices, _ in parts[:-1]])
    faces = [faces + offset for (_, faces), offset in zip(parts, offsets, strict=True)]
    return Surface(body, np.concatenate([vertices for vertices, _ in parts]), np.concatenate(faces))


def stick_surfaces(robot: Robot, thickness: float = THIN, n_faces: int = FEW) -> list[Surface]:
    """Return a capsule for each body, from its own joint to the next joint or the tip.

    The radius is a share of the arm's reach. Thin capsules that are drawn many times need only a few faces.
    """
    zero = np.zeros((1, robot.dof))
    poses = body_poses(robot, zero)[0]
    ends = np.concatenate([poses[1:, :3, 3], robot.fk(zero)[:, :3, 3]])
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
    """Return a rotation (3, 3) that maps the z axis to a direction (3,)."""
    across = np.cross(direction, np.eye(3)[int(np.argmin(np.abs(direction)))])
    across /= np.linalg.norm(across)
    return np.stack([across, np.cross(direction, across), direction], axis=1)


class ArmMeshes:
    """Arm drawn with its surfaces under a name such as "/chosen"; after the meshes, only poses and colours are sent."""

    def __init__(self, scene: viser.SceneApi, robot: Robot, surfaces: Sequence[Surface], name: str) -> None:
        self._robot, self._bodies = robot, [surface.body for surface in surfaces]
        self._root = scene.add_frame(name, show_axes=False)
        self._meshes = [
            scene.add_mesh_simple(f"{name}/body_{surface.body}", surface.vertices, surface.faces, color=(0, 0, 0))
            for surface in surfaces
        ]

    @property
    def visible(self) -> bool:
        return bool(self._root.visible)

    @visible.setter
    def visible(self, is_wanted: bool) -> None:
        self._root.visible = is_wanted

    def show(self, q: npt.NDArray[np.float64] | None, colour: str, opacity: float | None = None) -> None:
        """Show the arm in a configuration (dof,) and a colour; None keeps the current configuration."""
        poses = None if q is None else body_poses(self._robot, q)[0]
        wxyzs = None if poses is None else wxyzs_of(poses[:, :3, :3])
        for body, mesh in zip(self._bodies, self._meshes, strict=True):
            mesh.color = byte_colour(colour)
            mesh.opacity = opacity
            if poses is not None and wxyzs is not None:
                mesh.position, mesh.wxyz = poses[body, :3, 3], wxyzs[body]


def wxyzs_of(rotations: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the quaternions (n, 4), w first, of rotations (n, 3, 3)."""
    return np.roll(Rotation.from_matrix(rotations).as_quat(), 1, axis=1)


class Lines:
    """Set of lines with this thickness [m] that is always replaced as a unit."""

    def __init__(self, scene: viser.SceneApi, name: str, thickness: float) -> None:
        nothing = np.zeros((1, 2, 3))
        self._segments = scene.add_line_segments(
            name, nothing, nothing.astype(np.uint8), thickness=thickness, visible=False
        )

    @property
    def visible(self) -> bool:
        return bool(self._segments.visible)

    @visible.setter
    def visible(self, is_wanted: bool) -> None:
        self._segments.visible = is_wanted

    def draw(self, ways: Sequence[npt.NDArray[np.float64]], colours: npt.NDArray[np.uint8]) -> None:
        """Replace the lines (n_i, 3) [m] that are shown, at least one; their colours (n, 3) are in linear light."""
        segments = [np.stack([way[:-1], way[1:]], axis=1) for way in ways]
        self._segments.points = np.concatenate(segments).astype(np.float32)
        each = np.repeat(colours, [len(part) for part in segments], axis=0)
        self._segments.colors = np.repeat(each[:, None], 2, axis=1)
        self._segments.visible = True


STICKS, ARMS = 0.8, 0.22  # opacity of ghosts
THINNER = 0.4  # radius of a stick as a share of the radius of the thinnest body
FADED = 0.3  # opacity of the arm if there is no solution
FAINTEST, FAINT = (235, 237, 240), (215, 218, 223)
LINE = 0.006  # thickness of curves as a share of the arm's reach


class ArmScene:
    """Solutions of a target, drawn in the scene of a server with at most `n_ghosts` ghosts."""

    def __init__(self, scene: viser.SceneApi, robot: Robot, surfaces: Sequence[Surface], n_ghosts: int) -> None:
        self.robot, self.n_ghosts, self._scene = robot, n_ghosts, scene
        self._surfaces, self._palette = list(surfaces), light(FAMILY_COLOURS)
        self._point: int | None = None  # index of the skeleton point that moves most along self-motions
        size = robot.reach
        cell = 0.1 if size < 3.0 else 0.5
        scene.add_grid(
            "/ground", width=3 * size, height=3 * size, cell_size=cell, cell_color=FAINTEST, section_color=FAINT
        )
        self._curves = Lines(scene, "/curves", LINE * size)
        self._chosen = ArmMeshes(scene, robot, self._surfaces, "/chosen")
        self.show_ghosts_as("sticks")

    def show_ghosts_as(self, form: str) -> list[viser.BatchedMeshHandle]:
        """Show ghosts as "sticks" from joint to joint or as complete "arms", and return handles that can be clicked."""
        surfaces = self._surfaces if form == "arms" else stick_surfaces(self.robot, self._thin())
        self._moving = [surface for surface in surfaces if surface.body]  # the chosen arm already shows the fixed base
        self._ghosts = [self._instances(surface, ARMS if form == "arms" else STICKS) for surface in self._moving]
        return self._ghosts

    def _thin(self) -> float:
        """Return the radius of sticks as a share of the arm's reach; sticks are thinner than the arm itself."""
        widths = [float(np.ptp(surface.vertices, axis=0).min()) for surface in self._surfaces if surface.body]
        return min([THIN, *(THINNER * 0.5 * width / self.robot.reach for width in widths if width > 0.0)])

    def _instances(self, surface: Surface, opacity: float) -> viser.BatchedMeshHandle:
        return self._scene.add_batched_meshes_simple(
            f"/ghosts/body_{surface.body}",
            surface.vertices,
            surface.faces,
            np.tile([1.0, 0.0, 0.0, 0.0], (self.n_ghosts, 1)),
            np.zeros((self.n_ghosts, 3)),
            batched_scales=np.zeros(self.n_ghosts),
            batched_colors=np.zeros((self.n_ghosts, 3), dtype=np.uint8),
            lod="off",
            opacity=opacity,
            cast_shadow=False,
            receive_shadow=False,
        )

    def draw(
        self, solutions: Solutions, with_ghosts: bool = True, with_curves: bool = True, with_arm: bool = True
    ) -> None:
        """Show the solutions of a target."""
        self._draw_ghosts(solutions, with_ghosts)
        self._draw_curves(solutions, with_curves)
        self._chosen.visible = with_arm
        self.draw_chosen(solutions)

    def draw_chosen(self, solutions: Solutions) -> None:
        """Show the chosen solution in the colour of its component; without one, the faded nearest configuration."""
        if solutions.chosen is None:
            self._chosen.show(solutions.nearest, MUTED, FADED)
        else:
            self._chosen.show(solutions.chosen, component_colour(solutions.numbers[solutions.component]))

    def _draw_ghosts(self, solutions: Solutions, is_wanted: bool) -> None:
        n = min(len(solutions.positions), self.n_ghosts) if is_wanted else 0
        scales = np.zeros(self.n_ghosts, dtype=np.float32)
        scales[:n] = 1.0
        poses = body_poses(self.robot, solutions.positions[:n])
        colours = np.zeros((self.n_ghosts, 3), dtype=np.uint8)
        colours[:n] = self._palette[solutions.ghost_numbers[:n] % len(self._palette)]
        positions = np.zeros((poses.shape[1], self.n_ghosts, 3), dtype=np.float32)
        wxyzs = np.tile(np.array([1.0, 0.0, 0.0, 0.0], dtype=np.float32), (*positions.shape[:2], 1))
        if n:
            turned = wxyzs_of(poses[:, :, :3, :3].reshape(-1, 3, 3)).reshape(n, -1, 4)
            positions[:, :n], wxyzs[:, :n] = poses[:, :, :3, 3].swapaxes(0, 1), turned.swapaxes(0, 1)
        for surface, handle in zip(self._moving, self._ghosts, strict=True):
            if n:
                handle.batched_positions, handle.batched_wxyzs = positions[surface.body], wxyzs[surface.body]
                handle.batched_colors = colours
            handle.batched_scales = scales

    def _draw_curves(self, solutions: Solutions, is_wanted: bool) -> None:
        curves = [i for i, component in enumerate(solutions.components) if component.is_curve and len(component) > 1]
        curves.sort(key=lambda i: i == solutions.component)  # draw the chosen component last, over the others
        if not curves or not is_wanted:
            self._curves.visible = False
            return
        ways = [self.robot.skeleton(_closed(solutions.components[i])) for i in curves]
        if self._point is None:
            self._point = int(np.argmax(sum(np.linalg.norm(np.diff(way, axis=0), axis=2).sum(axis=0) for way in ways)))
        numbers = [solutions.numbers[i] % len(self._palette) for i in curves]
        self._curves.draw([way[:, self._point] for way in ways], self._palette[numbers])


def _closed(component: Component) -> FloatArray:
    return np.concatenate([component.positions, component.positions[: int(component.is_closed)]])
