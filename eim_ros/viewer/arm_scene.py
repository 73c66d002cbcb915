"""The scene of the page: ghosts, the chosen arm, self-motion curves, the ground.

Bodies of all ghosts are instances of one surface, so that one redraw sends poses and colours alone; ghosts that are not
there at the moment have the size 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import viser

from eim_ros.ik.self_motions import Family
from eim_ros.kinematics import Robot
from eim_ros.kinematics.body_shapes import body_poses
from eim_ros.viewer.arm_meshes import ArmMeshes, wxyzs_of
from eim_ros.viewer.colours import family_colour, light
from eim_ros.viewer.lines import Lines
from eim_ros.viewer.solutions import Solutions
from eim_ros.viewer.surfaces import THIN, Surface, stick_surfaces
from eim_ros.viz.palette import FAMILY_COLOURS, MUTED

__all__ = ["ArmScene"]

FloatArray = npt.NDArray[np.float64]

STICKS, ARMS = 0.8, 0.22  # opacity of ghosts
THINNER = 0.4  # of the thinnest body
FADED = 0.3  # of the arm where there is no solution
FAINTEST, FAINT = (235, 237, 240), (215, 218, 223)
LINE = 0.006  # thickness of curves, as a share of the arm's reach


class ArmScene:
    """Draws solutions on a server's scene.

    Parameters
    ----------
    scene : viser.SceneApi
    robot : Robot
    surfaces : list of Surface
    n_ghosts : int
        Most of them.
    """

    def __init__(self, scene: viser.SceneApi, robot: Robot, surfaces: Sequence[Surface], n_ghosts: int) -> None:
        self.robot, self.n_ghosts = robot, n_ghosts
        self._surfaces = list(surfaces)
        self._palette = light(FAMILY_COLOURS)
        self._scene = scene
        self._point: int | None = None  # of the skeleton, that moves most along self-motions
        size = robot.reach
        scene.add_grid(
            "/ground", width=3 * size, height=3 * size, cell_size=_cell(size), cell_color=FAINTEST, section_color=FAINT
        )
        self._curves = Lines(scene, "/curves", LINE * size)
        self._chosen = ArmMeshes(scene, robot, self._surfaces, "/chosen")
        self.show_ghosts_as("sticks")

    def show_ghosts_as(self, form: str) -> list[viser.BatchedMeshHandle]:
        """As "sticks" from joint to joint, or as whole "arms": handles of those that can be clicked, made anew."""
        surfaces = self._surfaces if form == "arms" else stick_surfaces(self.robot, self._thin())
        self._moving = [surface for surface in surfaces if surface.body]  # the base stands still: the arm shows it
        self._ghosts = [self._instances(surface, ARMS if form == "arms" else STICKS) for surface in self._moving]
        return self._ghosts

    def _thin(self) -> float:
        """Radius of sticks, as a share of the arm's reach: thinner than the arm itself."""
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
        """Show the chosen one, in the colour of its family; without any the arm fades where it is."""
        if solutions.chosen is None:
            self._chosen.show(None, MUTED, FADED)
        else:
            self._chosen.show(solutions.chosen, family_colour(solutions.numbers[solutions.family]))

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
        curves = [i for i, family in enumerate(solutions.families) if family.is_curve and len(family) > 1]
        curves.sort(key=lambda i: i == solutions.family)  # the last is drawn over the others
        if not curves or not is_wanted:
            self._curves.visible = False
            return
        ways = [self.robot.skeleton(_closed(solutions.families[i])) for i in curves]
        if self._point is None:
            self._point = int(np.argmax(sum(np.linalg.norm(np.diff(way, axis=0), axis=2).sum(axis=0) for way in ways)))
        numbers = [solutions.numbers[i] % len(self._palette) for i in curves]
        self._curves.draw([way[:, self._point] for way in ways], self._palette[numbers])


def _closed(family: Family) -> FloatArray:
    return np.concatenate([family.positions, family.positions[:1]]) if family.is_closed else family.positions


def _cell(size: float) -> float:
    return 0.1 if size < 3.0 else 0.5
