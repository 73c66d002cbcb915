"""3-d scene of the page: ghosts, the chosen arm, self-motion curves and the ground.

The ghosts are instances of one surface per body. Therefore, only poses and colours are sent when they change. Unused
ghosts have scale 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import trimesh
import viser
from scipy.spatial.transform import Rotation

from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Component
from eim_ros.kinematics import Box, Robot, Sphere, body_poses, pose_from, quaternion_from_matrix
from eim_ros.view.live import Solutions, byte_colour, component_colour, light
from eim_ros.view.state import MOST_OBSTACLES
from eim_ros.view.style import MUTED
from eim_ros.view.surfaces import THIN, Surfaces, stick_surfaces

STICKS, ARMS = 0.8, 0.22  # opacity of ghosts
THINNER = 0.4  # radius of a stick, relative to the radius of the thinnest body
FADED = 0.3  # opacity of the arm if there is no solution
FAINTEST, FAINT = (235, 237, 240), (215, 218, 223)
LINE = 0.006  # thickness of curves, relative to the reach of the arm
OBSTACLE, SEEN_THROUGH = (190, 120, 90), 0.55


class ArmMeshes:
    """Arm drawn with its surfaces under a name such as "/chosen". Meshes are sent only once."""

    def __init__(self, scene: viser.SceneApi, robot: Robot, surfaces: Surfaces, name: str) -> None:
        self._robot = robot
        self._grabbed = np.zeros(3)
        self._root = scene.add_frame(name, show_axes=False)
        self._meshes = {
            body: scene.add_mesh_simple(f"{name}/body_{body}", mesh.vertices, mesh.faces, color=(0, 0, 0))
            for body, mesh in surfaces.items()
        }

    @property
    def visible(self) -> bool:
        return bool(self._root.visible)

    @visible.setter
    def visible(self, is_wanted: bool) -> None:
        self._root.visible = is_wanted

    def show(self, q: npt.NDArray[np.float64] | None, colour: str, opacity: float | None = None) -> None:
        """Show the arm in a configuration (dof,) and a colour. None keeps the current configuration."""
        poses = None if q is None else body_poses(self._robot, q)[0]
        wxyzs = None if poses is None else wxyzs_of(poses[:, :3, :3])
        for body, mesh in self._meshes.items():
            mesh.color = byte_colour(colour)
            mesh.opacity = opacity
            if poses is not None and wxyzs is not None:
                mesh.position, mesh.wxyz = poses[body, :3, 3], wxyzs[body]

    def on_drag(self, act: Callable[[int, FloatArray, FloatArray], None]) -> None:
        """Call `act` while a user drags a body.

        The arguments are the body, the grabbed point (3,) in the frame of the body, and the point (3,) at the mouse
        pointer in the base frame [m].
        """
        for body, mesh in self._meshes.items():
            if body:
                mesh.on_drag("left")(functools.partial(self._drag, body, act))

    def _drag(self, body: int, act: Callable[[int, FloatArray, FloatArray], None], event: Any) -> None:
        if event.phase == "start":
            mesh = event.target
            rotation = Rotation.from_quat(np.roll(mesh.wxyz, -1)).as_matrix()
            self._grabbed = rotation.T @ (np.array(event.start_position) - mesh.position)
        act(body, self._grabbed, np.array(event.end_position))


def wxyzs_of(rotations: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the quaternions (n, 4), w first, of rotations (n, 3, 3)."""
    return np.roll(Rotation.from_matrix(rotations).as_quat(), 1, axis=1)


class Lines:
    """Set of lines with a given thickness [m]. All lines are replaced together."""

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
        """Replace the lines by at least one line (n_i, 3) [m]. The colours (n, 3) are in linear light."""
        segments = [np.stack([way[:-1], way[1:]], axis=1) for way in ways]
        self._segments.points = np.concatenate(segments).astype(np.float32)
        each = np.repeat(colours, [len(part) for part in segments], axis=0)
        self._segments.colors = np.repeat(each[:, None], 2, axis=1)
        self._segments.visible = True


def fitted_camera(
    points: FloatArray, margin: float, away: FloatArray, fov: float, aspect: float
) -> tuple[FloatArray, FloatArray]:
    """Return the eye (3,) and the point (3,) that it looks at, for a view that just contains points (n, 3).

    The margin [m] is kept around the points. `away` (3,) is the direction from the points to the eye, and `fov` is the
    vertical field of view [rad]. `aspect` is the ratio of width to height of the window.
    """
    away = away / np.linalg.norm(away)
    right = np.cross([0.0, 0.0, 1.0], away)
    right /= np.linalg.norm(right)
    axes = np.stack([right, np.cross(away, right), away])
    seen = points @ axes.T
    slope = np.tan(0.5 * fov)
    middle, distances = np.zeros(2), np.zeros(2)
    for axis, width in enumerate((slope * aspect, slope)):
        # a point is in the window if |x - middle| <= (distance - z) width
        high = (seen[:, axis] + margin + width * seen[:, 2]).max()
        low = (seen[:, axis] - margin - width * seen[:, 2]).min()
        middle[axis], distances[axis] = 0.5 * (high + low), 0.5 * (high - low) / width
    depth = float(seen[:, 2].mean())
    eye, aim = (np.array([*middle, z]) @ axes for z in (float(distances.max()), depth))
    return eye, aim


class ArmScene:
    """Solutions of a target, drawn in the scene of a server with up to `n_ghosts` ghosts.

    The names of its objects start with `root`. Each arm needs a different root, because browsers confuse meshes that
    quickly replace meshes of the same name.
    """

    def __init__(
        self, scene: viser.SceneApi, robot: Robot, surfaces: Surfaces, n_ghosts: int, root: str = "/arm"
    ) -> None:
        self.robot, self.n_ghosts, self._scene = robot, n_ghosts, scene
        self._surfaces, self._root, self._n_forms = surfaces, root, 0
        self._ghosts: dict[int, viser.BatchedMeshHandle] = {}
        self._point: int | None = None  # index of the skeleton point that moves most along self-motions
        size = robot.reach
        cell = 0.1 if size < 3.0 else 0.5
        scene.add_grid(
            "/ground", width=3 * size, height=3 * size, cell_size=cell, cell_color=FAINTEST, section_color=FAINT
        )
        self._curves = Lines(scene, f"{root}/curves", LINE * size)
        self._chosen = ArmMeshes(scene, robot, self._surfaces, f"{root}/chosen")
        self.show_ghosts_as("sticks")

    def show_ghosts_as(self, form: str) -> list[viser.BatchedMeshHandle]:
        """Show ghosts as "sticks" from joint to joint or as complete "arms". Return handles for clicks."""
        for ghosts in self._ghosts.values():
            ghosts.remove()
        self._n_forms += 1
        surfaces = self._surfaces if form == "arms" else stick_surfaces(self.robot, self._thin())
        opacity = ARMS if form == "arms" else STICKS
        # the chosen arm already shows the fixed base
        self._ghosts = {body: self._instances(body, mesh, opacity) for body, mesh in surfaces.items() if body}
        return list(self._ghosts.values())

    def on_drag(self, act: Callable[[int, FloatArray, FloatArray], None]) -> None:
        """Call `act` while a user drags a link of the chosen arm; see `ArmMeshes.on_drag`."""
        self._chosen.on_drag(act)

    def corners(self, q: FloatArray) -> FloatArray:
        """Return the corners (n, 3) of boxes around the bodies of the arm in a configuration (dof,) [m]."""
        poses = body_poses(self.robot, q)[0]
        boxes = ((body, trimesh.bounds.corners(mesh.bounds)) for body, mesh in self._surfaces.items())
        return np.concatenate([box @ poses[body, :3, :3].T + poses[body, :3, 3] for body, box in boxes])

    def _thin(self) -> float:
        """Return the radius of sticks, relative to the reach of the arm. Sticks are thinner than the arm."""
        widths = [float(mesh.extents.min()) for body, mesh in self._surfaces.items() if body]
        return min([THIN, *(THINNER * 0.5 * width / self.robot.reach for width in widths if width > 0.0)])

    def _instances(self, body: int, mesh: Any, opacity: float) -> viser.BatchedMeshHandle:
        return self._scene.add_batched_meshes_simple(
            f"{self._root}/ghosts{self._n_forms}/body_{body}",
            mesh.vertices,
            mesh.faces,
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
        """Show the chosen solution in the colour of its component. Without one, show the nearest configuration,
        faded.
        """
        if solutions.chosen is None:
            self._chosen.show(solutions.nearest, MUTED, FADED)
        else:
            self._chosen.show(solutions.chosen, component_colour(solutions.numbers[solutions.component]))

    def _draw_ghosts(self, solutions: Solutions, is_wanted: bool) -> None:
        n = min(len(solutions.positions), self.n_ghosts) if is_wanted else 0
        scales = np.zeros(self.n_ghosts, dtype=np.float32)
        scales[:n] = 1.0
        poses, numbers = body_poses(self.robot, solutions.positions[:n]), solutions.ghost_numbers[:n]
        colours = np.zeros((self.n_ghosts, 3), dtype=np.uint8)
        colours[:n] = palette(int(numbers.max(initial=0)) + 1)[numbers]
        positions = np.zeros((poses.shape[1], self.n_ghosts, 3), dtype=np.float32)
        wxyzs = np.tile(np.array([1.0, 0.0, 0.0, 0.0], dtype=np.float32), (*positions.shape[:2], 1))
        if n:
            turned = wxyzs_of(poses[:, :, :3, :3].reshape(-1, 3, 3)).reshape(n, -1, 4)
            positions[:, :n], wxyzs[:, :n] = poses[:, :, :3, 3].swapaxes(0, 1), turned.swapaxes(0, 1)
        for body, handle in self._ghosts.items():
            if n:
                handle.batched_positions, handle.batched_wxyzs = positions[body], wxyzs[body]
                handle.batched_colors = colours
            handle.batched_scales = scales

    def _draw_curves(self, solutions: Solutions, is_wanted: bool) -> None:
        curves = [i for i, component in enumerate(solutions.components) if component.is_curve and len(component) > 1]
        curves.sort(key=lambda i: i == solutions.component)  # the chosen component is drawn last, over all others
        if not curves or not is_wanted:
            self._curves.visible = False
            return
        ways = [self.robot.skeleton(_closed(solutions.components[i])) for i in curves]
        if self._point is None:
            self._point = int(np.argmax(sum(np.linalg.norm(np.diff(way, axis=0), axis=2).sum(axis=0) for way in ways)))
        numbers = [solutions.numbers[i] for i in curves]
        self._curves.draw([way[:, self._point] for way in ways], palette(max(numbers) + 1)[numbers])


@functools.lru_cache(maxsize=256)
def palette(n: int) -> npt.NDArray[np.uint8]:
    """Return the colours (n, 3) of the first components, in linear light."""
    return light([component_colour(number) for number in range(n)])


def _closed(component: Component) -> FloatArray:
    return np.concatenate([component.positions, component.positions[: int(component.is_closed)]])


class DraggedObstacles:
    """Boxes and spheres that users move with handles of a given size [m]. `act` is called after each change."""

    def __init__(self, scene: viser.SceneApi, handle_size: float, act: Callable[[], None]) -> None:
        self._scene, self._size, self._act = scene, handle_size, act
        self._items: list[tuple[viser.TransformControlsHandle, Box | Sphere]] = []

    @property
    def shapes(self) -> tuple[Box | Sphere, ...]:
        """Obstacles at their current positions, in the base frame."""
        return tuple(_moved(shape, handle) for handle, shape in self._items)

    def add(self, shape: Box | Sphere) -> None:
        """Add an obstacle at its own position."""
        if len(self._items) >= MOST_OBSTACLES:
            raise ConfigurationError(f"the page can have at most {MOST_OBSTACLES} obstacles: remove one first")
        name = f"/obstacles/{len(self._items)}"
        is_box, pose = isinstance(shape, Box), np.asarray(shape.pose)
        handle = self._scene.add_transform_controls(
            name,
            scale=self._size,
            depth_test=False,
            disable_rotations=not is_box,
            position=pose[:3, 3],
            wxyz=np.roll(quaternion_from_matrix(pose), 1),
        )
        if isinstance(shape, Box):
            x, y, z = map(float, np.asarray(shape.size))
            self._scene.add_box(f"{name}/shape", OBSTACLE, (x, y, z), opacity=SEEN_THROUGH)
        else:
            self._scene.add_icosphere(f"{name}/shape", shape.radius, OBSTACLE, opacity=SEEN_THROUGH)
        handle.on_update(lambda _: self._act())
        self._items.append((handle, shape))
        self._act()

    def remove_last(self) -> None:
        """Remove the newest obstacle, if any."""
        if self._items:
            self._items.pop()[0].remove()
            self._act()

    def clear(self) -> None:
        """Remove all obstacles."""
        while self._items:
            self.remove_last()


def _moved(shape: Box | Sphere, handle: viser.TransformControlsHandle) -> Box | Sphere:
    pose = pose_from(handle.position, np.roll(handle.wxyz, -1))
    return Box(pose, shape.size) if isinstance(shape, Box) else Sphere(pose[:3, 3], shape.radius)
